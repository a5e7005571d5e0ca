"""One contact of cloth with cloth: its constraint, its gradient, and what solving it does."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from structs import struct_of

from weft.methods.predictive.contacts import FROZEN, StepContactArrays, _native, closest_approach, solve_contacts
from weft.methods.predictive.state import VertexArrays
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


Stencil = wp.types.vector(length=8, dtype=wp.float64)
"""Four weights, the normal, the gap."""


@wp.func_native(_native.body("plane") + "return plane_of(p, a, b, c, side);")
def triangle_stencil(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, side: wp.float64) -> Stencil: ...


@wp.kernel
def find_stencil(first: int, x: wp.array[wp.vec3d], side: wp.float64, out: wp.array[Stencil]):
    i = first + wp.tid()
    out[i] = triangle_stencil(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3], side)


@wp.kernel
def find_approach(first: int, r: wp.array[wp.vec3d], way: wp.array[wp.vec3d], out: wp.array[wp.float64]):
    i = first + wp.tid()
    out[i] = closest_approach(r[i], way[i])


@wp.kernel
def solve_all(first: int, push: wp.float64, contacts: StepContactArrays, vertices: VertexArrays):
    i = first + wp.tid()
    solve_contacts(i, i + 1, 0, wp.float64(1.0), push, contacts, vertices)


def stencil(x, side=1.0):
    out = wp.zeros(1, dtype=Stencil)
    launch(find_stencil, 1, [wp.array(x, dtype=wp.vec3d), side, out])
    found = out.numpy()[0]
    return found[:4], found[4:7], found[7]


def solve(x, mass, *, was=None, kind=FROZEN, weights=(1, 0, -1, 0), normal=(0, 0, 0), thick=0.1, mu=(0, 0), push=1e9):
    """Solve one contact of the vertices 0 to 3; gives positions and earlier positions afterwards."""
    vertices = [0, 0, 1, 1] if len(x) == 2 else [0, 1, 2, 3]
    contacts = struct_of(
        StepContactArrays,
        vertices=np.array([vertices]),
        kinds=np.array([int(kind)]),
        weights=np.array([weights], float),
        normals=np.array([normal], float),
        thickness=np.array([thick]),
        friction=np.array([mu], float),
        pushed=np.zeros(1),
    )
    inverse = 1.0 / np.asarray(mass, float)[:, None]
    p = wp.array(np.hstack([x, inverse]), dtype=wp.vec4d)
    before = wp.array(np.hstack([x if was is None else was, inverse]), dtype=wp.vec4d)
    launch(solve_all, 1, [push, contacts, struct_of(VertexArrays, x=x, start=wp.clone(before), before=before, p=p)])
    assert np.array_equal(p.numpy()[:, 3], inverse[:, 0])
    return p.numpy()[:, :3], before.numpy()[:, :3]


def height(x, side):
    """C + 2r from its definition."""
    p, a, b, c = x
    m = np.cross(b - a, c - a)
    return side * m @ (p - a) / np.linalg.norm(m)


def over_triangle(rng, low=0.05, high=0.9):
    """A random triangle and a point over it, at random barycentric coordinates."""
    corners = rng.normal(size=(3, 3))
    wb, wc = rng.uniform(low, high / 2, 2)
    m = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    foot = corners[0] * (1 - wb - wc) + corners[1] * wb + corners[2] * wc
    return np.vstack([foot + rng.normal() * m / np.linalg.norm(m), corners])


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("seed", range(20))
def test_gradient_of_vertex_and_triangle_by_differences(side, seed):
    rng = np.random.default_rng(seed)
    # inside the triangle and up to a third outside of it
    x = over_triangle(rng, low=-0.3, high=1.2)
    weights, normal, gap = stencil(x, side)
    assert gap == pytest.approx(height(x, side), abs=1e-12)
    assert weights.sum() == pytest.approx(0.0, abs=1e-12)
    gradient = np.zeros((4, 3))
    h = 1e-6
    for k in range(4):
        for axis in range(3):
            up, down = x.copy(), x.copy()
            up[k, axis] += h
            down[k, axis] -= h
            gradient[k, axis] = (height(up, side) - height(down, side)) / (2 * h)
    np.testing.assert_allclose(weights[:, None] * normal, gradient, atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_gradient_is_that_of_the_corrected_paper(seed):
    x = over_triangle(np.random.default_rng(seed))
    weights, normal, _ = stencil(x)
    p, p0, p1, p2 = x
    m = np.cross(p1 - p0, p2 - p0)
    n = m / np.linalg.norm(m)
    nq = (np.eye(3) - np.outer(n, n)) @ (p - p0) / np.linalg.norm(m)
    d1, d2 = np.cross(p2 - p0, nq), np.cross(nq, p1 - p0)
    expected = np.array([n, -(n + d1 + d2), d1, d2])
    np.testing.assert_allclose(weights[:, None] * normal, expected, atol=1e-12)


def test_far_outside_the_triangle_the_plane_is_that_of_the_start():
    # the triangle has tilted since; the vertex is three triangles away, under the tilted plane and over the old one
    x = np.array([[3.0, 0.2, 0.15], [0, 0, 0], [1, 0, 0.2], [0, 1, 0]])
    assert stencil(x)[2] < 0
    start = {"weights": (1, -1, 0, 0), "normal": (0, 0, 1)}
    after, _ = solve(x, [1, 1, 1, 1], kind=1, thick=0.1, **start)
    np.testing.assert_array_equal(after, x)
    after, _ = solve(x, [1, 1, 1, 1], kind=1, thick=0.25, **start)
    np.testing.assert_allclose(after - x, [[0, 0, 0.05], [0, 0, -0.05], [0, 0, 0], [0, 0, 0]], atol=1e-12)


def test_a_corner_with_little_weight_is_not_thrown_far():
    # only the far corner can move: by its weight of a hundredth alone it would have to go a hundred times the depth
    x = np.array([[0.01, 0.0, 0.0], [0, 0, 0], [1, 0, 0], [0, 1, 0]])
    after, _ = solve(x, [np.inf, np.inf, 1, np.inf], kind=1, thick=0.1)
    assert 0 < np.linalg.norm(after[2] - x[2]) <= 1.5 * 0.1 + 1e-12


def test_a_triangle_without_area_does_nothing():
    x = np.array([[0.5, 0.01, 0], [0, 0, 0], [1, 0, 0], [2, 0, 0.0]])
    weights, normal, _ = stencil(x)
    assert np.isfinite(weights).all()
    assert not normal.any()
    after, _ = solve(x, [1, 1, 1, 1], kind=1)
    np.testing.assert_array_equal(after, x)


@given(st.integers(0, 10_000), st.sampled_from([1, -1]))
@settings(max_examples=60, deadline=None)
def test_solving_a_triangle_parts_it_by_the_thickness_and_keeps_momentum(seed, side):
    rng = np.random.default_rng(seed)
    x = over_triangle(rng)
    mass = rng.uniform(0.5, 2.0, 4)
    # a small overlap, so that one step of Newton's method ends close to the answer
    x[0] += (side * 0.099 - height(x, 1.0)) * stencil(x)[1]
    assert (stencil(x)[0] <= 0.2).sum() == 3
    after, before = solve(x, mass, was=x, kind=side, thick=0.1)
    # of a sliver it is less close: the overlap squared over the sliver's width
    a, b, c = x[1:]
    width = np.linalg.norm(np.cross(b - a, c - a)) / max(np.linalg.norm(d) for d in (b - a, c - b, a - c))
    assert height(after, side) == pytest.approx(0.1, abs=max(2e-6, 1e-6 / width))
    np.testing.assert_allclose((mass[:, None] * (after - x)).sum(axis=0), 0.0, atol=1e-12)
    # the overlap was there before: it is undone without speed
    np.testing.assert_allclose(after - before, 0.0, atol=1e-12)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_solving_a_frozen_contact_is_exact(seed, edges):
    rng = np.random.default_rng(seed)
    if edges:
        s, t = rng.uniform(0, 1, 2)
        weights, count = np.array([1 - s, s, t - 1, -t]), 4
    else:
        weights, count = np.array([1, 0, -1, 0.0]), 2
    x = rng.normal(size=(count, 3))
    mass = rng.uniform(0.5, 2.0, count)
    n = rng.normal(size=3)
    n /= np.linalg.norm(n)
    full = weights if edges else np.array([1, -1.0])
    x[0] -= (n @ (full @ x) - 0.02) * n / full[0]
    was = x + full[:, None] * rng.uniform(0.5, 1.0) * n
    after, before = solve(x, mass, was=was, weights=weights, normal=n, thick=0.1)
    assert n @ (full @ after) == pytest.approx(0.1, abs=1e-12)
    np.testing.assert_allclose((mass[:, None] * (after - x)).sum(axis=0), 0.0, atol=1e-12)
    # they came from far enough: what is stopped keeps where it was
    np.testing.assert_array_equal(before, was)


def test_edges_that_meet_at_the_second_end_of_one_are_parted():
    x = np.array([[0.0, 1.0, 0.3], [0, 0, 0.05], [-1, 0, 0], [1, 0, 0]])
    after, _ = solve(x, [1, 1, 1, 1], weights=(0, 1, -0.5, -0.5), normal=(0, 0, 1), thick=0.1)
    assert after[1, 2] - after[2:, 2].mean() == pytest.approx(0.1, abs=1e-12)
    np.testing.assert_array_equal(after[0], x[0])


def test_what_is_far_enough_apart_is_left_alone():
    x = np.array([[0.3, 0.3, 0.11], [0, 0, 0], [1, 0, 0], [0, 1, 0]])
    for kind, weights in ((1, (0, 0, 0, 0)), (0, (1, -0.4, -0.3, -0.3))):
        after, _ = solve(x, [1, 1, 1, 1], kind=kind, weights=weights, normal=(0, 0, 1), thick=0.1)
        np.testing.assert_array_equal(after, x)


def test_overlap_is_undone_no_faster_than_allowed():
    x = np.array([[0.3, 0.3, -0.5], [0, 0, 0], [1, 0, 0], [0, 1, 0]])
    after, before = solve(x, [1, np.inf, np.inf, np.inf], was=x, kind=1, thick=0.1, push=0.02)
    np.testing.assert_allclose(after[0], [0.3, 0.3, -0.48])
    np.testing.assert_allclose(before[0], after[0])


def test_held_vertices_stay():
    x = np.array([[0.3, 0.3, 0.05], [0, 0, 0], [1, 0, 0], [0, 1, 0]])
    after, _ = solve(x, [np.inf, 1, 1, 1], kind=1)
    np.testing.assert_array_equal(after[0], x[0])
    assert (after[1:, 2] < 0).all()
    after, _ = solve(x, [np.inf] * 4, kind=1)
    np.testing.assert_array_equal(after, x)


@pytest.mark.parametrize(
    ("slide", "rest"),
    # normal way 0.05: static friction 0.6 holds 0.03, kinetic friction 0.4 takes 0.02 of what slides
    [(0.029, 0.0), (0.031, 0.011), (0.1, 0.08), (0.0, 0.0)],
)
def test_friction_sticks_and_slides(slide, rest):
    was = np.array([[0.0, 0.0, 0.1], [0.0, 0.0, 0.0]])
    x = was + [[slide, 0.0, -0.05], [0.0, 0.0, 0.0]]
    after, _ = solve(x, [1.0, np.inf], was=was, normal=(0, 0, 1), mu=(0.6, 0.4))
    np.testing.assert_allclose(after[0], [rest, 0.0, 0.1], atol=1e-12)


def test_friction_shares_out_by_mass_and_keeps_momentum():
    was = np.array([[0.0, 0.0, 0.1], [0.0, 0.0, 0.0]])
    x = was + [[0.2, 0.0, -0.05], [0.0, 0.1, 0.0]]
    mass = np.array([1.0, 3.0])
    after, _ = solve(x, mass, was=was, normal=(0, 0, 1), mu=(0.5, 0.5))
    np.testing.assert_allclose((mass[:, None] * (after - x)).sum(axis=0), 0.0, atol=1e-12)
    slip = (after[0] - was[0]) - (after[1] - was[1])
    assert np.linalg.norm(slip[:2]) == pytest.approx(np.hypot(0.2, 0.1) - 0.025)


def test_overlap_that_is_undone_does_not_rub():
    was = np.array([[0.0, 0.0, 0.02], [0.0, 0.0, 0.0]])
    x = was + [[0.01, 0.0, 0.0], [0.0, 0.0, 0.0]]
    after, before = solve(x, [1.0, np.inf], was=was, normal=(0, 0, 1), mu=(1.0, 1.0))
    np.testing.assert_allclose(after[0] - before[0], [0.01, 0, 0], atol=1e-15)


@given(st.integers(0, 100_000))
@settings(max_examples=30, deadline=None)
def test_closest_approach_of_two_points_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    r = rng.normal(size=(50, 3))
    way = rng.normal(size=(50, 3)) * rng.choice([0.0, 0.1, 3.0], 50)[:, None]
    out = wp.zeros(50, dtype=wp.float64)
    launch(find_approach, 50, [wp.array(r, dtype=wp.vec3d), wp.array(way, dtype=wp.vec3d), out])
    t = np.linspace(0.0, 1.0, 4001)[:, None]
    brute = np.array([np.linalg.norm(a + t * b, axis=1).min() for a, b in zip(r, way, strict=True)])
    assert (out.numpy() <= brute + 1e-12).all()
    # between two samples the distance changes by less than half a step of the way
    np.testing.assert_allclose(out.numpy(), brute, atol=1e-3)
