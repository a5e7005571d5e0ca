# mypy: disable-error-code="arg-type, empty-body"
"""Long lists of candidates on CUDA are tested by two kernels: a light one rules out most pairs, a heavy one tests the rest.

A kernel with all tests needs so many registers that a multiprocessor holds 8 warps of it instead of 48, and almost all of
its threads only find that their pair is far apart. The light kernel appends the pairs that are left to a list, in any
order, and the heavy one goes through that list. The result does not depend on the order: each pair has its own mask bit
and numbers.
"""

from typing import Any

import warp as wp

from weft.contact.ccd_tests import (
    collision_distance,
    cull_collisions,
    edge_edge_collision,
    may_collide,
    vertex_triangle_collision,
)
from weft.contact.contact_tests import edge_edge_contact, vertex_triangle_contact
from weft.contact.execution_plan import WORD
from weft.contact.feature_bounds import PairMotion, approach
from weft.contact.lists import IGNORED_DISTANCE, CandidateList, bit
from weft.contact.step_surface import StepSurface, edges_sewn, vertex_triangle_sewn
from weft.runtime import launch
from weft.runtime.cooperative import take_ticket
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# threads of a heavy kernel: more than a GPU runs at once
THREADS = 2**16
# the cheap lower bound is kept only of distances above this, in m: nearer pairs need their exact distance, since the
# distance at which they collide depends on it (`collision_distance`)
EXACT_BELOW = 2.0e-4

_native = NativeHeader(__file__, "candidates.h")


@wp.func_native(_native.body("vertex_triangle_far_apart", EXACT_BELOW=EXACT_BELOW))
def vertex_triangle_bound(
    pair: wp.vec2i,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    reach: wp.float64,
) -> wp.float64:
    """A lower bound of the distance of a vertex and a triangle; 0 if they may come within reach."""
    ...


@wp.func_native(_native.body("edge_edge_far_apart", EXACT_BELOW=EXACT_BELOW))
def edge_edge_bound(
    pair: wp.vec2i,
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    reach: wp.float64,
) -> wp.float64:
    """A lower bound of the distance of two edges; 0 if they may come within reach."""
    ...


@wp.func
def far_vertex_triangle(
    surface: StepSurface, pair: wp.vec2i, motion: wp.array[wp.vec4d], other_motion: wp.array[wp.vec4d]
) -> wp.float64:
    """The bound of a vertex and a triangle of the surface."""
    return vertex_triangle_bound(pair, surface.faces, surface.x, motion, other_motion, surface.detection_distance)


@wp.func
def far_edge_edge(
    surface: StepSurface, pair: wp.vec2i, motion: wp.array[wp.vec4d], other_motion: wp.array[wp.vec4d]
) -> wp.float64:
    """The bound of two edges of the surface."""
    return edge_edge_bound(pair, surface.edges, surface.x, motion, other_motion, surface.detection_distance)


@wp.func
def leave(i: int, left: wp.array[int], left_count: wp.array[int]):
    """Append a pair to the list of those that are left."""
    left[take_ticket(left_count, 0)] = i


