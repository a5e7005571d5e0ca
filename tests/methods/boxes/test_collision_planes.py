"""Collision planes: boxes that touch get one, boxes that keep to them do not touch, conflicts come to an end."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.mesh import shapes
from weft.methods.boxes.elastic_surface import Limits
from weft.methods.boxes.limits import CollisionPlanes
from weft.world import Surface

THICKNESS = 0.01


def device(values, dtype=wp.vec3d):
    return wp.array(np.ascontiguousarray(values), dtype=dtype, device="cpu")


def loose(count):
    """That many triangles without common vertices."""
    return np.arange(3 * count, dtype=np.int32).reshape(-1, 3)


def free(count):
    """No limits, on the host."""
    return Limits(*(np.full((3, count), end) for end in (-np.inf, np.inf)))


def upload(limits):
    return Limits(*(device(values, wp.float64) for values in limits))


def make(faces, vertices, cloth=None):
    surface = Surface.from_arrays(vertices, faces)
    count = len(faces) if cloth is None else cloth
    return CollisionPlanes(surface, device(np.full(vertices, THICKNESS), wp.float64), count)


def faces_of(planes):
    return planes.surface.faces.numpy().reshape(-1, 3)


def listed(planes):
    """Pairs, axes, which triangle is below, and values of all planes, by pair."""
    store = planes.planes
    pairs, sides, values = (a.numpy()[: planes.count] for a in (store.pairs, store.sides, store.values))
    order = np.lexsort(pairs.T[::-1])
    return pairs[order], sides[order, 0], sides[order, 1], values[order]


def written_by_hand(planes, limits):
    """What the planes make of limits, one after another; gives how many coordinates are in conflict."""
    faces = faces_of(planes)
    for pair, axis, low, value in zip(*listed(planes), strict=True):
        for vertex in faces[pair[low]]:
            limits.upper[axis, vertex] = min(limits.upper[axis, vertex], value[0])
        for vertex in faces[pair[1 - low]]:
            limits.lower[axis, vertex] = max(limits.lower[axis, vertex], value[1])
    conflict = limits.upper < limits.lower
    limits.upper[conflict], limits.lower[conflict] = limits.lower[conflict], limits.upper[conflict]
    return np.count_nonzero(conflict)


def write(planes, limits):
    """Narrow limits of the host, as by hand; gives how many coordinates are in conflict."""
    given = upload(limits)
    conflicts = written_by_hand(planes, limits)
    planes.write(given)
    assert np.array_equal(given.lower.numpy(), limits.lower) and np.array_equal(given.upper.numpy(), limits.upper)
    return conflicts


def every_pair(faces):
    """All pairs of triangles without a common vertex."""
    pairs = [(a, b) for a in range(len(faces)) for b in range(a + 1, len(faces)) if not set(faces[a]) & set(faces[b])]
    return device(np.array(pairs, np.int32).reshape(-1, 2), wp.vec2i)


def update(planes, start, end, limits=None, rests=None, **options):
    pairs = every_pair(faces_of(planes))
    carried = device(np.zeros(len(start)) if rests is None else rests, int)
    return planes.update(pairs, device(start), device(end), upload(limits or free(len(start))), carried, **options)


def boxes_of(faces, x):
    return x[faces].min(axis=1), x[faces].max(axis=1)


def largest_gap(faces, x, a, b):
    """How far two boxes are apart on the axis where they are farthest."""
    low, high = boxes_of(faces, x)
    return np.maximum(low[b] - high[a], low[a] - high[b]).max()


def meet_when_sampled(faces, start, end, a, b, distance, samples=400):
    """Whether the boxes, their sides moving linearly, come nearer than a distance on all axes at once."""
    boxes = [boxes_of(faces, x) for x in (start, end)]
    s = np.linspace(0.0, 1.0, samples)[:, None]
    low, high = ((1 - s) * boxes[0][k][:, None] + s * boxes[1][k][:, None] for k in range(2))
    return (np.maximum(low[b] - high[a], low[a] - high[b]).max(axis=1) < distance).any()


def random_triangles(seed, count, *, motion=0.6):
    rng = np.random.default_rng(seed)
    centre = np.repeat(rng.uniform(0.0, 2.5, (count, 3)), 3, axis=0)
    start = centre + rng.uniform(-0.4, 0.4, (3 * count, 3))
    return start, start + np.repeat(rng.normal(scale=motion, size=(count, 3)), 3, axis=0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_pairs_that_meet_in_time_are_those_of_dense_sampling(seed):
    faces = loose(2)
    start, end = random_triangles(seed, 2)
    gap = largest_gap(faces, start, 0, 1)
    touching = update(make(faces, 6), start, end).pairs
    if gap <= 0.0:
        return
    kept = min(THICKNESS, gap)
    if meet_when_sampled(faces, start, end, 0, 1, kept * (1 - 1e-4)):
        assert touching == 1
    if not meet_when_sampled(faces, start, end, 0, 1, kept * 1.05 + 2e-3):
        assert touching == 0


@pytest.mark.parametrize("gap", [0.1 * THICKNESS, 0.5 * THICKNESS])
def test_a_pair_that_starts_nearer_than_its_thickness_keeps_its_distance(gap):
    """It touches once it comes nearer than it was, and its plane does not throw it apart."""
    flat = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    start = np.concatenate([flat, flat + [0.0, gap, 0.0]])
    assert update(make(loose(2), 6), start, start + [0.0, 0.3, 0.0]).pairs == 0
    nearer = np.concatenate([flat, flat + [0.0, 0.5 * gap, 0.0]])
    planes, limits = make(loose(2), 6), free(6)
    assert update(planes, start, nearer).pairs == 1 and write(planes, limits) == 0
    kept = np.clip(nearer, limits.lower.T, limits.upper.T)
    assert largest_gap(loose(2), kept, 0, 1) == pytest.approx(gap, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 100_000), still=st.booleans())
def test_a_pair_that_keeps_to_its_plane_does_not_meet(seed, still):
    faces = loose(2)
    start, end = random_triangles(seed, 2)
    planes = make(faces, 6)
    if largest_gap(faces, start, 0, 1) <= 0.0 or update(planes, start, end, still=still).pairs == 0:
        return
    limits = free(6)
    assert write(planes, limits) == 0
    kept = np.clip(end, limits.lower.T, limits.upper.T)
    assert update(planes, start, kept, limits).pairs == 0
    assert largest_gap(faces, kept, 0, 1) >= min(THICKNESS, largest_gap(faces, start, 0, 1)) * (1 - 1e-5)


def test_the_plane_is_across_the_axis_of_the_last_touch_and_moves_with_the_pair():
    faces = loose(2)
    triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 1]])
    # both fall, the upper one faster
    start = np.concatenate([triangle, triangle + (0.2, 0.5, 0.1)])
    end = start - np.repeat([[0.0, 1.0, 0], [0, 2.0, 0]], 3, axis=0)
    planes = make(faces, 6)
    assert update(planes, start, end) == (1, 1)
    assert listed(planes)[1].tolist() == [1] and listed(planes)[2].tolist() == [0]
    # the middle of the sides at the end: -1 and -1.5
    assert listed(planes)[3][0] == pytest.approx([-1.25 - THICKNESS / 2, -1.25 + THICKNESS / 2])
    # touching again: where they first come to a thickness of each other, s = 0.49, with the middle at 0.25 - 1.5 s
    assert update(planes, start, end) == (1, 0)
    middle = 0.25 - 1.5 * 0.49
    assert listed(planes)[3][0] == pytest.approx([middle - THICKNESS / 2, middle + THICKNESS / 2], abs=1e-6)
    assert update(planes, start, end, still=True) == (1, 0)
    assert listed(planes)[3][0] == pytest.approx([0.25 - THICKNESS / 2, 0.25 + THICKNESS / 2])


def test_what_rests_on_a_limit_carries_what_falls_on_it():
    faces = loose(2)
    triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 1]])
    start = np.concatenate([triangle, triangle + (0.2, 0.5, 0.1)])
    end = start - np.repeat([[0.0, 0.0, 0], [0, 1.0, 0]], 3, axis=0)
    limits = free(6)
    limits.lower[1, :3] = 0.0
    planes = make(faces, 6)
    update(planes, start, end, limits)
    assert listed(planes)[3][0] == pytest.approx([0.0, THICKNESS])
    # and hung on one it stops what rises
    limits = free(6)
    limits.upper[1, 3:] = -0.5
    planes = make(faces, 6)
    update(planes, start, end, limits)
    assert listed(planes)[3][0] == pytest.approx([-0.5 - THICKNESS, -0.5])


def conflicting():
    """Figure 6 of the paper: A and B share P, C comes down on A, D comes up under B, past each other."""
    # along x: P is a corner of A (to the left of C) and of B (to the right of D); A and B lie apart in z
    faces = np.array([[0, 1, 2], [0, 3, 4], [5, 6, 7], [8, 9, 10]], np.int32)
    start = np.array(
        [[0, 0, 0], [-0.3, 0.3, 1.0], [-0.3, -0.3, 1.0], [0.3, 0.3, -1.0], [0.3, -0.3, -1.0]]
        + [[0.5, 0, 0.5], [0.9, 0.4, 0.6], [0.9, -0.4, 0.6]]
        + [[-0.5, 0, -0.5], [-0.9, 0.4, -0.6], [-0.9, -0.4, -0.6]],
        float,
    )
    end = start.copy()
    end[5:8, 0] -= 0.8
    end[8:11, 0] += 0.8
    return faces, start, end


def test_conflicting_intervals_are_reversed_shrink_and_vanish():
    faces, start, wanted = conflicting()
    planes = make(faces, len(start))
    widths, end = [], wanted
    for _ in range(40):
        limits = free(len(start))
        conflicts = write(planes, limits)
        if widths or conflicts:
            widths.append(limits.upper[0, 0] - limits.lower[0, 0] if conflicts else 0.0)
        assert (limits.lower <= limits.upper).all()
        # the solver's part: everything goes as far as its limits let it
        end = np.clip(wanted, limits.lower.T, limits.upper.T)
        if update(planes, start, end, limits).pairs == 0:
            break
    else:
        pytest.fail("the conflict did not end")
    # to the part of a gap that counts as rounding
    assert widths[0] > 10 * THICKNESS and widths[-1] < 1e-5 * THICKNESS and len(widths) <= 8
    assert (np.diff(widths) <= 1e-12).all()
    for a, b in ((0, 2), (1, 3), (2, 3)):
        assert largest_gap(faces, end, a, b) > 0.0


def test_rounding_puts_no_still_plane_beyond_the_start():
    """Where a gap is less than the thickness both limits are sides of the boxes at the start, to the last bit."""
    count, rng = 400, np.random.default_rng(3)
    start = rng.uniform(0.0, 0.1, (2 * count, 3, 3))
    start[:, :, 0] += np.repeat(np.arange(count), 2)[:, None]
    # the second of each pair is above the first, by less than the thickness, and falls through it
    below, above = start[::2], start[1::2]
    above[:, :, 1] += (below[:, :, 1].max(axis=1) - above[:, :, 1].min(axis=1) + rng.uniform(1e-6, 9e-3, count))[
        :, None
    ]
    above[:, :, ::2] = below[:, :, ::2]
    end = start.copy()
    end[1::2, :, 1] -= 0.5
    start, end = (x.reshape(-1, 3) for x in (start, end))
    planes = make(loose(2 * count), 6 * count)
    assert update(planes, start, end, still=True).pairs == count
    limits = free(6 * count)
    write(planes, limits)
    assert (limits.lower <= start.T).all() and (limits.upper >= start.T).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_still_planes_are_fulfilled_by_the_start_and_end_everything(seed):
    count = 8
    faces = loose(count)
    start, wanted = random_triangles(seed, count)
    planes = make(faces, 3 * count)
    end = wanted
    for _ in range(200):
        touching = update(planes, start, end, still=True)
        if touching.new == 0:
            break
        limits = free(3 * count)
        assert write(planes, limits) == 0
        assert (limits.lower <= start.T).all() and (limits.upper >= start.T).all()
        end = np.clip(wanted, limits.lower.T, limits.upper.T)
    assert touching.pairs == 0
    for a in range(count):
        for b in range(a):
            if largest_gap(faces, start, a, b) > 0.0:
                assert largest_gap(faces, end, a, b) > 0.0


def test_boxes_that_overlap_from_the_start_may_part_but_not_go_deeper():
    faces = loose(2)
    start = np.array([[0, 0, 0], [1, 0.2, 0], [0, 0.1, 1], [0.1, 0.15, 0.1], [0.9, 0.4, 0.1], [0.1, 0.3, 0.9]], float)
    lift = np.repeat([[0, 0, 0], [0, 1.0, 0]], 3, axis=0)
    planes = make(faces, 6)
    assert update(planes, start, start).pairs == 0
    assert update(planes, start, start + 0.3 * lift).pairs == 0
    assert update(planes, start, start - 0.1 * lift).pairs == 1
    limits = free(6)
    write(planes, limits)
    end = np.clip(start - 0.1 * lift, limits.lower.T, limits.upper.T)
    assert update(planes, start, end).pairs == 0
    assert end[3:, 1].min() == pytest.approx(0.15)


def test_planes_are_known_again_in_any_order_and_forgotten():
    start, end = random_triangles(5, 100)
    planes = make(loose(100), 300)
    no_limits = upload(free(300)), device(np.zeros(300), int)
    pairs = every_pair(faces_of(planes)).numpy()
    mixed = np.random.default_rng(1).permutation(pairs)
    first = planes.update(device(pairs, wp.vec2i), device(start), device(end), *no_limits)
    assert first.new == first.pairs == planes.count > 64
    again = planes.update(device(mixed, wp.vec2i), device(start), device(end), *no_limits)
    assert again == (first.pairs, 0) and planes.count == first.pairs
    kept, values = listed(planes)[0], listed(planes)[3]
    assert len(np.unique(kept, axis=0)) == len(kept)
    # in another order from the beginning: the same planes
    planes.reset()
    assert planes.count == 0
    for _ in range(2):
        planes.update(device(mixed, wp.vec2i), device(start), device(end), *no_limits)
    assert (listed(planes)[0] == kept).all() and (listed(planes)[3] == values).all()


def test_triangles_of_colliders_get_no_planes_of_boxes():
    start, end = random_triangles(7, 30)
    planes = make(loose(30), 90, cloth=20)
    assert update(planes, start, end).pairs > 0
    assert (listed(planes)[0] < 20).all()


def test_what_rests_on_a_collider_carries_what_falls_on_it():
    start = np.array([[0, 0.01, 0], [1, 0.01, 0], [0, 0.01, 1], [0, 0.05, 0], [1, 0.05, 0], [0, 0.05, 1]], float)
    end = start - np.repeat([[0, 0, 0], [0, 0.06, 0]], 3, axis=0)
    planes = make(loose(2), 6)
    # bit 1: carried from below along y
    assert update(planes, start, end, rests=[2, 2, 2, 0, 0, 0]).pairs == 1
    limits = free(6)
    write(planes, limits)
    assert limits.upper[1, :3] == pytest.approx(0.01) and limits.lower[1, 3:] == pytest.approx(0.01 + THICKNESS)


def test_triangles_that_an_edge_joins_get_no_plane():
    mesh = shapes.grid((1.0, 1.0), (4, 4))
    x, faces = mesh.vertices, mesh.faces
    planes = make(faces, len(x))
    # turned a little in its plane the boxes of neighbours come to overlap
    angle = np.radians(15.0)
    turned = x @ np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    assert update(planes, x, turned).pairs == 0
