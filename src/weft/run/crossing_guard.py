# mypy: disable-error-code="arg-type"
"""Does a frame end with intersections? A quick look at all of a world, exact where something may cross.

Triangles that share a vertex pass if all triangles around it do, at once (`vertex_fans`), or else pair by pair. Pairs that
share none come from a broad phase, at rest and without margin, apart from the search that the method uses, if their boxes
overlap. A pair passes if the floating-point filter is certain that neither triangle crosses the other. If all pass, as they do
in nearly every frame, nothing crosses; else exact arithmetic counts.
"""

import numpy as np
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.geometry.intersection import IntersectionFinder, intersection_finder
from weft.geometry.intersection_filter import DISJOINT, cross_size, judge, shared_vertices, side_of_normal
from weft.run.vertex_fans import Fans, is_flat_fan, make_fans
from weft.runtime import launch
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.func
def beside_plane(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether the corners of triangle f that g does not have are certainly on one side of the plane of g.

    Then the two triangles have no other point in common than a corner that they share: neither crosses the other.
    """
    a = x[g[0]]
    u = x[g[1]] - a
    v = x[g[2]] - a
    normal = wp.cross(u, v)
    size = cross_size(u, v)
    found = int(0)
    for k in range(3):
        if f[k] != g[0] and f[k] != g[1] and f[k] != g[2]:
            side = side_of_normal(normal, size, x[f[k]] - a)
            if side == 0 or side * found < 0:
                return False
            found = side
    return True


@wp.func
def may_cross(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether an edge of triangle f may cross triangle g, with which it has no vertex in common."""
    a = x[g[0]]
    b = x[g[1]]
    c = x[g[2]]
    for k in range(3):
        p = f[k]
        q = f[(k + 1) % 3]
        if p != g[0] and p != g[1] and p != g[2] and q != g[0] and q != g[1] and q != g[2]:
            if judge(x[p], x[q], a, b, c) != DISJOINT:
                return True
    return False


@wp.func
def pass_each_other(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether certainly neither of two triangles crosses the other."""
    if beside_plane(f, g, x) or beside_plane(g, f, x):
        return True
    return not may_cross(f, g, x) and not may_cross(g, f, x)


@wp.kernel
def look_at_pairs(
    first: int, pairs: wp.array[wp.vec2i], faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d], crossing: wp.array[int]
):
    """Set crossing[0] where a pair of triangles may cross."""
    pair = pairs[first + wp.tid()]
    if not pass_each_other(faces[pair[0]], faces[pair[1]], x):
        crossing[0] = 1


@wp.kernel
def look_at_fans(first: int, fans: Fans, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d], crossing: wp.array[int]):
    """Set crossing[0] where two triangles that share just one vertex may cross."""
    i = first + wp.tid()
    if not is_flat_fan(fans, i, x):
        stop = fans.offsets[i + 1]
        for k in range(fans.offsets[i], stop):
            f = faces[fans.faces[k]]
            for m in range(k + 1, stop):
                g = faces[fans.faces[m]]
                if shared_vertices(f, g) == 1:
                    if not pass_each_other(f, g, x):
                        crossing[0] = 1


class CrossingGuard:
    """Finds the intersections of a world's cloths with themselves, each other and colliders, frame after frame."""

    def __init__(self, world: World) -> None:
        self.world = world
        colliders = range(len(world.cloths), len(world.bodies))
        self._broad_phase = make_broad_phase("bvh", world.surface, passive=colliders)
        surface = world.surface
        itself = np.diagonal(surface.body_pairs.numpy())[surface.face_body.numpy()] != 0
        self._fans = make_fans(surface.faces.numpy(), itself, world.device)
        self._crossing = wp.zeros(1, dtype=int, device=world.device)
        self._finder: IntersectionFinder | None = None

    def find(self, x: wp.array) -> np.ndarray:
        """The intersections at the positions x: rows (edge vertex, edge vertex, face), as `IntersectionFinder.find` gives."""
        self._broad_phase.update(x, x, 0.0)
        pairs = self._broad_phase.triangle_pairs()
        self._crossing.zero_()
        device, inputs = self.world.device, [self.world.surface.faces, x, self._crossing]
        launch(look_at_pairs, len(pairs), [pairs, *inputs], device=device, grain=256)
        launch(look_at_fans, len(self._fans.vertices), [self._fans, *inputs], device=device, grain=64)
        if not int(self._crossing.numpy()[0]):
            return np.zeros((0, 3), dtype=np.int32)
        if self._finder is None:
            self._finder = intersection_finder(self.world)
        return self._finder.find(x.numpy())
