"""The loop: a scene in, frames out, one after the other, each of them kept before the next begins."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft import __version__
from weft.cache import Body, Cache, CacheWriter, open_cache
from weft.cache.writer import Checkpoint
from weft.errors import CacheError, WeftError
from weft.run.garbage import Settled
from weft.run.interrupt import Interrupted, StopAtFrame
from weft.run.origin import differences, origin_of
from weft.run.progress import Bar, Progress, summarise

if TYPE_CHECKING:
    from weft.scene import Scene

OnFrame = Callable[[int, Mapping[str, Any]], object]

# no cloth gets so far or so fast, in metres and metres a second; NaN is not below it either
_FARTHEST = 1e9
# the saved velocities from which the next frame goes on, where those of the frame are others
GOES_ON = "velocities"


def simulate(
    scene: "Scene | str | Path",
    out: str | Path,
    *,
    method: Any = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    frames: int | None = None,
    on_frame: OnFrame | None = None,
) -> Cache:
    """Simulate a scene and keep its frames in the cache `out`.

    Frame 0 is the initial state, so a scene of 120 frames makes a cache of 121. Every frame is written before
    the next one begins: a run that is stopped, in whatever way, can be continued and gives the same bytes.

    scene: a Scene or the path of a scene file. method, device, frames: instead of what the scene says.
    resume: continue `out` where it stopped (or start it); it must come from the same scene, with more frames or not.
    overwrite: replace a cache that is at `out`.
    progress: show a bar, and a summary at the end.
    on_frame: called with the number and the report row of each frame that has been completed.
    """
    scene = _settled(scene, method=method, device=device, frames=frames)
    out = Path(out)
    started = time.perf_counter()
    show = Bar(scene.name) if progress else Progress()
    with show:
        try:
            run = _Run(scene)
        except (MemoryError, RuntimeError) as error:
            if not _is_about_memory(error):
                raise
            raise _out_of_memory(error, scene, 0, out) from error
        with _open(run, out, resume=resume, overwrite=overwrite) as writer:
            computed = _go(run, writer, show, on_frame)
    cache = open_cache(out)
    if progress:
        print("\n".join(summarise(cache, computed=computed, seconds=time.perf_counter() - started)))
    return cache


def _go(run: "_Run", writer: CacheWriter, show: Progress, on_frame: OnFrame | None) -> int:
    """Compute all frames that the cache lacks; gives how many."""
    with StopAtFrame(say=isinstance(show, Bar)) as stop, Settled() as settled:
        try:
            first = _start(run, writer, show)
            while writer.frames < writer.cache.planned:
                try:
                    row = run.next_frame(writer)
                except (MemoryError, RuntimeError) as error:
                    if not _is_about_memory(error):
                        raise
                    raise _out_of_memory(error, run.scene, writer.frames, writer.path) from error
                settled.frame_done()
                show.advance(row)
                if row["frame"] == 0 and run.moved:
                    show.say(_touching_start(run.moved))
                if row["frame"] == 0 and row["intersections"] > 0:
                    show.say(_tangled_start(row["intersections"]))
                if on_frame is not None:
                    on_frame(row["frame"], row)
                if stop.asked and writer.frames < writer.cache.planned:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted(writer.path, writer.frames, writer.cache.planned) from None
        return writer.frames - first


def _crossing_status(count: int, new: int | None) -> str:
    """What the status of a frame says about its intersections, so many of them new, if there is a frame before."""
    if not count:
        return ""
    edges = "1 edge passes through a triangle" if count == 1 else f"{count:,} edges pass through triangles"
    return edges if new is None else f"{edges}, {new:,} of them new since the frame before"


def _joined_status(*told: str) -> str:
    """One status of several."""
    return "; ".join(text for text in told if text and text != "ok") or "ok"


def _touching_start(moved: int) -> str:
    """What to tell of cloth that was placed exactly on something."""
    those = "1 vertex of cloth touches" if moved == 1 else f"{moved:,} vertices of cloth touch"
    return f"{those} something at the start, and went off it by a thousandth of a millimetre"


def _tangled_start(intersections: int) -> str:
    """What to tell of a scene that has intersections before anything moves."""
    found = "1 intersection" if intersections == 1 else f"{intersections:,} intersections"
    return f"the scene starts with {found}: robust and boxes keep cloth free that starts free, untangle takes it apart"


def _start(run: "_Run", writer: CacheWriter, show: Progress) -> int:
    """Go to the last complete frame, if there is one; gives how many there are."""
    checkpoint, problems = writer.checkpoint()
    for problem in problems:
        show.say(f"{problem}; frames from there on are computed again")
    if checkpoint is not None:
        run.restore(checkpoint)
        begun = writer.cache.meta["version"]
        if begun != __version__ and not writer.cache.complete:
            show.say(f"this cache was begun by weft {begun}; weft {__version__} may continue it a little differently")
    show.begin(writer.frames, writer.cache.planned)
    return writer.frames


class _Run:
    """A scene, compiled, and where its simulation stands."""

    def __init__(self, scene: "Scene") -> None:
        self.scene = scene
        self.world, self.method = compile_scene(scene)
        self.state = self.world.initial_state()
        self.moved = self.method.begin(self.state)
        self.bodies = [Body(b.name, b.kind, b.vertices, b.faces) for b in self.world.bodies]
        self.faces: npt.NDArray[np.int32] = np.asarray(self.world.faces, dtype=np.int32)
        self.origin = origin_of(scene, self.state.positions(), self.faces)
        self._finder: Any = None
        # intersections of the last frame that was looked at, as one number each; None where no frame was
        self._known: npt.NDArray[np.int64] | None = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to where a frame was complete."""
        saved = dict(checkpoint.saved)
        self.state = type(self.state).from_numpy(
            checkpoint.positions,
            saved.pop(GOES_ON, checkpoint.velocities),
            time=checkpoint.row["time"],
            frame=checkpoint.frame,
            device=self.scene.device,
        )
        self.method.restore(saved)
        if self.scene.check:
            self._intersections(np.asarray(checkpoint.positions))

    def next_frame(self, writer: CacheWriter) -> dict[str, Any]:
        """Compute the frame that the cache lacks, write it, and return its report row."""
        frame = writer.frames
        began = time.perf_counter()
        columns = dict(self.method.advance_frame(self.state)) if frame else self._columns_at_start()
        wall_time = time.perf_counter() - began
        positions, velocities = self.state.positions(), self.state.velocities()
        self._check_finite(frame, writer.path, positions, velocities)
        saved, shown = self.method.saved(), self.method.velocities(self.state)
        if not np.array_equal(shown, velocities):
            saved[GOES_ON] = velocities
        status = columns.pop("status")
        row = {
            "frame": frame,
            "time": self.state.time,
            "wall_time": wall_time,
            **columns,
            "intersections": -1,
            "status": status,
        }
        if self.scene.check and frame % self.scene.check == 0:
            row["intersections"], crossing = self._intersections(positions)
            row["status"] = _joined_status(status, crossing)
        writer.append(positions, shown, row, saved)
        return row

    def _columns_at_start(self) -> dict[str, Any]:
        """The method's columns for the initial state: nothing has happened yet, but the cloth may be stretched."""
        from weft.methods.base import worst_stretch

        stretch = worst_stretch(self.world, self.state)
        return {"steps": 0, "contacts": 0, "collisions": 0, "zones": 0, "stretch": stretch, "status": "ok"}

    def _intersections(self, positions: npt.NDArray[np.float64]) -> tuple[int, str]:
        """How many edges pass through triangles, cloth being one of the two, and a sentence about them if any do.

        The method has no part in this: a frame that ends with intersections is never "ok", whatever made them.
        """
        if self._finder is None:
            from weft.geometry.intersection import intersection_finder

            self._finder = intersection_finder(self.world)
        found = self._finder.find(positions).astype(np.int64)
        count = len(positions)
        keys = (found[:, 0] * count + found[:, 1]) * len(self.faces) + found[:, 2]
        new = None if self._known is None else len(np.setdiff1d(keys, self._known, assume_unique=True))
        self._known = keys
        return len(keys), _crossing_status(len(keys), new)

    def _check_finite(
        self, frame: int, out: Path, positions: npt.NDArray[np.float64], velocities: npt.NDArray[np.float64]
    ) -> None:
        """Stop where numbers have run away: what follows is not worth its time, and is no cloth."""
        for what, values in (("position", positions), ("velocity", velocities)):
            bad = np.flatnonzero(~(np.abs(values) < _FARTHEST).all(axis=1))
            if not len(bad):
                continue
            vertex = int(bad[0])
            body = next(b for b in self.bodies if b.vertices.start <= vertex < b.vertices.stop)
            more = f" ({len(bad)} vertices in all)" if len(bad) > 1 else ""
            kept = f"frames 0 to {frame - 1} are kept in {out}" if frame else "there is no frame to keep"
            raise WeftError(
                f"frame {frame}: the {what} of vertex {vertex - body.vertices.start} of {body.kind} {body.name!r} is "
                f"({', '.join(f'{v:.3g}' for v in values[vertex])}){more}: the simulation is unstable; {kept}. "
                "Smaller steps, less stiffness or more damping help"
            )


