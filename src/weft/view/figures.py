"""The bodies of a cache in the browser's scene: made once, then only their vertices are sent."""

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cache import scene_of
from weft.mesh.shading import split_sharp, unique_edges
from weft.scene.colours import Floats, body_colours
from weft.view.fields import Field
from weft.view.glb import encode_glb

if TYPE_CHECKING:
    from weft.cache import Body, Cache

# a coloured mesh is loaded by the browser on its own time; it is swapped in after this many seconds
LOADING = 0.1


def to_rgb(colour: Floats) -> tuple[int, int, int]:
    """sRGB in 0..1 to the browser's 0..255."""
    r, g, b = np.rint(255.0 * np.clip(colour, 0.0, 1.0)).astype(int).tolist()
    return r, g, b


class Figure:
    """One body. In its own colour it is two meshes, front and back, whose vertices move in place.

    Coloured by a field it is a glTF mesh, because only that has a colour a vertex. The browser drops such a mesh
    while it loads its next version, so there are two, and the one in the dark is loaded.
    """

    def __init__(self, server: Any, cache: "Cache", body: "Body", sides: tuple[Floats, Floats], number: int) -> None:
        self.body = body
        self.cloth = body.kind == "cloth"
        self.shown = True
        self._server = server
        self._name = f"/body{number}"
        self._faces = cache.faces[body.faces] - body.vertices.start
        start = cache.positions(0)[body.vertices]
        # which vertex each point of the mesh is: sharp edges of a collider need two points
        self._points = np.arange(len(start))
        if not self.cloth:
            self._points, self._faces = split_sharp(start, self._faces)
        self._wireframe = False
        self._coloured: list[Any] = []
        self._lit = 0
        self._loading: float | None = None
        points = start[self._points].astype(np.float32)
        self._front = server.scene.add_mesh_simple(
            f"{self._name}/front",
            points,
            self._faces.astype(np.uint32),
            color=to_rgb(sides[0]),
            side="front" if self.cloth else "double",
        )
        self._back = None
        if self.cloth:
            self._back = server.scene.add_mesh_simple(
                f"{self._name}/back",
                points,
                self._faces.astype(np.uint32),
                color=to_rgb(sides[1]),
                side="back",
            )

    @property
    def busy(self) -> bool:
        """Whether the browser is still loading a coloured mesh."""
        return self._loading is not None

    def show(self, x: Floats, colours: Floats | None, *, wireframe: bool, now: float) -> None:
        """Show the body at the cache's positions `x`; `colours` is one a vertex of the cache, or None for its own."""
        points = x[self.body.vertices][self._points]
        if colours is None or not self.cloth:
            self._show_plain(points, wireframe=wireframe)
        else:
            self._load(points, colours[self.body.vertices], wireframe=wireframe, now=now)

    def _show_plain(self, points: Floats, *, wireframe: bool) -> None:
        for mesh in self._coloured:
            mesh.visible = False
        self._loading = None
        self._front.visible = self.shown
        if self._back is not None:
            self._back.visible = self.shown and not wireframe
        if not self.shown:
            return
        if wireframe != self._wireframe:
            self._wireframe = wireframe
            self._front.wireframe = wireframe
            self._front.side = "double" if wireframe or not self.cloth else "front"
        # what has not moved is not sent
        self._front.vertices = points
        if self._back is not None and not wireframe:
            self._back.vertices = points

    def _load(self, points: Floats, colours: Floats, *, wireframe: bool, now: float) -> None:
        if not self.shown:
            for mesh in (self._front, self._back, *self._coloured):
                mesh.visible = False
            self._loading = None
            return
        content = encode_glb(points, unique_edges(self._faces) if wireframe else self._faces, colours)
        if not self._coloured:
            self._coloured = [
                self._server.scene.add_glb(f"{self._name}/coloured{k}", content, visible=False) for k in range(2)
            ]
        else:
            self._coloured[1 - self._lit].glb_data = content
        self._loading = now

    def swap(self, now: float) -> None:
        """Show the coloured mesh that was loading, when it has had its time."""
        if self._loading is None or now - self._loading < LOADING:
            return
        self._loading = None
        self._lit = 1 - self._lit
        self._coloured[self._lit].visible = True
        self._coloured[1 - self._lit].visible = False
        self._front.visible = False
        if self._back is not None:
            self._back.visible = False


def make_figures(server: Any, cache: "Cache", leave_out: "Body | None") -> list[Figure]:
    """A figure for every body that has triangles, except the one that is drawn as the ground."""
    sides = body_colours(cache.bodies, scene_of(cache))
    return [
        Figure(server, cache, body, pair, number)
        for number, (body, pair) in enumerate(zip(cache.bodies, sides, strict=True))
        if body.faces.stop > body.faces.start and (leave_out is None or body.name != leave_out.name)
    ]


def legend_html(field: Field) -> str:
    """A strip of the colours with the numbers at its ends and middle."""
    stops = ",".join("rgb({},{},{})".format(*to_rgb(field.table[k])) for k in np.linspace(0, 255, 16).astype(int))
    numbers = "".join(f"<span>{v:.3g}</span>" for v in (field.low, (field.low + field.high) / 2, field.high))
    return (
        f'<div style="padding:0 1em;font-size:0.8em">{field.label}'
        f'<div style="height:0.8em;border-radius:2px;background:linear-gradient(to right,{stops})"></div>'
        f'<div style="display:flex;justify-content:space-between">{numbers}</div></div>'
    )
