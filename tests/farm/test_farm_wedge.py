"""Studies on real workers: what is run, what is kept, what happens to the runs when something happens to the workers."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from farm_tools import content, processes_marked, simulate_alone, wait_until, write_scene

import weft
from weft.errors import WeftError
from weft.farm.cluster import connect
from weft.farm.study import Study, make_runs
from weft.farm.wedging import Task, plan
from weft.mesh.shapes import grid

VARY = {"cloth.material.density": [0.1, 0.4], "forces.air_damping": [0.0, 0.5]}


def runs_of(scene: Path, vary=VARY):
    base = weft.load_scene(scene)
    return make_runs(base, plan(base, vary))


def table(folder: Path) -> list[dict]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_combination_is_the_run_it_would_be_alone(tmp_path, cluster):
    scene = write_scene(tmp_path)
    outcome = weft.wedge(scene, tmp_path / "study", VARY, scheduler=cluster.address)
    assert outcome.computed == 4 and outcome.failed == []
    for run in runs_of(scene):
        alone = simulate_alone(tmp_path, run)
        assert content(outcome.study.cache_path(run)) == content(alone)
    # the runs differ from each other
    assert len({json.dumps(row["stretch"]) for row in outcome.rows}) > 1

    rows = table(tmp_path / "study")
    assert [(row["cloth.material.density"], row["forces.air_damping"]) for row in rows] == [
        ("0.1", "0.0"), ("0.1", "0.5"), ("0.4", "0.0"), ("0.4", "0.5"),
    ]  # fmt: skip
    for row, run in zip(rows, outcome.study.runs, strict=True):
        report = weft.open_cache(outcome.study.cache_path(run)).report
        assert row["run"] == run.name and row["status"] == "ok" and row["error"] == "" and row["frames"] == "7"
        assert float(row["stretch"]) == max(report["stretch"])
        assert int(row["intersections"]) == max(report["intersections"])
        assert float(row["time"]) == pytest.approx(sum(report["wall_time"]))
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "study" / "table.parquet")
    assert parquet.column_names == list(rows[0])
    assert parquet["cloth.material.density"].to_pylist() == [0.1, 0.1, 0.4, 0.4]
    assert {path.name for path in outcome.pictures} == {
        "cloth.material.density.png", "forces.air_damping.png", "sheet.png",
    }  # fmt: skip


def test_resume_runs_what_is_missing_or_failed(tmp_path, cluster):
    scene = write_scene(tmp_path)
    options = {"scheduler": cluster.address, "pictures": False}
    study = weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]}, **options).study
    stamps = {run.name: study.record_path(run).stat().st_mtime_ns for run in study.runs}
    with pytest.raises(WeftError, match="holds a study already"):
        weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]}, **options)

    # nothing is missing
    assert weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]}, resume=True, **options).computed == 0
    # one is missing, one has lost a frame, one is new
    record = json.loads(study.record_path(study.runs[0]).read_bytes())
    study.record_path(study.runs[0]).write_text(json.dumps({**record, "status": "failed", "error": "no"}))
    (study.cache_path(study.runs[1]) / "weft" / "frames" / "00000006.json").unlink()
    outcome = weft.wedge(scene, tmp_path / "study", {"seed": [1, 2, 3]}, resume=True, **options)
    assert outcome.computed == 3 and outcome.failed == []
    assert all(study.record_path(run).stat().st_mtime_ns > stamps[run.name] for run in study.runs)
    # another scene is another study
    scene.write_text(scene.read_text().replace("-9.81", "-1.62"))
    with pytest.raises(WeftError, match="study of another scene"):
        weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]}, resume=True, **options)


def test_a_run_that_fails_does_so_alone(tmp_path, cluster):
    scene = write_scene(tmp_path)
    scene.write_text(
        scene.read_text().replace('shape = {kind = "grid", size = [1.0, 1.0], cells = [4, 4]}', 'mesh = "good.obj"')
        .replace('boundary = "left"', "indices = [0]")
    )  # fmt: skip
    weft.save_mesh(grid((1.0, 1.0), (3, 3)), tmp_path / "good.obj")
    (tmp_path / "bad.obj").write_text("v 0 0 0\nf 1 2 3\n")
    vary = {"cloth.mesh": ["bad.obj", "good.obj"]}
    outcome = weft.wedge(scene, tmp_path / "study", vary, scheduler=cluster.address)
    bad, good = table(tmp_path / "study")
    assert good["status"] == "ok" and good["frames"] == "7"
    assert bad["status"] == "failed" and bad["run"] == "cloth.mesh=bad.obj" and bad["frames"] == ""
    assert "no such vertex" in bad["error"] and "\n" not in bad["error"]
    # the sheet has a place for it
    assert (tmp_path / "study" / "sheet.png").is_file()
    assert outcome.failed[0]["error"] == bad["error"]


@pytest.mark.parametrize("what", ["kill", "half"])
def test_a_worker_killed(tmp_path, cluster, what):
    """`kill`: in the middle of a run, `half`: in the middle of a frame's write."""
    scene = write_scene(tmp_path)
    runs = runs_of(scene, {"seed": [1, 2, 3]})
    cluster.order(what, runs[1].name, 4)
    cluster.order(what, runs[2].name, 0)
    vary = {"seed": [1, 2, 3]}
    outcome = weft.wedge(scene, tmp_path / "study", vary, scheduler=cluster.address, pictures=False)
    assert cluster.left() == [] and outcome.failed == []
    for run in runs:
        assert content(outcome.study.cache_path(run)) == content(simulate_alone(tmp_path, run))


