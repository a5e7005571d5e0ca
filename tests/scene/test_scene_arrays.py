"""Meshes, sequences and motions given in Python: arrays, objects of other libraries, functions of time."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.errors import SceneError, WeftWarning
from weft.mesh import Labels, TriMesh, load_mesh, save_mesh, shapes
from weft.scene.resolve import resolve_painted, resolve_scene

GRID = shapes.grid((1.0, 1.0), (2, 2))


def cloth_of(**given):
    return resolve_scene(weft.Scene(cloths=[weft.Cloth(**given)])).cloth_meshes[0]


def test_a_mesh_is_given_as_arrays():
    for mesh in (GRID, (GRID.vertices, GRID.faces), [GRID.vertices.tolist(), GRID.faces.tolist()]):
        found = cloth_of(mesh=mesh, placement={"position": (0, 1, 0)})
        assert np.array_equal(found.vertices, GRID.vertices + (0, 1, 0))
        assert np.array_equal(found.faces, GRID.faces)


class OnlyDLPack:
    """An array that knows nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("library", ["DLPack", "Warp", "torch"])
def test_arrays_of_other_libraries_are_taken(library):
    if library == "torch":
        torch = pytest.importorskip("torch")

    def wrapped(array):
        if library == "torch":
            return torch.from_numpy(array).requires_grad_(array.dtype == float)
        return OnlyDLPack(array) if library == "DLPack" else wp.array(array, device="cpu")

    vertices, faces = np.array(GRID.vertices), np.array(GRID.faces)
    found = cloth_of(mesh=(wrapped(vertices), wrapped(faces)))
    assert np.array_equal(found.vertices, vertices) and np.array_equal(found.faces, faces)
    assert np.array_equal(weft.Sequence(positions=wrapped(vertices[None]), fps=1).positions.positions[0], vertices)


def test_polygons_are_given_as_arrays():
    corners = [[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 2, 0], [0, 2, 0], [3, 0, 0], [3, 1, 0]]
    # an L, which is not convex, and a square
    mesh = cloth_of(mesh=(corners, [[0, 1, 2, 3, 4, 5], [1, 6, 7, 2]]))
    assert np.isclose(mesh.face_areas.sum(), 4.0)
    assert np.unique(mesh.details.polygons, return_counts=True)[1].tolist() == [4, 2]
    assert len(cloth_of(mesh=(np.array(corners)[[0, 1, 2, 5]], np.array([[0, 1, 2, 3]]))).faces) == 2
    for faces, message in (
        ([[0, 1, 2, 3], [0, 1]], "polygon 1 has 2 corners; a polygon needs three"),
        ([[0, 1, 2, 3], [0, 1, 9]], r"polygon 1 has a corner outside 0\.\.7"),
    ):
        with pytest.raises(SceneError, match=message):
            weft.Cloth(mesh=(corners, faces))


def test_a_mesh_is_given_as_a_trimesh():
    trimesh = pytest.importorskip("trimesh")
    ball = trimesh.creation.icosphere(subdivisions=1, radius=0.3)
    ball.vertex_attributes["weight"] = np.arange(len(ball.vertices), dtype=float)
    found = cloth_of(mesh=ball)
    assert np.allclose(found.vertices, ball.vertices)
    assert np.array_equal(found.faces, ball.faces)
    assert found.attributes["weight"][5] == 5.0
    uv = GRID.vertices[:, [0, 2]] + 0.5
    material = trimesh.visual.material.PBRMaterial(name="denim")
    visual = trimesh.visual.TextureVisuals(uv=uv, material=material)
    textured = trimesh.Trimesh(GRID.vertices, GRID.faces, visual=visual, process=False)
    assert np.allclose(cloth_of(mesh=textured).corner_uv, uv[GRID.faces])
    assert cloth_of(mesh=textured).names("material") == ("denim",)
    # a scene of trimesh, as its loaders return
    both = trimesh.Scene()
    both.add_geometry(ball, node_name="ball", transform=trimesh.transformations.translation_matrix([0, 2, 0]))
    both.add_geometry(textured, node_name="sheet")
    assert weft.Cloth(mesh=both).mesh.names("object") == ("ball", "sheet")
    assert np.allclose(cloth_of(mesh=both, object="ball").vertices, ball.vertices + [0, 2, 0])
    assert cloth_of(mesh=both, object="sheet").corner_uv is not None


