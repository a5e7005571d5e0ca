"""Tables 1 to 6 of Draping on meshes: six scenes, four integrators, three ways to find near triangles.

A small closed mesh in the shape of a rabbit, made from ellipsoids, stands in for the bunny of the papers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import missing_extra
from weft.mesh import TriMesh
from weft.scene import Box, Camera, Cloth, Collider, Forces, Grid, Material, Pin, Placement, Push, Scene, Sphere

if TYPE_CHECKING:
    from rich.table import Table

# middle, half axes and tilt about x in degrees of each ellipsoid; the rabbit looks along +z, y is up
PARTS = (
    ((0.0, 0.36, -0.05), (0.36, 0.34, 0.46), 0.0),
    ((0.0, 0.52, 0.22), (0.24, 0.28, 0.24), 0.0),
    ((0.0, 0.84, 0.36), (0.21, 0.20, 0.25), 0.0),
    ((-0.13, 1.18, 0.22), (0.085, 0.30, 0.075), -14.0),
    ((0.13, 1.18, 0.22), (0.085, 0.30, 0.075), -14.0),
    ((-0.26, 0.20, -0.12), (0.16, 0.22, 0.28), 0.0),
    ((0.26, 0.20, -0.12), (0.16, 0.22, 0.28), 0.0),
    ((-0.16, 0.10, 0.38), (0.10, 0.10, 0.17), 0.0),
    ((0.16, 0.10, 0.38), (0.10, 0.10, 0.17), 0.0),
    ((0.0, 0.30, -0.54), (0.12, 0.12, 0.11), 0.0),
)
# how sharply the ellipsoids stay apart where they meet
SHARPNESS = 3.0
# where the lattice begins and ends: chosen with the default cell so that the mesh is manifold
LOW, HIGH = np.array([-0.78, -0.325, -0.95]), np.array([0.75, 1.75, 0.9])


def field(points: np.ndarray) -> np.ndarray:
    """Positive inside the rabbit, negative outside, smooth."""
    total = np.zeros(points.shape[:-1])
    for middle, axes, tilt in PARTS:
        angle = np.radians(tilt)
        q = points - np.array(middle)
        y = np.cos(angle) * q[..., 1] + np.sin(angle) * q[..., 2]
        z = -np.sin(angle) * q[..., 1] + np.cos(angle) * q[..., 2]
        square = (q[..., 0] / axes[0]) ** 2 + (y / axes[1]) ** 2 + (z / axes[2]) ** 2
        total += np.exp(-SHARPNESS * (square - 1.0))
    return np.log(total + 1e-300)


def bunny_mesh(height: float = 1.0, *, cell: float = 0.1) -> TriMesh:
    """The rabbit, standing on y = 0; with the default cell it has about 1,000 triangles."""
    points, faces = _surface_net(cell)
    for _ in range(4):
        points = _onto_surface(_smoothed(points, faces))
    points = points * (height / np.ptp(points[:, 1]))
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return TriMesh(points - (middle[0], points[:, 1].min(), middle[2]), faces)


def _surface_net(cell: float) -> tuple[np.ndarray, np.ndarray]:
    """A point in every cell of a lattice through which the surface passes, joined across the edges that it cuts."""
    shape = np.ceil((HIGH - LOW) / cell).astype(int)
    lattice = LOW + cell * np.stack(np.meshgrid(*(np.arange(n + 1) for n in shape), indexing="ij"), axis=-1)
    inside = field(lattice) > 0.0
    corners = np.stack(
        [inside[i : i + shape[0], j : j + shape[1], k : k + shape[2]] for i, j, k in np.ndindex(2, 2, 2)]
    )
    mixed = corners.any(axis=0) & ~corners.all(axis=0)
    number = np.cumsum(mixed).reshape(mixed.shape) - 1
    points = LOW + cell * (np.argwhere(mixed) + 0.5)

    faces = []
    for axis in range(3):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        ahead = np.roll(inside, -1, axis=axis)
        for place in np.argwhere(inside != ahead):
            if place[axis] >= shape[axis] or min(place[one], place[two]) == 0:
                continue
            steps = np.zeros((4, 3), int)
            steps[[1, 2], one] = -1
            steps[[2, 3], two] = -1
            a, b, c, d = (number[tuple(place + step)] for step in steps)
            # from inside to outside along the edge the quad turns one way, else the other
            quad = (a, b, c, d) if inside[tuple(place)] else (d, c, b, a)
            faces += [(quad[0], quad[1], quad[2]), (quad[0], quad[2], quad[3])]
    return _onto_surface(points), np.array(faces, np.int32)


def _onto_surface(points: np.ndarray) -> np.ndarray:
    """Some steps of Newton's method along the gradient."""
    for _ in range(8):
        value, h = field(points), 1e-5
        slope = np.stack([field(points + h * e) - value for e in np.eye(3)], axis=1) / h
        points = points - 0.7 * (value / np.maximum((slope**2).sum(axis=1), 1e-9))[:, None] * slope
    return points


