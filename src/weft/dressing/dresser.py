"""`weft.dress`: from patterns and a body to a dressed body: sew, drape, settle, check, and a scene to go on with."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import Cache
from weft.dressing.attachment import check_labels, follow_body, held_vertices
from weft.dressing.bodies import DressBody, check_body, check_girth, read_body
from weft.dressing.fit import Fit, measure_fit
from weft.dressing.sewing import FPS, Progress, SewnGarment, joined, open_seams, sew_garments, stitch_gaps
from weft.dressing.tension import check_tension, tightened
from weft.errors import WeftError, writing
from weft.garment import CutGarment, Pattern, cut_pattern, load_pattern
from weft.garment.files import save_garment
from weft.geometry.intersection import IntersectionFinder
from weft.mesh import TriMesh
from weft.run import simulate
from weft.scene import Cloth, Collider, Forces, Material, Pin, Scene, Seam, save_scene
from weft.scene.creases import fold_creases
from weft.scene.motion import Sequence as SequenceMotion
from weft.untangling import untangle

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# m: layers keep so far apart by default; finer cloth would need finer triangles
THICKNESS = 0.002
# a seam that is farther open than this at the end of the drape is not closed: in m, and as a fraction of the length of edges,
# since coarse cloth that is tight is pulled open between its stitches
OPEN, OPEN_OF_EDGE = 0.005, 0.25
# m: a garment all of whose panels ended this far below where the pattern has them has slid off; the hem of a wide skirt and a
# hood sink as far, but not all panels
SLID = 0.15
# s: how long gravity acts before the garment counts as settled
SETTLE = 1.0
# 1/s: a little air, so that it comes to rest
AIR = 1.0
# coefficient of friction of the body: skin and underwear hold a garment in its place
BODY_FRICTION = 0.5
# rounds of untangling at most for what the drape leaves: a few edges beside a seam need two or three
PARTING_ROUNDS = 60
# s in which a body changes into another one, or goes from the pose of the drape to the first one of an animation
BLEND = 1.0
# frames of the scene to go on with, where no animation says how long it is: two seconds
STILL_FRAMES = 120


@dataclass(frozen=True)
class Crossings:
    """How many edges of the welded garments pass through triangles."""

    cloth: int
    """through a garment: their own or another"""
    body: int
    """of a garment through the body, or of the body through a garment"""

    @property
    def free(self) -> bool:
        """Whether there is none."""
        return self.cloth == self.body == 0


@dataclass(frozen=True)
class Dressed:
    """A dressed body."""

    garments: tuple[CutGarment, ...]
    """the panels of each garment as they are on the body, the innermost garment first"""
    body: TriMesh
    crossings: Crossings
    fits: tuple[Fit, ...]
    cache: Cache
    """the frames of the drape"""
    scene: Path
    """a scene file that starts with the dressed body"""
    remarks: tuple[str, ...]
    """what did not go as it should"""

    @property
    def ok(self) -> bool:
        """Whether all seams are closed and nothing crosses."""
        return self.crossings.free and not self.remarks


@dataclass(frozen=True)
class _Settings:
    """What all scenes of one dressing have in common, and where their files are."""

    out: Path
    """the cache of the drape"""
    material: Material
    thickness: float
    method: str
    attach: Sequence[str]
    """labels of the edges that stay on the body"""

    @property
    def folder(self) -> Path:
        """The folder of the meshes."""
        return self.out.with_suffix("")

    def relative(self, path: Path) -> str:
        """A file as the scenes name it, from the folder that they are in."""
        return Path(os.path.relpath(path, self.out.parent)).as_posix()


def dress(
    patterns: str | Path | Pattern | Sequence[str | Path | Pattern],
    body: str | Path | TriMesh,
    out: str | Path,
    *,
    edge: float = 0.01,
    material: Material | str = "cotton",
    thickness: float = THICKNESS,
    settle: float = SETTLE,
    onto: str | Path | TriMesh | None = None,
    motion: str | Path | None = None,
    fps: float | None = None,
    blend: float = BLEND,
    attach: Sequence[str] = (),
    tension: Mapping[str, float] | None = None,
    method: str = "guarded",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Dressed:
    """Sew garments on a body, let them settle, check them, and write a scene to go on with.

    patterns: sewing patterns, or their files; several are worn over each other, the innermost first.
    body: a closed mesh in metres, or its file; of an animated one the first frame.
    out: the cache of the drape, `dressed.zarr`. Beside it appear `dressed.toml`, a scene that starts with the dressed body,
        and the folder `dressed` with its meshes.
    edge: length of the edges of triangles, m. material: of all garments. thickness: what layers keep apart, m.
    settle: how long gravity acts, s.
    onto: another body that wears the garments in the end; one with the same triangles is reached by a change of shape.
    motion: an animated body (npz, GLB, USD, or a folder) with the same triangles, which the scene goes on with; `fps` are
        its samples a second where its file has none. blend: from the pose of the drape to its first one, s.
    attach: labels of edges, such as "lower_interface" for a waistband, that stay where they are on the body.
    tension: by the label of edges, how many times as long as cut these are at rest: 0.9 for a waistband with elastic.
    method: what simulates: guarded, or robust.
    """
    out = Path(out)
    _check_out(out, overwrite)
    if attach and onto is not None:
        raise WeftError("what is attached to a body does not change to another one: leave out attach or onto")
    read = _read_patterns(patterns)
    tension = tension or {}
    check_labels(read, [*attach, *tension])
    check_tension(tension)
    who = read_body(body, motion=motion, fps=fps)
    other = None if onto is None else read_body(onto)
    material = Material(preset=material) if isinstance(material, str) else material  # type: ignore[arg-type]
    settings = _Settings(out, material, thickness, method, attach)
    check_body(who, read)
    cuts = [tightened(cut_pattern(pattern, edge), tension) for pattern in read]
    for cut in cuts:
        check_girth(who.mesh, cut)
    sewn_body = who.mesh if other is None or other.same_triangles(who) else other.mesh
    how: dict[str, Any] = {"material": material, "thickness": thickness, "method": method, "progress": progress}
    sewn = sew_garments(cuts, sewn_body, edge, tension, **how)
    worn_by = who if other is None else other
    with writing(settings.folder):
        settings.folder.mkdir(parents=True, exist_ok=True)
    scene = _drape_scene(sewn, sewn_body, worn_by, settle, settings)

    def show(frame: int, _: Any) -> None:
        if progress is not None:
            progress("settling", frame, scene.frames)

    cache = simulate(scene, out, overwrite=overwrite, progress=False, on_frame=show)
    ends = cache.positions(cache.frames - 1)
    draped = [ends[own.vertices] for _, own in zip(sewn, cache.bodies, strict=False)]
    garments = [joined(garment.cut, end) for garment, end in zip(sewn, draped, strict=True)]
    garments, crossings = part_cloth(garments, worn_by.mesh)
    fits = tuple(measure_fit(garment, worn_by.mesh, material, thickness) for garment in garments)
    goes_on = _write_scene(garments, worn_by, blend, settings)
    remarks = _remarks(cuts, sewn, draped, cache, fits, open_limit(edge))
    return Dressed(tuple(garments), worn_by.mesh, crossings, fits, cache, goes_on, remarks)


def count_crossings(garments: Sequence[CutGarment], body: TriMesh) -> Crossings:
    """The exact intersections of the garments, welded along their seams, and of the body with them."""
    vertices, faces, starts = _concatenated([*_welded(garments), (body.vertices, body.faces)])
    found = IntersectionFinder(faces).find(vertices)
    of_body_edge, of_body_face = found[:, 0] >= starts[-2], faces[found[:, 2], 0] >= starts[-2]
    return Crossings(int((~of_body_edge & ~of_body_face).sum()), int((of_body_edge != of_body_face).sum()))


def open_limit(edge: float) -> float:
    """m: how far a seam may be open at the end of the drape, for triangles of this edge length."""
    return max(OPEN, OPEN_OF_EDGE * edge)


def part_cloth(garments: Sequence[CutGarment], body: TriMesh) -> tuple[list[CutGarment], Crossings]:
    """Take apart what is left of crossings between cloth and cloth; kept only where fewer edges cross in all."""
    before = count_crossings(garments, body)
    if not before.cloth:
        return list(garments), before
    vertices, faces, starts = _concatenated(_welded(garments))
    sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    if np.unique(sides, axis=0, return_counts=True)[1].max() > 2:
        # pleats in a waistband: `untangle` wants surfaces
        return list(garments), before
    moved = untangle(vertices, faces, max_rounds=PARTING_ROUNDS).vertices
    parted = [
        replace(garment, vertices=moved[start + garment.welded_vertex])
        for garment, start in zip(garments, starts, strict=False)
    ]
    after = count_crossings(parted, body)
    return (parted, after) if after.cloth + after.body < before.cloth + before.body else (list(garments), before)


def _welded(garments: Sequence[CutGarment]) -> list[tuple[Floats, Ints]]:
    """Vertices and triangles of each garment, welded along its seams."""
    return [(garment.welded_mean(garment.vertices), garment.welded_faces) for garment in garments]


def _concatenated(meshes: Sequence[tuple[Floats, Ints]]) -> tuple[Floats, Ints, NDArray[np.int64]]:
    """The vertices and triangles of several meshes as one, and the first vertex of each, with the number of all at the end."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    faces = np.concatenate([own + start for (_, own), start in zip(meshes, starts, strict=False)]).astype(np.int32)
    return np.concatenate([vertices for vertices, _ in meshes]), faces, starts


