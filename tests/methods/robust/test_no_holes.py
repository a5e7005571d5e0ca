"""No silent crossing in `robust`, `guarded` and `boxes`, over many decades of size, thickness, speed, place and time step."""

import numpy as np
import pytest
from hole_hunt import FAMILIES, explained, judge

import weft
from weft.contact.ccd_tests import COLLISION_DISTANCE
from weft.contact.step_search import length_scale
from weft.errors import SceneError
from weft.methods import make_method
from weft.world import World

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.WeftWarning")


def drape(thickness, **more):
    """A sheet over a ball, clear of it at the start."""
    ball = weft.Collider(
        shape=weft.Sphere(radius=0.25, subdivisions=3), placement=weft.Placement(position=(0.0, -0.27, 0.0))
    )
    cloth = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(20, 20)))
    return weft.Scene(frames=12, thickness=thickness, cloths=[cloth], colliders=[ball], **more)


def moved(scene, far):
    """The same scene so far along x."""

    def place(body):
        x, y, z = body.placement.position
        return body.replace(placement=weft.Placement(position=(x + far, y, z)))

    return scene.replace(cloths=[place(c) for c in scene.cloths], colliders=[place(c) for c in scene.colliders])


@pytest.mark.parametrize("thickness", [1e-3, 6e-5, 2e-5, 3e-6])
def test_thin_cloth_stays_free(thickness, tmp_path):
    report = weft.simulate(drape(thickness), tmp_path / "run.zarr", progress=False).report
    assert max(report["intersections"]) == 0 and set(report["status"]) == {"ok"}
    assert max(report["contacts"]) > 0


@pytest.mark.parametrize("thickness", [1e-2, 1e-3, 6e-5, 2e-5, 1e-7])
def test_boxes_have_room_for_the_least_distance(thickness):
    """A vertex within the slack of its box may come as near to another one as pairs may, and is still found."""
    world = World(drape(thickness))
    search = make_method(world, world.scene.method).search
    least = length_scale(world.finest_length) * COLLISION_DISTANCE
    assert search._slack > 0.0 and 2.0 * search._slack + least <= search.margin * (1.0 + 1e-12)
    assert least <= 0.1 * thickness * (1.0 + 1e-12)


def test_what_is_finer_than_its_thickness_stays_free(tmp_path):
    """Edges of 80 micrometres, and a thickness of 1 mm: the tolerances follow the edges."""
    size = 0.001
    ball = weft.Sphere(radius=0.25 * size, subdivisions=3)
    scene = weft.Scene(
        frames=6,
        cloths=[weft.Cloth(shape=weft.Grid(size=(size, size), cells=(12, 12)))],
        colliders=[weft.Collider(shape=ball, placement=weft.Placement(position=(0.0, -1.27 * size, 0.0)))],
    )
    report = weft.simulate(scene, tmp_path / "run.zarr", progress=False).report
    assert max(report["intersections"]) == 0 and set(report["status"]) == {"ok"}


def test_a_start_that_crosses_is_not_ok(tmp_path):
    sheets = [
        weft.Cloth(
            name=name, shape=weft.Grid(size=(0.2, 0.2), cells=(6, 6)), placement=weft.Placement(rotation_deg=turn)
        )
        for name, turn in (("one", (0.0, 0.0, 0.0)), ("other", (70.0, 0.0, 0.0)))
    ]
    report = weft.simulate(weft.Scene(frames=3, cloths=sheets), tmp_path / "run.zarr", progress=False).report
    assert min(report["intersections"]) > 0
    assert not any(status == "ok" for status in report["status"])


def test_a_scene_where_numbers_are_too_coarse_is_refused():
    scene = moved(drape(1e-6), 1e8)
    with pytest.raises(SceneError, match=r"1e\+08 m from the origin, where numbers are 1.5e-08 m apart"):
        make_method(World(scene), scene.method)


@pytest.mark.parametrize("far", [1e5, 1e8])
def test_far_from_the_origin_cloth_stays_free(far, tmp_path):
    report = weft.simulate(moved(drape(1e-3), far), tmp_path / "run.zarr", progress=False).report
    assert max(report["intersections"]) == 0 and set(report["status"]) == {"ok"}
    assert max(report["contacts"]) > 0


def found(seeds, method, family="simple"):
    """What went wrong in these random scenes without a word."""
    return [verdict for verdict in (judge(seed, method, family) for seed in seeds) if verdict.silent]


@pytest.mark.parametrize("method", ["robust", "guarded", "boxes"])
def test_no_silent_crossing_in_some_random_scenes(method):
    assert not found(range(20), method)


# `boxes` takes cloth of grids and strips only, which rings and needles are not
@pytest.mark.parametrize("method", ["robust", "guarded", "boxes"])
def test_no_silent_crossing_in_some_harder_scenes(method):
    assert not found(range(1, 25), method, "harder")


@pytest.mark.parametrize("method", ["robust", "guarded", "boxes"])
def test_no_silent_crossing_in_some_odd_scenes(method):
    assert not found(range(6, 14), method, "odd")


def test_frames_that_cross_without_a_word_are_noticed():
    ok = {"status": "ok"}
    assert explained({"status": "unfinished"}, False) and not explained(ok, False) and not explained(ok, True)
    ledger = {**ok, "released": 0, "opened": 0, "newly_crossing": 0}
    assert explained(ledger, True) and not explained(ledger, False) and explained({**ledger, "released": 2}, False)
    assert not explained({**ledger, "released": 2, "newly_crossing": 1}, True)
    assert explained({**ledger, "opened": 2}, False) and not explained(
        {**ledger, "opened": 2, "newly_crossing": 1}, True
    )
    assert explained(ok, True, True) and not explained(ledger, False, True)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("method", ["robust", "guarded", "boxes"])
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_silent_crossing_in_a_thousand_random_scenes(method, block, family):
    assert not found(range(100 * block + 1, 100 * (block + 1) + 1), method, family)


def test_most_random_scenes_are_not_refused():
    """A hunt that finds nothing because everything is refused would prove nothing."""
    for family in FAMILIES:
        verdicts = [judge(seed, family=family) for seed in range(6, 26)]
        assert sum(bool(v.refused) for v in verdicts) <= 2
        assert np.mean([len(v.statuses) for v in verdicts if not v.refused]) == 6
