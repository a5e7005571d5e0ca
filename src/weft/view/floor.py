"""The ground in pictures: a disc that follows a plane collider and fades into the background."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.scene.colours import Floats, from_lch, to_linear, to_srgb
from weft.view.camera import view_axes

FLOOR = from_lch(0.93, 0.006, 80.0)
FLOOR_REACH = 9.0
RINGS = 100
SECTORS = 240


class Floor:
    """A disc of points, dense in the middle where the shadows are. Reach and radius in radii of the subject."""

    def __init__(self, pyvista: Any, plotter: Any, vertices: slice, faces: NDArray[np.int32], radius: float) -> None:
        self._vertices = vertices
        self._corner = faces[0]
        t = np.linspace(0.0, 1.0, RINGS)
        rings = FLOOR_REACH * radius * (0.28 * t + 0.72 * t**5)
        angle = np.linspace(0.0, 2.0 * np.pi, SECTORS, endpoint=False)
        self._plan = np.stack([np.outer(rings, np.cos(angle)), np.outer(rings, np.sin(angle))], axis=-1).reshape(-1, 2)
        fade = np.clip((FLOOR_REACH - rings / radius) / (FLOOR_REACH - 2.5), 0.0, 1.0)
        self._opacity = np.repeat(fade * fade * (3.0 - 2.0 * fade), SECTORS)
        self.points = np.zeros((len(self._plan), 3))
        self.normals = np.zeros_like(self.points)

        # two triangles between neighbours on neighbouring rings
        ring, sector = (part.ravel() for part in np.mgrid[: RINGS - 1, :SECTORS])
        a, b = ring * SECTORS + sector, ring * SECTORS + (sector + 1) % SECTORS
        c, d = a + SECTORS, b + SECTORS
        triangles = np.concatenate([np.column_stack([a, d, b]), np.column_stack([a, c, d])])
        self._mesh = pyvista.PolyData.from_regular_faces(self.points, triangles)
        self._mesh.point_data["paint"] = np.zeros((len(self.points), 4), np.uint8)
        plotter.add_mesh(
            self._mesh, scalars="paint", rgb=True, lighting=False, culling="back", copy_mesh=False, reset_camera=False
        )

    def follow(self, positions: Floats, centre: Floats) -> None:
        """Lie in the plane of the collider, below (or above) the subject's centre."""
        a, b, c = positions[self._vertices][self._corner]
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal)
        right, up, _ = view_axes(-normal)
        middle = centre - normal * (normal @ (centre - a))
        self.points = middle + self._plan[:, :1] * right + self._plan[:, 1:] * up
        self.normals = np.broadcast_to(normal, self.points.shape)
        self._mesh.points = self.points

    def paint(self, light: Floats) -> None:
        """Colour the disc with the light on it."""
        # in the open it has its own colour, so that it meets the background without a step
        open_light = light[-SECTORS:].mean(axis=0)
        colour = to_srgb(to_linear(FLOOR) * light / np.maximum(open_light, 1e-9))
        self._mesh.point_data["paint"] = np.rint(255.0 * np.column_stack([colour, self._opacity])).astype(np.uint8)
