"""Writes small GLB files for tests, accessor by accessor."""

import json
import struct

import numpy as np

_COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
_KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}


class GlbWriter:
    """Collects arrays into one buffer; `document` is the JSON that goes with them."""

    def __init__(self):
        self.body = b""
        self.document = {"asset": {"version": "2.0"}, "accessors": [], "bufferViews": [], "scenes": [{"nodes": []}]}

    def view(self, array, stride=None):
        """A buffer view of an array, its rows `stride` bytes apart where given."""
        self.body += b"\0" * (-len(self.body) % 4)
        data = np.ascontiguousarray(array)
        rows = [row.tobytes() for row in data]
        packed = b"".join(r + b"\0" * ((stride or len(r)) - len(r)) for r in rows)
        view = {"buffer": 0, "byteOffset": len(self.body), "byteLength": len(packed)}
        if stride:
            view["byteStride"] = stride
        self.body += packed
        self.document["bufferViews"].append(view)
        return len(self.document["bufferViews"]) - 1

    def array(self, values, kind="f4", *, stride=None, **extra):
        """An accessor of an array."""
        data = np.asarray(values).astype(kind)
        width = 1 if data.ndim == 1 else data.shape[1]
        accessor = {
            "bufferView": self.view(data, stride),
            "componentType": _COMPONENTS[kind],
            "count": len(data),
            "type": _KINDS[width],
            **extra,
        }
        self.document["accessors"].append(accessor)
        return len(self.document["accessors"]) - 1

    def sparse(self, count, rows, values):
        """An accessor that is zero but for some rows."""
        accessor = {
            "componentType": 5126,
            "count": count,
            "type": "VEC3",
            "sparse": {
                "count": len(rows),
                "indices": {"bufferView": self.view(np.asarray(rows, dtype="u2")), "componentType": 5123},
                "values": {"bufferView": self.view(np.asarray(values, dtype="f4"))},
            },
        }
        self.document["accessors"].append(accessor)
        return len(self.document["accessors"]) - 1

    def mesh(self, vertices, faces, **more):
        """A mesh of one primitive; `more` goes into it, attributes are added to its own."""
        attributes = {"POSITION": self.array(vertices), **more.pop("attributes", {})}
        primitive = {"attributes": attributes, "indices": self.array(np.ravel(faces), "u2"), **more}
        meshes = self.document.setdefault("meshes", [])
        meshes.append({"primitives": [primitive]})
        return len(meshes) - 1

    def node(self, *, root=True, **fields):
        """A node, at the top of the scene unless it is someone's child."""
        nodes = self.document.setdefault("nodes", [])
        nodes.append(fields)
        if root:
            self.document["scenes"][0]["nodes"].append(len(nodes) - 1)
        return len(nodes) - 1

    def animate(self, node, path, times, values, interpolation="LINEAR", name="move"):
        """A channel of the animation of that name."""
        animations = self.document.setdefault("animations", [])
        found = next((a for a in animations if a["name"] == name), None)
        if found is None:
            found = {"name": name, "channels": [], "samplers": []}
            animations.append(found)
        sampler = {"input": self.array(times), "output": self.array(values), "interpolation": interpolation}
        found["samplers"].append(sampler)
        found["channels"].append({"sampler": len(found["samplers"]) - 1, "target": {"node": node, "path": path}})

    def save(self, path):
        """Write a .glb file."""
        document = {**self.document, "buffers": [{"byteLength": len(self.body)}]}
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        body = self.body + b"\0" * (-len(self.body) % 4)
        total = 12 + 8 + len(text) + 8 + len(body)
        path.write_bytes(
            struct.pack("<4sII", b"glTF", 2, total)
            + struct.pack("<I4s", len(text), b"JSON")
            + text
            + struct.pack("<I4s", len(body), b"BIN\0")
            + body
        )

    def save_text(self, path):
        """Write a .gltf file with its buffer beside it."""
        buffers = [{"byteLength": len(self.body), "uri": "the%20buffer.bin"}]
        path.write_text(json.dumps({**self.document, "buffers": buffers}))
        (path.parent / "the buffer.bin").write_bytes(self.body)
