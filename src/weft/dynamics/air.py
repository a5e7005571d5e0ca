"""Air: wind with gusts, and its drag and lift on each triangle.

With u the wind relative to the triangle, n its normal and rho the density of air, the force on a triangle of area A is

    rho A / 2 ( drag |u.n| u  +  lift (u.n) |u| (n - (n.u) u / |u|^2) )

which vanishes when the air flows along the cloth, is along u when it flows along the normal, and has a component at right
angles to u in between. Gusts change the speed of the wind in time and from place to place: four waves that travel with the
wind, with phases from the scene's seed, so that a run can be repeated.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.mesh.topology import incidence
from weft.runtime import launch
from weft.scene import Forces, Wind
from weft.world import World

wp.set_module_options({"enable_backward": False})

# kg/m^3, at sea level and 15 degrees C
AIR_DENSITY = 1.225
# sine waves of a gust: the components of a vec4d
WAVES = 4
# how much gusts turn the wind to the side, as a fraction of how much they change its speed; and by how much faster the wave of
# the turn is, so that turn and speed do not repeat together. More turn lets
# flags sway sideways
TURN, TURN_RATE, TURN_NUMBER = 0.3, 1.3, 0.7


@wp.struct
class WindField:
    """The wind of a scene, for kernels."""

    velocity: wp.vec3d
    drag: wp.float64
    """rho * drag / 2"""
    lift: wp.float64
    """rho * lift / 2"""
    gust: wp.float64
    frequency: wp.vec4d
    """of each wave, rad/s"""
    phase: wp.vec4d
    number: wp.vec4d
    """of each wave, rad/m along the wind"""
    across: wp.vec3d
    """direction in which gusts turn the wind"""


@wp.func
def wind_at(wind: WindField, x: wp.vec3d, time: wp.float64) -> wp.vec3d:
    """The velocity of the air at a place and time."""
    speed = wp.length(wind.velocity)
    if speed == wp.float64(0.0):
        return wind.velocity
    along = wp.dot(x, wind.velocity) / speed
    aside = wp.dot(x, wind.across)
    push = wp.float64(0.0)
    turn = wp.float64(0.0)
    for k in range(4):
        angle = wind.frequency[k] * time - wind.number[k] * along + wind.phase[k]
        push += wp.sin(angle)
        turn += wp.cos(wp.float64(TURN_RATE) * angle + wp.float64(TURN_NUMBER) * wind.number[k] * aside)
    # four waves of amplitude one half: a gust of strength 1 reaches about twice the mean speed
    amplitude = wp.float64(0.5) * wind.gust
    return (wp.float64(1.0) + amplitude * push) * wind.velocity + amplitude * wp.float64(
        TURN
    ) * speed * turn * wind.across


@wp.func
def wind_force(
    wind: WindField,
    a: wp.vec3d,
    b: wp.vec3d,
    c: wp.vec3d,
    velocity: wp.vec3d,
    time: wp.float64,
) -> wp.vec3d:
    """The force on a triangle (a, b, c) that moves with the given velocity."""
    third = wp.float64(1.0) / wp.float64(3.0)
    normal = wp.cross(b - a, c - a)
    doubled = wp.length(normal)
    u = wind_at(wind, third * (a + b + c), time) - velocity
    speed = wp.length(u)
    if doubled == wp.float64(0.0) or speed == wp.float64(0.0):
        return wp.vec3d()
    n = normal / doubled
    area = wp.float64(0.5) * doubled
    un = wp.dot(u, n)
    drag = wind.drag * wp.abs(un) * u
    lift = wind.lift * un * speed * (n - un / (speed * speed) * u)
    return area * (drag + lift)


@wp.func
def blow_face(
    i: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    wind: WindField,
    mass: wp.array[wp.float64],
    time: wp.float64,
    dt: wp.float64,
    force: wp.array[wp.vec3d],
):
    """The force of the wind on each corner of a triangle: a third of that on the triangle.

    Within a step of dt the force on light cloth falls as the cloth moves with the wind: it is divided by 1 + dt F'/m, with F'
    a bound of its derivative by the velocity, which keeps a step of any length stable (dt = 0: the force without that).
    """
    f = faces[i]
    third = wp.float64(1.0) / wp.float64(3.0)
    velocity = third * (v[f[0]] + v[f[1]] + v[f[2]])
    blow = wind_force(wind, x[f[0]], x[f[1]], x[f[2]], velocity, time)
    if dt > wp.float64(0.0):
        u = wind_at(wind, third * (x[f[0]] + x[f[1]] + x[f[2]]), time) - velocity
        area = wp.float64(0.5) * wp.length(wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]]))
        slope = wp.float64(2.0) * (wind.drag + wind.lift) * area * wp.length(u)
        blow = blow / (wp.float64(1.0) + dt * slope / mass[i])
    force[i] = third * blow


@wp.kernel
def blow_faces(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    wind: WindField,
    mass: wp.array[wp.float64],
    time: wp.float64,
    dt: wp.float64,
    force: wp.array[wp.vec3d],
):
    """The force of the wind on each triangle, to be held for a step of dt."""
    blow_face(first + wp.tid(), x, v, faces, wind, mass, time, dt, force)


@wp.kernel
def blow_faces_now(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    wind: WindField,
    mass: wp.array[wp.float64],
    now: wp.array[wp.vec2d],
    force: wp.array[wp.vec3d],
):
    """The force of the wind on each triangle at the time now[0][0], which is on the device."""
    blow_face(first + wp.tid(), x, v, faces, wind, mass, now[0][0], wp.float64(0.0), force)


class Air:
    """Gravity, the damping of still air, and wind, for the vertices and triangles of the cloths."""

    def __init__(
        self,
        forces: Forces,
        faces: np.ndarray,
        vertex_count: int,
        *,
        face_mass: np.ndarray | None = None,
        seed: int = 0,
        device: wp.DeviceLike = "cpu",
    ) -> None:
        self.gravity = wp.vec3d(*forces.gravity)
        self.damping = forces.air_damping
        self.wind = None if forces.wind is None else _wind_field(forces.wind, seed)
        blown = faces if self.wind is not None else np.zeros((0, 3), np.int32)
        offsets, items = incidence(blown, vertex_count)
        self.faces = wp.array(blown, dtype=wp.vec3i, device=device)
        self.force = wp.zeros(len(blown), dtype=wp.vec3d, device=device)
        masses = np.full(len(blown), np.inf) if face_mass is None else face_mass[: len(blown)]
        self.face_mass = wp.array(masses, dtype=wp.float64, device=device)
        # offsets and entries of the triangles at each vertex (entry // 3 is the triangle), and the force on each corner
        self.lists = (
            wp.array(offsets, dtype=int, device=device),
            wp.array(items, dtype=int, device=device),
            self.force,
        )

    @classmethod
    def from_world(cls, world: World) -> "Air":
        scene = world.scene
        masses = [cloth.material.density * cloth.mesh.rest_areas for cloth in world.cloths]
        return cls(
            scene.forces,
            world.cloth_faces,
            world.vertex_count,
            face_mass=np.concatenate([np.zeros(0), *masses]),
            seed=scene.seed,
            device=world.device,
        )

    def blow(self, x: wp.array, v: wp.array, time: float, dt: float = 0.0) -> None:
        """Compute the force of the wind on each triangle, to be held for a step of dt."""
        if self.wind is not None:
            inputs = [x, v, self.faces, self.wind, self.face_mass, time, dt, self.force]
            launch(blow_faces, len(self.force), inputs, device=self.faces.device)

    def blow_now(self, x: wp.array, v: wp.array, now: wp.array) -> None:
        """Compute the force of the wind on each triangle at the time now[0][0], which is on the device."""
        if self.wind is not None:
            inputs = [x, v, self.faces, self.wind, self.face_mass, now, self.force]
            launch(blow_faces_now, len(self.force), inputs, device=self.faces.device)


def _wind_field(wind: Wind, seed: int) -> Any:
    """A `WindField` from the wind of a scene."""
    velocity = np.asarray(wind.velocity, float)
    speed = float(np.linalg.norm(velocity))
    random = np.random.default_rng(seed if wind.seed is None else wind.seed)
    # frequencies less than an octave apart in no simple ratios, so that the sum does not repeat soon
    spread = 2.0 ** np.array([0.0, 0.73, 1.31, 2.17]) * random.uniform(0.9, 1.1, WAVES)
    frequency = 2.0 * np.pi / wind.gust_period * spread
    across = np.cross(velocity, [0.0, 1.0, 0.0])
    if np.linalg.norm(across) < 1e-9 * max(speed, 1.0):
        across = np.array([1.0, 0.0, 0.0])
    field = WindField()
    field.velocity = wp.vec3d(*velocity)
    field.drag = wp.float64(0.5 * AIR_DENSITY * wind.drag)
    field.lift = wp.float64(0.5 * AIR_DENSITY * wind.lift)
    field.gust = wp.float64(wind.gust)
    field.frequency = wp.vec4d(*frequency)
    field.phase = wp.vec4d(*random.uniform(0.0, 2.0 * np.pi, WAVES))
    field.number = wp.vec4d(*(frequency / max(speed, 1e-3)))
    field.across = wp.vec3d(*(across / np.linalg.norm(across)))
    return field
