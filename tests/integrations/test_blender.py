"""Blender itself: it imports our USD and PC2 files with our vertices, and bakes through the add-on."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blender import python_with_bpy, run_in_blender
from exchange_caches import positions_at, write_cache
from scipy.spatial import cKDTree

import weft
from weft.cache import open_cache
from weft.check import check_cache
from weft.exchange import export

pytestmark = pytest.mark.blender
ROOT = Path(__file__).parents[2]


def turned(points):
    """Ours, y up, as Blender has it, z up."""
    x, y, z = np.asarray(points).T
    return np.column_stack([x, -z, y])


def test_blender_has_our_vertices(tmp_path):
    """Three frames of USD, Alembic and PC2, to a millionth of a metre."""
    cache = write_cache(tmp_path / "run.zarr")
    export(cache, tmp_path / "run.usdc")
    export(cache, tmp_path / "run.abc")
    export(cache, tmp_path / "points", format="pc2")
    told = run_in_blender("blender_import.py", tmp_path / "run.usdc", tmp_path / "points", "0,2,5")
    for frame in (0, 2, 5):
        ours = turned(positions_at(frame))
        for body, name in zip(cache.bodies, ("sheet", "a_box", "floor"), strict=True):
            for kind in ("usd", "abc"):
                np.testing.assert_allclose(told[kind][str(frame)][name], ours[body.vertices], rtol=0.0, atol=1e-6)
        np.testing.assert_allclose(
            told["pc2"][str(frame)]["sheet"], ours[cache.bodies[0].vertices], rtol=0.0, atol=1e-6
        )
    assert told["uv"] and len(told["materials"]) == 3
    assert told["abc_uv"] and told["abc_up"] == pytest.approx(1.0, abs=0.2)
    # frames are where the file has them, at the rate of the file
    assert (told["range"], told["fps"]) == ([0, 5], 24)


# three quads in a row, of two materials, with a seam of the texture between the second and the third
GARMENT = """o sheet
v 0 0 0
v 1 0 0
v 2 0 0
v 3 0 0
v 0 0 -1
v 1 0 -1
v 2 0 -1
v 3 0 -1
vt 0.0 0.0
vt 0.25 0.0
vt 0.5 0.0
vt 0.0 0.25
vt 0.25 0.25
vt 0.5 0.25
vt 0.75 0.5
vt 1.0 0.5
vt 0.75 0.75
vt 1.0 0.75
usemtl linen
f 1/1 2/2 6/5 5/4
f 2/2 3/3 7/6 6/5
usemtl lace
f 3/7 4/8 8/10 7/9
"""


def test_blender_has_our_quads_textures_and_materials(tmp_path):
    """From an OBJ through a run to USD and Alembic and into Blender: what the artist painted is where it was."""
    (tmp_path / "sheet.obj").write_text(GARMENT)
    cloth = weft.Cloth(name="sheet", mesh=str(tmp_path / "sheet.obj"))
    cache = weft.simulate(weft.Scene(cloths=[cloth], frames=2, method="plain"), tmp_path / "run.zarr", progress=False)
    files = [tmp_path / "run.usdc", tmp_path / "run.abc"]
    for file in files:
        weft.export(cache, file)
    told = run_in_blender("blender_details.py", *files)
    words = [line.split()[1:] for line in GARMENT.splitlines() if line.startswith(("vt", "f "))]
    texture = [[float(w) for w in pair] for pair in words if len(pair) == 2]
    corners = [[int(n) for n in w.split("/")] for face in words if len(face) == 4 for w in face]
    expected = sorted([v - 1, *texture[t - 1]] for v, t in corners)
    for kind in ("usdc", "abc"):
        assert told[kind]["sizes"] == [4]
        np.testing.assert_allclose(told[kind]["corners"], expected, atol=1e-4)
    assert told["usdc"]["materials"] == ["linen", "linen", "lace"]
    assert told["abc"]["materials"] == ["linen", "linen", "lace"]
    # and back into weft
    assert weft.load_mesh(tmp_path / "run.abc").names("material") == ("lace", "linen")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    out = tmp_path_factory.mktemp("addon") / "weft_cloth.zip"
    script = ROOT / "integrations" / "blender" / "make_zip.py"
    subprocess.run([sys.executable, str(script), str(out)], check=True)
    return out


def test_the_zip_installs(archive, tmp_path):
    """From disk, as the preferences do it: the operators and the panel are there at once."""
    told = run_in_blender("blender_install.py", archive, BLENDER_USER_RESOURCES=str(tmp_path))
    assert told["done"] == ["FINISHED"] and told["addons"] == ["bl_ext.user_default.weft_cloth"]
    assert told["operators"] == ["bake", "check", "clear", "mark", "stop", "untangle"] and told["panel"]


def run_add_on(archive, tmp_path, what):
    # this very weft, whatever is installed
    command = tmp_path / "weft"
    sources = Path(weft.__file__).parents[1]
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{sources}" exec "{sys.executable}" -m weft "$@"\n')
    command.chmod(0o755)
    return run_in_blender("blender_addon.py", archive, tmp_path, what, WEFT_COMMAND=str(command), timeout=600)


@pytest.mark.parametrize("what", ["0", "2", "1triangles"])
def test_the_add_on_bakes(archive, tmp_path, what):
    told = run_add_on(archive, tmp_path, what)
    levels, triangles = int(what[0]), what.endswith("triangles")
    assert "no object is marked as cloth" in told["no_cloth"]
    assert re.match(r"9 frames; .*no intersections", told["status"]) and told["warnings"] == ""
    # on quads also the refined result is on the object itself, with its polygons, UVs and materials
    assert told["modifiers"] == (["SUBSURF", "MESH_CACHE"] if levels and not triangles else ["MESH_CACHE"])
    shown = told["shown"]
    assert shown["sizes"] == [3 if triangles else 4]
    assert shown["polygons"] == (288 if triangles else 144) * 4**levels
    assert shown["uv_layers"] == ["UVMap"] and shown["uv_area"] == pytest.approx(1.0, abs=1e-4)
    assert shown["materials"] == [0, 1]
    # the cloth begins where it stands in Blender, and is where weft has it after that
    cache = open_cache(tmp_path / "bake" / ("fine.zarr" if levels else "run.zarr"))
    assert check_cache(cache).clean
    cloth, ball = cache.bodies
    assert (cloth.name, ball.name) == ("my_sheet.001", "Sphere")
    for frame in (3, 7, 11):
        ours = turned(cache.positions(frame - 3))
        found = told["frames"][str(frame)]
        same_points(found["sheet"], ours[cloth.vertices], ordered=levels == 0 or triangles)
        np.testing.assert_allclose(found["ball"], ours[ball.vertices], rtol=0.0, atol=1e-6)
    if levels == 0:
        np.testing.assert_allclose(told["frames"]["3"]["sheet"], told["start"], rtol=0.0, atol=1e-6)
        held = [0, 12]
        np.testing.assert_allclose(
            np.array(told["frames"]["11"]["sheet"])[held], np.array(told["start"])[held], atol=1e-6
        )
    assert np.abs(np.array(told["frames"]["11"]["sheet"]) - told["frames"]["3"]["sheet"]).max() > 0.01
    # once more, then away with it
    assert told["objects"] == ["Sphere", "my/sheet.001"] + (["my/sheet.001 fine"] if levels and triangles else [])
    assert told["cleared"] == [["Sphere", 0, False], ["my/sheet.001", 0, False]]
    assert "has no vertex group 'nobody'" in told["no_group"]
    assert "/nowhere/weft does not exist" in told["no_weft"]


def same_points(found, ours, *, ordered):
    """Blender's subdivision has another order of vertices: then each of them is one of ours, and none is missing."""
    found = np.asarray(found)
    if ordered:
        np.testing.assert_allclose(found, ours, rtol=0.0, atol=1e-6)
        return
    distance, which = cKDTree(ours).query(found)
    assert distance.max() < 1e-6 and len(np.unique(which)) == len(ours) == len(found)


