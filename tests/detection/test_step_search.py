"""The search of a step: what its one list of candidates covers, and when it must look again."""

from crumpled import positions
from step_scenes import folded, keys, make_rows, make_search, take, two_sheets

from weft.detection.step_search import SLACK
from weft.world import get_threads, set_threads


def start_step(motion):
    search, rows = make_search(motion), make_rows()
    search.find_contacts(positions(motion.start), positions(motion.end), rows)
    return search, rows


def test_what_was_expected_is_covered_and_what_strays_is_not():
    motion = two_sheets(fall=0.02)
    search, _ = start_step(motion)
    start = positions(motion.start)
    assert search.covers(start, positions(motion.end))
    # anywhere on the way, and a little off it
    assert search.covers(start, positions(0.3 * motion.start + 0.7 * motion.end))
    assert search.covers(start, positions(motion.end + 0.4 * SLACK))
    for vertex in (0, 40, len(motion.start) - 1):
        end = motion.end.copy()
        end[vertex, 1] += 0.02
        assert not search.covers(start, positions(end))


def test_collisions_of_a_motion_that_strays_are_all_found():
    """The same as from a list that was made for that motion."""
    motion = two_sheets(fall=0.0)
    search, rows = start_step(motion)
    fallen = motion.end.copy()
    fallen[len(fallen) // 2 :, 1] -= 0.03
    known = rows.count
    count = search.find_collisions(positions(motion.start), positions(fallen), rows)
    found = take(search, rows, known)
    assert count == len(found.kind) > 0

    fresh, more = make_search(motion), make_rows()
    fresh.look(positions(motion.start), positions(fallen))
    fresh.find_collisions(positions(motion.start), positions(fallen), more)
    assert keys(found) == keys(take(fresh, more))


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
            search.find_collisions(positions(motion.start), positions(motion.end), rows)
            results.append([column.numpy()[: rows.count].tobytes() for column in rows.geometry])
    finally:
        set_threads(threads)
    assert results[0] == results[1] == results[2]
