"""The four tasks (fold, fling, drape on a stand, dress an arm), and policies that are not learned: random, and scripts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.gym.episode import ACTION_SIZE, FARTHEST_MOVE, Episode, Floats, Task
from weft.run.simulation import Simulation
from weft.scene import Box, Capsule, Cloth, Collider, Cylinder, Grid, Material, Placement, Scene
from weft.scene.resolve import shape_mesh

# m; thick enough for few cells
THICKNESS = 0.004
# the sheets: side in m, and cells along it
SIDE, CELLS = 0.3, 10
# how far the start of a cloth varies, m
JITTER = 0.01
# m; a cell of the raster on which covered area is counted, and points along a side of a triangle that find the cells
RASTER, SAMPLES = 0.01, 5


def _sheet(position: tuple[float, float, float], *, upright: bool = False) -> Cloth:
    placement = Placement(position=position, rotation_deg=(90.0, 0.0, 0.0) if upright else (0.0, 0.0, 0.0))
    material = Material(preset="cotton", stretch=200.0)
    return Cloth(
        name="sheet", shape=Grid(size=(SIDE, SIDE), cells=(CELLS, CELLS)), placement=placement, material=material
    )


def _table() -> Collider:
    """A table whose top is at height 0."""
    placement = Placement(position=(0.0, -0.05, 0.0))
    return Collider(name="table", shape=Box(size=(2.0, 0.1, 2.0)), placement=placement, friction=0.5)


def _vertex(column: Any, row: Any) -> Any:
    """The number of a vertex of a sheet, or numbers from arrays."""
    return row * (CELLS + 1) + column


def _shift(sim: Simulation, random: np.random.Generator) -> Floats:
    """Shift the cloth sideways by a random distance; gives the shift."""
    shift = np.array([random.uniform(-JITTER, JITTER), 0.0, random.uniform(-JITTER, JITTER)])
    sim.positions[:] += shift
    return shift


class Fold(Task):
    """A sheet lies on a table; one gripper folds it along its diagonal. Score: how near mirrored vertices have come."""

    id, grippers, actions, success = "Fold", 1, 60, 0.8
    low, high = (-0.4, THICKNESS, -0.4), (0.4, 0.4, 0.4)
    # the corner that is folded, and the one that it goes to
    corner, opposite = _vertex(0, 0), _vertex(CELLS, CELLS)

    def __init__(self) -> None:
        column, row = np.meshgrid(np.arange(CELLS + 1), np.arange(CELLS + 1))
        near = (column + row < CELLS).ravel()
        numbers, mirrored = _vertex(column, row).ravel(), _vertex(CELLS - row, CELLS - column).ravel()
        self._one, self._other = numbers[near], mirrored[near]

    def scene(self, method: Any) -> Scene:
        """The sheet lies just above the table."""
        sheet = _sheet((0.0, THICKNESS, 0.0))
        return Scene(name="fold", fps=60, method=method, thickness=THICKNESS, cloths=(sheet,), colliders=(_table(),))

    def start(self, sim: Simulation, random: np.random.Generator) -> Floats:
        """The gripper is above the corner."""
        _shift(sim, random)
        aside = random.uniform(-0.02, 0.02, 3) * [1.0, 0.0, 1.0]
        return sim.positions[[self.corner]] + [0.0, 0.06, 0.0] + aside

    def score(self, sim: Simulation) -> float:
        """1 less the mean distance of mirrored vertices, in units of that at the start."""
        gap = np.linalg.norm(sim.positions[self._one] - sim.positions[self._other], axis=1).mean()
        rest = sim.world.rest_positions
        return float(1.0 - gap / np.linalg.norm(rest[self._one] - rest[self._other], axis=1).mean())


class Fling(Task):
    """Two grippers hold a bunched sheet by neighbouring corners above a table. Score: covered fraction of the sheet's area."""

    id, grippers, actions, success = "Fling", 2, 60, 0.8
    low, high = (-0.5, THICKNESS, -0.6), (0.5, 0.7, 0.6)
    # distance of the held corners at the start, m
    bunched = 0.06
    height = 0.4

    def __init__(self) -> None:
        flat = shape_mesh(Grid(size=(SIDE, SIDE), cells=(CELLS, CELLS)))
        # on the raster too, which counts cells that are touched at the border
        self._whole = covered_area(flat.vertices, flat.faces)

    def scene(self, method: Any) -> Scene:
        """The sheet hangs upright; `start` bunches it."""
        sheet = _sheet((0.0, self.height - 0.5 * SIDE, 0.0), upright=True)
        return Scene(name="fling", fps=60, method=method, thickness=THICKNESS, cloths=(sheet,), colliders=(_table(),))

    def closed_at_start(self) -> bool:
        return True

    def start(self, sim: Simulation, random: np.random.Generator) -> Floats:
        """The corners come together in the first third of a second, so that the sheet hangs in folds."""
        x = sim.positions
        top = np.flatnonzero(x[:, 1] > x[:, 1].max() - 1e-9)
        corners = [int(top[x[top, 0].argmin()]), int(top[x[top, 0].argmax()])]
        # a breath of air, or a sheet in a plane would stay in it
        sim.velocities[:, 2] = 0.3 * np.sin(25.0 * x[:, 0] + random.uniform(0.0, 2.0 * np.pi))
        hold = sim.pin("sheet", corners)
        middle = random.uniform(-JITTER, JITTER)
        hold.target = [[middle - 0.5 * self.bunched, self.height, 0.0], [middle + 0.5 * self.bunched, self.height, 0.0]]
        sim.advance(20)
        hold.release()
        return np.array(sim.positions[corners])

    def score(self, sim: Simulation) -> float:
        """The area that the sheet covers on the table, as a fraction of its own; less where it hangs above it."""
        low = np.clip(1.0 - sim.positions[:, 1] / self.height, 0.0, 1.0).mean()
        return float(low * min(1.0, covered_area(sim.positions, sim.faces) / self._whole))


