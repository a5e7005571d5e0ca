"""The parts of guarded against brute force: solids, states and causes of pairs, held velocities, limits of displacements."""

from types import SimpleNamespace

import guarded_scenes as scenes
import numpy as np
import pytest
import warp as wp

import weft
from weft.analysis.analyser import Analyser
from weft.analysis.attraction import Moves
from weft.analysis.solid_queries import INSIDE, OUTSIDE, PINCHED, ClosedSurfaces
from weft.analysis.solids import Solids, closed_faces
from weft.mesh import shapes
from weft.mesh.topology import Topology
from weft.methods.base import StepReport
from weft.methods.guarded.forcing import Forced, GuardedRounds, held_velocities
from weft.methods.guarded.held import HeldVertices
from weft.methods.guarded.ledger import Ledger
from weft.methods.guarded.neighbourhood import Neighbourhood
from weft.methods.guarded.pair_states import PairStates, TangleSides
from weft.methods.guarded.parting import Parting, limited
from weft.methods.guarded.tangles import TangleFinder
from weft.run.simulation import compile_scene
from weft.world import World


def boxes(gap: float = -0.1) -> World:
    """Two boxes of 0.4 m along x, that overlap where the gap is negative, beside a small cloth."""
    at = 0.2 + 0.5 * gap
    colliders = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.4, 0.4, 0.4)),
            placement=weft.Placement(position=(side * at, 0.0, 0.0)),
        )
        for name, side in (("left", -1.0), ("right", 1.0))
    ]
    sheet = weft.Cloth(name="sheet", shape=weft.Grid(size=(0.1, 0.1), cells=(2, 2)))
    return World(weft.Scene(name="boxes", cloths=[sheet], colliders=colliders))


def test_points_in_one_box_are_inside_and_points_in_two_are_pinched():
    world = boxes()
    solids = Solids(world.faces[world.cloth_face_count :], world.rest_positions)
    points = np.random.default_rng(0).uniform(-0.45, 0.45, (2000, 3))
    solids.place(world.rest_positions)
    found = solids.locate(points, np.full(len(points), 1e-4))
    inside = [np.abs(points - [side * 0.15, 0.0, 0.0]).max(axis=1) < 0.2 for side in (-1.0, 1.0)]
    both, one, none = inside[0] & inside[1], inside[0] ^ inside[1], ~(inside[0] | inside[1])
    assert (found.state[both] == PINCHED).all() and both.sum() > 10
    assert (found.state[none] == OUTSIDE).all()
    # inside one of them it is also pinched where the nearest way out leads into the other
    assert np.isin(found.state[one], (INSIDE, PINCHED)).all()
    blocked = one & (found.state == PINCHED)
    point, normal = found.nearest(world.rest_positions)
    beyond = point + 1e-4 * normal
    other = np.any([np.abs(beyond - [side * 0.15, 0.0, 0.0]).max(axis=1) < 0.2 for side in (-1.0, 1.0)], axis=0)
    assert np.array_equal(other[one], blocked[one])


def test_points_are_looked_at_again_only_where_they_or_the_solids_moved(monkeypatch):
    """And what is kept is what would be found again, to the last bit."""
    world = boxes()
    faces, x = world.faces[world.cloth_face_count :], np.array(world.rest_positions)
    solids, asked = Solids(faces, x), []
    inputs = ClosedSurfaces._inputs
    monkeypatch.setattr(
        ClosedSurfaces, "_inputs", lambda self, p, t: (asked.append(len(p) * (t > 0.0).any()), inputs(self, p, t))[1]
    )
    rng = np.random.default_rng(1)
    points, thickness = rng.uniform(-0.3, 0.3, (400, 3)), np.full(400, 1e-3)
    found = {}
    for step in ("first", "same", "some points move", "fewer points", "a solid moves", "all leave"):
        if step == "some points move":
            points = points + (np.arange(400)[:, None] % 7 == 0) * rng.normal(size=(400, 3)) * 0.05
        if step == "fewer points":
            points, thickness = points[:300], thickness[:300]
        if step == "a solid moves":
            x = x + (x[:, :1] > 0.05) * [0.01, 0.0, 0.02]
        if step == "all leave":
            x = x + [3.0, 0.0, 0.0]
        asked.clear()
        solids.place(x)
        kept = solids.locate(points, thickness)
        found[step] = sum(asked)
        fresh = Solids(faces, world.rest_positions)
        fresh.place(x)
        for one, other in zip(kept, fresh.locate(points, thickness), strict=True):
            assert np.array_equal(one, other), step
    assert found["first"] > 100 and found["same"] == 0 and found["fewer points"] == 0
    assert 0 < found["some points move"] < 0.5 * found["first"] < found["a solid moves"]


