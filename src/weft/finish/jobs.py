"""One frame of a cache as a job: read it, finish it, count what intersects, tell what happened."""

import hashlib
import json
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.cache import Cache, open_cache
from weft.cache.seams import sewn_triangles
from weft.finish.finisher import Finished, Finisher

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is done with every frame; the same for all of them."""

    source: Path
    start: str
    """what the source begins with (see `start_of`): another run at the same place is another plan"""
    levels: int
    near: float
    check: bool
    compare: bool
    device: str


class Result(NamedTuple):
    """A finished frame and its row of the report."""

    positions: Floats
    velocities: Floats
    row: dict[str, Any]


def finish_frame(plan: Plan, frame: int) -> Result:
    """Finish one frame of the plan's source: what comes out depends on the plan and the frame alone.

    What all frames share is made once in each process, for the plan used last.
    """
    return _job(plan).run(frame)


class Job:
    """Finishes frames of one cache in one process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.cache = open_cache(plan.source)
        self.finisher = make_finisher(self.cache, plan)

    def run(self, frame: int) -> Result:
        """Finish one frame of the source."""
        began = time.perf_counter()
        source = self.cache.positions(frame)
        finished = self.finisher.finish(source, self.cache.velocities(frame))
        wall_time = time.perf_counter() - began
        row = {"time": frame / self.cache.fps, "wall_time": wall_time, **columns(finished)}
        problems = list(finished.problems)
        if self.plan.check:
            rows = self.finisher.intersections(finished.positions)
            row["intersections"] = len(rows)
            known = self.finisher.source_pairs(finished.kept, 0)
            fresh = len(self.finisher.source_pairs(rows) - known)
            if fresh:
                problems.append(f"{fresh} pairs of triangles intersect that did not before")
        if self.plan.compare:
            row["plain_intersections"] = len(self.finisher.intersections(self.finisher.plain(source)))
        row["status"] = "; ".join(problems) or "ok"
        assert finished.velocities is not None
        return Result(finished.positions, finished.velocities, row)


@lru_cache(maxsize=1)
def _job(plan: Plan) -> Job:
    return Job(plan)


def make_finisher(cache: Cache, plan: Plan) -> Finisher:
    """What finishes the frames of a cache."""
    return Finisher(
        cache.bodies,
        cache.faces,
        cache.positions(0),
        levels=plan.levels,
        sewn=sewn_triangles(cache),
        near=plan.near,
        device=plan.device,
    )


def start_of(cache: Cache) -> str:
    """A hash of the triangles and the first frame of a cache, and of what it was made from."""
    start = hashlib.sha256(cache.positions(0).tobytes())
    start.update(cache.faces.tobytes())
    start.update(json.dumps(cache.origin, sort_keys=True).encode())
    return start.hexdigest()


def columns(finished: Finished) -> dict[str, Any]:
    """What happened to a frame, for the report."""
    each = {f"stopped_{level}": count for level, count in enumerate(finished.stopped, start=1)}
    return {
        "stopped": sum(finished.stopped),
        **each,
        "rounds": finished.rounds,
        "pushed": finished.pushed,
        "held": finished.held,
        "source_intersections": finished.before,
        "intersections": -1,
    }