def test_a_mesh_is_given_as_a_pyvista_mesh():
    pyvista = pytest.importorskip("pyvista")
    plane = pyvista.Plane(i_resolution=3, j_resolution=2)
    plane.point_data["stiff"] = np.linspace(0.0, 1.0, plane.n_points)
    found = cloth_of(mesh=plane)
    assert np.allclose(found.vertices, plane.points)
    # quads are remembered
    assert np.unique(found.details.polygons, return_counts=True)[1].tolist() == [2] * 6
    assert found.vertices_of("stiff").tolist() == list(range(6, 12))
    assert found.corner_uv is not None
    assert set(found.attributes) == {"stiff"}
    assert len(cloth_of(mesh=pyvista.ImageData(dimensions=(3, 3, 2)).cast_to_unstructured_grid()).faces) > 0


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (
            3,
            r"Cloth: mesh: a mesh is a TriMesh, \(vertices, faces\), a trimesh\.Trimesh or a pyvista\.PolyData, .* not a int",
        ),
        (np.zeros((4, 3)), r"an array of shape \(4, 3\); give its triangles too, as \(vertices, faces\)"),
        (([[0, 0, 0]], [[0, 1, 2]]), "vertex index outside"),
        ((np.zeros((3, 2)), [[0, 1, 2]]), r"vertices must have shape \(n, 3\)"),
        ("", "must name a file, not an empty string"),
    ],
)
def test_what_is_no_mesh_is_refused(mesh, message):
    with pytest.raises(SceneError, match=message):
        weft.Cloth(mesh=mesh)


def test_a_scene_with_arrays_is_saved_beside_its_file(tmp_path):
    wave = np.stack([GRID.vertices + (0.0, 0.1 * k, 0.0) for k in range(4)])
    scene = weft.Scene(
        cloths=[
            weft.Cloth(
                name="my shirt", mesh=GRID, pins=weft.Pin(indices=[0], motion=weft.Sequence(positions=wave, fps=10))
            ),
        ],
        colliders=[
            weft.Collider(name="floor", mesh=shapes.plane((2, 2)), motion=weft.Spin()),
            weft.Collider(name="wave", mesh=(GRID.vertices, GRID.faces), motion=weft.Sequence(positions=wave, fps=10)),
        ],
    )
    weft.save_scene(scene, tmp_path / "scene.toml")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "scene.toml",
        "scene.my_shirt.npz",
        "scene.my_shirt.pin0.npz",
        "scene.floor.npz",
        "scene.wave.npz",
        "scene.wave.motion.npz",
    }
    again = weft.load_scene(tmp_path / "scene.toml")
    one, two = resolve_scene(scene), resolve_scene(again)
    for mine, other in zip(one.cloth_meshes + one.collider_meshes, two.cloth_meshes + two.collider_meshes, strict=True):
        assert mine == other
    for time in (0.0, 0.15, 5.0):
        for mine, other in zip(one.collider_motions, two.collider_motions, strict=True):
            rest = one.collider_meshes[one.collider_motions.index(mine)].vertices
            assert np.array_equal(mine.positions(rest, time), other.positions(rest, time))
        pins = one.pins[0][0].motion, two.pins[0][0].motion
        assert np.array_equal(*(motion.positions(GRID.vertices[:1], time) for motion in pins))


def test_scenes_with_the_same_arrays_are_equal():
    one, two = (weft.Scene(cloths=[weft.Cloth(mesh=(GRID.vertices.copy(), GRID.faces))]) for _ in range(2))
    other = weft.Scene(cloths=[weft.Cloth(mesh=(GRID.vertices + 1.0, GRID.faces))])
    assert one == two
    assert one != other
    samples = np.zeros((2, 9, 3))
    assert weft.Sequence(positions=samples, fps=1) == weft.Sequence(positions=samples.copy(), fps=1)
    assert weft.Sequence(positions=samples, fps=1) != weft.Sequence(positions=samples + 1, fps=1)


