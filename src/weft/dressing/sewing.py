"""Sewing a garment on a body: panels around a thin body, seams that close, and the body that grows to its true shape.

All of it is one scene without gravity and friction, simulated by a method that keeps everything apart: what has been sewn
is free of intersections wherever it started so. Its triangles are no finer than `SEWING_EDGE`: a finer garment is laid
into the triangles of the coarse one when that is sewn.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from weft.dressing.arrange import BAND_HEIGHT, Obstacle, arrange_panels, panel_groups
from weft.dressing.tension import tightened
from weft.dressing.thin_body import thin_body
from weft.errors import WeftError
from weft.garment import CutGarment, PatternError, cut_pattern
from weft.garment.files import save_garment
from weft.mesh import TriMesh
from weft.run.simulation import Simulation
from weft.scene import Cloth, Collider, Forces, Material, Scene, Seam
from weft.scene.creases import fold_creases
from weft.scene.motion import Sequence as SequenceMotion

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

FPS = 60.0
# s: seams close, then the body grows, each in this time; in half of it cloth is caught under arms, twice of it changes nothing
STAGE = 0.8
# s: where a part of a garment hangs from another, a skirt from a bodice, all other seams close in the first time; those that it
# hangs from follow from the second one on. If they closed together, a heavy skirt would pull straps off shoulders before these
# are closed. Sleeves do not wait: closed first, they were caught on the arm beside their armholes
GROUP_CLOSING, JOINING_FROM = 0.5, 0.3
# s: after that the cloth comes to rest a little
REST = 0.1
# m/s^2: gravity while the body grows; without it straps are lifted off the shoulders, with all of it seams under the arms
# are pulled down before there are shoulders that carry
GROWING_GRAVITY = 5.0
# 1/s^2 and 1/s: nothing holds a garment up on a thin body, and trousers that close slide down tapering legs. So a force on all
# of it acts as a spring that is damped critically: while seams close it keeps its waistband at its height, or its middle where
# it has none (the closed circle skirt has its middle 15 cm nearer to its waistband than the flat one); while the body grows
# its top, the UPPER part of its height, which gravity then lowers by 2.5 cm where the body does not carry it
SUPPORT, SUPPORT_DAMPING, UPPER = 200.0, 28.0, 0.15
# m/s^2: that force at most while seams close; then it is gravity at most, up or down: bodies push garments to their places
LARGEST_SUPPORT = 20.0
# coefficient of friction of the body meanwhile: enough that nothing slips off one shoulder, little enough to slide into place
FRICTION = 0.2
# 1/s: air that stops what is drawn together from swinging
AIR = 5.0
# m: a seam that is farther open than this when the body has grown was caught. Where cloth is tight seams are open by some
# millimetres then; they are put together, and in the drape they hold as welds
CAUGHT = 0.02

# m: garments are sewn with triangles of this length. Where panels go and which seams close does not depend on finer ones, which
# take four times as long for half the length; they get their wrinkles in the drape
SEWING_EDGE = 0.02
# s of processor time that sewing may take, and more for each triangle of the garment: ten times what is usual. A garment
# whose seams are pulled through each other, or around a body much too large for it, would take hours
LIMIT, LIMIT_TRIANGLE = 60.0, 0.05
# so many triangles, those with the nearest middles, are looked at for the one that a vertex of a finer garment is in
NEAREST = 12

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Layer:
    """Cloth that is on the body already, under what is sewn."""

    vertices: Floats
    faces: Ints


@dataclass(frozen=True)
class SewnGarment:
    """A garment on a body."""

    cut: CutGarment
    """its panels where they are on the body; vertices that are sewn together are at the same place"""
    open_seams: list[tuple[int, float]]
    """the seams that did not close, by their numbers in the pattern, and how far they were open, m, the worst first"""


def stitch_gaps(cut: CutGarment, vertices: Floats) -> Floats:
    """(k,) m: how far apart the vertices of each stitch are at these positions."""
    return np.linalg.norm(np.subtract(*vertices[cut.stitches].transpose(1, 0, 2)), axis=1)


def open_seams(cut: CutGarment, gaps: Floats, limit: float) -> list[tuple[int, float]]:
    """The seams with a stitch that is farther open than the limit, and how far, the worst first."""
    worst = np.zeros(len(cut.pattern.seams))
    own = cut.stitch_seam >= 0
    np.maximum.at(worst, cut.stitch_seam[own], gaps[own])
    return sorted(((int(i), float(worst[i])) for i in np.flatnonzero(worst > limit)), key=lambda pair: -pair[1])


def sew_garments(
    cuts: Sequence[CutGarment],
    body: TriMesh,
    edge: float,
    tension: Mapping[str, float],
    *,
    material: Material,
    thickness: float,
    method: str,
    progress: Progress | None,
) -> list[SewnGarment]:
    """Sew garment after garment, each over those before it; `edge` is the length of their edges, m."""
    sewn: list[SewnGarment] = []
    layers: list[Layer] = []
    for fine in cuts:
        cut = fine if edge >= SEWING_EDGE else _coarser(fine, tension)
        done = sew_garment(cut, body, layers, material=material, thickness=thickness, method=method, progress=progress)
        layers.append(Layer(done.cut.welded_mean(done.cut.vertices), done.cut.welded_faces))
        sewn.append(done if cut is fine else replace(done, cut=laid_into(cut, done.cut.vertices, fine)))
    return sewn


def _coarser(fine: CutGarment, tension: Mapping[str, float]) -> CutGarment:
    """The garment with the triangles that it is sewn with; the same one if its panels are too narrow for those."""
    try:
        cut = cut_pattern(fine.pattern, SEWING_EDGE)
        return tightened(cut, tension) if len(cut.welded_faces) else fine
    except PatternError:
        return fine


def laid_into(coarse: CutGarment, vertices: Floats, fine: CutGarment) -> CutGarment:
    """A garment with finer triangles, each vertex where its place in the panel is while the coarse one has these vertices."""
    placed = fine.vertices.copy()
    for number, panel in enumerate(fine.pattern.panels):
        own, axes = fine.vertex_panel == number, panel.rotation[:, :2]
        points, faces = fine.vertices[own] @ axes, coarse.faces[coarse.face_panel == number]
        corners = (coarse.vertices @ axes)[faces]
        _, near = cKDTree(corners.mean(axis=1)).query(points, k=min(NEAREST, len(faces)))
        near = near.reshape(len(points), -1)
        a, b, c = corners[near].transpose(2, 0, 1, 3)
        sides = np.stack([b - a, c - a], axis=-1)
        others = np.linalg.solve(sides, (points[:, None] - a)[..., None])[..., 0]
        weights = np.concatenate([1.0 - others.sum(axis=-1, keepdims=True), others], axis=-1)
        # the triangle that the point is in, or the least outside of, where an edge is curved
        rows, best = np.arange(len(points)), weights.min(axis=-1).argmax(axis=1)
        placed[own] = np.einsum("ij,ijk->ik", weights[rows, best], vertices[faces[near[rows, best]]])
    return joined(fine, placed)


def sew_garment(
    cut: CutGarment,
    body: TriMesh,
    layers: Sequence[Layer] = (),
    *,
    material: Material,
    thickness: float,
    method: str = "guarded",
    progress: Progress | None = None,
) -> SewnGarment:
    """Sew the panels of a garment on a body, over what it wears already."""
    solids = [(body.vertices, body.faces), *((layer.vertices, layer.faces) for layer in layers)]
    thin = _thin_solids(cut, body, layers)
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in solids)])
    faces = np.concatenate([own + start for (_, own), start in zip(solids, starts, strict=False)]).astype(np.int32)
    arranged = arrange_panels(cut, Obstacle(thin, faces))
    full = np.concatenate([vertices for vertices, _ in solids])
    with TemporaryDirectory(prefix="weft-") as folder:
        scene = _sewing_scene(
            arranged.garment, np.stack([thin, thin, full]), faces, Path(folder), material, thickness, method
        )
        sim = Simulation(scene)
        support = None
        limit = time.process_time() + LIMIT + LIMIT_TRIANGLE * len(cut.faces)
        for frame in range(scene.frames):
            if frame in (0, round(STAGE * FPS)):
                support = _Support(sim, arranged.garment, growing=frame > 0)
            assert support is not None
            support.apply()
            sim.advance()
            if time.process_time() > limit:
                raise WeftError(_too_slow(cut, sim, frame + 1, scene.frames))
            if progress is not None:
                progress(f"sewing {cut.pattern.name}", frame + 1, scene.frames)
        end = sim.state.positions()[: len(cut.vertices)]
    return SewnGarment(joined(cut, end), open_seams(cut, stitch_gaps(cut, end), CAUGHT))


def _too_slow(cut: CutGarment, sim: Simulation, frame: int, frames: int) -> str:
    """Why sewing stops: where the garment is open still, after so many frames of all."""
    x = sim.state.positions()[: len(cut.vertices)]
    words = [
        f"the seam of {cut.pattern.seams[number].one} and {cut.pattern.seams[number].other} is open by {100 * gap:.0f} cm"
        for number, gap in open_seams(cut, stitch_gaps(cut, x), CAUGHT)[:3]
    ]
    seconds = LIMIT + LIMIT_TRIANGLE * len(cut.faces)
    return (
        f"{cut.pattern.name} cannot be sewn: after {seconds:.0f} s of processor time {frame} of {frames} frames are done, and "
        f"{'; '.join(words) or 'all seams are nearly closed'}. Something is in the way: look where the pattern places these "
        "panels, and whether the garment is large enough"
    )


def waistband(garment: CutGarment, upper: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n,) the vertices of panels that are bands and in the upper part of a garment; all vertices where there are none."""
    count = len(garment.pattern.panels)
    own = [garment.vertex_panel == number for number in range(count)]
    found = [mine for mine in own if np.ptp(garment.vertices[mine, 1]) <= BAND_HEIGHT and upper[mine].any()]
    return np.asarray(np.logical_or.reduce(found or own))


