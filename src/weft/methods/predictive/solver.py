"""The step of `predictive`: contacts once at its start, then substeps of sweeps over all constraints and contacts."""

import math
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.methods.predictive import cuda_substeps, substeps
from weft.methods.predictive.bending import StepBending
from weft.methods.predictive.budget import StepBudget, never
from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.contacts import StepContacts, keep_nearest, read_pose, refresh_each
from weft.methods.predictive.cuda_graph_step import GraphStep
from weft.methods.predictive.fabric import Fabric
from weft.methods.predictive.guides import Goals, Guides, attach_world
from weft.methods.predictive.half_spaces import PADDING, HalfSpaces, find_each, place_shapes
from weft.methods.predictive.plan import LONGEST_SUBSTEP, ExecutionPlan, refined_substeps, usual_radius, usual_substeps
from weft.methods.predictive.search import PredictiveSearch
from weft.methods.predictive.state import PREDICTION, Settings, Vertices, begin_step, compile_regions, fill, move_freely
from weft.methods.predictive.tangles import Tangles
from weft.runtime import cooperative, launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.scene import Predictive
from weft.world import World

wp.set_module_options({"enable_backward": False})

# inputs of launches that are kept: of a step, of its prediction and of its fractions
MOST_INPUTS = 8
# mean displacement of a vertex against the cloth as a whole in one fraction, in units of the distance within which contacts are
# made: with less, steps take longer; with more, folds of collapsing cloth are missed
LARGEST_DISPLACEMENT = 1.0
# fractions of a step at most: a step in which cloth is thrown takes at most three searches and solves
MOST_FRACTIONS = 3
# longest time, s, for which contacts are found at once: at 15 Hz folds were missed that 24 Hz and more find
LONGEST_STEP = 1.0 / 24.0
# largest angle by which a collider turns in a fraction, rad: half-spaces move straight, which is wrong by a sixteenth then
LARGEST_TURN = 0.5
# how far a collider goes in a fraction, in radii of its thinnest part: cloth slides round a rod in that time, and half-spaces
# are those of the start. With two radii a cape that is struck at 10 m/s is left on the rod; with half as many garments are no
# better and steps take a fifth longer
LARGEST_SHIFT = 1.0
# how many times as many substeps a divided step has: with as many as others a runner's cape is caught between his legs now and
# then and a bar goes through a sheet, with twice as many neither is
RAPID = 2
# fractions of a long or turning step at most: 14 turns a second at 30 Hz need six
MOST_SHARES = 8