@pytest.mark.long
def test_a_run_that_kills_every_worker_fails_alone(tmp_path, cluster):
    scene = write_scene(tmp_path)
    runs = runs_of(scene, {"seed": [1, 2]})
    # it goes on a frame farther each time, and is given up after the fourth
    for frame in range(4):
        cluster.order("kill", runs[0].name, frame)
    outcome = weft.wedge(scene, tmp_path / "study", {"seed": [1, 2]}, scheduler=cluster.address, pictures=False)
    assert [row["run"] for row in outcome.failed] == [runs[0].name]
    assert "was killed" in outcome.failed[0]["error"] and cluster.left() == []
    again = weft.wedge(
        scene, tmp_path / "study", {"seed": [1, 2]}, scheduler=cluster.address, pictures=False, resume=True
    )
    assert again.computed == 1 and again.failed == []
    assert content(again.study.cache_path(runs[0])) == content(simulate_alone(tmp_path, runs[0]))


def test_a_disk_that_becomes_full(tmp_path, cluster):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("cannot mount a disk here")
    try:
        scene = write_scene(tmp_path)
        options = {"scheduler": cluster.address, "pictures": False}
        study = weft.wedge(scene, disk / "study", {"seed": [1, 2]}, **options).study
        before = {run.name: content(study.cache_path(run)) for run in study.runs}
        more = {"seed": [1, 2, 3, 4]}
        cluster.order("full", "seed=3", 2)
        # what a failed frame leaves free may be enough for a table or not
        try:
            errors = [row["error"] for row in weft.wedge(scene, disk / "study", more, resume=True, **options).failed]
        except WeftError as error:
            errors = [str(error)]
        assert cluster.left() == []
        assert errors and all("no space left on device" in error and "\n" not in error for error in errors), errors
        assert {run.name: content(study.cache_path(run)) for run in study.runs} == before
        assert all(weft.open_cache(study.cache_path(run)).verify() == [] for run in study.runs)
        # with room again, it goes on
        (disk / "ballast").unlink()
        outcome = weft.wedge(scene, disk / "study", more, resume=True, **options)
        assert outcome.computed in (1, 2) and outcome.failed == []
        for run in outcome.study.runs:
            assert content(outcome.study.cache_path(run)) == content(simulate_alone(tmp_path, run))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_runs_for_cards_go_where_cards_are_declared(tmp_path, cluster):
    def whoami(_):
        from distributed import get_worker

        return get_worker().address

    scene = write_scene(tmp_path)
    vary = {"device": ["cpu", "cuda"]}
    with pytest.raises(WeftError, match=r"no worker of tcp://.* declares a GPU"):
        weft.wedge(scene, tmp_path / "none", vary, scheduler=cluster.address, pictures=False)
    with_gpu = cluster.start_workers(1, name="gpu", resources="GPU=1")
    try:
        with connect(cluster.address) as farm:
            wait_until(lambda: any(worker["resources"].get("GPU") for worker in farm.workers.values()))
            declared = [address for address, worker in farm.workers.items() if worker["resources"].get("GPU")]
            where = dict(farm.map_unordered(whoami, [0, 1, 2], needs=lambda _: {"GPU": 1.0}))
        assert len(declared) == 1 and set(where.values()) == set(declared)
        outcome = weft.wedge(scene, tmp_path / "study", vary, scheduler=cluster.address, pictures=False)
        # there is no GPU behind the word, which that run says, alone
        import warp

        if not warp.get_cuda_devices():
            assert [row["status"] for row in outcome.rows] == ["ok", "failed"]
    finally:
        with_gpu.terminate()
        with_gpu.wait()