def _check_out(out: Path, overwrite: bool) -> None:
    if out.suffix != ".zarr":
        raise WeftError(f"{out}: the dressed body is a cache, whose name ends in .zarr")
    for path in (out, out.with_suffix(".toml")):
        if path.exists() and not overwrite:
            raise WeftError(f"{path} exists already: choose another name, or replace it with --overwrite")


def _read_patterns(patterns: Any) -> list[Pattern]:
    """The patterns, with names of their own."""
    given = [patterns] if isinstance(patterns, str | Path | Pattern) else list(patterns)
    if not given:
        raise WeftError("there is no pattern to dress the body with")
    read = [pattern if isinstance(pattern, Pattern) else load_pattern(pattern) for pattern in given]
    names: list[str] = []
    for pattern in read:
        name = pattern.name
        while name in names or name == "body":
            name += "_"
        names.append(name)
    return [replace(pattern, name=name) for pattern, name in zip(read, names, strict=True)]


def _drape_scene(
    sewn: Sequence[SewnGarment], body: TriMesh, worn_by: DressBody, settle: float, settings: _Settings
) -> Scene:
    """Gravity acts on the sewn garments; where another body is to wear them, this one changes into it first."""
    folder = settings.folder
    for garment in sewn:
        save_garment(garment.cut, folder / f"{garment.cut.pattern.name}_sewn.npz")
    changes = body is not worn_by.mesh and not np.array_equal(body.vertices, worn_by.mesh.vertices)
    if changes:
        np.savez(folder / "change.npz", vertices=np.stack([body.vertices, worn_by.mesh.vertices]), faces=body.faces)
        motion = SequenceMotion(file=settings.relative(folder / "change.npz"), fps=1.0 / BLEND)
        solid = Collider(name="body", motion=motion, friction=BODY_FRICTION)
    else:
        solid = Collider(name="body", mesh=_body_file(worn_by, settings), friction=BODY_FRICTION)
    cuts = [garment.cut for garment in sewn]
    files = [settings.relative(folder / f"{cut.pattern.name}_sewn.npz") for cut in cuts]
    frames = max(1, round((settle + (BLEND if changes else 0.0)) * FPS))
    pins = [_pins(held_vertices(garment.cut, settings.attach)) for garment in sewn]
    # the end is what is dressed: counting crossings in all frames takes a tenth of the time
    return _scene(cuts, files, pins, solid, frames, FPS, settings).replace(check=frames)


