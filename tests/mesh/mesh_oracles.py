"""Slow and plain answers to check the fast ones against, and meshes to check them on."""

from collections import defaultdict

import numpy as np
from hypothesis import strategies as st

from weft.mesh import TriMesh, repair_mesh, shapes


def half_edges(faces):
    """Directed edge -> list of (triangle, corner)."""
    table = defaultdict(list)
    for f, face in enumerate(faces.tolist()):
        for k in range(3):
            table[face[k], face[(k + 1) % 3]].append((f, k))
    return table


def edges(faces):
    return sorted({(min(pair), max(pair)) for pair in half_edges(faces)})


def is_good(faces, vertex_count):
    """Whether triangles make an oriented manifold that uses all vertices, by looking at every vertex in turn."""
    faces = np.asarray(faces)
    if any(len(set(face)) < 3 for face in faces.tolist()):
        return False
    if any(len(users) > 1 for users in half_edges(faces).values()):
        return False
    for vertex in range(vertex_count):
        # the link of the vertex: one open or closed curve
        link = [
            (face[(k + 1) % 3], face[(k + 2) % 3]) for face in faces.tolist() for k in range(3) if face[k] == vertex
        ]
        if not link:
            return False
        after = dict(link)
        if len(after) < len(link) or len(set(after.values())) < len(link):
            return False
        starts = set(after) - set(after.values())
        if len(starts) > 1:
            return False
        here = next(iter(starts)) if starts else link[0][0]
        steps = 0
        while here in after and steps < len(link):
            here = after[here]
            steps += 1
        if steps < len(link):
            return False
    return True


def signed_volume(mesh):
    a, b, c = (mesh.vertices[column] for column in mesh.faces.T)
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0)


def moebius(cells=12):
    """A strip of cells closed with half a turn."""
    turn = 2.0 * np.pi * np.arange(cells) / cells
    side = np.array([-0.2, 0.2])
    radius = 1.0 + side * np.cos(turn / 2.0)[:, None]
    vertices = np.stack(
        [radius * np.cos(turn)[:, None], side * np.sin(turn / 2.0)[:, None], radius * np.sin(turn)[:, None]], axis=-1
    ).reshape(-1, 3)
    faces = []
    for i in range(cells):
        here, there = 2 * i, 2 * i + 1
        next_here, next_there = (2 * i + 2, 2 * i + 3) if i < cells - 1 else (1, 0)
        faces += [(here, there, next_there), (here, next_there, next_here)]
    return vertices, np.array(faces)


@st.composite
def good_meshes(draw):
    """Shapes with triangles missing, their vertices, triangles and corners in any order."""
    shape = draw(st.sampled_from(["grid", "same", "box", "sphere", "tube", "two"]))
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    mesh = {
        "grid": lambda: shapes.grid((1.0, 2.0), (n, m)),
        "same": lambda: shapes.grid((1.0, 2.0), (n, m), diagonals="same"),
        "box": lambda: shapes.box((1.0, 2.0, 3.0), cells=(n, m, 2)),
        "sphere": lambda: shapes.icosphere(subdivisions=1),
        "tube": lambda: shapes.cylinder(segments=n + 2, rings=m),
        "two": lambda: _side_by_side(shapes.uv_sphere(segments=n + 2, rings=m + 1), shapes.grid((1.0, 1.0), (n, m))),
    }[shape]()
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keep = random.random(len(mesh.faces)) < draw(st.sampled_from([1.0, 0.9, 0.5]))
    keep[0] = True
    mesh = repair_mesh(mesh.vertices, mesh.faces[keep]).mesh

    number = random.permutation(len(mesh.vertices))
    vertices = np.empty_like(mesh.vertices)
    vertices[number] = mesh.vertices
    faces = number[mesh.faces][random.permutation(len(mesh.faces))]
    turns = random.integers(3, size=len(faces))
    faces = np.take_along_axis(faces, (np.arange(3) + turns[:, None]) % 3, axis=1)
    return TriMesh(vertices, faces)


def _side_by_side(first, second):
    return TriMesh(
        np.concatenate([first.vertices, second.vertices + np.array([5.0, 0.0, 0.0])]),
        np.concatenate([first.faces, second.faces + len(first.vertices)]),
    )