def test_a_cache_keeps_the_arrays_of_its_scene_and_goes_on(tmp_path):
    wave = np.stack([GRID.vertices - (0.0, 0.3 + 0.1 * k, 0.0) for k in range(4)])
    scene = weft.Scene(
        cloths=[weft.Cloth(mesh=GRID)],
        colliders=[weft.Collider(mesh=GRID, motion=weft.Sequence(positions=wave, fps=60))],
        frames=2,
        method="plain",
        check=0,
    )
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    assert cache.scene == scene
    assert cache.scene.cloths[0].mesh == GRID
    # the same arrays continue it, others do not
    longer = weft.simulate(scene.replace(frames=3), tmp_path / "run.zarr", resume=True, progress=False)
    assert len(longer) == 4
    other = scene.replace(cloths=[weft.Cloth(mesh=(GRID.vertices * 1.5, GRID.faces))])
    with pytest.raises(weft.WeftError, match=r"comes from another scene .* cloths\[0\]\.mesh"):
        weft.simulate(other, tmp_path / "run.zarr", resume=True, progress=False)
    (file,) = (tmp_path / "run.zarr" / "weft" / "scene").glob(f"{GRID.digest}*")
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(weft.WeftError, match="is damaged"):
        _ = weft.open_cache(tmp_path / "run.zarr").scene


def test_a_function_moves_a_collider_and_pins():
    def up(time):
        matrix = np.eye(4)
        matrix[1, 3] = 2.0 * time
        return matrix

    def spread(time):
        return [[1.0 + time, 0.0, 0.0], [2.0, time, 0.0]]

    scene = weft.Scene(
        # named in this order, so the first position is that of vertex 7
        cloths=[weft.Cloth(mesh=GRID, pins=weft.Pin(indices=[7, 3], motion=spread))],
        colliders=[weft.Collider(shape=weft.Sphere(subdivisions=1), motion=up)],
    )
    resolved = resolve_scene(scene)
    motion = resolved.collider_motions[0]
    assert motion.rigid
    assert motion.matrix(0.5)[1, 3] == 1.0
    (pin,) = resolved.pins[0]
    assert pin.vertices.tolist() == [3, 7]
    assert pin.motion.positions(GRID.vertices[[3, 7]], 0.5).tolist() == [[2.0, 0.5, 0.0], [1.5, 0.0, 0.0]]


def test_a_run_follows_a_function(tmp_path):
    def lift(time):
        return [[0.0, time, 0.0]]

    cloth = weft.Cloth(mesh=GRID, pins=weft.Pin(indices=[4], motion=lift))
    scene = weft.Scene(cloths=[cloth], frames=3, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    assert np.allclose(cache["cloth"].positions(-1)[4], (0.0, 3 / 60, 0.0))
    # the cache keeps the name only: what it shows needs no function, to go on needs it again
    kept = cache.scene
    with pytest.raises(SceneError, match=r"moved by the Python function .*lift, of which only the name is kept"):
        resolve_scene(kept)
    longer = weft.simulate(scene.replace(frames=4), tmp_path / "run.zarr", resume=True, progress=False)
    assert len(longer) == 5

    def faster(time):
        return [[0.0, 2.0 * time, 0.0]]

    # another function is another scene, whatever it is called
    faster.__qualname__ = lift.__qualname__
    moved = cloth.replace(pins=weft.Pin(indices=[4], motion=faster))
    with pytest.raises(weft.WeftError, match=r"comes from another scene .* moves otherwise"):
        weft.simulate(scene.replace(cloths=[moved]), tmp_path / "run.zarr", resume=True, progress=False)
    with pytest.raises(
        SceneError, match=r"cloths\[0\]\.pins\[0\]\.motion: is the Python function .*, which no file can hold"
    ):
        weft.save_scene(scene, tmp_path / "scene.toml")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda time: [[0, 0, 0]], r"gave an array of shape \(1, 3\) at 0 s, not \(9, 3\)"),
        (lambda time: None, r"gave nothing at 0 s, not a 4x4 matrix or positions \(n, 3\)"),
        (lambda time: [0, 0, 0], r"gave an array of shape \(3,\) at 0 s, not a 4x4 matrix or positions"),
        (lambda time: 1 / 0, "failed at 0 s: ZeroDivisionError: division by zero"),
        (lambda time: np.full((9, 3), np.nan), "gave NaN or infinite numbers at 0 s"),
    ],
)
def test_a_function_that_goes_wrong_is_named(function, message):
    cloth = weft.Cloth(shape=weft.Grid(cells=(1, 1)))
    scene = weft.Scene(cloths=[cloth], colliders=[weft.Collider(mesh=GRID, motion=function)])
    with pytest.raises(SceneError, match=rf"colliders\[0\]\.motion: the function .*lambda> {message}"):
        resolve_scene(scene)


