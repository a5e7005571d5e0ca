"""The stage: draws frames of a cache off screen with VTK: bodies, floor, light, marks and legend.

VTK ends the process if it finds no OpenGL, so the libraries are tried here first, and an error says what to install.
"""

import ctypes
import os
import sys
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.cache import scene_of
from weft.errors import WeftError, missing_extra
from weft.mesh.topology import unique_edges, unit_vectors
from weft.scene.colours import BodyColours, Floats, body_colours, from_lch, to_linear, to_srgb
from weft.view.camera import View, choose_view, ground_of, subject_points, view_axes
from weft.view.fields import Colour, Field, check_colour
from weft.view.light import Lights, Quality, open_light
from weft.view.surface import Surface, drawn_rounding

if TYPE_CHECKING:
    from weft.cache import Cache


TOP = from_lch(0.97, 0.004, 255.0)
BOTTOM = from_lch(0.88, 0.010, 255.0)
RED = (0.90, 0.08, 0.10)
INK = (0.12, 0.13, 0.16)

# direction of the lamp from the camera's: to the left and up
LAMP_LEFT_DEG = 62.0
LAMP_UP_DEG = 46.0

# brightness added where fibres are seen edge on
SHEEN = 0.07

# triangles larger than this, in radii of the subject, are split before they are lit
DETAIL = 0.03


class Drawn(NamedTuple):
    """One body on the stage: its vertices in the cache, the surface and mesh drawn for it, and the colours of its sides."""

    vertices: slice
    surface: Surface
    mesh: Any
    sides: BodyColours
    cloth: bool


