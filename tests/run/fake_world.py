"""A world and a method of a few lines, whose frames depend on everything that a checkpoint must keep."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import weft
from weft.cache import Body, Cache

FACES = np.array([[0, 1, 2], [2, 1, 3], [4, 5, 6]], dtype=np.int32)


class FakeArray:
    """Stands for a device array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.array(values, dtype=np.float64)

    def numpy(self) -> np.ndarray:
        return self.values

    def assign(self, values: np.ndarray) -> None:
        self.values = np.array(values, dtype=np.float64)


class FakeState:
    def __init__(self, x: np.ndarray, v: np.ndarray, time: float = 0.0, frame: int = 0) -> None:
        self.x, self.v, self.time, self.frame, self.step = FakeArray(x), FakeArray(v), time, frame, 0

    def positions(self) -> np.ndarray:
        return self.x.values.copy()

    def velocities(self) -> np.ndarray:
        return self.v.values.copy()


class FakeWorld:
    def __init__(self, scene: weft.Scene) -> None:
        self.scene = scene
        self.bodies = [
            Body("sheet", "cloth", slice(0, 4), slice(0, 2)),
            Body("rock", "collider", slice(4, 7), slice(2, 3)),
        ]
        self.faces = FACES
        self.vertex_count = 7
        self.cloths: list[Any] = []
        self.collider_meshes: list[Any] = []
        # nothing is prescribed, neither by the scene nor by a caller
        self.collider_motions: list[Any] = []
        self.kinematics = SimpleNamespace(prescriptions=[])

    def largest_stretch(self, x: FakeArray) -> float:
        return 1.0

    def initial_state(self) -> FakeState:
        random = np.random.default_rng(self.scene.seed)
        return FakeState(random.normal(size=(7, 3)), random.normal(size=(7, 3)))


class FakeMethod:
    """Chaotic, with a memory of its own: a frame that is lost, doubled or rounded shows in all later ones."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.memory = np.array([0.37])
        self.explode_at: int | None = None
        self.explode_to = np.nan

    def begin(self, state: FakeState) -> int:
        return 0

    def advance_frame(self, state: FakeState, after_step: Callable[[], object] | None = None) -> dict[str, Any]:
        m = self.memory[-1]
        self.memory = np.append(self.memory, 3.9 * m * (1 - m))[-4:]
        state.v.values = np.sin(3.0 * state.x.values + 5.0 * state.v.values + self.memory.sum() + state.time)
        state.x.values = state.x.values + state.v.values / self.world.scene.fps
        state.frame += 1
        state.time += 1.0 / self.world.scene.fps
        if after_step is not None:
            after_step()
        if state.frame == self.explode_at:
            state.x.values[5, 1] = self.explode_to
        row = {"steps": 3, "contacts": state.frame, "collisions": 0, "zones": 0, "stretch": 0.01 * state.frame}
        return {**row, "status": "ok" if state.frame % 2 else "zone 3 gave up", "extra": float(m)}

    def velocities(self, state: FakeState) -> np.ndarray:
        """Others than the next frame goes on from, in every second one."""
        return (1 + state.frame % 2) * state.velocities()

    def state_columns(self, state):
        return {}

    def columns_after_check(self, state):
        return self.state_columns(state)

    def noted(self, state: FakeState) -> dict[str, np.ndarray]:
        """An edge and a triangle, another one in each frame."""
        return {"released": np.array([[state.frame % 5, 5, state.frame % 2]])}

    def saved(self) -> dict[str, np.ndarray]:
        return {"memory": self.memory}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        assert list(saved) == ["memory"]
        self.memory = saved["memory"]


def fake_compile(scene: weft.Scene) -> tuple[FakeWorld, FakeMethod]:
    world = FakeWorld(scene)
    return world, FakeMethod(world)


def fake_scene(frames: int = 4, **changes: Any) -> weft.Scene:
    """A scene without intersection checks; what is in it does not matter to the fake world, only that it differs."""
    cloth = weft.Cloth(name="sheet", shape=weft.Grid(cells=(1, 1)))
    return weft.Scene(name="fake", frames=frames, check=0, **{"cloths": [cloth], **changes})


def content(cache: Cache) -> list[Any]:
    """Everything that two equal runs have in common, bit for bit."""
    rows = [{k: v for k, v in row.items() if k != "wall_time"} for row in cache.report.rows()]
    frames = [(cache.positions(f).tobytes(), cache.velocities(f).tobytes()) for f in range(cache.frames)]
    saved = {k: v.tobytes() for k, v in cache.saved(-1).items()}
    noted = [cache.noted(f)["released"].tolist() for f in range(cache.frames)]
    return [rows, frames, saved, noted, cache.faces.tobytes()]


def files(root: Path) -> dict[str, bytes]:
    """All files below a folder except the lock, with their bytes."""
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name != "lock"
    }
