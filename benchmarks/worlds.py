"""Throughput of batches: a cloth of 20 x 20 cells that a gripper lifts, in 1 to 512 worlds.

Prints world-frames a second of processor time on one thread, and the time to set a world up. Usage: python benchmarks/worlds.py
"""

import time

import numpy as np

import weft

WORLDS = (1, 8, 64, 512)
# frames that are measured at least, over all worlds together, after the first two
FRAMES = 200


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


def measure(method: str, worlds: int) -> tuple[float, float]:
    """World-frames a second, and seconds to set up a world."""
    began = time.process_time()
    sims = weft.Simulation(scene(method), worlds=worlds)
    made = (time.process_time() - began) / worlds
    grip(sims, 0.0039, 0.0)
    sims.advance(2)
    frames = max(2, -(-FRAMES // worlds))
    began = time.process_time()
    for _ in range(frames):
        grip(sims, 0.0039, 0.002)
        sims.advance()
    assert np.isfinite(sims.positions).all()
    return worlds * frames / (time.process_time() - began), made


if __name__ == "__main__":
    print(
        "| worlds |",
        " | ".join(f"{method}, world-frames a second | set up, ms" for method in ("predictive", "robust")),
        "|",
    )
    measure("predictive", 1), measure("robust", 1)
    for worlds in WORLDS:
        found = [measure(method, worlds) for method in ("predictive", "robust")]
        print(f"| {worlds} |", " | ".join(f"{rate:,.0f} | {1e3 * made:.0f}" for rate, made in found), "|", flush=True)
