"""What a solver of `predictive` is made of, from the scene: its search for contacts, the numbers of a step, its colours."""

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import make_broad_phase
from weft.dynamics.packed_vertices import SHARED_CAPACITY
from weft.methods.predictive.arrays import Numbers
from weft.methods.predictive.defaults import usual_substeps
from weft.methods.predictive.fabric import Fabric
from weft.methods.predictive.partitioned_substeps import Places
from weft.methods.predictive.regions import Regions
from weft.methods.predictive.search import PredictiveSearch
from weft.methods.predictive.substeps import Offsets
from weft.runtime.cooperative import CLUSTER_BLOCKS
from weft.scene import Predictive
from weft.world import Surface, World

if TYPE_CHECKING:
    from weft.methods.predictive.solver import PredictiveSolver

# vertices of a part, where cloth has more of them than a cluster of blocks has room for
USUAL_PART = 640


def blocks_for(device: wp.Device, vertex_count: int) -> int:
    """How many blocks of a card share so many vertices; none of a CPU."""
    if device.is_cpu:
        return 0
    if vertex_count <= CLUSTER_BLOCKS * SHARED_CAPACITY:
        # these meet sooner
        return CLUSTER_BLOCKS
    return min(int(device.sm_count), -(-vertex_count // USUAL_PART))


def make_search(world: World, regions: Regions) -> PredictiveSearch:
    """The search for contacts of cloth with cloth: regions are its bodies."""
    count = world.cloth_vertex_count
    surface = Surface.from_arrays(
        count, world.cloth_faces, face_body=regions.face_region, body_pairs=regions.collide, device=world.device
    )
    return PredictiveSearch(
        make_broad_phase(world.scene.broad_phase or "bvh", surface, material=world.rest_shape.numpy()[:count]),
        regions,
        rest=world.rest_shape,
        thickness=world.thickness,
        inverse_mass=world.inverse_mass,
        friction=(world.friction_static, world.friction_kinetic),
        largest_thickness=world.largest_thickness,
        stitches=world.seams.nearest(),
    )


def make_settings(
    world: World, options: Predictive, fabric: Fabric, *, radius: float, goals: int, colliders: int
) -> wp.array:
    """The numbers that a step is told, one item."""
    forces = world.scene.forces
    numbers: Any = Numbers()
    numbers.gravity = wp.vec3d(*forces.gravity)
    numbers.air_damping = forces.air_damping
    numbers.push_speed = options.push_speed
    numbers.radius = radius
    numbers.collider_thickness = world.scene.thickness
    numbers.friction = 1.0
    numbers.vertices = world.cloth_vertex_count
    numbers.substeps, numbers.sweeps = options.substeps or usual_substeps(world, options), options.iterations
    numbers.quads, numbers.stitches = fabric.bend.count, fabric.stitches
    numbers.goals, numbers.colliders = goals, colliders
    numbers.windy = int(forces.wind is not None)
    return wp.array([numbers], dtype=Numbers, device=world.device)


def make_offsets(solver: "PredictiveSolver", attachments: np.ndarray, stop: wp.array) -> Any:
    """Where all colours start, as kernels take it."""
    fabric, halves, search, device = solver.fabric, solver.halves, solver.search, solver.device

    def upload(values: Any) -> wp.array:
        return wp.array(values, dtype=int, device=device)

    offsets: Any = Offsets()
    offsets.stretch, offsets.stop = fabric.stretch.starts, stop
    if solver.serial:
        # the kernel of the step says how many contacts and half-spaces there are
        offsets.bend = upload(np.unique([0, fabric.stitches, fabric.bend.count]))
        offsets.stitch_colours = int(fabric.stitches > 0)
        offsets.attachments = upload(np.unique([0, attachments[-1]]))
        offsets.contacts, offsets.order = upload([0, 0, 0]), upload([])
        offsets.half_counts, offsets.half_places = halves.count, upload([0])
        return offsets
    offsets.bend, offsets.stitch_colours = fabric.bend.starts, fabric.stitch_colours
    offsets.attachments = upload(attachments)
    offsets.contacts = upload([]) if search is None else search.colouring.offsets
    offsets.order = search.colouring.order if search is not None and solver.cached else upload([])
    offsets.half_counts, offsets.half_places = halves.counts, halves.places
    return offsets


def make_places(solver: "PredictiveSolver", attachments: np.ndarray, stop: wp.array) -> Any:
    """Where all parts lie, as kernels take it, and what contacts need."""
    fabric, halves, device = solver.fabric, solver.halves, solver.device
    assert fabric.parts is not None
    places: Any = Places()
    places.blocks, places.part = fabric.parts.blocks, fabric.parts.size
    plain = np.array_equal(fabric.parts.vertices, np.arange(solver.count))
    places.vertices = wp.array([] if plain else fabric.parts.vertices, dtype=int, device=device)
    places.stretch, places.bend = fabric.stages
    places.attachments = wp.array(attachments, dtype=int, device=device)
    places.half_counts, places.half_places = halves.counts, halves.places
    places.near, places.stop = solver.contacts.near, stop
    places.reservations, places.told = solver.reservations, solver.told
    return places
