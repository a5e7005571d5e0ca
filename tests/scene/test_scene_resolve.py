"""From scenes to meshes, held vertices, stitches: what is found, and what is refused."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import SceneError, WeftWarning
from weft.mesh import TriMesh, save_mesh, shapes
from weft.scene.resolve import resolve_cloth_mesh, resolve_collider, resolve_pins, resolve_scene, resolve_seams
from weft.view.fields import Field

DATA = Path(__file__).parents[3] / "shared" / "data"


def one_cloth(**fields):
    scene = weft.Scene(cloths=[weft.Cloth(name="c", **fields)])
    return scene, scene.cloths[0]


def cloth_mesh(base=".", **fields):
    scene, cloth = one_cloth(**fields)
    return resolve_cloth_mesh(scene.at(base), cloth)


def held(cloth_fields, *pins):
    scene, cloth = one_cloth(pins=pins, **cloth_fields)
    return resolve_pins(scene, cloth, resolve_cloth_mesh(scene, cloth))


def pinned(cloth_fields, **pin):
    return held(cloth_fields, weft.Pin(**pin))[0].vertices.tolist()


GRID = {"shape": weft.Grid(size=(2, 3), cells=(2, 3))}


@pytest.mark.parametrize(
    ("shape", "mesh"),
    [
        (weft.Grid(size=(1, 2), cells=(3, 4), diagonals="same"), shapes.grid((1, 2), (3, 4), diagonals="same")),
        (weft.Strip(length=2, width=0.5, cells=(6, 2)), shapes.grid((2, 0.5), (6, 2))),
        (weft.Sphere(radius=2, subdivisions=1), shapes.icosphere(2.0, subdivisions=1)),
        (weft.Sphere(triangles="uv", segments=5, rings=4), shapes.uv_sphere(0.5, segments=5, rings=4)),
        (
            weft.Capsule(radius=1, length=2, segments=6, rings=2, bands=3),
            shapes.capsule(1.0, 2.0, segments=6, rings=2, bands=3),
        ),
        (weft.Box(size=(1, 2, 3), cells=(1, 2, 1)), shapes.box((1, 2, 3), cells=(1, 2, 1))),
        (weft.Cylinder(radius=1, height=3, segments=7, rings=2), shapes.cylinder(1.0, 3.0, segments=7, rings=2)),
        (weft.Plane(size=(4, 5), cells=(2, 2)), shapes.plane((4, 5), cells=(2, 2))),
    ],
)
def test_shapes_are_those_of_mesh(shape, mesh):
    made = cloth_mesh(shape=shape)
    np.testing.assert_array_equal(made.vertices, mesh.vertices)
    np.testing.assert_array_equal(made.faces, mesh.faces)
    assert (made.uv is None) == (mesh.uv is None)


def test_a_hung_grid_has_its_top_up():
    place = weft.Placement(position=(0, 5, 0), rotation_deg=(90, 0, 0))
    mesh = cloth_mesh(shape=weft.Grid(size=(2, 4), cells=(2, 4)), placement=place)
    np.testing.assert_array_equal(mesh.vertices[:, 2], 0.0)
    scene, cloth = one_cloth(
        shape=weft.Grid(size=(2, 4), cells=(2, 4)), placement=place, pins=[weft.Pin(boundary="top")]
    )
    top = resolve_pins(scene, cloth, mesh)[0].vertices
    np.testing.assert_array_equal(mesh.vertices[top, 1], 7.0)
    assert len(top) == 3


def test_rest_of_a_shape_is_scaled_with_it():
    place = weft.Placement(scale=(2, 5, 3), rotation_deg=(10, 20, 30))
    mesh = cloth_mesh(shape=weft.Grid(size=(1, 1), cells=(3, 3)), placement=place)
    np.testing.assert_allclose(mesh.rest_lengths, mesh.edge_lengths)
    # rest = uv keeps the pattern as it was cut
    cut = cloth_mesh(shape=weft.Grid(size=(1, 1), cells=(3, 3)), placement=place, rest="uv")
    np.testing.assert_allclose(cut.rest_lengths, shapes.grid((1, 1), (3, 3)).rest_lengths)


def test_rest_of_a_mesh(tmp_path):
    grid = shapes.grid((1, 1), (2, 2))
    lifted = grid.vertices + np.random.default_rng(0).normal(scale=0.1, size=grid.vertices.shape)
    np.savez(tmp_path / "m.npz", vertices=lifted, other=grid.vertices, faces=grid.faces, uv=grid.uv)
    from_mesh = cloth_mesh(tmp_path, mesh="m.npz", placement=weft.Placement(scale=2))
    assert from_mesh.uv is None
    np.testing.assert_allclose(from_mesh.rest_lengths, 2 * TriMesh(lifted, grid.faces).edge_lengths)
    from_uv = cloth_mesh(tmp_path, mesh="m.npz", rest="uv")
    np.testing.assert_allclose(from_uv.rest_lengths, grid.rest_lengths)
    np.testing.assert_allclose(from_uv.vertices, lifted)
    np.testing.assert_allclose(cloth_mesh(tmp_path, mesh="m.npz", array="other").vertices, grid.vertices)
    save_mesh(TriMesh(grid.vertices, grid.faces), tmp_path / "plain.obj")
    with pytest.raises(SceneError, match=r"cloths\[0\]\.rest: plain\.obj has no uv coordinates to rest in"):
        cloth_mesh(tmp_path, mesh="plain.obj", rest="uv")
    with pytest.raises(SceneError, match=r"cloths\[0\]\.rest: the shape box has no uv coordinates to rest in"):
        cloth_mesh(shape=weft.Box(), rest="uv")


def test_cloth_whose_triangles_share_no_vertices_is_told_of_and_mended(tmp_path):
    grid = shapes.grid((1.0, 1.0), (4, 4))
    corners = np.arange(grid.faces.size).reshape(-1, 3)
    # each triangle has its own uv, too, as programs for games write it
    soup = TriMesh(grid.vertices[grid.faces].reshape(-1, 3), corners, np.tile(np.eye(3, 2), (32, 1)))
    save_mesh(soup, tmp_path / "s.obj")
    with pytest.warns(WeftWarning, match=r"cloths\[0\]\.mesh: has 40 torn edges, .*; repair = true joins them"):
        assert len(cloth_mesh(tmp_path, mesh="s.obj").vertices) == 96
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mended = cloth_mesh(tmp_path, mesh="s.obj", repair=True)
        assert len(mended.vertices) == 25 and len(mended.edges) == len(grid.edges)
        # panels that a seam joins, and cloth with one vertex a place, are no tears
        scene, cloth = one_cloth(mesh="s.obj")
        resolve_cloth_mesh(scene.replace(seams=[weft.Seam(cloth="c", vertices=[(0, 3, 3)])]).at(tmp_path), cloth)
        save_mesh(grid, tmp_path / "g.obj")
        cloth_mesh(tmp_path, mesh="g.obj")


def test_pins_choose_vertices_of_a_grid():
    # vertex (i, j) is 3 j + i; top is j = 0
    assert pinned(GRID, boundary="left") == [0, 3, 6, 9]
    assert pinned(GRID, boundary="right") == [2, 5, 8, 11]
    assert pinned(GRID, boundary="top") == [0, 1, 2]
    assert pinned(GRID, boundary="bottom") == [9, 10, 11]
    assert pinned(GRID, boundary="corners") == [0, 2, 9, 11]
    assert pinned(GRID, boundary="top_left") == [0]
    assert pinned(GRID, boundary="top_right") == [2]
    assert pinned(GRID, boundary="bottom_left") == [9]
    assert pinned(GRID, boundary="bottom_right") == [11]
    assert pinned(GRID, boundary="all") == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11]
    assert pinned(GRID, indices=[7, 2, 7]) == [2, 7]
    # boxes hold what lies on their faces, in the world
    moved = {**GRID, "placement": weft.Placement(position=(10, 0, 0))}
    assert pinned(moved, box=((9.5, 0, -1.5), (11, 0, -0.5))) == [1, 2, 4, 5]
    assert pinned(moved, box=((-np.inf,) * 3, (9.0, np.inf, np.inf))) == [0, 3, 6, 9]


def test_pins_of_other_shapes():
    tube = {"shape": weft.Cylinder(segments=6, rings=3, height=2)}
    assert pinned(tube, boundary="top") == list(range(6))
    assert pinned(tube, boundary="bottom") == list(range(18, 24))
    assert pinned(tube, boundary="all") == [*range(6), *range(18, 24)]
    mesh = cloth_mesh(**tube)
    assert set(mesh.vertices[:6, 1]) == {1.0}


@pytest.mark.parametrize(
    ("fields", "pin", "message"),
    [
        (GRID, {"indices": [3, 12, 99]}, "indices 12, 99: the cloth has only the vertices 0 to 11"),
        (
            GRID,
            {"box": ((5, 5, 5), (6, 6, 6))},
            r"box holds no vertex of the cloth, which reaches from \[-1, 0, -1.5\] to \[1, 0, 1.5\]",
        ),
        ({"shape": weft.Box()}, {"boundary": "all"}, "boundary = 'all' holds nothing: the mesh is closed"),
        ({"shape": weft.Box()}, {"boundary": "left"}, "boundary = 'left' is not known of the shape box"),
        ({"shape": weft.Cylinder()}, {"boundary": "left"}, "boundary = 'left' is not known of the shape cylinder"),
    ],
)
def test_pins_that_hold_nothing_are_refused(fields, pin, message):
    with pytest.raises(SceneError, match=r"^cloths\[0\]\.pins\[0\]: " + message):
        held(fields, weft.Pin(**pin))


def test_held_vertices_move_with_their_pin(tmp_path):
    lift = weft.Path(keyframes=[weft.Keyframe(time=0), weft.Keyframe(time=1, position=(0, 2, 0))])
    still, moving = held(GRID, weft.Pin(indices=[0]), weft.Pin(boundary="left", motion=lift, until=3))
    mesh = cloth_mesh(**GRID)
    assert still.motion.still
    assert (still.until, moving.until) == (np.inf, 3.0)
    np.testing.assert_allclose(
        moving.motion.positions(mesh.vertices[moving.vertices], 0.5), mesh.vertices[moving.vertices] + (0, 1, 0)
    )
    # a spin turns about the placement of the cloth
    place = weft.Placement(position=(5, 0, 0))
    (spun,) = held({**GRID, "placement": place}, weft.Pin(boundary="right", motion=weft.Spin(rate_deg=180)))
    rest = cloth_mesh(**GRID, placement=place).vertices[spun.vertices]
    np.testing.assert_allclose(spun.motion.positions(rest, 1.0)[:, 0], 4.0)


def test_pins_can_follow_a_sequence_of_the_whole_cloth(tmp_path):
    samples = np.random.default_rng(0).normal(size=(2, 12, 3))
    np.savez(tmp_path / "s.npz", vertices=samples)
    np.savez(tmp_path / "few.npz", vertices=samples[:, :4])
    pins = [weft.Pin(boundary="left", motion=weft.Sequence(file=f, fps=1)) for f in ("s.npz", "few.npz")]
    scene, cloth = one_cloth(**GRID, pins=pins[:1])
    scene = scene.at(tmp_path)
    (pin,) = resolve_pins(scene, cloth, cloth_mesh(**GRID))
    np.testing.assert_allclose(
        pin.motion.positions(np.zeros((4, 3)), 0.5), samples.mean(axis=0)[[0, 3, 6, 9]], atol=1e-12
    )
    scene, cloth = one_cloth(**GRID, pins=pins[1:])
    with pytest.raises(SceneError, match=r"pins\[0\]: motion has 4 vertices and the cloth has 12"):
        resolve_pins(scene.at(tmp_path), cloth, cloth_mesh(**GRID))


def test_seams(tmp_path):
    np.savez(tmp_path / "s.npz", stitch_vertices=np.array([[0, 1, 2]]), stitch_weight=np.array([0.25]))
    cloths = [
        weft.Cloth(name=n, shape=weft.Grid(cells=c), material=m)
        for n, c, m in (("a", (1, 1), "silk"), ("b", (2, 2), "wool"))
    ]
    scene = weft.Scene(
        cloths=cloths,
        seams=[
            weft.Seam(cloth="a", to="b", vertices=[(3, 7, 8)]),
            weft.Seam(cloth="b", file="s.npz", kind="weld"),
            weft.Seam(cloth="b", vertices=[(0, 1, 2), (4, 5, 6)], weights=[0.5, 1], stiffness=7),
        ],
    ).at(tmp_path)
    first, second, third = resolve_seams(scene, [resolve_cloth_mesh(scene, c) for c in scene.cloths])
    assert (first.cloth, first.to, first.kind, first.stiffness) == (0, 1, "spring", scene.cloths[0].material.stretch)
    assert first.weights.tolist() == [0.0]
    assert (second.cloth, second.to, second.kind) == (1, 1, "weld")
    assert (second.vertices.tolist(), second.weights.tolist()) == ([[0, 1, 2]], [0.25])
    assert (third.stiffness, third.weights.tolist()) == (7.0, [0.5, 1.0])
    assert third.vertices.dtype == np.int32


@pytest.mark.parametrize(
    ("seam", "message"),
    [
        (
            {"vertices": [(0, 1, 2), (4, 1, 2)]},
            "vertices: stitch 1 names vertex 4 of a cloth that has only the vertices 0 to 3",
        ),
        ({"vertices": [(0, 9, 9)]}, r"vertices: stitch 0 names vertex 9 .* 0 to 3 \(2 such\)"),
        ({"vertices": [(1, 1, 2)]}, "vertices: stitch 0 sews a vertex to itself"),
        ({"file": "none.npz"}, "file: no such file"),
        ({"file": "text.npz"}, "file: text.npz cannot be read as an npz file"),
        ({"file": "pickle.npz"}, "file: pickle.npz cannot be read as an npz file: Object arrays cannot be loaded"),
        ({"file": "other.npz"}, "file: other.npz has no array 'stitch_vertices'; it has x"),
        ({"file": "shape.npz"}, r"file: stitch_vertices must be whole numbers \(k, 3\), not int64 \(2,\)"),
        ({"file": "weight.npz"}, "file: stitch_weight must be between 0 and 1, which stitch 1 is not"),
        ({"file": "nan.npz"}, "file: stitch_weight must be between 0 and 1, which stitch 0 is not"),
        ({"file": "count.npz"}, r"file: stitch_weight must have one number a stitch \(2\), not \(1,\)"),
    ],
)
def test_seams_that_make_no_sense_are_refused(tmp_path, seam, message):
    stitches = np.array([[0, 1, 2], [1, 2, 3]])
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "pickle.npz", stitch_vertices=np.array([{}], dtype=object), stitch_weight=np.zeros(1))
    np.savez(tmp_path / "other.npz", x=stitches)
    np.savez(tmp_path / "shape.npz", stitch_vertices=np.arange(2), stitch_weight=np.zeros(2))
    np.savez(tmp_path / "weight.npz", stitch_vertices=stitches, stitch_weight=np.array([1.0, 1.5]))
    np.savez(tmp_path / "nan.npz", stitch_vertices=stitches, stitch_weight=np.array([np.nan, 0.5]))
    np.savez(tmp_path / "count.npz", stitch_vertices=stitches, stitch_weight=np.array([0.5]))
    scene = weft.Scene(
        cloths=[weft.Cloth(name="a", shape=weft.Grid(cells=(1, 1)))], seams=[weft.Seam(cloth="a", **seam)]
    ).at(tmp_path)
    with pytest.raises(SceneError, match=r"^seams\[0\]\." + message):
        resolve_seams(scene, [resolve_cloth_mesh(scene, scene.cloths[0])])


def test_colliders_and_their_motions(tmp_path):
    ball = shapes.icosphere(1.0, subdivisions=0)
    samples = np.stack([ball.vertices * s for s in (1.0, 2.0)])
    np.savez(tmp_path / "b.npz", vertices=samples, faces=ball.faces)
    np.savez(tmp_path / "bare.npz", vertices=samples)
    np.savez(tmp_path / "turned.npz", vertices=samples, faces=ball.faces[:, ::-1])
    save_mesh(ball, tmp_path / "ball.obj")
    save_mesh(shapes.box(), tmp_path / "box.obj")

    def collider(**fields):
        scene = weft.Scene(colliders=[weft.Collider(name="k", **fields)]).at(tmp_path)
        return resolve_collider(scene, scene.colliders[0])

    place = weft.Placement(position=(0, 1, 0))
    for fields in ({}, {"mesh": "ball.obj"}):
        mesh, motion = collider(placement=place, motion=weft.Sequence(file="b.npz", fps=1), **fields)
        np.testing.assert_allclose(mesh.vertices, ball.vertices + (0, 1, 0))
        np.testing.assert_allclose(motion.positions(mesh.vertices, 0.0), mesh.vertices)
        np.testing.assert_allclose(motion.positions(mesh.vertices, 0.5), 1.5 * ball.vertices + (0, 1, 0))
    assert len(collider(mesh="ball.obj", motion=weft.Sequence(file="bare.npz", fps=1))[0].vertices) == 12
    with pytest.raises(SceneError, match=r"colliders\[0\]\.motion: the sequence has no array 'faces'"):
        collider(motion=weft.Sequence(file="bare.npz", fps=1))
    with pytest.raises(
        SceneError, match=r"colliders\[0\]\.motion\.file: b\.npz has 12 vertices and the mesh box\.obj has 8"
    ):
        collider(mesh="box.obj", motion=weft.Sequence(file="b.npz", fps=1))
    with pytest.raises(SceneError, match=r"motion\.file: turned\.npz and the mesh ball\.obj have different triangles"):
        collider(mesh="ball.obj", motion=weft.Sequence(file="turned.npz", fps=1))
    with pytest.raises(SceneError, match=r"colliders\[0\]\.motion: b\.npz: does not say how fast it goes: give fps"):
        collider(motion=weft.Sequence(file="b.npz"))

    scene = weft.Scene(colliders=[weft.Collider(name="k", shape=weft.Box(), motion=weft.Spin(), placement=place)])
    mesh, motion = resolve_collider(scene, scene.colliders[0])
    assert motion.rigid
    np.testing.assert_array_equal(resolve_collider(scene, scene.colliders[0])[0].vertices, mesh.vertices)
    np.testing.assert_allclose(motion.positions(mesh.vertices, 4.0), mesh.vertices, atol=1e-12)


def test_all_mistakes_of_a_scene_are_listed_with_their_keys(tmp_path):
    (tmp_path / "empty.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    path = tmp_path / "s.toml"
    path.write_text(
        """
        [[cloth]]
        name = "none"
        mesh = "empty.obj"
        [[cloth]]
        name = "grid"
        shape = {kind = "grid", cells = [2, 2]}
        pins = [{indices = [99]}, {boundary = "left"}, {box = [[9, 9, 9], [9, 9, 9]]}]
        [[collider]]
        motion = {kind = "sequence", file = "empty.obj", fps = 1}
        """
    )
    with pytest.raises(SceneError) as caught:
        resolve_scene(weft.load_scene(path))
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "cloth[0].mesh",
        "cloth[1].pins[0]",
        "cloth[1].pins[2]",
        "collider[0].motion",
    ]
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert "it holds no triangles" in lines[0]


def test_a_scene_without_cloth_is_refused():
    with pytest.raises(SceneError, match=r"^cloths: the scene has no cloth$"):
        resolve_scene(weft.Scene())


def test_a_whole_scene():
    scene = weft.Scene(
        cloths=[weft.Cloth(name="a", shape=weft.Grid(cells=(2, 2)), pins=[weft.Pin(boundary="left")])],
        colliders=[
            weft.Collider(name="b", shape=weft.Plane()),
            weft.Collider(name="c", shape=weft.Box(), motion=weft.Spin()),
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolved = resolve_scene(scene)
    assert [len(m.vertices) for m in resolved.cloth_meshes] == [9]
    assert [len(m.vertices) for m in resolved.collider_meshes] == [4, 8]
    assert [m.still for m in resolved.collider_motions] == [True, False]
    assert [[h.vertices.tolist() for h in pins] for pins in resolved.pins] == [[[0, 3, 6]]]


def test_bodies_of_another_scene_are_refused():
    scene, _ = one_cloth(**GRID)
    with pytest.raises(SceneError, match="the scene has no cloth called 'other'"):
        resolve_cloth_mesh(scene, weft.Cloth(name="other", shape=weft.Grid()))


@pytest.mark.skipif(not (DATA / "dress.npz").exists(), reason="shared/data with the dress and the body is not here")
def test_a_real_dress_on_a_real_body():
    scene = weft.Scene(
        cloths=[weft.Cloth(name="dress", mesh="dress.npz", array="draped", rest="uv")],
        colliders=[weft.Collider(name="body", motion=weft.Sequence(file="rumba_body.npz", fps=25))],
        seams=[weft.Seam(cloth="dress", file="dress.npz")],
    ).at(DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        resolved = resolve_scene(scene)
    (dress,), (body,), (seam,) = resolved.cloth_meshes, resolved.collider_meshes, resolved.seams
    assert len(dress.vertices) == 15656
    assert len(body.vertices) == 12811
    assert seam.vertices.shape == (851, 3)
    # stitched points lie together in the draped state
    a, b, c = (dress.vertices[seam.vertices[:, k]] for k in range(3))
    w = seam.weights[:, None]
    assert np.linalg.norm(a - (1 - w) * b - w * c, axis=1).max() < 0.01
    later = resolved.collider_motions[0].positions(body.vertices, 0.5)
    assert 0.01 < np.abs(later - body.vertices).max() < 1.0


def two_panels(path, scale=1.0):
    """An OBJ file of a sheet of two panels, whose vertices are shared at the seam and whose uv lie apart and turned."""
    sheet = shapes.grid((1.0, 0.5), (8, 4))
    right = sheet.vertices[sheet.faces].mean(axis=1)[:, 0] > 0.0
    corners = scale * sheet.uv[sheet.faces]
    corners[right] = corners[right][:, :, ::-1] * [1.0, -1.0] + [5.0, 2.0]
    save_mesh(TriMesh(sheet.vertices, sheet.faces, corner_uv=corners), path)
    return sheet


@pytest.mark.parametrize("method", ["robust", "guarded", "untangle", "predictive"])
def test_cloth_rests_in_uv_with_seams(tmp_path, method):
    """Panels that are cut a tenth larger push the sheet out to their size, across their seam too."""
    sheet = two_panels(tmp_path / "panels.obj", scale=1.1)
    cloth = weft.Cloth(name="c", mesh=str(tmp_path / "panels.obj"), rest="uv")
    scene = weft.Scene(cloths=[cloth], forces=weft.Forces(gravity=(0, 0, 0)), frames=30, method=method)
    mesh = resolve_cloth_mesh(scene, scene.cloths[0])
    np.testing.assert_array_equal(mesh.faces, sheet.faces)
    np.testing.assert_allclose(mesh.rest_lengths, 1.1 * sheet.rest_lengths, atol=1e-6)
    cache = weft.simulate(scene, tmp_path / "c.zarr", progress=False)
    ratios = sheet.with_vertices(cache.positions(-1)).edge_lengths / mesh.rest_lengths
    assert np.abs(ratios - 1.0).max() < 0.03
    assert np.abs(Field(cache, "strain").values(0) + 1.0 / 11.0).max() < 1e-4


def test_uv_seams_without_area_are_refused(tmp_path):
    sheet = two_panels(tmp_path / "panels.obj")
    corners = np.array(weft.load_mesh(tmp_path / "panels.obj").corner_uv)
    corners[5] = corners[5, 0]
    save_mesh(TriMesh(sheet.vertices, sheet.faces, corner_uv=corners), tmp_path / "flat.obj")
    with pytest.raises(SceneError, match=r"rest: .*flat\.obj has 1 triangle without area in .*, first triangle 5"):
        cloth_mesh(mesh=str(tmp_path / "flat.obj"), rest="uv")


def test_panels_that_lie_edge_to_edge_are_told_and_sewn(tmp_path):
    """Two panels of their own vertices fall apart: a warning says so, and repair joins them, each at rest in its uv."""
    one = shapes.grid((0.5, 0.5), (4, 4))
    vertices = np.concatenate([one.vertices, one.vertices + [0.5, 0.0, 0.0]])
    faces = np.concatenate([one.faces, one.faces + len(one.vertices)])
    mesh = TriMesh(vertices, faces, uv=np.concatenate([one.uv, one.uv + [2.0, 3.0]]))
    save_mesh(mesh, tmp_path / "panels.npz")
    with pytest.warns(WeftWarning, match="has 4 torn edges"):
        apart = cloth_mesh(mesh=str(tmp_path / "panels.npz"), rest="uv")
    assert len(apart.vertices) == 50
    for given in (str(tmp_path / "panels.npz"), mesh):
        sewn = cloth_mesh(mesh=given, rest="uv", repair=True)
        assert len(sewn.vertices) == 45 and len(sewn.hinges) > len(apart.hinges)
        np.testing.assert_allclose(sewn.rest_areas, mesh.rest_areas)
    # with a seam of the scene they stay apart
    seam = weft.Seam(cloth="c", vertices=[[4, 25, 25]])
    scene = weft.Scene(cloths=[weft.Cloth(name="c", mesh=mesh, rest="uv", repair=True)], seams=[seam])
    assert len(resolve_cloth_mesh(scene, scene.cloths[0]).vertices) == 50


def test_a_fold_line_is_found_in_panels(tmp_path):
    two_panels(tmp_path / "panels.obj")
    # of the panel on the right, whose uv are turned by a right angle
    line = ((5.125, 1.5), (5.125, 2.0))
    crease = weft.Crease(line=line, angle_deg=60.0)
    scene, _ = one_cloth(mesh=str(tmp_path / "panels.obj"), rest="uv", creases=[crease])
    (angles,) = resolve_scene(scene).rest_angles
    assert np.isfinite(angles).sum() == 4
