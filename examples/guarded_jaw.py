"""Two plates close on a hanging sheet until they overlap by 5 cm, wait, and open again.

No motion keeps the cloth free of both plates. It is held between them, released only where they overlap, stays guarded
everywhere else, and is free as soon as they let it go.
"""

import numpy as np
from common import expect, run

import weft

CELLS = {"quick": 24, "full": 120}
OVERLAP = 0.05
# when the plates are closed, begin to open, and no longer overlap
CLOSED, OPENING, APART = 0.5, 0.7, 0.76
LARGEST_STRETCH = 0.25


def scene(size: str = "quick") -> weft.Scene:
    """A sheet of 0.6 m, pinned at its upper edge, between two boxes."""
    way = 0.1 + 0.5 * OVERLAP
    plates = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.3, 0.2, 0.1)),
            placement=weft.Placement(position=(0.0, -0.1, 0.15 * side)),
            motion=weft.Path(
                keyframes=[
                    weft.Keyframe(time=0.0),
                    weft.Keyframe(time=CLOSED, position=(0.0, 0.0, -side * way)),
                    weft.Keyframe(time=OPENING, position=(0.0, 0.0, -side * way)),
                    weft.Keyframe(time=1.0),
                ]
            ),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.6, 0.6), cells=(CELLS[size], CELLS[size])),
        placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
        pins=[weft.Pin(boundary="top")],
    )
    return weft.Scene(name="jaw", frames=90, method="guarded", cloths=[sheet], colliders=plates)


def check(cache: weft.Cache) -> dict[str, object]:
    """Something is released while the plates overlap, nothing crosses before or half a second after, nothing is new."""
    report = cache.report
    crossing = np.flatnonzero(report["intersections"] > 0)
    expect("nothing was released", report["released"].max() > 0)
    expect("something crosses that nobody forced", not report["newly_crossing"].any())
    last = crossing.max() / cache.fps
    expect(f"the sheet still crosses the plates at {last:.2f} s", last < APART + 0.5)
    stretch = float(report["stretch"].max())
    expect(f"an edge is stretched by {100 * stretch:.0f} %", stretch < LARGEST_STRETCH)
    return {
        "frames": cache.frames,
        "first and last frame with crossings": f"{crossing.min()}, {crossing.max()}",
        "most released": int(report["released"].max()),
        "newly crossing": int(report["newly_crossing"].sum()),
        "largest stretch": f"{stretch:.3f}",
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()