class Stage:
    """Draws the frames of a cache; use it as a context, or call `close`.

    Without a `quality` there are no shadows. `smooth` rounds cloth for the eye, but not where edges are drawn on it.
    Bodies whose names are in `hidden` are left out.
    """

    def __init__(
        self,
        cache: "Cache",
        *,
        size: tuple[int, int],
        quality: Quality | None,
        camera: Any = None,
        colour: Colour = "body",
        wireframe: bool = False,
        smooth: bool = False,
        hidden: Collection[str] = (),
    ) -> None:
        check_colour(colour)
        if min(size) < 16:
            raise WeftError(f"size {size[0]}x{size[1]} is too small for a picture: use at least 16x16")
        self._pyvista = import_pyvista()
        self.cache = cache
        points = subject_points(cache)
        self.view = choose_view(cache, aspect=size[0] / size[1], camera=camera, points=points)
        self._centre = (points.min(axis=0) + points.max(axis=0)) / 2
        self._radius = 1.05 * float(np.linalg.norm(points - self._centre, axis=1).max()) + 1e-6
        self._field = None if colour == "body" else Field(cache, colour)
        self._plotter = self._pyvista.Plotter(off_screen=True, window_size=size, lighting="none")
        self._plotter.set_background(tuple(BOTTOM), top=tuple(TOP))
        self._plotter.enable_anti_aliasing("ssaa")
        self._overlay: Any = None
        self._wires: list[tuple[slice, Any]] = []
        self._bodies: list[Drawn] = []
        self._floor: Floor | None = None
        self._add_bodies(hidden, wireframe=wireframe, rounded=smooth and not wireframe)
        self._lamp = lamp_direction(self.view)
        self._lights = quality and Lights(
            self._pyvista, self._casters, self._lamp, centre=self._centre, radius=self._radius, quality=quality
        )
        self._place_camera()
        if self._field is not None:
            self._add_legend(self._field)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the windows."""
        if self._lights is not None:
            self._lights.close()
        self._plotter.close()

    def draw(self, frame: int, marks: Floats | None = None) -> NDArray[np.uint8]:
        """The picture of a frame, (height, width, 3), with `marks` (k, 2, 3) in red over everything."""
        x = self.cache.positions(frame)
        shapes = [drawn.surface.shape(x[drawn.vertices]) for drawn in self._bodies]
        for drawn, (points, _) in zip(self._bodies, shapes, strict=True):
            drawn.mesh.points = points
        self._casters.points = x
        for vertices, wires in self._wires:
            wires.points = x[vertices]
        if self._floor is not None:
            self._floor.follow(x, self._centre)
            shapes.append((self._floor.points, self._floor.normals))

        # light on all surfaces at once, so that each depth map is drawn once
        points = np.concatenate([points for points, _ in shapes])
        normals = np.concatenate([normals for _, normals in shapes])
        if self._lights is None:
            front, back = open_light(normals, self._lamp)
        else:
            reach = max(2.0 * self._radius, 1.1 * float(np.linalg.norm(points - self._centre, axis=1).max()))
            front, back = self._lights.shine(points, normals, reach=reach)

        field = None if self._field is None else self._field.colours(frame)
        begin = 0
        for drawn, (points, normals) in zip(self._bodies, shapes, strict=False):
            own = slice(begin, begin + len(points))
            begin = own.stop
            self._paint(drawn, points, normals, front[own], back[own], field)
        if self._floor is not None:
            self._floor.paint(front[begin:])
        self._show_marks(marks)
        self._plotter.render()
        picture: NDArray[np.uint8] = self._plotter.screenshot(None, return_img=True)
        return picture

    def _paint(
        self, drawn: Drawn, points: Floats, normals: Floats, front: Floats, back: Floats, field: Floats | None
    ) -> None:
        if field is not None and drawn.cloth:
            # colours that stand for numbers are shaded with less contrast and without tint
            albedo = to_linear(np.clip(drawn.surface.lift @ field[drawn.vertices], 0.0, 1.0))
            for side, light in (("front", front), ("back", back)):
                grey = np.minimum(0.45 + 0.32 * light.mean(axis=1, keepdims=True), 1.0)
                drawn.mesh.point_data[side] = to_bytes(albedo * grey)
            return
        sheen = 0.0
        if drawn.cloth:
            sight = unit_vectors(self.view.position - points)
            edge_on = 1.0 - np.abs((normals * sight).sum(axis=1, keepdims=True))
            sheen = SHEEN * edge_on**4
        for side, colour, light in (("front", drawn.sides.front, front), ("back", drawn.sides.back, back)):
            drawn.mesh.point_data[side] = to_bytes(expose((to_linear(colour) + sheen) * light))

    def _add_bodies(self, hidden: Collection[str], *, wireframe: bool, rounded: bool) -> None:
        cache, pyvista = self.cache, self._pyvista
        start = cache.positions(0)
        ground = ground_of(cache, 2.0 * self._radius)
        solid = []
        for body, sides in zip(cache.bodies, body_colours(cache.bodies, scene_of(cache)), strict=True):
            faces = cache.faces[body.faces] - body.vertices.start
            if len(faces) == 0 or body.name in hidden:
                continue
            if ground is not None and body.name == ground.name:
                self._floor = Floor(pyvista, self._plotter, body.vertices, faces, self._radius)
                continue
            cloth = body.kind == "cloth"
            vertices = start[body.vertices]
            detail = DETAIL * self._radius
            rounding = drawn_rounding(cache) if rounded and cloth else 0.0
            surface = Surface(vertices, faces, smooth=cloth, detail=detail, rounding=rounding)
            mesh = pyvista.PolyData.from_regular_faces(surface.shape(vertices)[0], surface.faces)
            solid.append(cache.faces[body.faces])
            for side, culled in (("front", "back"), ("back", "front")):
                mesh.point_data[side] = np.zeros((mesh.n_points, 3), np.uint8)
                self._plotter.add_mesh(
                    mesh, scalars=side, rgb=True, lighting=False, culling=culled, copy_mesh=False, reset_camera=False
                )
            self._bodies.append(Drawn(body.vertices, surface, mesh, sides, cloth))
            if wireframe:
                self._add_wires(body.vertices, vertices, faces)
        if not solid:
            raise WeftError("the cache has no triangles to draw")
        self._casters = pyvista.PolyData.from_regular_faces(start, np.concatenate(solid))

    def _add_wires(self, body_vertices: slice, vertices: Floats, faces: NDArray[np.int32]) -> None:
        edges = unique_edges(faces)
        lines = np.column_stack([np.full(len(edges), 2), edges]).ravel()
        wires = self._pyvista.PolyData(vertices, lines=lines)
        actor = self._plotter.add_mesh(
            wires, color=INK, line_width=1.0, opacity=0.55, lighting=False, copy_mesh=False, reset_camera=False
        )
        # the lines lie in the surface: draw them slightly in front of it
        actor.mapper.SetResolveCoincidentTopologyToPolygonOffset()
        actor.mapper.SetRelativeCoincidentTopologyLineOffsetParameters(-1.0, -4.0)
        self._wires.append((body_vertices, wires))

    def _place_camera(self) -> None:
        camera = self._plotter.camera
        camera.position = tuple(self.view.position)
        camera.focal_point = tuple(self.view.target)
        camera.up = tuple(self.view.axes[1])
        camera.view_angle = self.view.fov_deg
        far = float(np.linalg.norm(self.view.position - self._centre)) + FLOOR_REACH * self._radius
        camera.clipping_range = (far * 1e-3, far * 1.5)

    def _show_marks(self, marks: Floats | None) -> None:
        pyvista, window = self._pyvista, self._plotter.render_window
        if self._overlay is not None:
            self._overlay.RemoveAllViewProps()
        if marks is None or len(marks) == 0:
            return
        from vtkmodules.vtkRenderingCore import vtkRenderer

        if self._overlay is None:
            # a second layer with the same camera and its own depth buffer, so that nothing hides it
            self._overlay = vtkRenderer()
            self._overlay.SetLayer(1)
            self._overlay.SetActiveCamera(self._plotter.camera)
            window.SetNumberOfLayers(2)
            window.AddRenderer(self._overlay)
        ends = np.asarray(marks, dtype=np.float64).reshape(-1, 3)
        lines = np.column_stack([np.full(len(ends) // 2, 2), np.arange(len(ends)).reshape(-1, 2)]).ravel()
        mapper = pyvista.DataSetMapper(pyvista.PolyData(ends, lines=lines))
        actor = pyvista.Actor(mapper=mapper)
        actor.prop.color = RED
        actor.prop.lighting = False
        actor.prop.line_width = 4.0
        self._overlay.AddActor(actor)

    def _add_legend(self, field: Field) -> None:
        table = self._pyvista.LookupTable()
        table.values = np.column_stack([np.rint(255 * field.table), np.full(len(field.table), 255)]).astype(np.uint8)
        table.scalar_range = (field.low, field.high)
        mapper = self._pyvista.DataSetMapper()
        mapper.lookup_table = table
        self._plotter.add_scalar_bar(
            title=field.label + "\n", mapper=mapper, color=INK, n_labels=5, fmt="%.2g", vertical=False, width=0.34,
            height=0.08, position_x=0.33, position_y=0.02, title_font_size=20, label_font_size=16,
        )  # fmt: skip


def lamp_direction(view: View) -> Floats:
    """The direction to the lamp: to the left of the camera and above it."""
    back = view.position - view.target
    azimuth = np.arctan2(back[0], back[2]) - np.radians(LAMP_LEFT_DEG)
    height = np.radians(LAMP_UP_DEG)
    return np.array([np.sin(azimuth) * np.cos(height), np.sin(height), np.cos(azimuth) * np.cos(height)])


def expose(light: Floats) -> Floats:
    """Tone mapping: linear light to linear light in 0..1, nearly linear in the shadows, compressed towards white."""
    return 1.0 - np.exp(-light * (1.0 + 0.35 * light))


def to_bytes(linear: Floats) -> NDArray[np.uint8]:
    """Linear light to sRGB bytes."""
    return np.rint(255.0 * to_srgb(linear)).astype(np.uint8)


# colour of the floor, its radius in radii of the subject, and its mesh
FLOOR = from_lch(0.93, 0.006, 80.0)
FLOOR_REACH = 9.0
RINGS = 100
SECTORS = 240


class Floor:
    """The ground as a disc that fades out: a mesh that is fine in the middle, where the shadows are."""

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
        ring, sector = (index.ravel() for index in np.mgrid[: RINGS - 1, :SECTORS])
        a, b = ring * SECTORS + sector, ring * SECTORS + (sector + 1) % SECTORS
        c, d = a + SECTORS, b + SECTORS
        triangles = np.concatenate([np.column_stack([a, d, b]), np.column_stack([a, c, d])])
        self._mesh = pyvista.PolyData.from_regular_faces(self.points, triangles)
        self._mesh.point_data["paint"] = np.zeros((len(self.points), 4), np.uint8)
        plotter.add_mesh(
            self._mesh, scalars="paint", rgb=True, lighting=False, culling="back", copy_mesh=False, reset_camera=False
        )

    def follow(self, positions: Floats, centre: Floats) -> None:
        """Move the disc into the plane of its collider, centred below (or above) the subject's centre."""
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
        # unshadowed it has exactly its own colour, so that it blends into the background without a visible border
        open_light = light[-SECTORS:].mean(axis=0)
        colour = to_srgb(to_linear(FLOOR) * light / np.maximum(open_light, 1e-9))
        self._mesh.point_data["paint"] = np.rint(255.0 * np.column_stack([colour, self._opacity])).astype(np.uint8)


