"""The search of a step: what its one list of candidates covers, and when it must look again."""

import numpy as np
import pytest
from crumpled import positions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from step_scenes import folded, keys, make_contact_list, make_search, take, two_sheets

from weft.contact.step_search import MARGIN
from weft.runtime import get_threads, set_threads

# a seed does not shrink to anything simpler
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


def start_step(motion):
    search, rows = make_search(motion), make_contact_list()
    search.find_contacts(positions(motion.start), positions(motion.end), rows)
    return search, rows


def find_escaped(search, start, end):
    """Whether vertices leave their boxes on the way that did not leave them before."""
    search._mark_escaped(start, end)
    return int(search._new_escapes.numpy()[0]) == 1


def test_what_was_expected_is_covered_and_escapes_are_noted_once():
    motion = two_sheets(fall=0.02)
    search, _ = start_step(motion)
    start = positions(motion.start)
    assert not find_escaped(search, start, positions(motion.end))
    # anywhere on the way, and a little off it
    assert not find_escaped(search, start, positions(0.3 * motion.start + 0.7 * motion.end))
    assert not find_escaped(search, start, positions(motion.end + 0.4 * MARGIN))
    for vertex in (0, 40, len(motion.start) - 1):
        end = motion.end.copy()
        end[vertex, 1] += 0.02
        assert find_escaped(search, start, positions(end))
        assert not find_escaped(search, start, positions(end))


def test_who_comes_from_beyond_the_margin_up_to_the_collision_distance_is_found():
    """Two flat sheets whose boxes just do not overlap: each goes nearly half the margin towards the other."""
    flat = two_sheets(fall=0.0, rough=0.0)
    margin = make_search(flat).margin
    lower = np.arange(len(flat.start)) < len(flat.start) // 2
    start = flat.start.copy()
    start[:, 1] = np.where(lower, 0.0, 1.001 * margin)
    motion = flat._replace(start=start, end=start)
    search = make_search(motion)
    search.list_candidates(positions(start), positions(start))
    vertex, face = search.candidates[0].pairs.numpy().reshape(-1, 2).T
    assert np.array_equal(lower[vertex], motion.body[face] == 0)
    end = start.copy()
    end[:, 1] += np.where(lower, 0.4995, -0.4995) * margin
    sides = lower[collisions(search, motion, end).vertices]
    assert (sides[:, 0] != sides[:, 3]).sum() > len(start)


def collisions(search, motion, end):
    rows = make_contact_list()
    search.find_collisions(positions(motion.start), positions(end), rows)
    return take(search, rows)


@pytest.mark.parametrize("broad_phase", ["bvh", "topology_tree", "material_tree", "brute"])
@settings(max_examples=10, deadline=None, phases=QUICK)
@given(
    seed=st.integers(0, 2**32 - 1),
    part=st.sampled_from([0.02, 0.2, 1.0]),
    scale=st.sampled_from([5e-5, 1e-3, 0.02]),
    folds=st.booleans(),
)
def test_collisions_of_escaped_vertices_are_all_found_once(broad_phase, seed, part, scale, folds):
    """Some vertices go elsewhere, then others too: the same as from a list that was made for that motion."""
    rng = np.random.default_rng(seed)
    motion = folded(cells=10, seed=seed) if folds else two_sheets(cells=8, fall=0.0, seed=seed)
    search = make_search(motion, broad_phase=broad_phase)
    search.list_candidates(positions(motion.start), positions(motion.end))
    end = motion.end.copy()
    for number in range(3):
        away = rng.uniform(size=len(end)) < part
        # at first everything flies against itself, so that what is left of distances matters later
        end[away] += rng.normal(scale=scale if number else 0.02, size=(int(away.sum()), 3))
        found = collisions(search, motion, end)
        fresh = make_search(motion)
        fresh.list_candidates(positions(motion.start), positions(end))
        assert len(found.kind) == len(keys(found)), "a pair was listed twice"
        assert keys(found) == keys(collisions(fresh, motion, end))


def test_collisions_are_added_to_the_contacts_and_a_new_step_starts_afresh():
    motion = two_sheets(fall=0.03)
    search, rows = start_step(motion)
    contacts = rows.count
    before = rows.vertices.numpy()[:contacts].tolist()
    start, end = positions(motion.start), positions(motion.end)
    found = search.find_collisions(start, end, rows)
    assert found > 0 and rows.count == contacts + found
    assert rows.vertices.numpy()[:contacts].tolist() == before
    assert search.find_contacts(start, end, rows) == contacts == rows.count


def test_a_common_motion_of_everything_costs_no_new_search():
    """The mean displacement is taken off: cloth that falls as a whole does not sweep along its path."""
    motion = two_sheets(fall=0.0)
    falling = motion._replace(end=motion.end + [0.0, -3.0, 0.0])
    search, _ = start_step(falling)
    still, _ = start_step(motion)
    count = [sum(len(kind.pairs) for kind in s.candidates) for s in (search, still)]
    assert count[0] < 1.5 * count[1] + 50


def test_bytes_do_not_depend_on_threads():
    motion = folded(cells=20, speed=0.02)
    results, threads = [], get_threads()
    try:
        for count in (1, 2, 3):
            set_threads(count)
            search, rows = start_step(motion)
            # half of it goes elsewhere
            end = motion.end + np.where(np.arange(len(motion.end)) % 2 == 0, 0.004, 0.0)[:, None]
            search.find_collisions(positions(motion.start), positions(end), rows)
            results.append([column.numpy()[: rows.count].tobytes() for column in rows.geometry])
    finally:
        set_threads(threads)
    assert results[0] == results[1] == results[2]


def test_what_stitches_gather_is_no_contact_but_still_collides():
    """Vertices that are sewn to the same one: those may pass only what they are sewn to directly."""
    motion = two_sheets(fall=0.05)
    half = len(motion.start) // 2
    # one vertex of the lower sheet is sewn to a far one, and so is every vertex of the upper sheet
    far, lower = 0, np.arange(half)[half // 2]
    stitches = np.array([(vertex, far) for vertex in [lower, *range(half, 2 * half)]])

    def collisions(**options):
        search, rows = make_search(motion, **options), make_contact_list()
        contacts = search.find_contacts(positions(motion.start), positions(motion.start), rows)
        search.find_collisions(positions(motion.start), positions(motion.end), rows)
        found = rows.vertices.numpy()[: rows.count].reshape(-1, 4)
        with_lower = (found == lower).any(axis=1)
        return int(with_lower[:contacts].sum()), int(with_lower[contacts:].sum())

    free_contacts, free_collisions = collisions()
    contacts, found = collisions(stitches=stitches, sewn=stitches)
    assert free_contacts > 0 and contacts < free_contacts
    assert found == free_collisions > 0
    # sewn directly, they are not tested at all
    direct = np.array([(lower, vertex) for vertex in range(half, 2 * half)])
    assert collisions(stitches=direct)[1] == 0