def test_of_points_that_are_known_to_be_on_one_side_few_are_looked_at(tmp_path):
    """What edges that cross nothing connect is inside or outside as a whole: the same is found as for every vertex alone."""
    tube = weft.mesh.shapes.cylinder(0.1, 0.5, segments=24, rings=30)
    at = tube.vertices - tube.vertices.mean(axis=0) + [0.03, 0.0, 0.01]
    # a body with a hole that cloth passes through, and a closed one that the cloth passes through too
    ball = shapes.icosphere(0.15, subdivisions=3)
    np.savez(tmp_path / "tube.npz", vertices=at, faces=tube.faces)
    np.savez(tmp_path / "ball.npz", vertices=ball.vertices, faces=np.delete(ball.faces, [5, 300], axis=0))
    colliders = [
        weft.Collider(name="ball", mesh=str(tmp_path / "ball.npz")),
        weft.Collider(
            name="box", shape=weft.Box(size=(0.2,) * 3), placement=weft.Placement(position=(0.1, 0.103, 0.0))
        ),
    ]
    sleeve = weft.Cloth(name="tube", mesh=str(tmp_path / "tube.npz"))
    world = World(weft.Scene(name="known", cloths=[sleeve], colliders=colliders))
    finder = TangleFinder(world)
    tangles = finder.find(world.initial_state().x)
    assert tangles is not None
    count, x = world.cloth_vertex_count, world.rest_positions
    alone = finder.solids.locate(x[:count], world.thickness.numpy()[:count])
    assert min(np.bincount(alone.state, minlength=3)) > 20
    for found, expected in zip(finder.around, alone, strict=True):
        if len(expected) == count:
            found, expected = found[alone.state != OUTSIDE], expected[alone.state != OUTSIDE]
        assert np.array_equal(found, expected)
    assert np.array_equal(finder.around.state, alone.state)
    assert len(finder.solids.holes()) == 2


def test_a_pinched_point_moves_by_the_mean_of_what_pinches_it():
    world = boxes()
    solids = Solids(world.faces[world.cloth_face_count :], world.rest_positions)
    solids.place(world.rest_positions)
    points = np.array([[0.0, 0.01, 0.02], [0.03, -0.05, 0.0]])
    motion = np.zeros((world.vertex_count, 3))
    motion[world.bodies[1].vertices], motion[world.bodies[2].vertices] = [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]
    found = solids.locate(points, np.zeros(2))
    assert (found.state == PINCHED).all()
    assert np.allclose(found.carried(motion), [0.5, 1.0, 0.0], atol=1e-6)
    assert np.allclose(found.take(np.array([1])).carried(motion), [0.5, 1.0, 0.0], atol=1e-6)


def test_only_closed_surfaces_are_solids_and_their_normals_point_outwards():
    box, sheet = shapes.box((1.0, 1.0, 1.0)), shapes.grid((1.0, 1.0), (2, 2))
    x = np.concatenate([box.vertices, sheet.vertices])
    faces = np.concatenate([box.faces[:, ::-1], sheet.faces + len(box.vertices)]).astype(np.int32)
    closed, piece, hole = closed_faces(faces, x)
    assert (hole < 0).all() and len(closed) == len(box.faces) and (piece == 0).all()
    a, b, c = (x[closed[:, k]] for k in range(3))
    assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0 == pytest.approx(1.0)


