"""What `predictive` chooses where the scene says nothing."""

import numpy as np
import warp as wp

from weft.scene import Predictive
from weft.world import World

# default of the static collision radius, in mean lengths of edges
RADIUS_PART = 0.5
# one sweep a substep lets hanging cloth sag as if it were softer: this much, in parts of an edge, is let pass
SAG = 0.1
LEAST_SUBSTEPS = 4
# an edge that is longer by this part than at rest asks for as many substeps again, where the scene allows more
STRETCHED = wp.constant(0.5)


def usual_radius(world: World) -> float:
    """The static collision radius, where the scene has none."""
    lengths = np.concatenate([part.mesh.rest_lengths for part in world.cloths])
    return max(RADIUS_PART * float(lengths.mean()), world.largest_thickness)


def usual_substeps(world: World, options: Predictive) -> int:
    """As many as keep the longest cloth from stretching more than a little under its weight.

    The uppermost of n edges carries n vertices, which fall by g h^2 in a substep before a sweep stops them; one
    sweep gives it an error of about that times n.
    """
    scene = world.scene
    dt = 1.0 / scene.fps / options.steps
    gravity = float(np.linalg.norm(scene.forces.gravity))
    most = LEAST_SUBSTEPS
    for part in world.cloths:
        edge = float(part.mesh.rest_lengths.mean())
        shape = part.mesh.vertices if part.mesh.uv is None else part.mesh.uv
        length = float(np.ptp(shape, axis=0).max())
        h = edge * np.sqrt(SAG * options.iterations / max(gravity * length, 1e-9))
        most = max(most, int(np.ceil(dt / h)))
    return most


def refined_substeps(substeps: int, most: int | None, stretch: float) -> int:
    """More substeps, up to so many, where an edge is stretched far: few are enough for calm cloth."""
    return (
        substeps
        if most is None
        else max(substeps, min(most, substeps * (1 + int(max(stretch, 0.0) / float(STRETCHED)))))
    )


@wp.func
def substeps_for(substeps: int, most: int, stretch: wp.float64) -> int:
    """The same in a kernel; most = 0: no more."""
    times = 1 + int(wp.max(stretch, wp.float64(0.0)) / wp.float64(STRETCHED))
    return wp.max(substeps, wp.min(most, substeps * times))
