"""The search for contacts of cloth with cloth, once at the start of a step (Lewin 2018, sections 4.1 to 4.6).

A broad phase lists pairs of features, each once (rep-tri: a triangle lists only the vertices and edges that it owns), and only
between regions that collide; `weft.methods.predictive.contacts` says which of them make a contact.
"""

# mypy: disable-error-code="arg-type, assignment"

from typing import Any, Literal

import numpy as np
import warp as wp

from weft.broad_phase.trees import Bvh
from weft.contact.step_search import sewn_groups
from weft.methods.base import exact_broad_phase
from weft.methods.predictive.contacts import EDGE_EDGE, POINT_POINT, POINT_TRIANGLE, SearchSurface, StepContacts
from weft.methods.predictive.list_search import ListSearch, SearchRoom
from weft.methods.predictive.search_cpu import CpuSearch
from weft.methods.predictive.state import Regions, fill
from weft.runtime import launch
from weft.runtime.compaction import block_sum, block_sum_vector
from weft.runtime.cooperative import BLOCK
from weft.runtime.graph_cache import fork_join
from weft.runtime.launch import launch_blocks
from weft.world import Surface, World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.kernel
def remove_rigid_rotation(
    first: int,
    count: int,
    threads: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    ends: wp.array[wp.vec3d],
    relative_displacement: wp.array[wp.float64],
):
    """Where vertices would end without the rotation of all of them together, and their mean displacement besides rigid motion.

    One item on the CPU, a block on CUDA. The rotation is that of a rigid body with the same angular momentum; what has no
    extent does not rotate.
    """
    begin = first + wp.tid()
    each = wp.float64(1.0) / wp.float64(count)
    centre = wp.vec3d()
    drift = wp.vec3d()
    for i in range(begin, count, threads):
        centre += each * x[i]
        drift += each * (end[i] - x[i])
    centre = block_sum_vector(centre)
    drift = block_sum_vector(drift)
    moment = wp.vec3d()
    squares = wp.vec3d()
    products = wp.vec3d()
    for i in range(begin, count, threads):
        arm = x[i] - centre
        moment += wp.cross(arm, end[i] - x[i] - drift)
        squares += wp.cw_mul(arm, arm)
        products += wp.vec3d(arm[1] * arm[2], arm[2] * arm[0], arm[0] * arm[1])
    moment = block_sum_vector(moment)
    squares = block_sum_vector(squares)
    products = block_sum_vector(products)
    size = squares[0] + squares[1] + squares[2]
    inertia = wp.mat33d(
        size - squares[0], -products[2], -products[1],
        -products[2], size - squares[1], -products[0],
        -products[1], -products[0], size - squares[2],
    )  # fmt: skip
    turn = wp.vec3d()
    if wp.determinant(inertia) > wp.float64(8e-12) * size * size * size:
        turn = wp.inverse(inertia) * moment
    path = ZERO
    for i in range(begin, count, threads):
        ends[i] = end[i] - wp.cross(turn, x[i] - centre)
        path += wp.length(ends[i] - x[i] - drift)
    path = block_sum(path)
    if begin == 0:
        relative_displacement[0] = each * path


