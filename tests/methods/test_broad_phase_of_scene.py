"""The scene's `broad_phase`: honoured by every method that searches, or refused with what to do instead."""

import pytest

import weft
from weft.broad_phase.interface import BroadPhase
from weft.errors import SceneError
from weft.methods import make_method
from weft.methods.push.centroid_trees import KINDS
from weft.scene import Boxes, Push, load_scene, save_scene
from weft.world import World


def made(method, broad_phase=None):
    """The method of a small sheet over a floor."""
    given = {} if broad_phase is None else {"broad_phase": broad_phase}
    scene = weft.Scene(
        method=method,
        cloths=[weft.Cloth(shape=weft.Grid(size=(1, 1), cells=(3, 3)), placement={"position": (0, 0.1, 0)})],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(3, 3)))],
        **given,
    )
    return make_method(World(scene), scene.method)


@pytest.mark.parametrize("method", ["plain", "robust", "guarded", "untangle", "predictive", "boxes", "push"])
def test_a_scene_that_names_none_is_never_refused(method):
    assert made(method).name == method


@pytest.mark.parametrize("method", ["robust", "guarded", "untangle", "predictive", "boxes"])
@pytest.mark.parametrize("broad_phase", ["bvh", "topology_tree", "material_tree", "brute"])
def test_exact_ones_are_used(method, broad_phase, monkeypatch):
    method = made(method, broad_phase)
    state, used = method.world.initial_state(), set()
    method.begin(state)
    update = BroadPhase.update
    monkeypatch.setattr(
        BroadPhase, "update", lambda one, *args, **more: (used.add(one.name), update(one, *args, **more))
    )
    method.advance_step(state)
    # what untangle and guarded look for besides contacts, edges that pass through triangles, has a search of its own
    assert broad_phase in used and used <= {broad_phase, "bvh"}


@pytest.mark.parametrize("method", ["robust", "guarded", "untangle", "predictive", "boxes"])
@pytest.mark.parametrize("broad_phase", ["octree", "kdtree"])
def test_those_that_miss_pairs_are_refused(method, broad_phase):
    with pytest.raises(SceneError, match=rf"broad_phase: '{broad_phase}' .*use one of bvh, topology_tree"):
        made(method, broad_phase)


@pytest.mark.parametrize("broad_phase", ["bvh", "topology_tree", "brute"])
def test_boxes_searches_by_it(broad_phase):
    assert made("boxes", broad_phase).search.name == broad_phase
    assert type(made("boxes", "material_tree").search) is type(made("boxes").search)


@pytest.mark.parametrize("broad_phase", ["octree", "kdtree", "brute"])
def test_push_searches_by_it(broad_phase):
    assert made("push", broad_phase).response.cloth_search.kind == int(KINDS[broad_phase])
    assert made("push").response.cloth_search.kind == int(KINDS["kdtree"])


@pytest.mark.parametrize("broad_phase", ["bvh", "topology_tree", "material_tree"])
def test_push_refuses_trees_of_boxes(broad_phase):
    with pytest.raises(
        SceneError, match=rf"broad_phase: '{broad_phase}' is not for push; use one of brute, octree, kdtree"
    ):
        made("push", broad_phase)


@pytest.mark.parametrize(("method", "other"), [(Boxes(search="brute"), "bvh"), (Push(search="brute"), "octree")])
def test_a_method_and_a_scene_that_contradict_each_other_are_refused(method, other):
    made(method, "brute")
    with pytest.raises(SceneError, match=r"broad_phase: .*search of the method is 'brute'; leave one of them out"):
        made(method, other)


def test_plain_does_not_search():
    with pytest.raises(SceneError, match="broad_phase: plain does not search for contact"):
        made("plain", "bvh")


def test_it_is_known_from_a_file_whether_it_was_named(tmp_path):
    for broad_phase in (None, "bvh"):
        given = {} if broad_phase is None else {"broad_phase": broad_phase}
        save_scene(weft.Scene(**given), tmp_path / "scene.toml")
        assert load_scene(tmp_path / "scene.toml").broad_phase == broad_phase
