"""Who touches whom, where, and with what force: the contacts of a `Simulation` in the words of its bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.contact.contact import ContactSearch
from weft.errors import WeftError
from weft.world import World

Floats = npt.NDArray[np.float64]

# a pair touches if its gap is below this many times its thickness: cloth at rest keeps the thickness within a few per cent
TOUCHING_FACTOR = 1.1


class Contact(NamedTuple):
    """One contact: the columns of `Contacts`, of one row."""

    first: str
    second: str
    point: Floats
    normal: Floats
    gap: float
    force: Floats | None


@dataclass(frozen=True, repr=False)
class Contacts:
    """The contacts of the last step as columns, one row each: `contacts[3]` is a row, `contacts[:10]` and masks choose rows.

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

    def __getitem__(self, rows: Any) -> Any:
        if not isinstance(rows, int | np.integer):
            return self._choose(rows)
        force = None if self.forces is None else self.forces[rows]
        return Contact(
            str(self.first[rows]),
            str(self.second[rows]),
            self.points[rows],
            self.normals[rows],
            float(self.gaps[rows]),
            force,
        )

    def __iter__(self) -> Iterator[Contact]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        pairs = Counter(
            (str(a), str(b)) if a < b else (str(b), str(a)) for a, b in zip(self.first, self.second, strict=True)
        )
        who = ", ".join(f"{count} of {a} with {'itself' if a == b else b}" for (a, b), count in pairs.items())
        return f"<Contacts: {who or 'none'}; forces {'unknown' if self.forces is None else 'known'}>"

    def between(self, one: str, other: str) -> Contacts:
        """The contacts of two bodies with each other."""
        chosen = ((self.first == one) & (self.second == other)) | ((self.first == other) & (self.second == one))
        return self._choose(chosen)

    def _choose(self, chosen: Any) -> Contacts:
        return Contacts(
            self.first[chosen],
            self.second[chosen],
            self.points[chosen],
            self.normals[chosen],
            self.gaps[chosen],
            None if self.forces is None else self.forces[chosen],
        )


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        force, torque = (", ".join(f"{number:.4g}" for number in values) for values in (self.force, self.torque))
        contacts = f"{len(self.forces)} contact{'s' * (len(self.forces) != 1)}"
        return f"<ContactForce: ({force}) N, ({torque}) N m, of {contacts}>"

    @cached_property
    def normal_force(self) -> float:
        """The sum of the sizes of all forces of contacts, N: how hard the body is pressed, where opposite forces cancel."""
        return float(np.linalg.norm(self.forces, axis=1).sum())


class ContactReporter:
    """Makes `Contacts` from what a method notes, or by a search at the current positions."""

    def __init__(self, world: World, touching: Floats | None = None) -> None:
        """`touching`: the distance that each vertex keeps from what it touches; default: the thickness."""
        self.world = world
        self._names = np.array([body.name for body in world.bodies])
        self._body = world.surface.vertex_body.numpy()
        self._thickness = world.thickness.numpy() if touching is None else touching
        self._search: ContactSearch | None = None
        self._count = world.vertex_count
        stitches = np.asarray(world.seams.vertices, dtype=np.int64).reshape(-1, 3)
        self._sewn = np.unique([_key(self._count, stitches[:, 0], stitches[:, k]) for k in (1, 2)])

    def with_forces(self, noted: Any, x: wp.array) -> Contacts:
        """The contacts that a method noted (`ContactForces`), as far as they touch or push."""
        thickness = 0.5 * (np.abs(noted.weights) * self._thickness[noted.vertices]).sum(axis=1)
        pushes = (noted.forces != 0.0).any(axis=1)
        chosen = pushes | (noted.gaps < TOUCHING_FACTOR * thickness)
        vertices, weights, normals = (array[chosen] for array in (noted.vertices, noted.weights, noted.normals))
        return self._contacts(vertices, weights, normals, noted.forces[chosen], x)

    def by_search(self, x: wp.array) -> Contacts:
        """All pairs that are within the thickness now, but for those that seams hold together."""
        if self._search is None:
            scaled: wp.array = wp.array(TOUCHING_FACTOR * self._thickness, dtype=wp.float64, device=self.world.device)
            self._search = ContactSearch(make_broad_phase("bvh", self.world.surface), scaled)
        found = self._search.find(x)
        vertices, weights, normals = (a.numpy().copy() for a in (found.vertices, found.weights, found.normal))
        free = ~self._are_sewn(vertices)
        return self._contacts(vertices[free], weights[free], normals[free], None, x)

    def _are_sewn(self, vertices: np.ndarray) -> npt.NDArray[np.bool_]:
        """(k,) whether one of the four vertices of a stencil is sewn to another: where seams meet, methods test no contact."""
        found = np.zeros(len(vertices), dtype=bool)
        for i, j in combinations(range(4), 2):
            found |= np.isin(_key(self._count, vertices[:, i], vertices[:, j]), self._sewn)
        return found

    def _contacts(
        self, vertices: np.ndarray, weights: np.ndarray, normals: np.ndarray, forces: Floats | None, x: wp.array
    ) -> Contacts:
        corners = x.numpy()[vertices]
        points = (np.maximum(weights, 0.0)[:, :, None] * corners).sum(axis=1)
        gaps = (normals * (weights[:, :, None] * corners).sum(axis=1)).sum(axis=1)
        # corners 0 and 3 are on different sides in both kinds of stencils
        first, second = self._names[self._body[vertices[:, 0]]], self._names[self._body[vertices[:, 3]]]
        return Contacts(first, second, points, normals, gaps, forces)


def _key(count: int, one: np.ndarray, other: np.ndarray) -> npt.NDArray[np.int64]:
    """One number for each pair of vertices, whichever is named first."""
    first, second = np.minimum(one, other).astype(np.int64), np.maximum(one, other)
    return np.asarray(first * count + second, dtype=np.int64)


def force_on(name: str, contacts: Contacts, about: Floats) -> ContactForce:
    """The force and torque of contacts on one body."""
    assert contacts.forces is not None
    if about.shape != (3,) or not np.isfinite(about).all():
        raise WeftError(f"a torque is about a point, three finite numbers, not an array {about.shape}")
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
