"""What the examples measure of a finished run: intersections, strain, energy, rest.

All of it comes from the frames on disk and from the scene, never from the method that wrote them.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
from common import expect

import weft
from weft.check import check_cache
from weft.dynamics.springs import STRUCTURAL, from_world
from weft.world import World


class Measures:
    """What a cache holds, measured once."""

    def __init__(self, cache: weft.Cache) -> None:
        self.cache = cache
        self.world = World(cache.scene)
        self.springs = from_world(self.world)
        count = self.world.cloth_vertex_count
        self.cloth = slice(0, count)
        self.mass = self.world.mass[:count]
        # vertices that are pinned at any time
        pinned = np.zeros(self.world.vertex_count, bool)
        for frame in range(cache.frames):
            pinned |= self.world.kinematics.fixed(self.world.vertex_count, frame / cache.fps)
        self.free = ~pinned[:count]

    @cached_property
    def intersections(self) -> int:
        """Edges that pass through triangles, colliders too, in all frames together."""
        return check_cache(self.cache).intersections

    def strain(self, frame: int) -> np.ndarray:
        """Strain of the structural edges that no pin holds at both ends: 0.1 is 10 % longer than at rest."""
        springs = self.springs
        chosen = (springs.kind == STRUCTURAL) & self.free[springs.pairs].any(axis=1)
        a, b = (self.cache.positions(frame)[springs.pairs[chosen, end]] for end in range(2))
        return np.linalg.norm(b - a, axis=1) / springs.rest[chosen] - 1.0

    @cached_property
    def energy(self) -> np.ndarray:
        """Kinetic energy and energy of height of the cloth that is free to move, J, frame by frame."""
        gravity, mass, cache = np.array(self.cache.scene.forces.gravity), self.mass[self.free], self.cache
        energies = []
        for frame in range(cache.frames):
            x, v = (values[self.cloth][self.free] for values in (cache.positions(frame), cache.velocities(frame)))
            energies.append((mass * (0.5 * (v**2).sum(axis=1) - x @ gravity)).sum())
        return np.array(energies)

    @cached_property
    def speed(self) -> np.ndarray:
        """How fast the free cloth moves from each frame to the next, root mean square, m/s."""
        cloth = [self.cache.positions(frame)[self.cloth][self.free] for frame in range(self.cache.frames)]
        moved = [((after - before) ** 2).sum(axis=1).mean() for before, after in pairwise(cloth)]
        return np.sqrt(moved) * self.cache.fps

    def frames_from(self, time: float) -> slice:
        """The frames from a time on."""
        return slice(min(round(time * self.cache.fps), self.cache.frames - 1), self.cache.frames)


def check_free(measures: Measures) -> dict[str, object]:
    """No intersection in any frame, and nothing that the method could not resolve."""
    report = measures.cache.report
    expect(f"{measures.intersections} intersections, where none may be", measures.intersections == 0)
    problems = [f"frame {frame}: {said}" for frame, said in enumerate(report["status"]) if said != "ok"]
    expect(f"{len(problems)} frames have problems, first {problems[:1]}", not problems)
    return {
        "vertices": measures.world.cloth_vertex_count,
        "frames": measures.cache.frames,
        "seconds a frame, median": f"{np.median(report['wall_time'][1:]):.3f}",
        "seconds a frame, mean": f"{np.mean(report['wall_time'][1:]):.3f}",
        "intersections": measures.intersections,
        "contacts a step": f"{report['contacts'].sum() / report['steps'].sum():.0f}",
        "collisions a step": f"{report['collisions'].sum() / report['steps'].sum():.2f}",
        "frames with zones": int((report["zones"] > 0).sum()),
        "largest stretch of any edge": f"{report['stretch'].max():.3f}",
    }


def check_rest(
    measures: Measures, *, still_from: float, speed: float = 0.02, strain: float = 0.12
) -> dict[str, object]:
    """The cloth comes to rest after everything that drives it has stopped.

    From `still_from` on (s) nothing drives it: kinetic energy and height together only fall, but for what springs give
    back. In the last half second it is slower than `speed` (m/s, root mean square), or twice that while a fold slips off
    another, no rigid zone holds it, and its structural edges are within `strain` of their rest lengths.
    """
    cache, energy = measures.cache, measures.energy
    quiet, last = measures.frames_from(still_from), measures.frames_from((cache.frames - 1) / cache.fps - 0.5)
    swing = np.ptp(energy)
    # how far the energy ever rises above its least value so far
    risen = float((energy[quiet] - np.minimum.accumulate(energy[quiet])).max())
    expect(f"energy rises by {risen:.2e} J of {swing:.2e} J after {still_from} s", risen < 0.05 * swing)
    usual, fastest = float(np.median(measures.speed[last])), float(measures.speed[last].max())
    still = usual < speed and fastest < 2.0 * speed
    expect(f"the cloth still moves at {usual:.3f}, at most {fastest:.3f} m/s in the last half second", still)
    zones = int(cache.report["zones"][last].sum())
    expect(f"{zones} rigid zones hold the cloth at rest", zones == 0)
    strains = measures.strain(cache.frames - 1)
    worst = float(np.abs(strains).max())
    expect(f"a structural edge is {100 * worst:.1f} % off its rest length at rest", worst < strain)
    return {
        "speed at rest, at most, m/s": f"{usual:.4f}, {fastest:.4f}",
        "structural strain at rest": f"{strains.min():+.3f} .. {strains.max():+.3f}",
        "energy at the start, at most, at rest, J": f"{energy[0]:.4f}, {energy.max():.4f}, {energy[-1]:.4f}",
        "largest rise of energy once undriven, J": f"{risen:.1e}",
    }
