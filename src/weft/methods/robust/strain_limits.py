"""Limits of strain and strain rate as impulses on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. A spring that would gets impulses along it, which conserve momentum, in Gauss-Seidel sweeps over springs in
colours that never change. Each spring remembers its impulse, and takes back in later sweeps what is no longer needed.
Positions are not changed.

An impulse on a vertex moves those that are welded to it as well, as one mass: what keeps them together, or draws them
together, are the dynamics alone. Impulses on one side of a seam only would open it: a waistband that was stretched to its limit
gaped by a centimetre.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.seam_hinges import vertex_groups
from weft.dynamics.springs import BEND, SpringNetwork
from weft.methods.robust.limited_springs import LimitedSprings, limit_springs
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import CooperativeLauncher


class StrainLimits:
    """Keeps the structural and shear springs of a network from stretching or shrinking too far or too fast."""

    def __init__(
        self,
        pairs: np.ndarray,
        rest: np.ndarray,
        sewn: np.ndarray,
        offsets: np.ndarray,
        inverse_mass: wp.array,
        welded: np.ndarray,
    ) -> None:
        """Springs (k, 2), their rest lengths, and whether an end is at a seam, sorted by colours, which begin at `offsets`.

        welded: (n,) the rings of `LimitedSprings.welded`.
        """
        device = inverse_mass.device
        self.count, self.offsets = len(pairs), offsets
        self._largest = int(np.diff(offsets).max(initial=0))
        self._offsets = wp.array(offsets, dtype=int, device=device)
        springs: Any = LimitedSprings()
        springs.pairs = wp.array(pairs, dtype=wp.vec2i, device=device)
        springs.rest = wp.array(rest, dtype=wp.float64, device=device)
        springs.sewn = wp.array(sewn, dtype=int, device=device)
        springs.inverse_mass = inverse_mass
        springs.welded = wp.array(welded, dtype=int, device=device)
        springs.along = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        springs.speeds = wp.zeros(self.count, dtype=wp.vec2d, device=device)
        springs.paces, springs.given, springs.given_too = (
            wp.zeros(self.count, dtype=wp.float64, device=device) for _ in range(3)
        )
        springs.found = wp.zeros(1, dtype=int, device=device)
        self.springs = springs
        self.given = springs.given
        """the impulse of each spring in the last call, from its second end to its first"""
        self._none = wp.empty(0, dtype=wp.vec3d, device=device)
        self._cooperative = CooperativeLauncher(device)

    @classmethod
    def from_network(
        cls,
        network: SpringNetwork,
        inverse_mass: wp.array,
        *,
        welds: np.ndarray | None = None,
        seams: Sequence[int] | np.ndarray = (),
    ) -> "StrainLimits":
        """Of the structural and shear springs of a network some of whose vertices are welded to each other (k, 2).

        `seams` are the vertices at seams, welded or not.
        """
        count = len(inverse_mass)
        sewn = np.zeros(count, dtype=bool)
        sewn[np.asarray(seams, dtype=np.int64)] = True
        group = vertex_groups(np.zeros((0, 2), np.int32) if welds is None else welds, count)
        kept = np.flatnonzero(network.kind != BEND)
        # within a seam a spring and its own group would be in each other's way
        kept = kept[group[network.pairs[kept, 0]] != group[network.pairs[kept, 1]]]
        order, offsets = colour_items(group[network.pairs[kept]], count)
        kept = kept[order]
        pairs = network.pairs[kept]
        return cls(pairs, network.rest[kept], sewn[pairs].any(axis=1), offsets, inverse_mass, _rings(group))

    @classmethod
    def joined(cls, limits: Sequence["StrainLimits"], place: np.ndarray, inverse_mass: wp.array) -> "StrainLimits":
        """Of several worlds, whose vertices have the numbers `place` (w, n) here: each has the colours that it has alone."""
        pairs = np.concatenate(
            [numbers[one.springs.pairs.numpy()].reshape(-1, 2) for one, numbers in zip(limits, place, strict=True)]
        )
        rest = np.concatenate([one.springs.rest.numpy() for one in limits])
        sewn = np.concatenate([one.springs.sewn.numpy() for one in limits])
        colour = np.concatenate([np.repeat(np.arange(len(one.offsets) - 1), np.diff(one.offsets)) for one in limits])
        order = np.argsort(colour, kind="stable")
        offsets = np.append(0, np.cumsum(np.bincount(colour))).astype(np.int32)
        welded = np.arange(len(inverse_mass), dtype=np.int32)
        for one, numbers in zip(limits, place, strict=True):
            welded[numbers] = numbers[one.springs.welded.numpy()]
        return cls(pairs[order], rest[order], sewn[order], offsets, inverse_mass, welded)

    def apply(
        self,
        x: wp.array,
        v: wp.array,
        limit: float,
        dt: float,
        sweeps: int,
        *,
        v_too: wp.array | None = None,
        returning: bool = True,
    ) -> None:
        """Change velocities so that over a step of dt no spring breaks `limit`, as far as so many sweeps achieve that.

        `v_too` are other velocities, which are limited independently in the same sweeps. Springs beyond the limit come back;
        if not `returning`, only those at seams.
        """
        self.springs.found.zero_()
        inputs = [sweeps, self._offsets, self.springs, x, limit, dt, returning, v]
        inputs.append(self._none if v_too is None else v_too)
        self._cooperative.launch(limit_springs, self._largest, inputs, work=self.count)


def _rings(group: np.ndarray) -> np.ndarray:
    """(n,) int32: for each vertex the next one of its group, after the last one the first."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    following = np.append(order[1:], order[:1])
    # the last of each group is followed by its first
    following[np.append(starts[1:], len(order)) - 1] = order[starts]
    ring = np.empty(len(order), np.int32)
    ring[order] = following
    return ring
