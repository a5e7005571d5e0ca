"""The bodies of a cache as meshes in the browser: created once, then only their vertices are sent."""

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import scene_of
from weft.mesh.topology import split_sharp, unique_edges
from weft.scene.colours import Floats, body_colours, to_linear
from weft.view.fields import Field

if TYPE_CHECKING:
    from weft.cache import Body, Cache


# seconds that the browser is given to load a coloured mesh before it is shown: it does not say when it is done
LOADING = 0.1


def to_rgb(colour: Floats) -> tuple[int, int, int]:
    """sRGB in 0..1 to the browser's 0..255."""
    r, g, b = np.rint(255.0 * np.clip(colour, 0.0, 1.0)).astype(int).tolist()
    return r, g, b


class Figure:
    """One body. In its own colour it is two meshes, front and back, whose vertices are updated.

    Coloured by a field it is a glTF mesh, because only that has a colour a vertex. The browser removes such a mesh
    while it loads the next version, so there are two: one is shown while the other is loaded.
    """

    def __init__(self, server: Any, cache: "Cache", body: "Body", sides: tuple[Floats, Floats], number: int) -> None:
        self.body = body
        self.cloth = body.kind == "cloth"
        self.shown = True
        self._server = server
        self._name = f"/body{number}"
        self._faces = cache.faces[body.faces] - body.vertices.start
        start = cache.positions(0)[body.vertices]
        # the vertex of each point of the mesh: at sharp edges of a collider a vertex has several points
        self._points = np.arange(len(start))
        if not self.cloth:
            self._points, self._faces = split_sharp(start, self._faces)
        self._wireframe = False
        self._coloured: list[Any] = []
        self._shown_mesh = 0
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
        # viser sends only arrays that changed
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
            self._coloured[1 - self._shown_mesh].glb_data = content
        self._loading = now

    def swap(self, now: float) -> None:
        """Show the coloured mesh that was loading, `LOADING` seconds after it was sent."""
        if self._loading is None or now - self._loading < LOADING:
            return
        self._loading = None
        self._shown_mesh = 1 - self._shown_mesh
        self._coloured[self._shown_mesh].visible = True
        self._coloured[1 - self._shown_mesh].visible = False
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
    """HTML of the colour bar with the numbers at its ends and middle."""
    stops = ",".join("rgb({},{},{})".format(*to_rgb(field.table[k])) for k in np.linspace(0, 255, 16).astype(int))
    numbers = "".join(f"<span>{v:.3g}</span>" for v in (field.low, (field.low + field.high) / 2, field.high))
    return (
        f'<div style="padding:0 1em;font-size:0.8em">{field.label}'
        f'<div style="height:0.8em;border-radius:2px;background:linear-gradient(to right,{stops})"></div>'
        f'<div style="display:flex;justify-content:space-between">{numbers}</div></div>'
    )


FLOAT, UINT16, UINT32 = 5126, 5123, 5125
LINES, TRIANGLES = 1, 4


def encode_glb(points: Floats, indices: NDArray[np.integer[Any]], colours: Floats) -> bytes:
    """Triangles (m, 3) or lines (e, 2) over points with sRGB colours in 0..1; both sides are shown.

    Normals are declared but empty: the browser computes them, and without the declaration it would shade flat.
    """
    lines = indices.shape[1] == 2
    corners = np.ascontiguousarray(indices, dtype="<u4")
    places = np.ascontiguousarray(points, dtype="<f4")
    # glTF colours are linear light; sixteen bits keep the dark ones apart
    paint = np.full((len(places), 4), 65535, dtype="<u2")
    paint[:, :3] = np.rint(65535.0 * to_linear(colours))
    chunks = [corners.tobytes(), places.tobytes(), paint.tobytes()]
    starts = np.cumsum([0, *map(len, chunks)]).tolist()
    accessors: list[dict[str, Any]] = [
        {"bufferView": 0, "componentType": UINT32, "count": corners.size, "type": "SCALAR"},
        {
            "bufferView": 1,
            "componentType": FLOAT,
            "count": len(places),
            "type": "VEC3",
            "min": places.min(axis=0).tolist(),
            "max": places.max(axis=0).tolist(),
        },
        {"bufferView": 2, "componentType": UINT16, "count": len(paint), "type": "VEC4", "normalized": True},
    ]
    attributes = {"POSITION": 1, "COLOR_0": 2}
    if not lines:
        accessors.append({"componentType": FLOAT, "count": len(places), "type": "VEC3"})
        attributes["NORMAL"] = 3
    primitive = {
        "attributes": attributes,
        "indices": 0,
        "material": 0,
        "mode": LINES if lines else TRIANGLES,
    }
    tree = {
        "asset": {"version": "2.0", "generator": "weft"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "materials": [
            {"doubleSided": True, "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0}},
        ],
        "accessors": accessors,
        "bufferViews": [
            {"buffer": 0, "byteOffset": start, "byteLength": len(chunk)}
            for start, chunk in zip(starts, chunks, strict=False)
        ],
        "buffers": [{"byteLength": starts[-1]}],
    }
    text = json.dumps(tree, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data = b"".join(chunks)
    data += b"\0" * (-len(data) % 4)
    total = 12 + 8 + len(text) + 8 + len(data)
    return b"".join(
        [
            struct.pack("<4sII", b"glTF", 2, total),
            struct.pack("<I4s", len(text), b"JSON"),
            text,
            struct.pack("<I4s", len(data), b"BIN\0"),
            data,
        ]
    )
