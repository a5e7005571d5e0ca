"""Every example at its quick size on CUDA: as on the CPU, and the same bytes every time."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from cuda_order import method_of

import weft
from weft.geometry.intersection import intersection_finder
from weft.world import World

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device"),
]

EXAMPLES = Path(__file__).parents[1] / "examples"
METHODS = ("guarded", "robust", "untangle", "predictive", "boxes", "push", "finish")
NAMES = sorted(path.stem for method in METHODS for path in EXAMPLES.glob(f"{method}_*.py"))
# frames within which the first contacts come
SOON = 40
LATER = 60
# what a step may differ by
CLOSE = 1e-9
# less than the size of an atom, m
STIR = 1e-12
# exactly symmetrical scenes have ties, which rounding decides: of the nearest triangles of a ball around a tube, of pairs
# exactly as far apart as they are thick. Their vertices start this far to the side, m
TIES = {"tube": 1e-4, "jaw": 1e-4}
# which triangle of a mesh is the nearest is found in single precision by `predictive` on CUDA
NEARLY = {"predictive": 1e-5}
DEVICE = "cuda:0"


def load(name, monkeypatch):
    """An example as a module; they import their neighbours by bare names."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def quick_scene(module):
    try:
        return module.scene()
    except (weft.WeftError, ImportError) as error:
        pytest.skip(f"its data is not here: {error}")


@pytest.fixture
def scene(request, monkeypatch):
    """The quick scene of an example."""
    return quick_scene(load(request.param, monkeypatch))


class Run:
    """A scene on a device; vertices may start a little to the side, each to another: what moves all alike stirs nothing."""

    def __init__(self, scene, device, *, stir=0.0):
        ties = TIES.get(scene.name, 0.0)
        self.world = World(scene, device)
        self.method, self.state = method_of(self.world), self.world.initial_state()
        x = self.state.positions()
        cloth = x[: self.world.cloth_vertex_count]
        cloth += stir * np.random.default_rng(0).uniform(-1.0, 1.0, cloth.shape)
        cloth += ties * np.random.default_rng(1).uniform(-1.0, 1.0, cloth.shape)
        self.state.x.assign(x)

    def step(self):
        """Positions and contacts of the first step."""
        method = self.method
        report = method.step(self.state, 1.0 / self.world.scene.fps / method.steps_a_frame())
        return self.state.positions(), report.contacts

    def frame(self):
        """Positions and contacts of the next frame."""
        row = self.method.advance_frame(self.state)
        return self.state.positions(), row["contacts"]


@pytest.mark.parametrize("scene", NAMES, indirect=True)
def test_the_first_step(scene):
    (x, contacts), (y, found), (z, _) = (Run(scene, device).step() for device in ("cpu", DEVICE, DEVICE))
    assert np.abs(y - x).max() < CLOSE
    assert found == contacts
    assert y.tobytes() == z.tobytes()


@pytest.mark.parametrize("scene", NAMES, indirect=True)
def test_the_same_until_the_first_contacts(scene):
    if Run(scene, "cpu").step()[1]:
        pytest.skip("contacts are there from the first step on, whose test looks at them")
    cpu, cuda, again = (Run(scene, device) for device in ("cpu", DEVICE, DEVICE))
    for _ in range(min(SOON, scene.frames)):
        (_, contacts), (y, found), (z, _) = cpu.frame(), cuda.frame(), again.frame()
        assert y.tobytes() == z.tobytes()
        assert found == contacts
        if contacts:
            break


@pytest.mark.long
@pytest.mark.parametrize("scene", NAMES, indirect=True)
def test_later_as_near_as_two_runs_on_the_cpu(scene):
    runs = [Run(scene, "cpu"), Run(scene, DEVICE), Run(scene, "cpu", stir=STIR)]
    for _ in range(min(LATER, scene.frames)):
        x, y, beside = (run.frame()[0] for run in runs)
    differ, sensitive = (np.sqrt(((other - x) ** 2).sum(axis=1).mean()) for other in (y, beside))
    assert differ < 3.0 * sensitive + NEARLY.get(scene.method.name, 1e-6)
    if scene.method.name == "robust":
        finder = intersection_finder(runs[0].world)
        assert len(finder.find(x)) == len(finder.find(y)) == 0


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_what_it_promises_holds_on_a_card(name, monkeypatch, tmp_path):
    """The check that an example makes of itself, of intersections above all."""
    module = load(name, monkeypatch)
    cache = weft.simulate(quick_scene(module), tmp_path / "run.zarr", device=DEVICE, progress=False)
    assert module.check(cache)
