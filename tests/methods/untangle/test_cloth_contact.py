"""Cloth against cloth: which pairs are linked, by brute force; seams, folds and paths that are left alone."""

import numpy as np
import pytest
import warp as wp
from distance_pairs import edge_edge, point_triangle

import weft
from weft.analysis import Analyser
from weft.dynamics.implicit.model import Implicit
from weft.methods import make_method
from weft.methods.untangle.cloth_contact import ClothContact
from weft.world import World

FRAME = 1.0 / 60.0
THICKNESS = 0.004


def sheets(gap=0.003, cells=4, **more):
    """Two small sheets, one over the other and a little to the side."""

    def sheet(name, position):
        return weft.Cloth(
            name=name,
            shape=weft.Grid(size=(0.1, 0.1), cells=(cells, cells)),
            placement=weft.Placement(position=position),
        )

    cloths = [sheet("lower", (0.0, 0.0, 0.0)), sheet("upper", (0.011, gap, 0.007))]
    return World(weft.Scene(cloths=cloths, thickness=THICKNESS, **more))


def linked(world, x, v=None, analysis=None):
    """Sets of vertices of the links, each as the sorted tuple of those with weight, and the links."""
    links = Implicit.from_world(world).step_springs
    v = np.zeros_like(x) if v is None else v
    count = ClothContact(world).repel(
        wp.array(x, dtype=wp.vec3d, device="cpu"),
        wp.array(v, dtype=wp.vec3d, device="cpu"),
        FRAME,
        analysis,
        links,
    )
    assert count == links.count
    vertices, weights, normals, rest, *_ = (column.numpy() for column in links.columns)
    five = [column[: 5 * count].reshape(-1, 5) for column in (vertices, weights)]
    return five[0][:, :4], five[1], normals[:count], rest[:count]


def brute(world, x, distance):
    """All pairs of the world nearer than a distance that share no vertex, vertices and triangles, and edges.

    With each: whether it is a contact of the surfaces for sure, the nearest points being inside of the triangle or of both
    edges, and the direction between edges not leaning to a triangle beside one of them.
    """
    faces = world.cloth_faces
    sides = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    edges = np.unique(sides, axis=0)
    rows = np.array([(p, *f) for p in range(len(x)) for f in faces.tolist() if p not in f])
    gaps, weights = point_triangle(x[rows])[:2]
    near = gaps < distance
    found = {
        tuple(row): bool((np.abs(w) > 1e-6).all()) for row, w in zip(rows[near].tolist(), weights[near], strict=True)
    }
    rows = [(*a, *b) for i, a in enumerate(edges.tolist()) for b in edges[i + 1 :].tolist() if not set(a) & set(b)]
    rows = np.array(rows)
    gaps, weights = edge_edge(x[rows])[:2]
    for row, w in zip(rows[gaps < distance].tolist(), weights[gaps < distance], strict=True):
        r = w @ x[row]
        r /= np.linalg.norm(r)
        leans = max(lean(faces, x, row[:2], -r), lean(faces, x, row[2:], r))
        # pairs that lean by the limit of 0.2 within rounding do not occur here
        found[tuple(row)] = bool((np.abs(w) > 1e-6).all() and leans <= 0.2)
    return found


def lean(faces, x, edge, direction):
    """The largest sine of the angle by which a direction from an edge leans towards a triangle beside it."""
    a, b = x[list(edge)]
    along = (b - a) / np.linalg.norm(b - a)
    most = -1.0
    for face in faces[np.isin(faces, edge).sum(axis=1) == 2]:
        wing = x[np.setdiff1d(face, edge)[0]] - a
        wing -= (wing @ along) * along
        most = max(most, direction @ wing / np.linalg.norm(wing))
    return most


@pytest.mark.parametrize("seed", range(3))
def test_contacts_of_the_surfaces_that_are_near_are_linked(seed):
    world = sheets()
    x = world.initial_state().positions()
    x[:, 1] += np.random.default_rng(seed).normal(scale=0.002, size=len(x))
    # neighbours at rest are farther apart than twice the thickness here
    vertices, weights, normals, rest = linked(world, x)
    found = {tuple(row) for row in vertices.tolist()}
    # beyond the thickness as far as gravity may move cloth in the step
    expected = brute(world, x, THICKNESS + 9.81 * FRAME**2)
    # Warp lists faces and edges in the order of the mesh, so that rows can be compared as they are
    assert len(vertices) == len(found) and found <= set(expected)
    assert found >= {row for row, sure in expected.items() if sure}
    # of pairs of edges no others, of vertices only some that are nearest to a border of a triangle
    edges = {row for row in expected if row[0] < row[1] and row[2] < row[3] and not expected[row]} - {
        row for row in expected if list(row[1:]) in world.cloth_faces.tolist()
    }
    assert not found & edges and sum(expected.values()) > 20
    assert weights.sum(axis=1) == pytest.approx(0.0, abs=1e-12)
    r = np.einsum("lk,lkd->ld", weights[:, :4], x[vertices])
    assert np.einsum("ld,ld->l", r, normals) == pytest.approx(np.linalg.norm(r, axis=1), abs=1e-12)
    assert rest == pytest.approx(THICKNESS)


