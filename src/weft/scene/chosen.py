"""Choices of vertices at work: which vertices of a cloth a region or a follow means."""

import numpy as np

from weft.errors import MeshError, SceneError
from weft.mesh import TriMesh
from weft.scene.files import Key
from weft.scene.pinned import Indices, pinned_vertices
from weft.scene.predictive import ChoicePart
from weft.scene.scene import Scene


def chosen_vertices(scene: Scene, choice: ChoicePart, mesh: TriMesh, key: Key) -> Indices:
    """The vertices of a choice by their numbers in its cloth, ascending; mistakes name the key."""
    pin = choice.choice()
    if pin is None:
        return np.arange(len(mesh.vertices), dtype=np.int32)
    cloth = next(cloth for cloth in scene.cloths if cloth.name == choice.cloth)
    try:
        return pinned_vertices(pin, cloth, mesh)
    except MeshError as error:
        raise SceneError(scene.problem(key, str(error))) from None
