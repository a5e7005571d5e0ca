"""The loop of a simulation: compiles a scene, computes frame after frame, and writes each before the next begins."""

import gc
import re
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weft import __version__
from weft.cache import Body, Cache, CacheWriter, open_cache
from weft.cache.writer import Checkpoint
from weft.errors import CacheError, Unstable, WeftError
from weft.run.interrupt import Interrupted, StopAtFrame
from weft.run.origin import differences, origin_of
from weft.run.progress import Bar, FrameWatch, Progress, summarise

if TYPE_CHECKING:
    from weft.run.simulation import Simulation
    from weft.scene import Scene


OnFrame = Callable[[int, Mapping[str, Any]], object]

# name of the saved velocities from which the next frame continues, where the frame itself stores others
CONTINUED_VELOCITIES = "velocities"

# frames after which a method has allocated and compiled all that it needs
WARM_FRAMES = 3


def simulate(
    scene: "Scene | str | Path",
    out: str | Path | None = None,
    *,
    method: Any = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    frames: int | None = None,
    on_frame: OnFrame | None = None,
    prepare: "Callable[[Simulation], object] | None" = None,
    force: bool = False,
) -> Cache:
    """Simulate a scene and keep its frames in the cache `out`.

    Frame 0 is the initial state, so a scene of 120 frames makes a cache of 121. Every frame is written before
    the next one begins: a run that is stopped, in whatever way, can be continued and gives the same bytes.

    scene: a Scene or the path of a scene file. method, device, frames: replace those of the scene.
    out: by default the scene's file name, or the name of a Scene, with .zarr, in the current folder.
    resume: continue `out` where it stopped (or start it); it must come from the same scene, with more frames or not.
    overwrite: replace a cache that is at `out`.
    progress: show a bar, and a summary at the end.
    on_frame: called with the number and the report row of each frame that has been completed.
    prepare: called with the `Simulation` before its first frame: adds forces and callbacks, holds vertices, steers bodies. The
        cache does not keep what it does, so that such a run cannot be resumed.
    force: compute also what does not fit the memory of the machine, and frames that take hours.
    """
    file = Path(scene).stem if isinstance(scene, (str, Path)) else None
    scene = _with_changes(scene, method=method, device=device, frames=frames)
    out = Path(out if out is not None else f"{file or Path(scene.name).name}.zarr")
    started = time.perf_counter()
    show = Bar(scene.name) if progress else Progress()
    # importing these starts Warp
    from weft.runtime.compiling import listening
    from weft.scene.size import check_memory

    with show, listening(show.compiling):
        try:
            if not force and (size := check_memory(scene)):
                show.say(size)
            run = SceneRun(scene, FrameWatch(scene.fps, say=show.say, force=force))
        except (MemoryError, RuntimeError) as error:
            if not _is_about_memory(error):
                raise
            raise _out_of_memory(error, scene, 0, out) from error
        if prepare is not None:
            if resume:
                raise CacheError("a run with prepare cannot be resumed: the cache does not keep what prepare does")
            prepare(run.simulation)
        with _open(run, out, resume=resume, overwrite=overwrite) as writer:
            computed = _go(run, writer, show, on_frame)
    if run.damaged:
        raise CacheError(
            f"{out} is complete, but {_damaged_words(run.damaged)} damaged: to compute only those again:  "
            f"{shlex.join(['weft', 'check', str(out), '--repair'])}"
        )
    cache = open_cache(out)
    if progress:
        print("\n".join(summarise(cache, computed=computed, seconds=time.perf_counter() - started)))
    return cache


def _go(run: "SceneRun", writer: CacheWriter, show: Progress, on_frame: OnFrame | None) -> int:
    """Compute all frames that the cache lacks; returns how many."""
    with StopAtFrame(say=isinstance(show, Bar)) as stop, FrozenGarbage() as garbage:
        try:
            first = _start(run, writer, show)
            while writer.frames < writer.cache.planned:
                try:
                    row = run.next_frame(writer)
                except (MemoryError, RuntimeError) as error:
                    if not _is_about_memory(error):
                        raise
                    raise _out_of_memory(error, run.scene, writer.frames, writer.path) from error
                garbage.frame_done()
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


def _touching_start(moved: int) -> str:
    """The message about cloth that was placed exactly on something."""
    those = "1 vertex of cloth touches" if moved == 1 else f"{moved:,} vertices of cloth touch"
    return f"{those} something at the start, and went off it by a thousandth of a millimetre"


def _tangled_start(intersections: int) -> str:
    """The message about a scene that has intersections before anything moves."""
    found = "1 intersection" if intersections == 1 else f"{intersections:,} intersections"
    return f"the scene starts with {found}: robust and boxes keep cloth free that starts free, guarded takes it apart"


