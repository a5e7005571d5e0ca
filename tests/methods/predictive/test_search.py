"""The search for contacts against a slow and plain one, on random meshes; regions, layers and the cache."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.methods.predictive.contacts import StepContacts, keep_nearest
from weft.methods.predictive.solver import PredictiveSolver
from weft.scene import Predictive
from weft.world import World

THICKNESS = 0.01


def sheets(count, cells=(4, 4), **options):
    """Sheets over each other, 0.1 m apart."""
    cloths = [
        weft.Cloth(
            name=f"sheet{i}",
            shape=weft.Grid(size=(0.4, 0.4), cells=cells),
            placement=weft.Placement(position=(0.013 * i, 0.1 * i, 0.029 * i)),
        )
        for i in range(count)
    ]
    scene = weft.Scene(cloths=cloths, thickness=THICKNESS, method=Predictive(**options))
    world = World(scene)
    world.begin_step(world.initial_state(), 1 / 30)
    return world, PredictiveSolver(world, scene.method)


def find(solver, x, end, radius, **options):
    """The contacts as rows: vertices, kind, weights, normal, thickness."""
    contacts = StepContacts(solver.device)
    arrays = (wp.array(a, dtype=wp.vec3d) for a in (x, end))
    count = solver.search.find(*arrays, radius, contacts, **options)
    return arrays_of(contacts, count)


def arrays_of(contacts, count):
    names = ("vertices", "kinds", "weights", "normals", "thickness", "friction", "triangles")
    return {name: getattr(contacts.arrays, name).numpy()[:count].copy() for name in names}


def unturned(solver, x, end):
    """Where the search takes the vertices to end: without the turn of the cloth as a whole."""
    return solver.search._without_rotation(*(wp.array(a, dtype=wp.vec3d) for a in (x, end))).numpy().copy()


def nearest_in_triangle(p, a, b, c):
    """By trying the inside, the three edges and the three corners."""
    basis = np.column_stack([b - a, c - a])
    u, v = np.linalg.lstsq(basis, p - a, rcond=None)[0]
    if u >= 0 and v >= 0 and u + v <= 1:
        return np.array([1 - u - v, u, v])
    best, found = np.inf, None
    corners = np.array([a, b, c])
    for i in range(3):
        j = (i + 1) % 3
        e = corners[j] - corners[i]
        t = np.clip((p - corners[i]) @ e / (e @ e), 0, 1)
        distance = np.linalg.norm(p - corners[i] - t * e)
        if distance < best:
            found = np.zeros(3)
            found[i], found[j] = 1 - t, t
            best = distance
    return found


def nearest_on_edges(a, b, c, d):
    """By trying the inside of both and each end against the other edge."""
    u, v, r = b - a, d - c, c - a
    tries = []
    if np.linalg.norm(np.cross(u, v)) > 1e-9:
        s, t = np.linalg.lstsq(np.column_stack([u, -v]), r, rcond=None)[0]
        if 0 <= s <= 1 and 0 <= t <= 1:
            tries.append((s, t))
    for s in (0.0, 1.0):
        tries.append((s, np.clip((a + s * u - c) @ v / (v @ v), 0, 1)))
    for t in (0.0, 1.0):
        tries.append((np.clip((c + t * v - a) @ u / (u @ u), 0, 1), t))
    return min(tries, key=lambda st: np.linalg.norm(a + st[0] * u - c - st[1] * v))


def least_distance(paths, *, edges):
    """Of two features over sampled times."""
    if edges:
        pairs = ((q, nearest_on_edges(*q)) for q in paths)
        return min(np.linalg.norm(q[0] + s * (q[1] - q[0]) - q[2] - t * (q[3] - q[2])) for q, (s, t) in pairs)
    return min(np.linalg.norm(q[0] - nearest_in_triangle(*q) @ q[1:]) for q in paths)


def normals_of(x, faces):
    m = np.cross(x[faces[:, 1]] - x[faces[:, 0]], x[faces[:, 2]] - x[faces[:, 0]])
    return m / np.linalg.norm(m, axis=1)[:, None]


def near_enough(w, q, x, end, rest, same_cloth, radius):
    """Distance, direction, thickness and whether the pair comes near."""
    r, way = w @ x[q], w @ (end[q] - x[q])
    distance = np.linalg.norm(r)
    thick = min(THICKNESS, 0.7 * np.linalg.norm(w @ rest[q])) if same_cloth else THICKNESS
    near = distance + min(r @ way / distance, 0.0)
    return distance, r / distance, thick, near <= radius + thick


def straight(now, then, at_rest):
    """Whether the cloth between two places is straight."""
    return min(np.linalg.norm(now), np.linalg.norm(then)) >= 0.95 * np.linalg.norm(at_rest)


def plain_search(world, x, end, radius):
    """All contacts by the definition, over all pairs."""
    faces, surface = world.cloth_faces, world.surface
    edges = surface.edges.numpy().reshape(-1, 2)
    rest = world.rest_shape.numpy()
    cloth = np.repeat(np.arange(len(world.cloths)), [len(p.mesh.vertices) for p in world.cloths])
    normals = normals_of(x, faces)
    wings = [[f for f, face in enumerate(faces) if set(e) <= set(face)] for e in edges.tolist()]
    first_edge = [next(i for i, e in enumerate(edges) if v in e) for v in range(len(x))]
    found = {}
    for v in range(len(x)):
        for f, face in enumerate(faces):
            if v in face:
                continue
            w = np.append(1.0, -nearest_in_triangle(x[v], *x[face]))
            q = np.append(v, face)
            same = cloth[v] == cloth[face[0]]
            _, n, _, near = near_enough(w, q, x, end, rest, same, radius)
            if same and straight(*(at[v] - at[face].mean(axis=0) for at in (x, end, rest))):
                continue
            if near and abs(n @ normals[f]) >= 0.5:
                found[tuple(q)] = (1 if n @ normals[f] > 0 else -1, w)
    for i, e in enumerate(edges):
        for j in range(i + 1, len(edges)):
            f = edges[j]
            if set(e) & set(f):
                continue
            s, t = nearest_on_edges(*x[e], *x[f])
            w, q = np.array([1 - s, s, t - 1, -t]), np.concatenate([e, f])
            same = cloth[e[0]] == cloth[f[0]]
            _, n, thick, near = near_enough(w, q, x, end, rest, same, radius)
            if not near:
                continue
            if same and straight(*(at[e].mean(axis=0) - at[f].mean(axis=0) for at in (x, end, rest))):
                continue
            inside = [1e-6 < s < 1 - 1e-6, 1e-6 < t < 1 - 1e-6]
            if not any(inside):
                continue
            if not all(inside):
                vertex, mine, other = (f[round(t)], j, i) if inside[0] else (e[round(s)], i, j)
                sharp = len(wings[other]) == 1 or normals[wings[other][0]] @ normals[wings[other][1]] < 0.5
                hasty = np.linalg.norm(w @ (end - x)[q]) > 0.25 * (radius + THICKNESS)
                if (
                    not (sharp or hasty)
                    or first_edge[vertex] != mine
                    or any(abs(n @ normals[k]) >= 0.5 for k in wings[other])
                ):
                    continue
                if same and np.linalg.norm(w @ rest[q]) <= radius + thick:
                    continue
            found[tuple(q)] = (0, w)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_contacts_are_those_of_the_definition_each_once(seed):
    rng = np.random.default_rng(seed)
    world, solver = sheets(2, cells=(3, 3))
    x = world.rest_positions * [1, 0.3, 1] + rng.normal(scale=0.02, size=(len(world.rest_positions), 3))
    end = x + rng.normal(scale=0.02, size=x.shape)
    radius = 0.02
    rows = find(solver, x, end, radius)
    expected = plain_search(world, x, unturned(solver, x, end), radius)
    found = [tuple(q) for q in rows["vertices"]]
    assert len(set(found)) == len(found)
    assert set(found) <= set(expected)
    # what moves past rather than towards is told by the direction at the start alone, and its boxes never meet
    for q in set(expected) - set(found):
        times = np.linspace(0, 1, 101)[:, None, None]
        assert least_distance(x[list(q)] + times * (end - x)[list(q)], edges=expected[q][0] == 0) > radius + THICKNESS
    assert len(found) > 0.9 * len(expected)
    assert set(rows["kinds"]) == {-1, 0, 1}
    for q, kind, w in zip(found, rows["kinds"], rows["weights"], strict=True):
        assert kind == expected[q][0]
        np.testing.assert_allclose(w, expected[q][1], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_irregular_meshes_make_each_contact_once(seed, tmp_path):
    from scipy.spatial import Delaunay

    # two crumpled patches of random triangles, so that vertices have between two and a dozen of them
    rng = np.random.default_rng(seed)
    flat = rng.uniform(-0.2, 0.2, size=(22, 2))
    faces = Delaunay(flat).simplices
    rest = np.column_stack([flat[:, 0], np.zeros(len(flat)), flat[:, 1]])
    weft.save_mesh(weft.TriMesh(rest, faces), tmp_path / "patch.obj")
    cloths = [
        weft.Cloth(
            name=f"patch{i}", mesh="patch.obj", placement=weft.Placement(position=(0.01 * i, 0.04 * i, 0.02 * i))
        )
        for i in range(2)
    ]
    scene = weft.Scene(cloths=cloths, thickness=THICKNESS, method=Predictive()).at(tmp_path)
    world = World(scene)
    world.begin_step(world.initial_state(), 1 / 30)
    solver = PredictiveSolver(world, scene.method)
    x = world.rest_positions + rng.normal(scale=0.015, size=world.rest_positions.shape)
    end = x + rng.normal(scale=0.01, size=x.shape)
    rows = find(solver, x, end, 0.02)
    found = rows["vertices"].tolist()
    expected = set(plain_search(world, x, unturned(solver, x, end), 0.02))
    assert len(found) > 50
    assert {tuple(q) for q in found} <= expected
    assert len(found) > 0.9 * len(expected)
    # two edges, or a vertex and a triangle, in whatever order: each of them once
    names = [
        (frozenset(q[:1]), frozenset(q[1:])) if kind else frozenset((frozenset(q[:2]), frozenset(q[2:])))
        for q, kind in zip(found, rows["kinds"], strict=True)
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("threads", "room"), [(1, 256), (3, 256), (1, 1), (2, 2)])
@pytest.mark.parametrize("layers", [(), [("sheet0", "sheet1", "sheet2")]])
def test_one_launch_finds_what_lists_find_in_the_same_order(layers, threads, room, monkeypatch):
    from weft.methods.predictive import search_cpu
    from weft.runtime import get_threads, set_threads

    monkeypatch.setattr(search_cpu, "OVERLAP_ROOM", room)
    monkeypatch.setattr(search_cpu, "WORTH_SHARING", 1)
    rng = np.random.default_rng(7)
    world, solver = sheets(3, cells=(13, 11), layers=layers, self_contacts="triangles")
    before = get_threads()
    set_threads(threads)
    try:
        for wide in (0.003, 0.03):
            # three sheets in folds, through each other
            x = world.rest_positions * [0.6, 0.2, 0.6]
            x[:, 1] += 0.05 * np.sin(40.0 * x[:, 0]) * np.cos(23.0 * x[:, 2])
            x += rng.normal(scale=0.3 * wide, size=x.shape)
            end = x + rng.normal(scale=wide, size=x.shape)
            for edges in (True, False):
                rows = find(solver, x, end, 0.02, edges=edges)
                cpu, solver.search.cpu = solver.search.cpu, None
                listed = find(solver, x, end, 0.02, edges=edges)
                solver.search.cpu = cpu
                assert cpu is not None
                assert len(rows["vertices"]) > 1000
                for name, values in rows.items():
                    np.testing.assert_array_equal(values, listed[name], err_msg=name)
    finally:
        set_threads(before)


def test_positions_that_cannot_be_used_are_told():
    world, solver = sheets(2)
    x = world.rest_positions.copy()
    x[7, 1] = np.nan
    with pytest.raises(weft.WeftError, match="vertex 7 first"):
        find(solver, x, x, 0.02)


@pytest.mark.parametrize("seed", range(3))
def test_points_are_those_of_the_closest_approach_each_once(seed):
    rng = np.random.default_rng(seed)
    world, solver = sheets(2, cells=(4, 4), self_contacts="points")
    x = world.rest_positions * [1, 0.2, 1] + rng.normal(scale=0.02, size=(len(world.rest_positions), 3))
    end = x + rng.normal(scale=0.05, size=x.shape)
    rows = find(solver, x, end, 0.02, kind="points")
    edges = {tuple(e) for part in world.cloths for e in (part.mesh.edges + part.first).tolist()}
    owner = {}
    for face in world.cloth_faces.tolist():
        for v in face:
            owner.setdefault(v, set(face))
    rest, half = world.rest_shape.numpy(), len(x) // 2
    expected = set()
    t = np.linspace(0, 1, 2001)[:, None]
    for a in range(len(x)):
        for b in range(a + 1, len(x)):
            if (a, b) in edges or a in owner[b]:
                continue
            distance = np.linalg.norm(x[a] - x[b] + t * (end[a] - x[a] - end[b] + x[b]), axis=1).min()
            same = (a < half) == (b < half)
            thick = min(THICKNESS, 0.7 * np.linalg.norm(rest[a] - rest[b])) if same else THICKNESS
            if distance <= 0.02 + thick:
                expected.add((a, b))
    found = [(q[0], q[2]) for q in rows["vertices"].tolist()]
    assert len(set(found)) == len(found)
    # the sampled distance is a little too large
    assert set(found) >= expected
    assert len(set(found) - expected) <= 1
    np.testing.assert_allclose(np.linalg.norm(rows["normals"], axis=1), 1.0)


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_contacts_depend_on_nothing_but_the_positions(seed):
    rng = np.random.default_rng(seed)
    world, solver = sheets(2)
    x = world.rest_positions + rng.normal(scale=0.02, size=world.rest_positions.shape)
    first = find(solver, x, x, 0.03)
    find(solver, x + rng.normal(scale=0.05, size=x.shape), x, 0.05)
    again = find(solver, x, x, 0.03)
    for name in first:
        assert first[name].tobytes() == again[name].tobytes()


def test_a_fast_pair_is_found_from_afar_and_a_parting_one_is_not():
    world, solver = sheets(2)
    x = world.rest_positions.copy()
    assert len(find(solver, x, x, 0.03)["kinds"]) == 0
    half = len(x) // 2
    down = x.copy()
    down[half:] -= [0, 0.08, 0]
    found = find(solver, x, down, 0.03)
    over = {q[0] for q in found["vertices"][np.abs(found["kinds"]) == 1].tolist()}
    # all but those that are beyond the border of the other sheet
    assert len(over) > 0.8 * len(x)
    up = x.copy()
    up[half:] += [0, 0.08, 0]
    assert len(find(solver, x, up, 0.03)["kinds"]) == 0


def test_neighbours_in_a_flat_sheet_make_no_contact():
    world, solver = sheets(1, cells=(8, 8))
    x = world.rest_positions
    # 5 cm edges: everything within three edges is near enough, and nothing is over anything
    found = find(solver, x, x, 0.04)
    assert len(found["kinds"]) == 0


def region_pairs(world, solver, rows):
    """Which regions have contacts with each other."""
    region = solver.regions.vertex_region
    return {tuple(sorted({int(region[q[0]]), int(region[q[3]])})) for q in rows["vertices"]}


def test_the_table_of_regions_is_respected():
    x = None
    for collide, expected in (
        (None, {(0, 1), (1, 2)}),
        ([], set()),
        ([["sheet0", "sheet1"]], {(0, 1)}),
        ([["sheet2", "sheet1"]], {(1, 2)}),
        ([["sheet0", "sheet0"], ["sheet1", "sheet1"]], set()),
    ):
        world, solver = sheets(3, collide=collide)
        x = world.rest_positions * [1, 0.2, 1]
        assert region_pairs(world, solver, find(solver, x, x, 0.015)) == expected


def test_a_region_within_a_cloth_collides_with_itself_or_not():
    halves = [{"name": "near", "cloth": "sheet0", "box": [[-9, -9, -9], [0.001, 9, 9]]}]
    for collide, contacts in (
        ([["near", "near"]], False),
        ([["near", "sheet0"]], True),
        ([["sheet0", "sheet0"]], False),
    ):
        world, solver = sheets(1, cells=(8, 4), regions=halves, collide=collide)
        # fold the sheet over so that the half with positive x lies over the other
        x = world.rest_positions.copy()
        over = x[:, 0] > 0.06
        x[over, 0] *= -1
        x[over, 1] += 0.02
        rows = find(solver, x, x, 0.03)
        assert solver.regions.names == ["sheet0", "near"]
        assert (len(rows["kinds"]) > 0) == contacts, collide


def test_layers_set_the_side_whatever_the_side_is():
    for layers, expected in (((), 1), ([["sheet0", "sheet1"]], 1), ([["sheet1", "sheet0"]], -1)):
        world, solver = sheets(2, layers=layers)
        x = world.rest_positions * [1, 0.2, 1]
        rows = find(solver, x, x, 0.03)
        half = len(x) // 2
        of_upper = (rows["vertices"][:, 0] >= half) & (np.abs(rows["kinds"]) == 1)
        of_lower = (rows["vertices"][:, 0] < half) & (np.abs(rows["kinds"]) == 1)
        assert of_upper.any() and of_lower.any()
        assert set(rows["kinds"][of_upper]) == {expected}
        assert set(rows["kinds"][of_lower]) == {-expected}
        # edges of layers that are through each other say nothing; else their normals point to the first edge
        frozen = rows["kinds"] == 0
        assert frozen.any() == (expected == 1)
        upward = np.where(rows["vertices"][:, 0] >= half, 1, -1)
        np.testing.assert_allclose(rows["normals"][frozen, 1], upward[frozen], atol=1e-9)


def test_layers_that_face_each_other_are_not_brought_through():
    # the upper sheet is turned over: the front of a sleeve, say, over the back of the sleeve under it
    world, solver = sheets(2, layers=[["sheet1", "sheet0"]])
    x = world.rest_positions * [1, 0.2, 1]
    half = len(x) // 2
    sides = set()
    for turned in (False, True):
        if turned:
            x[half:, 0] = 0.02 - x[half:, 0]
        rows = find(solver, x, x, 0.03)
        triangles = np.abs(rows["kinds"]) == 1
        q = rows["vertices"][triangles]
        m = np.cross(x[q[:, 2]] - x[q[:, 1]], x[q[:, 3]] - x[q[:, 1]])
        own = np.sign((m * (x[q[:, 0]] - x[q[:, 1]])).sum(axis=1))
        sides.add((turned, *set((own * rows["kinds"][triangles]).tolist())))
    # facing the same way they are through each other, turned over they are where they should be
    assert sides == {(False, -1.0), (True, 1.0)}


def test_cached_contacts_are_those_detected_in_the_pose():
    rng = np.random.default_rng(4)
    world, solver = sheets(2, cache=True, cache_radius=0.03)
    x = world.rest_positions * [1, 0.2, 1] + rng.normal(scale=0.002, size=world.rest_positions.shape)
    solver.cache_contacts(wp.array(x, dtype=wp.vec3d))
    cached = arrays_of(solver.contacts, solver.contacts.count)
    detected = find(solver, x, x, 0.03)
    rows = {tuple(q): i for i, q in enumerate(detected["vertices"].tolist())}
    assert len(cached["kinds"]) > 20
    for i, q in enumerate(cached["vertices"].tolist()):
        j = rows[tuple(q)]
        assert abs(cached["kinds"][i]) == 1
        assert cached["kinds"][i] == detected["kinds"][j]
        for name in ("weights", "normals", "thickness"):
            np.testing.assert_array_equal(cached[name][i], detected[name][j])

    # every vertex that has a triangle on a side of a region has the nearest of them, once
    fresh = StepContacts(solver.device)
    array = wp.array(x, dtype=wp.vec3d)
    solver.search.find(array, array, 0.03, fresh, edges=False)
    keep_nearest(fresh, x, solver.regions, np.zeros(len(x), bool))
    kept = {tuple(q) for q in fresh.arrays.vertices.numpy()[: fresh.count].tolist()}
    mine = {tuple(q) for q in cached["vertices"].tolist()}
    assert mine == kept
    distance = {}
    for q, w, k in zip(detected["vertices"], detected["weights"], detected["kinds"], strict=True):
        if abs(k) == 1:
            key = (q[0], q[1] >= len(x) // 2, k)
            distance.setdefault(key, []).append((round(np.linalg.norm(w @ x[q]), 9), tuple(q.tolist())))
    for choices in distance.values():
        least = min(choices)[0]
        assert sum(q in mine for _, q in choices) == 1
        assert any(q in mine for d, q in choices if d == least)
