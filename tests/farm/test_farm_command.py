"""`weft wedge` and `weft plot` on the command line: what they print, draw and refuse."""

import os
import subprocess
import sys

import pytest
from farm_tools import write_scene
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.errors import MissingExtraError, WeftError
from weft.farm.pictures import draw_charts, plot_study
from weft.farm.study import read_table, to_csv, to_parquet, write_tables


def call(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_dry_run_lists_the_runs(tmp_path):
    scene = write_scene(tmp_path)
    done = call("wedge", scene, "--set", "cloth.material.friction=0.1,0.3", "--set", "seed=1..2", "--dry")
    assert done.stdout.splitlines() == [
        "cloth.material.friction=0.1,seed=1",
        "cloth.material.friction=0.1,seed=2",
        "cloth.material.friction=0.3,seed=1",
        "cloth.material.friction=0.3,seed=2",
        "4 runs",
    ]
    sampled = call("wedge", scene, "--set", "forces.air_damping=0:1", "--sample", "latin:5", "--dry")
    assert sampled.stdout.splitlines()[-1] == "5 runs"
    (tmp_path / "runs.csv").write_text("seed\n4\n9\n")
    assert call("wedge", scene, "--list", tmp_path / "runs.csv", "--dry").stdout == "seed=4\nseed=9\n2 runs\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["runs.csv", "scene.toml"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "cloth.material.frction=1"], "did you mean 'friction'?"),
        (["--set", "seed=x"], 'seed = "x": must be a whole number'),
        (["--set", "seed=1", "--set", "seed=2"], "--set seed is given twice"),
        (["--set", "seed=1", "--list", "runs.csv"], "leave out --set"),
        (["--set", "seed=1", "--sample", "sobol:3"], "write latin:"),
        ([], "needs keys to vary"),
        (["--set", "seed=1", "--scheduler", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(tmp_path, options, words):
    done = call("wedge", write_scene(tmp_path), *options, "-o", tmp_path / "study")
    assert done.exit_code == 1 and done.stdout.strip() == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_folder_that_holds_other_things_is_left_alone(tmp_path):
    scene = write_scene(tmp_path)
    for option in ([], ["--overwrite"], ["--resume"]):
        done = call("wedge", scene, "--set", "seed=1", "-o", tmp_path, *option)
        assert done.exit_code == 1 and "is not empty and holds no study" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["scene.toml"]


ROWS = [
    {"run": f"a={a},b={b}", "a": a, "b": b, "frames": 3, "intersections": a, "worst_frame": 0, "stretch": 0.1 * a,
     "contacts": 1, "time": 1.0, "status": "ok" if a < 3 else "failed", "error": "" if a < 3 else "no, it \"broke\""}
    for a in (1, 2, 3) for b in ("x", "y")
]  # fmt: skip


def test_tables(tmp_path):
    write_tables(ROWS, tmp_path)
    assert read_table(tmp_path) == ROWS
    assert (tmp_path / "table.csv").read_text().splitlines()[-1].endswith('failed,"no, it ""broke"""')
    # what differs in kind is text; what is not known is empty
    mixed = [{"a": 1, "b": [1, 2], "c": True}, {"a": 0.5, "b": {"x": 1}, "c": None}, {"a": None, "b": "t", "c": False}]
    assert to_csv(mixed).decode().splitlines() == ["a,b,c", '1,"[1, 2]",true', '0.5,"{""x"": 1}",', ",t,false"]
    assert to_parquet(mixed)


def test_plots(tmp_path):
    (tmp_path / "study.json").write_text('{"keys": ["a", "b"]}')
    write_tables(ROWS, tmp_path)
    assert [path.name for path in draw_charts(ROWS, ["a", "b"], tmp_path / "plots")] == ["a.png", "b.png"]
    for column in ("stretch", "intersections", "b"):
        for key in ("a", "b"):
            assert plot_study(tmp_path, column, key).stat().st_size > 5000
    with pytest.raises(WeftError, match="does not vary c: it varies a, b"):
        plot_study(tmp_path, "stretch", "c")
    with pytest.raises(WeftError, match="no column strech: it has frames, intersections"):
        plot_study(tmp_path, "strech", "a")
    done = call("plot", tmp_path, "--column", "stretch", "--against", "b", "-o", tmp_path / "p.svg")
    assert done.exit_code == 0 and (tmp_path / "p.svg").read_bytes().startswith(b"<?xml")
    assert "say which column" in call("plot", tmp_path).stderr
    assert "is no study" in call("plot", tmp_path / "plots", "--column", "x").stderr


def test_without_the_extra(tmp_path, monkeypatch):
    for package, message in {"distributed": "distributed", "pyarrow.parquet": "pyarrow"}.items():
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            with pytest.raises(
                MissingExtraError, match=rf"{message}: install it with  pip install 'weft-cloth\[farm\]'"
            ):
                weft.wedge(write_scene(tmp_path), tmp_path / package, {"seed": [1]}, workers=1)


def test_help_imports_no_dask():
    code = (
        "import sys, weft.cli.main, weft.farm, weft.cli.wedge; "
        "print(*[m for m in ('distributed', 'dask', 'pyarrow', 'warp', 'zarr') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == ""
