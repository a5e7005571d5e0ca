"""Checks of a `Simulation`: arrays of its caller have the right shape and are finite, and so is what it computes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import Unstable, WeftError
from weft.mesh.convert import on_host
from weft.scene.messages import shown, unknown

Floats = npt.NDArray[np.float64]

# strain of an edge beyond which a frame is not ok: rubber tears before, so pins, seams or a collider pull too far
LONGEST_STRETCH = 10.0
# limit of positions (m) and velocities (m/s), beyond which a simulation counts as unstable; NaN fails the test too
FARTHEST = 1e9
# the longest step of a clock that somebody means, s
LONGEST_STEP = 3600.0


def check_stable(world: Any, state: Any) -> None:
    """Raise an error that names the first vertex whose position or velocity is not finite or far too large."""
    for what, values in (("position", state.x.numpy()), ("velocity", state.v.numpy())):
        bad = np.flatnonzero(~(np.abs(values) < FARTHEST).all(axis=1))
        if not len(bad):
            continue
        vertex = int(bad[0])
        body = next(b for b in world.bodies if b.vertices.start <= vertex < b.vertices.stop)
        more = f" ({len(bad)} vertices in all)" if len(bad) > 1 else ""
        raise Unstable(
            f"frame {state.frame}: the {what} of vertex {vertex - body.vertices.start} of {body.kind} "
            f"{body.name!r} is ({', '.join(f'{v:.3g}' for v in values[vertex])}){more}: the simulation is unstable"
        )


class EdgeStrains:
    """The strains of the edges of all cloths of a world, at positions of all its vertices."""

    def __init__(self, world: Any) -> None:
        cloths = world.cloths
        self._edges = np.concatenate([np.zeros((0, 2), np.int32), *(c.first + c.mesh.edges for c in cloths)])
        self._rest = np.concatenate([np.zeros(0), *(c.mesh.rest_lengths for c in cloths)])

    def quantile(self, positions: Floats, fraction: float) -> float:
        """The strain below which that fraction of the edges is, at least 0; with 1 the largest."""
        if not len(self._edges):
            return 0.0
        lengths = np.linalg.norm(positions[self._edges[:, 1]] - positions[self._edges[:, 0]], axis=1)
        return max(0.0, float(np.quantile(lengths / self._rest, fraction)) - 1.0)


def frame_status(row: Mapping[str, Any], new: int | None = None) -> str:
    """The status of a frame by its columns: what the method says, and what no method may keep to itself.

    new: how many intersections were not in the frame before; None: nobody looked at that one.
    """
    stretch = (
        f"an edge is {1.0 + row['stretch']:.3g} times as long as at rest" if row["stretch"] > LONGEST_STRETCH else ""
    )
    statuses = row["status"], stretch, _crossing_status(row["intersections"], new, row)
    return "; ".join(text for text in statuses if text and text != "ok") or "ok"


def _crossing_status(count: int, new: int | None, columns: Mapping[str, Any]) -> str:
    """The status of a frame with intersections.

    Where the method's columns tell new crossings from those of a tangle that changes, they are believed instead.
    """
    if count <= 0:
        return ""
    edges = "1 edge passes through a triangle" if count == 1 else f"{count:,} edges pass through triangles"
    if "newly_crossing" in columns:
        causes = f"{columns['released']:,} released, {columns['opened']:,} opened while parting"
        return f"{edges}, {causes}, {columns['newly_crossing']:,} newly crossing"
    return edges if new is None else f"{edges}, {new:,} of them new since the frame before"


def check_count(what: str, count: Any, at_least: str) -> int:
    """A whole number of at least one; `at_least` ends the sentence about another one."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise WeftError(f"{what} at least {at_least}, not {shown(count)}")
    return int(count)


def vertex_numbers(of: str, vertices: npt.ArrayLike, count: int, *, twice: bool = False) -> npt.NDArray[np.int64]:
    """Which of the `count` vertices of what `of` names are meant: their numbers, or a truth value for each of them."""
    chosen = np.atleast_1d(np.asarray(vertices))
    if chosen.dtype == bool and chosen.shape == (count,):
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or not len(chosen) or not np.issubdtype(chosen.dtype, np.integer):
        form = f"vertices of {of} are numbers, such as [0, 20], or {count} truth values"
        raise WeftError(f"{form}, not {'empty' if chosen.size == 0 else shown(vertices)}")
    outside = chosen[(chosen < 0) | (chosen >= count)]
    if len(outside):
        raise WeftError(f"{of} has no vertex {outside[0]}: its {count} vertices are 0 to {count - 1}")
    if not twice and len(np.unique(chosen)) < len(chosen):
        raise WeftError(f"a vertex of {of} is named twice")
    return chosen.astype(np.int64)


def to_array(what: str, value: Any) -> Floats:
    """Numbers of any kind, as numpy, torch, JAX, CuPy and Warp have them, on the host."""
    try:
        return np.asarray(on_host(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise WeftError(f"{what} must be numbers, not {shown(value)}") from None


def fill(what: str, target: Any, value: Any) -> None:
    """Copy finite numbers of the same shape into an array of the simulation, numpy or Warp."""
    shape = (*target.shape, 3) if isinstance(target, wp.array) else target.shape
    found = to_array(what, value)
    if found.shape != shape:
        raise WeftError(f"{what} are an array {shape}, not {found.shape}")
    if not np.isfinite(found).all():
        raise WeftError(f"{what} are not finite, first in row {int(np.argwhere(~np.isfinite(found))[0][0])}")
    if isinstance(target, wp.array):
        target.assign(found)
    else:
        target[...] = found


def check_time(dt: Any) -> None:
    """How long a step of somebody's clock is, s."""
    if not isinstance(dt, int | float | np.number) or not 0.0 <= dt < np.inf:
        raise WeftError(f"a step goes forward in time: dt must be 0 (a pause) or more, not {shown(dt)}")
    if dt > LONGEST_STEP:
        raise WeftError(f"a step of {dt:.3g} s would take minutes: dt is in seconds, {LONGEST_STEP:.0f} at most")


def check_callback(function: Any) -> Any:
    """What is to be called after a step or a frame, if it can be called."""
    if not callable(function):
        raise WeftError(f"a callback is a function of the simulation, not {shown(function)}")
    return function


class ByName(dict[str, Any]):
    """Bodies by name; the error about an unknown name says which there are."""

    def __missing__(self, name: Any) -> Any:
        raise NoSuchBody(unknown("body", str(name), list(self)))


class NoSuchBody(WeftError, KeyError):
    """A name that no body has; a KeyError too, as that of any other table."""

    def __str__(self) -> str:
        return str(self.args[0])
