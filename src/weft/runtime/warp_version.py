"""Which versions of Warp weft knows from inside, and how kernels run with the others.

`launch` and the thread pool call the compiled code of a kernel directly. For that they read four things of a recorded
launch that Warp does not document: `params` (packed arguments), `params_addr`, `bounds` (the number of items) and
`hooks.forward` (the address of the code, which takes the addresses of the bounds and of the arguments). A version of Warp that
arranges these differently would crash, so only versions with which the tests passed are used in that way. With all
others kernels run through `Launch.set_param_at_index`, `set_dim` and `launch`, which are public: on one thread, and a
launch costs a few microseconds more.
"""

import warnings
from functools import cache

import warp as wp

from weft.errors import WeftWarning

# with these the tests of all rooms passed; the workflow tests.yml runs them with the oldest and with the newest on PyPI
KNOWN = ("1.17", "1.18", "1.19")


@cache
def launches_are_known() -> bool:
    """Whether recorded launches of the installed Warp look as weft expects; warns once if not."""
    installed = ".".join(wp.__version__.split(".")[:2])
    if installed in KNOWN:
        return True
    warnings.warn(
        f"weft knows Warp {KNOWN[0]} to {KNOWN[-1]}, and Warp {wp.__version__} is installed: kernels run on one thread. For "
        f"all threads: pip install 'warp-lang=={KNOWN[-1]}.*', or a newer weft-cloth",
        WeftWarning,
        stacklevel=2,
    )
    return False


class PublicKernel:
    """A recorded launch on the CPU by Warp's public interface, called as `PackedKernel` is."""

    def __init__(self, recorded: wp.Launch) -> None:
        self.recorded = recorded

    def repack(self, index: int) -> None:
        """Nothing: the recorded launch has the argument already."""

    def call(self, first: int, count: int) -> None:
        """Run items `first` to `first + count` on this thread."""
        self.recorded.set_param_at_index(0, first)
        self.recorded.set_dim(count)
        self.recorded.launch()