def test_crossings_within_tangles_are_found_as_by_brute_force():
    world = boxes()
    rng = np.random.default_rng(1)
    sides = TangleSides(rng.integers(0, world.vertex_count, 30), rng.integers(0, 6, 30))
    lists = {v: set(sides.side[sides.vertex == v].tolist()) for v in range(world.vertex_count)}
    states = PairStates(world)
    states.assign(sides, None)
    ends, faces = rng.integers(0, world.vertex_count, (200, 2)), rng.integers(0, world.vertex_count, (200, 3))
    expected = [
        any(side ^ 1 in lists[b] for a in edge for b in face for side in lists[a])
        for edge, face in zip(ends.tolist(), faces.tolist(), strict=True)
    ]
    assert states.tangled(ends, faces).tolist() == expected
    assert any(expected) and not all(expected)
    states.assign(TangleSides.join(), None)
    assert not states.any and not states.tangled(ends, faces).any()


def test_cloth_beside_a_pinch_may_be_forced_in_only_where_solids_move_against_each_other(tmp_path):
    world, method = compile_scene(scenes.arm_in_torso(tmp_path))
    state = world.initial_state()
    method.begin(state)
    tangles = method.finder.find(state.x)
    held = tangles.inside[tangles.pinched]
    motion = np.zeros((world.vertex_count, 3))
    still = method.finder.places(tangles, held, motion)
    assert still.pinched.sum() > len(held) > 0 and not still.closing.any()
    motion[world.cloth_vertex_count :] = (0.01, 0.0, 0.02)
    assert not method.finder.places(tangles, held, motion).closing.any()
    motion[world.bodies[1].vertices] = (0.02, 0.0, 0.02)
    assert np.array_equal(method.finder.places(tangles, held, motion).closing, still.pinched)


