"""Many bodies in many garments: a row and a picture for each, and what fails is named and stops nobody."""

import csv

import numpy as np
import pytest
from patterns import save, tube, vest
from typer.testing import CliRunner

from weft.cli.main import app
from weft.errors import WeftError
from weft.farm.wardrobe import DressTask, dress_many, dress_one
from weft.mesh import load_mesh, save_mesh, shapes

pytest.importorskip("distributed", reason="needs the extra farm")

OPTIONS = {"edge": 0.07, "settle": 0.05, "usd": True}


@pytest.fixture
def files(tmp_path):
    body = shapes.capsule(0.14, 0.8, segments=16, rings=5, bands=8)
    placed = np.array([[1.25, 0, 0, 0], [0, 1, 0, 0.7], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    save_mesh(body.transformed(placed), tmp_path / "slim.obj")
    save(vest(y=80), tmp_path / "vest.json")
    save(tube(width=26, height=20, gap=20, y=90), tmp_path / "small.json")
    return tmp_path


def test_a_study_of_garments(files, cluster):
    arguments = ["wedge", "-o", str(files / "study"), "--edge", "0.07", "--scheduler", cluster.address]
    for name in ("vest.json", "small.json"):
        arguments += ["--pattern", str(files / name)]
    arguments += ["--body", str(files / "slim.obj")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1, done.output
    assert "2 samples, 2 made now, 1 not ok" in done.output and "small is far too small for the body" in done.output
    rows = list(csv.DictReader((files / "study" / "table.csv").open()))
    assert [row["run"] for row in rows] == ["vest-slim", "small-slim"]
    assert [row["status"] for row in rows] == ["ok", "failed"]
    assert rows[0]["intersections"] == "0" and not rows[1]["intersections"]
    assert (files / "study" / "sheet.png").stat().st_size > 5000
    sample = np.load(files / "study" / "samples" / "vest-slim" / "dressed" / "vest.npz")
    assert sample["panel_names"].tolist() == ["front", "back"]
    # what is done is not done again
    again = CliRunner().invoke(app, [*arguments, "--resume"])
    assert "2 samples, 1 made now, 1 not ok" in again.output
    assert CliRunner().invoke(app, arguments).exit_code == 1


def test_samples_as_usd(files):
    Usd, UsdGeom = (pytest.importorskip(f"pxr.{name}", reason="needs usd-core") for name in ("Usd", "UsdGeom"))
    task = DressTask("vest", (str(files / "vest.json"),), str(files / "slim.obj"), str(files / "one"), OPTIONS)
    assert dress_one(task)["status"] == "ok"
    stage = Usd.Stage.Open(str(files / "one" / "dressed" / "vest.usdc"))
    (mesh,) = (UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh))
    arrays = np.load(files / "one" / "dressed" / "vest.npz")
    # the welded triangles in the same order, so that a subset has those of a panel
    assert np.array_equal(np.array(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3), arrays["welded_faces"])
    subsets = UsdGeom.Subset.GetAllGeomSubsets(mesh)
    found = {subset.GetPrim().GetDisplayName(): list(subset.GetIndicesAttr().Get()) for subset in subsets}
    assert found == {
        name: np.flatnonzero(arrays["face_panel"] == number).tolist()
        for number, name in enumerate(arrays["panel_names"].tolist())
    }
    # the panels of the npz file are labels for every reader, and no panel is taken for a material
    assert load_mesh(files / "one" / "dressed" / "vest.npz").names("panel") == ("front", "back")
    assert load_mesh(files / "one" / "dressed" / "vest.usdc").names("material") in ((), ("vest",))


def test_mistakes(files):
    with pytest.raises(WeftError, match="there is no body to dress with"):
        dress_many([files / "vest.json"], [], files / "study")
    with pytest.raises(WeftError, match="two samples would be called 'vest-slim'"):
        dress_many([files / "vest.json"] * 2, [files / "slim.obj"], files / "study")
    for arguments in (["wedge"], ["wedge", "x.toml", "--pattern", "a.json"]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 1 and "--pattern" in done.output
