"""Velocity constraints of vertices during an implicit step, as in Baraff and Witkin (1998), section 5.

A constraint says in which directions a vertex may not move freely, and the velocity that it has there instead.
"""

from typing import Protocol

import warp as wp

from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})

# what constrains a vertex
NOBODY = wp.constant(0)
PRESCRIBED = wp.constant(1)
SOLID = wp.constant(2)
FLYPAPER = wp.constant(3)

# what a source of constraints says of the result of a solve: its constraints are right; some may be wrong, and another solve
# would tell; some are wrong, and the step must not end so
SETTLED, UNSURE, WRONG = range(3)


@wp.struct
class ConstraintArrays:
    """The arrays of `Constraints` as kernels take them."""

    directions: wp.array[int]
    owner: wp.array[int]
    filters: wp.array[wp.mat33d]
    velocity: wp.array[wp.vec3d]
    shift: wp.array[wp.vec3d]
    push: wp.array[wp.vec3d]


@wp.func
def release(i: int, held: ConstraintArrays):
    """Free vertex i of its constraint."""
    held.directions[i] = 0
    held.owner[i] = NOBODY
    held.shift[i] = wp.vec3d()
    held.push[i] = wp.vec3d()


@wp.func
def hold(i: int, owner: int, velocity: wp.vec3d, shift: wp.vec3d, held: ConstraintArrays):
    """Constrain all directions of vertex i: it ends the step with this velocity, whatever forces act on it."""
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
    held: ConstraintArrays,
):
    """Vertices of inverse mass 0 are held on the way to their goal, all others are free."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        hold(i, PRESCRIBED, (goal[i] - x[i]) / h, wp.vec3d(), held)
    else:
        release(i, held)


class Constraints:
    """For each cloth vertex: a filter, the velocity it must end the step with, and a correction of its position.

    The velocity of a vertex with `directions` > 0 is free in the range of its filter only; in the other directions it ends the
    step as `velocity`. `shift` moves the vertex in addition to its velocity, so that it can reach a position within a step
    without keeping the speed that this would take.
    """

    def __init__(self, vertex_count: int, device: wp.DeviceLike) -> None:
        self.count = vertex_count
        self.device = device
        self.directions = wp.zeros(vertex_count, dtype=int, device=device)
        """how many directions are constrained: 0 to 3"""
        self.owner = wp.zeros(vertex_count, dtype=int, device=device)
        """what constrains the vertex; other sources leave it alone"""
        self.filters = wp.zeros(vertex_count, dtype=wp.mat33d, device=device)
        """projections onto the free directions; undefined where `directions` is 0"""
        self.velocity = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        self.shift = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        """position correction in m; zero where a vertex is free"""
        self.push = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        """a force in N that comes with a constraint, such as friction; zero where a vertex is free"""
        self.held = ConstraintArrays()
        for name in ("directions", "owner", "filters", "velocity", "shift", "push"):
            setattr(self.held, name, getattr(self, name))

    def begin(self, inverse_mass: wp.array, x: wp.array, goal: wp.array, h: float) -> None:
        """Start a step of length h from x: only the prescribed vertices are constrained, and go to `goal`."""
        launch(hold_prescribed, self.count, [inverse_mass, x, goal, h, self.held], device=self.device)


class ConstraintSource(Protocol):
    """What adds constraints during an implicit step: contact with solids, flypapering."""

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Add constraints for a step from x, in which prescribed vertices and colliders go straight to `goal`."""

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Given the end of the step and the forces that the constraints exert, change the constraints where needed.

        Returns SETTLED, or UNSURE or WRONG, which ask for another solve.
        """
