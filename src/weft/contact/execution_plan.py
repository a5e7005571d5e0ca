"""Which path the contact work of a step takes on a device: decided once, here, when a method is set up."""

from dataclasses import dataclass

import warp as wp

# bits of a mask word: candidates that share one
WORD = 64


@dataclass(frozen=True)
class ExecutionPlan:
    """How candidates are tested, contacts coloured and lists read back. All choices give the same contacts and collisions.

    Not decided here, since `weft.runtime` does it for every room: a launch uses all cores of a CPU where it is large
    enough (`launch`), Gauss-Seidel sweeps are one cooperative launch whose threads wait for each other between colours
    (`CooperativeLauncher`), and on CUDA launches that come again with the same arrays and numbers are replayed as a graph
    (`GraphCache`).
    """

    batch: int
    """Candidates that a thread tests at a time. 64 on a CPU, eight at once in its SIMD lanes; 1 on CUDA."""
    prefilter_from: int | None
    """List length from which on a light kernel first rules out most candidates (see `prefilter`); None: never.

    On CUDA from 500,000 on: a kernel with all tests needs so many registers that a multiprocessor holds 8 warps of it
    instead of 48. Below that the second launch costs more than it saves.
    """
    colour_by_dependencies: bool
    """Whether many threads find the colours of contacts, which CUDA does, instead of one thread of a CPU.

    Both visit contacts in the same order and give the same colours. On CUDA this takes 2.9 of 23 ms with three million
    contacts.
    """
    defer_escape_check: bool
    """Whether the host learns about escaped vertices together with the number of collisions, in one readback. On CUDA each
    readback lets the device wait; on a CPU it costs nothing."""

    @classmethod
    def for_device(cls, device: wp.Device) -> "ExecutionPlan":
        """The one path that a CPU has, or the one that CUDA has."""
        if device.is_cpu:
            return cls(
                batch=WORD,
                prefilter_from=None,
                colour_by_dependencies=False,
                defer_escape_check=False,
            )
        return cls(
            batch=1,
            prefilter_from=500_000,
            colour_by_dependencies=True,
            defer_escape_check=True,
        )

    def prefilters(self, count: int) -> bool:
        """Whether a list of so many candidates is prefiltered."""
        return self.prefilter_from is not None and count >= self.prefilter_from

    def batch_of(self, count: int) -> int:
        """How many candidates of a list of so many have their bits in one mask word: those that one thread tests, or 64."""
        return WORD if self.prefilters(count) else self.batch
