"""push: what is near by any search, how vertices move, how large triangles are split."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.errors import SceneError
from weft.methods import make_method
from weft.methods.push.centroid_trees import KINDS, RADIUS, CentroidIndex, CentroidTree, next_range
from weft.methods.push.push_out import MOVES_OF_CLOSE, SORT_EVERY, PushOut, split_faces
from weft.runtime import get_threads, launch, set_threads
from weft.scene import Push as PushOptions
from weft.world import World

CLOSE = 0.1


@wp.kernel
def mark_found(first: int, index: CentroidIndex, points: wp.array[wp.vec3d], found: wp.array2d[int]):
    i = first + wp.tid()
    radius = index.measures[RADIUS]
    low = points[i] - wp.vec3d(radius, radius, radius)
    high = points[i] + wp.vec3d(radius, radius, radius)
    place = int(1)
    while place > 0:
        span = next_range(index, points[i], low, high, place)
        for k in range(span[0], span[1]):
            found[i, index.order[k]] += 1
        place = span[2]


def built(name, corners, close=CLOSE, slack=0.0):
    """A search over triangles (m, 3, 3)."""
    search = CentroidTree(name, np.arange(len(corners)))
    faces = wp.array(np.arange(3 * len(corners)).reshape(-1, 3), dtype=wp.vec3i, device="cpu")
    x = wp.array(corners.reshape(-1, 3), dtype=wp.vec3d, device="cpu")
    search.sort(faces, x)
    search.build(faces, x, close, slack)
    return search


def found_by(name, corners, points, close=CLOSE, slack=0.0):
    """How often each triangle is found from each point."""
    index = built(name, corners, close, slack).index
    found = wp.zeros((len(points), len(corners)), dtype=int, device="cpu")
    launch(mark_found, len(points), [index, wp.array(points, dtype=wp.vec3d, device="cpu"), found])
    return found.numpy()


def triangles(seed, count, size=0.1):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (count, 1, 3)) + rng.uniform(-size, size, (count, 3, 3))


def near(corners, points, close):
    """Over the triangle and nearer than close to its plane, by barycentric coordinates."""
    result = np.zeros((len(points), len(corners)), bool)
    for f, (a, b, c) in enumerate(corners):
        n = np.cross(b - a, c - a)
        n /= np.linalg.norm(n)
        weights = np.linalg.solve(np.stack([b - a, c - a, n], axis=1), (points - a).T)
        inside = (weights[:2] >= 0).all(axis=0) & (weights[:2].sum(axis=0) <= 1)
        result[:, f] = inside & (np.abs(weights[2]) < close)
    return result


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.sampled_from([1, 2, 7, 8, 9, 17, 60]), size=st.sampled_from([0.02, 0.3]))
def test_searches_find_what_they_promise_and_nothing_twice(seed, count, size):
    corners = triangles(seed, count, size)
    points = np.random.default_rng(seed + 1).uniform(-0.2, 1.2, (40, 3))
    close_pairs = near(corners, points, CLOSE)
    found = {name: found_by(name, corners, points) for name in ("brute", "kdtree", "octree")}
    assert (found["brute"] == 1).all()
    assert set(np.unique(found["kdtree"])) <= {0, 1} and set(np.unique(found["octree"])) <= {0, 1}
    # the kd-tree misses nothing
    assert (found["kdtree"][close_pairs] == 1).all()
    # the octree finds exactly what shares its cell
    centroids = corners.mean(axis=1)
    low, high = centroids.min(axis=0) - CLOSE, centroids.max(axis=0) + CLOSE
    side = (high - low).max()
    cells = 2 ** int(np.floor(np.log2(max(side / CLOSE, 1.0))))
    assert side / cells >= CLOSE * (1 - 1e-9) and side / cells < 2 * CLOSE
    place = [np.floor((p - low) * (cells / side)) for p in (points, centroids)]
    inside = ((place[0] >= 0) & (place[0] < cells)).all(axis=1)
    same = (place[0][:, None] == np.clip(place[1], 0, cells - 1)[None]).all(axis=2) & inside[:, None]
    assert (found["octree"].astype(bool) == same).all()


# more are shared by the threads there are
@pytest.mark.parametrize("count", [1, 9, 60, 5000])
def test_an_octree_is_in_the_order_of_its_cells(count):
    corners = triangles(count, count, 0.05)
    index = built("octree", corners, 0.03).index
    # as numpy would build it
    centroids = corners.mean(axis=1)
    low, high = centroids.min(axis=0) - 0.03, centroids.max(axis=0) + 0.03
    side = float((high - low).max())
    cells = 2 ** int(np.floor(np.log2(max(side / 0.03, 1.0))))
    places = np.clip(np.floor((centroids - low) * (cells / side)), 0, cells - 1).astype(np.int64)
    keys = (places[:, 0] * cells + places[:, 1]) * cells + places[:, 2]
    order = np.argsort(keys, kind="stable")
    assert np.array_equal(index.measures.numpy()[:5], [*low, cells / side, cells])
    assert np.array_equal(index.order.numpy()[:count], order)
    assert np.array_equal(index.keys.numpy()[:count], keys[order])


@pytest.mark.parametrize("count", [1, 9, 60, 5000])
def test_a_kd_tree_is_halved_at_medians_and_its_boxes_are_exact(count):
    corners = triangles(count, count, 0.05) - 0.5
    index = built("kdtree", corners).index
    levels, centroids = index.levels, corners.mean(axis=1)
    assert count >> levels > 0 and -(-count >> levels) <= 8
    order = index.order.numpy()[:count]
    assert np.array_equal(np.sort(order), np.arange(count))
    for level in range(levels + 1):
        starts = (np.arange((1 << level) + 1) * count) >> level
        for k in range(1 << level):
            inside = centroids[order[starts[k] : starts[k + 1]]]
            node = (1 << level) + k
            assert np.array_equal(index.node_low.numpy()[node], inside.min(axis=0))
            assert np.array_equal(index.node_high.numpy()[node], inside.max(axis=0))
            if level < levels:
                # one side below the other, as far as single precision tells
                middle = ((2 * k + 1) * count >> (level + 1)) - starts[k]
                along = inside[:, level % 3]
                assert along[:middle].max() <= along[middle:].min() + 1e-7
    reach = np.linalg.norm(corners - centroids[:, None], axis=2).max()
    assert index.measures.numpy()[RADIUS] == pytest.approx(CLOSE + reach, rel=1e-5)
    assert index.measures.numpy()[RADIUS] > CLOSE + reach


def test_a_tree_that_was_sorted_long_ago_misses_nothing():
    corners, points = triangles(1, 300), np.random.default_rng(2).uniform(0, 1, (60, 3))
    search = built("kdtree", corners)
    moved = triangles(5, 300)
    faces = wp.array(np.arange(900).reshape(-1, 3), dtype=wp.vec3i, device="cpu")
    for shape in (moved, corners, moved):
        search.build(faces, wp.array(shape.reshape(-1, 3), dtype=wp.vec3d, device="cpu"), CLOSE)
        found = wp.zeros((60, 300), dtype=int, device="cpu")
        launch(mark_found, 60, [search.index, wp.array(points, dtype=wp.vec3d, device="cpu"), found])
        assert (found.numpy()[near(shape, points, CLOSE)] == 1).all()


def test_slack_covers_triangles_that_move_after_the_search_was_built():
    corners = triangles(3, 40)
    points = np.random.default_rng(4).uniform(0, 1, (60, 3))
    move = np.array([0.03, -0.04, 0.0])
    found = found_by("kdtree", corners, points, slack=0.05)
    assert (found[near(corners + move, points, CLOSE)] == 1).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), largest=st.sampled_from([0.05, 0.2, 5.0]))
def test_split_triangles_cover_the_same_surface(seed, largest):
    corners = np.random.default_rng(seed).uniform(-0.5, 0.5, (3, 3, 3))
    split = split_faces(corners, largest)
    points = np.einsum("kc,kcd->kd", split.weights, corners[split.owner]).reshape(-1, 3, 3)
    assert (split.weights >= 0).all() and split.weights.sum(axis=1) == pytest.approx(1.0)
    reach = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2).max()
    assert reach <= largest
    # same areas, same normals, in each of the large ones
    normals = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    whole = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    for k in range(3):
        assert normals[split.owner[::3] == k].sum(axis=0) == pytest.approx(whole[k])
        assert (normals[split.owner[::3] == k] @ whole[k] > 0).all()


def test_too_many_small_triangles_are_refused():
    with pytest.raises(SceneError, match="largest_face"):
        split_faces(np.array([[[0, 0, 0], [1e3, 0, 0], [0, 0, 1e3]]], float), 0.01)


def scene(height, *, search="kdtree", **options):
    """A flat sheet over a floor."""
    return weft.Scene(
        method=PushOptions(search=search, close=CLOSE, **options),
        cloths=[weft.Cloth(shape=weft.Grid(size=(1, 1), cells=(3, 3)), placement={"position": (0.02, height, 0.01)})],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(3, 3)), friction=0.5)],
    )


def pushed(world, *, search="kdtree", moves=4, velocity=(0.0, 0.0, 0.0), **options):
    response = PushOut(world, search=search, close=CLOSE, moves=moves, largest_face=0.2, **options)
    state = world.initial_state()
    world.begin_step(state, 0.001)
    v = state.velocities()
    v[: world.cloth_vertex_count] = velocity
    state.v.assign(v)
    result = response.apply(state.x, state.v, 0.001)
    count = world.cloth_vertex_count
    return result, state.positions()[:count], state.velocities()[:count]


@pytest.mark.parametrize("search", ["brute", "kdtree", "octree"])
@pytest.mark.parametrize("height", [0.02, 0.085, -0.03])
def test_vertices_move_out_by_constant_moves_and_the_last_one_is_shorter(search, height):
    world = World(scene(height))
    (vertices, left), x, _ = pushed(world, search=search, moves=3)
    rise = min(3 * CLOSE / MOVES_OF_CLOSE, CLOSE - height)
    if search == "octree":
        # walls of its cells hide some
        assert 0 < vertices <= 16
    else:
        assert vertices == 16 and left == (0 if rise == CLOSE - height else 16)
        assert x[:, 1] == pytest.approx(height + rise)
    assert x[:, [0, 2]] == pytest.approx(world.rest_positions[:16, [0, 2]])


def test_clear_vertices_and_held_ones_stay():
    world = World(scene(CLOSE * 1.001))
    (vertices, left), x, _ = pushed(world)
    assert (vertices, left) == (0, 0) and (x == world.rest_positions[:16]).all()
    held = scene(0.05).cloths[0].replace(pins=[weft.Pin(boundary="left")])
    world = World(scene(0.05).replace(cloths=[held]))
    result, x, _ = pushed(world)
    assert result.vertices == 12
    assert x[::4, 1] == pytest.approx(0.05) and (x[1::4, 1] > 0.06).all()


def test_between_two_triangles_a_vertex_goes_to_the_middle_and_no_farther():
    ceiling = weft.Collider(name="box", shape=weft.Box(size=(3, 0.5, 3)), placement={"position": (0, 0.08 + 0.25, 0)})
    world = World(scene(0.02).replace(colliders=[*scene(0.02).colliders, ceiling]))
    (vertices, left), x, _ = pushed(world, moves=6)
    assert vertices == left == 16
    assert x[:, 1] == pytest.approx(0.04, abs=1e-12)


def test_a_vertex_that_went_through_is_not_seen_any_more():
    world = World(scene(-1.05 * CLOSE))
    (vertices, left), x, _ = pushed(world)
    assert (vertices, left) == (0, 0) and (x == world.rest_positions[:16]).all()


def test_velocity_towards_the_triangle_goes_and_the_rest_rubs():
    world = World(scene(0.09))
    mu = world.friction_kinetic.numpy()[0, 1]
    _, _, v = pushed(world, velocity=(3.0, -2.0, 0.0))
    assert v[:, 1] == pytest.approx(0.0)
    assert v[:, 0] == pytest.approx(3.0 - mu * 2.0)
    # away from it nothing is lost
    _, _, v = pushed(world, velocity=(3.0, 2.0, 0.0))
    assert v == pytest.approx(np.tile([3.0, 2.0, 0.0], (16, 1)))
    # hard enough it sticks
    _, _, v = pushed(world, velocity=(0.1, -2.0, 0.0))
    assert v == pytest.approx(0.0)


def layers(gap, speed):
    """Two sheets, one over the other, the upper one moving."""
    cloths = [
        weft.Cloth(name="low", shape=weft.Grid(size=(1, 1), cells=(3, 3))),
        weft.Cloth(
            name="high",
            shape=weft.Grid(size=(1, 1), cells=(3, 3)),
            placement={"position": (0.1, gap, 0.12)},
            velocity=(0.0, speed, 0.0),
        ),
    ]
    return World(weft.Scene(method=PushOptions(close=CLOSE), cloths=cloths))


@pytest.mark.parametrize(("gap", "speed", "up"), [(0.05, 0.0, 1), (0.01, -5.0, 1), (-0.003, -5.0, 1), (-0.01, 5.0, -1)])
def test_cloth_moves_back_to_the_side_it_came_from(gap, speed, up):
    # in a step of 1 ms at 5 m/s a vertex goes 5 mm: one that is 3 mm below came from above
    world = layers(gap, speed)
    response = PushOut(world, search="kdtree", close=CLOSE, moves=1, largest_face=0.2)
    state = world.initial_state()
    world.begin_step(state, 0.001)
    before = state.positions()
    response.apply(state.x, state.v, 0.001)
    moved = (state.positions() - before)[16:, 1]
    over = moved != 0.0
    assert over.sum() >= 6
    assert np.sign(moved[over]) == pytest.approx(up)
    # and the other way round for those of the lower sheet
    lower = (state.positions() - before)[:16, 1]
    assert np.sign(lower[lower != 0.0]) == pytest.approx(-up)


def test_layers_that_meet_stop_each_other_and_do_not_bounce():
    """Each gives up its share: if both took over the velocity of the other they would swap velocities and vibrate."""
    world = layers(0.05, 0.0)
    response = PushOut(world, search="kdtree", close=CLOSE, moves=1, largest_face=0.2)
    state = world.initial_state()
    world.begin_step(state, 0.001)
    v = np.zeros((32, 3))
    v[:16, 1], v[16:, 1] = 2.0, -1.0
    state.v.assign(v)
    response.apply(state.x, state.v, 0.001)
    after = state.velocities()[:, 1]
    mass = world.mass[:32]
    assert 0.5 * mass @ after**2 < 0.5 * mass @ v[:, 1] ** 2
    inner = after[5], after[16 + 5]
    # the common velocity lies between both; masses at corners differ
    assert all(-0.2 < speed < 1.2 for speed in inner) and abs(inner[0] - inner[1]) < 0.6


def test_layers_on_held_cloth_stop():
    """Nothing moves held cloth: what lies on it gives up all of its velocity."""
    world = layers(0.05, -1.0)
    scene = world.scene
    low, high = scene.cloths
    world = World(scene.replace(cloths=[low.replace(pins=[weft.Pin(indices=list(range(16)))]), high]))
    response = PushOut(world, search="kdtree", close=CLOSE, moves=1, largest_face=0.2)
    state = world.initial_state()
    world.begin_step(state, 0.001)
    response.apply(state.x, state.v, 0.001)
    moved = state.positions()[16:, 1] != world.rest_positions[16:, 1]
    assert moved.sum() >= 6 and state.velocities()[16:, 1][moved] == pytest.approx(0.0)


@pytest.mark.parametrize(("mesh", "own"), [("octree", "kdtree"), ("brute", "octree"), ("kdtree", "brute")])
def test_cloth_and_colliders_have_a_structure_each(mesh, own):
    """The same moves as with one structure for both, where that finds everything."""
    scene = layers(0.05, 0.0).scene.replace(method=PushOptions(close=CLOSE, search=mesh, search_cloth=own))
    method = make_method(World(scene), scene.method)
    kinds = [KINDS[mesh]] * 2 + [KINDS[own]]
    found = method.response
    assert [s.index.kind for s in (*found.mesh_searches, found.cloth_search)] == kinds
    ends = {}
    for search in (own, "kdtree"):
        world = layers(0.05, 0.0)
        response = PushOut(world, search=mesh, search_cloth=search, close=CLOSE, moves=2, largest_face=0.2)
        state = world.initial_state()
        world.begin_step(state, 0.001)
        response.apply(state.x, state.v, 0.001)
        ends[search] = state.positions()
    assert (ends["kdtree"] != world.rest_positions).any()
    # an octree misses some
    if own != "octree":
        assert (ends[own] == ends["kdtree"]).all()


def test_mesh_and_cloth_can_be_left_out():
    world = layers(0.05, 0.0)
    assert PushOut(world, search="brute", close=CLOSE, moves=1, largest_face=1.0, cloth=False).apply(
        (state := world.initial_state()).x, state.v, 0.001
    ) == (0, 0)
    assert pushed(World(scene(0.02)), mesh=False)[0] == (0, 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_kdtree_and_brute_push_to_the_same_bytes(seed):
    rng = np.random.default_rng(seed)
    cloth = weft.Cloth(shape=weft.Grid(size=(1, 1), cells=(5, 5)), placement={"position": (0, 0.32, 0)})
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.3, subdivisions=2))
    world = World(weft.Scene(method=PushOptions(close=CLOSE), cloths=[cloth], colliders=[ball]))
    noise = np.zeros((world.vertex_count, 3))
    noise[:36] = rng.normal(scale=0.08, size=(36, 3))
    results = []
    for search in ("brute", "kdtree"):
        state = world.initial_state()
        world.begin_step(state, 0.001)
        state.x.assign(state.positions() + noise)
        state.v.assign(noise)
        counts = PushOut(world, search=search, close=CLOSE, moves=6, largest_face=0.1).apply(state.x, state.v, 0.001)
        results.append((counts, state.positions().tobytes(), state.velocities().tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_three_moves_are_as_three_times_one_on_any_number_of_threads(threads):
    """For cloth of enough vertices for two threads; all moves go by the velocities before they are stopped."""
    cloth = weft.Cloth(shape=weft.Grid(size=(1, 1), cells=(18, 18)), placement={"position": (0, 0.32, 0)})
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.3, subdivisions=2))
    world = World(weft.Scene(method=PushOptions(close=0.05), cloths=[cloth], colliders=[ball]))
    noise = np.zeros((world.vertex_count, 3))
    noise[:361] = np.random.default_rng(7).normal(scale=0.03, size=(361, 3))

    def push(moves, times):
        state = world.initial_state()
        world.begin_step(state, 0.001)
        state.x.assign(state.positions() + noise)
        state.v.assign(10.0 * noise)
        response = PushOut(world, search="kdtree", close=0.05, moves=moves, largest_face=0.1)
        counts = [response.apply(state.x, wp.clone(state.v), 0.001) for _ in range(times)]
        return counts, state.positions()

    before = get_threads()
    try:
        set_threads(threads)
        counts, x = push(3, 1)
        set_threads(1)
        each, y = push(1, 3)
    finally:
        set_threads(before)
    assert np.array_equal(x, y)
    assert counts[0].left == each[-1].left > 0
    assert max(one.vertices for one in each) <= counts[0].vertices < 361
    assert np.abs(x - world.rest_positions - noise).max() > 0.05 / MOVES_OF_CLOSE


def test_what_stands_still_is_sorted_once(monkeypatch):
    """A floor is split into many triangles: to sort them again whenever a ball moves would take most of the time."""
    ball = weft.Collider(shape=weft.Sphere(radius=0.2, subdivisions=1), motion=weft.Spin(rate_deg=90))
    floor = scene(0.1).colliders[0]
    world = World(scene(0.02).replace(colliders=[ball, floor]))
    results = {}
    for search in ("kdtree", "brute"):
        response = PushOut(world, search=search, close=CLOSE, moves=1, largest_face=0.2)
        still, moving = response.mesh_searches
        assert moving.count == 80 and still.count > 500
        state = world.initial_state()
        counts = []
        for step in range(SORT_EVERY + 2):
            world.begin_step(state, 0.01)
            counts.append(response.apply(state.x, state.v, 0.01))
            if step == 0:
                monkeypatch.setattr(still, "build", None)
                monkeypatch.setattr(still, "sort", None)
        results[search] = counts, state.positions().tobytes()
    assert results["kdtree"] == results["brute"] and results["brute"][0][0].vertices == 16
