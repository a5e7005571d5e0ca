"""Fingerprints of every example's frames, to see that a change of the code leaves the results as they are, to the byte.

    python -m benchmarks.golden write before.json            # all examples at quick size, with 1, 2 and 3 threads
    python -m benchmarks.golden compare before.json          # the same runs again; names the first frame that differs

The fingerprints belong to one machine, since compilers make other instructions for other processors: write them with the
old code and compare with the new code on the same machine. `--device cuda` runs on a GPU, `--frames 30` only the first frames
of each example, and names of examples limit the runs to these.
"""

import argparse
import hashlib
import json
import sys
import time
from importlib import import_module
from pathlib import Path

import weft

ROOT = Path(__file__).parents[1]
PREFIXES = ("robust", "guarded", "untangle", "predictive", "boxes", "push", "finish")


def example_names() -> list[str]:
    """All examples that have a scene, by method."""
    return [path.stem for prefix in PREFIXES for path in sorted((ROOT / "examples").glob(f"{prefix}_*.py"))]


def fingerprints(scene: "weft.Scene", device: str, frames: int | None) -> list[str]:
    """A hash of positions and velocities for each frame of a run, frame 0 included."""
    from weft.run.simulation import compile_scene

    world, method = compile_scene(scene.replace(device=device))
    state = world.initial_state()
    method.begin(state)
    count = scene.frames if frames is None else min(frames, scene.frames)
    found = []
    for frame in range(count + 1):
        if frame:
            method.advance_frame(state)
        digest = hashlib.sha256(state.positions().tobytes() + state.velocities().tobytes())
        found.append(digest.hexdigest()[:16])
    return found


def run_all(names: list[str], device: str, threads: list[int], frames: int | None) -> dict[str, list[str]]:
    """Fingerprints of the examples, keyed by 'name, device, threads'."""
    from weft.runtime import set_threads

    sys.path.insert(0, str(ROOT / "examples"))
    found = {}
    for name in names:
        try:
            scene = import_module(name).scene()
        except (weft.WeftError, ImportError) as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        for count in threads if device == "cpu" else [0]:
            if count:
                set_threads(count)
            began = time.perf_counter()
            key = f"{name}, {device}" + (f", {count} threads" if count else "")
            found[key] = fingerprints(scene, device, frames)
            print(f"{key}: {len(found[key])} frames, {time.perf_counter() - began:.1f} s", flush=True)
    return found


def compare(known: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """A sentence for each run whose frames are not those of before."""
    differences = []
    for key, frames in found.items():
        if key not in known:
            differences.append(f"{key}: there is nothing to compare with")
            continue
        other = next((k for k, (a, b) in enumerate(zip(known[key], frames, strict=False)) if a != b), None)
        if other is not None:
            differences.append(f"{key}: frame {other} is the first that differs")
    return differences


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="examples; otherwise all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--frames", type=int)
    options = parser.parse_intermixed_args()
    found = run_all(options.names or example_names(), options.device, options.threads, options.frames)
    if options.action == "write":
        options.file.write_text(json.dumps(found, indent=1))
        return
    differences = compare(json.loads(options.file.read_text()), found)
    for difference in differences:
        print(difference)
    if differences:
        raise SystemExit(1)
    print(f"the same bytes in all {len(found)} runs")


if __name__ == "__main__":
    run()
