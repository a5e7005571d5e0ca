"""The search of a step: what its one list of candidates covers, and when it must look again."""

import numpy as np
import pytest
from crumpled import positions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from step_scenes import folded, keys, make_rows, make_search, take, two_sheets

from weft.contact.adaptive_margin import LONGEST_REST
from weft.contact.step_search import SLACK
from weft.runtime import get_threads, set_threads

# a seed does not shrink to anything simpler
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


def start_step(motion):
    search, rows = make_search(motion), make_rows()
    search.find_contacts(positions(motion.start), positions(motion.end), rows)
    return search, rows


def test_what_was_expected_is_covered_and_what_strays_is_noted_once():
    motion = two_sheets(fall=0.02)
    search, _ = start_step(motion)
    start = positions(motion.start)
    assert not search.find_escaped(start, positions(motion.end))
    # anywhere on the way, and a little off it
    assert not search.find_escaped(start, positions(0.3 * motion.start + 0.7 * motion.end))
    assert not search.find_escaped(start, positions(motion.end + 0.4 * SLACK))
    for vertex in (0, 40, len(motion.start) - 1):
        end = motion.end.copy()
        end[vertex, 1] += 0.02
        assert search.find_escaped(start, positions(end))
        assert not search.find_escaped(start, positions(end))


def collisions(search, motion, end):
    rows = make_rows()
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
def test_collisions_of_strays_are_all_found_once(broad_phase, seed, part, scale, folds):
    """Some vertices go elsewhere, then others too: the same as from a list that was made for that motion."""
    rng = np.random.default_rng(seed)
    motion = folded(cells=10, seed=seed) if folds else two_sheets(cells=8, fall=0.0, seed=seed)
    search = make_search(motion, broad_phase=broad_phase)
    search.look(positions(motion.start), positions(motion.end))
    end = motion.end.copy()
    for number in range(3):
        away = rng.uniform(size=len(end)) < part
        # at first everything flies against itself, so that what is left of distances matters later
        end[away] += rng.normal(scale=scale if number else 0.02, size=(int(away.sum()), 3))
        found = collisions(search, motion, end)
        fresh = make_search(motion)
        fresh.look(positions(motion.start), positions(end))
        assert len(found.kind) == len(keys(found)), "a pair was listed twice"
        assert keys(found) == keys(collisions(fresh, motion, end))


def test_who_strayed_has_more_room_in_the_next_steps_and_so_have_its_neighbours():
    motion = two_sheets(cells=8, fall=0.0)
    search, start, expected = make_search(motion), positions(motion.start), positions(motion.end)
    corner, far = 40, 0.01
    around = sorted({int(v) for face in motion.faces if corner in face for v in face})
    end = motion.end.copy()
    end[corner, 1] += far

    def escaped(end):
        search.look(start, expected)
        return search.find_escaped(start, positions(end))

    calm = motion.end
    assert escaped(end)
    # the same again, or by a neighbour, or farther: nobody escaped; elsewhere as before
    for vertex in around:
        again = motion.end.copy()
        again[vertex, 1] += 1.2 * far
        assert not escaped(again)
    elsewhere = motion.end.copy()
    elsewhere[len(end) - 1, 1] += far
    assert corner < len(end) - 1 not in around and escaped(elsewhere)
    # where nothing wanders any more the room fades
    assert sum(not escaped(calm) for _ in range(20)) == 20 and escaped(end)


def test_where_somebody_strays_all_the_same_more_room_is_seldom_tried():
    motion = two_sheets(cells=8, fall=0.0)
    search, rng = make_search(motion), np.random.default_rng(0)

    def tries(steps, far):
        """In how many steps there was more room, while some vertex goes that far off in each."""
        given = 0
        for _ in range(steps):
            search.look(positions(motion.start), positions(motion.end))
            given += search.adaptive_margin.given
            assert search.adaptive_margin.given or not search.adaptive_margin.array.numpy().any()
            end = motion.end.copy()
            end[rng.integers(len(end))] += far
            collisions(search, motion, end)
        return given

    assert 3 <= tries(60, 0.1) <= 12
    # and always again once nobody does
    tries(LONGEST_REST, 0.0)
    assert tries(20, 0.0) == 20


@pytest.mark.parametrize("seed", range(4))
def test_what_ends_within_its_leeway_is_no_stray_and_its_collisions_are_found(seed):
    """Sheets that are too far apart to be looked for without: first nobody escaped, then some do, then these go on."""
    rng = np.random.default_rng(seed)
    motion = two_sheets(cells=8, gap=0.025, fall=0.0, seed=seed)
    search = make_search(motion)
    search.adaptive_margin.wandered.fill_(1.0)
    search.look(positions(motion.start), positions(motion.end))
    room = float(search.adaptive_margin.array.numpy().min())
    assert room > 0.015
    end = motion.end + rng.uniform(-0.2 * room, 0.2 * room, motion.end.shape)
    end[:, 1] += np.where(np.arange(len(end)) < len(end) // 2, 0.8, -0.8) * room
    for number in range(3):
        if number == 1:
            end[rng.uniform(size=len(end)) < 0.2] += [0.0, 0.05, 0.0]
        elif number == 2:
            # a little off where they strayed to
            end = end + np.where(np.abs(end - motion.end) > 0.04, rng.uniform(-room, room, end.shape), 0.0)
        found = collisions(search, motion, end)
        assert any(kind.count for kinds in search.escaped_kinds for kind in kinds) == (number > 0)
        fresh = make_search(motion)
        fresh.look(positions(motion.start), positions(end))
        assert len(found.kind) == len(keys(found)) > 0
        assert keys(found) == keys(collisions(fresh, motion, end))


def test_who_strayed_has_its_leeway_where_it_strayed_to():
    """The lower sheet goes near the upper one, which nobody expected, and on from there within its adaptive_margin."""
    motion = two_sheets(cells=8, gap=0.08, fall=0.0, rough=0.0)
    search, lower = make_search(motion), np.arange(len(motion.start)) < len(motion.start) // 2
    search.adaptive_margin.wandered.assign(np.where(lower, 1.0, 0.0).astype(np.float32))
    search.look(positions(motion.start), positions(motion.end))
    ends = [motion.start.copy() for _ in range(2)]
    for end, up, down in zip(ends, (0.056, 0.075), (0.0, 0.0052), strict=True):
        end[:, 1] += np.where(lower, up, -down)
    assert len(collisions(search, motion, ends[0]).kind) == 0
    assert not search.find_escaped(positions(motion.start), positions(ends[1]))
    found = collisions(search, motion, ends[1])
    fresh = make_search(motion)
    fresh.look(positions(motion.start), positions(ends[1]))
    assert keys(found) == keys(collisions(fresh, motion, ends[1])) and len(found.kind) > 0


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
    count = [sum(len(kind.pairs) for kind in (s.vertex_triangle, s.edge_edge)) for s in (search, still)]
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