def _smoothed(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Every point halfway to the mean of its neighbours."""
    ends = np.concatenate([faces[:, [k, (k + 1) % 3]] for k in range(3)])
    total = np.zeros_like(points)
    np.add.at(total, ends[:, 0], points[ends[:, 1]])
    count = np.bincount(ends[:, 0], minlength=len(points))
    return 0.5 * points + 0.5 * total / count[:, None]


INTEGRATORS = ("euler", "midpoint", "runge_kutta", "trapezoid")
SEARCHES = ("brute", "octree", "kdtree")
CLOSE = 0.04
# cotton that settles sooner, as soft as the cloth of the paper looks
MATERIAL = Material(damping=1e-3, bend=5e-6)
# two seconds
FRAMES = 120
# s of processor time after which a run is cut short; its time is scaled up to all frames
PATIENCE = 20.0


def _scene(name: str, position: tuple[float, float, float], colliders: list[Collider], **options: Any) -> Scene:
    """A square metre of cotton of 200 triangles above something."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(10, 10)),
        placement=Placement(position=position),
        material=MATERIAL,
    )
    return Scene(
        name=name,
        fps=60,
        frames=FRAMES,
        method=Push(**{"close": CLOSE, "against": "mesh", **options}),
        forces=Forces(air_damping=2.0),
        camera=Camera(position=(1.6, 1.0, 2.2), target=(0.0, 0.1, 0.0), fov_deg=32.0),
        cloths=(cloth,),
        colliders=tuple(colliders),
    )


def _cube(cells: int, *, on_edge: bool) -> Collider:
    """A cube of 0.5 m, flat or on one of its edges."""
    turn = (0.0, 0.0, 45.0) if on_edge else (0.0, 0.0, 0.0)
    shape = Box(size=(0.5, 0.5, 0.5), cells=(cells, cells, cells))
    return Collider(name="cube", shape=shape, placement=Placement(rotation_deg=turn), friction=0.5)


def cube_edge(folder: Path, **options: Any) -> Scene:
    """Cloth over the edge of a cube."""
    return _scene("cube edge", (0.0, 0.42, 0.0), [_cube(16, on_edge=True)], **options)


def finer_cube_edge(folder: Path, **options: Any) -> Scene:
    """Cloth over the edge of a cube of sixteen times as many triangles."""
    return _scene("finer cube edge", (0.0, 0.42, 0.0), [_cube(64, on_edge=True)], **options)


def bunny(folder: Path, **options: Any) -> Scene:
    """Cloth over a rabbit, whose mesh is written to the folder."""
    from weft.mesh import save_mesh

    folder.mkdir(parents=True, exist_ok=True)
    save_mesh(bunny_mesh(1.0), folder / "bunny.obj")
    # vertices of the cloth come down on the tips of the ears
    rabbit = Collider(name="bunny", mesh="bunny.obj", placement=Placement(position=(0.0, -0.65, -0.13)), friction=0.5)
    return _scene("bunny", (0.0, 0.40, 0.0), [rabbit], **options).at(folder)