class _Support:
    """A force on all of a garment that keeps it at a height."""

    def __init__(self, sim: Simulation, garment: CutGarment, *, growing: bool) -> None:
        self._sim, self._count = sim, len(garment.vertices)
        self._mass = sim.world.mass[: self._count]
        self._gravity, self._largest = (GROWING_GRAVITY, GROWING_GRAVITY) if growing else (0.0, LARGEST_SUPPORT)
        heights = self._heights()
        upper = heights > heights.max() - UPPER * np.ptp(heights)
        self._held = upper if growing else waistband(garment, upper)
        self._start = self._last = float(heights[self._held].mean())

    def _heights(self) -> Floats:
        return np.asarray(self._sim.state.positions()[: self._count, 1])

    def apply(self) -> None:
        """Set the forces of the next frame."""
        height = float(self._heights()[self._held].mean())
        upwards = SUPPORT * (self._start - height) - SUPPORT_DAMPING * (height - self._last) * FPS
        self._last = height
        acceleration = float(np.clip(upwards - self._gravity, -self._largest, self._largest))
        self._sim.forces[: self._count, 1] = acceleration * self._mass


def joined(cut: CutGarment, vertices: Floats) -> CutGarment:
    """The garment with its vertices at these positions, and those that are sewn together at their common mean."""
    return replace(cut, vertices=cut.welded_mean(vertices)[cut.welded_vertex])


