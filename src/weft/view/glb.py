"""One mesh with a colour a vertex as a binary glTF, for the browser."""

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.scene.colours import Floats, to_linear

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
