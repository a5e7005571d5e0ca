"""A detailed mesh on a sheet: nearest points against brute force, rigid motions exactly, buttons rigid, files of all kinds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from weft.cache import Body, Cache, CacheWriter, open_result
from weft.cli.main import app
from weft.errors import WeftError
from weft.exchange.bind import bind
from weft.mesh import TriMesh, save_mesh, shapes
from weft.mesh.anchors import Anchors, fit_rigidly, nearest_on_mesh


def brute_nearest(point, vertices, faces):
    """The distance to the nearest of many points of each triangle, and of its exact candidates: corners, edges, inside."""
    best = np.inf
    for a, b, c in vertices[faces]:
        options = [a, b, c]
        for p, q in ((a, b), (b, c), (c, a)):
            s = np.clip(np.dot(point - p, q - p) / np.dot(q - p, q - p), 0.0, 1.0)
            options.append(p + s * (q - p))
        n = np.cross(b - a, c - a)
        foot = point - np.dot(point - a, n) / np.dot(n, n) * n
        w = np.linalg.lstsq(np.column_stack([b - a, c - a]), foot - a, rcond=None)[0]
        if w.min() >= 0.0 and w.sum() <= 1.0:
            options.append(foot)
        best = min(best, *(float(np.linalg.norm(point - o)) for o in options))
    return best


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_nearest_points_are_the_nearest(seed):
    random = np.random.default_rng(seed)
    mesh = shapes.icosphere(0.5, subdivisions=1)
    # triangles of very different sizes
    vertices = mesh.vertices * random.uniform(0.2, 5.0, size=3) + 0.02 * random.normal(size=mesh.vertices.shape)
    points = random.normal(size=(12, 3)) * random.choice([0.1, 1.0, 4.0])
    triangle, weights = nearest_on_mesh(points, vertices, mesh.faces)
    assert (weights >= -1e-12).all() and weights.sum(axis=1) == pytest.approx(1.0)
    feet = np.einsum("nk,nki->ni", weights, vertices[mesh.faces[triangle]])
    for point, foot in zip(points, feet, strict=True):
        assert np.linalg.norm(point - foot) == pytest.approx(brute_nearest(point, vertices, mesh.faces), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_at_rest_and_under_rigid_motions_nothing_is_lost(seed):
    random = np.random.default_rng(seed)
    sheet = shapes.grid((1.0, 1.0), (5, 4))
    x = sheet.vertices + 0.05 * random.normal(size=sheet.vertices.shape)
    points = x[random.integers(0, len(x), 40)] + 0.03 * random.normal(size=(40, 3))
    anchors = Anchors(points, x, sheet.faces)
    np.testing.assert_allclose(anchors.follow(x), points, atol=1e-12)
    turn, shift = Rotation.from_quat(random.normal(size=4)), random.normal(size=3)
    np.testing.assert_allclose(anchors.follow(turn.apply(x) + shift), turn.apply(points) + shift, atol=1e-11)


def test_a_thick_cloth_keeps_its_thickness_on_a_bent_sheet():
    """On a cylinder of radius r the two sides of a cloth of thickness h lie at r - h/2 and r + h/2."""
    sheet = shapes.grid((1.0, 0.4), (60, 10))
    flat = sheet.vertices
    sides = np.concatenate([flat + (0.0, 0.004, 0.0), flat - (0.0, 0.004, 0.0)])
    anchors = Anchors(sides, flat, sheet.faces)
    radius, span = 0.3, np.ptp(flat, axis=0).argmax()
    along, other = flat[:, span], 2 if span == 0 else 0
    bent = np.zeros_like(flat)
    bent[:, span], bent[:, 1], bent[:, other] = (
        radius * np.sin(along / radius),
        radius * np.cos(along / radius),
        flat[:, other],
    )
    moved = anchors.follow(bent)
    r = np.hypot(moved[:, span], moved[:, 1])
    inner = np.abs(along) < 0.45
    assert np.allclose(r[: len(flat)][inner], radius + 0.004, atol=2e-4)
    assert np.allclose(r[len(flat) :][inner], radius - 0.004, atol=2e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_rigid_fits(seed):
    random = np.random.default_rng(seed)
    points = random.normal(size=(9, 3))
    turn, shift = Rotation.from_quat(random.normal(size=4)), random.normal(size=3)
    np.testing.assert_allclose(fit_rigidly(points, turn.apply(points) + shift), turn.apply(points) + shift, atol=1e-12)
    # a flat piece is turned, never mirrored
    points[:, 2] = 0.0
    fitted = fit_rigidly(points, points * (1.0, -1.0, 1.0) + 1e-3 * random.normal(size=points.shape))
    lengths = lambda p: np.linalg.norm(p[:, None] - p[None], axis=2)  # noqa: E731
    np.testing.assert_allclose(lengths(fitted), lengths(points), atol=1e-12)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    sheet = shapes.grid((1.0, 1.0), (12, 12))
    path = tmp_path_factory.mktemp("bind") / "run.zarr"
    body = Body("sheet", "cloth", slice(0, len(sheet.vertices)), slice(0, len(sheet.faces)))
    with CacheWriter.create(path, frames=4, faces=sheet.faces, bodies=[body], fps=24.0) as writer:
        for frame in range(4):
            x = sheet.vertices.copy()
            x[:, 1] += 0.05 * frame * np.sin(4.0 * x[:, 0])
            writer.append(x, np.zeros_like(x), {"frame": frame, "status": "ok"})
    return Cache(path)


@pytest.fixture
def detailed(tmp_path):
    """A finer sheet 5 mm above the first, and a button on it."""
    fine, button = shapes.grid((0.9, 0.9), (30, 30)), shapes.icosphere(0.005, subdivisions=1)
    vertices = np.concatenate([fine.vertices + (0.0, 0.005, 0.0), button.vertices + (0.21, 0.012, 0.13)])
    mesh = TriMesh(vertices, np.concatenate([fine.faces, button.faces + len(fine.vertices)]))
    save_mesh(mesh, tmp_path / "coat.obj")
    return mesh, len(fine.vertices)


def test_buttons_keep_their_shape(cache, detailed):
    mesh, first = detailed
    bound = bind(cache, mesh)
    assert bound.frames == 4 and bound.fps == pytest.approx(24.0)
    np.testing.assert_allclose(bound.positions(0), mesh.vertices, atol=1e-12)
    lengths = lambda p: np.linalg.norm(p[:, None] - p[None], axis=2)  # noqa: E731
    for frame in (1, 3):
        button = bound.positions(frame)[first:]
        np.testing.assert_allclose(lengths(button), lengths(mesh.vertices[first:]), atol=1e-12)
        soft = bind(cache, mesh, rigid=0.0).positions(frame)
        assert np.abs(lengths(soft[first:]) - lengths(mesh.vertices[first:])).max() > 1e-6
        np.testing.assert_array_equal(soft[:first], bound.positions(frame)[:first])
        # it moved with the sheet
        assert np.abs(button.mean(axis=0) - mesh.vertices[first:].mean(axis=0))[1] > 0.02


@pytest.mark.parametrize("out", ["coat.glb", "coat.usdc", "coat.npz"])
def test_the_command_writes_other_formats(cache, detailed, tmp_path, out):
    if out.endswith("usdc"):
        pytest.importorskip("pxr")
    done = CliRunner().invoke(app, ["bind", str(cache.path), str(tmp_path / "coat.obj"), "-o", str(tmp_path / out)])
    assert done.exit_code == 0, done.output
    assert "4 frames" in done.output and "no intersections" in done.output
    again = open_result(tmp_path / out)
    assert again.frames == 4
    far = np.abs(np.sort(again.positions(3), axis=0) - np.sort(bind(cache, detailed[0]).positions(3), axis=0))
    assert far.max() < 1e-6


def test_mistakes_are_one_line(cache, detailed, tmp_path):
    with pytest.raises(WeftError, match="has no cloth 'shirt'; it has sheet"):
        bind(cache, detailed[0], body="shirt")