@wp.func
def choose(i: int, chosen: wp.array[wp.uint64]):
    """Set the bit of a pair."""
    wp.atomic_or(chosen, i // WORD, bit(i % WORD))


@wp.func
def clear_word(i: int, chosen: wp.array[wp.uint64]):
    """The first pair of each word clears it."""
    if i % WORD == 0:
        chosen[i // WORD] = wp.uint64(0)


def make_light(far: Any, sewn: Any) -> wp.Kernel:
    """The light kernel for contacts of one kind."""

    @wp.kernel
    def prefilter_contacts(
        first: int,
        pairs: wp.array[wp.vec2i],
        surface: StepSurface,
        motion: wp.array[wp.vec4d],
        other_motion: wp.array[wp.vec4d],
        distances: wp.array[wp.float64],
        chosen: wp.array[wp.uint64],
        left: wp.array[int],
        left_count: wp.array[int],
    ):
        """List the pairs that may be contacts, and write a bound of the distance of the others."""
        i = first + wp.tid()
        clear_word(i, chosen)
        pair = pairs[i]
        if surface.any_sewn != 0:
            if sewn(surface, pair):
                distances[i] = IGNORED_DISTANCE
                return
        apart = far(surface, pair, motion, other_motion)
        if apart > wp.float64(0.0):
            distances[i] = apart
        else:
            leave(i, left, left_count)

    return prefilter_contacts


def make_heavy(contact: Any) -> wp.Kernel:
    """The heavy kernel for contacts of one kind."""

    @wp.kernel
    def measure_left(
        first: int,
        pairs: wp.array[wp.vec2i],
        surface: StepSurface,
        distances: wp.array[wp.float64],
        chosen: wp.array[wp.uint64],
        left: wp.array[int],
        left_count: wp.array[int],
    ):
        """Distance of each pair that is left, and whether it is a contact."""
        for s in range(first + wp.tid(), left_count[0], THREADS):
            i = left[s]
            distance, is_contact = contact(surface, pairs[i])
            distances[i] = distance
            if is_contact:
                choose(i, chosen)

    return measure_left


def make_heavy_collide(collision: Any) -> wp.Kernel:
    """The heavy kernel for collisions of one kind."""

    @wp.kernel
    def collide_left(
        first: int,
        pairs: wp.array[wp.vec2i],
        surface: StepSurface,
        distances: wp.array[wp.float64],
        times: wp.array[wp.float64],
        chosen: wp.array[wp.uint64],
        left: wp.array[int],
        left_count: wp.array[int],
    ):
        """Whether and when each pair that is left collides."""
        for s in range(first + wp.tid(), left_count[0], THREADS):
            i = left[s]
            tolerance = collision_distance(distances[i], surface.tolerance_scale)
            collides, time = collision(surface, pairs[i], tolerance)
            if collides:
                choose(i, chosen)
                times[i] = time

    return collide_left


prefilter_vertex_triangle = make_light(far_vertex_triangle, vertex_triangle_sewn)
prefilter_edge_edge = make_light(far_edge_edge, edges_sewn)
measure_left_vertex_triangle = make_heavy(vertex_triangle_contact)
measure_left_edge_edge = make_heavy(edge_edge_contact)
collide_left_vertex_triangle = make_heavy_collide(vertex_triangle_collision)
collide_left_edge_edge = make_heavy_collide(edge_edge_collision)


@wp.kernel
def prefilter_collisions(
    first: int,
    pairs: wp.array[wp.vec2i],
    motion: PairMotion,
    scale: wp.float64,
    distances: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    left_count: wp.array[int],
):
    """List the pairs that may collide; the light kernel for collisions of both kinds."""
    i = first + wp.tid()
    clear_word(i, chosen)
    may = cull_collisions(pairs, i, 1, motion, distances, scale)
    if may != wp.uint64(0):
        pair = pairs[i]
        if may_collide(distances[i], approach(motion, pair), scale):
            leave(i, left, left_count)


@wp.kernel
def count_chosen(first: int, chosen: wp.array[wp.uint64], counts: wp.array[int]):
    """How many candidates of each word are chosen."""
    i = first + wp.tid()
    rest = chosen[i]
    count = int(0)
    while rest != wp.uint64(0):
        rest &= rest - wp.uint64(1)
        count += 1
    counts[i] = count


def run_prefiltered(
    candidates: CandidateList, light: wp.Kernel, light_inputs: list[Any], heavy: wp.Kernel, heavy_inputs: list[Any]
) -> None:
    """Choose candidates with a light and a heavy kernel, given what each takes besides the pairs and the lists."""
    device = candidates.device
    lists = [candidates.chosen, *candidates.left_buffers()]
    launch(light, candidates.count, [candidates.pairs, *light_inputs, *lists], device=device)
    launch(heavy, THREADS, [candidates.pairs, *heavy_inputs, *lists], device=device)
    launch(count_chosen, candidates.batches, [candidates.chosen, candidates.counts], device=device)
