"""Zones of vertices that go through a step as rigid bodies, so that nothing crosses between them (Provot 1997).

Kernels join vertices to zones; the rest is on the host: few steps have zones, and few vertices are in them.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.methods.predictive.cores import TORN
from weft.methods.predictive.half_spaces import HalfSpaces

wp.set_module_options({"enable_backward": False})

# weight of a held vertex in the motion of a zone, where the mean vertex has 1: all others go with it
HELD = 1e6
# half-spaces of a zone that are met one after another at most
PROJECTIONS = 32
# how much deeper in a collider is no deeper, m
ROUNDING = 1e-6


@wp.func
def zone_of(i: int, zones: wp.array[int]) -> int:
    """The first vertex of the zone of vertex i."""
    root = int(i)
    while zones[root] != root:
        root = zones[root]
    return root


@wp.func
def join_zones(i: int, j: int, zones: wp.array[int]):
    """Make one zone of those of two vertices: of two first vertices the later one refers to the earlier one."""
    a = int(i)
    b = int(j)
    joined = bool(False)
    while not joined:
        a = zone_of(a, zones)
        b = zone_of(b, zones)
        low = wp.min(a, b)
        high = wp.max(a, b)
        # on CUDA another thread may have joined the zone meanwhile
        joined = low == high or wp.atomic_cas(zones, high, high, low) == high


class Planes(NamedTuple):
    """Half-spaces of vertices, or of points on edges."""

    vertices: np.ndarray
    others: np.ndarray
    """the other end of an edge, -1 for none"""
    weights: np.ndarray
    """of the vertex in the point that is kept out"""
    normals: np.ndarray
    thickness: np.ndarray
    """distance of the half-space from the collider"""
    offsets: np.ndarray
    """how far out the point is to be at the start of the step"""
    moves: np.ndarray
    """and how much farther at its end"""

    def outward(self, x: np.ndarray) -> np.ndarray:
        """How far out the point of each half-space is."""
        w = self.weights[:, None]
        at = np.where(self.others[:, None] < 0, x[self.vertices], w * x[self.vertices] + (1.0 - w) * x[self.others])
        found: np.ndarray = (self.normals * at).sum(axis=1)
        return found

    def keep_out(self, was: np.ndarray, x: np.ndarray) -> None:
        """Move points of x back that a move from `was`, after the step, took into half-spaces: out of the deepest of each."""
        depth = np.minimum(self.offsets + self.moves, self.outward(was)) - self.outward(x)
        # both ends of an edge have their share of its depth
        w = np.where(self.others < 0, 1.0, self.weights)
        depth = np.maximum(depth, 0.0) * w / (w**2 + (1.0 - w) ** 2)
        order = np.argsort(depth, kind="stable")
        out = np.zeros_like(x)
        out[self.vertices[order]] = depth[order, None] * self.normals[order]
        x += out


def planes_of(halves: HalfSpaces) -> Planes:
    """The half-spaces of the last step."""
    places, arrays = halves.places(), halves.arrays
    names = ("vertices", "others", "weights", "normals", "thickness", "offsets")
    vertices, others, weights, normals, thickness, offsets = (getattr(arrays, name).numpy()[places] for name in names)
    return Planes(vertices, others, weights, normals, thickness, thickness + offsets[:, 0], offsets[:, 1])


class Step(NamedTuple):
    """A step as it was before anything is undone."""

    start: np.ndarray
    """(n, 3) positions"""
    end: np.ndarray
    velocity: np.ndarray
    weight: np.ndarray
    """of each vertex, see `weights_of`"""
    edges: np.ndarray
    rest: np.ndarray
    """lengths of the edges at rest"""
    planes: Planes
    dt: float


def first_of_each(zones: np.ndarray) -> np.ndarray:
    """The first vertex of the zone of each vertex, where each vertex refers to an earlier one, or to itself."""
    while (zones[zones] != zones).any():
        zones = zones[zones]
    return zones


def weights_of(inverse_mass: np.ndarray) -> np.ndarray:
    """How much each vertex counts in the motion of a zone: by its mass, the mean vertex 1."""
    free = inverse_mass > 0.0
    mass = np.divide(1.0, inverse_mass, out=np.zeros(len(free)), where=free)
    return np.where(free, mass / (mass[free].mean() if free.any() else 1.0), HELD)


def rotation_between(start: np.ndarray, end: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The rotation of the rigid motion from start to end that fits best (Kabsch)."""
    w = weight[:, None] / weight.sum()
    covariance = (end - (w * end).sum(axis=0)).T @ (w * (start - (w * start).sum(axis=0)))
    # about a line of vertices any rotation fits: the least one is taken
    u, _, vt = np.linalg.svd(covariance + 1e-8 * np.linalg.norm(covariance) * np.eye(3))
    u[:, 2] *= np.linalg.det(u @ vt)
    turn: np.ndarray = u @ vt
    return turn


