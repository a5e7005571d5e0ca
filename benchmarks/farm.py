"""What a study costs beside its simulations: 32 short runs on 1, 2 and 4 processes of this machine.

    python -m benchmarks farm

The speed-up is against the same runs one after the other in this process (`alone`, measured before and after each study
on some of them, since machines are not always equally busy). The ideal is the number of processes or of cores,
whichever is less. Workers are started and warmed by a first study; kernels come
from the cache that all processes share. `overhead` is all that the workers did but simulate (waiting for the next
run, reading its scene, writing its record, and idle at the end), in seconds for each run.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import weft
from weft.farm.cluster import Farm, connect
from weft.farm.study import Run, Study, make_runs
from weft.farm.wedging import plan, run_all
from weft.run import simulate
from weft.runtime import set_threads

RUNS = 32
SOME = 8
WORKERS = (1, 2, 4)


def scene() -> weft.Scene:
    """A sheet that falls on a ball, for a sixth of a second."""
    sheet = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(12, 12)), material="silk")
    ball = weft.Collider(
        shape=weft.Sphere(radius=0.25, subdivisions=2), placement=weft.Placement(position=(0.0, -0.28, 0.0))
    )
    return weft.Scene(cloths=[sheet], colliders=[ball], frames=10, method="robust", check=4)


def main() -> None:
    """Print the table."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = make_runs(scene(), plan(scene(), {"seed": range(1, RUNS + 1)}))
        print(f"{cores} cores\n{'workers':>8} {'seconds':>8} {'alone':>7} {'speed-up':>9} {'ideal':>6} {'overhead':>9}")
        for count in WORKERS:
            # as many as each worker has
            set_threads(max(1, cores // count))
            with connect("local", workers=count) as farm:
                run_study(farm, runs[:count], folder / f"warm{count}")
                before = simulate_alone(runs[:SOME], folder / f"before{count}")
                seconds, simulated = run_study(farm, runs, folder / f"study{count}")
                after = simulate_alone(runs[:SOME], folder / f"after{count}")
            alone = (before + after) / (2 * SOME) * RUNS
            overhead = (count * seconds - simulated) / RUNS
            speed_up = f"{alone / seconds:9.2f} {min(count, cores):6d}"
            print(f"{count:8d} {seconds:8.1f} {alone:7.1f} {speed_up} {overhead:9.3f}", flush=True)


def simulate_alone(runs: list[Run], folder: Path) -> float:
    """Seconds for some runs in this process, with everything loaded."""
    simulate(runs[0].scene, folder / "first.zarr", progress=False)
    began = time.perf_counter()
    for run in runs:
        simulate(run.scene, folder / f"{run.name}.zarr", progress=False)
    return time.perf_counter() - began


def run_study(farm: Farm, runs: list[Run], folder: Path) -> tuple[float, float]:
    """Seconds for a study on workers that are there, and the seconds that they simulated."""
    study = Study(folder, runs)
    study.prepare(scene(), resume=False, overwrite=False)
    records: dict[str, dict[str, Any]] = {}
    began = time.perf_counter()
    run_all(farm, study, runs, records, None)
    seconds = time.perf_counter() - began
    failed = [record["error"] for record in records.values() if record["status"] != "ok"]
    if failed:
        raise RuntimeError(f"{len(failed)} runs failed, the first: {failed[0]}")
    return seconds, sum(record["simulation"] for record in records.values())


if __name__ == "__main__":
    main()
