"""A dress of fourteen sewn panels on a dancing body that passes through itself (data of the Codim-IPC project).

The body is eight shells that overlap, animated without any repair: a hand sinks into the ribs, arms into the torso, thighs
into each other. What they pinch goes with both of them, what they would tear slips through, and the dress, gathered and
pleated into its seams, never passes through itself. The data is not part of weft: `dress.npz` and `rumba_body.npz` are looked
for in `shared/data` beside the checkout, or in the folder that the environment variable WEFT_DATA names.
"""

import os
from pathlib import Path as FilePath

import numpy as np
from common import expect, run
from scipy.spatial import cKDTree

import weft
from weft.geometry.intersection import intersections, sewn_pairs
from weft.methods.untangle.method import Untangle as Method
from weft.scene import Untangle
from weft.world import World

FRAMES, FPS = 120, 25.0
# the body stands still from here on
STILL = 106
# an edge may be stretched so far, but for those within so many rings of a vertex that is pinched, or was a moment ago
LARGEST_STRETCH = 0.25
PINCH_RINGS, PINCH_FRAMES = 5, 5
# what hangs on the upper body in the first frame is nearer to it than this for ever, m
BODICE, NEAR = 1.1, 0.15


def data(name: str) -> str:
    """The path of a file of the data."""
    beside = FilePath(__file__).resolve().parents[2] / "shared" / "data"
    path = FilePath(os.environ.get("WEFT_DATA", beside)) / name
    if not path.exists():
        raise weft.WeftError(
            f"{name} is not in {path.parent}; it is no part of weft, WEFT_DATA may name another folder"
        )
    return str(path)


def scene(size: str = "quick") -> weft.Scene:
    """The whole dance, or its beginning; the panels have their flat patterns as rest shape."""
    quick = size == "quick"
    dress = data("dress.npz")
    return weft.Scene(
        name="dress",
        fps=FPS,
        frames=4 if quick else FRAMES,
        thickness=0.001,
        method=Untangle(steps=4),
        cloths=[
            weft.Cloth(
                name="dress",
                mesh=dress,
                array="draped",
                rest="uv",
                material=weft.Material(preset="cotton", shear=250.0),
                colour="#b5485d",
            )
        ],
        seams=[weft.Seam(cloth="dress", file=dress)],
        colliders=[
            # a lining slips on skin
            weft.Collider(name="body", motion=weft.Sequence(file=data("rumba_body.npz"), fps=FPS), friction=0.0)
        ],
    )


class Tailor:
    """Measures the dress of a cache."""

    def __init__(self, cache: weft.Cache) -> None:
        self.cache = cache
        self.world = World(cache.scene)
        self.method = Method(self.world, Untangle())
        self.state = self.world.initial_state()
        self.mesh = self.world.cloths[0].mesh
        self.ignored = sewn_pairs(self.mesh.faces, self.world.seams.vertices)
        self.dress, self.body = cache.bodies[0].vertices, cache.bodies[1].vertices

    def crossings(self, frame: int) -> int:
        """Intersections of the dress with itself, pairs sewn together left out."""
        return len(intersections(self.cache.positions(frame)[self.dress], self.mesh.faces, ignore=self.ignored))

    def stretches(self, frame: int) -> np.ndarray:
        """How far each edge is stretched."""
        way = self.cache.positions(frame)[self.dress][self.mesh.edges]
        stretch: np.ndarray = np.linalg.norm(way[:, 1] - way[:, 0], axis=1) / self.mesh.rest_lengths - 1.0
        return stretch

    def pinched(self, frame: int) -> np.ndarray:
        """Which edges are in or beside what the body pinches in this frame."""
        self.state.x.assign(self.cache.positions(frame))
        self.state.v.assign(self.cache.velocities(frame))
        self.state.time = frame / FPS
        self.world.begin_step(self.state, 1.0 / FPS)
        self.method.hold_pinched(self.state)
        around = np.zeros(len(self.mesh.vertices), bool)
        around[self.method.pinched_vertices] = True
        for _ in range(PINCH_RINGS):
            around[self.mesh.edges[around[self.mesh.edges].any(axis=1)]] = True
        edges: np.ndarray = around[self.mesh.edges].any(axis=1)
        return edges

    def farthest(self, frame: int, vertices: np.ndarray) -> float:
        """How far the farthest of some vertices of the dress is from the body."""
        x = self.cache.positions(frame)
        return float(cKDTree(x[self.body]).query(x[self.dress][vertices])[0].max())

    def speeds(self, frame: int) -> np.ndarray:
        speed: np.ndarray = np.linalg.norm(self.cache.velocities(frame)[self.dress], axis=1)
        return speed


def check(cache: weft.Cache) -> dict[str, object]:
    """It stays on, nothing explodes, edges keep their lengths, and tangles are gone or fall where the body is still."""
    tailor, report = Tailor(cache), cache.report
    bodice = np.flatnonzero(cache.positions(0)[tailor.dress][:, 1] > BODICE)
    pinched: list[np.ndarray] = []
    crossings, over, largest, anywhere, fastest = [], 0, 0.0, 0.0, 0.0
    for frame in range(cache.frames):
        far = tailor.farthest(frame, bodice)
        expect(f"the bodice is {100 * far:.0f} cm from the body in frame {frame}", far < NEAR)
        speed = tailor.speeds(frame).max()
        expect(f"a vertex moves at {speed:.1f} m/s in frame {frame}", speed < 10.0)
        stretch = tailor.stretches(frame)
        pinched = [*pinched, tailor.pinched(frame)][-1 - PINCH_FRAMES :]
        outside = stretch[~np.logical_or.reduce(pinched)]
        crossings.append(tailor.crossings(frame))
        over += int((outside > LARGEST_STRETCH).sum())
        largest, anywhere = max(largest, outside.max()), max(anywhere, stretch.max())
        fastest = max(fastest, speed)
    expect(f"{over} edges outside pinches are stretched too far, up to {100 * largest:.0f} %", over == 0)
    found: dict[str, object] = {
        "frames": cache.frames,
        "seconds a frame": round(float(np.mean(report["wall_time"][1:])), 1),
        "most self-intersections": max(crossings),
        "most vertices pinched": int(np.nanmax(report["pinched"])),
        "largest stretch outside pinches": round(largest, 3),
        "largest stretch anywhere": round(anywhere, 3),
        "fastest vertex, m/s": round(fastest, 1),
    }
    if cache.frames > STILL + 1:
        left = crossings[STILL:]
        expect(f"self-intersections while the body is still: {left}", left[-1] == 0 or left[-1] < left[0])
        rest = float(np.sqrt((tailor.speeds(cache.frames - 1) ** 2).mean()))
        expect(f"the dress still moves at {rest:.2f} m/s", rest < 0.1)
        found["self-intersections while the body is still"] = f"{left[0]} to {left[-1]}, at most {max(left)}"
        found["speed at the end, m/s"] = round(rest, 3)
    return found


if __name__ == "__main__":
    run(__file__, scene, check)
