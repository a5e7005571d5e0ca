"""A cloth twisted between two edges that turn against each other (Bridson et al. 2002, figure 5).

The left and right edges are pinned and turn by half a turn a second each, for three seconds: three whole turns of twist.
"""

import numpy as np
from common import expect, run
from measures import Measures, check_free

import weft

VERTICES = {"quick": 41, "full": 100}
RATE_DEG, STOP = 180.0, 3.0


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of cotton, its left edge turning one way about the x axis and its right edge the other way."""
    cells = VERTICES[size] - 1

    def turn(rate: float) -> weft.Spin:
        return weft.Spin(axis=(1.0, 0.0, 0.0), rate_deg=rate, stop=STOP, centre=(0.0, 0.0, 0.0))

    return weft.Scene(
        name="twist",
        frames=180,
        method="robust",
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
                material="cotton",
                pins=[
                    weft.Pin(boundary="left", motion=turn(RATE_DEG)),
                    weft.Pin(boundary="right", motion=turn(-RATE_DEG)),
                ],
            )
        ],
        camera=weft.Camera(position=(0.5, 0.7, 2.1), target=(0.0, -0.05, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections, and stretch that geometry asks for and no more.

    The corners of a pinned edge 1 m wide lie 0.5 m off the axis, and at the end the cloth between them is a rope of a
    few centimetres: a thread along the edge of the sheet cannot be shorter than two cones' sides of that slope.
    """
    measures = Measures(cache)
    found = check_free(measures)
    x = cache.positions(cache.frames - 1)[measures.cloth]
    middle = np.abs(x[:, 0]) < 0.1
    radius = float(np.hypot(x[middle, 1], x[middle, 2]).max())
    expect(f"the rope is {radius:.3f} m thick in the middle", radius < 0.2)
    threads = _threads(measures, cache.frames - 1)
    found["radius of the rope in the middle, m"] = f"{radius:.3f}"
    found["mean strain of the threads along x"] = f"{threads.min():+.3f} .. {threads.max():+.3f}"
    return found


def _threads(measures: Measures, frame: int) -> np.ndarray:
    """Mean strain of each thread from the left to the right edge."""
    cells = measures.cache.scene.cloths[0].shape.cells
    x = measures.cache.positions(frame)[measures.cloth].reshape(cells[1] + 1, cells[0] + 1, 3)
    return np.linalg.norm(np.diff(x, axis=1), axis=2).sum(axis=1) - 1.0


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()