def test_what_comes_near_within_the_step_is_linked_too():
    world = sheets(gap=0.02)
    x = world.initial_state().positions()
    assert len(linked(world, x)[0]) == 0
    v = np.zeros_like(x)
    v[: len(x) // 2, 1] = 1.2
    assert len(linked(world, x, v)[0]) > 20


def test_no_more_than_half_of_the_distance_at_rest_is_kept():
    """Fine cloth under a thick layer: neighbours of neighbours would explode otherwise."""
    cloth = weft.Cloth(shape=weft.Grid(size=(0.02, 0.02), cells=(8, 8)))
    world = World(weft.Scene(cloths=[cloth], thickness=0.01))
    x = world.initial_state().positions()
    assert len(linked(world, x)[0]) == 0
    # pressed together in its plane every vertex has its neighbours nearer than anything else: nothing is pushed aside
    assert len(linked(world, x / 3.0)[0]) == 0
    # folded onto itself: what is nearer than half of its distance at rest is pushed
    folded = np.column_stack([np.abs(x[:, 0]), np.where(x[:, 0] > 0.0, 0.002, 0.0), x[:, 2] + 1e-4 * x[:, 0]])
    vertices, _, _, rest = linked(world, folded)
    along = np.abs(x[vertices[:, 0], 0]) + np.abs(x[vertices[:, 3], 0])
    assert len(rest) > 0 and rest.max() < 0.01 + 1e-12 and (rest < 0.5 * along + 0.003).all()


def test_two_sheets_that_fall_on_each_other_are_not_thrown():
    """Their vertices exactly over each other: many pairs of the same place, most of which are no contacts."""

    def sheet(name, height):
        shape = weft.Grid(size=(0.2, 0.2), cells=(10, 10))
        return weft.Cloth(name=name, shape=shape, placement=weft.Placement(position=(0.0, height, 0.0)))

    floor = weft.Collider(name="floor", shape=weft.Plane(size=(2.0, 2.0)), analytic=True)
    scene = weft.Scene(cloths=[sheet("low", 0.003), sheet("high", 0.009)], colliders=[floor], method="untangle")
    world = World(scene)
    method, state, count = make_method(world, scene.method), world.initial_state(), world.cloth_vertex_count
    heights = []
    for _ in range(30):
        method.advance_frame(state)
        heights.append(state.positions()[:count, 1].max())
    assert max(heights) < 0.009 and heights[-1] == pytest.approx(0.0019, abs=2e-4)


def test_sewn_vertices_are_not_pushed_apart():
    count = 25
    stitches = [(k, count + k, count + k) for k in range(count)]
    world = sheets(gap=0.001, seams=[weft.Seam(cloth="lower", to="upper", vertices=[(k, k, k) for k in range(count)])])
    assert len(world.seams.vertices) == len(stitches)
    x = world.initial_state().positions()
    x[count:] = x[:count] + [0.0, 0.001, 0.0]
    vertices = linked(world, x)[0]
    sewn = np.where(vertices >= count, vertices - count, vertices)
    for row in sewn.tolist():
        assert len(set(row)) == 4, "a pair that shares a stitch was linked"


def test_around_a_path_nothing_is_pushed():
    world = sheets(gap=0.0, cells=8)
    count = world.cloth_vertex_count // 2
    x = world.initial_state().positions()
    # the upper sheet dips through the lower one in its middle
    upper = x[count:]
    upper[:, 1] = 0.003 - 0.006 * np.exp(-((upper[:, 0] - 0.011) ** 2 + (upper[:, 2] - 0.007) ** 2) / 0.02**2)
    analysis = Analyser(world.cloth_faces, len(x)).analyse(x)
    assert len(analysis) == 1 and analysis.closed.all()
    all_pairs, few = linked(world, x)[0], linked(world, x, None, analysis)[0]
    assert 0 < len(few) < len(all_pairs)
    beside = np.unique(np.concatenate([analysis.rows[:, :2].ravel(), world.cloth_faces[analysis.face].ravel()]))
    assert not np.isin(few, beside).any()
    # nor is what lies inside it
    inside = analysis.region_vertices.items
    assert len(inside) and not np.isin(few, inside).any()
