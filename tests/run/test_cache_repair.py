"""Damaged frames of a cache: a resumed run finds them, and a repair computes only those again, to the same bytes."""

import json

import numpy as np
import pytest
from fake_world import content, fake_compile, fake_scene
from typer.testing import CliRunner

import weft
from weft.cache import layout, open_cache
from weft.cli.main import app
from weft.errors import CacheError
from weft.run import simulate, simulation
from weft.run.repair import repair


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(simulation, "compile_scene", fake_compile)


def damage(cache, frame: int, what: str) -> None:
    """Break one file of a frame."""
    name, how = what.split()
    path = layout.marker_path(cache.path, frame) if name == "marker" else layout.chunk_path(cache.path, name, frame)
    if how == "gone":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def stamps(cache) -> dict:
    """When each file of the frames was written last."""
    return {
        p: p.stat().st_mtime_ns
        for name in ("positions", "velocities", "weft/frames")
        for p in (cache.path / name).glob("*[0-9]*")
    }


WHAT = ["positions gone", "velocities gone", "marker gone", "positions flipped", "velocities flipped", "marker flipped"]


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("frames", [(0,), (2,), (1, 4), (5,), (0, 1, 2, 3)])
def test_only_damaged_frames_are_written(tmp_path, fake, what, frames):
    whole = simulate(fake_scene(frames=6), tmp_path / "a.zarr", progress=False)
    before, times = content(whole), stamps(whole)
    for frame in frames:
        damage(whole, frame, what)
    assert open_cache(whole.path).damaged() == list(frames)
    assert repair(whole.path) == list(frames)
    again = open_cache(whole.path)
    assert content(again) == before and again.verify() == []
    written = {int(p.stem.removeprefix("c.").split(".")[0]) for p, t in stamps(again).items() if times.get(p) != t}
    assert written == set(frames)
    # nothing to do any more, and the cache can still be continued
    assert repair(whole.path) == []
    longer = simulate(fake_scene(frames=8), whole.path, resume=True, progress=False)
    assert content(longer) == content(simulate(fake_scene(frames=8), tmp_path / "b.zarr", progress=False))


@pytest.mark.parametrize("method", ["robust", "untangle", "plain"])
def test_methods_give_the_same_bytes(tmp_path, method):
    scene = weft.Scene(
        frames=6,
        method=method,
        cloths=[weft.Cloth(shape=weft.Grid(size=(0.5, 0.5), cells=(6, 6)))],
        colliders=[weft.Collider(shape=weft.Sphere(radius=0.1), placement=weft.Placement(position=(0.0, -0.11, 0.0)))],
    )
    cache = simulate(scene, tmp_path / "a.zarr", progress=False)
    before = [(cache.positions(f).tobytes(), cache.velocities(f).tobytes()) for f in range(7)]
    damage(cache, 3, "positions flipped")
    assert repair(cache.path) == [3]
    assert [(cache.positions(f).tobytes(), cache.velocities(f).tobytes()) for f in range(7)] == before


@pytest.mark.parametrize("frames", [6, 9])
def test_resume_finds_damaged_frames(tmp_path, fake, capsys, frames):
    cache = simulate(fake_scene(frames=6), tmp_path / "a.zarr", progress=False)
    damage(cache, 2, "positions flipped")
    with pytest.raises(CacheError, match=r"frame 2 is damaged.*weft check .*a\.zarr --repair"):
        simulate(fake_scene(frames=frames), cache.path, resume=True)
    # the frames that were missing are there nevertheless
    assert open_cache(cache.path).frames == frames + 1
    assert ("frame 2 is damaged; the run continues" in capsys.readouterr().err) == (frames == 9)
    repair(cache.path)
    assert simulate(fake_scene(frames=frames), cache.path, resume=True, progress=False).complete


@pytest.mark.parametrize(("frame", "differs"), [(4, 1), (1, 2), (0, 1)])
def test_what_cannot_be_repaired_is_left_alone(tmp_path, fake, monkeypatch, frame, differs):
    cache = simulate(fake_scene(frames=6), tmp_path / "a.zarr", progress=False)
    damage(cache, frame, "marker gone")
    kept = sorted(layout.saved_folder(cache.path).iterdir())
    files = {p: p.read_bytes() for p in cache.path.rglob("*") if p.is_file()}

    def otherwise(scene):
        world, method = fake_compile(scene)
        advance = method.advance_frame

        def shifted(state, after_step):
            row = advance(state, after_step)
            state.x.values = state.x.values + 1e-12
            return row

        method.advance_frame = shifted
        return world, method

    monkeypatch.setattr(simulation, "compile_scene", otherwise)
    with pytest.raises(CacheError, match=f"frame {differs}, which is intact, comes out differently"):
        repair(cache.path)
    assert {p: p.read_bytes() for p in cache.path.rglob("*") if p.is_file()} == files
    assert sorted(layout.saved_folder(cache.path).iterdir()) == kept


def test_the_command(tmp_path):
    scene = tmp_path / "s.toml"
    scene.write_text('frames = 4\nmethod = "plain"\ncloth = [{shape = {kind = "grid", cells = [3, 3]}}]\n')
    cache = simulate(scene, tmp_path / "s.zarr", progress=False)
    x = cache.positions(2).copy()
    damage(cache, 2, "positions flipped")
    found = CliRunner().invoke(app, ["info", str(cache.path), "--verify"])
    assert found.exit_code == 1 and "--repair" in found.stderr
    again = CliRunner().invoke(app, ["run", str(scene), "-o", str(cache.path), "--resume", "--quiet"])
    assert again.exit_code == 1 and "frame 2 is damaged" in again.stderr
    done = CliRunner().invoke(app, ["check", str(cache.path), "--repair", "--json"])
    assert done.exit_code == 0 and "1 damaged frame computed again" in done.stderr
    assert json.loads(done.stdout)["complete"]
    np.testing.assert_array_equal(open_cache(cache.path).positions(2), x)
    assert "no frame is damaged" in CliRunner().invoke(app, ["check", str(cache.path), "--repair"]).stdout