def test_what_a_blender_user_expects(archive, tmp_path):
    """Pins on an armature, sewing edges, paint, wind, thickness, a follower; preview, stop and resume."""
    told = run_add_on(archive, tmp_path, "features")
    scene = weft.load_scene(tmp_path / "bake" / "scene.toml")
    cloth = scene.cloths[0]
    assert (cloth.material.preset, cloth.material.density) == ("denim", pytest.approx(0.4))
    assert cloth.material.bend == pytest.approx(2e-5)
    assert cloth.material.stretch == pytest.approx(weft.Material(preset="denim").stretch)
    assert scene.forces.wind.velocity == pytest.approx((0.0, 2.0, 0.0))
    assert scene.colliders[0].friction == pytest.approx(0.7)
    assert [seam.vertices for seam in scene.seams] == [((72, 80, 80),)]
    assert told["painted"] == [
        'painted = {stretch = "stiffness", shear = "stiffness", bend = "stiffness"}',
        [1.0, 5.0, 5.0, 1.0],
    ]
    # grown by 2 cm
    ball = weft.load_mesh(tmp_path / "bake" / "collider_0.npz")
    assert np.ptp(ball.vertices, axis=0)[1] == pytest.approx(0.54, abs=2e-3)
    assert told["warnings"] == "the force field vortex (vortex) is left out: weft has wind and drag"
    # stopped, shown, continued to the same end as without a stop
    text, stopped, done = told["stopped"]
    assert text.startswith("stopped after frame") and stopped and 4 <= done < 301
    assert told["preview"] == told["modifiers"] == ["ARMATURE", "MESH_CACHE"] and not told["resumable"]
    assert (
        f"301 frames, {301 - done} computed now" in told["log"] and "frame" in told["seen"][0] and told["seen"][1] > 0.0
    )
    assert re.match(r"301 frames; .*no intersections", told["status"])
    # the held corners are carried up by the bone, and cloth and follower with them
    start = np.array(told["start"])
    first, last = (np.array(told["frames"][f]["my/sheet.001"]) for f in ("3", "11"))
    np.testing.assert_allclose(first, start, atol=1e-6)
    np.testing.assert_allclose(last[[0, 8]], start[[0, 8]] + (0.0, 0.0, 0.1), atol=1e-5)
    coat = np.array(told["frames"]["11"]["coat"]) - told["frames"]["3"]["coat"]
    assert np.abs(coat[:, 2]).max() > 1e-3
    # the sewn corners have come nearer
    assert np.linalg.norm(last[72] - last[80]) < 0.9 * np.linalg.norm(start[72] - start[80])


