"""The differences of the elastic surface on a grid, and the lists by which they are gathered."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weft.scene import Material

STRETCH, SHEAR, BEND = range(3)
# of the nodes of a grid
COLOURS = 5


class Stencils(NamedTuple):
    """Differences y = sum w_k r_k over up to four vertices (host arrays); unused corners repeat one with weight 0."""

    vertices: np.ndarray
    """(s, 4) int32"""
    weights: np.ndarray
    """(s, 4)"""
    kind: np.ndarray
    """(s,) STRETCH, SHEAR, BEND"""
    partner: np.ndarray
    """(s,) the other stencil of a shear, itself for others"""
    modulus: np.ndarray
    """(s,) stiffness times area"""
    delay: np.ndarray
    """(s,) damping time in s"""

    def energy(self, x: np.ndarray) -> float:
        """The elastic energy at positions x, in J."""
        y = np.einsum("sk,skd->sd", self.weights, x[self.vertices])
        square = (y * y).sum(axis=1)
        across = (y * y[self.partner]).sum(axis=1)
        # each shear is two stencils, hence a quarter for either
        kinds = [self.kind == STRETCH, self.kind == SHEAR]
        density = np.select(kinds, [(square - 1.0) ** 2 / 8.0, across**2 / 4.0], square / 2.0)
        return float((self.modulus * density).sum())


@dataclass(frozen=True)
class Lattice:
    """The grid of one cloth: nodes along both directions, their spacing at rest, its first vertex and material."""

    nodes: tuple[int, int]
    spacing: tuple[float, float]
    first: int
    material: Material

    def stencils(self) -> Stencils:
        """All differences of the energy on this grid."""
        n1, n2 = self.nodes
        h1, h2 = self.spacing
        area = h1 * h2
        index = (self.first + np.arange(n1 * n2)).reshape(n2, n1)
        m = self.material
        parts: list[tuple[Any, ...]] = []

        def add(kind: int, corners: list[np.ndarray], weights: list[float], modulus: Any) -> None:
            vertices = np.stack([c.ravel() for c in corners], axis=1)
            padded = np.concatenate([vertices, np.repeat(vertices[:, :1], 4 - len(corners), axis=1)], axis=1)
            row = np.array([*weights, *[0.0] * (4 - len(weights))])
            count = len(vertices)
            moduli = np.broadcast_to(modulus, corners[0].shape).ravel()
            parts.append((padded, np.tile(row, (count, 1)), np.full(count, kind), moduli))

        # rows and columns at the rim stand for half a strip of cloth
        row_share, column_share = np.ones((n2, 1)), np.ones((1, n1))
        row_share[[0, -1]] = 0.5
        column_share[:, [0, -1]] = 0.5
        add(STRETCH, [index[:, :-1], index[:, 1:]], [-1 / h1, 1 / h1], m.stretch * area * row_share)
        add(STRETCH, [index[:-1], index[1:]], [-1 / h2, 1 / h2], m.stretch * area * column_share)
        if n1 > 2:
            bend = m.bend * area * row_share
            add(BEND, [index[:, :-2], index[:, 1:-1], index[:, 2:]], [1 / h1**2, -2 / h1**2, 1 / h1**2], bend)
        if n2 > 2:
            bend = m.bend * area * column_share
            add(BEND, [index[:-2], index[1:-1], index[2:]], [1 / h2**2, -2 / h2**2, 1 / h2**2], bend)
        cell = [index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]]
        add(BEND, cell, [1 / area, -1 / area, -1 / area, 1 / area], 2.0 * m.bend * area)
        add(SHEAR, cell, [-0.5 / h1, 0.5 / h1, -0.5 / h1, 0.5 / h1], m.shear * area)
        add(SHEAR, cell, [-0.5 / h2, -0.5 / h2, 0.5 / h2, 0.5 / h2], m.shear * area)

        vertices, weights, kind, modulus = (np.concatenate(column) for column in zip(*parts, strict=True))
        # the two halves of a shear are the last two blocks, in the same order
        cells = (n1 - 1) * (n2 - 1)
        partner = np.arange(len(kind))
        partner[-2 * cells :] = np.roll(partner[-2 * cells :], cells)
        keep = np.flatnonzero(modulus > 0.0)
        new_number = np.cumsum(modulus > 0.0) - 1
        return Stencils(
            vertices[keep].astype(np.int32),
            weights[keep],
            kind[keep].astype(np.int32),
            new_number[partner[keep]].astype(np.int32),
            modulus[keep],
            np.full(len(keep), m.damping),
        )

    def colours(self) -> np.ndarray:
        """The colour of each node: two nodes that one row of the matrix couples never have the same, (i + 2 j) mod 5."""
        n1, n2 = self.nodes
        j, i = np.divmod(np.arange(n1 * n2), n1)
        return np.asarray((i + 2 * j) % COLOURS)


def order_by_colour(lattices: list[Lattice]) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of all grids colour by colour, and where each colour begins; no two grids are coupled."""
    nodes = np.concatenate([lattice.first + np.arange(np.prod(lattice.nodes)) for lattice in lattices])
    colours = np.concatenate([lattice.colours() for lattice in lattices])
    order = np.argsort(colours, kind="stable")
    return nodes[order], np.searchsorted(colours[order], np.arange(COLOURS + 1))


def join(parts: list[Stencils]) -> Stencils:
    """The stencils of several grids in one list."""
    starts = np.cumsum([0, *(len(part.kind) for part in parts)])
    moved = [p._replace(partner=p.partner + np.int32(start)) for p, start in zip(parts, starts, strict=False)]
    return Stencils(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def gather_lists(
    s: Stencils, count: int
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Lists for gathering: stencils by vertex, the matrix off its diagonal, and stencils by entry of the matrix."""
    stencil, corner = np.nonzero(s.weights)
    vertex, weight = s.vertices[stencil, corner], s.weights[stencil, corner]
    by_vertex = np.argsort(vertex, kind="stable")
    row_offsets = np.concatenate([[0], np.cumsum(np.bincount(vertex, minlength=count))])

    # all pairs of different corners of a stencil
    one, other = (a.ravel() for a in np.divmod(np.arange(16), 4))
    apart = one != other
    one, other = one[apart], other[apart]
    product = s.weights[:, one] * s.weights[:, other]
    owner, pair = np.nonzero(product)
    key = s.vertices[owner, one[pair]].astype(np.int64) * count + s.vertices[owner, other[pair]]
    keys, entry = np.unique(key, return_inverse=True)
    by_entry = np.argsort(entry, kind="stable")
    entry_offsets = np.concatenate([[0], np.cumsum(np.bincount(entry, minlength=len(keys)))])
    offsets = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
    rows = (row_offsets, stencil[by_vertex], weight[by_vertex])
    entries = (entry_offsets, owner[by_entry], product[owner, pair][by_entry])
    return rows, (offsets, (keys % count).astype(np.int32)), entries
