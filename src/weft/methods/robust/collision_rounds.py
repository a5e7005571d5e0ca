"""Collisions of a step: rounds of impulses, then of all contacts and collisions together, then rigid impact zones.

In each round the motion along the average velocity is tested by continuous detection, which misses no collision, and the
collisions found are appended to the contacts (Bridson et al. 2002, sections 7.4 and 7.5).
"""

from collections.abc import Callable

from weft.methods.base import StepReport
from weft.methods.robust.contact_stage import PRESSED_SWEEPS, ContactStage
from weft.methods.robust.impact_zones import RIGID_ROUNDS, Zones, move_zones
from weft.methods.robust.step_motion import StepMotion
from weft.runtime.graph_cache import GraphCache
from weft.world import State, World

# rounds with few sweeps, then rounds in which all contacts and collisions are solved to the end together: the inelastic
# impact zones of Harmon et al. 2008, found by Gauss-Seidel
IMPULSE_ROUNDS = 5
INELASTIC_ROUNDS = 8
INELASTIC_SWEEPS = 20
# a round in which at most this fraction of the contacts collides, of more than so many contacts, has fewer sweeps: all
# contacts are swept for the few that collide
FEW_SWEEPS = 5
FEW_FRACTION = 1e-3
MANY_CONTACTS = 100_000
# collisions in the first round from which on a step is rather halved: so many, and this fraction of the cloth vertices
MANY_COLLISIONS = 20
MANY_COLLISIONS_FRACTION = 1 / 8


class CollisionRounds:
    """Changes the average velocity of a step until the motion along it is free of collisions."""

    def __init__(
        self, world: World, stage: ContactStage, motion: StepMotion, limit_strain: Callable[[State, float], None]
    ) -> None:
        self.world, self.stage, self.motion = world, stage, motion
        self.contacts, self.solver = stage.contacts, stage.solver
        self._limit_strain = limit_strain
        self._graphs = GraphCache(world.device)
        self.many_collisions = max(MANY_COLLISIONS, int(MANY_COLLISIONS_FRACTION * world.cloth_vertex_count))

    def find(self, state: State, dt: float, report: StepReport) -> int:
        """Move along the average velocity and append the pairs that would collide to the contacts; gives how many do."""
        known = self.contacts.count
        with self._graphs.fuse():
            self.motion.move(state, dt)
            found = self.stage.search.find_collisions(state.x, self.motion.x_end, self.contacts)
        report.collisions += found
        if found:
            self.stage.add_collisions(known, dt)
        return found

    def resolve(self, state: State, dt: float, report: StepReport, found: int, *, may_halve: bool) -> bool:
        """Stop the pairs that would collide, of which `found` were found; True if none is left."""
        for round_number in range(IMPULSE_ROUNDS + INELASTIC_ROUNDS):
            if round_number > 0:
                found = self.find(state, dt, report)
            if found == 0:
                return True
            known = self.contacts.count - found
            many = may_halve and round_number == 0 and found > self.many_collisions
            if many and self._new_pairs(known) > self.many_collisions:
                return False
            if round_number < IMPULSE_ROUNDS:
                self._limit_strain(state, dt)
                few = known > MANY_CONTACTS and found < FEW_FRACTION * known
                self.solver.sweep(self.contacts, self.motion.v, FEW_SWEEPS if few else PRESSED_SWEEPS)
            else:
                # without strain limits: if they pulled against the impulses, collisions would be left for ever
                self.solver.sweep(self.contacts, self.motion.v, INELASTIC_SWEEPS)
        return False

    def move_rigid_zones(self, state: State, dt: float, report: StepReport) -> None:
        """Let what is left move as rigid impact zones, which grow until the motion is free."""
        zones, v = Zones(), self.motion.v
        inverse_mass, target = self.world.inverse_mass.numpy(), self.world.target.numpy()
        for round_number in range(RIGID_ROUNDS):
            known = self.contacts.count
            if self.find(state, dt, report) == 0:
                break
            zones.add(self.contacts.vertices[known : self.contacts.count].numpy())
            velocities = v.numpy()
            possible = move_zones(zones, state.x.numpy(), velocities, inverse_mass, target, dt, round_number)
            v.assign(velocities)
            if not possible:
                report.problems.append("colliders that close on the cloth or deform hold it between them")
                break
        else:
            report.problems.append(f"collisions were left after {RIGID_ROUNDS} rounds of impact zones")
        report.zones += len(zones.groups())

    def _new_pairs(self, known: int) -> int:
        """How many of the collisions from `known` on were farther apart than a contact when the step began."""
        gaps = self.contacts.gaps[known : self.contacts.count].numpy()
        return int((gaps > self.world.largest_thickness).sum())
