"""Surfaces in motion for the search of a step, and all their pairs measured one by one."""

from itertools import combinations
from typing import NamedTuple

import distance_pairs as proximity
import numpy as np
import warp as wp
from crumpled import positions, sheet

from weft.broad_phase import make_broad_phase
from weft.contact.lists import ContactList
from weft.contact.step_search import StepSearch
from weft.world import Surface

THICKNESS = 0.01


class Motion(NamedTuple):
    """Where everything is at the start and the end of a step, and its rest shape."""

    start: np.ndarray
    end: np.ndarray
    faces: np.ndarray
    body: np.ndarray
    """of each triangle"""
    rest: np.ndarray


def two_sheets(cells=5, *, gap=0.008, fall=0.02, seed=0, rough=0.002):
    """A sheet that falls onto another one, both a little uneven, turned against each other."""
    rng = np.random.default_rng(seed)
    side = np.linspace(-0.5, 0.5, cells + 1)
    u, v = np.meshgrid(side, side)
    flat = np.stack([u, 0.0 * u, v], axis=-1).reshape(-1, 3)
    turn = np.array([[np.cos(0.3), 0, np.sin(0.3)], [0, 1, 0], [-np.sin(0.3), 0, np.cos(0.3)]])
    lower, upper = flat, flat @ turn.T + [0.03, gap, 0.05]
    start = np.concatenate([lower, upper])
    rest = start.copy()
    start = start + rng.normal(scale=rough, size=start.shape)
    n = len(flat)
    start[n:, 1] += max(0.0, start[:n, 1].max() - start[n:, 1].min() + 0.2 * gap)
    end = start + rng.normal(scale=0.1 * fall, size=start.shape)
    end[n:, 1] -= fall
    faces = np.concatenate([sheet(cells), sheet(cells) + n]).astype(np.int32)
    return Motion(start, end, faces, np.repeat([0, 1], len(faces) // 2), rest)


def folded(cells=8, *, gap=0.006, speed=0.0, seed=0):
    """One sheet folded in two, whose halves lie on each other and close."""
    rng = np.random.default_rng(seed)
    side = np.linspace(0.0, 1.0, cells + 1)
    u, v = np.meshgrid(side, side)
    rest = np.stack([u, 0.0 * u, v], axis=-1).reshape(-1, 3)
    # round a narrow bend in the middle
    radius = gap / 2.0
    bend = np.pi * radius
    s = rest[:, 0] - (0.5 - bend / 2)
    angle = np.clip(s / radius, 0.0, np.pi)
    x = np.where(s < 0.0, rest[:, 0], 0.5 - bend / 2 + radius * np.sin(angle) - np.maximum(s - bend, 0.0))
    y = radius * (1.0 - np.cos(angle))
    start = np.stack([x, y, rest[:, 2]], axis=-1) + rng.normal(scale=0.02 * gap, size=rest.shape)
    end = start.copy()
    end[s > bend, 1] -= speed
    faces = sheet(cells)
    return Motion(start, end, faces, np.zeros(len(faces), int), rest)


def make_search(motion, *, thickness=THICKNESS, broad_phase="bvh", **options):
    surface = Surface.from_arrays(len(motion.start), motion.faces, face_body=motion.body)
    broad_phase = make_broad_phase(broad_phase, surface, material=motion.rest)
    each = wp.array(np.full(len(motion.start), thickness), dtype=wp.float64, device="cpu")
    return StepSearch(broad_phase, each, positions(motion.rest), thickness, finest_length=thickness, **options)


def make_contact_list():
    return ContactList(wp.get_device("cpu"))


class Found(NamedTuple):
    """Contacts as host arrays; kind 0 for a vertex and a triangle, 1 for two edges."""

    kind: np.ndarray
    vertices: np.ndarray
    weights: np.ndarray
    normals: np.ndarray
    gaps: np.ndarray
    thickness: np.ndarray


def take(search, contacts, first=0):
    """The contacts from `first` on, as the search has just appended them: vertices with triangles, then edges."""
    k = slice(first, contacts.count)
    of_points = [search.candidates[0], *(lists[0] for lists in search.escaped_candidates)]
    points = sum(int(kind.counts.numpy()[: kind.batches].sum()) for kind in of_points)
    kind = (np.arange(contacts.count - first) >= points).astype(int)
    return Found(kind, *(column.numpy()[k] for column in contacts.geometry))


def all_pairs(motion):
    """Every vertex with every triangle, every two edges, without those that share a vertex."""
    faces = motion.faces
    edges = sorted({tuple(sorted((int(f[k]), int(f[(k + 1) % 3])))) for f in faces for k in range(3)})
    points = [[v, *map(int, f)] for v in range(len(motion.start)) for f in faces if v not in f]
    lines = [[*e, *f] for e, f in combinations(edges, 2) if not set(e) & set(f)]
    return [np.array(rows, int).reshape(-1, 4) for rows in (points, lines)]


def distances(motion):
    """Distance of each of all pairs at the start, by kind."""
    measures = (proximity.point_triangle, proximity.edge_edge)
    return [measure(motion.start[rows])[0] for measure, rows in zip(measures, all_pairs(motion), strict=True)]


def key(kind, row):
    """A name for a pair that does not depend on the order within its sides."""
    a, b, c, d = (int(v) for v in row)
    if kind == 0:
        return (0, a, tuple(sorted((b, c, d))))
    return (1, *sorted((tuple(sorted((a, b))), tuple(sorted((c, d))))))


def keys(found):
    return {key(k, row) for k, row in zip(found.kind, found.vertices, strict=True)}