def test_a_matrix_that_scales_is_refused():
    motion = weft.Collider(mesh=GRID, motion=lambda time: np.diag([1.0 + time, 1.0, 1.0, 1.0])).motion.resolve()
    with pytest.raises(weft.WeftError, match=r"gave a matrix at 1 s that does not only rotate and move"):
        motion.matrix(1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"positions": np.zeros((2, 3, 3)), "file": "a.npz", "fps": 1},
            "needs either a file or positions, and has both",
        ),
        ({"fps": 1}, "needs either a file or positions, and has neither"),
        ({"positions": np.zeros((2, 3, 3))}, "needs fps"),
        ({"positions": np.zeros((2, 3)), "fps": 1}, r"shape \(samples, vertices, 3\), not \(2, 3\)"),
        (
            {"positions": np.full((2, 3, 3), np.inf), "fps": 1},
            "sample 0 has NaN or infinite coordinates, first at vertex 0",
        ),
    ],
)
def test_sequences_that_make_no_sense_are_refused(given, message):
    with pytest.raises(SceneError, match=message):
        weft.Sequence(**given)


def test_positions_without_a_rate_are_told_what_to_do():
    for positions in (np.zeros((2, 9, 3)), [np.zeros((9, 3))] * 2):
        with pytest.raises(SceneError, match=r"Collider: motion: .* write weft\.Sequence\(positions=\.\.\., fps="):
            weft.Collider(mesh=GRID, motion=positions)


def test_a_sequence_of_arrays_needs_the_vertices_of_its_mesh():
    motion = weft.Sequence(positions=np.zeros((2, 4, 3)), fps=1)
    scene = weft.Scene(cloths=[weft.Cloth(mesh=GRID)], colliders=[weft.Collider(mesh=GRID, motion=motion)])
    with pytest.raises(SceneError, match="the array has 4 vertices and the mesh has 9"):
        resolve_scene(scene)


def test_up_and_units():
    body = TriMesh(GRID.vertices[:, [0, 2, 1]] * 100.0 + (0.0, 0.0, 50.0), GRID.faces)
    placed = cloth_of(mesh=body, placement={"up": "z", "units": "cm", "position": (0, 1, 0)})
    # half a metre up in z is half a metre up in y
    assert np.allclose(placed.vertices[:, 1], 1.5)
    assert np.ptp(placed.vertices[:, 0]) == pytest.approx(1.0)
    turned = cloth_of(mesh=TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), placement={"up": "z"})
    # looking up stays looking up: no mirror
    assert turned.face_normals[0].tolist() == [0.0, 1.0, 0.0]
    assert turned.vertices[2].tolist() == [0.0, 0.0, -1.0]


def test_up_and_units_are_refused_where_they_are_known():
    with pytest.raises(SceneError, match=r"placement\.units: a glb file says its units and its axis itself"):
        weft.Cloth(mesh="shirt.glb", placement={"units": "cm"})
    with pytest.raises(SceneError, match=r"placement\.up is for a mesh, and a shape is in metres with y up"):
        weft.Collider(shape=weft.Sphere(), placement={"up": "z"})


def test_a_sequence_stands_as_its_mesh_does(tmp_path):
    samples = np.stack([GRID.vertices * 100.0, GRID.vertices * 100.0 + (0.0, 0.0, 30.0)])
    collider = weft.Collider(
        mesh=(samples[0], GRID.faces),
        motion=weft.Sequence(positions=samples, fps=1),
        placement={"up": "z", "units": "cm"},
    )
    scene = weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(cells=(1, 1)))], colliders=[collider])
    resolved = resolve_scene(scene)
    mesh, motion = resolved.collider_meshes[0], resolved.collider_motions[0]
    assert np.allclose(motion.positions(mesh.vertices, 0.0), mesh.vertices)
    assert np.allclose(motion.positions(mesh.vertices, 1.0) - mesh.vertices, (0.0, 0.3, 0.0))


def test_a_texture_atlas_as_rest_shape_is_warned_of(tmp_path):
    save_mesh(TriMesh(GRID.vertices, GRID.faces, GRID.uv / 4.0), tmp_path / "atlas.obj")
    save_mesh(TriMesh(GRID.vertices, GRID.faces, GRID.uv * 1.02), tmp_path / "good.obj")
    with pytest.warns(WeftWarning, match=r"cloths\[0\]\.rest: .* 4 times as long at the median, 4 times at the 99th"):
        cloth_of(mesh=tmp_path / "atlas.obj", rest="uv")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cloth_of(mesh=tmp_path / "good.obj", rest="uv")