def _scene(
    garments: Sequence[CutGarment],
    files: Sequence[str],
    pins: Sequence[tuple[Pin, ...]],
    solid: Collider,
    frames: int,
    fps: float,
    settings: _Settings,
) -> Scene:
    """Garments, with their mesh files and pins, on a body; every garment is held together by its seams."""
    names = [garment.pattern.name for garment in garments]
    folds = [fold_creases(garment.folds) for garment in garments]
    return Scene(
        name=settings.out.stem,
        fps=fps,
        frames=frames,
        thickness=settings.thickness,
        method=settings.method,  # type: ignore[arg-type]
        forces=Forces(air_damping=AIR),
        cloths=tuple(
            Cloth(name=name, mesh=file, rest="uv", material=settings.material, pins=held, creases=creases)
            for name, file, held, creases in zip(names, files, pins, folds, strict=True)
        ),
        colliders=(solid,),
        seams=tuple(Seam(cloth=name, file=file, kind="weld") for name, file in zip(names, files, strict=True)),
    ).at(settings.out.parent)


def _write_scene(garments: Sequence[CutGarment], worn_by: DressBody, blend: float, settings: _Settings) -> Path:
    """Write the meshes of the dressed body and a scene that starts with them, on the animated body where there is one."""
    folder = settings.folder
    for garment in garments:
        save_garment(garment, folder / f"{garment.pattern.name}.npz")
        save_garment(garment, folder / f"{garment.pattern.name}.obj", welded=True)
    files = [settings.relative(folder / f"{garment.pattern.name}.npz") for garment in garments]
    if worn_by.frames is None:
        solid = Collider(name="body", mesh=_body_file(worn_by, settings), friction=BODY_FRICTION)
        frames, fps = STILL_FRAMES, FPS
        pins = [_pins(held_vertices(garment, settings.attach)) for garment in garments]
    else:
        fps = worn_by.fps
        moving = worn_by.blended(blend)
        np.savez(folder / "motion.npz", vertices=moving.astype(np.float32), faces=worn_by.mesh.faces)
        motion = SequenceMotion(file=settings.relative(folder / "motion.npz"), fps=fps)
        solid = Collider(name="body", motion=motion, friction=BODY_FRICTION)
        frames = len(moving) - 1
        pins = [_moving_pins(garment, worn_by.mesh, moving, fps, settings) for garment in garments]
    path = settings.out.with_suffix(".toml")
    save_scene(_scene(garments, files, pins, solid, frames, fps, settings), path)
    return path


