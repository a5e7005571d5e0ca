"""A Gauss-Seidel sweep over contacts, colour by colour, inside a cooperative kernel.

Contacts of one colour share no movable vertex, so all threads solve them at the same time, and wait for each other
between two colours. The sweeps over velocities (`impulses`) and over positions in substeps (`methods/robust/substep_contacts`)
run this way; each has its own functions that load, test and solve one contact.

Two things hide latency. While threads wait at the barrier between two colours, each already loads its first contact
of the next colour. And most contacts need no correction: a CPU thread tests up to 64 of them without a branch, then
solves those whose bit is set.
"""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.stencil_colours import COLOURS
from weft.runtime.cooperative import arrive_between, partition_begin, partition_end, partition_step, wait_between
from weft.runtime.native import NativeHeader, load_vec4i

wp.set_module_options({"enable_backward": False})

# contacts that a CPU thread tests before it solves the first of them: one bit each in a 64-bit mask
BATCH = 64

_native = NativeHeader(__file__, "gauss_seidel.h")


@wp.func_native(_native.body("batch_size", BATCH=BATCH))
def batch_size() -> int:
    """How many contacts are tested together: 64 on a CPU, 1 on CUDA."""
    ...


@wp.func_native(_native.body("active_mask", OR_IF="false"))
def contacts_below(
    begin: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    limits: wp.array[wp.float64],
    values: wp.array[wp.vec4d],
) -> wp.uint64:
    """Mask of the contacts whose relative position along the normal is below their limit; `values` are packed vertices."""
    ...


@wp.func_native(_native.body("active_mask", OR_IF="given.data[i] != 0.0"))
def contacts_below_or_given(
    begin: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    limits: wp.array[wp.float64],
    values: wp.array[wp.vec4d],
    given: wp.array[wp.float64],
) -> wp.uint64:
    """Mask of the contacts with a relative normal velocity below their limit, or a given impulse, which may be taken back."""
    ...


def make_sweep(load_contact: Any, solve_contact: Any, active_contacts: Any) -> Any:
    """The sweep over all colours, as a Warp function.

    `load_contact(i, q, contacts)` loads contact i with the corners q, `solve_contact(i, exists, contact, contacts, p)`
    solves it if it exists, and `active_contacts(i, count, contacts, p)` is the mask of those of the contacts from i on
    that need solving. `p` are packed vertices: a position or velocity, and the inverse mass.
    """

    @wp.func
    def sweep_colours(
        t: int, threads: int, arrivals: wp.array[int], offsets: wp.array[int], contacts: Any, p: wp.array[wp.vec4d]
    ):
        """One sweep by all threads; `offsets` is where each colour begins.

        A thread without a contact in a colour loads the last contact of it, as another thread does, and leaves it alone.
        The corners of a contact are loaded one colour earlier than the rest, so that no load is under way when a thread
        arrives at the barrier. The same thread has the same contact in every sweep: nobody else changes the impulse that
        it has given.
        """
        colour = int(0)
        begin = offsets[0]
        end = offsets[1]
        following = offsets[2]
        i = begin + partition_begin(t, threads, end - begin)
        k = wp.min(i, end - 1)
        contact = load_contact(k, load_vec4i(contacts.vertices, k), contacts)
        next_i = end + partition_begin(t, threads, following - end)
        next_q = load_vec4i(contacts.vertices, wp.min(next_i, following - 1))
        while colour < COLOURS and end > begin:
            size = end - begin
            after = offsets[wp.min(colour + 3, COLOURS)]
            last = begin + partition_end(t, threads, size)
            step = partition_step(threads, size)
            solve_contact(k, i < last, contact, contacts, p)
            for s in range(i + step, last, step * batch_size()):
                active = active_contacts(s, wp.min(batch_size(), last - s), contacts, p)
                while active != wp.uint64(0):
                    k = s + lowest_bit(active)
                    active &= active - wp.uint64(1)
                    solve_contact(k, True, load_contact(k, load_vec4i(contacts.vertices, k), contacts), contacts, p)
            next_size = following - end
            ticket = arrive_between(arrivals, True, size, next_size)
            begin = end
            end = following
            following = after
            colour += 1
            i = next_i
            k = wp.min(i, end - 1)
            contact = load_contact(k, next_q, contacts)
            next_i = end + partition_begin(t, threads, following - end)
            next_q = load_vec4i(contacts.vertices, wp.min(next_i, following - 1))
            wait_between(arrivals, True, size, next_size, ticket)

    return sweep_colours