class PredictiveSolver:
    """Moves the cloths of a world; the caller of `advance` says where pins go and where colliders are."""

    def __init__(self, world: World, options: Predictive, plan: ExecutionPlan | None = None) -> None:
        self.world, self.options, self.device = world, options, world.device
        self.count = world.cloth_vertex_count
        self.plan = plan or ExecutionPlan.make(world, options)
        self.regions = compile_regions(world, options)
        self.fabric = Fabric(world)
        self.bending = StepBending(world)
        self.colliders = Colliders(world)
        self.goals = Goals(world, options.follow)
        self.guides = Guides(world, self.goals)
        self.air = Air.from_world(world)
        self.radius = options.static_radius or usual_radius(world)
        self.contacts = StepContacts(self.device)
        self._deep_view = self.contacts.deep.numpy()
        self.search = None if options.self_contacts == "none" else PredictiveSearch(world, self.regions)
        across = wp.zeros(0, dtype=wp.vec3i, device=self.device) if self.search is None else self.search.across
        spots = wp.zeros((7, self.count + PADDING), dtype=wp.float32, device=self.device)
        self.vertices = Vertices(world, self.regions, across, spots)
        self.halves = self._make_half_spaces()
        self.tangles = (
            Tangles(self.search.mesh, self.search.surface, self.vertices, self.halves) if self.search else None
        )
        self._usual_substeps = None if options.substeps else usual_substeps(world, options)
        self.device_settings = self._make_settings()
        self.settings = self.device_settings.numpy() if self.device.is_cpu else self.device_settings.numpy().copy()
        """the numbers of a step by name; they may be changed between steps"""
        self.usual_dt = 1.0 / world.scene.fps / options.steps
        """the step that `substeps` is for; longer ones have more, in proportion"""
        self.cached = False
        """whether contacts come from a cache"""
        end, end_v = (wp.zeros(self.count, dtype=wp.vec3d, device=self.device) for _ in range(2))
        self.predicted = end, end_v
        """positions and velocities at the end of the last prediction"""
        self.budget: StepBudget | None = None
        """what a step may take, if there is a limit; its caller says when a step begins and ends"""
        self.division = Division(self)
        self._cooperative = CooperativeLauncher(self.device)
        self._reservations = wp.zeros(self.count, dtype=wp.uint64, device=self.device)
        self._counters = wp.zeros(cuda_substeps.COUNTERS, dtype=int, device=self.device)
        self._never = wp.zeros(1, dtype=int, device=self.device)
        self.graph = (
            GraphStep(self, LARGEST_DISPLACEMENT, MOST_FRACTIONS) if self.plan.captured and self.search else None
        )
        """steps as CUDA graphs, where they can be"""
        self._whole = self._cloth = end
        self._inputs: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def set_colliders(self, world: World) -> None:
        """Have the colliders of another world from now on, whose cloths are the same."""
        self.colliders = Colliders(world)
        self.halves = self._make_half_spaces()
        if self.tangles is not None:
            self.tangles.halves = self.halves
        self.vertices.lost.fill_(-1)
        self._inputs.clear()

    def _make_half_spaces(self) -> HalfSpaces:
        by_vertex = self.plan.blocks > 0
        return HalfSpaces(
            self.count, self._most_half_spaces(), self.device, by_vertex=by_vertex, edges=self.colliders.has_thin
        )

    def attach(self, fixed: np.ndarray) -> None:
        """Attach all vertices to those that are held, which bending has to know too."""
        self.bending.pin()
        if self._usual_substeps == self.settings["substeps"][0]:
            # nobody asked for another number
            iterations = self.bending.iterations(LONGEST_SUBSTEP)
            self._usual_substeps = usual_substeps(self.world, self.options, iterations)
            self.settings["substeps"][0] = self._usual_substeps
        if self.options.attachments:
            self.guides.attach(attach_world(self.world, fixed, self.options.attachment_reach))

    def set_air(self, air: Air) -> None:
        """Another wind from now on."""
        self.air = air
        self.settings["windy"][0] = int(air.wind is not None)
        self.vertices.force.zero_()

    def cache_contacts(self, x: wp.array) -> int:
        """Find contacts in a pose, and solve these from now on; gives their number."""
        assert self.search is not None
        x = x[: self.count]
        self.search.find(x, x, self.options.cache_radius or self.radius, self.contacts, edges=False)
        fixed = self.world.inverse_mass.numpy()[: self.count] == 0.0
        keep_nearest(self.contacts, x.numpy(), self.regions, fixed)
        self.settings["contacts"][0] = self.contacts.count
        self.settings["cached"][0] = 1
        self.cached = True
        return self.contacts.count

    def read_pose(self) -> wp.array | None:
        """The pose in which contacts are cached, if it is not the start."""
        if self.options.cache_pose is None:
            return None
        pose = read_pose(self.world.scene, self.options.cache_pose, self.count)
        return wp.array(pose, dtype=wp.vec3d, device=self.device)

    def advance(
        self,
        x: wp.array,
        v: wp.array,
        target: wp.array,
        time: float,
        dt: float,
        *,
        divide: bool = True,
        begun: bool = False,
    ) -> None:
        """Move x and v forward by dt, in several fractions if need be and `divide` allows.

        `begun`: bending knows x already.

        Held vertices go to `target`, colliders from their start pose to their end.
        """
        settings, most, budget = self.settings, self.options.most_substeps, self.budget
        if budget is not None:
            budget.begin_fraction()
        usual = int(settings["substeps"][0])
        settings["dt"][0] = dt
        if dt != self.usual_dt and divide:
            settings["substeps"][0] = max(math.ceil(usual * dt / self.usual_dt - 1e-9), 1)
        if settings["windy"][0]:
            self.air.blow(x, v, time)
        if divide and most is not None:
            settings["substeps"][0] = refined_substeps(
                int(settings["substeps"][0]), most, self.fabric.largest_stretch(x)
            )
        self.bending.plan(dt, int(settings["substeps"][0]))
        if not begun:
            self.bending.follow(x)
        watched = self.tangles if not self.cached else None
        if watched is not None:
            watched.begin(self.cloth_of(x))
        fractions = self._least_fractions(dt) if divide and self.division.possible else 1
        if fractions == 1 and self.graph is not None and not self.cached and not self.tangled:
            fractions = self.graph.advance(x, v, target, divide=divide and self.division.possible)
        if fractions == 1:
            fractions = self._find_contacts(x, v, target, divide=divide)
        if fractions > 1:
            self.division.advance(fractions, x, v, target, time, dt)
            if self.graph is not None:
                self.graph.forget()
        elif fractions == 1 and budget is not None:
            self._solve_in_time(budget, x, v, target, dt)
        elif fractions == 1:
            self._solve(x, v, target)
        if watched is not None and fractions <= 1:
            late = never if budget is None else budget.late
            speed = float(settings["push_speed"][0])
            watched.resolve(self.cloth_of(x), v, dt, speed, armed=self._is_deep(), late=late)
        if budget is not None and fractions <= 1:
            budget.end_fraction()
        settings["substeps"][0] = usual

    @property
    def tangled(self) -> bool:
        """Whether cloth crossed cloth when that was looked at last."""
        return self.tangles is not None and self.tangles.count > 0

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step needs besides positions and velocities."""
        known = {**self.bending.saved(), "lost": self.vertices.saved(), "springs": self.fabric.saved()}
        if self.tangles is None:
            return known
        return {**known, "tangles": self.tangles.saved()}

    def forget_steps(self) -> None:
        """The cloth was put elsewhere: nothing that the last step left says anything about the next."""
        self.vertices.lost.fill_(-1)
        self.fabric.forget()
        if self.tangles is not None:
            self.tangles.forget()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take up what `saved` gave."""
        self.bending.restore(saved)
        self.vertices.restore(saved["lost"])
        self.fabric.restore(saved["springs"])
        if self.tangles is not None:
            self.tangles.restore(saved["tangles"])

    def _is_deep(self) -> bool:
        """Whether a contact of the step was not resolved."""
        if self.graph is not None and self.graph.counted is not None:
            return self.graph.deep
        return bool((self._deep_view if self.device.is_cpu else self.contacts.deep.numpy())[1])

    def _least_fractions(self, dt: float) -> int:
        """Into how many fractions a long step is divided, or one in which a collider turns or goes far."""
        fractions = math.ceil(dt / LONGEST_STEP - 1e-9)
        if self.colliders.count:
            fractions = max(fractions, math.ceil(self.colliders.largest_turn() / LARGEST_TURN))
            if not self.cached:
                fractions = max(fractions, math.ceil(self.colliders.largest_shift() / LARGEST_SHIFT - 1e-9))
        return self._affordable(min(fractions, MOST_SHARES))

    def _affordable(self, fractions: int) -> int:
        """Into how many of so many fractions the budget has time to divide a step."""
        return fractions if self.budget is None else self.budget.fractions(fractions)

    def counts(self) -> dict[str, int]:
        """What the last step solved: contacts of cloth with cloth and with colliders, and how many of them pushed."""
        count = int(self.settings["contacts"][0])
        known = None if self.graph is None else self.graph.counted
        if known is None:
            halves, pushed = self.halves.report()
            pushed += int(self.contacts.arrays.pushed.numpy()[:count].sum())
        else:
            halves, pushed = known
        cached = count if self.cached else 0
        return {
            "contacts": count + halves,
            "generated": count - cached + halves,
            "cached": cached,
            "with_colliders": halves,
            "pushed": pushed,
        }

    def cloth_of(self, x: wp.array) -> wp.array:
        """The vertices of the cloths; the same array for the same array, which makes launches cheap."""
        if x.shape[0] == self.count:
            return x
        if self._whole is not x:
            self._whole, self._cloth = x, x[: self.count]
        return self._cloth

    def _find_contacts(self, x: wp.array, v: wp.array, target: wp.array, *, divide: bool) -> int:
        """Find contacts of cloth with cloth, if there are any to find; or say into how many fractions to divide the step."""
        search, (end, _) = self.search, self.predicted
        if search is None or self.cached:
            return 1
        start = self.cloth_of(x)
        self._predict(x, v, target)
        if divide and self.division.possible:
            fractions = self._affordable(fractions_for(search.relative_displacement(start, end, self.radius)))
            if fractions > 1:
                return fractions
        kind: Any = self.options.self_contacts
        self.settings["contacts"][0] = search.find(start, end, self.radius, self.contacts, kind=kind)
        if self.tangles is not None:
            self.tangles.let_go(self.contacts)
        return 1

    def _predict(self, x: wp.array, v: wp.array, target: wp.array) -> None:
        """Where the cloth would go without contacts of cloth with cloth."""
        settings, (end, end_v) = self.settings, self.predicted
        settings["contacts"][0] = 0
        if not self.options.predict:
            self._send_settings()
            settings_and_vertices = self.inputs(x, v, target)[:2]
            launch(move_freely, self.count, [*settings_and_vertices, end], device=self.device)
            return
        wp.copy(end, x, count=self.count)
        wp.copy(end_v, v, count=self.count)
        substeps = int(settings["substeps"][0])
        settings["prediction"][0], settings["substeps"][0] = 1, -(-substeps // PREDICTION)
        self._solve(end, end_v, target)
        settings["prediction"][0], settings["substeps"][0] = 0, substeps

    def _solve(self, x: wp.array, v: wp.array, target: wp.array) -> None:
        """All substeps with the contacts that were found."""
        self._send_settings()
        inputs = self.inputs(x, v, target)
        prediction = bool(self.settings["prediction"][0])
        self.prepare_fabric(int(self.settings["substeps"][0]), prediction=prediction)
        if not self.plan.blocks:
            work = cooperative.MIN_PARALLEL_ITEMS if self.plan.shared else 1
            self._cooperative.launch(substeps.advance, 1, inputs, work=work)
            while self.halves.grow_if_full():
                self._cooperative.launch(substeps.advance, 1, self.inputs(x, v, target), work=work)
            return
        self.begin(inputs)
        self.find_half_spaces(inputs)
        while self.halves.grow_if_full():
            inputs = self.inputs(x, v, target)
            self.find_half_spaces(inputs)
        if self.cached:
            launch(refresh_each, self.contacts.count, [self.contacts.arrays, inputs[1]], device=self.device)
        self.launch_substeps(inputs)
        if not prediction:
            wp.copy(self.colliders.start, self.colliders.end)

    def _solve_in_time(self, budget: StepBudget, x: wp.array, v: wp.array, target: wp.array, dt: float) -> None:
        """Do as many of the substeps as the budget has time for."""
        wanted, size = int(self.settings["substeps"][0]), self.count + int(self.settings["contacts"][0])
        substeps = self.settings["substeps"][0] = budget.substeps(wanted, size)
        self.bending.plan(dt, substeps)
        self._solve(x, v, target)
        budget.solved(substeps, size)

    def begin(self, inputs: tuple[Any, ...]) -> None:
        """CUDA: vertices at the start of the step, and where nothing would stop them."""
        launch(begin_step, self.count, inputs[:2], device=self.device)

    def find_half_spaces(self, inputs: tuple[Any, ...]) -> None:
        """CUDA: half-spaces of all vertices."""
        settings, vertices, halves, colliders = inputs[0], inputs[1], self.halves.arrays, self.colliders.arrays
        launch(place_shapes, self.colliders.count, [colliders, halves], device=self.device)
        launch(find_each, self.count, [settings, vertices, colliders, halves], device=self.device, grain=128)

    def prepare_fabric(self, substeps: int, *, prediction: bool) -> None:
        """What the springs of all substeps have in common."""
        self.fabric.prepare(float(self.settings["dt"][0] / substeps), prediction=prediction)

    def launch_substeps(self, inputs: tuple[Any, ...]) -> None:
        """CUDA: all substeps; contacts and half-spaces were found."""
        self._cooperative.launch_each(cuda_substeps.advance_on_cuda, self.plan.blocks, inputs)

    def inputs(self, x: wp.array, v: wp.array, target: wp.array) -> tuple[Any, ...]:
        """The inputs of the kernel of all substeps: the same tuple where nothing changed, which makes the launch cheap."""
        guides, contacts, halves = self.guides.arrays, self.contacts.arrays, self.halves.arrays
        key = tuple(map(id, (x, v, target, self.air.force, self.bending.arrays, guides, contacts, halves)))
        inputs = self._inputs.get(key)
        if inputs is None:
            vertices = self.vertices.arrays(x, v, target, self.air)
            fabric = self.fabric.arrays[x is self.predicted[0]]
            last = (self.colliders.arrays, *([self._reserving(x)] if self.plan.blocks else []))
            inputs = (self.device_settings, vertices, fabric, self.bending.arrays, guides, contacts, halves, *last)
            if len(self._inputs) > MOST_INPUTS:
                self._inputs.clear()
            self._inputs[key] = inputs
        return inputs

    def _reserving(self, x: wp.array) -> Any:
        """What contacts need on CUDA, and whether the step is to be done."""
        stops = self.graph is not None and x is not self.predicted[0]
        return fill(
            cuda_substeps.Reservations,
            masks=self.contacts.masks,
            reservations=self._reservations,
            counters=self._counters,
            stop=self.graph.reported if self.graph is not None and stops else self._never,
        )

    def _most_half_spaces(self) -> int:
        """How many half-spaces a vertex can have: one a collider, and one an edge for each thin one."""
        edges = np.diff(self.vertices.neighbour_offsets.numpy()).max(initial=0) if self.colliders.has_thin else 0
        return self.colliders.count * (1 + int(edges))

    def _send_settings(self) -> None:
        if not self.device.is_cpu:
            self.device_settings.assign(self.settings)
        if self.graph is not None:
            self.graph.forget()

    def _make_settings(self) -> wp.array:
        world, options, forces = self.world, self.options, self.world.scene.forces
        settings = fill(
            Settings,
            dt=0.0,
            gravity=wp.vec3d(*forces.gravity),
            air_damping=forces.air_damping,
            push_speed=options.push_speed,
            radius=self.radius,
            collider_thickness=world.scene.thickness,
            friction=1.0,
            vertices=world.cloth_vertex_count,
            substeps=options.substeps or self._usual_substeps,
            sweeps=options.iterations,
            contacts=0,
            cached=0,
            windy=int(forces.wind is not None),
            prediction=0,
        )
        return wp.array([settings], dtype=Settings, device=self.device)


def fractions_for(relative_displacement: float) -> int:
    """How many fractions a step needs, given how far the mean vertex moves besides the rigid motion of all cloth."""
    if not math.isfinite(relative_displacement):
        return 1
    return min(max(math.ceil(relative_displacement / LARGEST_DISPLACEMENT), 1), MOST_FRACTIONS)


@wp.kernel
def interpolate(
    first: int, start: wp.array[wp.vec3d], end: wp.array[wp.vec3d], share: wp.float64, found: wp.array[wp.vec3d]
):
    """Points between start and end."""
    i = first + wp.tid()
    found[i] = start[i] + share * (end[i] - start[i])


def poses_between(start: np.ndarray, end: np.ndarray, centres: np.ndarray, share: float) -> np.ndarray:
    """Rigid poses (k, 4, 4) after a share of the step: centres move straight, and bodies rotate at a constant rate."""
    first, last = start[:, :3, :3], end[:, :3, :3]
    turn = last @ first.transpose(0, 2, 1)
    axis = 0.5 * np.stack(
        [turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(axis, axis=1)
    angle = share * np.arctan2(sine, 0.5 * (np.trace(turn, axis1=1, axis2=2) - 1.0))
    axis /= np.maximum(sine, 1e-300)[:, None]
    cross = np.cross(np.eye(3)[None], axis[:, None])
    rotation = np.eye(3) + np.sin(angle)[:, None, None] * cross + (1.0 - np.cos(angle))[:, None, None] * cross @ cross
    poses = end.copy()
    poses[:, :3, :3] = rotation @ first
    places = [(pose[:, :3, :3] @ centres[..., None])[..., 0] for pose in (start, end, poses)]
    came, goes = places[0] + start[:, :3, 3], places[1] + end[:, :3, 3]
    poses[:, :3, 3] = (1.0 - share) * came + share * goes - places[2]
    return poses


class Division:
    """Steps in several fractions, one after another; colliders, pins and goals go straight through them.

    Contacts found at the start of a step hold for all of it. Where cloth moves against itself by many times the distance within
    which contacts are made, as it does when it collapses, folds form that no search at the start could foresee.
    """

    def __init__(self, solver: PredictiveSolver) -> None:
        self.solver = solver
        self._start, self._target = (wp.zeros(solver.count, dtype=wp.vec3d, device=solver.device) for _ in range(2))

    @property
    def possible(self) -> bool:
        """Not where the mesh of a collider deforms: its tree is that of the start."""
        return not self.solver.colliders.deforming

    def advance(self, fractions: int, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float) -> None:
        """Do a step in so many fractions; afterwards settings, poses and goals are as after one undivided step."""
        solver = self.solver
        colliders, goals, settings = solver.colliders, solver.goals, solver.settings
        substeps = int(settings["substeps"][0])
        wp.copy(self._start, x, count=solver.count)
        poses = colliders.start.numpy().copy(), colliders.end.numpy().copy()
        goal_starts, goal_ends = goals.starts.numpy().copy(), goals.ends.numpy().copy()
        settings["substeps"][0] = -(-RAPID * substeps // fractions)
        for k in range(fractions):
            before, after = k / fractions, (k + 1) / fractions
            if solver.budget is not None:
                solver.budget.fractions_left = fractions - k
            launch(interpolate, solver.count, [self._start, target, after, self._target], device=solver.device)
            colliders.end.assign(poses_between(*poses, colliders.centres, after))
            for array, share in ((goals.starts, before), (goals.ends, after)):
                array.assign(goal_starts + share * (goal_ends - goal_starts))
            solver.advance(x, v, self._target, time + before * dt, dt / fractions, divide=False, begun=k == 0)
        colliders.start.assign(poses[1])
        colliders.end.assign(poses[1])
        goals.starts.assign(goal_starts)
        goals.ends.assign(goal_ends)
        settings["substeps"][0], settings["dt"][0] = substeps, dt