class PredictiveSearch:
    """Finds the contacts of a step; buffers are kept between steps."""

    def __init__(self, world: World, regions: Regions) -> None:
        count, self.device = world.cloth_vertex_count, world.device
        mesh = Surface.from_arrays(
            count, world.cloth_faces, face_body=regions.face_region, body_pairs=regions.collide, device=world.device
        )
        self.mesh = mesh
        self.broad_phase = exact_broad_phase(world, mesh, "predictive")
        self.largest_thickness = world.largest_thickness
        self.surface, self.across = _make_surface(world, regions, mesh)
        """across: for each corner of each triangle the triangle across the opposite edge, -1 for none in the same region"""
        self.lists = ListSearch(self.surface, self.device)
        # a broad phase that the scene names is used, if only to compare it with others
        own = self.device.is_cpu and len(world.cloth_faces) > 0 and world.scene.broad_phase is None
        self.cpu = CpuSearch(self.broad_phase, self.surface) if own else None
        """the search of a CPU for triangles and edges; where there is none the lists of the broad phase are searched"""
        self.mean_displacement = wp.zeros(1, dtype=wp.float64, device=self.device)
        """of a vertex besides the rigid motion of all cloth, in the step whose rotation was removed last"""
        self._mean_view = self.mean_displacement.numpy() if self.device.is_cpu else None
        self._ends = wp.zeros(count, dtype=wp.vec3d, device=self.device)

    def find(
        self,
        x: wp.array,
        end: wp.array,
        radius: float,
        contacts: StepContacts,
        *,
        kind: Literal["triangles", "points"] = "triangles",
        edges: bool = True,
    ) -> int:
        """Replace the contacts by those of a step from x to the predicted `end`; gives their number.

        "points" are vertices with vertices; "triangles" are vertices with triangles and, with `edges`, edges with edges.
        """
        reach = self._set_radius(radius)
        if kind == "triangles":
            end = self._without_rotation(x, end)
            if self.cpu is not None:
                return self.cpu.find(x, end, reach, contacts, edges=edges)
        self._set_positions(x, end)
        self.broad_phase.update(x, end, reach)
        self.lists.measure()
        candidates = self.broad_phase.feature_pairs(edges=edges and kind == "triangles")
        pairs = candidates.vertex_triangle
        lists = [(int(POINT_TRIANGLE) if kind == "triangles" else int(POINT_POINT), pairs)]
        if edges and kind == "triangles":
            lists.append((int(EDGE_EDGE), candidates.edge_edge))
        return self.lists.find(lists, reach, contacts)

    def find_ahead(self, room: SearchRoom, x: wp.array, end: wp.array, radius: float, contacts: StepContacts) -> None:
        """As `find` of triangles and edges, but only launched: `lists.reported` says what was found."""
        assert isinstance(self.broad_phase, Bvh)
        reach, broad_phase = self._set_radius(radius), self.broad_phase
        self._remove_rotation(x, end)
        self._set_positions(x, self._ends)

        def list_candidates() -> None:
            broad_phase.refit(x, self._ends, reach)
            room.ahead.search()

        fork_join(self.device, list_candidates, self.lists.measure)
        self.lists.find_ahead(room, broad_phase.boxes.flag[0], reach, contacts)

    def relative_displacement(self, x: wp.array, end: wp.array, radius: float) -> float:
        """The mean displacement of a vertex besides the rigid motion of all cloth, in units of the contact distance."""
        self._remove_rotation(x, end)
        view = self.mean_displacement.numpy() if self._mean_view is None else self._mean_view
        return float(view[0]) / (self.largest_thickness + radius)

    def _without_rotation(self, x: wp.array, end: wp.array) -> wp.array:
        """Where the vertices would end if the cloth as a whole did not rotate.

        Rotation moves two points across the direction between them and never along it, so that no contact is missed for
        leaving it out; but the boxes of what rotates are large and overlap in vain.
        """
        self._remove_rotation(x, end)
        return self._ends

    def _remove_rotation(self, x: wp.array, end: wp.array) -> None:
        threads = 1 if self.device.is_cpu else BLOCK
        inputs = [len(x), threads, x, end, self._ends, self.mean_displacement]
        if self.device.is_cpu:
            launch(remove_rigid_rotation, 1, inputs)
        else:
            launch_blocks(remove_rigid_rotation, 1, BLOCK, inputs, device=self.device)

    def _set_radius(self, radius: float) -> float:
        """Have this static collision radius; gives the distance within which contacts are made."""
        if self.surface.radius != radius:
            self.surface.radius = wp.float64(radius)
        return self.largest_thickness + radius

    def _set_positions(self, x: wp.array, end: wp.array) -> None:
        # a struct that is not changed need not be packed again
        for name, value in (("x", x), ("end", end)):
            if getattr(self.surface, name) is not value:
                setattr(self.surface, name, value)


