"""What `weft play` keeps: a recording of what is shown as a cache, and a moment as the start of a scene."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.cache import Body, CacheWriter
from weft.mesh import TriMesh
from weft.run.checks import EdgeStrains, frame_status
from weft.run.crossing_guard import CrossingGuard
from weft.scene import Placement, Scene, Still, rotation, save_scene

Floats = npt.NDArray[np.float64]

# s: a recording that nobody stops ends by itself
LONGEST = 600.0
# a collider stands where the scene has placed it if no number of its pose differs by more, m and cosines
UNMOVED = 1e-9


class Recording:
    """A cache in the current folder that gets a frame at every step, until `stop`."""

    def __init__(self, live: Any, name: str, dt: float) -> None:
        self.path = free_name(name, "take", ".zarr")
        self._live, self._dt = live, dt
        world = live.world
        self._first = world.cloth_vertex_count
        self._colliders = [body.name for body in world.bodies if body.kind == "collider"]
        meshes = [*(cloth.mesh for cloth in world.cloths), *world.collider_meshes]
        self._strains = EdgeStrains(world)
        self._limit = round(LONGEST / dt)
        self._writer = CacheWriter.create(
            self.path,
            frames=self._limit,
            faces=world.faces,
            bodies=[Body(b.name, b.kind, b.vertices, b.faces) for b in world.bodies],
            fps=1.0 / dt,
            origin={"play": {"scene": name}},
            details=[mesh.details for mesh in meshes],
        )
        self._guard = CrossingGuard(world)
        self._before: Floats | None = None
        self.add(live)

    @property
    def full(self) -> bool:
        """Whether it has become as long as recordings may be."""
        return self._writer.frames >= self._limit

    def add(self, live: Any) -> int:
        """Write the state of a simulation of the same bodies as the next frame; gives its number."""
        parts = [np.array(live.positions), *(live.collider_mesh(name)[0] for name in self._colliders)]
        positions = np.concatenate(parts)
        velocities = np.zeros_like(positions)
        velocities[: self._first] = live.velocities
        if self._before is not None:
            velocities[self._first :] = (positions - self._before)[self._first :] / self._dt
        self._before = positions
        report, frame = live.report, self._writer.frames
        row = {
            "frame": frame,
            "time": frame * self._dt,
            "wall_time": 0.0,
            **{key: int(report.get(key, 0)) for key in ("steps", "contacts", "collisions", "zones")},
            "stretch": self._strains.quantile(positions, 1.0),
            "stretch_99": self._strains.quantile(positions, 0.99),
            "intersections": -1,
            "status": "ok",
        }
        if "status" in report:
            row.update({key: report[key] for key in ("intersections", "status")})
        else:
            x: wp.array = wp.array(positions, dtype=wp.vec3d, device=live.world.device)
            row["intersections"] = len(self._guard.find(x))
            row["status"] = frame_status(row)
        return self._writer.append(positions, velocities, row)

    def stop(self) -> str:
        """Complete the cache; gives a sentence about it."""
        frames = self._writer.frames
        self._writer.end()
        self._writer.close()
        return f"{frames} frames are in {self.path}: weft view {self.path}"


def save_start(scene: Scene, live: Any) -> str:
    """Write a scene that starts as a simulation is now, to the current folder; gives a sentence about it."""
    path = free_name(scene.name, "start", ".toml")
    start, stopped = scene_from(scene, live)
    save_scene(start, path)
    left = f"; {', '.join(stopped)} stand{'s' * (len(stopped) == 1)} still there" if stopped else ""
    return f"saved {path}{left}"


def scene_from(scene: Scene, live: Any) -> tuple[Scene, list[str]]:
    """The scene with cloth and colliders where a simulation has them, at rest; and the names of colliders that were moved.

    A collider that is not where the scene places it loses its motion: it would begin at another place.
    """
    cloths = [
        cloth.replace(
            start=TriMesh(np.array(live.positions[live.cloth(cloth.name)]), live.cloth_faces(cloth.name)),
            velocity=(0.0, 0.0, 0.0),
        )
        for cloth in scene.cloths
    ]
    colliders, stopped, poses = [], [], live.poses
    for collider in scene.colliders:
        moved: dict[str, Any] = {}
        pose = poses.get(collider.name)
        if pose is None:
            # it deforms: its mesh as it is now
            vertices, faces = live.collider_mesh(collider.name)
            moved = {
                "mesh": TriMesh(np.array(vertices), faces),
                "placement": Placement(),
                "object": None,
                "array": None,
            }
        else:
            own = collider.placement
            there = np.column_stack([rotation.euler_matrix(own.rotation_deg), own.position])
            if np.abs(np.asarray(pose)[:3] - there).max() > UNMOVED:
                angles = tuple(rotation.euler_angles(np.asarray(pose)[:3, :3]).tolist())
                position = tuple(np.asarray(pose)[:3, 3].tolist())
                moved = {"placement": own.replace(position=position, rotation_deg=angles)}
        if moved:
            stopped.append(collider.name)
            collider = collider.replace(motion=Still(), **moved)
        colliders.append(collider)
    return scene.replace(cloths=tuple(cloths), colliders=tuple(colliders)), stopped


def free_name(name: str, what: str, ending: str) -> Path:
    """A path in the current folder that nothing is at yet: napkin-take-1.zarr."""
    stem = re.sub(r"[^\w.-]", "_", name)
    return next(p for k in itertools.count(1) if not (p := Path(f"{stem}-{what}-{k}{ending}")).exists())
