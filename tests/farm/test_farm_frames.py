"""Frames on workers: finished, checked and drawn as a serial run does it, each once, whatever happens to the workers."""

import pytest
from farm_tools import content
from typer.testing import CliRunner

import weft
from weft.cache import CacheWriter, open_cache
from weft.check import check_cache
from weft.cli.main import app
from weft.errors import WeftError
from weft.farm.frames import check_on, film_on, subdivide_on
from weft.finish import subdivide
from weft.view.pictures import Look

FRAMES = 6


@pytest.fixture(scope="module")
def crumpled(tmp_path_factory):
    """Two sheets that fall through each other: frames with intersections."""
    sheets = [
        weft.Cloth(
            name=f"sheet{k}",
            shape=weft.Grid(size=(1.0, 1.0), cells=(5, 5)),
            placement=weft.Placement(position=(0.1 * k, 0.02 * k, 0.05 * k), rotation_deg=(0.0, 20.0 * k, 0.0)),
            velocity=(0.0, -2.0 * k, 0.0),
            pins=[weft.Pin(boundary="left")],
        )
        for k in range(2)
    ]
    scene = weft.Scene(cloths=sheets, frames=FRAMES - 1, method="plain")
    return weft.simulate(scene, tmp_path_factory.mktemp("frames") / "a.zarr", progress=False)


def test_subdivided_frames_are_those_of_a_serial_run(tmp_path, cluster, crumpled):
    serial = subdivide(crumpled, tmp_path / "serial.zarr", levels=1, processes=1)
    spread = subdivide_on(cluster.address, crumpled, tmp_path / "spread.zarr", levels=1)
    assert spread.frames == FRAMES and spread.verify() == []
    assert content(spread.path) == content(serial.path)


@pytest.mark.parametrize("what", ["kill", "half"])
def test_a_worker_killed(tmp_path, cluster, crumpled, what):
    cluster.order(what, "spread", 3)
    serial = subdivide(crumpled, tmp_path / "serial.zarr", levels=1, processes=1)
    spread = subdivide_on(cluster.address, crumpled, tmp_path / "spread.zarr", levels=1)
    # nothing is left of what the killed worker had half written
    assert cluster.left() == [] and content(spread.path) == content(serial.path)


def test_resume_does_only_the_frames_that_are_missing(tmp_path, cluster, crumpled):
    serial = subdivide(crumpled, tmp_path / "serial.zarr", levels=1, processes=1)
    spread = subdivide_on(cluster.address, crumpled, tmp_path / "spread.zarr", levels=1)
    markers = spread.path / "weft" / "frames"
    kept = {path.name: path.stat().st_mtime_ns for path in markers.iterdir()}
    # frame 2 is missing and a part of frame 4 is damaged
    (markers / "00000002.json").unlink()
    chunk = spread.path / "velocities" / "c.4.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    done = []
    again = subdivide_on(
        cluster.address,
        crumpled,
        tmp_path / "spread.zarr",
        levels=1,
        resume=True,
        progress=lambda k, _: done.append(k),
    )
    assert done == [4, 5, 6] and content(again.path) == content(serial.path)
    changed = {path.name for path in markers.iterdir() if path.stat().st_mtime_ns != kept.get(path.name)}
    assert changed == {"00000002.json", "00000004.json"}


@pytest.mark.parametrize("lost", [0, 2])
def test_a_serial_run_goes_on_with_what_workers_left(tmp_path, cluster, crumpled, lost):
    serial = subdivide(crumpled, tmp_path / "serial.zarr", levels=1, processes=1)
    spread = subdivide_on(cluster.address, crumpled, tmp_path / "spread.zarr", levels=1)
    (spread.path / "weft" / "frames" / f"{lost:08d}.json").unlink()
    assert open_cache(spread.path).frames == lost
    again = subdivide(crumpled, tmp_path / "spread.zarr", levels=1, processes=1, resume=True)
    assert content(again.path) == content(serial.path)


def test_one_writer_at_a_time(tmp_path, cluster, crumpled):
    made = subdivide_on(cluster.address, crumpled, tmp_path / "spread.zarr", levels=1, frames=[0, 1])
    with CacheWriter.resume(made.path), pytest.raises(WeftError, match="is being written by process"):
        subdivide_on(cluster.address, crumpled, made.path, levels=1, frames=[0, 1], resume=True)


def test_checked_frames(cluster, crumpled):
    serial = check_cache(crumpled)
    assert not serial.clean
    assert check_on(cluster.address, crumpled) == serial
    some = {"frames": [-1, 2], "colliders": False, "seams": False}
    assert check_on(cluster.address, crumpled, **some) == check_cache(crumpled, **some)
    with pytest.raises(WeftError, match="has no frame 99"):
        check_on(cluster.address, crumpled, frames=[99])


def test_drawn_frames(tmp_path, cluster, crumpled):
    from weft.check import crossing_marks
    from weft.view import render_film

    for name, look in {"plain": {}, "marked": {"colour": "strain", "wireframe": True, "crossings": True}}.items():
        drawn = dict(look)
        marks = (lambda f: crossing_marks(crumpled, f)) if drawn.pop("crossings", False) else None
        size = (97, 65)
        serial = render_film(crumpled, tmp_path / f"{name}1.mp4", size=size, draft=True, marks=marks, **drawn)
        spread = film_on(cluster.address, crumpled, tmp_path / f"{name}2.mp4", Look(size, draft=True, **look))
        assert spread.read_bytes() == serial.read_bytes()


def test_commands(tmp_path, cluster, crumpled):
    def call(*arguments):
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    serial = call("check", crumpled.path, "--json")
    spread = call("check", crumpled.path, "--json", "--scheduler", cluster.address)
    assert serial.exit_code == spread.exit_code == 1 and serial.stdout == spread.stdout
    fine = tmp_path / "fine.zarr"
    done = call("subdivide", crumpled.path, "-o", fine, "-l", 1, "--scheduler", cluster.address)
    assert done.exit_code == 0 and open_cache(fine).complete
    film = tmp_path / "a.mp4"
    done = call(
        "render",
        crumpled.path,
        "-o",
        film,
        "--size",
        "64x48",
        "--draft",
        "--frames",
        "0:2",
        "--scheduler",
        cluster.address,
    )
    assert done.exit_code == 0 and film.is_file()
    still = call("render", crumpled.path, "-o", tmp_path / "a.png", "--scheduler", cluster.address)
    assert still.exit_code == 1 and "--scheduler is for films" in still.stderr