def _is_about_memory(error: Exception) -> bool:
    """Whether memory ran out, which Warp reports as a RuntimeError."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in ("allocate", "out of memory"))


def _out_of_memory(error: Exception, scene: "Scene", frame: int, out: Path) -> WeftError:
    """What to tell where memory ran out."""
    kept = f"frames 0 to {frame - 1} are kept in {out}" if frame else "there is no frame to keep"
    size = re.search(r"allocate (\d+) bytes", str(error))
    asked = f" for {int(size[1]) / 1e9:.2g} GB more" if size else ""
    return WeftError(
        f"frame {frame}: the memory of device {scene.device!r} is too small{asked}; {kept}. "
        "A coarser mesh or fewer layers need less"
    )


def compile_scene(scene: "Scene") -> tuple[Any, Any]:
    """The world of a scene and the method that moves it."""
    from weft.methods import make_method
    from weft.world import World

    world = World(scene, scene.device)
    return world, make_method(world, scene.method)


def rest_uv(world: Any) -> npt.NDArray[np.float64] | None:
    """The flat rest shapes of all cloths, NaN for vertices that have none; None if no cloth has one."""
    if all(part.mesh.uv is None for part in world.cloths):
        return None
    uv = np.full((world.vertex_count, 2), np.nan)
    for part in world.cloths:
        if part.mesh.uv is not None:
            uv[part.first : part.first + len(part.mesh.uv)] = part.mesh.uv
    return uv


def _settled(scene: "Scene | str | Path", **changes: Any) -> "Scene":
    """The scene with what the call says instead."""
    from weft.scene import load_scene

    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    return found.replace(**given) if (given := {k: v for k, v in changes.items() if v is not None}) else found


def _open(run: _Run, out: Path, *, resume: bool, overwrite: bool) -> CacheWriter:
    """The cache to write to: a new one, or the one that is there if it comes from the same scene."""
    planned = run.scene.frames + 1
    if resume and overwrite:
        raise CacheError("resume continues a cache and overwrite replaces it: choose one of them")
    if not resume or not out.exists():
        return CacheWriter.create(
            out,
            frames=planned,
            faces=run.faces,
            bodies=run.bodies,
            fps=run.scene.fps,
            uv=rest_uv(run.world),
            scene=run.scene,
            origin=run.origin,
            overwrite=overwrite,
        )
    found = differences(open_cache(out).origin, run.origin)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise CacheError(
            f"{out} comes from another scene and cannot be continued with this one: {'; '.join(found[:3])}{more}. "
            "Choose another output, or overwrite it"
        )
    return CacheWriter.resume(out, frames=planned, scene=run.scene)
