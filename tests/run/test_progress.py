"""What a run says, on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from weft.cache import Report
from weft.run import progress
from weft.run.progress import Bar, median_wall_time, quality


def run_bar(console: Console, *, done: int = 0) -> None:
    with Bar("flag", console) as bar:
        bar.begin(done, 11)
        for frame in range(done, 11):
            bar.advance({"frame": frame, "contacts": 7 * frame})
        bar.say("one [more] thing")


def test_bar_on_a_terminal():
    screen = io.StringIO()
    run_bar(Console(file=screen, force_terminal=True, width=100, markup=False, highlight=False))
    assert "flag frame 10/10" in screen.getvalue() and "70 contacts" in screen.getvalue()
    assert "frames/s" in screen.getvalue() and "flag: one [more] thing" in screen.getvalue()


def test_a_name_is_not_markup():
    screen = io.StringIO()
    with Bar("[red]flag", Console(file=screen, force_terminal=True, width=100)) as bar:
        bar.begin(0, 2)
    assert "[red]flag" in screen.getvalue()


def test_bar_when_stopped_while_compiling():
    screen = io.StringIO()
    with Bar("flag", Console(file=screen, force_terminal=True, width=100)):
        pass
    assert "flag: compiling" in screen.getvalue()


def test_lines_in_a_log(monkeypatch):
    log = io.StringIO()
    console = Console(file=log, width=100, markup=False, highlight=False)
    run_bar(console)
    assert log.getvalue() == "flag: one [more] thing\n"
    monkeypatch.setattr(progress, "_LOG_SECONDS", -1.0)
    run_bar(console, done=9)
    lines = log.getvalue().splitlines()[1:]
    assert len(lines) == 3 and lines[0].startswith("flag: frame 9/10, ") and lines[0].endswith(" left, 63 contacts")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "not checked: intersections were not counted"),
        ({"stretch": 0.5}, "not checked: intersections were not counted; stretch worst edge 50.0 % (frame 0)"),
        (
            {"intersections": 0, "stretch": 0.5, "stretch_99": 0.02},
            "ok: no intersections (2 frames checked); stretch 2.0 % at the 99th percentile, worst edge 50.0 % (frame 0)",
        ),
        ({"intersections": 3}, "not ok: intersections in 2 of 2 frames checked, at most 3 (frame 0)"),
        (
            {"intersections": 0, "status": "gave up"},
            "not ok: 2 frames with a status, first frame 0: gave up; no intersections (2 frames checked)",
        ),
        (
            {"status": "gave up"},
            "not ok: 2 frames with a status, first frame 0: gave up; intersections were not counted",
        ),
    ],
)
def test_quality(columns, said):
    report = Report([{"frame": frame, "status": "ok", **columns} for frame in range(2)])
    assert quality(report) == [said]


def test_a_status_that_only_repeats_the_crossings_is_said_once():
    rows = [{"frame": f, "intersections": f, "status": f"{f} edges" if f else "ok"} for f in range(3)]
    assert quality(Report(rows)) == ["not ok: intersections in 2 of 3 frames checked, at most 2 (frame 2)"]
    rows.append({"frame": 3, "intersections": 0, "status": "gave up"})
    crossed = "not ok: intersections in 2 of 4 frames checked, at most 2 (frame 2)"
    assert quality(Report(rows)) == [f"{crossed}; 1 frame more with a status, first frame 3: gave up"]


def test_compilation_is_shown():
    log = io.StringIO()
    bar = progress.Bar("flag", Console(file=log, width=100, markup=False, highlight=False))
    with bar:
        for module in ("contact.impulses", "contact.friction"):
            bar.compiling(module, None)
            bar.compiling(module, 2.0)
    assert log.getvalue() == "flag: compiling kernels, once on this machine; `weft warmup` does it beforehand\n"
    terminal = io.StringIO()
    bar = progress.Bar("flag", Console(file=terminal, width=120, force_terminal=True, markup=False, highlight=False))
    with bar:
        bar.compiling("contact.impulses", None)
        bar._rich.refresh()
    assert "flag: compiling contact.impulses (1)" in terminal.getvalue()


def test_report_without_times():
    assert median_wall_time(Report([{"frame": 0}, {"frame": 1}])) is None
    assert median_wall_time(Report([{"wall_time": 0.0}, {"wall_time": 1.0}, {"wall_time": 3.0}])) == 2.0
