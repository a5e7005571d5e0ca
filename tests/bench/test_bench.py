"""`weft bench`: what is measured, the tables beside the paper's, the chart, the command."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from weft.bench import boxes, push
from weft.bench.push import Cell
from weft.cli.main import app


def printed(table: object) -> list[str]:
    """The lines of a table on a narrow terminal."""
    console = Console(width=80, record=True, file=StringIO())
    console.print(table)
    return console.export_text().splitlines()


def cells(lines: list[str], name: str) -> list[str]:
    """The row that begins with a name."""
    (row,) = (line for line in lines if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in row.strip("│").split("│")]


def test_boxes_are_measured_step_by_step() -> None:
    result = boxes.measure("table", 21, 1, 5)
    assert result.steps == 10 and result.intersections == 0
    assert set(result.columns) == set(boxes.WAYS)
    for numbers in result.columns.values():
        assert 1.0 <= numbers.mean_runs <= numbers.most_runs
        assert 0.0 < numbers.detection < numbers.total
    # both move alike and differ in their search alone
    s2, s3 = result.columns["S2"], result.columns["S3"]
    assert (s2.mean_runs, s2.most_runs) == (s3.mean_runs, s3.most_runs)
    assert s2.total - s2.detection == pytest.approx(s3.total - s3.detection)


def test_a_run_whose_search_takes_longer_takes_longer_as_a_whole() -> None:
    watch = boxes.Watch(runs=[1, 3], detection=[0.1, 0.3], total=[1.0, 2.0])
    assert boxes._numbers(watch, [0.7]) == boxes.Numbers(2.0, 3.0, 0.7, pytest.approx(1.5 - 0.2 + 0.7))


def test_the_table_of_boxes_has_both_beside_each_other() -> None:
    searches = zip(boxes.WAYS, (0.8, 0.3, 0.001), strict=True)
    ours = {way: boxes.Numbers(2.5, 6.0, detection, 1.0) for way, detection in searches}
    lines = printed(boxes.make_table(2, boxes.Result("ground", 51, 1000, ours, 0)))
    assert "Table 2" in lines[0] and "51 x 51" in lines[0]
    assert not any("…" in line for line in lines)
    assert cells(lines, "most runs")[1:] == ["5", "8", "8", "6", "6", "6"]
    assert cells(lines, "detection : S3")[1:] == ["564", "191", "1", "800", "300", "1"]


def results(scene: str, explodes: str = "") -> dict[str, dict[str, Cell]]:
    times = dict(zip(push.SEARCHES, (40.0, 2.0, 3.0), strict=True))
    return {
        name: {search: Cell(time, search != "brute", name == explodes) for search, time in times.items()}
        for name in push.INTEGRATORS
    }


@pytest.mark.parametrize("scene", push.SCENES)
def test_tables_of_push_fit_and_have_ratios(scene: str) -> None:
    lines = printed(push.make_table(scene, results(scene)))
    assert lines[0].startswith("Table ") and not any("…" in line for line in lines)
    ours = [line for line in lines if " weft " in line]
    assert len(ours) == 4 and all("~40.00" in line and "20 : 1 : 1.5" in line for line in ours)
    assert sum(" paper " in line for line in lines) == len(push.PAPER[scene])


def test_what_explodes_has_no_ratios() -> None:
    lines = printed(push.make_table("cube", results("cube", explodes="euler")))
    (paper,) = (line for line in lines if line.startswith("│ euler "))
    assert "35 : 1 : 0.61" in paper
    ours = lines[lines.index(paper) + 1]
    assert ours.count("explodes") == 3 and ":" not in ours


def test_runs_are_cut_short_and_scaled_up(tmp_path: Path) -> None:
    scene = push.SCENES["cube"](tmp_path, search="octree")
    whole = push._run(scene, 1, 1e9)
    assert whole.whole and not whole.explodes and whole.seconds > 0.0
    assert not push._run(scene, 5, 0.0).whole


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    path = push.draw_chart({scene: results(scene) for scene in push.SCENES}, tmp_path / "chart.png")
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_the_command_prints_and_writes_six_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(folder: Path, **_: object) -> push.Results:
        return {scene: results(scene) for scene in push.SCENES}

    monkeypatch.setattr(push, "measure", measured)
    done = CliRunner().invoke(app, ["bench", "push", "--quick", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "push.txt").read_text(encoding="utf-8")
    for number in range(1, 7):
        assert f"Table {number}: " in done.output and f"Table {number}: " in text
    assert (tmp_path / "out" / "push.png").exists()


def test_the_papers_ratios_are_those_of_its_times() -> None:
    for columns in boxes.PAPER.values():
        ratio = columns["S2"].detection / columns["S3"].detection
        assert 26.0 < ratio < 192.0
    assert np.isclose(push.PAPER["cube"]["euler"][0], 53.92)
