"""Repair gives a good mesh of any triangles, changes no more than it must, and says what it did."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mesh_oracles import good_meshes, is_good, moebius, signed_volume

from weft.errors import MeshError
from weft.mesh import TriMesh, repair_mesh, shapes


def new_vertices(repair, old):
    """The vertices that vertex `old` has become: none if it was dropped, several if it was split."""
    return np.flatnonzero(repair.vertex_source == repair.joined[old])


@settings(max_examples=300, deadline=None)
@given(st.integers(3, 12), st.integers(1, 30), st.booleans(), st.integers(0, 2**32 - 1))
def test_makes_a_good_mesh_of_any_triangles(vertex_count, face_count, spoilt, seed):
    random = np.random.default_rng(seed)
    vertices = random.normal(size=(vertex_count, 3))
    uv = random.normal(size=(vertex_count, 2))
    faces = random.integers(-1 if spoilt else 0, vertex_count + spoilt, size=(face_count, 3))
    if spoilt:
        vertices[random.integers(vertex_count)] = np.nan
    try:
        result = repair_mesh(vertices, faces, uv)
    except MeshError as error:
        assert "no triangle of the mesh can be used" in str(error)
        used = [face for face in faces.tolist() if len(set(face)) == 3 and min(face) >= 0 and max(face) < vertex_count]
        assert all(np.isnan(vertices[face]).any() for face in used)
        return
    mesh = result.mesh
    assert is_good(mesh.faces, len(mesh.vertices))
    # nothing moves, no triangle is made up
    assert np.array_equal(mesh.vertices, vertices[result.vertex_source])
    assert np.array_equal(mesh.uv, uv[result.vertex_source])
    assert np.array_equal(np.sort(result.vertex_source[mesh.faces], axis=1), np.sort(faces[result.face_source], axis=1))
    assert (np.diff(result.face_source) > 0).all()
    # and only triangles that cannot be used are dropped
    kept = set(result.face_source.tolist())
    seen = {tuple(sorted(faces[f].tolist())) for f in kept}
    for f, face in enumerate(faces.tolist()):
        usable = len(set(face)) == 3 and min(face) >= 0 and max(face) < vertex_count
        if f not in kept and usable and not np.isnan(vertices[face]).any():
            assert tuple(sorted(face)) in seen


@settings(max_examples=50, deadline=None)
@given(good_meshes())
def test_leaves_good_meshes_alone(mesh):
    result = repair_mesh(mesh.vertices, mesh.faces)
    assert result.sentences == []
    assert np.array_equal(result.mesh.faces, mesh.faces)
    assert np.array_equal(result.mesh.vertices, mesh.vertices)
    assert np.array_equal(result.vertex_source, np.arange(len(mesh.vertices)))


@settings(max_examples=50, deadline=None)
@given(good_meshes(), st.integers(0, 2**32 - 1))
def test_turns_triangles_back(mesh, seed):
    """Turned triangles of a two-sided mesh: no vertex is added, and no component has more than half its triangles turned."""
    random = np.random.default_rng(seed)
    turned = random.random(len(mesh.faces)) < 0.3
    faces = np.where(turned[:, None], mesh.faces[:, ::-1], mesh.faces)
    result = repair_mesh(mesh.vertices, faces)
    assert len(result.mesh.vertices) == len(mesh.vertices)
    assert len(result.mesh.edges) == len(mesh.edges)
    assert len(result.sentences) <= 1
    changed = (result.mesh.faces != faces).any(axis=1)
    if not mesh.closed and mesh.components.max() == 0:
        assert changed.sum() <= len(faces) / 2


def test_closed_bodies_end_up_facing_outwards():
    mesh = shapes.icosphere(subdivisions=2)
    faces = mesh.faces.copy()
    faces[:250] = faces[:250, ::-1]
    result = repair_mesh(mesh.vertices + 100.0, faces)
    mended, sentences = result.mesh, result.sentences
    assert signed_volume(mended) > 0
    assert sentences == ["Turned 250 triangles to face the same way as the neighbours (triangles 0, 1, 2, 3, 4, ...)."]


def test_a_whole_body_turned_inside_out_is_left_so():
    mesh = shapes.icosphere(subdivisions=1)
    result = repair_mesh(mesh.vertices, mesh.faces[:, ::-1])
    mended, sentences = result.mesh, result.sentences
    assert sentences == []
    assert signed_volume(mended) < 0


def test_drops_what_is_no_triangle_and_says_so():
    grid = shapes.grid((1.0, 1.0), (3, 3))
    vertices = np.concatenate([grid.vertices, [(np.nan, 0, 0), (5, 5, 5), (0.5, 0.0, 0.5)]])
    faces = np.concatenate([grid.faces, [(0, 0, 1), (0, 1, 16), (0, 1, 99), grid.faces[4][[1, 2, 0]], (0, 1, 2)]])
    result = repair_mesh(vertices, faces)
    assert result.sentences == [
        "Dropped 1 triangle that named a vertex that does not exist (triangle 20).",
        "Dropped 1 triangle that had a vertex with a NaN or infinite coordinate (triangle 19).",
        "Dropped 1 triangle that had the same vertex twice (triangle 18).",
        "Dropped 1 triangle without area (triangle 22).",
        "Dropped 1 triangle with the vertices of an earlier one (triangle 21).",
        "Dropped 3 vertices in no triangle (vertices 16, 17, 18); the vertices after them have new numbers.",
    ]
    assert np.array_equal(result.mesh.faces, grid.faces)


def test_uv_decides_what_has_area():
    grid = shapes.grid((1.0, 1.0), (2, 2))
    uv = grid.uv.copy()
    uv[0] = uv[1]
    result = repair_mesh(grid.vertices, grid.faces, uv)
    assert "without area in uv" in result.sentences[0]
    flat = repair_mesh(np.zeros_like(grid.vertices), grid.faces, grid.uv)
    assert flat.sentences == []
    assert flat.mesh.uv is not None


def test_two_boxes_on_a_common_edge_come_apart():
    box = shapes.box()
    offset = np.array([1.0, 1.0, 0.0])
    vertices = np.concatenate([box.vertices, box.vertices + offset])
    faces = np.concatenate([box.faces, box.faces + 8])
    # the second box uses the first one's edge along z
    shared = [(v, int(np.flatnonzero((box.vertices == vertices[v]).all(axis=1))[0])) for v in range(8, 16)
              if (box.vertices == vertices[v]).all(axis=1).any()]  # fmt: skip
    assert len(shared) == 2
    for own, other in shared:
        faces[faces == own] = other
    with pytest.raises(MeshError, match="more than two triangles"):
        TriMesh(vertices, faces)
    result = repair_mesh(vertices, faces)
    assert result.mesh.closed
    assert result.mesh.components.max() == 1
    assert signed_volume(result.mesh) == pytest.approx(2.0)
    assert result.sentences[0].startswith("Split 1 edge with more than two triangles, which added 2 vertices (edge ")
    for own, other in shared:
        assert len(new_vertices(result, other)) == 2
        assert len(new_vertices(result, own)) == 0


def test_a_fin_comes_off_its_sheet():
    grid = shapes.grid((1.0, 1.0), (2, 2), diagonals="same")
    fin = np.concatenate([grid.vertices, [(0.25, 1.0, 0.0)]])
    result = repair_mesh(fin, np.concatenate([grid.faces, [(4, 5, 9)]]))
    assert is_good(result.mesh.faces, len(result.mesh.vertices))
    assert len(result.mesh.faces) == 9
    assert "4-5" in result.sentences[0]


def test_bow_tie_is_split():
    vertices = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (-1, 0, 0), (-1, -1, 0)]
    result = repair_mesh(vertices, [(0, 1, 2), (0, 3, 4)])
    assert result.sentences == ["Split 1 bow-tie vertex, which added 1 vertex (vertex 0)."]
    assert result.vertex_source.tolist() == [0, 1, 2, 3, 4, 0]
    assert result.mesh.faces.tolist() == [[0, 1, 2], [5, 3, 4]]
    assert new_vertices(result, 0).tolist() == [0, 5]


@settings(max_examples=50, deadline=None)
@given(good_meshes(), st.integers(0, 2**32 - 1))
def test_triangles_that_share_no_vertices_are_joined_again(mesh, seed):
    """Every corner a vertex of its own, in any order: the surface is the one that was torn."""
    order = np.random.default_rng(seed).permutation(mesh.faces.size)
    soup = np.empty((mesh.faces.size, 3))
    soup[order] = mesh.vertices[mesh.faces].reshape(-1, 3)
    result = repair_mesh(soup, order.reshape(-1, 3))
    assert np.array_equal(result.mesh.vertices[result.mesh.faces], mesh.vertices[mesh.faces])
    assert len(result.mesh.vertices) == len(mesh.vertices) and len(result.mesh.edges) == len(mesh.edges)
    assert len(result.sentences) == (1 if len(mesh.hinge_edges) else 0)
    # whoever knows a corner of the soup finds its vertex
    for corner in order[:5]:
        (new,) = new_vertices(result, corner)
        assert np.array_equal(result.mesh.vertices[new], soup[corner])


def test_joining_says_what_it_did():
    vertices = [(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    result = repair_mesh(vertices, [(0, 1, 2), (3, 4, 5)])
    assert result.sentences == ["Joined 2 vertices to others in the same place along 1 torn edge (edge 1-2)."]
    assert result.mesh.faces.tolist() == [[0, 1, 2], [2, 1, 3]]
    assert result.vertex_source.tolist() == [0, 1, 2, 5]
    assert new_vertices(result, 4).tolist() == [1]


def test_what_only_touches_is_not_joined():
    sheet = shapes.grid((1.0, 1.0), (2, 2))
    copies = np.concatenate([sheet.vertices, sheet.vertices])
    # two sheets that face the same way on each other, and panels whose edges meet in the world but not in the pattern
    assert repair_mesh(copies, np.concatenate([sheet.faces, sheet.faces + 9])).sentences == []
    panels = np.concatenate([sheet.uv, sheet.uv + [3.0, 0.0]])
    beside = np.concatenate([sheet.vertices, sheet.vertices + [1.0, 0.0, 0.0]])
    assert repair_mesh(beside, np.concatenate([sheet.faces, sheet.faces + 9]), panels).sentences == []
    # three sheets that meet in one edge
    fins = [(0, 0, 0), (1, 0, 0), (0, 0, 1)], [(0, 0, 0), (1, 0, 0), (0, 0, -1)], [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    assert repair_mesh(np.concatenate(fins), [(0, 1, 2), (4, 3, 5), (6, 7, 8)]).sentences == []


@pytest.mark.parametrize("cells", [3, 12, 41])
def test_moebius_strip_is_cut_open(cells):
    vertices, faces = moebius(cells)
    result = repair_mesh(vertices, faces)
    assert any("only one side" in sentence and "component of triangle 0" in sentence for sentence in result.sentences)
    assert len(result.mesh.faces) == 2 * cells
    assert len(result.mesh.boundary_loops) == 1
    assert len(result.mesh.vertices) == len(vertices) + 2


def test_two_moebius_strips_and_a_sheet():
    vertices, faces = moebius(9)
    grid = shapes.grid((1.0, 1.0), (2, 2))
    result = repair_mesh(
        np.concatenate([grid.vertices, vertices + 5.0, vertices - 5.0]),
        np.concatenate([grid.faces, faces + 9, faces + 27]),
    )
    assert np.array_equal(result.mesh.faces[:8], grid.faces)
    assert "cut 2 components" in result.sentences[-1].lower()
    assert "components of triangle 8, 26" in result.sentences[-1]


def test_klein_bottle_is_cut_open():
    """A closed surface with one side: a torus of cells glued with a flip."""
    n, m = 6, 8
    index = np.arange(n * m).reshape(n, m)
    faces = []
    for i in range(n):
        for j in range(m):
            right = (j + 1) % m
            ahead = index[(i + 1) % n] if i < n - 1 else np.roll(index[0][::-1], 1)
            faces += [(index[i, j], index[i, right], ahead[right]), (index[i, j], ahead[right], ahead[j])]
    vertices = np.random.default_rng(1).normal(size=(n * m, 3))
    result = repair_mesh(vertices, np.array(faces))
    assert is_good(result.mesh.faces, len(result.mesh.vertices))
    assert len(result.mesh.faces) == 2 * n * m
    assert any("only one side" in sentence for sentence in result.sentences)
    assert int(result.mesh.components.max()) == 0


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_same_input_same_output(seed):
    random = np.random.default_rng(seed)
    vertices, faces = random.normal(size=(9, 3)), random.integers(0, 9, size=(25, 3))
    assume((np.sort(faces, axis=1)[:, 1:] != np.sort(faces, axis=1)[:, :-1]).all(axis=1).any())
    first, second = repair_mesh(vertices, faces), repair_mesh(vertices, faces)
    assert first.mesh.faces.tobytes() == second.mesh.faces.tobytes()
    assert first.mesh.vertices.tobytes() == second.mesh.vertices.tobytes()
    assert first.sentences == second.sentences


@pytest.mark.parametrize(
    ("vertices", "faces", "words"),
    [
        ([(0, 0, 0)], [(0, 0, 0)], "no triangle of the mesh can be used: dropped 1 triangle that had the same vertex"),
        ([(0, 0, 0)], np.zeros((0, 3), dtype=int), "no triangles"),
        ([(0, 0)], [(0, 0, 0)], r"shape \(n, 3\)"),
        ([(0, 0, 0)], [(0.5, 0.5, 0.5)], "integers"),
    ],
)
def test_refuses_the_hopeless(vertices, faces, words):
    with pytest.raises(MeshError, match=words):
        repair_mesh(vertices, faces)
