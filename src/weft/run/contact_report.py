"""Who touches whom, where, and with what force: the contacts of a `Simulation` in the words of its bodies."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.contact.contact import ContactSearch
from weft.world import World

Floats = npt.NDArray[np.float64]

# a pair touches if its gap is below this many times its thickness: cloth at rest keeps the thickness within a few per cent
TOUCHING_FACTOR = 1.1


@dataclass(frozen=True)
class Contacts:
    """The contacts of the last step, one row each; `len` is their number.

    The first side of a contact is a vertex or an edge, the second a triangle or an edge.
    """

    first: npt.NDArray[np.str_]
    """(k,) name of the body of the first side"""
    second: npt.NDArray[np.str_]
    """(k,) name of the body of the second side, which may be the same cloth"""
    points: Floats
    """(k, 3) the point of the first side, m"""
    normals: Floats
    """(k, 3) unit vectors from the second side to the first"""
    gaps: Floats
    """(k,) distance of the two sides along the normal, m"""
    forces: Floats | None
    """(k, 3) mean force on the first side over the last step, N; the second side gets the opposite. None if unknown"""

    def __len__(self) -> int:
        return len(self.gaps)

    def between(self, one: str, other: str) -> "Contacts":
        """The contacts of two bodies with each other."""
        chosen = ((self.first == one) & (self.second == other)) | ((self.first == other) & (self.second == one))
        return self._choose(chosen)

    def _choose(self, chosen: npt.NDArray[np.bool_]) -> "Contacts":
        return Contacts(
            self.first[chosen],
            self.second[chosen],
            self.points[chosen],
            self.normals[chosen],
            self.gaps[chosen],
            None if self.forces is None else self.forces[chosen],
        )


@dataclass(frozen=True)
class ContactForce:
    """What all contacts of one body with others do to it, averaged over the last step."""

    force: Floats
    """(3,) N"""
    torque: Floats
    """(3,) N m, about `about`"""
    about: Floats
    """(3,) m: for a collider the origin of its pose"""
    points: Floats
    """(k, 3) where each contact acts, m"""
    forces: Floats
    """(k, 3) the force of each contact on the body, N"""
    others: npt.NDArray[np.str_]
    """(k,) the name of the other body of each contact"""

    @cached_property
    def normal_force(self) -> float:
        """The sum of the sizes of all forces of contacts, N: how hard the body is pressed, where opposite forces cancel."""
        return float(np.linalg.norm(self.forces, axis=1).sum())


class ContactReporter:
    """Makes `Contacts` from what a method notes, or by a search at the current positions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._names = np.array([body.name for body in world.bodies])
        self._body = world.surface.vertex_body.numpy()
        self._thickness = world.thickness.numpy()
        self._search: ContactSearch | None = None

    def with_forces(self, noted: Any, x: wp.array) -> Contacts:
        """The contacts that a method noted (`ContactForces`), as far as they touch or push."""
        thickness = 0.5 * (np.abs(noted.weights) * self._thickness[noted.vertices]).sum(axis=1)
        pushes = (noted.forces != 0.0).any(axis=1)
        chosen = pushes | (noted.gaps < TOUCHING_FACTOR * thickness)
        vertices, weights, normals = (array[chosen] for array in (noted.vertices, noted.weights, noted.normals))
        return self._contacts(vertices, weights, normals, noted.forces[chosen], x)

    def by_search(self, x: wp.array) -> Contacts:
        """All pairs that are within the thickness now."""
        if self._search is None:
            scaled: wp.array = wp.array(TOUCHING_FACTOR * self._thickness, dtype=wp.float64, device=self.world.device)
            self._search = ContactSearch(make_broad_phase("bvh", self.world.surface), scaled)
        found = self._search.find(x)
        vertices, weights, normals = (a.numpy().copy() for a in (found.vertices, found.weights, found.normal))
        return self._contacts(vertices, weights, normals, None, x)

    def _contacts(
        self, vertices: np.ndarray, weights: np.ndarray, normals: np.ndarray, forces: Floats | None, x: wp.array
    ) -> Contacts:
        corners = x.numpy()[vertices]
        points = (np.maximum(weights, 0.0)[:, :, None] * corners).sum(axis=1)
        gaps = (normals * (weights[:, :, None] * corners).sum(axis=1)).sum(axis=1)
        # corners 0 and 3 are on different sides in both kinds of stencils
        first, second = self._names[self._body[vertices[:, 0]]], self._names[self._body[vertices[:, 3]]]
        return Contacts(first, second, points, normals, gaps, forces)


def force_on(name: str, contacts: Contacts, about: Floats) -> ContactForce:
    """The force and torque of contacts on one body."""
    assert contacts.forces is not None
    own, other = contacts.first == name, contacts.second == name
    chosen = own != other
    sign = np.where(own, 1.0, -1.0)[chosen, None]
    # the second side is touched a gap below the first
    shift = np.where(own, 0.0, contacts.gaps)[chosen, None]
    points = contacts.points[chosen] - shift * contacts.normals[chosen]
    forces = sign * contacts.forces[chosen]
    torque = np.cross(points - about, forces).sum(axis=0)
    others = np.where(own, contacts.second, contacts.first)[chosen]
    return ContactForce(forces.sum(axis=0), torque, about, points, forces, others)
