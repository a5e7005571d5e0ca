"""Several worlds of the same bodies as one, for steps that are computed for all of them in the same launches.

No body of one world interacts with a body of another, so that all of them may lie in one place. Vertices and triangles of all
cloths come first, then those of all colliders, each in the order of the worlds: within a world they keep their order, on
which depends in which order contacts and springs are solved.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.world.kinematics import Kinematics
from weft.world.surface import Surface
from weft.world.world import World

Ints = NDArray[np.int32]


class JoinedWorld(World):
    """What does not change in a run of several worlds, as one world; what is prescribed comes from them in every step."""

    def __init__(self, worlds: Sequence[World]) -> None:
        """`worlds` have the same bodies and triangles, thickness and forces, and no seams."""
        first = worlds[0]
        count, cloth = first.vertex_count, first.cloth_vertex_count
        self.worlds = list(worlds)
        self.scene, self.device, self.seams = first.scene, first.device, first.seams
        self.place = _places(len(worlds), cloth, count)
        """(w, n) the number here of each vertex of each world"""
        self.number = self.of_vertices(np.tile(np.arange(count, dtype=np.int32), (len(worlds), 1)))
        """of each vertex, its number in its world"""
        self.world_of_vertex = self.of_vertices([np.full(count, k, np.int32) for k in range(len(worlds))])
        self.vertex_count, self.cloth_vertex_count = len(worlds) * count, len(worlds) * cloth
        self._lay_out_bodies()
        self.rest_positions = self.of_vertices([one.rest_positions for one in worlds])
        self.mass = self.of_vertices([one.mass for one in worlds])
        self.kinematics = Kinematics([])
        self.targets = self._share_targets()
        """(w, n) on the host, where prescribed vertices of each world will be after the step"""
        self._upload()

    def of_vertices(self, values: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """From an array of each world, with an entry for each of its vertices, that of all of them."""
        together = np.empty((self.place.size, *np.shape(values[0])[1:]), np.asarray(values[0]).dtype)
        for place, own in zip(self.place, values, strict=True):
            together[place] = own
        return together

    def _share_targets(self) -> wp.array:
        """One array for the targets of all worlds, which they write into."""
        shape, pinned = (len(self.worlds), self.worlds[0].vertex_count), self.device.is_cuda
        together: wp.array = wp.zeros(shape, dtype=wp.vec3d, device="cpu", pinned=pinned)
        for own, world in zip(together.numpy(), self.worlds, strict=True):
            own[...] = world.host_target
            world.host_target = own
        return together

    def contact_stiffness(self) -> np.ndarray:
        together = np.empty(len(self.bodies))
        for place, world in zip(self.body_place, self.worlds, strict=True):
            together[place] = world.contact_stiffness()
        return together

    def _lay_out_bodies(self) -> None:
        """Bodies and triangles, those of all cloths first."""
        first, count = self.worlds[0], len(self.worlds)
        cloths, faces = len(first.cloths), first.cloth_face_count
        self.bodies, self.cloths = [], []
        pieces: list[np.ndarray] = []
        for own_bodies, own_faces in ((slice(0, cloths), slice(0, faces)), (slice(cloths, None), slice(faces, None))):
            for place, world in zip(self.place, self.worlds, strict=True):
                at = sum(len(piece) for piece in pieces) - own_faces.start
                pieces.append(place[world.faces[own_faces]].reshape(-1, 3))
                for body in world.bodies[own_bodies]:
                    start = int(place[body.vertices.start])
                    vertices = slice(start, start + body.vertices.stop - body.vertices.start)
                    triangles = slice(body.faces.start + at, body.faces.stop + at)
                    self.bodies.append(replace(body, vertices=vertices, faces=triangles))
        for place, world in zip(self.place, self.worlds, strict=True):
            self.cloths += [replace(cloth, first=int(place[cloth.first])) for cloth in world.cloths]
        self.faces = np.concatenate(pieces).astype(np.int32)
        self.cloth_face_count = count * faces
        self.cloth_faces = self.faces[: self.cloth_face_count]
        self.body_place = _places(count, cloths, len(first.bodies))
        """(w, b) the number here of each body of each world"""

    def _of_body_pairs(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """From a table of pairs of bodies of each world, that of all of them, which is 0 between worlds."""
        together = np.zeros((self.body_place.size,) * 2, tables[0].dtype)
        for place, table in zip(self.body_place, tables, strict=True):
            together[np.ix_(place, place)] = table
        return together

    def _upload(self) -> None:
        """The device arrays."""
        worlds, first, device = self.worlds, self.worlds[0], self.device
        face_body = np.repeat(np.arange(len(self.bodies)), [b.faces.stop - b.faces.start for b in self.bodies])
        pairs = self._of_body_pairs([world.surface.body_pairs.numpy() for world in worlds])
        self.surface = Surface.from_arrays(
            self.vertex_count, self.faces, face_body=face_body, body_pairs=pairs, device=device
        )
        self.inverse_mass = wp.zeros(self.vertex_count, dtype=wp.float64, device=device)
        self.target = wp.zeros(self.vertex_count, dtype=wp.vec3d, device=device)
        thickness = self.of_vertices([world.thickness.numpy() for world in worlds])
        self.thickness = wp.array(thickness, dtype=wp.float64, device=device)
        self.largest_thickness, self.finest_length = first.largest_thickness, first.finest_length
        rest_shape = self.of_vertices([world.rest_shape.numpy() for world in worlds])
        self.rest_shape = wp.array(rest_shape, dtype=wp.vec3d, device=device)
        self.friction_static, self.friction_kinetic = (
            wp.array(
                self._of_body_pairs([getattr(world, name).numpy() for world in worlds]), dtype=wp.float64, device=device
            )
            for name in ("friction_static", "friction_kinetic")
        )


def _places(worlds: int, cloth: int, count: int) -> Ints:
    """(w, count) places of what each world has `count` of, where the first `cloth` of each, those of cloths, come first."""
    number, world = np.arange(count), np.arange(worlds)[:, None]
    colliders = worlds * cloth + world * (count - cloth) + number - cloth
    return np.where(number < cloth, world * cloth + number, colliders).astype(np.int32)