def rigid_zones(zones: np.ndarray, step: Step) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities at the end of a step through which the vertices of each zone went as a rigid body.

    `zones` has the first vertex of the zone of each vertex. A zone turns as all cloth together does: a few vertices that have
    just crossed say little about a rotation, and tumble. It stays out of colliders as far as its vertices were out of them.
    """
    turn = rotation_between(step.start, step.end, step.weight)
    large = np.bincount(zones, minlength=len(zones)) > 1
    vertices = np.flatnonzero(large[zones])
    number = (np.cumsum(large) - 1)[zones[vertices]]
    count, w = int(large.sum()), step.weight[vertices]

    def mean(rows: np.ndarray) -> np.ndarray:
        sums = np.stack([np.bincount(number, w * rows[:, k], count) for k in range(3)], axis=1)
        return sums / np.bincount(number, w, count)[:, None]

    home = step.start.copy()
    home[vertices] = home[vertices] @ turn.T
    offset, drift = mean(step.end[vertices] - home[vertices]), mean(step.velocity[vertices])
    arm = home[vertices] - mean(home[vertices])[number]
    spin = 0.5 / step.dt * np.array([turn[k - 1, k - 2] - turn[k - 2, k - 1] for k in range(3)])

    held = np.bincount(number, w == HELD, count) > 0
    of_vertex = np.full(len(zones), -1)
    of_vertex[vertices] = np.where(held[number], -1, number)
    offset += way_out(of_vertex, step, home, offset)
    free = w < HELD
    vertices, number = vertices[free], number[free]
    end, velocity = step.end.copy(), step.velocity.copy()
    end[vertices] = home[vertices] + offset[number]
    velocity[vertices] = drift[number] + np.cross(spin, arm[free])
    return end, velocity


def way_out(zone: np.ndarray, step: Step, home: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """How much farther each zone has to go than by its offset from `home`, so that no vertex enters a collider, (zones, 3).

    `zone` is the number of the zone of each vertex, -1 where it has none that could move. The half-space of a zone that is
    missed most is met first, then the next; a motion that meets all of them is found if there is one.
    """
    more = np.zeros_like(offset)
    near = (zone[step.planes.vertices] >= 0) & (
        (step.planes.others < 0) | (zone[step.planes.others] == zone[step.planes.vertices])
    )
    if not near.any():
        return more
    planes = Planes(*(rows[near] for rows in step.planes))
    number = zone[planes.vertices]
    # what is too near at the start comes no nearer
    least = np.minimum(planes.offsets, planes.outward(step.start)) + planes.moves - planes.outward(home)
    for _ in range(PROJECTIONS):
        missed = least - (planes.normals * (offset + more)[number]).sum(axis=1)
        order = np.argsort(missed, kind="stable")
        worst = np.full(len(offset), -1)
        worst[number[order]] = order
        worst = worst[worst >= 0]
        worst = worst[missed[worst] > 0.0]
        if not len(worst):
            break
        more[number[worst]] += missed[worst, None] * planes.normals[worst]
    return more


def loose_vertices(zones: np.ndarray, step: Step, moved: np.ndarray) -> np.ndarray:
    """Which vertices had better not go with their zones.

    Those with an edge that was stretched far and would stay so, since zone and springs would pull each other on for ever; and
    those that would be driven into a collider, which tears cloth.
    """
    a, b = step.edges.T
    before, free, length = (np.linalg.norm(x[a] - x[b], axis=1) for x in (step.start, step.end, moved))
    far = (np.minimum(before, length) > float(TORN) * step.rest) & (length > free)
    loose = np.zeros(len(zones), bool)
    loose[step.edges[far]] = True

    planes = step.planes
    surface = planes.offsets + planes.moves - planes.thickness
    deep = planes.outward(moved) < np.minimum(planes.outward(step.end), surface) - ROUNDING
    loose[planes.vertices[deep]] = True
    return loose & (np.bincount(zones, minlength=len(zones))[zones] > 1)