def cube(folder: Path, **options: Any) -> Scene:
    """Cloth on the flat side of a cube."""
    return _scene("cube", (0.0, 0.30, 0.0), [_cube(8, on_edge=False)], **options)


def sphere(folder: Path, **options: Any) -> Scene:
    """Cloth over a ball."""
    shape = Sphere(radius=0.3, triangles="uv", segments=24, rings=14)
    return _scene("sphere", (0.0, 0.35, 0.0), [Collider(name="ball", shape=shape, friction=0.5)], **options)


def tablecloth(folder: Path, **options: Any) -> Scene:
    """Cloth that is held where a table would be, and whose corners fall against one another."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.4, 1.4), cells=(14, 14)),
        placement=Placement(position=(0.0, 0.4, 0.0)),
        material=MATERIAL,
        pins=(Pin(box=((-0.41, 0.0, -0.41), (0.41, 1.0, 0.41))),),
    )
    return _scene("tablecloth", (0.0, 0.0, 0.0), [], **{"against": "cloth", **options}).replace(cloths=(cloth,))


SCENES: dict[str, Callable[..., Scene]] = {
    "cube_edge": cube_edge,
    "finer_cube_edge": finer_cube_edge,
    "bunny": bunny,
    "cube": cube,
    "sphere": sphere,
    "tablecloth": tablecloth,
}

# seconds on a Lenovo Thinkpad T430s, by scene and integrator: none, octree, kd-tree; a text where the paper has no time
PAPER: dict[str, dict[str, tuple[float | str, float | str, float | str]]] = {
    "cube_edge": {
        "euler": ("***", 64.30, 48.89),
        "midpoint": ("-", 45.05, 53.35),
        "runge_kutta": ("-", 69.52, 82.92),
        "trapezoid": ("-", 37.93, 44.69),
    },
    "finer_cube_edge": {"euler": ("-", 109.64, 111.93)},
    "bunny": {"euler": ("**", 118.89, 197.10)},
    "cube": {
        "euler": (53.92, 1.53, 0.93),
        "midpoint": (41.13, 0.82, 0.80),
        "runge_kutta": (41.06, 1.29, 1.62),
        "trapezoid": (40.96, 0.63, 0.70),
    },
    "sphere": {
        "euler": (213.87, 6.95, 14.83),
        "midpoint": (206.75, 6.89, 16.85),
        "runge_kutta": ("explodes", "explodes", "-"),
        "trapezoid": ("-", "-", "-"),
    },
    "tablecloth": {"euler": ("***", 73.92, 70.57)},
}
TITLES = {
    "cube_edge": "Table 1: cloth on the edge of a cube (3,072 triangles)",
    "finer_cube_edge": "Table 2: cloth on the edge of a finer cube (49,152 triangles)",
    "bunny": "Table 3: cloth on a rabbit (1,004 triangles; paper: the bunny, about 1,000)",
    "cube": "Table 4: cloth on a cube (768 triangles)",
    "sphere": "Table 5: cloth on a sphere (624 triangles)",
    "tablecloth": "Table 6: tablecloth against itself (392 triangles; paper: 400)",
}
COLUMNS = {"brute": "none", "octree": "octree", "kdtree": "kd-tree"}


@dataclass(frozen=True)
class Cell:
    """The time of one run."""

    seconds: float
    """of processor time for all frames"""
    whole: bool
    """whether all frames were run; otherwise the time is scaled up"""
    explodes: bool


Results = dict[str, dict[str, dict[str, Cell]]]
"""scene -> integrator -> search"""


def measure(
    folder: Path, *, frames: int = FRAMES, patience: float = PATIENCE, progress: Callable[[str], None] | None = None
) -> Results:
    """Run every scene with every integrator and search on one thread; a run that takes longer is cut short."""
    from weft.runtime import get_threads, set_threads

    threads = get_threads()
    set_threads(1)
    try:
        results: Results = {}
        for scene, make in SCENES.items():
            for integrator in INTEGRATORS:
                for search in SEARCHES:
                    if progress is not None:
                        progress(f"{scene} {integrator} {COLUMNS[search]}")
                    built = make(folder, integrator=integrator, search=search)
                    results.setdefault(scene, {}).setdefault(integrator, {})[search] = _run(built, frames, patience)
        return results
    finally:
        set_threads(threads)


def _run(scene: Scene, frames: int, patience: float) -> Cell:
    from weft.run.simulation import compile_scene

    world, method = compile_scene(scene)
    # compile what has to be compiled before the clock runs
    method.step(world.initial_state(), 1e-4)
    method.level = method.good = 0
    state = world.initial_state()
    begun, done, explodes = time.thread_time(), 0, False
    while done < frames and not explodes and (done == 0 or time.thread_time() - begun < patience):
        method.advance_frame(state)
        done += 1
        explodes = not bool(np.abs(state.positions()).max() < 100.0)
    return Cell((time.thread_time() - begun) * frames / done, done == frames, explodes)


def make_table(scene: str, results: dict[str, dict[str, Cell]]) -> "Table":
    """One table of the paper beside ours, and the ratios none : octree : kd-tree; fits into 80 columns."""
    from rich.table import Table

    table = Table(title=TITLES[scene], title_justify="left")
    for title in ("", ""):
        table.add_column(title, no_wrap=True)
    for name in COLUMNS.values():
        table.add_column(f"{name}\ns", justify="right", no_wrap=True)
    table.add_column("none : octree\n: kd-tree", justify="right", no_wrap=True)
    for integrator, cells in results.items():
        name = integrator.replace("_", "-")
        paper = PAPER[scene].get(integrator)
        if paper is not None:
            shown = (f"{value:.2f}" if isinstance(value, float) else value for value in paper)
            table.add_row(name, "paper", *shown, _ratios([v if isinstance(v, float) else None for v in paper]))
        ours = [cells[search] for search in SEARCHES]
        ratios = _ratios([None if cell.explodes else cell.seconds for cell in ours])
        table.add_row("" if paper else name, "weft", *map(_shown, ours), ratios, end_section=True)
    return table


def _shown(cell: Cell) -> str:
    if cell.explodes:
        return "explodes"
    return f"{'' if cell.whole else '~'}{cell.seconds:.2f}"


def _ratios(values: list[float | None]) -> str:
    """Relative to the octree."""
    base = values[1]
    if base is None:
        return ""
    return " : ".join("-" if value is None else _plain(value / base) for value in values)


def _plain(value: float) -> str:
    """Two digits, without an exponent."""
    return f"{value:.0f}" if value >= 10.0 else f"{value:.2g}"


def draw_chart(results: Results, path: Path) -> Path:
    """A bar for every time, ours filled and the paper's as a line across, relative to the octree of its row."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error

    figure = Figure(figsize=(13.0, 7.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3)
    colours = ("#7a7f87", "#3f6fb5", "#d0804a")
    for axis, (scene, rows) in zip(axes.ravel(), results.items(), strict=True):
        for row, (integrator, cells) in enumerate(rows.items()):
            base = cells["octree"].seconds
            paper = PAPER[scene].get(integrator, ("", "", ""))
            for column, (search, colour) in enumerate(zip(SEARCHES, colours, strict=True)):
                place = row + 0.26 * (column - 1)
                label = COLUMNS[search] if row == 0 else None
                axis.bar(place, cells[search].seconds / base, width=0.24, color=colour, label=label)
                value, octree = paper[column], paper[1]
                if isinstance(value, float) and isinstance(octree, float):
                    axis.plot([place - 0.12, place + 0.12], [value / octree] * 2, color="black", linewidth=2.0)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")
        axis.axhline(1.0, color="#b0b4ba", linewidth=0.7, zorder=0)
        axis.set_xticks(range(len(rows)), [name.replace("_", "-") for name in rows], fontsize=8)
        axis.set_title(TITLES[scene].split(": ", 1)[1].split(" (")[0], fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("time / time with the octree")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, ncols=3, loc="outside lower center")
    figure.suptitle(
        "Time of a run by how near triangles are found: weft (bars) and the paper (black lines)", fontsize=12
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
