"""Blender itself: it imports our USD and PC2 files with our vertices, and bakes through the add-on."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blender import run_in_blender
from exchange_caches import positions_at, write_cache

from weft.cache import open_cache
from weft.check import check_cache
from weft.exchange import export_pc2, export_usd

pytestmark = pytest.mark.blender
ROOT = Path(__file__).parents[2]


def turned(points):
    """Ours, y up, as Blender has it, z up."""
    x, y, z = np.asarray(points).T
    return np.column_stack([x, -z, y])


def test_blender_has_our_vertices(tmp_path):
    """Three frames of USD and of PC2, to a millionth of a metre."""
    cache = write_cache(tmp_path / "run.zarr")
    export_usd(cache, tmp_path / "run.usdc")
    export_pc2(cache, tmp_path / "points")
    told = run_in_blender("blender_import.py", tmp_path / "run.usdc", tmp_path / "points", "0,2,5")
    for frame in (0, 2, 5):
        ours = turned(positions_at(frame))
        for body, name in zip(cache.bodies, ("sheet", "a_box", "floor"), strict=True):
            np.testing.assert_allclose(told["usd"][str(frame)][name], ours[body.vertices], rtol=0.0, atol=1e-6)
        np.testing.assert_allclose(
            told["pc2"][str(frame)]["sheet"], ours[cache.bodies[0].vertices], rtol=0.0, atol=1e-6
        )
    assert told["uv"] and len(told["materials"]) == 3


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
    assert told["operators"] == ["bake", "clear", "mark"] and told["panel"]


@pytest.mark.parametrize("levels", [0, 1])
def test_the_add_on_bakes(archive, tmp_path, levels):
    told = run_in_blender(
        "blender_addon.py", archive, tmp_path, levels, WEFT_COMMAND=str(Path(sys.executable)), timeout=600
    )
    assert "no object is marked as cloth" in told["no_cloth"]
    assert told["status"].startswith("9 frames; no intersections")
    assert told["modifiers"] == ["MESH_CACHE"]
    # the cloth begins where it stands in Blender, and is where weft has it after that
    cache = open_cache(tmp_path / "bake" / ("fine.zarr" if levels else "run.zarr"))
    assert check_cache(cache).clean
    cloth, ball = cache.bodies
    assert (cloth.name, ball.name) == ("my_sheet.001", "Sphere")
    for frame in (3, 7, 11):
        ours = turned(cache.positions(frame - 3))
        found = told["frames"][str(frame)]
        np.testing.assert_allclose(found["sheet"], ours[cloth.vertices], rtol=0.0, atol=1e-6)
        np.testing.assert_allclose(found["ball"], ours[ball.vertices], rtol=0.0, atol=1e-6)
    if levels == 0:
        np.testing.assert_allclose(told["frames"]["3"]["sheet"], told["start"], rtol=0.0, atol=1e-6)
        held = [0, 12]
        np.testing.assert_allclose(
            np.array(told["frames"]["11"]["sheet"])[held], np.array(told["start"])[held], atol=1e-6
        )
    assert np.abs(np.array(told["frames"]["11"]["sheet"]) - told["frames"]["3"]["sheet"]).max() > 0.01
    # once more, then away with it
    assert told["objects"] == ["Sphere", "my/sheet.001"] + (["my/sheet.001 fine"] if levels else [])
    assert told["cleared"] == [["Sphere", 0, False], ["my/sheet.001", 0, False]]
    assert "has no vertex group 'nobody'" in told["no_group"]
    assert "/nowhere/weft does not exist" in told["no_weft"]
