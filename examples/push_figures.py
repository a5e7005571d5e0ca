"""What goes wrong with simple collisions, and what goes well: figures 1, 2, 8 and 9 of Draping on meshes.

    python examples/push_figures.py --figure 1

1: with too large a time step the ears of the rabbit pass through the cloth. 2: rough cloth on a rough ball: no vertex is in
the ball, and the edges of both make a pattern. 8: an explosion, which steps that are halved prevent. 9: a small cloth
whose upper corners come together curls and lies against itself.
"""

import argparse
from pathlib import Path

import numpy as np
from common import CheckError, expect
from measures import Measures
from push_drapes import depth

import weft
from weft.bench.push import CLOSE, MATERIAL, bunny, sphere
from weft.check import check_cache
from weft.scene import Push

FOLDER = Path("out") / "push_figures"
FIGURES = ("1", "2", "8", "9")
# steps a frame: so few that vertices of falling cloth pass an ear, and that springs are unstable
TOO_FEW, UNSTABLE = 14, 8
# how near the upper corners of the small cloth come, and its size, m
NEAR, SMALL = 0.12, 0.4
CELLS = 10
# m below the highest point of the rabbit: the ears
EARS = 0.3


def scene(figure: str = "9", *, careful: bool = False) -> weft.Scene:
    """The scene of a figure, one second or less; `careful`: what goes wrong in it is prevented."""
    made = {"1": protruding_ears, "2": rough_ball, "8": explosion, "9": curling}[figure](careful)
    return made.replace(name=f"figure {figure}")


def protruding_ears(careful: bool) -> weft.Scene:
    """Cloth over the rabbit."""
    steps = {} if careful else {"steps": TOO_FEW, "halvings": 0}
    return bunny(FOLDER, **steps).replace(frames=60)


def rough_ball(careful: bool) -> weft.Scene:
    """Cloth of 200 triangles over a ball of 120; or over one of 1,840, twice as far off."""
    rough = sphere(FOLDER, close=CLOSE if careful else 0.5 * CLOSE)
    segments, rings = (40, 24) if careful else (10, 6)
    shape = weft.Sphere(radius=0.3, triangles="uv", segments=segments, rings=rings)
    return rough.replace(frames=60, colliders=[rough.colliders[0].replace(shape=shape)])


def explosion(careful: bool) -> weft.Scene:
    """Cloth over a ball, in steps that its springs do not bear."""
    return sphere(FOLDER, steps=UNSTABLE, halvings=8 if careful else 0).replace(frames=30 if careful else 10)


def curling(careful: bool) -> weft.Scene:
    """A small cloth that hangs from two corners, which come together in 0.8 s."""
    way = 0.5 * (SMALL - NEAR)

    def corner(vertex: int, along: float) -> weft.Pin:
        start = weft.Keyframe(time=0.0, position=(0.0, 0.0, 0.0))
        end = weft.Keyframe(time=0.8, position=(along, 0.0, 0.0))
        return weft.Pin(indices=[vertex], motion=weft.Path(keyframes=[start, end]))

    cloth = weft.Cloth(
        name="cloth",
        shape=weft.Grid(size=(SMALL, SMALL), cells=(CELLS, CELLS)),
        material=MATERIAL,
        pins=[corner(0, way), corner(CELLS, -way)],
    )
    return weft.Scene(
        frames=60,
        fps=60,
        method=Push(close=0.015, against="cloth"),
        forces=weft.Forces(air_damping=2.0),
        cloths=[cloth],
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """Whether the run looks as the figure that its scene is named after."""
    checks = {"1": check_ears, "2": check_pattern, "8": check_explosion, "9": check_curl}
    return checks[cache.scene.name.removeprefix("figure ")](cache)


def bare_ears(cache: weft.Cache) -> tuple[int, int]:
    """Vertices of the ears that no cloth is above, and all vertices of the ears."""
    cloth, body = cache.bodies
    x = cache.positions(cache.frames - 1)
    ears = x[body.vertices]
    ears = ears[ears[:, 1] > ears[:, 1].max() - EARS]
    a, b, c = (x[cache.faces[cloth.faces]][None, :, k] for k in range(3))
    p = ears[:, None]
    # seen from above: weights of the corners of each triangle, and its height there
    area = cross_above(b - a, c - a)
    area = np.where(area == 0.0, np.inf, area)
    weights = [cross_above(c - b, p - b) / area, cross_above(a - c, p - c) / area, cross_above(b - a, p - a) / area]
    height = sum(w * corner[..., 1] for w, corner in zip(weights, (a, b, c), strict=True))
    above = (np.minimum.reduce(weights) >= 0.0) & (height > p[..., 1])
    return int((~above.any(axis=1)).sum()), len(ears)


def cross_above(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The cross product of vectors seen from above."""
    return np.asarray(u[..., 0] * v[..., 2] - u[..., 2] * v[..., 0])


def check_ears(cache: weft.Cache) -> dict[str, object]:
    bare, ears = bare_ears(cache)
    expect(f"only {bare} of {ears} vertices of the ears are bare", bare > 0.4 * ears)
    return {"vertices of the ears above the cloth": f"{bare} of {ears}"}


def check_pattern(cache: weft.Cache) -> dict[str, object]:
    last = cache.frames - 1
    deepest = depth(cache, last)
    expect(f"a vertex is {1e3 * deepest:.1f} mm inside", deepest < 1e-3)
    crossing = check_cache(cache, frames=[last]).frames[0].intersections
    expect(f"only {crossing} edges cross", crossing >= 10)
    return {"edges that cross at the end": crossing, "deepest vertex, mm": f"{1e3 * deepest:.2f}"}


def check_explosion(cache: weft.Cache) -> dict[str, object]:
    size = float(np.ptp(cache.positions(cache.frames - 1)[cache.bodies[0].vertices], axis=0).max())
    expect(f"the cloth is {size:.2f} m large, as before", size > 10.0)
    told = [status for status in cache.report["status"] if status != "ok"]
    expect("no frame says that vertices move too far", bool(told))
    return {"size of a cloth of 1 m, m": f"{size:.3g}", "frames that say so": len(told)}


def check_curl(cache: weft.Cache) -> dict[str, object]:
    last = cache.frames - 1
    x = cache.positions(last).reshape(CELLS + 1, CELLS + 1, 3)
    corners = float(np.linalg.norm(x[0, 0] - x[0, -1]))
    expect(f"the upper corners are {corners:.3f} m apart", abs(corners - NEAR) < 0.01)
    width = float(np.ptp(x[-1, :, 0]))
    expect(f"the lower edge is {width:.2f} m wide: nothing curls", width < 0.8 * SMALL)
    stretch = float(cache.report["stretch"][-1])
    expect(f"edges are stretched by {100 * stretch:.0f} %", stretch < 0.3)
    crossing = Measures(cache).intersections
    speed = float(np.linalg.norm(cache.velocities(last), axis=1).mean())
    return {
        "vertices nearer than close": int(cache.report["too_close"][-1]),
        "intersections in all frames": crossing,
        "mean speed at the end, m/s": f"{speed:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", choices=FIGURES, default="9")
    figure = parser.parse_args().figure
    cache = weft.simulate(scene(figure), FOLDER / f"figure_{figure}.zarr", overwrite=True)
    try:
        found = check(cache)
    except CheckError as error:
        raise SystemExit(f"push_figures {figure}: {error}") from None
    for label, value in found.items():
        print(f"{label:38}  {value}")


if __name__ == "__main__":
    main()
