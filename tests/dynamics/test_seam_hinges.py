"""Bending over seams: cloth that is cut and welded again bends as if it had never been cut."""

import numpy as np
import pytest

import weft
from weft.dynamics.position_based.bending import Bending
from weft.dynamics.seam_hinges import GATHERED, closed_welds, over_seams, vertex_groups
from weft.dynamics.springs import from_world
from weft.mesh import TriMesh, shapes
from weft.world import World

BEND = 1.5e-3


def cut(mesh, at):
    """A flat sheet cut in two along the line x = at, and pairs of the vertices that were one."""
    on = np.flatnonzero(np.abs(mesh.vertices[:, 0] - at) < 1e-9)
    right = mesh.vertices[mesh.faces].mean(axis=1)[:, 0] > at
    number = np.arange(len(mesh.vertices))
    number[on] = len(number) + np.arange(len(on))
    faces = mesh.faces.copy()
    faces[right] = number[faces[right]]
    return TriMesh(
        np.concatenate([mesh.vertices, mesh.vertices[on]]), faces, np.concatenate([mesh.uv, mesh.uv[on]])
    ), np.column_stack([on, number[on]])


def scene(mesh, pairs=(), *, turn=False, pinned=(), **settings):
    sewn = [(int(b), int(a), int(a)) if turn else (int(a), int(b), int(b)) for a, b in pairs]
    material = weft.Material(bend=BEND, density=0.2, damping=0.01)
    pins = [weft.Pin(indices=tuple(pinned))] if len(pinned) else []
    cloth = weft.Cloth(name="strip", mesh=mesh, rest="uv", material=material, pins=pins)
    seams = [weft.Seam(cloth="strip", kind="weld", vertices=sewn)] if sewn else []
    return weft.Scene(cloths=[cloth], seams=seams, thickness=0.001, **settings)


def bending_of(world):
    bending = Bending(from_world(world), world.mass, "cpu")
    bending.pin(np.zeros(world.vertex_count, bool))
    return bending


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("kind", ["alternating", "same"])
def test_a_sheet_that_was_cut_and_sewn_has_the_energy_of_the_whole(kind, turn):
    whole = shapes.grid((0.2, 0.1), (8, 4), diagonals=kind)
    parts, pairs = cut(whole, 0.0)
    matrices = [bending_of(World(scene(*of, turn=turn))).stiffness for of in ((whole,), (parts, pairs))]
    x = np.random.default_rng(3).normal(size=len(whole.vertices))
    both = np.append(x, x[pairs[:, 0]])
    energies = [float(v @ k @ v) for v, k in zip((x, both), matrices, strict=True)]
    assert energies[1] == pytest.approx(energies[0], rel=1e-9)
    # what is welded is moved alike, by as much in all as the vertex that it was
    force, sewn = matrices[0] @ x, matrices[1] @ both
    assert np.allclose(sewn[pairs].sum(axis=1), force[pairs[:, 0]], atol=1e-9 * np.abs(force).max())
    fold = np.abs(parts.vertices[:, 0])
    assert fold @ matrices[1] @ fold > 1e-3


@pytest.mark.parametrize("cells", [8, 20])
def test_a_sewn_strip_sags_as_a_whole_one(cells, tmp_path):
    """Fine strips would fly away if what is welded were moved apart and put together afterwards."""
    whole = shapes.grid((0.2, 0.04), (cells, 2))
    parts, pairs = cut(whole, 0.0)
    tips = []
    for number, of in enumerate(((whole,), (parts, pairs))):
        held = np.flatnonzero(of[0].uv[:, 0] < of[0].uv[:, 0].min() + 1.01 * 0.2 / cells).tolist()
        hung = scene(*of, pinned=held, method="robust", fps=30, frames=45, forces=weft.Forces(air_damping=4.0))
        x = weft.simulate(hung, tmp_path / f"{number}.zarr", progress=False).positions(-1)
        tips.append(x[np.argmax(of[0].uv[:, 0]), 1])
    assert tips[0] < -0.08
    assert tips[1] == pytest.approx(tips[0], rel=0.02)


def test_open_and_gathered_seams_have_no_hinges():
    parts, pairs = cut(shapes.grid((0.2, 0.1), (8, 4)), 0.0)
    world = World(scene(parts, pairs))
    welded = closed_welds(world.seams, world.rest_positions)
    assert len(welded) == len(pairs)
    groups = vertex_groups(welded, world.vertex_count)
    border = from_world(World(scene(parts))).face_hinges < 0
    flat = np.column_stack([parts.uv, np.zeros(len(parts.uv))])
    assert len(over_seams(parts.faces, border, flat[parts.faces], groups).quads) == len(pairs) - 1
    longer = flat.copy()
    longer[pairs[:, 1], 1] *= 1.1 * GATHERED
    assert not len(over_seams(parts.faces, border, longer[parts.faces], groups).quads)
    apart = world.rest_positions.copy()
    apart[pairs[:, 1], 0] += 0.01
    assert not len(closed_welds(world.seams, apart))


def test_an_eased_seam_pulls_at_nothing_where_it_is_flat():
    parts, pairs = cut(shapes.grid((0.2, 0.1), (8, 4)), 0.0)
    flat = np.column_stack([parts.uv, np.zeros(len(parts.uv))])
    longer = flat.copy()
    longer[pairs[:, 1], 1] *= 1.05
    groups = vertex_groups(pairs, len(flat))
    border = from_world(World(scene(parts))).face_hinges < 0
    sewn = over_seams(parts.faces, border, longer[parts.faces], groups)
    stretch = np.einsum("hk,hkd->hd", sewn.weights, flat[sewn.quads])
    assert np.abs(sewn.weights.sum(axis=1)).max() < 1e-12
    # out of the plane nothing, in it hardly anything
    assert np.abs(stretch).max() < 0.1 * 0.025