def _start(run: "SceneRun", writer: CacheWriter, show: Progress) -> int:
    """Restore the last complete frame, if there is one; returns how many frames there are."""
    checkpoint, problems = writer.checkpoint()
    for problem in problems:
        show.say(f"{problem}; frames from there on are computed again")
    if checkpoint is not None:
        run.restore(checkpoint)
        begun = writer.cache.meta["version"]
        if begun != __version__ and not writer.cache.complete:
            show.say(f"this cache was begun by weft {begun}; weft {__version__} may continue it a little differently")
    # the frames of a resumed run; those that this run writes are not read again
    run.damaged = writer.cache.damaged()
    if run.damaged and writer.frames < writer.cache.planned:
        show.say(f"{_damaged_words(run.damaged)} damaged; the run continues after frame {writer.frames - 1}")
    show.begin(writer.frames, writer.cache.planned)
    return writer.frames


def _damaged_words(frames: list[int]) -> str:
    """The numbers of some frames, and the verb after them."""
    shown = ", ".join(map(str, frames[:8])) + (f" and {len(frames) - 8} more" if len(frames) > 8 else "")
    return f"frame {shown} is" if len(frames) == 1 else f"frames {shown} are"


class ComputedFrame(NamedTuple):
    """What a cache keeps of a frame."""

    positions: npt.NDArray[np.float64]
    velocities: npt.NDArray[np.float64]
    row: dict[str, Any]
    saved: dict[str, npt.NDArray[Any]]
    noted: dict[str, npt.NDArray[Any]]


class SceneRun:
    """A compiled scene and the current state of its simulation."""

    def __init__(self, scene: "Scene", watch: FrameWatch | None = None) -> None:
        self.scene = scene
        from weft.run.checks import EdgeStrains
        from weft.run.simulation import Simulation, compile_scene

        self.simulation = Simulation.compiled(scene, *compile_scene(scene))
        self.world, self.method = self.simulation.world, self.simulation.method
        self._watch = watch or FrameWatch(scene.fps, say=lambda _: None, force=True)
        self.state, self.moved = self.simulation.state, self.simulation.moved
        self.world.on_step = self._watch.on_step
        self.bodies = [Body(b.name, b.kind, b.vertices, b.faces) for b in self.world.bodies]
        self.faces: npt.NDArray[np.int32] = np.asarray(self.world.faces, dtype=np.int32)
        self.origin = origin_of(scene, self.state.positions(), self.faces)
        self.damaged: list[int] = []
        """earlier frames of a resumed cache that cannot be read"""
        self._strains = EdgeStrains(self.world)
        # the intersections of the last checked frame, encoded as one number each; None before the first
        self._known: npt.NDArray[np.int64] | None = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set the state and the method to those after a complete frame."""
        try:
            self._restore(checkpoint)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            what = f"what it keeps of frame {checkpoint.frame} does not fit the method"
            raise CacheError(f"the cache cannot be continued: {what} ({error})") from error

    def _restore(self, checkpoint: Checkpoint) -> None:
        saved = dict(checkpoint.saved)
        velocities = saved.pop(CONTINUED_VELOCITIES, checkpoint.velocities)
        time, frame = checkpoint.row["time"], checkpoint.frame
        self.simulation.set_state(checkpoint.positions, velocities, time=time, frame=frame)
        self.method.restore(saved)
        if self.scene.check:
            self._intersections()

    def next_frame(self, writer: CacheWriter) -> dict[str, Any]:
        """Compute the frame that the cache lacks, write it, and return its report row."""
        computed = self.compute(writer.frames, writer.path)
        writer.append(*computed)
        return computed.row

    def compute(self, frame: int, out: Path) -> "ComputedFrame":
        """Compute the frame after the current state; `out` is the cache to name in messages."""
        began = time.perf_counter()
        self._watch.begin(frame)
        columns = self._advance(frame, out) if frame else self._columns_at_start()
        wall_time = time.perf_counter() - began
        if frame:
            self._watch.end()
        positions, velocities = self.state.positions(), self.state.velocities()
        saved, shown = self.method.saved(), self.method.velocities(self.state)
        if not np.array_equal(shown, velocities):
            saved[CONTINUED_VELOCITIES] = velocities
        row = {
            "frame": frame,
            "time": self.state.time,
            "wall_time": wall_time,
            **{name: value for name, value in columns.items() if name not in ("frame", "time", "status")},
            # a single pinched edge does not speak for the cloth
            "stretch_99": self._strains.quantile(positions, 0.99),
            "intersections": -1,
        }
        new = None
        if self.scene.check and frame % self.scene.check == 0:
            row["intersections"], new = self._intersections()
            if row["intersections"]:
                row.update(self.method.columns_after_check(self.state))
        from weft.run.checks import frame_status

        row["status"] = frame_status({**row, "status": columns["status"]}, new)
        return ComputedFrame(positions, shown, row, saved, self.method.noted(self.state))

    def _advance(self, frame: int, out: Path) -> dict[str, Any]:
        """The next frame; gives its columns of the report."""
        try:
            self.simulation.advance()
        except Unstable as error:
            raise WeftError(f"{error.args[0]}; frames 0 to {frame - 1} are kept in {out}. {error.ADVICE}") from None
        return dict(self.simulation.counts)

    def _columns_at_start(self) -> dict[str, Any]:
        """The method's report columns for the initial state, in which only the stretch can differ from zero."""
        from weft.methods.base import worst_stretch
        from weft.run.checks import check_stable

        check_stable(self.simulation.world, self.simulation.state)
        stretch = worst_stretch(self.world, self.state)
        counts = {"steps": 0, "contacts": 0, "collisions": 0, "zones": 0, "stretch": stretch, "status": "ok"}
        return {**counts, **self.method.state_columns(self.state)}

    def _intersections(self) -> tuple[int, int | None]:
        """The number of edges that pass through triangles, at least one of the two of cloth, and how many of them are new.

        This is independent of the method: a frame that ends with intersections is never "ok", whatever caused them.
        """
        found = self.simulation.guard.find(self.state.x).astype(np.int64)
        count = self.world.vertex_count
        keys = (found[:, 0] * count + found[:, 1]) * len(self.faces) + found[:, 2]
        new = None if self._known is None else len(np.setdiff1d(keys, self._known, assume_unique=True))
        self._known = keys
        return len(keys), new