class Drape(Task):
    """Two grippers hold a sheet beside a stand, and lay it over its top. Score: how near the middle of the sheet is to it."""

    id, grippers, actions, success = "Drape", 2, 60, 0.75
    low, high = (-0.5, 0.02, -0.5), (0.5, 0.6, 0.5)
    # top of the stand: height and half its width, m
    height, half = 0.2, 0.05
    middle = _vertex(CELLS // 2, CELLS // 2)

    def scene(self, method: Any) -> Scene:
        """The stand is a box on the table, at the origin."""
        placement = Placement(position=(0.0, 0.5 * self.height, 0.0))
        shape = Box(size=(2 * self.half, self.height, 2 * self.half), cells=(3, 6, 3))
        stand = Collider(name="stand", shape=shape, placement=placement, friction=0.5)
        sheet = _sheet((0.0, 0.4 - 0.5 * SIDE, -0.2), upright=True)
        return Scene(
            name="drape", fps=60, method=method, thickness=THICKNESS, cloths=(sheet,), colliders=(stand, _table())
        )

    def closed_at_start(self) -> bool:
        return True

    def start(self, sim: Simulation, random: np.random.Generator) -> Floats:
        """The grippers hold the upper corners."""
        _shift(sim, random)
        x = sim.positions
        top = np.flatnonzero(x[:, 1] > x[:, 1].max() - 1e-9)
        return np.array(x[[int(top[x[top, 0].argmin()]), int(top[x[top, 0].argmax()])]])

    def score(self, sim: Simulation) -> float:
        """Falls by e for every 10 cm between the middle of the sheet and the middle of the top."""
        distance = np.linalg.norm(sim.positions[self.middle] - [0.0, self.height + THICKNESS, 0.0])
        return float(np.exp(-distance / 0.1))


class Dress(Task):
    """Two grippers pull a sleeve over an arm. Score: the fraction of the arm that the sleeve surrounds."""

    id, grippers, actions, success = "Dress", 2, 60, 0.6
    low, high = (-0.6, 0.1, -0.3), (0.6, 0.6, 0.3)
    # the arm lies along x from its hand at 0, at this height; the sleeve begins before the hand. m
    height, arm, arm_radius = 0.35, 0.25, 0.03
    sleeve, sleeve_radius = 0.2, 0.06
    slices = 20

    def scene(self, method: Any) -> Scene:
        """Arm and sleeve have a common axis."""
        along = (0.0, 0.0, -90.0)
        placement = Placement(position=(0.5 * self.arm, self.height, 0.0), rotation_deg=along)
        shape = Capsule(radius=self.arm_radius, length=self.arm, segments=16, rings=4, bands=6)
        arm = Collider(name="arm", shape=shape, placement=placement, friction=0.2)
        placement = Placement(position=(-0.5 * self.sleeve - 0.06, self.height, 0.0), rotation_deg=along)
        cloth = Cloth(
            name="sleeve",
            shape=Cylinder(radius=self.sleeve_radius, height=self.sleeve, segments=16, rings=9),
            placement=placement,
            material=Material(preset="cotton", stretch=200.0),
        )
        return Scene(name="dress", fps=60, method=method, thickness=THICKNESS, cloths=(cloth,), colliders=(arm,))

    def closed_at_start(self) -> bool:
        return True

    def start(self, sim: Simulation, random: np.random.Generator) -> Floats:
        """The grippers hold the opening that faces the hand at its top and at its bottom."""
        shift = random.uniform(-JITTER, 0.0)
        sim.positions[:, 0] += shift
        x = sim.positions
        ring = np.flatnonzero(x[:, 0] > x[:, 0].max() - 1e-9)
        return np.array(x[[int(ring[x[ring, 1].argmax()]), int(ring[x[ring, 1].argmin()])]])

    def score(self, sim: Simulation) -> float:
        """The slices of the arm about whose axis there is cloth in all four quarters."""
        x = sim.positions - [0.0, self.height, 0.0]
        quarter = (x[:, 1] > 0.0).astype(int) + 2 * (x[:, 2] > 0.0)
        number = np.floor(x[:, 0] / self.arm * self.slices)
        reach = self.sleeve / 9 / self.arm * self.slices
        covered = 0
        for k in range(self.slices):
            near = np.abs(number - k) <= reach
            covered += len(np.unique(quarter[near])) == 4
        return covered / self.slices


TASKS: dict[str, type[Task]] = {"fold": Fold, "fling": Fling, "drape": Drape, "dress": Dress}


def covered_area(x: Floats, faces: npt.NDArray[np.int32]) -> float:
    """The area of the shadow of a mesh from straight above, counted on a raster, m^2."""
    steps = np.arange(SAMPLES + 1) / SAMPLES
    u, v = (w.ravel() for w in np.meshgrid(steps, steps))
    inside = u + v <= 1.0 + 1e-9
    weights = np.stack([1.0 - u - v, u, v], axis=1)[inside]
    points = np.einsum("sk,fkd->fsd", weights, x[faces][:, :, [0, 2]]).reshape(-1, 2)
    return len(np.unique(np.floor(points / RASTER), axis=0)) * RASTER**2


Action = npt.NDArray[np.float32]


class RandomPolicy:
    """Random moves, the same for the same seed."""

    def __init__(self, grippers: int, seed: int = 0) -> None:
        self._random, self._size = np.random.default_rng(seed), ACTION_SIZE * grippers

    def __call__(self, episode: Episode) -> Action:
        return self._random.uniform(-1.0, 1.0, self._size).astype(np.float32)


class ScriptedPolicy:
    """Does a task by way points: each is where the grippers go, and whether they are closed there."""

    def __init__(self, episode: Episode) -> None:
        """The episode must have begun: way points depend on where the cloth is."""
        task = episode.task
        for kind, script in ((Fold, _fold), (Fling, _fling), (Drape, _drape), (Dress, _dress)):
            if isinstance(task, kind):
                self._points = script(episode)
                break
        else:
            raise WeftError(f"there is no script for the task {task.id}")
        self._goal, self._closed = next(self._points)

    def __call__(self, episode: Episode) -> Action:
        way = self._goal - episode.grippers
        if np.abs(way).max() < 1e-3 and (episode.closed == self._closed).all():
            self._goal, self._closed = next(self._points, (episode.grippers.copy(), False))
            way = self._goal - episode.grippers
        moves = way / FARTHEST_MOVE
        # all grippers arrive together, so that what they hold between them keeps its length
        moves /= max(1.0, float(np.abs(moves).max()))
        grasp = np.full((len(moves), 1), 1.0 if self._closed else -1.0)
        return np.concatenate([moves, grasp], axis=1).ravel().astype(np.float32)


def _fold(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Down to the corner, close, over to the opposite corner in an arc, open."""
    x, task = episode.sim.positions, episode.task
    assert isinstance(task, Fold)
    corner, goal = x[[task.corner]].copy(), x[[task.opposite]].copy()
    yield corner, False
    yield corner, True
    middle = 0.5 * (corner + goal)
    yield 0.7 * corner + 0.3 * middle + [0.0, 0.15, 0.0], True
    yield middle + [0.0, 0.21, 0.0], True
    yield 0.3 * middle + 0.7 * goal + [0.0, 0.12, 0.0], True
    yield goal + [0.0, 0.015, 0.0], True
    yield goal + [0.0, 0.015, 0.0], False


def _fling(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Apart, forward in a swing, down while it goes back, along the table until all of the sheet is drawn flat, open."""
    apart = np.array([[-0.148, 0.0, 0.0], [0.148, 0.0, 0.0]])
    swing = (0.4, 0.0), (0.42, -0.2), (0.42, 0.25)
    for height, forward in (*swing, (0.28, 0.25), (0.15, 0.1), (0.02, -0.05), (0.008, -0.5)):
        yield apart + [0.0, height, forward], True
    yield apart + [0.0, 0.008, -0.5], False


def _drape(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Against the stand, with the lower edge below its top, over it, down on its far side, open."""
    apart = np.array([[-0.148, 0.0, 0.0], [0.148, 0.0, 0.0]])
    for height, forward in ((0.42, -0.14), (0.42, -0.04), (0.38, 0.06), (0.28, 0.12), (0.14, 0.115)):
        yield apart + [0.0, height, forward], True
    yield apart + [0.0, 0.14, 0.115], False


def _dress(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Along the arm, open."""
    start = episode.grippers.copy()
    for along in (0.02, 0.1, 0.2, 0.24):
        yield start * [0.0, 1.0, 1.0] + [along, 0.0, 0.0], True
    yield start * [0.0, 1.0, 1.0] + [0.24, 0.0, 0.0], False
