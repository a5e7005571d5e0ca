"""Colours: the maps have even lightness, the sides differ, the scene's own colours win."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_caches import waving

from weft.scene.colours import body_colours, from_hex, to_linear, to_srgb
from weft.view.fields import DIVERGING, SEQUENTIAL, map_colours


def luminance(srgb):
    return to_linear(srgb) @ np.array([0.2126, 0.7152, 0.0722])


@given(st.floats(0.0, 1.0))
def test_srgb_and_linear_light_are_inverse(value):
    assert to_srgb(to_linear(value)) == pytest.approx(value, abs=1e-6)
    assert to_linear(to_srgb(value)) == pytest.approx(value, abs=1e-6)


def test_sequential_map_gets_lighter_all_the_way():
    assert (np.diff(luminance(SEQUENTIAL)) > 0.0).all()


def test_diverging_map_is_lightest_in_the_middle_and_falls_to_both_sides():
    light = luminance(DIVERGING)
    assert (np.diff(light[:128]) > 0.0).all()
    assert (np.diff(light[128:]) < 0.0).all()
    # below zero is blue, above zero is red
    assert DIVERGING[0, 2] > DIVERGING[0, 0] + 0.3
    assert DIVERGING[-1, 0] > DIVERGING[-1, 2] + 0.3


def test_map_colours_takes_the_ends_beyond_the_scale_and_grey_for_what_is_not_known():
    colours = map_colours([-9.0, 0.0, 2.0, 99.0, np.nan], 0.0, 2.0, SEQUENTIAL)
    np.testing.assert_array_equal(colours[:2], SEQUENTIAL[[0, 0]])
    np.testing.assert_array_equal(colours[2:4], SEQUENTIAL[[-1, -1]])
    np.testing.assert_array_equal(colours[4], [0.5, 0.5, 0.5])


def test_a_scale_without_extent_is_no_division_by_zero():
    assert np.isfinite(map_colours([1.0, 1.0], 1.0, 1.0, SEQUENTIAL)).all()


def test_front_and_back_of_a_cloth_differ_and_the_scene_gives_colours():
    cache = waving()
    sheet, block = body_colours(cache.bodies, None)
    assert luminance(sheet.back) < 0.75 * luminance(sheet.front)
    cloth = SimpleNamespace(name="sheet", colour="#ff0080")
    collider = SimpleNamespace(name="block", colour=None)
    own, grey = body_colours(cache.bodies, SimpleNamespace(cloths=[cloth], colliders=[collider]))
    np.testing.assert_allclose(own.front, [1.0, 0.0, 128 / 255])
    np.testing.assert_array_equal(grey.front, block.front)


def test_from_hex():
    np.testing.assert_allclose(from_hex("#0a14ff"), np.array([10, 20, 255]) / 255)