def two_objects(path):
    body = TriMesh(
        np.concatenate([GRID.vertices, GRID.vertices + (0, 0, 2)]),
        np.concatenate([GRID.faces, GRID.faces + 9]),
        labels={"object": Labels(("shirt", "body"), np.repeat([0, 1], 8).astype(np.int32))},
    )
    save_mesh(body, path)


def test_each_object_of_a_file_is_a_body(tmp_path):
    two_objects(tmp_path / "both.obj")
    (tmp_path / "scene.toml").write_text(
        '[[cloth]]\nname = "shirt"\nmesh = "both.obj"\nobject = "shirt"\npins = [{group = "shirt"}]\n'
        '[[collider]]\nmesh = "both.obj"\nobject = "body"\n'
    )
    resolved = resolve_scene(weft.load_scene(tmp_path / "scene.toml"))
    assert np.array_equal(resolved.cloth_meshes[0].vertices, GRID.vertices)
    assert np.array_equal(resolved.collider_meshes[0].vertices, GRID.vertices + (0, 0, 2))
    assert len(resolved.pins[0][0].vertices) == 9
    # in Python, all at once
    parts = load_mesh(tmp_path / "both.obj").parts()
    scene = weft.Scene(cloths=[weft.Cloth(name=name, mesh=mesh) for name, mesh in parts.items()])
    assert [len(mesh.vertices) for mesh in resolve_scene(scene).cloth_meshes] == [9, 9]
    with pytest.raises(SceneError, match=r"cloths\[0\]\.mesh: .*has no object 'sleeve'; it has objects shirt, body"):
        cloth_of(mesh=tmp_path / "both.obj", object="sleeve")


def test_an_object_follows_its_part_of_a_sequence(tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for k in range(2):
        two_objects(folder / f"f{k}.obj")
        # the first vertex, of the shirt, moves; the body does not
        text = (folder / f"f{k}.obj").read_text()
        (folder / f"f{k}.obj").write_text(text.replace("v -0.5 0.0 -0.5", f"v -0.5 0.{k} -0.5", 1))
    motion = weft.Sequence(file=str(folder), fps=1)
    collider = weft.Collider(mesh=folder / "f0.obj", object="body", motion=motion)
    scene = weft.Scene(cloths=[weft.Cloth(mesh=GRID, placement={"position": (0, 5, 0)})], colliders=[collider])
    resolved = resolve_scene(scene)
    found = resolved.collider_motions[0].positions(resolved.collider_meshes[0].vertices, 1.0)
    assert np.array_equal(found, GRID.vertices + (0, 0, 2))


def test_pins_by_group_that_hold_nothing_are_refused():
    mesh = TriMesh(GRID.vertices, GRID.faces, attributes={"hem": np.full(9, 0.4)})
    scene = weft.Scene(cloths=[weft.Cloth(mesh=mesh, pins=weft.Pin(group="hem"))])
    with pytest.raises(SceneError, match=r"pins\[0\]: the group 'hem' holds no vertex: no value is above 0.5"):
        resolve_scene(scene)
    scene = weft.Scene(cloths=[weft.Cloth(mesh=mesh, pins=weft.Pin(group="top"))])
    with pytest.raises(SceneError, match="the mesh has no group 'top'; it has attributes hem"):
        resolve_scene(scene)


def test_painted_values_come_from_any_mesh():
    mesh = TriMesh(GRID.vertices, GRID.faces, attributes={"stiff": np.linspace(0.0, 2.0, 9)})
    cloth = weft.Cloth(mesh=mesh, painted={"bend": "stiff"})
    scene = weft.Scene(cloths=[weft.Cloth(mesh=mesh)])
    assert resolve_painted(scene, cloth, mesh)["bend"].tolist() == np.linspace(0.0, 2.0, 9).tolist()
    with pytest.raises(SceneError, match=r"painted\.bend: the mesh has no vertex attribute 'soft'; it has stiff"):
        resolve_painted(scene, weft.Cloth(mesh=mesh, painted={"bend": "soft"}), mesh)


def test_a_study_of_arrays_is_told_what_to_do(tmp_path):
    for given in (
        {"mesh": GRID},
        {"shape": weft.Grid(cells=(1, 1)), "pins": weft.Pin(indices=[0], motion=lambda t: [[t, 0, 0]])},
    ):
        scene = weft.Scene(cloths=[weft.Cloth(**given)])
        with pytest.raises(weft.WeftError, match=r"arrays or Python functions, .*: save it with weft\.save_scene"):
            weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]})
