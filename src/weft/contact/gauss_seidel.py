"""A sweep over rows that lie in the order of their colours, whatever a row does: for impulses and for contacts in substeps.

What a thread needs of its first row of the next colour is loaded while threads wait for each other; a CPU asks all further ones
whether they have something to do first.
"""

from typing import Any

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.active_masks import rows_at_once
from weft.contact.colour_words import COLOURS
from weft.runtime.cooperative import arrive_between, wait_between
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.vector_loads import load_vec4i

wp.set_module_options({"enable_backward": False})


def make_sweep(load_row: Any, solve_row: Any, busy_rows: Any) -> Any:
    """The sweep, as a function of kernels.

    `load_row(i, q, rows)` gives what is to be known of row i with the corners q, `solve_row(i, there, row, rows, p)` solves it
    if it is there, and `busy_rows(i, count, rows, p)` says which of so many rows from i on have something to do, a bit each.
    """

    @wp.func
    def sweep_placed(
        t: int,
        threads: int,
        arrivals: wp.array[int],
        offsets: wp.array[int],
        rows: Any,
        p: wp.array[wp.vec4d],
    ):
        """One sweep over all colours.

        Who has none in a colour loads the last one, as others do. Corners are known a colour before, so that nothing is on its
        way when a thread arrives. A row is the same thread's in every sweep, so that nobody else changes what it has given.
        """
        colour = int(0)
        begin = offsets[0]
        end = offsets[1]
        following = offsets[2]
        i = begin + partition_begin(t, threads, end - begin)
        k = wp.min(i, end - 1)
        row = load_row(k, load_vec4i(rows.vertices, k), rows)
        next_i = end + partition_begin(t, threads, following - end)
        next_q = load_vec4i(rows.vertices, wp.min(next_i, following - 1))
        while colour < COLOURS and end > begin:
            size = end - begin
            after = offsets[wp.min(colour + 3, COLOURS)]
            last = begin + partition_end(t, threads, size)
            step = partition_step(threads, size)
            solve_row(k, i < last, row, rows, p)
            for s in range(i + step, last, step * rows_at_once()):
                busy = busy_rows(s, wp.min(rows_at_once(), last - s), rows, p)
                while busy != wp.uint64(0):
                    k = s + lowest_bit(busy)
                    busy &= busy - wp.uint64(1)
                    solve_row(k, True, load_row(k, load_vec4i(rows.vertices, k), rows), rows, p)
            next_size = following - end
            ticket = arrive_between(arrivals, True, size, next_size)
            begin = end
            end = following
            following = after
            colour += 1
            i = next_i
            k = wp.min(i, end - 1)
            row = load_row(k, next_q, rows)
            next_i = end + partition_begin(t, threads, following - end)
            next_q = load_vec4i(rows.vertices, wp.min(next_i, following - 1))
            wait_between(arrivals, True, size, next_size, ticket)

    return sweep_placed