def _thin_solids(cut: CutGarment, body: TriMesh, layers: Sequence[Layer]) -> Floats:
    """The vertices of the thin body and of thin layers on it: cloth moves with the nearest point of the body."""
    thin = thin_body(body, cut.vertices)
    if not layers:
        return thin
    tree = cKDTree(body.vertices)
    moved = []
    for layer in layers:
        away, nearest = tree.query(layer.vertices, k=8)
        weights = 1.0 / (away + 1e-3) ** 2
        weights /= weights.sum(axis=1, keepdims=True)
        moved.append(layer.vertices + np.einsum("ij,ijk->ik", weights, (thin - body.vertices)[nearest]))
    return np.concatenate([thin, *moved])


def hanging_stitches(garment: CutGarment) -> NDArray[np.bool_]:
    """(k,) the stitches between two groups of panels of which one is below the other, rather than beside it."""
    groups = panel_groups(garment)[garment.vertex_panel]
    count = np.bincount(groups)
    middles = np.stack([np.bincount(groups, garment.vertices[:, axis]) / count for axis in range(2)], axis=1)
    across, down = np.abs(np.subtract(*middles[groups[garment.stitches]].transpose(1, 0, 2))).T
    return np.asarray(down > across)


def _sewing_scene(
    garment: CutGarment,
    solids: Floats,
    faces: Ints,
    folder: Path,
    material: Material,
    thickness: float,
    method: str,
) -> Scene:
    """The scene in which seams close around what is thin, and that grows."""
    save_garment(garment, folder / "garment.npz")
    hanging = hanging_stitches(garment)
    first = GROUP_CLOSING if hanging.any() else STAGE
    seams = [
        Seam(
            cloth="garment",
            kind="weld",
            vertices=garment.stitches[chosen][:, [0, 1, 1]].tolist(),
            delay=begin,
            closing=end - begin,
        )
        for chosen, begin, end in ((~hanging, 0.0, first), (hanging, JOINING_FROM, STAGE))
        if chosen.any()
    ]
    np.savez(folder / "body.npz", vertices=solids, faces=faces)
    body = Collider(name="body", motion=SequenceMotion(file="body.npz", fps=1.0 / STAGE), friction=FRICTION)
    creases, slippery = fold_creases(garment.folds), material.replace(friction=FRICTION)
    cloth = Cloth(name="garment", mesh="garment.npz", rest="uv", material=slippery, creases=creases)
    return Scene(
        name=garment.pattern.name,
        fps=FPS,
        frames=round((2.0 * STAGE + REST) * FPS),
        thickness=thickness,
        check=0,
        method=method,  # type: ignore[arg-type]
        forces=Forces(gravity=(0.0, 0.0, 0.0), air_damping=AIR),
        cloths=(cloth,),
        colliders=(body,),
        seams=tuple(seams),
    ).at(folder)
