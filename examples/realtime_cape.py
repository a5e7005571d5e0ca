"""A character of a game in a cape, stepped from the game's loop: `weft.Realtime` with all that it offers.

The character sprints, turns on its heel, stops and swings a sword. Its cape follows the skinned animation within painted
distances, with backstops behind it; it feels a part of the motion of the character only. The body is a skinned mesh,
which is deformed in every frame; the sword is a collider that is there while it is drawn. The screen sees a fine mesh that is
bound to the cape. Prints what a frame costs, and ends with a check of each promise.
"""

import argparse
import time

import numpy as np
from common import CheckError, expect

import weft
from weft.mesh import shapes
from weft.mesh.anchors import nearest_on_mesh

DT = 1 / 60
SPRINT, STAND = 2.0, 5.0
# of the cape at rest: width, length (m), cells
CAPE = (0.5, 1.1), (15, 30)
# how far the hem of the cape may leave the animation, m
HEM = 0.6


def body() -> weft.TriMesh:
    """A torso that stands on the ground, wide at the shoulders."""
    return shapes.capsule(0.16, 1.1, end_radius=0.21, segments=24, rings=6, bands=10).transformed(
        _pose(0.0, (0, 0.8, 0))
    )


def scene() -> weft.Scene:
    """The character at the origin, its cape hanging from the shoulders behind it; it looks along +z."""
    (width, length), cells = CAPE
    place = weft.Placement(position=(0.0, 1.4 - 0.5 * length, -0.235), rotation_deg=(90, 180, 0))
    cape = weft.Cloth(
        name="cape", shape=weft.Grid(size=(width, length), cells=cells), placement=place, material="cotton"
    )
    sword = weft.Capsule(radius=0.01, end_radius=0.02, length=0.9)
    return weft.Scene(
        name="cape",
        fps=60,
        cloths=[cape],
        colliders=[
            weft.Collider(name="body", mesh=body(), friction=0.2),
            weft.Collider(name="sword", shape=sword, analytic=True, placement={"position": (0, -5, 0)}),
            weft.Collider(name="ground", shape=weft.Plane(), analytic=True),
        ],
        forces=weft.Forces(air_damping=0.8),
        method=weft.Predictive(self_contacts="triangles"),
    )


def root_at(t: float) -> np.ndarray:
    """Where the character stands: it sprints along x at 6 m/s, turns on its heel, sprints back, and stands still."""
    way = 6.0 * (t if t < 0.5 * SPRINT else max(SPRINT - t, 0.0))
    heading = 90.0 + 180.0 * np.clip((t - 0.5 * SPRINT + 0.1) / 0.2, 0.0, 1.0)
    return _pose(heading, (way, 0.05 * abs(np.sin(10.0 * t)) if t < SPRINT else 0.0, 0.0))


def lean(points: np.ndarray, t: float) -> np.ndarray:
    """The skinning of the character, in its own frame: the upper body leans forward while it sprints, and breathes."""
    angle = (0.35 * min(t / 0.2, 1.0) if t < SPRINT else 0.35 * max(1.0 - (t - SPRINT) / 0.3, 0.0)) * points[:, 1] / 1.4
    moved = points.copy()
    moved[:, 2] += np.sin(angle) * points[:, 1]
    moved[:, 1] *= np.cos(angle)
    return moved


def _pose(heading: float, position: tuple[float, float, float]) -> np.ndarray:
    c, s = np.cos(np.radians(heading)), np.sin(np.radians(heading))
    return np.array([[c, 0, s, position[0]], [0, 1, 0, position[1]], [-s, 0, c, position[2]], [0, 0, 0, 1.0]])


