"""The examples of `robust`, finished: nothing intersects at any level, neither cloth with cloth nor with colliders."""

import importlib
import sys
from pathlib import Path

import pytest

import weft
from weft.check import check_cache
from weft.finish import subdivide

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("robust_*.py"))


def simulated(name, out, *, frames, monkeypatch):
    """The first frames of an example at its quick size."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    scene = importlib.import_module(name).scene("quick")
    for helper in ("common", "measures", name):
        sys.modules.pop(helper, None)
    return weft.simulate(scene, out, frames=frames, progress=False)


def check_levels(cache, frames, folder):
    """Clean at level 1 and at level 2, by the finisher's count and by `weft check`'s; the report of level 2."""
    for level in (1, 2):
        fine = subdivide(cache, folder / f"{level}.zarr", levels=level, frames=frames, processes=1, compare=level == 2)
        assert set(fine.report["status"]) == {"ok"}
        assert (fine.report["intersections"] == 0).all() and (fine.report["source_intersections"] == 0).all()
        assert check_cache(fine).clean
    return fine.report


@pytest.mark.parametrize("name", NAMES)
def test_first_contacts(name, tmp_path, monkeypatch):
    cache = simulated(name, tmp_path / "run.zarr", frames=8, monkeypatch=monkeypatch)
    check_levels(cache, [8], tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_whole_run(name, tmp_path, monkeypatch):
    """To the end; somewhere smoothing has to be stopped, and without that there would be intersections."""
    cache = simulated(name, tmp_path / "run.zarr", frames=None, monkeypatch=monkeypatch)
    report = check_levels(cache, range(0, cache.frames, 10), tmp_path)
    assert report["stopped"].max() > 0 and report["plain_intersections"].max() > 0
