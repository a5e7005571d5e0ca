"""What the examples measure of a finished run: intersections, strain, energy, rest.

All of it comes from the frames on disk and from the scene, never from the method that wrote them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from common import expect

import weft
from weft.check import check_cache
from weft.dynamics.springs import BEND, STRUCTURAL, from_world
from weft.world import World


@dataclass(frozen=True)
class Energy:
    """Energies of each frame in J, one array a kind."""

    kinetic: np.ndarray
    height: np.ndarray
    elastic: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return self.kinetic + self.height + self.elastic


class Measures:
    """What a cache holds, measured once."""

    def __init__(self, cache: weft.Cache) -> None:
        self.cache = cache
        self.world = World.compile(cache.scene)
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
    def energy(self) -> Energy:
        """Energies of the cloth that is free to move, frame by frame."""
        gravity, mass, free = np.array(self.cache.scene.forces.gravity), self.mass[self.free], self.free
        rows = []
        for frame in range(self.cache.frames):
            x, v = self.cache.positions(frame), self.cache.velocities(frame)
            rows.append(
                (
                    0.5 * float((mass * (v[self.cloth][free] ** 2).sum(axis=1)).sum()),
                    -float((mass * (x[self.cloth][free] @ gravity)).sum()),
                    self._elastic(x),
                )
            )
        return Energy(*np.array(rows).T)

    def _elastic(self, x: np.ndarray) -> float:
        springs = self.springs
        chosen = springs.kind != BEND
        a, b = (x[springs.pairs[chosen, end]] for end in range(2))
        stretch = np.linalg.norm(b - a, axis=1) - springs.rest[chosen]
        bent = np.linalg.norm(np.einsum("hk,hkd->hd", springs.weights, x[springs.quads]), axis=1) - springs.quad_rest
        return 0.5 * float((springs.stiffness[chosen] * stretch**2).sum() + (springs.quad_stiffness * bent**2).sum())

    @cached_property
    def speed(self) -> np.ndarray:
        """Root mean square speed of the free cloth in each frame, m/s."""
        return np.sqrt(2.0 * self.energy.kinetic / self.mass[self.free].sum())

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

    From `still_from` on (s) nothing drives it: its energy only falls. In the last half second it is slower than
    `speed` (m/s, root mean square), no rigid zone holds it, and its structural edges are within `strain` of rest.
    """
    cache, energy = measures.cache, measures.energy
    quiet, last = measures.frames_from(still_from), measures.frames_from((cache.frames - 1) / cache.fps - 0.5)
    swing = np.ptp(energy.total)
    # how far the energy ever rises above its least value so far
    risen = float((energy.total[quiet] - np.minimum.accumulate(energy.total[quiet])).max())
    expect(f"energy rises by {risen:.2e} J of {swing:.2e} J after {still_from} s", risen < 0.01 * swing)
    fastest = float(measures.speed[last].max())
    expect(f"the cloth still moves at {fastest:.3f} m/s in the last half second", fastest < speed)
    zones = int(cache.report["zones"][last].sum())
    expect(f"{zones} rigid zones hold the cloth at rest", zones == 0)
    strains = measures.strain(cache.frames - 1)
    worst = float(np.abs(strains).max())
    expect(f"a structural edge is {100 * worst:.1f} % off its rest length at rest", worst < strain)
    return {
        "speed at rest, m/s": f"{fastest:.4f}",
        "structural strain at rest": f"{strains.min():+.3f} .. {strains.max():+.3f}",
        "energy at the start and at rest, J": f"{energy.total[0]:.4f}, {energy.total[-1]:.4f}",
        "largest rise of energy once undriven, J": f"{risen:.1e}",
    }
