"""Contour minimisation: the directions are the gradient of the length of the path, by differences."""

import numpy as np
import pytest

from weft.analysis import analyse
from weft.analysis.attraction import contour_directions, contour_moves, contour_tangents, crossing_stencils, unit
from weft.analysis.walk import LOOP
from weft.mesh import shapes


def crossing_sheets():
    """A hilly sheet through a flat one: open and closed paths."""
    grid = shapes.grid((1.0, 1.0), (9, 9))
    hilly = np.array(grid.vertices) + [0.0031, 0.0, 0.0017]
    hilly[:, 1] = 0.08 * np.sin(9.0 * hilly[:, 0]) * np.cos(7.0 * hilly[:, 2]) + 0.013
    vertices = np.concatenate([grid.vertices, hilly])
    return vertices, np.concatenate([grid.faces, grid.faces + len(grid.vertices)])


def crumpled_sheet():
    """Red paths with loop vertices."""
    grid = shapes.grid((1.0, 1.0), (8, 8))
    return grid.vertices + 0.14 * np.random.default_rng(3).normal(size=(81, 3)), np.array(grid.faces)


def place_of(x, edge, face):
    """Where an edge meets the plane of a triangle."""
    p, q = edge
    a, b, c = face
    normal = np.cross(b - a, c - a)
    part = normal @ (a - p) / (normal @ (q - p))
    return p + part * (q - p)


def path_length(analysis, points, number):
    """The length of a path through these points of its crossings, loop vertices included."""
    first, last = analysis.path_offsets[number : number + 2]
    line = list(points[first:last])
    start, end = analysis.path_ends[number]
    if start <= LOOP:
        line.insert(0, analysis.positions[LOOP - start])
    if end <= LOOP:
        line.append(analysis.positions[LOOP - end])
    if analysis.closed[number]:
        line.append(line[0])
    return np.linalg.norm(np.diff(line, axis=0), axis=1).sum()


@pytest.mark.parametrize("shape", [crossing_sheets, crumpled_sheet])
def test_the_direction_is_the_steepest_descent_of_the_length(shape):
    vertices, faces = shape()
    analysis = analyse(vertices, faces)
    assert analysis.crossings > 20
    crossings = crossing_stencils(analysis)
    own, _ = contour_directions(analysis, crossings)
    slope = np.einsum("ij,ij->i", crossings.along, crossings.normal)
    checked = 0
    for k in range(0, analysis.crossings, 3):
        # edges that are clamped are not the gradient on purpose
        if abs(slope[k]) < 0.15:
            continue
        ends, corners = vertices[crossings.vertices[k, :2]], vertices[crossings.vertices[k, 2:]]
        gradient = np.zeros(3)
        for axis in range(3):
            step = 1e-6 * np.eye(3)[axis]
            change = []
            for sign in (1.0, -1.0):
                # half of the step for the edge, half of it the other way for the triangle
                points = analysis.points.copy()
                points[k] = place_of(vertices, ends + sign * step, corners)
                edge = path_length(analysis, points, analysis.path_of[k])
                points[k] = place_of(vertices, ends, corners - sign * step)
                change.append(edge + path_length(analysis, points, analysis.path_of[k]))
            gradient[axis] = (change[0] - change[1]) / 2e-6
        assert np.allclose(-gradient, own[k], atol=1e-4 * max(1.0, np.abs(own[k]).max()))
        checked += 1
    assert checked > 5


def test_stencils_meet_in_the_crossing():
    vertices, faces = crossing_sheets()
    analysis = analyse(vertices, faces)
    crossings = crossing_stencils(analysis)
    corners = vertices[crossings.vertices]
    assert np.allclose(crossings.weights.sum(axis=1), 0.0)
    assert np.allclose(crossings.weights[:, :2].sum(axis=1), 1.0)
    edge = np.einsum("ij,ijk->ik", crossings.weights[:, :2], corners[:, :2])
    face = -np.einsum("ij,ijk->ik", crossings.weights[:, 2:], corners[:, 2:])
    assert np.allclose(edge, analysis.points) and np.allclose(face, analysis.points)


def test_tangents_of_a_straight_path_vanish_between_its_ends():
    """A sheet cuts straight into another: only the ends pull."""
    grid = shapes.grid((1.0, 1.0), (6, 6))
    upright = grid.vertices[:, [1, 0, 2]] + [0.013, 0.021, 0.517]
    analysis = analyse(np.concatenate([grid.vertices, upright]), np.concatenate([grid.faces, grid.faces + 49]))
    tangents = contour_tangents(analysis)
    assert np.allclose(tangents[1:-1], 0.0, atol=1e-6)
    assert np.allclose(np.linalg.norm(tangents[[0, -1]], axis=1), 1.0)
    assert np.allclose(tangents[0], -tangents[-1], atol=1e-6)
    # the whole path still knows where to go: along itself, both sheets the opposite ways
    moves = contour_moves(analysis)
    sign = np.where(analysis.sheet == 0, 1.0, -1.0)[:, None]
    inner = slice(1, -1)
    towards = sign[inner] * moves.directions[inner]
    assert np.allclose(towards, towards[0], atol=1e-6) and np.linalg.norm(towards[0]) > 0.99


def test_following_the_moves_shortens_the_paths():
    vertices, faces = crossing_sheets()
    before = analyse(vertices, faces)
    moves = contour_moves(before)
    moved = vertices.copy()
    for row in range(len(moves.vertices)):
        for v, w in zip(moves.vertices[row], moves.weights[row], strict=True):
            moved[v] += 0.0005 * w * moves.directions[row]
    after = analyse(moved, faces)

    def total(analysis):
        return sum(path_length(analysis, analysis.points, k) for k in range(len(analysis)))

    assert total(after) < total(before)


def test_chosen_paths_only():
    vertices, faces = crossing_sheets()
    analysis = analyse(vertices, faces)
    chosen = np.zeros(len(analysis), dtype=bool)
    chosen[0] = True
    moves, every = contour_moves(analysis, chosen), contour_moves(analysis)
    count = analysis.path_offsets[1]
    assert len(moves.vertices) == count
    assert np.array_equal(moves.directions, every.directions[:count])


def test_unit_leaves_zero_alone():
    vectors = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 4.0]])
    assert np.array_equal(unit(vectors), [[0.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
    assert np.array_equal(unit(vectors, 10.0), vectors / 10.0)


def test_no_crossings():
    grid = shapes.grid((1.0, 1.0), (2, 2))
    analysis = analyse(grid.vertices, grid.faces)
    assert contour_tangents(analysis).shape == (0, 3)
    assert contour_moves(analysis).vertices.shape == (0, 5)