def test_check_selects_and_untangle_frees(archive, tmp_path):
    told = run_add_on(archive, tmp_path, "tangle")
    found = re.fullmatch(r"(\d+) edges cross: Grid with itself \d+; (\d+) vertices of Grid are selected", told["check"])
    assert found and int(found[1]) > 0 and told["selected"] == int(found[2]) > 0 and told["mode"] == "EDIT"
    assert told["untangle"] == "Grid is free of intersections" and told["free"] == "nothing crosses"
    assert told["warnings"] == "121 vertices of Grid start inside Sphere: move them out"


@pytest.mark.long
def test_the_extension_brings_weft_along(tmp_path):
    """All wheels inside: nothing else is installed, and it bakes. Downloads 200 MB."""
    version = subprocess.run(
        [python_with_bpy(), "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True, text=True
    ).stdout.strip()
    out = tmp_path / "weft_cloth.zip"
    script = ROOT / "integrations" / "blender" / "make_zip.py"
    subprocess.run([sys.executable, str(script), str(out), "--wheels", "--python", version], check=True)
    told = run_in_blender(
        "blender_install.py", out, tmp_path / "bake", BLENDER_USER_RESOURCES=str(tmp_path), PATH="/usr/bin:/bin"
    )
    assert told["addons"] == ["bl_ext.user_default.weft_cloth"] and "site-packages" in told["weft"]
    assert re.match(r"6 frames; .*no intersections", told["status"])
