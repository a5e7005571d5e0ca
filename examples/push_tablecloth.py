"""A tablecloth whose corners fall against one another (Draping on meshes, table 6, figure 7)."""

from pathlib import Path

import numpy as np
from common import expect, run
from measures import Measures

import weft
from weft.bench.push import CLOSE, tablecloth


def scene(size: str = "quick") -> weft.Scene:
    """Cloth held where a table would be, pushed by cloth only; two seconds, or half of that."""
    return tablecloth(Path("out")).replace(frames=60 if size == "quick" else 120)


def check(cache: weft.Cache) -> dict[str, object]:
    """The pins hold, the sides hang, vertices keep off triangles; how often edges pass through edges is counted."""
    count = 15
    x = cache.positions(cache.frames - 1).reshape(count, count, 3)
    held = np.abs(cache.positions(0)[:, [0, 2]]).max(axis=1).reshape(count, count) < 0.41
    expect("a pinned vertex moved", np.abs(x - cache.positions(0).reshape(count, count, 3))[held].max() < 1e-9)
    expect("the sides do not hang", x[0, count // 2, 1] < 0.25 and x[count // 2, 0, 1] < 0.25)
    # slow moves leave some on their way out of the folds
    close = int(cache.report["too_close"][-1])
    expect(f"{close} vertices are too close to a triangle", close <= 0.25 * count * count)
    speed = float(np.linalg.norm(cache.velocities(cache.frames - 1), axis=1).mean())
    expect(f"the cloth still moves at {speed:.2f} m/s", speed < 0.4)
    return {
        "vertices nearer than close": f"{close} of {count * count} ({1e3 * CLOSE:.0f} mm)",
        "mean speed at the end, m/s": f"{speed:.3f}",
        "intersections in all frames": Measures(cache).intersections,
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()
