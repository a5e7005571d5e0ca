"""Creases: which edges they choose, and what is refused."""

import numpy as np
import pytest

import weft
from weft.errors import SceneError
from weft.mesh import shapes
from weft.scene import Crease, Scene, load_scene, save_scene
from weft.scene.creases import rest_angles
from weft.scene.resolve import resolve_scene

GRID = shapes.grid((0.4, 0.2), (4, 2))


def on_middle(mesh):
    """The inner edges of the grid on u = middle."""
    u = mesh.uv[:, 0] - mesh.uv[:, 0].min()
    return [tuple(edge) for edge in mesh.edges.tolist() if np.abs(u[edge] - 0.2).max() < 1e-9]


def line_of(mesh):
    low = mesh.uv.min(axis=0)
    return (float(low[0] + 0.2), float(low[1])), (float(low[0] + 0.2), float(low[1] + 0.2))


def test_a_line_and_a_list_choose_the_same_edges():
    edges = on_middle(GRID)
    assert len(edges) == 2
    by_line = rest_angles((Crease(line=line_of(GRID), angle_deg=60.0),), GRID)
    # the order of the edges, and of the ends of an edge, does not matter
    turned = [edge[::-1] for edge in edges[::-1]]
    by_edges = rest_angles((Crease(edges=turned, angle_deg=60.0),), GRID)
    np.testing.assert_array_equal(by_line, by_edges)
    assert np.isfinite(by_line).sum() == 2 and np.nanmax(by_line) == pytest.approx(np.pi / 3.0)


def test_a_later_crease_replaces_an_earlier_one():
    edges = on_middle(GRID)
    angles = rest_angles((Crease(edges=edges, angle_deg=60.0), Crease(edges=edges[:1], angle_deg=-90.0)), GRID)
    assert sorted(np.degrees(angles[np.isfinite(angles)])) == pytest.approx([-90.0, 60.0])


def scene_with(crease, method="guarded", **cloth):
    body = cloth or {"shape": weft.Grid(size=(0.4, 0.2), cells=(4, 2))}
    return Scene(cloths=[weft.Cloth(**body, creases=[crease])], method=method)


def test_creases_go_through_a_scene_file(tmp_path):
    scene = scene_with({"edges": on_middle(GRID), "angle_deg": -45.0})
    save_scene(scene, tmp_path / "scene.toml")
    assert load_scene(tmp_path / "scene.toml").cloths[0].creases == scene.cloths[0].creases
    angles = resolve_scene(scene).rest_angles[0]
    assert angles[np.isfinite(angles)] == pytest.approx(np.full(2, -np.pi / 4.0))


@pytest.mark.parametrize(
    ("crease", "said"),
    [
        ({"angle_deg": 90.0}, "needs either edges or a line, and has neither"),
        ({"edges": [[0, 1]], "line": [[0, 0], [1, 0]]}, "needs either edges or a line, and has both"),
        ({"line": [[0, 0], [0, 0]]}, "the two points of line are the same"),
        ({"edges": []}, "edges"),
        ({"edges": [[0, 1, 2]]}, "edges"),
        ({"edges": [[0, 1]], "angle_deg": 270.0}, "angle_deg: must be at most 180"),
        ({"edges": [[0, 1]], "angle_deg": float("nan")}, "angle_deg"),
    ],
)
def test_creases_without_sense_are_refused_in_one_line(crease, said):
    with pytest.raises(SceneError) as caught:
        scene_with(crease)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("crease", "said"),
    [
        ({"edges": [[0, 99]]}, "there is no vertex 99, the cloth has vertices 0 to 14"),
        ({"edges": [[0, 14]]}, "vertices 0 and 14 are not the ends of an edge between two triangles"),
        # an edge of the border has one triangle only
        ({"edges": [[0, 1]]}, "vertices 0 and 1 are not the ends of an edge between two triangles"),
        ({"line": [[5.0, 0.0], [6.0, 0.0]]}, "no edge between two triangles lies on it"),
    ],
)
def test_edges_that_do_not_exist_are_refused_in_one_line(crease, said):
    with pytest.raises(SceneError) as caught:
        resolve_scene(scene_with(crease))
    assert said in str(caught.value) and "creases" in str(caught.value) and "\n" not in str(caught.value)


def test_a_line_needs_a_flat_rest_shape(tmp_path):
    np.savez(tmp_path / "sheet.npz", vertices=GRID.vertices, faces=GRID.faces)
    with pytest.raises(SceneError, match="give edges, or rest"):
        resolve_scene(scene_with({"line": [[0, 0], [1, 0]]}, mesh=tmp_path / "sheet.npz"))


def test_methods_without_triangles_refuse_creases():
    for method in ("push", {"name": "plain", "dynamics": "mass_spring"}):
        with pytest.raises(SceneError, match="a rest shape with creases is not modelled by"):
            scene_with({"edges": [[1, 4]]}, method=method)