class FrozenGarbage:
    """Keeps Python's garbage collector from scanning long-lived objects during the loop over frames.

    A program that has loaded Warp and compiled a scene has hundreds of thousands of objects that stay. On a GPU, where
    Python must keep up with kernels of microseconds, scanning them again and again was measured to cost up to 2 ms of a
    frame of 14 ms. So after `WARM_FRAMES` frames all objects are frozen (excluded from collection) until the loop ends. Objects
    that somebody else has frozen are not touched.
    """

    def __init__(self) -> None:
        self._done = 0
        self._frozen = False

    def __enter__(self) -> Self:
        return self

    def frame_done(self) -> None:
        """Count a completed frame, and freeze after `WARM_FRAMES` of them."""
        self._done += 1
        if self._done == WARM_FRAMES and gc.isenabled() and gc.get_freeze_count() == 0:
            gc.collect()
            gc.freeze()
            self._frozen = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frozen:
            gc.unfreeze()


def _is_about_memory(error: Exception) -> bool:
    """Whether memory ran out, which Warp reports as a RuntimeError."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in ("allocate", "out of memory"))


def _out_of_memory(error: Exception, scene: "Scene", frame: int, out: Path) -> WeftError:
    """The error for memory that ran out."""
    kept = f"frames 0 to {frame - 1} are kept in {out}" if frame else "there is no frame to keep"
    size = re.search(r"allocate (\d+) bytes", str(error))
    asked = f" for {int(size[1]) / 1e9:.2g} GB more" if size else ""
    return WeftError(
        f"frame {frame}: the memory of device {scene.device!r} is too small{asked}; {kept}. "
        "A coarser mesh or fewer layers need less"
    )


def rest_uv(world: Any) -> npt.NDArray[np.float64] | None:
    """The flat rest shapes of all cloths, NaN for vertices that have none; None if no cloth has one."""
    if all(cloth.mesh.uv is None for cloth in world.cloths):
        return None
    uv = np.full((world.vertex_count, 2), np.nan)
    for cloth in world.cloths:
        if cloth.mesh.uv is not None:
            uv[cloth.first : cloth.first + len(cloth.mesh.uv)] = cloth.mesh.uv
    return uv


def _with_changes(scene: "Scene | str | Path", **changes: Any) -> "Scene":
    """The scene, loaded if it is a path, with the given settings replaced."""
    from weft.scene import load_scene
    from weft.scene.scene import check_scene

    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    check_scene(found)
    return found.replace(**given) if (given := {k: v for k, v in changes.items() if v is not None}) else found


def _open(run: SceneRun, out: Path, *, resume: bool, overwrite: bool) -> CacheWriter:
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
            details=[mesh.details for mesh in [*(c.mesh for c in run.world.cloths), *run.world.collider_meshes]],
            overwrite=overwrite,
        )
    found = differences(open_cache(out).origin, run.origin)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise CacheError(
            f"{out} comes from another scene and cannot be continued with this one: {'; '.join(found[:3])}{more}. "
            "Choose another output, or replace it with --overwrite (overwrite=True in Python)"
        )
    return CacheWriter.resume(out, frames=planned, scene=run.scene)
