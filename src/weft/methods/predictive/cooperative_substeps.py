"""The substeps of `predictive` in one launch: all threads share each colour and wait for each other between them."""

import warp as wp

from weft.methods.predictive.arrays import Arrays, Numbers
from weft.methods.predictive.substeps import Offsets, pace_of, take_substeps
from weft.runtime.cooperative import BLOCK, clusterable

wp.set_module_options({"enable_backward": False})


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def advance_together(
    first: int, threads: int, arrivals: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: Offsets
):
    """All substeps; contacts and half-spaces are there."""
    t = first + wp.tid()
    if o.stop[0] != 0:
        return
    s = settings[0]
    take_substeps(t, threads, arrivals, s, pace_of(s.substeps, s), a, o)