def _make_surface(world: World, regions: Regions, mesh: Surface) -> tuple[Any, wp.array]:
    """The cloths as the search reads them, and the triangle opposite each corner."""
    count = mesh.vertex_count
    edges, faces = mesh.edges.numpy().reshape(-1, 2), mesh.faces.numpy().reshape(-1, 3)
    face_edges = mesh.face_edges.numpy().reshape(-1, 3)
    owners = _owners(mesh.owned.numpy(), faces, face_edges, count, len(edges))
    stitches = world.seams.nearest()
    region = np.append(regions.face_region, 0)
    middles = world.rest_shape.numpy()[edges].mean(axis=1)
    wings = _edge_faces(face_edges, len(edges))

    def upload(values: np.ndarray, dtype: Any = int) -> wp.array:
        return wp.array(values, dtype=dtype, device=world.device)

    positions = wp.zeros(0, dtype=wp.vec3d, device=world.device)
    surface = fill(
        SearchSurface,
        x=positions,
        end=positions,
        faces=mesh.faces,
        edges=mesh.edges,
        edge_faces=upload(wings, wp.vec2i),
        first_edge=upload(_first_edges(edges, count)),
        marks=wp.zeros(len(edges), dtype=int, device=world.device),
        owned=mesh.owned,
        vertex_cloth=upload(regions.vertex_cloth),
        vertex_region=upload(region[owners[0]]),
        edge_region=upload(region[owners[1]]),
        face_region=upload(regions.face_region),
        above=wp.array(regions.above, dtype=int, ndim=2, device=world.device),
        rest=world.rest_shape,
        rest_middles=upload(np.column_stack([middles, regions.vertex_cloth[edges[:, 0]]]), wp.vec4d),
        thickness=world.thickness,
        sewn=int(stitches is not None and len(stitches) > 0),
        sewn_to=upload(sewn_groups(count, stitches)),
        sticking=world.friction_static,
        sliding=world.friction_kinetic,
        radius=0.0,
        largest=world.largest_thickness,
    )
    return surface, upload(_faces_across(face_edges, wings, regions.face_region), wp.vec3i)


def _edge_faces(face_edges: np.ndarray, count: int) -> np.ndarray:
    """Two triangles at each edge, -1 where there is only one; of more than two, the first and the last."""
    found = np.full((count, 2), -1, np.int32)
    flat = face_edges.ravel()
    face = (np.arange(len(flat)) // 3).astype(np.int32)
    found[flat[::-1], 0] = face[::-1]
    found[flat, 1] = face
    found[found[:, 0] == found[:, 1], 1] = -1
    return found


def _faces_across(face_edges: np.ndarray, edge_faces: np.ndarray, region: np.ndarray) -> np.ndarray:
    """The triangle opposite each corner; the edge opposite corner k is the one after it, k + 1."""
    pairs = edge_faces.reshape(-1, 2)[np.roll(face_edges, -1, axis=1)]
    own = np.arange(len(face_edges))[:, None]
    other = np.where(pairs[..., 0] == own, pairs[..., 1], pairs[..., 0])
    same = (other >= 0) & (np.append(region, -1)[other] == region[:, None])
    return np.where(same, other, -1).astype(np.int32)


def _first_edges(edges: np.ndarray, vertex_count: int) -> np.ndarray:
    """The lowest edge at each vertex, -1 where there is none."""
    first = np.full(vertex_count, -1, np.int32)
    numbers = np.arange(len(edges), dtype=np.int32)[::-1]
    for end in range(2):
        chosen = np.full(vertex_count, len(edges), np.int32)
        chosen[edges[::-1, end]] = numbers
        first = np.where((first < 0) | (chosen < first), chosen, first)
    first[first == len(edges)] = -1
    return first.astype(np.int32)


def _owners(
    owned: np.ndarray, faces: np.ndarray, face_edges: np.ndarray, vertex_count: int, edge_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The triangle that owns each vertex and each edge; -1 for a vertex without triangle."""
    result = []
    for features, first_bit, count in ((faces, 0, vertex_count), (face_edges, 3, edge_count)):
        owner = np.full(count, -1, np.int64)
        for k in range(3):
            mine = (owned >> (first_bit + k)) & 1 == 1
            owner[features[mine, k]] = np.flatnonzero(mine)
        result.append(owner)
    return result[0], result[1]
