"""Directions in which vertices may not move freely during an implicit step, and where they go instead."""

from typing import Protocol

import warp as wp

from weft.world.launch import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def hold_prescribed(
    first: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    velocity: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
):
    """Vertices without inverse mass go to their goal, all others are free."""
    i = first + wp.tid()
    held[i] = 0
    shift[i] = wp.vec3d()
    if inverse_mass[i] == wp.float64(0.0):
        held[i] = 3
        filters[i] = wp.mat33d()
        velocity[i] = (goal[i] - x[i]) / h


class Constraints:
    """For each cloth vertex: a filter, the velocity it must end with, and a correction of its position.

    A vertex with `held` > 0 may change its velocity only in the range of its filter; in the `held` directions beside
    it ends the step with `velocity`. `shift` moves it at once, on top of the way its velocity takes it: a place can
    then be reached in one step without the speed that this would take.
    """

    def __init__(self, vertex_count: int, device: wp.DeviceLike) -> None:
        self.count = vertex_count
        self.device = device
        self.held = wp.zeros(vertex_count, dtype=int, device=device)
        """how many directions are constrained: 0 to 3"""
        self.filters = wp.zeros(vertex_count, dtype=wp.mat33d, device=device)
        """projection onto the free directions; read where held > 0"""
        self.velocity = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        self.shift = wp.zeros(vertex_count, dtype=wp.vec3d, device=device)
        """position correction in m; zero where a vertex is free"""

    def begin(self, inverse_mass: wp.array, x: wp.array, goal: wp.array, h: float) -> None:
        """Start a step: only the prescribed vertices are held."""
        inputs = [inverse_mass, x, goal, h, self.held, self.filters, self.velocity, self.shift]
        launch(hold_prescribed, self.count, inputs, device=self.device)


class Restraint(Protocol):
    """Something that constrains vertices during an implicit step: contact with solids, flypapering."""

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Add constraints for a step from x, in which prescribed vertices and colliders go straight to `goal`."""

    def review(self, x_end: wp.array, force: wp.array, constraints: Constraints) -> bool:
        """Look at the end of the step and at the forces that the constraints take; True asks for another solve."""

    def finish(self, x_end: wp.array, v_end: wp.array, force: wp.array) -> None:
        """Change the end of the step where something is left to do, such as friction."""
