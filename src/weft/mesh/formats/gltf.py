"""glTF 2, in one file (.glb) or with its buffers beside it (.gltf)."""

from pathlib import Path

import numpy as np

from weft.mesh.formats.raw import RawMesh, place


def read_gltf(path: Path) -> list[RawMesh]:
    """The meshes of all nodes where the scene puts them, in the order of the nodes; still poses only."""
    import trimesh

    kind = path.suffix.lower().removeprefix(".")
    scene = trimesh.load_scene(path, file_type=kind, process=False, merge_primitives=True, skip_materials=True)
    parts = []
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        mesh = scene.geometry[name]
        # points and lines have no triangles
        if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
            continue
        vertices, faces = place(
            np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64), np.asarray(matrix)
        )
        uv = getattr(mesh.visual, "uv", None)
        parts.append(RawMesh(vertices, faces, None if uv is None else np.asarray(uv, dtype=np.float64)))
    return parts
