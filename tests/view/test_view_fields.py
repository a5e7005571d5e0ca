"""Strain and speed at vertices, against loops that are plain to read."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_caches import MemoryCache, join, waving, write_cache

from weft.errors import WeftError
from weft.mesh import shapes
from weft.mesh.topology import unique_edges
from weft.view.camera import MAX_FRAMES, sample_frames
from weft.view.fields import TANGLES, Field, check_colour


def strain_by_loops(x, rest, faces):
    sums, counts = np.zeros(len(x)), np.zeros(len(x))
    done = set()
    for face in faces:
        for k in range(3):
            a, b = sorted((int(face[k]), int(face[(k + 1) % 3])))
            if (a, b) in done:
                continue
            done.add((a, b))
            value = np.linalg.norm(x[a] - x[b]) / np.linalg.norm(rest[a] - rest[b]) - 1.0
            for v in (a, b):
                sums[v] += value
                counts[v] += 1
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def test_strain_is_the_mean_over_edges_against_the_flat_shape():
    cache = waving(cells=5)
    sheet, _ = cache.bodies
    found = Field(cache, "strain").values(2)
    expected = strain_by_loops(cache.positions(2), cache.uv, cache.faces[sheet.faces])
    np.testing.assert_allclose(found[sheet.vertices], expected[sheet.vertices], atol=1e-12)


def test_colliders_have_no_strain():
    cache = waving(cells=3)
    assert np.isnan(Field(cache, "strain").values(1)[cache.bodies[1].vertices]).all()


def test_an_even_stretch_is_seen_as_such():
    cache = waving(cells=4, frames=1)
    sheet = cache.bodies[0]
    cache.xs[0][sheet.vertices] = np.insert(1.1 * cache.uv[sheet.vertices], 1, 0.0, axis=1)
    np.testing.assert_allclose(Field(cache, "strain").values(0)[sheet.vertices], 0.1, atol=1e-12)


@pytest.mark.parametrize("uv", ["none", "missing for the cloth", "texture only"])
def test_without_a_flat_rest_shape_frame_0_is_at_rest(uv):
    cache = waving(cells=4)
    if uv == "none":
        cache.uv = None
    elif uv == "missing for the cloth":
        cache.uv = np.full_like(cache.uv, np.nan)
    else:
        cloth = SimpleNamespace(name="sheet", mesh="sheet.obj", rest=None)
        cache.scene = SimpleNamespace(cloths=[cloth])
    field = Field(cache, "strain")
    np.testing.assert_allclose(field.values(0)[cache.bodies[0].vertices], 0.0, atol=1e-12)
    assert np.abs(field.values(2)[cache.bodies[0].vertices]).max() > 0.01


def test_speed_is_the_length_of_the_velocity():
    cache = waving(cells=4)
    values = Field(cache, "speed").values(2)
    v = (cache.positions(2) - cache.positions(1)) * cache.fps
    np.testing.assert_allclose(values, np.sqrt((v**2).sum(axis=1)))


def test_the_scale_holds_for_all_frames_and_strain_has_zero_in_the_middle():
    cache = waving(cells=6, frames=6)
    strain, speed = Field(cache, "strain"), Field(cache, "speed")
    assert strain.low == -strain.high
    assert speed.low == 0.0
    fastest = max(np.percentile(speed.values(f), 99.0) for f in range(6))
    assert speed.high == pytest.approx(fastest)


def test_a_cloth_at_rest_is_not_blown_up_to_full_colour():
    cache = waving(cells=3, frames=1)
    cache.uv = None
    assert Field(cache, "strain").high == 0.01


def test_unknown_colours_are_refused():
    with pytest.raises(WeftError, match="colour 'heat' is not known: use one of body, strain, speed, tangles"):
        check_colour("heat")


@given(st.integers(1, 500))
def test_sampled_frames_are_few_and_span_the_run(count):
    frames = sample_frames(count)
    assert len(frames) == min(count, MAX_FRAMES)
    assert frames[0] == 0
    assert frames[-1] == count - 1


def test_no_frames_is_said():
    with pytest.raises(WeftError, match="no complete frame"):
        sample_frames(0)


def test_edges_are_found_once():
    faces = np.array([[0, 1, 2], [2, 1, 3]], np.int32)
    np.testing.assert_array_equal(unique_edges(faces), [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])


def test_tangles_are_the_regions_of_the_cloths(tmp_path):
    ball = shapes.icosphere(0.3, subdivisions=2)
    sheet = shapes.grid((1.0, 1.0), (16, 16))
    bodies, faces, x, _ = join([("sheet", "cloth", sheet), ("lump", "cloth", ball), ("post", "collider", ball)])
    x[bodies[1].vertices] -= [0.013, 0.163, 0.007]
    # the ball through the sheet, then below it; the collider passes through both all the time
    apart = x.copy()
    apart[bodies[1].vertices, 1] -= 1.0
    field = Field(write_cache(tmp_path / "tangled.zarr", MemoryCache(bodies, faces, [x, apart])), "tangles")
    values = field.values(0)
    lump, flat = values[bodies[1].vertices], values[bodies[0].vertices]
    above = x[bodies[1].vertices, 1] > 0.0
    # one of them is black, the other white
    assert sorted({*lump[above], *flat[flat > 0.0]}) == [1.0, 2.0]
    assert not lump[~above].any() and 0 < (flat > 0.0).sum() < 80
    assert np.isnan(values[bodies[2].vertices]).all()
    assert not field.values(1)[: bodies[2].vertices.start].any()
    assert np.array_equal(
        np.unique(field.colours(0)[bodies[1].vertices][above], axis=0), TANGLES[[int(lump[above][0])]]
    )
