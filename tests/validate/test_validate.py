"""The suite: cases that are quick to measure, the exit code, messages, and lists of misses that shrink."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.cli.main import app
from weft.errors import WeftError
from weft.scene import MethodOptions
from weft.validate import Case, Expected, run_suite
from weft.validate import suite as suite_module
from weft.validate.drape import ANGLES, RADIUS, disc_mesh, outline, silhouette_change
from weft.validate.elasticity import strip_mesh
from weft.validate.suite import SUBJECTS, all_cases, failed, shrinking


def call(*arguments):
    return CliRunner().invoke(app, ["validate", *arguments])


def test_expectations():
    near = Expected.near(2.0, 0.1)
    assert near.holds(2.2) and not near.holds(2.3) and not near.holds(math.nan)
    assert near.error(2.2) == pytest.approx(0.1)
    assert Expected.at_most(0.5).holds(-3.0) and Expected.at_most(0.5).error(1.0) == pytest.approx(1.0)
    assert Expected(4, 8).error(6) == 0.0 and Expected(4, 8).error(3) == pytest.approx(-0.25)
    assert (
        near.text("mm") == "2 mm ± 10 %"
        and Expected.at_most(0.5).text() == "≤ 0.5"
        and Expected(4, 8).text("%") == "4 to 8 %"
    )


def test_cases_are_well_formed():
    cases = [case for subject in all_cases().values() for case in subject.values()]
    assert len({case.name for case in cases} | set(SUBJECTS)) == len(cases) + len(SUBJECTS)
    for case in cases:
        assert case.full and case.what and set(case.misses) <= MethodOptions.known.keys()
        assert all(reason for reason in case.misses.values())
        assert case.expects(case.full[0]).low < case.expects(case.full[0]).high
        assert not (case.contact and "plain" in case.misses)


@pytest.mark.parametrize("kind", ["same", "alternating", "irregular"])
def test_strips_are_whole(kind):
    mesh = strip_mesh(0.05, 10, kind)
    assert mesh.face_areas.sum() == pytest.approx(0.055 * 0.02)
    assert mesh.vertices[:, 0].min() == pytest.approx(-0.005) and mesh.vertices[:, 0].max() == pytest.approx(0.05)
    assert (
        np.cross(*(mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2)))[:, 1] > 0
    ).all()


def test_the_shadow_of_a_flat_disc_is_the_disc():
    mesh = disc_mesh(12)
    radius = outline(mesh.vertices, mesh.edges)
    assert len(radius) == ANGLES and radius.mean() == pytest.approx(RADIUS, rel=0.01)


def test_silhouettes_that_are_the_same():
    mesh = strip_mesh(0.05, 10, "same")
    upright = mesh.vertices[:, [2, 0, 1]]
    assert silhouette_change((upright, mesh.edges), (upright, mesh.edges)) == 0.0


def test_cloth_that_hangs_is_as_long_as_theory_says():
    rows = run_suite(["untangle"], only=["hanging_strip", "fall_speed", "slope_slides"])
    assert [row.case for row in rows] == ["hanging_strip", "slope_slides", "fall_speed"]
    assert {row.status for row in rows} == {"ok"}
    assert rows[0].value == pytest.approx(rows[0].theory, rel=0.01)
    assert run_suite(["plain"], only=["slope_slides"]) == []


@pytest.mark.parametrize("method", ["robust", "untangle"])
def test_what_materials_say_is_what_cloth_does(method):
    rows = run_suite([method], only=["materials"])
    assert [row.case for row in rows] == ["stretch_limit", "crease", "yield", "hysteresis"]
    assert {row.status for row in rows} == {"ok"}


def test_the_command_says_what_it_found(tmp_path):
    done = call("--method", "untangle", "--only", "hanging_strip", "--json", str(tmp_path / "rows.json"))
    assert done.exit_code == 0 and "hanging_strip" in done.output and "ok" in done.output
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["method"] == "untangle" and row["status"] == "ok" and row["low"] < row["value"] < row["high"]


def made_up(name, misses, value=2.0, **more):
    return Case(
        name, "a made up case", Expected.near(1.0, 0.1), lambda method, cells: value, (1, 2), (1,), misses=misses
    )


@pytest.fixture
def cases(monkeypatch):
    """Puts cases in the place of those that there are."""

    def put(*made):
        monkeypatch.setattr(suite_module, "all_cases", lambda: {"bending": {case.name: case for case in made}})

    return put


def test_a_miss_is_an_error_unless_it_is_listed(cases, tmp_path):
    cases(made_up("bad", {"robust": "it is known"}))
    assert call("--method", "robust").exit_code == 0
    done = call("--method", "robust", "--method", "push")
    assert done.exit_code == 1 and "1 of 2 measurements are off" in done.output and "it is known" in done.output


def test_a_listed_miss_that_passes_is_reported(cases):
    cases(made_up("good", {"robust": "it is known"}, value=1.05))
    done = call("--method", "robust", "--full")
    assert done.exit_code == 0 and "take it off the list" in done.output
    rows = run_suite(["robust"], size="full")
    assert shrinking(rows) == [("good", "robust")] and failed(rows) == []
    # one resolution that misses keeps it on the list
    assert shrinking([rows[0], replace(rows[1], status="listed")]) == []


def test_a_method_that_cannot_has_missed(cases):
    def refuse(method, cells):
        raise WeftError("no such cloth")

    cases(replace(made_up("bad", {}), measure=refuse))
    (row,) = run_suite(["robust"])
    assert row.status == "miss" and math.isnan(row.value) and row.note == "no such cloth"
    # JSON has no NaN
    assert call("--method", "robust").exit_code == 1


def test_charts_are_drawn(cases, tmp_path):
    pytest.importorskip("matplotlib")
    cases(made_up("good", {}, value=1.0), made_up("cantilever_10_same", {"robust": "known"}, value=math.nan))
    done = call("--method", "robust", "--full", "--charts", str(tmp_path / "charts"))
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "charts").iterdir()} == {"bending.png", "cantilever.png"}


def test_without_matplotlib_there_is_still_a_table(cases, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    cases(made_up("good", {}, value=1.0))
    done = call("--method", "robust", "--charts", str(tmp_path / "charts"))
    assert done.exit_code == 0 and "'weft-cloth[render]'" in done.output


def test_the_page_runs_as_printed():
    page = (Path(__file__).parents[2] / "docs" / "validate.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs", "exec"), {})
    # every case stands in the table of the page
    for subject, cases in all_cases().items():
        assert f"| {subject} |" in page
        for name in cases:
            stem = name.rsplit("_", 1)[0] if name.startswith(("bending_", "drape_", "folds_")) else name
            assert f"`{stem}" in page or (name.startswith("cantilever_") and "`cantilever_" in page), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "robst"], "no method is called 'robst', did you mean 'robust'?"),
        (["--only", "cantilver_10_same"], "no case or subject is called 'cantilver_10_same', did you mean"),
        (["--only", "hanging_strip", "--method", "untangle", "--json", "no/such/rows.json"], "cannot write"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.exit_code == 1 and message in done.output