def test_a_cluster_of_its_own_is_for_this_machine_and_ends_with_it(tmp_path):
    scene = write_scene(tmp_path, frames=2)
    command = [
        sys.executable, "-m", "weft", "wedge", str(scene), "--set", "seed=1..2", "--workers", "2", "--no-pictures",
        "-o", str(tmp_path / "study"),
    ]  # fmt: skip
    marked = {**os.environ, "WEFT_TEST_MARK": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=marked)
    assert done.returncode == 0 and done.stderr.strip() == "", done.stderr
    assert "2 runs, 2 run now, 0 failed" in done.stdout
    assert processes_marked(str(tmp_path)) == []


def test_a_script_without_a_guard_is_told_so(tmp_path):
    """Workers import the script: without the guard each would start a study of its own."""
    script = tmp_path / "script.py"
    call = f"weft.wedge({str(write_scene(tmp_path))!r}, 'study', {{'seed': [1]}}, workers=1, overwrite=True)"
    script.write_text(f"import weft\ntry:\n    {call}\nexcept weft.WeftError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert "call this below  if __name__ == '__main__':" in done.stdout and done.stderr == "", done.stderr


def test_what_is_wrong_with_a_scheduler_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.farm.cluster.CONNECT_SECONDS", 0.5)
    scene = write_scene(tmp_path)
    for address, words in [
        ("tcp://127.0.0.1:1", "no scheduler answers at tcp://127.0.0.1:1"),
        ("here", "or an address"),
    ]:
        with pytest.raises(WeftError, match=words) as caught:
            weft.wedge(scene, tmp_path / "study", {"seed": [1]}, scheduler=address, overwrite=True)
        assert "\n" not in str(caught.value)
    with pytest.raises(WeftError, match="--workers is for"):
        weft.wedge(scene, tmp_path / "study", {"seed": [1]}, scheduler="tcp://a:1", workers=2, overwrite=True)


def test_names_cannot_leave_the_folder(tmp_path):
    scene = weft.load_scene(write_scene(tmp_path))
    for name in ["../../etc", "/tmp/x", "a/b", "..", ".", "\x00", "a" * 400, "ä ö", "-rf"]:
        study = Study(tmp_path / "study", make_runs(scene, [{"seed": 1}]))
        run = study.runs[0]
        from weft.farm.sweeps import name_run

        made = type(run)(name_run({"cloth.mesh": name, "camera.x": name}), {}, scene)
        assert study.cache_path(made).resolve().parent == (tmp_path / "study" / "runs").resolve()
        assert len(made.name.encode()) < 200


def test_a_run_waits_for_one_that_still_writes(tmp_path, monkeypatch):
    """A worker that lost its scheduler may go on for a while; its work was given to another."""
    import threading

    from weft.farm import wedging as work
    from weft.run import simulate

    scene = write_scene(tmp_path)
    run = runs_of(scene, {"seed": [1]})[0]
    study = Study(tmp_path / "study", [run])
    study.prepare(weft.load_scene(scene), resume=False, overwrite=False)
    task = Task(
        run.name, json.dumps(run.scene.model_dump()), str(tmp_path), str(study.cache_path(run)),
        str(study.record_path(run)), run.digest,
    )  # fmt: skip
    started, go = threading.Event(), threading.Event()

    def hold(frame, row):
        if frame == 2:
            started.set()
            go.wait()

    other = threading.Thread(
        target=lambda: simulate(run.scene, study.cache_path(run), progress=False, on_frame=hold), daemon=True
    )
    other.start()
    started.wait()
    # it does not get on: the run says who is in the way
    monkeypatch.setattr(work, "PATIENCE", 0.3)
    assert "is being written by process" in work.run_task(task)["error"]
    # it does: the run is complete when it ends
    monkeypatch.setattr(work, "PATIENCE", 60.0)
    threading.Timer(0.3, go.set).start()
    record = work.run_task(task)
    other.join()
    assert record["status"] == "ok" and record["row"]["frames"] == 7
