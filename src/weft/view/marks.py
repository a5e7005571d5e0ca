"""What `weft view` draws over a frame on demand: crossings, released pairs, contacts, pins and seams.

Crossings need the meshes alone; the rest needs the scene of the cache, which is compiled when it is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.cache import scene_of
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.world import World

Floats = NDArray[np.float64]

RED, ORANGE, GREEN, BLUE, VIOLET = (220, 20, 25), (245, 150, 0), (20, 160, 60), (40, 90, 220), (150, 60, 190)


@dataclass(frozen=True)
class Marks:
    """Segments (k, 2, 3) and points (p, 3) to draw in one colour."""

    segments: Floats
    points: Floats

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.segments) + len(self.points)


@dataclass(frozen=True)
class Kind:
    """One kind of marks: what the panel says of it, its colour, and what finds it."""

    name: str
    hint: str
    colour: tuple[int, int, int]
    find: Callable[["MarkFinder", int], Marks]


class MarkFinder:
    """Finds the marks of the frames of one cache."""

    def __init__(self, cache: "Cache") -> None:
        self.cache = cache

    @property
    def has_scene(self) -> bool:
        """Whether the file says of which scene its frames are."""
        return scene_of(self.cache) is not None

    @cached_property
    def world(self) -> "World":
        """The scene of the cache, compiled; refused where the frames are not of its meshes."""
        from weft.world import World

        scene = scene_of(self.cache)
        if scene is None:
            raise WeftError("this file has no scene")
        if getattr(self.cache, "origin", {}).get("finish", {}).get("total", 0):
            raise WeftError("the mesh is subdivided: look at the cache that it was made from")
        world = World(scene, "cpu")
        if world.vertex_count != len(self.cache.positions(0)):
            raise WeftError("the meshes of its scene have changed since the run")
        return world

    def crossings(self, frame: int) -> Marks:
        """Edges that pass through triangles."""
        from weft.check import crossing_marks

        return Marks(crossing_marks(self.cache, frame), np.zeros((0, 3)))

    def released(self, frame: int) -> Marks:
        """Crossings that bodies force upon the cloth, as the method `guarded` noted them in the run."""
        rows = self.cache.noted(frame).get("released")
        if rows is None:
            raise WeftError("this run has noted none: its method is not guarded, or an older weft made it")
        return Marks(self.cache.positions(frame)[rows[:, :2]], np.zeros((0, 3)))

    def contacts(self, frame: int) -> Marks:
        """Points of cloth that touch cloth or a collider, each with its normal, as long as twice the thickness."""
        from weft.run.contact_report import ContactReporter

        if self._reporter is None:
            self._reporter = ContactReporter(self.world)
        found = self._reporter.by_search(wp.array(self.cache.positions(frame), dtype=wp.vec3d, device="cpu"))
        length = 2.0 * float(self.world.thickness.numpy().max(initial=0.0))
        ends = found.points + length * found.normals
        return Marks(np.stack([found.points, ends], axis=1).reshape(-1, 2, 3), found.points)

    _reporter: Any = None

    def pins(self, frame: int) -> Marks:
        """Vertices of cloth that pins hold at the time of the frame."""
        world = self.world
        held = world.kinematics.fixed(world.vertex_count, frame / self.cache.fps)[: world.cloth_vertex_count]
        return Marks(np.zeros((0, 2, 3)), self.cache.positions(frame)[: len(held)][held])

    def seams(self, frame: int) -> Marks:
        """Stitches, from each vertex to the point that it is sewn to."""
        seams, x = self.world.seams, self.cache.positions(frame)
        a, b, c = (x[seams.vertices[:, k]] for k in range(3))
        w = seams.weights[:, None]
        return Marks(np.stack([a, (1.0 - w) * b + w * c], axis=1).reshape(-1, 2, 3), a)

    def energy(self, part: str = "") -> Floats:
        """(frames,) the energy of all cloth, or the part `kinetic` or `elastic` of it, J.

        The whole is kinetic energy, the potential in the gravity of the scene, from the lowest frame, and the elastic energy.
        """
        from weft.view.energy import ElasticEnergy

        world, count = self.world, self.world.cloth_vertex_count
        if self._elastic is None:
            self._elastic = ElasticEnergy(world)
        mass, gravity = np.asarray(world.mass)[:count], np.asarray(world.scene.forces.gravity)
        for frame in range(len(self._energies), self.cache.frames):
            x, v = (f(frame)[:count] for f in (self.cache.positions, self.cache.velocities))
            pinned = world.kinematics.fixed(world.vertex_count, frame / self.cache.fps)[:count]
            moving, height = 0.5 * float(mass @ (v * v).sum(axis=1)), -float(mass @ (x @ gravity))
            self._energies.append((moving, height, self._elastic.of(x, pinned)))
        kinetic, potential, elastic = np.array(self._energies).reshape(-1, 3).T
        whole = kinetic + potential - potential.min(initial=np.inf) + elastic
        return np.asarray({"kinetic": kinetic, "elastic": elastic}.get(part, whole))

    _elastic: Any = None

    @cached_property
    def _energies(self) -> list[tuple[float, float, float]]:
        return []


KINDS = (
    Kind("crossings", "edges that pass through triangles, in red", RED, MarkFinder.crossings),
    Kind(
        "released pairs",
        "crossings that bodies force upon the cloth (method guarded), in orange",
        ORANGE,
        MarkFinder.released,
    ),
    Kind("contacts", "where cloth touches something, with the normals, in green", GREEN, MarkFinder.contacts),
    Kind("pins", "vertices that are held now, in blue", BLUE, MarkFinder.pins),
    Kind("seams", "stitches, in violet", VIOLET, MarkFinder.seams),
)


class MarkDrawer:
    """Draws the chosen kinds of marks in a browser, each kind again when it has changed."""

    def __init__(self, scene: Any, finder: MarkFinder, size: float) -> None:
        self._scene, self._finder = scene, finder
        # diameter of a point: 0.4 % of the scene, which is a few pixels of a picture that the scene fills
        self._size = 0.004 * size
        self.handles: dict[str, list[Any]] = {}
        self.error = ""

    def show(self, frame: int, chosen: set[str]) -> dict[str, int]:
        """Draw the chosen kinds at a frame; how many marks each of them has."""
        for handle in (h for handles in self.handles.values() for h in handles):
            handle.remove()
        self.handles, self.error, counts = {}, "", {}
        for kind in KINDS:
            if kind.name not in chosen:
                continue
            try:
                marks = kind.find(self._finder, frame)
            except (ImportError, WeftError) as error:
                self.error = f"{kind.name} cannot be shown: {error}"
                continue
            counts[kind.name] = len(marks.points) or len(marks.segments)
            self.handles[kind.name] = self._draw(kind, marks)
        return counts

    def _draw(self, kind: Kind, marks: Marks) -> list[Any]:
        name = "/marks/" + kind.name.replace(" ", "_")
        drawn = []
        if len(marks.segments):
            drawn.append(
                self._scene.add_line_segments(
                    f"{name}/lines",
                    marks.segments.astype(np.float32),
                    kind.colour,
                    thickness=3.0,
                    thickness_units="screen",
                )
            )
        if len(marks.points):
            drawn.append(
                self._scene.add_point_cloud(
                    f"{name}/points",
                    marks.points.astype(np.float32),
                    kind.colour,
                    point_size=self._size,
                    point_shape="circle",
                )
            )
        return drawn
