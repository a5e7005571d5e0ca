"""Cones: the wings of edges, the neighbours of vertices, and which border points count as nearest."""

import numpy as np
import pytest
from crumpled import positions, sheet
from step_scenes import make_contact_list, make_search, take, two_sheets

from weft.contact.feature_bounds import Cones
from weft.mesh import shapes
from weft.world import Surface


@pytest.mark.parametrize("mesh", ["sheet", "ball", "fan"])
def test_wings_and_neighbours(mesh):
    faces = {
        "sheet": sheet(4),
        "ball": shapes.icosphere(1.0, subdivisions=1).faces,
        # three triangles on one edge: the first two have wings
        "fan": np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]),
    }[mesh]
    surface = Surface.from_arrays(int(faces.max()) + 2, faces)
    cones = Cones.of(surface)
    wings, edges = cones.wings.numpy(), surface.edges.numpy()
    for edge, wing in zip(edges.tolist(), wings.tolist(), strict=True):
        opposite = [int(v) for f in faces for v in f if set(edge) <= set(f.tolist()) and v not in edge]
        assert [w for w in wing if w >= 0] == opposite[:2]
    offsets, items = cones.neighbour_offsets.numpy(), cones.neighbours.numpy()
    for vertex in range(surface.vertex_count):
        expected = sorted({int(v) for f in faces if vertex in f for v in f} - {vertex})
        assert items[offsets[vertex] : offsets[vertex + 1]].tolist() == expected


def roof(angle_deg, point):
    """Two triangles on the edge from (0, 0, -1) to (0, 0, 1), sloping down by an angle, and a probe above."""
    slope = np.radians(angle_deg)
    wing = np.array([np.cos(slope), -np.sin(slope), 0.0])
    x = [
        [0, 0, -1],
        [0, 0, 1],
        wing,
        wing * [-1, 1, 1],
        point,
        np.add(point, [0.01, 9, 0]),
        np.add(point, [0, 9, 0.01]),
    ]
    start = np.array(x, float)
    faces = np.array([[0, 1, 2], [1, 0, 3], [4, 5, 6]], np.int32)
    motion = two_sheets()._replace(start=start, end=start, faces=faces, body=np.array([0, 0, 1]), rest=start)
    search, rows = make_search(motion), make_contact_list()
    search.find_contacts(positions(start), positions(start), rows)
    found = take(search, rows)
    chosen = (found.kind == 0) & (found.vertices[:, 0] == 4)
    return found.normals[chosen], found.gaps[chosen]


@pytest.mark.parametrize("angle", [0.0, 20.0, 45.0, 80.0])
def test_over_a_ridge_the_edge_is_told_once(angle):
    normals, gaps = roof(angle, [0.0, 0.004, 0.1])
    assert len(gaps) == 1
    assert normals[0] == pytest.approx([0, 1, 0], abs=1e-9) and gaps[0] == pytest.approx(0.004)


def test_in_a_valley_both_sides_count_and_the_edge_between_them_does_not():
    normals, _ = roof(-45.0, [0.0, 0.004, 0.1])
    assert len(normals) == 2
    # each is perpendicular to its triangle
    assert sorted(normals[:, 0].round(6).tolist()) == pytest.approx([-np.sqrt(0.5), np.sqrt(0.5)], abs=1e-6)


def test_beside_a_seam_of_a_flat_surface_only_the_triangle_under_the_point_counts():
    """The neighbour's border point would pull slantwise and hook cloth that slides over the seam."""
    normals, gaps = roof(0.0, [0.003, 0.004, 0.1])
    assert len(gaps) == 1
    assert normals[0] == pytest.approx([0, 1, 0], abs=1e-9)
