"""Throughput of batches: a cloth of 20 x 20 cells that a gripper lifts, in 1 to 256 worlds.

Prints world-frames a second (of processor time on the CPU), and the time to set a world up.

`python -m benchmarks.worlds`; `--device cuda` on a GPU; numbers of worlds other than the usual ones can be named.
"""

import sys
import time

import numpy as np
import warp as wp

import weft

WORLDS = {"cpu": (1, 16, 64, 256), "cuda": (1, 16, 64, 256, 1024)}
# worlds that are stepped one after another are not measured beyond so many on a GPU
MOST_ALONE = 64
# frames that are measured after the first two, in which the boxes close
FRAMES = 8


def scene(method: str) -> weft.Scene:
    """A sheet that hangs upright between two boxes at its upper edge."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(20, 20)),
        placement=weft.Placement(rotation_deg=(90, 0, 0)),
        material=weft.Material(friction=0.5, friction_kinetic=0.5),
    )
    boxes = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.12, 0.05, 0.02)),
            analytic=method == "predictive",
            friction=0.5,
            friction_kinetic=0.5,
            placement=weft.Placement(position=(0.0, 0.07, side * 0.0125)),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    return weft.Scene(fps=60, method=method, thickness=0.002, cloths=[sheet], colliders=boxes)


def grip(sims: weft.Simulation, gap: float, rise: float) -> None:
    """Close the boxes to a gap and raise them."""
    for name, side in (("front", 1.0), ("back", -1.0)):
        pose = sims.bodies[name].pose
        pose[:, 2, 3] = side * (0.01 + 0.5 * gap)
        pose[:, 1, 3] += rise
        sims.bodies[name].pose = pose


def measure(method: str, worlds: int, device: str, *, together: bool = True) -> tuple[float, float]:
    """World-frames a second, and seconds to set up a world and its first frames; each world alone, or all together."""
    if device != "cpu" and worlds > MOST_ALONE and (method == "predictive" or not together):
        return np.nan, np.nan

    def now() -> float:
        wp.synchronize()
        return time.process_time() if device == "cpu" else time.perf_counter()

    began = now()
    sims = weft.Simulation(scene(method), worlds=worlds, device=device)
    movers = [sims] if together else sims.worlds

    def advance(frames: int) -> None:
        for mover in movers:
            mover.advance(frames)

    grip(sims, 0.0039, 0.0)
    advance(2)
    made = (now() - began) / worlds
    began = now()
    for _ in range(FRAMES):
        grip(sims, 0.0039, 0.002)
        advance(1)
    taken = now() - began
    assert all(np.isfinite(one.state.positions()).all() for one in sims.worlds)
    return worlds * FRAMES / taken, made


def main() -> None:
    device = "cuda" if "cuda" in sys.argv else "cpu"
    columns = {
        "`guarded`": ("guarded", True),
        "`guarded`, each alone": ("guarded", False),
        "`predictive`": ("predictive", True),
    }
    for method, together in columns.values():
        measure(method, 2, device, together=together)
    print("| worlds |", " | ".join(columns), "| set up and two frames |")
    print("| --- |", " | ".join("---" for _ in columns), "| --- |")
    for worlds in [int(word) for word in sys.argv if word.isdigit()] or WORLDS[device]:
        found = [measure(method, worlds, device, together=together) for method, together in columns.values()]
        rates = " | ".join("" if np.isnan(rate) else f"{rate:,.0f}" for rate, _ in found)
        print(f"| {worlds} | {rates} | {1e3 * found[0][1]:.0f} ms |", flush=True)


if __name__ == "__main__":
    main()