def _pins(vertices: tuple[int, ...], motion: SequenceMotion | None = None) -> tuple[Pin, ...]:
    if not vertices:
        return ()
    return (Pin(indices=vertices) if motion is None else Pin(indices=vertices, motion=motion),)


def _moving_pins(
    garment: CutGarment, body: TriMesh, moving: Floats, fps: float, settings: _Settings
) -> tuple[Pin, ...]:
    """Pins of attached vertices that follow the frames of the body; the file of a pin has the positions of the whole cloth."""
    held = held_vertices(garment, settings.attach)
    if not held:
        return ()
    whole = np.repeat(garment.vertices[None].astype(np.float32), len(moving), axis=0)
    whole[:, list(held)] = follow_body(garment.vertices[list(held)], body, moving)
    path = settings.folder / f"{garment.pattern.name}_attached.npz"
    np.savez(path, vertices=whole)
    return _pins(held, SequenceMotion(file=settings.relative(path), fps=fps))


def _body_file(body: DressBody, settings: _Settings) -> str:
    """The file of a body in a scene: its own, or one that is written for it."""
    if body.path is not None and body.frames is None:
        return settings.relative(body.path)
    path = settings.folder / "body.npz"
    np.savez(path, vertices=body.mesh.vertices, faces=body.mesh.faces)
    return settings.relative(path)


def _slid(cut: CutGarment, end: Floats) -> float:
    """How far the panel that sank the least is below where the pattern has it, m."""
    sunk = np.bincount(cut.vertex_panel, cut.vertices[:, 1] - end[:, 1]) / np.bincount(cut.vertex_panel)
    return float(sunk.min())


def _remarks(
    cuts: Sequence[CutGarment],
    sewn: Sequence[SewnGarment],
    draped: Sequence[Floats],
    cache: Cache,
    fits: Sequence[Fit],
    limit: float,
) -> tuple[str, ...]:
    """A sentence about each thing that went wrong: seams open by more than a limit, stretch, what slid off."""
    found: list[str] = []
    for cut, garment, end, fit in zip(cuts, sewn, draped, fits, strict=True):
        pattern = cut.pattern
        slid = _slid(cut, end)
        if slid > SLID:
            found.append(
                f"{pattern.name} slid down by {100 * slid:.0f} cm from where the pattern has it: nothing on this body holds "
                "it; make it narrower, or attach an edge"
            )
        for number, gap in garment.open_seams or open_seams(garment.cut, stitch_gaps(garment.cut, end), limit):
            seam = pattern.seams[number]
            found.append(f"{pattern.name}: the seam of {seam.one} and {seam.other} stayed open by {1000 * gap:.0f} mm")
        if fit.too_small:
            found.append(f"{pattern.name} is far too small for the body: {fit.tightest}")
    last = list(cache.report.rows())[-1]
    if last["status"] != "ok":
        found.append(f"the last frame: {last['status']}")
    return tuple(found)
