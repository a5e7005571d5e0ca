"""The order of the triangles and the patches they form."""

import numpy as np
import pytest
from crumpled import sheet
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.broad_phase.patches import PairingTree, Patches, build_pairing
from weft.world import Surface


def tree_of(surface: Surface) -> PairingTree:
    return build_pairing(surface.face_edges.numpy().reshape(-1, 3), surface.face_body.numpy())


def below(tree: PairingTree, node: int) -> set[int]:
    left, right = tree.children[node]
    return {node} if left < 0 else below(tree, left) | below(tree, right)


def hangs_together(faces: np.ndarray, members: list[int]) -> bool:
    reached, front = {members[0]}, [members[0]]
    while front:
        here = set(faces[front.pop()])
        for other in members:
            if other not in reached and len(here & set(faces[other])) >= 2:
                reached.add(other)
                front.append(other)
    return len(reached) == len(members)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), vertices=st.integers(3, 30), bodies=st.integers(1, 3))
def test_a_tree_over_any_triangles(seed: int, count: int, vertices: int, bodies: int) -> None:
    rng = np.random.default_rng(seed)
    faces = rng.integers(0, vertices, (count, 3))
    body = rng.integers(0, bodies, count)
    surface = Surface.from_arrays(vertices, faces, face_body=body, body_pairs=np.ones((bodies, bodies), int))
    tree = tree_of(surface)
    assert len(tree.parent) == 2 * count - 1
    assert sorted(tree.order) == list(range(count))
    # a node is a run of ranks, and that run holds the triangles below it
    for node in range(len(tree.parent)):
        run = tree.order[tree.start[node] : tree.start[node] + tree.size[node]]
        assert set(run.tolist()) == below(tree, node)
    # patches cover all ranks once, are small, and stay within a body
    nodes = tree.patches(4)
    assert tree.start[nodes].tolist() == np.concatenate([[0], np.cumsum(tree.size[nodes])[:-1]]).tolist()
    assert tree.size[nodes].sum() == count and tree.size[nodes].max() <= 4
    for node in nodes:
        assert len({int(body[f]) for f in below(tree, node)}) == 1


@pytest.mark.parametrize("cells", [1, 2, 7, 20])
def test_patches_of_a_sheet_are_full_and_hang_together(cells: int) -> None:
    faces = sheet(cells)
    surface = Surface.from_arrays((cells + 1) ** 2, faces)
    tree = tree_of(surface)
    nodes = tree.patches(8)
    for node in nodes:
        assert hangs_together(faces, sorted(below(tree, node)))
    assert len(nodes) <= len(faces) / 8 + 2


def test_triangles_without_neighbours_are_patches_of_their_own() -> None:
    surface = Surface.from_arrays(30, np.arange(30).reshape(-1, 3))
    assert len(tree_of(surface).patches(8)) == 10


def test_many_triangles_at_one_edge_do_not_explode() -> None:
    count = 3000
    faces = np.stack([np.zeros(count, int), np.ones(count, int), np.arange(2, count + 2)], axis=1)
    tree = tree_of(Surface.from_arrays(count + 2, faces))
    assert tree.size[-1] == count


def test_every_feature_has_one_rank_in_the_patch_of_its_owner() -> None:
    faces = sheet(9)
    surface = Surface.from_arrays(100, faces)
    patches = Patches(surface, largest=8)
    assert sorted(patches.face_ids.numpy()) == list(range(len(faces)))
    assert sorted(patches.vertex_ids.numpy()) == list(range(100))
    assert sorted(patches.edge_ids.numpy()) == list(range(surface.edge_count))
    edges = surface.edges.numpy()
    for patch in range(patches.count):
        members = patches.face_ids.numpy()[patches.face_start.numpy()[patch] : patches.face_start.numpy()[patch + 1]]
        vertices = patches.vertex_ids.numpy()
        for v in vertices[patches.vertex_start.numpy()[patch] : patches.vertex_start.numpy()[patch + 1]]:
            assert np.flatnonzero((faces == v).any(axis=1))[0] in members
        for e in patches.edge_ids.numpy()[patches.edge_start.numpy()[patch] : patches.edge_start.numpy()[patch + 1]]:
            owner = next(f for f, face in enumerate(faces) if set(edges[e]) <= set(face))
            assert owner in members


def test_patches_whose_features_do_not_fit_a_word_are_refused() -> None:
    surface = Surface.from_arrays(4, sheet(1))
    for size in (0, 22):
        with pytest.raises(ValueError, match="1 to 21 triangles"):
            Patches(surface, largest=size)


def test_the_order_depends_on_the_faces_alone() -> None:
    faces = sheet(12)
    orders = [Patches(Surface.from_arrays(169, faces), largest=size).face_ids.numpy() for size in (1, 4, 16)]
    np.testing.assert_array_equal(orders[0], orders[1])
    np.testing.assert_array_equal(orders[0], orders[2])
