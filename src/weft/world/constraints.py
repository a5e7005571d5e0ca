"""Directions in which vertices may not move freely during an implicit step, and where they go instead."""

from typing import Protocol

import warp as wp

from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})

# who holds a vertex
NOBODY = wp.constant(0)
PRESCRIBED = wp.constant(1)
SOLID = wp.constant(2)
FLYPAPER = wp.constant(3)

# what a restraint thinks of a solve: as it should be, not quite, not to be left so
SETTLED, UNSURE, WRONG = range(3)


@wp.struct
class Held:
    """The arrays of `Constraints`, for kernels."""

    directions: wp.array[int]
    owner: wp.array[int]
    filters: wp.array[wp.mat33d]
    velocity: wp.array[wp.vec3d]
    shift: wp.array[wp.vec3d]
    push: wp.array[wp.vec3d]


@wp.func
def let_go(i: int, held: Held):
    """The vertex is free."""
    held.directions[i] = 0
    held.owner[i] = NOBODY
    held.shift[i] = wp.vec3d()
    held.push[i] = wp.vec3d()


@wp.func
def hold(i: int, owner: int, velocity: wp.vec3d, shift: wp.vec3d, held: Held):
    """The vertex ends with this velocity, whatever pulls at it."""
    held.directions[i] = 3
    held.owner[i] = owner
    held.filters[i] = wp.mat33d()
    held.velocity[i] = velocity
    held.shift[i] = shift
    held.push[i] = wp.vec3d()


@wp.kernel
def hold_prescribed(
    first: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    held: Held,
):
    """Vertices without inverse mass go to their goal, all others are free."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        hold(i, PRESCRIBED, (goal[i] - x[i]) / h, wp.vec3d(), held)
    else:
        let_go(i, held)


class Constraints:
    """For each cloth vertex: a filter, the velocity it must end with, and a correction of its position.

    A vertex with `directions` > 0 may change its velocity only in the range of its filter; in as many directions beside
    it ends the step with `velocity`. `shift` moves it at once, on top of the way its velocity takes it: a place can
    then be reached in one step without the speed that this would take.
    """

    def __init__(self, vertex_count: int, device: wp.DeviceLike) -> None:
        self.count = vertex_count
        self.device = device
        self.directions = wp.zeros(vertex_count, dtype=int, device=device)
        """how many are constrained: 0 to 3"""
        self.owner = wp.zeros(vertex_count, dtype=int, device=device)
        """who holds the vertex; others leave it alone"""
        self.filters = wp.zeros(vertex_count, dtype=wp.mat33d, device=device)
        """projection onto the free directions; read where some are constrained"""
        self.velocity = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        self.shift = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        """position correction in m; zero where a vertex is free"""
        self.push = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        """a force in N that comes with a constraint, such as friction; zero where a vertex is free"""
        self.held = Held()
        for name in ("directions", "owner", "filters", "velocity", "shift", "push"):
            setattr(self.held, name, getattr(self, name))

    def begin(self, inverse_mass: wp.array, x: wp.array, goal: wp.array, h: float) -> None:
        """Start a step: only the prescribed vertices are held."""
        launch(hold_prescribed, self.count, [inverse_mass, x, goal, h, self.held], device=self.device)


class Restraint(Protocol):
    """Something that constrains vertices during an implicit step: contact with solids, flypapering."""

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Add constraints for a step from x, in which prescribed vertices and colliders go straight to `goal`."""

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Look at the end of the step and at the forces that the constraints take, and change them where needed.

        Gives SETTLED, or UNSURE or WRONG, which ask for another solve.
        """
