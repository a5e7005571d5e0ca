"""The notebook and the recipes run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from glb_writer import GlbWriter

import weft
from weft.mesh import shapes

ROOT = Path(__file__).parents[1]
RECIPES = dict(
    re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```", (ROOT / "docs/recipes.md").read_text(), re.MULTILINE | re.DOTALL)
)


def test_the_notebook_runs(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(ROOT / "examples/tutorial.ipynb", as_version=4)
    # it is kept without results: they would be in every commit
    assert all(not cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [o for o in outputs if "<iframe srcdoc=" in o.get("data", {}).get("text/html", "")]
    assert len(pages) == 2
    said = "".join(o["text"] for o in outputs if o["output_type"] == "stream")
    assert re.search(
        r"^ok: no intersections \(25 frames checked\); stretch .* at the 99th percentile", said, re.MULTILINE
    )
    assert (tmp_path / "towel.glb").stat().st_size > 10_000


def character_file(path):
    """A ball that rises, a square of cloth above it with a held collar, in one GLB file."""
    writer = GlbWriter()
    ball, cloth = shapes.icosphere(0.2, subdivisions=2), shapes.grid((0.5, 0.5), (8, 8))
    body = writer.mesh(ball.vertices, ball.faces)
    collar = (cloth.vertices[:, 2] < -0.24).astype(float)
    shirt = writer.mesh(cloth.vertices + (0, 0.25, 0), cloth.faces, attributes={"_COLLAR": writer.array(collar)})
    node = writer.node(name="body", mesh=body)
    writer.node(name="shirt", mesh=shirt)
    writer.animate(node, "translation", [0.0, 1.0], [[0, 0, 0], [0, 0.1, 0]])
    writer.save(path)


@pytest.mark.parametrize("name", [name for name in RECIPES if "study" not in name])
def test_recipes_run_as_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "torch" in name:
        pytest.importorskip("torch")
    character_file(tmp_path / "character.glb")
    found: dict = {}
    exec(compile(RECIPES[name], name, "exec"), found)
    if "character" in name:
        cache = found["cache"]
        # the collar is held, the ball rises, the shirt goes to a file of its own
        collar = weft.load_mesh("character.glb", object="shirt").vertices_of("collar")
        assert len(collar) == 9
        assert np.array_equal(cache["shirt"].positions(-1)[collar], cache["shirt"].positions(0)[collar])
        assert cache["body"].positions(-1)[:, 1].max() == pytest.approx(0.2 + 0.1 * 20 / 30, abs=1e-6)
        assert weft.load_mesh("walk.glb").names() == ("shirt",)


def test_the_study_runs_as_printed(tmp_path):
    pytest.importorskip("distributed")
    (name,) = [name for name in RECIPES if "study" in name]
    (tmp_path / "recipe.py").write_text(RECIPES[name])
    scene = weft.Scene(cloths=weft.Cloth(shape=weft.Grid(cells=(2, 2))), frames=2, method="plain")
    weft.save_scene(scene, tmp_path / "drape.toml")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4 and done.stdout.count(" ok 0 ") == 4, done.stdout


def test_help_is_short():
    import inspect

    assert str(inspect.signature(weft.Grid)) == (
        "(*, kind='grid', size=(1.0, 1.0), cells=(50, 50), diagonals='alternating')"
    )
    names = dir(weft.Cloth(shape=weft.Grid()))
    assert {"name", "mesh", "pins", "replace"} <= set(names)
    assert not any(name.startswith(("model_", "_")) for name in names)
    for name in weft.__all__:
        thing = getattr(weft, name)
        if callable(thing) and name != "WeftError":
            assert len(str(inspect.signature(thing))) < 800, name


def test_the_reference_has_all_public_names():
    import importlib.util

    spec = importlib.util.spec_from_file_location("hooks_of_docs", ROOT / "docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    text = hooks.on_page_markdown((ROOT / "docs/api.md").read_text())
    public = {name for name in weft.__all__ if callable(getattr(weft, name))}
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == public
    for place in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        module, _, name = place.rpartition(".")
        assert hasattr(__import__(module, fromlist=[name]), name), place