# the environment variable that VTK reads when it makes its first window
WINDOW = "VTK_DEFAULT_OPENGL_WINDOW"
EGL_PLATFORM_DEVICE = 0x313F
MOST_DEVICES = 32
OSMESA = ("libOSMesa.so", "libOSMesa.so.8", "libOSMesa.so.6")


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _egl_works() -> bool:
    # a library without a driver is useless: try to start one of its devices, as VTK will
    os.environ.setdefault("EGL_LOG_LEVEL", "fatal")
    egl = _load("libEGL.so.1")
    if egl is None:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    display_of = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not display_of:
        return False
    pointer, number, yes = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
    query_devices = ctypes.CFUNCTYPE(yes, number, ctypes.POINTER(pointer), ctypes.POINTER(number))(query)
    get_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(display_of)
    egl.eglInitialize.argtypes = [pointer, pointer, pointer]
    egl.eglTerminate.argtypes = [pointer]

    devices, count = (pointer * MOST_DEVICES)(), number(0)
    if not query_devices(MOST_DEVICES, devices, ctypes.byref(count)):
        return False
    for device in devices[: count.value]:
        display = get_display(EGL_PLATFORM_DEVICE, device, None)
        if display and egl.eglInitialize(display, None, None):
            egl.eglTerminate(display)
            return True
    return False


@cache
def find_window() -> str | None:
    """The kind of VTK window to draw into on Linux; None leaves the choice to VTK. Raises when there is none."""
    if not sys.platform.startswith("linux") or os.environ.get(WINDOW):
        return None
    if _egl_works():
        return "vtkEGLRenderWindow"
    if any(_load(name) for name in OSMESA):
        return "vtkOSOpenGLRenderWindow"
    if os.environ.get("DISPLAY") and _load("libGL.so.1"):
        return None
    raise WeftError("drawing needs an OpenGL library: install one with  apt-get install libegl1 libgl1-mesa-dri")


def import_pyvista() -> Any:
    """PyVista, set up to draw without a screen."""
    window = find_window()
    if window is not None:
        os.environ[WINDOW] = window
    try:
        import pyvista
    except ImportError as error:
        raise missing_extra("render", "pyvista") from error
    return pyvista
