"""Seams at every level: triangles that a seam joins directly are meant to touch, and so are their parts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.finish.refine import Level
from weft.finish.stop import Skip
from weft.world import Surface

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


class SewnPairs:
    """Pairs of triangles of level 0 that a seam joins; at finer levels, their parts."""

    def __init__(self, face_count: int, pairs: ArrayLike) -> None:
        self._count = face_count
        one, other = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
        self._keys = np.sort(np.minimum(one, other) * face_count + np.maximum(one, other))
        self._sides: dict[int, tuple[NDArray[np.int64], Ints]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def without(self, rows: Ints, level: Level) -> Ints:
        """The rows (edge vertex, edge vertex, face) whose face is not sewn to every triangle of the edge."""
        if not len(self) or not len(rows):
            return rows
        edge, owner = self.owners(rows, level)
        sewn = self._fused(level.source[owner], level.source[rows[edge, 2]])
        free = np.bincount(edge, weights=~sewn, minlength=len(rows))
        return rows[free > 0]

    def owners(self, rows: Ints, level: Level) -> tuple[NDArray[np.int64], Ints]:
        """The triangles that have the edges of some rows: (which row, triangle), one or two a row."""
        if level.number not in self._sides:
            f = level.faces
            ends = np.sort(np.stack([f, np.roll(f, -1, axis=1)], axis=2).reshape(-1, 2), axis=1).astype(np.int64)
            keys = ends[:, 0] << 32 | ends[:, 1]
            order = np.argsort(keys, kind="stable")
            self._sides[level.number] = keys[order], (order // 3).astype(np.int32)
        keys, faces = self._sides[level.number]
        wanted = rows[:, 0].astype(np.int64) << 32 | rows[:, 1]
        first, last = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
        counts = last - first
        row = np.repeat(np.arange(len(rows)), counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        return row, faces[place]

    def skip(self, level: Level, surface: Surface) -> Skip:
        """What tells which pairs of features do not matter: all triangles of one are sewn to all of the other."""
        triangles = [_incidence(level.faces, level.vertex_count)]
        triangles.append(_incidence(surface.face_edges.numpy().reshape(-1, 3), surface.edge_count))

        def of_pairs(kind: int, pairs: Ints) -> Bools:
            one = _around(triangles[kind], pairs[:, 0])
            other = _around(triangles[1], pairs[:, 1]) if kind else [np.array([face]) for face in pairs[:, 1]]
            counts = np.array([len(a) * len(b) for a, b in zip(one, other, strict=True)], dtype=np.int64)
            left = np.concatenate([np.repeat(a, len(b)) for a, b in zip(one, other, strict=True)])
            right = np.concatenate([np.tile(b, len(a)) for a, b in zip(one, other, strict=True)])
            sewn = self._fused(level.source[left], level.source[right])
            free = np.bincount(np.repeat(np.arange(len(pairs)), counts), weights=~sewn, minlength=len(pairs))
            return free == 0

        return of_pairs

    def _fused(self, one: Ints, other: Ints) -> Bools:
        """Whether two triangles of level 0 are sewn together; parts of one triangle are not."""
        keys = np.minimum(one, other).astype(np.int64) * self._count + np.maximum(one, other)
        if not len(self):
            return np.zeros(len(keys), bool)
        return self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] == keys


def _incidence(items: Ints, count: int) -> tuple[NDArray[np.int64], Ints]:
    """Which rows name each item: offsets and rows."""
    order = np.argsort(items.ravel(), kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(items.ravel(), minlength=count))])
    return offsets, (order // 3).astype(np.int32)


def _around(incidence: tuple[NDArray[np.int64], Ints], items: Ints) -> list[Ints]:
    offsets, rows = incidence
    return [rows[offsets[i] : offsets[i + 1]] for i in items.tolist()]
