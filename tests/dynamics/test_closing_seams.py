"""Seams that are drawn together in time: the gaps shrink evenly, and end closed."""

import numpy as np
import pytest

import weft
from weft.errors import SceneError

SQUARE = {"kind": "grid", "size": [0.1, 0.1], "cells": [4, 4]}


def scene(closing, method="plain", **seam):
    """Two squares of cloth 20 cm apart, sewn along facing sides, one of them held at its far side."""
    held = weft.Cloth(name="held", shape=SQUARE, pins=weft.Pin(boundary="left"))
    free = weft.Cloth(name="free", shape=SQUARE, placement={"position": [0.3, 0.0, 0.0]})
    stitches = [(5 * i + 4, 5 * i, 5 * i) for i in range(5)]
    return weft.Scene(
        frames=30,
        fps=60,
        method=method,
        forces=weft.Forces(gravity=(0, 0, 0), air_damping=5.0),
        cloths=(held, free),
        seams=(weft.Seam(cloth="held", to="free", vertices=stitches, closing=closing, **seam),),
    )


def gaps(sim):
    x = np.asarray(sim.positions)
    return np.linalg.norm(x[4:25:5] - x[25 + np.arange(0, 25, 5)], axis=1)


@pytest.mark.parametrize("kind", ["spring", "weld"])
def test_the_gap_shrinks_evenly(kind):
    sim = weft.Simulation(scene(0.5, kind=kind))
    start = gaps(sim)
    assert start == pytest.approx(0.2)
    for frame in range(1, 31):
        sim.advance()
        # stitches are never farther apart than the schedule says, but for the give of their springs
        assert (gaps(sim) < 0.2 * (1.0 - frame / 30) + 0.01).all()
    assert gaps(sim).max() < 0.003
    assert sim.report["stretch"] < 0.1


def test_a_delayed_seam_waits_and_does_not_push():
    sim = weft.Simulation(scene(0.25, kind="weld", delay=0.25))
    for _ in range(15):
        sim.advance()
    assert gaps(sim) == pytest.approx(0.2, abs=1e-6)
    # nearer than the schedule asks for: nothing happens
    sim.positions[25:] -= [0.05, 0.0, 0.0]
    sim.advance()
    assert gaps(sim) == pytest.approx(0.15, abs=1e-3)
    for _ in range(14):
        sim.advance()
    assert gaps(sim).max() < 0.003


def test_a_delay_needs_a_time_to_close():
    with pytest.raises(SceneError, match="delay is for seams that close in time"):
        scene(0.0, delay=0.5)


def test_without_closing_a_seam_pulls_at_once():
    sim = weft.Simulation(scene(0.0))
    sim.advance()
    assert gaps(sim).max() < 0.19


def test_a_weld_between_held_vertices_moves_nothing():
    """Both cloths are held along the seam: there is no mass to divide by."""
    both = [
        weft.Cloth(name=name, shape=SQUARE, pins=weft.Pin(boundary="all"), placement={"position": [x, 0.0, 0.0]})
        for name, x in (("held", 0.0), ("free", 0.3))
    ]
    sim = weft.Simulation(scene(0.0, kind="weld").replace(cloths=both))
    start = np.array(sim.positions)
    sim.advance()
    assert np.isfinite(np.asarray(sim.positions)).all()
    assert np.abs(np.asarray(sim.positions) - start)[[0, 4, 20, 24]].max() < 1e-12


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("predictive", "'predictive' cannot draw seams together in time"),
        ({"name": "robust", "dynamics": "implicit"}, "dynamics = 'implicit' cannot draw seams together in time"),
    ],
)
def test_other_dynamics_are_refused(method, text):
    with pytest.raises(SceneError, match=text):
        scene(0.5, method)