def carry(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


def play(quick: bool = True) -> dict[str, object]:
    """The loop of the game; gives what it found."""
    cloth = weft.Realtime(scene(), sleep=True)
    skin, mesh = cloth.positions.copy(), body().vertices
    below = 1.4 - skin[:, 1]
    # the shoulders are held, and the farther below them, the freer it is
    limit = np.where(below < 0.02, 0.0, 0.05 + HEM * below / below.max())
    cloth.paint("cape", max_distance=limit, stiffness=0.3, damping=1.0, backstop_distance=0.03, backstop_radius=1.0)
    cloth.change(velocity_scale=0.5, inertia_scale=0.3)
    cloth.enable("sword", False)
    # the root goes along, and nothing is swept
    start = root_at(0.0)
    cloth.teleport(start)
    fine = shapes.grid(CAPE[0], (60, 120))
    fine = cloth.bind("cape", weft.TriMesh(carry(start, _hung(fine.vertices)), fine.faces))

    costs, farthest, deepest, slept = [], 0.0, np.inf, False
    for k in range(1, round((SPRINT + (STAND if quick else 2 * STAND)) / DT)):
        t = k * DT
        root = root_at(t)
        place = carry(root, lean(skin, t))
        begin = time.process_time()
        cloth.root[:] = root
        cloth.animate("cape", place)
        cloth.deform("body", carry(root, lean(mesh, t)))
        if t > SPRINT:
            # the sword is drawn, and swings behind the back once
            cloth.enable("sword", t < SPRINT + 0.6)
            angle = 300.0 * (t - SPRINT)
            cloth.poses["sword"][:] = root @ _pose(angle, (0.0, 0.7, 0.0)) @ _lying(0.75)
        cloth.step(DT)
        costs.append(time.process_time() - begin)
        away = np.linalg.norm(cloth.positions - place, axis=1)
        farthest = max(farthest, float((away - limit).max()))
        if k % 5 == 0:
            deepest = min(deepest, _least_gap(cloth.positions, *cloth.collider_mesh("body")))
        slept = slept or cloth.asleep
        expect(
            f"at {t:.2f} s everything is finite", np.isfinite(fine.positions).all() and np.isfinite(fine.normals).all()
        )
    expect(f"no vertex leaves the animation by more than its distance ({1e3 * farthest:.1f} mm over)", farthest < 0.02)
    expect(f"no vertex is inside the body ({1e3 * deepest:.1f} mm)", deepest > -0.01)
    expect("the cape comes to rest and sleeps", slept)
    lengths = np.linalg.norm(fine.normals, axis=1)
    expect("the mesh of the screen has unit normals", np.allclose(lengths, 1.0))
    return {
        "vertices of the cape, of the mesh on the screen": f"{len(cloth.positions)}, {len(fine.positions)}",
        "median cost of a frame": f"{1e3 * float(np.median(costs[: round(SPRINT / DT)])):.2f} ms of processor time",
        "asleep": f"{1e3 * float(np.median(costs[-10:])):.2f} ms",
        "farthest beyond its distance": f"{1e3 * max(farthest, 0.0):.1f} mm",
        "nearest to the surface of the body": f"{1e3 * deepest:.1f} mm",
    }


def _hung(points: np.ndarray) -> np.ndarray:
    """A flat sheet, hung as the cape is in the scene."""
    return points @ scene().cloths[0].placement.matrix()[:3, :3].T + scene().cloths[0].placement.position


def _least_gap(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> float:
    """The least distance of points from a closed mesh, negative inside."""
    triangle, weights = nearest_on_mesh(points, vertices, faces)
    corners = vertices[faces[triangle]]
    away = points - np.einsum("nk,nki->ni", weights, corners)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    side = np.sign(np.einsum("nk,nk->n", away, normal))
    return float((side * np.linalg.norm(away, axis=1)).min())


def _lying(distance: float) -> np.ndarray:
    """A capsule that lies along z, in front of the origin."""
    return np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, distance], [0, 0, 0, 1.0]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="twice as long")
    options = parser.parse_args()
    try:
        found = play(not options.full)
    except CheckError as error:
        raise SystemExit(f"realtime_cape: {error}") from None
    for key, value in found.items():
        print(f"{key}: {value}")
    print("checked: realtime_cape is as it should be")
