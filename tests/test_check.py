"""Checking caches frame by frame, and the command that does it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.cache import Body, CacheWriter, open_cache
from weft.check import cache_finder, certificate, check_cache, crossing_marks
from weft.cli.main import app
from weft.errors import CacheError, WeftError
from weft.scene import Cloth, Grid, Scene, Seam

# a triangle that stands in another at frame heights of 0 and less, and is clear of it above
LYING = [[-1, 0, -1], [1, 0, -1], [0, 0, 1]]
STANDING = [[-0.1, 0, 0], [0.1, 0, 0], [0, 1, 0.1]]


def write(path, heights, *, kinds=("cloth", "cloth"), names=("sheet", "flag"), planned=None, scene=None):
    """A cache of two triangles: the second one stands on the first at the given heights, one a frame."""
    bodies = [Body(names[i], kinds[i], slice(3 * i, 3 * i + 3), slice(i, i + 1)) for i in range(2)]
    frames = planned or len(heights)
    faces = [[0, 1, 2], [3, 4, 5]]
    with CacheWriter.create(path, frames=frames, faces=faces, bodies=bodies, fps=50, scene=scene) as writer:
        for frame, height in enumerate(heights):
            x = np.array([*LYING, *STANDING], dtype=float)
            x[3:, 1] += height
            writer.append(x, np.zeros_like(x), {"frame": frame}, {})
    return open_cache(path)


def test_counts_frame_by_frame(tmp_path):
    cache = write(tmp_path / "c.zarr", [0.5, -0.5, 0.0, 0.1])
    seen = []
    result = check_cache(cache, progress=lambda frame, total: seen.append((frame.frame, total)))
    # below: two edges go through; at zero: an edge lies in the plane and the ends of two others touch it
    assert [frame.intersections for frame in result.frames] == [0, 2, 3, 0]
    assert [frame.time for frame in result.frames] == [0, 0.02, 0.04, 0.06]
    assert result.frames[1].bodies == {("sheet", "flag"): 2}
    assert result.frames[0].bodies == {}
    assert (result.intersections, result.clean, result.worst.frame) == (5, False, 2)
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_chosen_frames(tmp_path):
    cache = write(tmp_path / "c.zarr", [0.5, -0.5, 0.5])
    assert [frame.frame for frame in check_cache(cache, frames=[2, -3]).frames] == [2, 0]
    assert check_cache(cache, frames=[2, 0]).clean
    assert [frame.frame for frame in check_cache(cache, frames="1:").frames] == [1, 2]
    with pytest.raises(CacheError, match=r"no frame 3: it has frames 0 to 2"):
        check_cache(cache, frames=[3])


def test_colliders_among_themselves_are_not_counted(tmp_path):
    both = write(tmp_path / "b.zarr", [-0.5], kinds=("collider", "collider"))
    assert check_cache(both).clean
    one = write(tmp_path / "o.zarr", [-0.5], kinds=("cloth", "collider"), names=("sheet", "pole"))
    assert check_cache(one).frames[0].bodies == {("sheet", "pole"): 2}
    assert check_cache(one, colliders=False).clean


def test_an_empty_cache_and_one_that_flew_away(tmp_path):
    with pytest.raises(CacheError, match="no complete frame"):
        check_cache(write(tmp_path / "e.zarr", [], planned=3))
    with pytest.raises(CacheError, match=r"frame 1 of .*cannot be checked: vertex 3 is at \(-0.1, 1e\+70, 0\)"):
        check_cache(write(tmp_path / "f.zarr", [1.0, 1e70]))


def sewn_scene(folder, cells=1):
    """Two square cloths that cross along the z axis, sewn together there."""
    scene = Scene(
        name="sewn",
        cloths=[Cloth(name=name, shape=Grid(size=(1.0, 1.0), cells=(cells, cells))) for name in ("left", "right")],
        seams=[Seam(cloth="left", to="right", vertices=[[0, 0, 1]])],
        frames=1,
    )
    return scene.at(folder)


def write_sewn(path, scene):
    """Two triangles each for two cloths; the right one pierces the left one at the sewn corner."""
    square = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]], dtype=float)
    x = np.concatenate([square, square[:, [1, 0, 2]] + [0.1, -0.1, 0.1]])
    faces = np.array([[0, 1, 2], [1, 3, 2]])
    bodies = [
        Body(name, "cloth", slice(4 * i, 4 * i + 4), slice(2 * i, 2 * i + 2))
        for i, name in enumerate(("left", "right"))
    ]
    with CacheWriter.create(
        path, frames=1, faces=np.concatenate([faces, faces + 4]), bodies=bodies, fps=50, scene=scene
    ) as writer:
        writer.append(x, np.zeros_like(x), {"frame": 0}, {})
    return open_cache(path)


def test_triangles_sewn_together_are_left_out(tmp_path):
    cache = write_sewn(tmp_path / "s.zarr", sewn_scene(tmp_path))
    everything = check_cache(cache, seams=False).frames[0]
    without = check_cache(cache).frames[0]
    assert 0 < without.intersections < everything.intersections
    # what is left involves a triangle that is not at the seam
    kept = cache_finder(cache).find(cache.positions(0)).tolist()
    rows = cache_finder(cache, seams=False).find(cache.positions(0)).tolist()
    # the stitch joins triangle 0 (at left's vertex 0) to 2 and 3 (at right's vertices 0 and 1)
    sewn = {(0, 2), (0, 3), (2, 0), (3, 0)}
    owners = {(0, 1): [0], (0, 2): [0], (1, 2): [0, 1], (1, 3): [1], (2, 3): [1]}
    owners |= {(i + 4, j + 4): [t + 2 for t in triangles] for (i, j), triangles in owners.items()}
    assert kept == [row for row in rows if any((t, row[2]) not in sewn for t in owners[row[0], row[1]])]


def test_a_seam_file_that_is_gone(tmp_path):
    scene = sewn_scene(tmp_path).replace(seams=[Seam(cloth="left", to="right", file="gone.npz")])
    cache = write_sewn(tmp_path / "s.zarr", scene)
    with pytest.raises(WeftError, match=r"gone.npz.*check without seams"):
        check_cache(cache)
    assert not check_cache(cache, seams=False).clean


def test_marks_show_where_it_crosses(tmp_path):
    cache = write(tmp_path / "c.zarr", [0.5, -0.5])
    assert crossing_marks(cache, 0).shape == (0, 2, 3)
    marks = crossing_marks(cache, 1)
    # one curve in the plane of the lying triangle, and a short tick at each of its ends
    assert marks.shape == (3, 2, 3)
    assert np.allclose(marks[0, :, 1], 0)
    centres, lengths = marks[1:].mean(axis=1), np.linalg.norm(marks[1:, 1] - marks[1:, 0], axis=1)
    assert np.allclose(np.sort(centres[:, 0]), np.sort(marks[0, :, 0]))
    assert (lengths > 0).all() and (lengths < 0.05).all()


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_command_says_clean(tmp_path):
    write(tmp_path / "c.zarr", [0.5, 0.6])
    done = run(tmp_path / "c.zarr")
    assert done.exit_code == 0
    assert "no intersections in 2 frames" in done.output


def test_command_says_what_and_where(tmp_path):
    write(tmp_path / "c.zarr", [0.5, -0.5, 0.5], planned=5)
    done = run(tmp_path / "c.zarr")
    assert done.exit_code == 1
    assert "intersections in 1 of 3 frames; the worst is frame 1 with 2" in done.output
    assert "sheet with flag 2" in done.output
    assert "3 of 5 frames" in done.output
    assert run(tmp_path / "c.zarr", "--every", 2).exit_code == 0
    assert run(tmp_path / "c.zarr", "--frame", 0, "--frame", -1).exit_code == 0
    assert run(tmp_path / "c.zarr", "--frame", 1).exit_code == 1
    assert run(tmp_path / "c.zarr", "--frame", 1, "--no-colliders").exit_code == 1


def test_long_runs_are_summarised(tmp_path):
    write(tmp_path / "c.zarr", [0.5] * 30 + [-0.5] * 2 + [0.5] * 30)
    lines = run(tmp_path / "c.zarr").output.splitlines()
    assert sum("0 to 29" in line for line in lines) == 1
    assert sum("sheet with flag 2" in line for line in lines) == 2
    assert (
        sum(
            "sheet with flag 2" in line or " 0.000 " in line
            for line in run(tmp_path / "c.zarr", "--all").output.splitlines()
        )
        == 3
    )
    # more frames with intersections than lines: these are put together too
    write(tmp_path / "d.zarr", [0.5] * 3 + [-0.5] * 50)
    lines = run(tmp_path / "d.zarr").output.splitlines()
    assert sum("3 to 52" in line for line in lines) == 1


def test_json(tmp_path):
    write(tmp_path / "c.zarr", [0.5, -0.5])
    done = run(tmp_path / "c.zarr", "--json")
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert said["clean"] is False and said["complete"] is True and said["intersections"] == 2
    assert said["worst"] == {
        "frame": 1,
        "time": 0.02,
        "intersections": 2,
        "pairs": [{"bodies": ["sheet", "flag"], "intersections": 2}],
    }
    assert [frame["intersections"] for frame in said["frames"]] == [0, 2]


def test_still_is_drawn_with_marks(tmp_path, monkeypatch):
    write(tmp_path / "c.zarr", [0.5, -0.5])
    drawn = []
    monkeypatch.setattr(
        "weft.view.render_still",
        lambda cache, frame, path, *, marks: drawn.append((frame, path, marks.shape)),
        raising=False,
    )
    done = run(tmp_path / "c.zarr", "--still", tmp_path / "worst.png")
    assert drawn == [(1, tmp_path / "worst.png", (3, 2, 3))]
    assert "frame 1 is drawn in" in done.output


def test_bad_caches_are_one_line(tmp_path):
    done = run(tmp_path / "nothing.zarr")
    assert done.exit_code == 1
    assert "does not exist" in done.output and "Traceback" not in done.output


def test_a_certificate_has_hashes_and_exact_counts(tmp_path):
    write(tmp_path / "c.zarr", [0.5, -0.5, 0.0, 0.1])
    file = tmp_path / "certificate.json"
    ran = CliRunner().invoke(app, ["check", str(tmp_path / "c.zarr"), "--certificate", str(file)])
    assert ran.exit_code == 1
    found = json.loads(file.read_text())
    assert (found["intersections"], found["frames_with_intersections"], found["clean"]) == (5, 2, False)
    assert found["frames"] == {"checked": 4, "complete": 4, "planned": 4}
    assert (found["worst"]["frame"], found["worst"]["intersections"]) == (2, 3)
    # other positions have another hash, the same positions the same one
    same = write(tmp_path / "same.zarr", [0.5, -0.5, 0.0, 0.1])
    other = write(tmp_path / "other.zarr", [0.5, -0.5, 0.0, 0.2])
    assert certificate(same, check_cache(same))["positions"] == found["positions"]
    assert certificate(other, check_cache(other))["positions"] != found["positions"]
    # without colliders, of one frame
    chosen = certificate(other, check_cache(other, frames=[0]))
    assert chosen["clean"] and chosen["frames"]["checked"] == 1


def test_a_certificate_that_cannot_be_written_is_one_line(tmp_path):
    write(tmp_path / "c.zarr", [0.5])
    ran = CliRunner().invoke(app, ["check", str(tmp_path / "c.zarr"), "--certificate", str(tmp_path / "no" / "c.json")])
    assert ran.exit_code == 1
    assert "cannot write" in ran.output and "Traceback" not in ran.output