@pytest.mark.parametrize("seed", range(4))
def test_a_neighbourhood_is_what_edges_lead_to(seed):
    rng = np.random.default_rng(seed)
    edges = np.unique(np.sort(rng.integers(0, 40, (60, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    near = Neighbourhood(Topology(np.column_stack([edges, edges[:, 0]]), 40))
    beside = [{int(b) for pair in edges.tolist() for a, b in (pair, pair[::-1]) if a == v} for v in range(40)]
    vertex, side = rng.integers(0, 40, 5), rng.integers(0, 3, 5)
    expected = set(zip(vertex.tolist(), side.tolist(), strict=True))
    for rings in range(4):
        found = near.widen(vertex, side, rings)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(expected)
        around = set(np.flatnonzero(near.around(vertex, rings)).tolist())
        assert around == {v for v, _ in expected}
        expected |= {(b, s) for v, s in expected for b in beside[v]}
    # those that edges between the given vertices connect with a seed
    vertices = np.unique(rng.integers(0, 40, 25))
    reached, before = {int(vertices[0])}, set()
    while reached != before:
        before = set(reached)
        reached |= {b for v in reached for b in beside[v] if b in vertices}
    assert set(near.connected(vertices[:1], vertices).tolist()) == reached
    assert not len(near.widen(vertex[:0], side[:0], 2)[0])


def test_tangles_that_are_joined_keep_apart():
    one, other = TangleSides.of(np.array([1, 2]), np.array([3])), TangleSides.of(np.array([4]), np.array([1]))
    joined = TangleSides.join(one, other)
    assert joined.vertex.tolist() == [1, 2, 3, 4, 1]
    assert joined.side.tolist() == [0, 0, 1, 2, 3]


def test_what_is_held_moves_by_the_mean_of_what_it_collides_with():
    # vertex 0 between two triangles that move up and down, vertex 7 with nothing
    rows = np.array([[0, 1, 2, 3], [0, 4, 5, 6]])
    weights = np.array([[1.0, -0.2, -0.3, -0.5], [1.0, -1.0, 0.0, 0.0]])
    velocities = np.zeros((8, 3))
    velocities[1:4], velocities[4:7] = [0.0, 2.0, 0.0], [0.0, -1.0, 3.0]
    free = np.array([True, *[False] * 6, True])
    found = held_velocities(np.array([0, 7]), rows, weights, velocities, free, np.array([4]))
    assert np.allclose(found, [[0.0, 0.5, 1.5], [0.0, -1.0, 3.0]])


def held_grid(pins: list[weft.Pin] | None = None) -> tuple[World, np.ndarray]:
    """A sheet of edges of 0.1 m without colliders, at the start of a step, and where its vertices are."""
    sheet = weft.Cloth(name="sheet", shape=weft.Grid(size=(0.4, 0.4), cells=(4, 4)), pins=pins or [])
    world = World(weft.Scene(name="held", cloths=[sheet]))
    state = world.initial_state()
    world.begin_step(state, 0.01)
    return world, state.positions()


def ends_of(world: World, held: HeldVertices, x: np.ndarray) -> np.ndarray:
    """Where the held vertices end a step of 10 ms in which nothing else moves."""
    held.apply(x, np.zeros_like(x), 0.01)
    assert (world.inverse_mass.numpy()[held.vertices] == 0.0).all()
    return world.target.numpy()


def test_held_cloth_slips_where_its_holders_would_tear_it():
    world, x = held_grid()
    held = HeldVertices(world, 0.1)
    velocities = np.where(np.arange(25)[:, None] < 10, [4.0, 0.0, 2.0], [-4.0, 0.0, 3.0])
    chosen = np.array([6, 7, 8, 11, 12, 13])
    held.add(chosen, velocities[chosen])
    end = x.copy()
    end[chosen] = ends_of(world, held, x)[chosen]
    edges, rest = (array.numpy() for array in world.cloth_edges)
    near = np.isin(edges, chosen).any(axis=1)
    stretch = np.linalg.norm(end[edges[:, 1]] - end[edges[:, 0]], axis=1) / rest - 1.0
    assert stretch[near].max() < 0.11
    # what would tear nothing goes where its holders take it
    held.let_go()
    alone = HeldVertices(world, 0.1)
    alone.add(np.array([12]), np.array([[0.3, 0.5, 0.0]]))
    assert np.allclose(ends_of(world, alone, x)[12], x[12] + [0.003, 0.005, 0.0])


def test_held_cloth_that_is_joined_moves_as_one_and_with_pins_among_it():
    world, x = held_grid([weft.Pin(indices=[0])])
    held = HeldVertices(world, 10.0)
    chosen = np.array([0, 6, 12, 18])
    held.add(chosen, np.array([[9.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 1.0]]), released=False)
    assert len(held.sides().vertex) == 0
    assert held.join(np.array([12, 18])) and held.join(np.array([0, 6])) and not held.join(np.array([18, 12]))
    moved = ends_of(world, held, x) - x
    assert np.allclose(moved[[12, 18]], [0.0, 0.02, 0.005])
    assert np.allclose(moved[[0, 6]], 0.0, atol=1e-9)


def test_displacements_are_limited_vertex_by_vertex():
    vectors = np.array([[3.0, 4.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.allclose(limited(vectors, np.array([1.0, 1.0, 0.0])), [[0.6, 0.8, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, 0.0]])


def test_what_cannot_move_leaves_all_of_the_way_to_the_other_side():
    world, _ = held_grid()
    parting = Parting(world, Analyser(world.faces, world.vertex_count))
    moves = Moves(np.array([[0, 24], [1, 23]]), np.array([[1.0, -1.0], [1.0, -1.0]]), np.eye(3)[:2])
    movable = np.ones(world.vertex_count, bool)
    movable[[1]] = False
    found = parting._for_movable(moves, movable)
    assert np.allclose(found.directions, [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    assert np.allclose(found.weights, [[1.0, -1.0], [0.0, -1.0]])


@pytest.mark.parametrize("vertex, forced", [(12, False), (0, True)])
def test_only_pairs_without_a_vertex_that_can_move_are_forced(vertex, forced):
    """A vertex collides with a triangle of pins, in the first of the rounds of impact zones; then nothing collides."""
    world, x = held_grid([weft.Pin(indices=[0, 6, 7, 8])])
    stencils = wp.array([[vertex, 6, 7, 8]], dtype=wp.vec4i, device="cpu")
    weights = wp.array([[1.0, -0.3, -0.3, -0.4]], dtype=wp.vec4d, device="cpu")
    rounds = GuardedRounds.__new__(GuardedRounds)
    rounds.world, rounds.motion = world, SimpleNamespace(v=wp.zeros(len(x), dtype=wp.vec3d, device="cpu"))
    rounds.contacts = SimpleNamespace(count=0, vertices=stencils, weights=weights)

    def find(state, dt, report):
        found, rounds.contacts.count = 1 - rounds.contacts.count, 1
        return found

    rounds.find = find
    report = StepReport()
    if forced:
        with pytest.raises(Forced) as raised:
            rounds.move_rigid_zones(world.initial_state(), 0.01, report)
        assert raised.value.stencils.tolist() == [[0, 6, 7, 8]]
    else:
        rounds.move_rigid_zones(world.initial_state(), 0.01, report)
        assert report.zones == 1


def test_pins_that_are_forced_through_each_other_release_only_their_pairs(tmp_path):
    """Two rows of pins of one cloth move through each other: nothing else of the cloth crosses."""
    through = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=0.2, position=(0.0, -0.06, 0.0))])
    sheets = [
        weft.Cloth(
            name=name,
            shape=weft.Grid(size=(0.2, 0.2), cells=(4, 4)),
            placement=weft.Placement(position=(0.011 * height, height, 0.007 * height)),
            pins=[weft.Pin(box=((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)), motion=motion)],
        )
        for name, height, motion in (("lower", 0.0, weft.Still()), ("upper", 0.03, through))
    ]
    scene = weft.Scene(name="pins", frames=12, method="guarded", cloths=sheets)
    cache = weft.simulate(scene, tmp_path / "pins.zarr", progress=False)
    assert not cache.report["newly_crossing"].any()
    assert cache.report["intersections"][-1] == 0
    # the pins are where they were told to be, on the other side
    x = cache.positions(12)
    assert x[cache.bodies[1].vertices, 1].max() < x[cache.bodies[0].vertices, 1].min()


def test_a_free_scene_never_sets_up_the_analysis():
    scene = weft.Scene(name="free", cloths=[weft.Cloth(name="sheet", shape=weft.Grid(cells=(4, 4)))])
    world, method = compile_scene(scene)
    method.advance_frame(world.initial_state())
    assert "analyser" not in vars(method.finder) and "solids" not in vars(method.finder)


def test_a_surface_with_small_holes_is_a_solid_and_one_with_large_holes_is_not():
    ball = shapes.icosphere(1.0, subdivisions=4)
    # three holes that touch at corners and one of a single triangle; the second surface lacks its upper half
    lower = ball.faces[ball.vertices[ball.faces, 1].max(axis=1) < 0.0]
    holed = np.delete(ball.faces, [0, 1, 2, 400], axis=0)
    count = len(ball.vertices)
    x = np.concatenate([ball.vertices, ball.vertices + [5.0, 0.0, 0.0]])
    faces = np.concatenate([holed[:, ::-1], lower + count]).astype(np.int32)
    closed, piece, hole = closed_faces(faces, x)
    assert 1 <= len(np.unique(hole[hole >= 0])) <= 4
    assert (piece == 0).all() and closed.max() < count
    # what has no boundary has each edge as often in one direction as in the other
    there, back = (closed[:, list(ends)] for ends in ([0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]))
    keys = [np.sort(edges.reshape(-1, 2) @ [count, 1]) for edges in (there, back)]
    assert np.array_equal(*keys)
    solids = Solids(faces, x)
    points = np.random.default_rng(2).uniform(-1.2, 6.2, (4000, 3)) * [1.0, 0.15, 0.15]
    radius = np.linalg.norm(points, axis=1)
    clear = np.abs(radius - 1.0) > 0.02
    inside = solids.locate(points, np.zeros(len(points))).state != OUTSIDE
    assert np.array_equal(inside[clear], (radius < 1.0)[clear]) and inside.sum() > 100


def test_each_pair_that_comes_to_cross_has_one_cause():
    ledger = Ledger(10)
    edge, face = np.array([0, 3, 4]), np.array([7, 0, 9])
    assert ledger.keys(edge, face).tolist() == [7, 30, 49]
    ledger.start(np.array([7]))
    yes, no = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    ledger.end_step(np.array([7, 30, 49]), np.array([True, True, False]), np.array([True, True, True]))
    # the first crossed before, the second is forced, the third was left alone
    assert ledger.released.tolist() == [30] and (ledger.opened, ledger.newly_crossing) == (1, 0)
    ledger.end_step(np.array([30, 49, 50]), no, no)
    assert ledger.released.tolist() == [30] and (ledger.opened, ledger.newly_crossing) == (1, 1)
    # what came free is released no longer, and a pair that crosses again counts again
    ledger.begin_frame()
    ledger.end_step(np.array([49]), yes[:1], yes[:1])
    ledger.end_step(np.array([30, 49]), no[:2], yes[:2])
    assert ledger.released.tolist() == [] and (ledger.opened, ledger.newly_crossing) == (1, 0)


@pytest.mark.parametrize("kind", ["jaw", "corner"])
def test_the_causes_of_a_step_sum_up_to_what_exact_arithmetic_finds(kind, tmp_path, monkeypatch):
    scene = scenes.jaw(cells=12) if kind == "jaw" else scenes.tangled_start(kind, tmp_path)
    world, method = compile_scene(scene)
    state, advance, checked = world.initial_state(), method._advance, []

    def crossing():
        rows = weft.intersections(state.positions(), world.faces)
        # the plates of the jaw pass through each other
        cloth = (rows[:, 0] < world.cloth_vertex_count) | (rows[:, 2] < world.cloth_face_count)
        return set(map(tuple, rows[cloth].tolist()))

    def counted():
        return method.ledger.opened + method.ledger.newly_crossing

    def watched(*given, **options):
        method._find_tangles(state)
        known, released, before = crossing(), method.ledger.released, counted()
        report = advance(*given, **options)
        if report is not None:
            causes = counted() - before + len(np.setdiff1d(method.ledger.released, released))
            checked.append((len(crossing() - known), causes))
        return report

    monkeypatch.setattr(method, "_advance", watched)
    method.begin(state)
    for _ in range(13 if kind == "jaw" else 2):
        method.advance_frame(state)
    found, causes = np.array(checked).T
    assert found.any() and np.array_equal(found, causes)


def test_crossings_of_triangles_that_a_seam_joins_do_not_count(tmp_path):
    """They are meant to touch; paths that go on beyond the seam have some of them."""
    v, faces, rest = scenes.flat(8)
    count = len(v)
    noise = np.random.default_rng(3).normal(0.0, 0.002, (2 * count, 3))
    both = {"vertices": np.concatenate([v, v]) + noise, "faces": np.concatenate([faces, faces + count])}
    edge = np.flatnonzero(v[:, 0] > 0.149)
    stitches = {"stitch_vertices": np.column_stack([edge, edge + count, edge + count]), "stitch_weight": np.zeros(9)}
    np.savez(tmp_path / "folded.npz", uv=np.concatenate([rest, rest + [1.0, 0.0]]), **both, **stitches)
    file = str(tmp_path / "folded.npz")
    scene = scenes.floating([weft.Cloth(name="folded", mesh=file)], frames=3).replace(
        seams=[weft.Seam(cloth="folded", file=file)]
    )
    world = World(scene)
    tangles = TangleFinder(world).find(world.initial_state().x)
    assert tangles is not None and 10 < len(tangles.counted) < tangles.analysis.crossings
    report = weft.simulate(scene, tmp_path / "out.zarr", progress=False).report
    np.testing.assert_array_equal(report["crossing"], report["intersections"])
    assert report["crossing"][0] == len(tangles.counted) and not report["newly_crossing"].any()
