"""Surfaces to search: random triangles, folded sheets, degenerate and far-off ones."""

import numpy as np
import warp as wp

from weft.world import Surface


def sheet(cells: int) -> np.ndarray:
    """The faces of a square grid of cells x cells quads."""
    corner = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]))
    return np.stack([a, b, d, a, d, c], axis=1).reshape(-1, 3).astype(np.int32)


def crumpled(cells: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and end positions and faces of a sheet folded over itself several times, with motion."""
    rng = np.random.default_rng(seed)
    side = np.linspace(0.0, 1.0, cells + 1)
    u, v = np.meshgrid(side, side)
    start = np.stack([0.15 * np.sin(9.0 * u), v, 0.1 * np.sin(17.0 * u + 3.0 * v)], axis=-1).reshape(-1, 3)
    start += rng.normal(0.0, 0.1 / cells, start.shape)
    end = start + rng.normal(0.0, 0.3 / cells, start.shape) + [0.0, -0.05, 0.0]
    return start, end, sheet(cells)


def positions(values: np.ndarray) -> wp.array:
    return wp.array(np.ascontiguousarray(values, np.float64), dtype=wp.vec3d, device="cpu")


def swept(points: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Boxes in float64 of features given by the points (n, k, 3) they pass through."""
    return points.min(axis=1) - 0.5 * margin, points.max(axis=1) + 0.5 * margin


def overlapping(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], slack: float) -> np.ndarray:
    """(n, m) bool: which boxes overlap when all are grown by the slack."""
    low = one[0][:, None] - slack <= other[1][None] + slack
    high = other[0][None] - slack <= one[1][:, None] + slack
    return (low & high).all(axis=2)


def feature_oracle(
    surface: Surface, start: np.ndarray, end: np.ndarray, margin: float, slack: float
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Vertex-triangle and edge-edge pairs by comparing all with all, in numpy and float64."""
    faces, edges = surface.faces.numpy().reshape(-1, 3), surface.edges.numpy().reshape(-1, 2)
    table, face_body = surface.body_pairs.numpy(), surface.face_body.numpy()
    used = np.unique(faces)
    both = np.stack([start, end], axis=1)
    # a feature belongs to the body of the first triangle that has it
    vertex_body = np.array([face_body[np.flatnonzero((faces == v).any(axis=1))[0]] for v in used], int)
    face_edges = surface.face_edges.numpy().reshape(-1, 3)
    edge_body = np.array([face_body[np.flatnonzero((face_edges == e).any(axis=1))[0]] for e in range(len(edges))], int)

    vertex_boxes = swept(both[used], margin)
    face_boxes = swept(both[faces].reshape(len(faces), -1, 3), margin)
    edge_boxes = swept(both[edges].reshape(len(edges), -1, 3), margin)
    vertex_face = overlapping(vertex_boxes, face_boxes, slack) & (table[vertex_body][:, face_body] != 0)
    edge_edge = overlapping(edge_boxes, edge_boxes, slack) & (table[edge_body][:, edge_body] != 0)
    first = {(int(used[i]), int(f)) for i, f in np.argwhere(vertex_face) if used[i] not in faces[f]}
    second = {(int(a), int(b)) for a, b in np.argwhere(edge_edge) if a < b and not set(edges[a]) & set(edges[b])}
    return first, second
