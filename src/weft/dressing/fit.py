"""How a garment fits: the strain of its cloth in per cent, panel by panel, and its pressure on the body."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from weft.dynamics.springs import BEND, from_mesh
from weft.garment import CutGarment
from weft.mesh import TriMesh
from weft.mesh.topology import vertex_normals
from weft.scene import Material
from weft.scene.scene import GRAVITY

Floats = NDArray[np.float64]

# strain of most of a panel from which on a garment counts as far too small: knitted cloth stretches as far, woven cloth tears
FAR_TOO_SMALL = 0.35
# of the edges of a panel, which fraction is less stretched than what is reported
MOST = 0.95
# thicknesses: cloth that is nearer to the body than this rests on it
RESTING = 3.0
# m: cloth that is farther than this from the nearest vertex of the body does not rest on it, whatever its height above it
NEAR_BODY = 0.05


@dataclass(frozen=True)
class PanelFit:
    """How one panel is stretched."""

    name: str
    mean: float
    """mean strain of its edges, per cent; negative where it is compressed"""
    most: float
    """95 of 100 edges are stretched by less than this, per cent"""
    largest: float
    """per cent"""


@dataclass(frozen=True)
class Fit:
    """How a garment fits a body."""

    name: str
    panels: tuple[PanelFit, ...]
    strain: Floats
    """(n,) per cent: the mean strain of the edges at each vertex of the panels"""
    pressure: Floats
    """(b,) Pa: on each vertex of the body"""

    @property
    def too_small(self) -> bool:
        """Whether a panel is stretched farther than any cloth gives."""
        return any(panel.most > 100.0 * FAR_TOO_SMALL for panel in self.panels)

    @property
    def tightest(self) -> str:
        """The panel that is stretched the most."""
        panel = max(self.panels, key=lambda panel: panel.most)
        return f"panel {panel.name!r} is stretched by {panel.most:.0f} %"


def measure_fit(cut: CutGarment, body: TriMesh, material: Material, thickness: float) -> Fit:
    """The strain of every panel, and the pressure of the garment on the body."""
    mesh = cut.mesh_at_rest()
    lengths = np.linalg.norm(cut.vertices[mesh.edges[:, 1]] - cut.vertices[mesh.edges[:, 0]], axis=1)
    strain = 100.0 * (lengths / mesh.rest_lengths - 1.0)
    panel_of = cut.vertex_panel[mesh.edges[:, 0]]
    panels = []
    for number, panel in enumerate(cut.pattern.panels):
        own = strain[panel_of == number]
        panels.append(PanelFit(panel.name, float(own.mean()), float(np.quantile(own, MOST)), float(own.max())))
    ends, both = mesh.edges.ravel(), np.repeat(strain, 2)
    at_vertices = np.bincount(ends, both, len(cut.vertices)) / np.bincount(ends, minlength=len(cut.vertices))
    return Fit(cut.pattern.name, tuple(panels), at_vertices, _pressure(cut, mesh, body, material, thickness))


def _pressure(cut: CutGarment, mesh: TriMesh, body: TriMesh, material: Material, thickness: float) -> Floats:
    """(b,) Pa: cloth at rest is held by the body where its tension and weight push it there.

    The force that springs and gravity leave over at a vertex of cloth on the body is carried by the body; its part along
    the normal of the body, divided by the area of the nearest vertices of the body, is the pressure.
    """
    network = from_mesh(mesh, material)
    kept = network.kind != BEND
    a, b = network.pairs[kept].T
    along = cut.vertices[b] - cut.vertices[a]
    length = np.maximum(np.linalg.norm(along, axis=1), 1e-12)
    pull = (network.stiffness[kept] * (length - network.rest[kept]) / length)[:, None] * along
    force = np.zeros_like(cut.vertices)
    for axis in range(3):
        force[:, axis] = np.bincount(a, pull[:, axis], len(force)) - np.bincount(b, pull[:, axis], len(force))
    mass = material.density * np.bincount(mesh.faces.ravel(), np.repeat(mesh.rest_areas / 3.0, 3), len(force))
    force[:, 1] -= GRAVITY * mass
    # vertices that are sewn together carry their forces together
    number = cut.welded_vertex
    total = np.stack([np.bincount(number, column) for column in force.T], axis=1)
    x = cut.welded_mean(cut.vertices)
    away, nearest = cKDTree(body.vertices).query(x)
    normals = vertex_normals(body.vertices, body.faces)[nearest]
    # the body's own vertices may be far apart: the distance counts along its normal
    height = np.abs(((x - body.vertices[nearest]) * normals).sum(axis=1))
    rests = (height < RESTING * thickness) & (away < NEAR_BODY)
    push = np.where(rests, np.maximum(0.0, -(total * normals).sum(axis=1)), 0.0)
    area = np.bincount(body.faces.ravel(), np.repeat(body.face_areas / 3.0, 3), len(body.vertices)).astype(np.float64)
    load = np.bincount(nearest, push, len(body.vertices)).astype(np.float64)
    return _spread(body, load) / np.maximum(_spread(body, area), 1e-12)


def _spread(mesh: TriMesh, values: Floats, rounds: int = 3) -> Floats:
    """Values summed over the vertices around: cloth and body have their vertices at different places."""
    a, b = mesh.edges.T
    for _ in range(rounds):
        values = values + np.bincount(a, values[b], len(values)) + np.bincount(b, values[a], len(values))
    return np.asarray(values)
