"""The meshes of all levels, and Loop's weights."""

import numpy as np
import pytest
from finish_scenes import bodies_of, draped

from weft.cache.seams import source_faces, subdivided_pairs
from weft.errors import WeftError
from weft.finish.levels import refine, split_uv
from weft.mesh import TriMesh, shapes
from weft.mesh.subdivide import loop, loop_points, midpoint


def test_levels_agree_with_the_subdivision_of_each_body():
    bodies, faces, x = draped(cells=4)
    levels = refine(bodies, faces, x, 2)
    expected = midpoint(midpoint(TriMesh(x[bodies[0].vertices], faces[bodies[0].faces])))
    fine = levels[2]
    sheet, box = fine.bodies
    split = levels[1].split(levels[0].split(x))
    np.testing.assert_array_equal(split[sheet.vertices], expected.vertices)
    np.testing.assert_array_equal(fine.faces[sheet.faces], expected.faces)
    # colliders stay as they are, behind the finer cloth
    np.testing.assert_array_equal(split[box.vertices], x[bodies[1].vertices])
    np.testing.assert_array_equal(
        fine.faces[box.faces] - box.vertices.start, faces[bodies[1].faces] - bodies[1].vertices.start
    )
    smooth = levels[1].smooth(levels[0].smooth(x))
    np.testing.assert_array_equal(
        smooth[sheet.vertices], loop(loop(TriMesh(x[bodies[0].vertices], faces[bodies[0].faces]))).vertices
    )


def test_parts_lie_on_their_triangles():
    """Every part of a triangle has its corners in that triangle's plane and between its corners."""
    bodies, faces, x = draped(cells=3)
    levels = refine(bodies, faces, x, 2)
    split = levels[1].split(levels[0].split(x))
    fine = levels[2]
    for own, parent in zip(fine.faces, fine.source, strict=True):
        a, b, c = x[faces[parent]]
        matrix = np.column_stack([b - a, c - a])
        weights, *_ = np.linalg.lstsq(matrix, (split[own] - a).T, rcond=None)
        np.testing.assert_allclose(matrix @ weights, (split[own] - a).T, atol=1e-12)
        assert weights.min() > -1e-9 and weights.sum(axis=0).max() < 1 + 1e-9
    assert (np.bincount(fine.source, minlength=len(faces)) == [16] * 18 + [1] * (len(faces) - 18)).all()


@pytest.mark.parametrize(
    "mesh",
    [
        shapes.grid((1.0, 1.0), (4, 3)),
        shapes.grid((1.0, 1.0), (4, 3), diagonals="same"),
        shapes.icosphere(1.0, subdivisions=1),
        shapes.uv_sphere(1.0),
        TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]),
        TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
    ],
    ids=["alternating", "same", "icosphere", "poles", "triangle", "tetrahedron"],
)
def test_weights_are_those_of_convex_combinations(mesh):
    """All of Loop's weights are at least 0 and sum to 1, hence every new point is in the hull of what it comes from."""
    weights = loop_points(mesh, np.eye(len(mesh.vertices)))
    assert weights.min() >= 0.0
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


def test_uv_goes_along():
    """A sheet that lies in its rest shape lies there after smoothing too; bodies without uv have none."""
    sheet = shapes.grid((1.0, 0.6), (5, 4))
    bodies, faces, x = bodies_of(("sheet", "cloth", sheet), ("box", "collider", shapes.box((1.0, 1.0, 1.0))))
    levels = refine(bodies, faces, x, 2)
    uv = np.concatenate([sheet.uv, np.full((len(x) - len(sheet.uv), 2), np.nan)])
    fine = split_uv(levels, uv)
    own = levels[-1].bodies[0].vertices
    smooth = levels[1].smooth(levels[0].smooth(x))[own]
    corner = smooth[:, [0, 2]] - smooth[0, [0, 2]]
    np.testing.assert_allclose(np.abs(fine[own] - fine[own][0]), np.abs(corner), atol=1e-12)
    assert np.isnan(fine[levels[-1].bodies[1].vertices]).all()
    assert split_uv(levels, None) is None


def test_a_cloth_that_is_no_manifold_is_refused_by_name():
    bodies, faces, x = draped(cells=3)
    faces = faces.copy()
    faces[1] = faces[0]
    with pytest.raises(WeftError, match="cloth 'sheet' cannot be subdivided"):
        refine(bodies, faces, x, 1)


def test_source_faces_and_parts_invert_each_other():
    bodies, faces, x = draped(cells=3)
    levels = refine(bodies, faces, x, 2)
    np.testing.assert_array_equal(source_faces(levels[2].bodies, levels[2].faces, 2), _renumbered(levels, faces))
    pairs = np.array([[0, 5], [3, 20]], np.int32)
    parts = subdivided_pairs(pairs, levels[2].bodies, 2)
    found = {tuple(p) for p in np.sort(levels[2].source[parts], axis=1).tolist()}
    assert found == {(0, 5), (3, 20)}
    assert len(parts) == 16 * 16 + 16 * 1
    assert subdivided_pairs(np.zeros((0, 2), np.int32), levels[2].bodies, 2).shape == (0, 2)


def _renumbered(levels, faces):
    """The triangles of level 0 with the vertex numbers of level 2: each body's vertices begin later."""
    moved = faces.copy()
    for old, new in zip(levels[0].bodies, levels[2].bodies, strict=True):
        moved[old.faces] += new.vertices.start - old.vertices.start
    return moved
