"""Faults that take longer: a scheduler that goes away, an interrupted study, and many runs; no process is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from farm_tools import Cluster, content, processes_marked, simulate_alone, wait_until, write_scene

import weft
from weft.farm.study import Study, make_runs
from weft.farm.wedging import plan


def start_wedge(scene: Path, *options: str, mark: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "weft", "wedge", str(scene), "--no-pictures", "-o", str(mark / "study"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WEFT_TEST_MARK": str(mark)},
        start_new_session=True,
    )


def study_of(scene: Path, out: Path, seeds: int) -> Study:
    base = weft.load_scene(scene)
    return Study(out, make_runs(base, plan(base, {"seed": range(1, seeds + 1)})))


def done_runs(study: Study) -> int:
    return sum(study.is_done(run) for run in study.runs)


@pytest.mark.long
def test_a_scheduler_restarted(tmp_path):
    scene = write_scene(tmp_path)
    study = study_of(scene, tmp_path / "study", 6)
    first = Cluster(tmp_path / "first", workers=1)
    try:
        # the fourth run waits in its third frame while the scheduler is killed
        first.order("stop", "seed=4", 3)
        wedge = start_wedge(scene, "--set", "seed=1..6", "--scheduler", first.address, mark=tmp_path)
        wait_until(lambda: "stop 3 seed=4" not in first.left())
        first.scheduler.kill()
        out, err = wedge.communicate(timeout=300)
        assert wedge.returncode == 1 and "Traceback" not in err
        assert "is gone" in err and "3 of 6 runs" in err and "--resume" in err, err
        assert done_runs(study) == 3
    finally:
        first.stop()
    second = Cluster(tmp_path / "second", workers=2)
    try:
        again = start_wedge(scene, "--set", "seed=1..6", "--resume", "--scheduler", second.address, mark=tmp_path)
        out, err = again.communicate(timeout=300)
        assert again.returncode == 0 and "6 runs, 3 run now, 0 failed" in out, (out, err)
    finally:
        second.stop()
    for run in study.runs:
        assert content(study.cache_path(run)) == content(simulate_alone(tmp_path, run))
    assert processes_marked(str(tmp_path)) == []


def test_a_killed_worker_leaves_no_word(tmp_path):
    scene = write_scene(tmp_path, frames=20)
    study = study_of(scene, tmp_path / "study", 12)
    wedge = start_wedge(scene, "--set", "seed=1..12", "--workers", "2", mark=tmp_path)
    wait_until(lambda: done_runs(study) >= 1)
    workers = [p for p in Path("/proc").glob("[0-9]*") if _is_worker_of(p, wedge.pid)]
    os.kill(int(workers[0].name), signal.SIGKILL)
    out, err = wedge.communicate(timeout=300)
    assert wedge.returncode == 0 and "12 runs, 12 run now, 0 failed" in out
    # Python would warn about the semaphores of the dead
    assert err == ""
    assert processes_marked(str(tmp_path)) == []


def _is_worker_of(process: Path, parent: int) -> bool:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == parent and b"spawn_main" in (process / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_study_that_is_stopped(tmp_path, number):
    scene = write_scene(tmp_path, frames=40)
    study = study_of(scene, tmp_path / "study", 30)
    wedge = start_wedge(scene, "--set", "seed=1..30", "--workers", "2", mark=tmp_path)
    wait_until(lambda: done_runs(study) >= 2)
    if number == signal.SIGINT:
        # Ctrl-C reaches all processes of the terminal
        os.killpg(wedge.pid, number)
    else:
        wedge.send_signal(number)
    _, err = wedge.communicate(timeout=300)
    assert "Traceback" not in err and "leaked" not in err, err
    if number == signal.SIGINT:
        assert wedge.returncode == 130 and "of 30 runs" in err and "--resume" in err, err
    wait_until(lambda: processes_marked(str(tmp_path)) == [], 60.0)
    before = done_runs(study)
    assert before < 30
    again = start_wedge(scene, "--set", "seed=1..30", "--workers", "2", "--resume", mark=tmp_path)
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0 and f"30 runs, {30 - before} run now, 0 failed" in out, (out, err)
    for run in study.runs[:5]:
        assert content(study.cache_path(run)) == content(simulate_alone(tmp_path, run))


@pytest.mark.long
def test_many_runs_leave_no_process(tmp_path):
    scene = write_scene(tmp_path, frames=2)
    wedge = start_wedge(scene, "--set", "seed=1..200", "--workers", "4", mark=tmp_path)
    out, err = wedge.communicate(timeout=600)
    assert wedge.returncode == 0 and "200 runs, 200 run now, 0 failed" in out, (out, err)
    assert processes_marked(str(tmp_path)) == []
    lines = (tmp_path / "study" / "table.csv").read_text().splitlines()
    assert len(lines) == 201 and all(",ok," in line for line in lines[1:])
    assert len(list((tmp_path / "study" / "runs").glob("*.zarr"))) == 200


@pytest.mark.long
def test_one_process_compiles_and_the_others_wait(tmp_path):
    scene = write_scene(tmp_path)
    # Warp tells what it compiles, once it is started quietly
    code = (
        "import sys, warp, weft; from weft.farm.wedging import warm_up; import weft.world; "
        "warp.config.log_level = warp.LOG_INFO; "
        "warm_up(weft.load_scene(sys.argv[1]))"
    )
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path / "kernels")}
    workers = [
        subprocess.Popen([sys.executable, "-c", code, scene], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    said = [worker.communicate(timeout=300)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    compiled = sorted(text.count("(compiled)") for text in said)
    cached = sorted(text.count("(cached)") for text in said)
    assert compiled[:2] == [0, 0] and compiled[2] > 0
    assert cached == [0, compiled[2], compiled[2]]


def test_workers_that_die_while_they_start_are_started_again(monkeypatch):
    import distributed

    from weft.farm.cluster import FarmError, connect

    started, real = [], distributed.SpecCluster

    def fails_first(*arguments, **options):
        started.append(options)
        if len(started) <= failures:
            raise RuntimeError("Nanny failed to start.")
        return real(*arguments, **options)

    monkeypatch.setattr(distributed, "SpecCluster", fails_first)
    failures = 1
    with connect("local:1") as farm:
        assert len(farm.workers) == 1 and len(started) == 2
    started.clear()
    failures = 2
    with pytest.raises(FarmError, match="did not start in 2 attempts"), connect("local:1"):
        pass
