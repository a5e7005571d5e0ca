"""Scenes: the description of a simulation, in Python objects or in TOML files, with the same keys in both."""

from weft.scene.bodies import Cloth, Collider, Painted, Pin
from weft.scene.creases import Crease
from weft.scene.files import load_scene, parse_scene, save_scene, write_scene
from weft.scene.material import MATERIALS, Directions, Material
from weft.scene.methods import (
    Boxes,
    Flypaper,
    Follow,
    Guarded,
    MethodOptions,
    Plain,
    Predictive,
    Push,
    Region,
    Robust,
    Untangle,
)
from weft.scene.motion import Keyframe, Path, Sequence, Spin, Still
from weft.scene.placement import Placement
from weft.scene.scene import Camera, Forces, Garment, Scene, Seam, Wind
from weft.scene.shape import Box, Capsule, Cylinder, Grid, Plane, Sphere, Strip

__all__ = [
    "MATERIALS",
    "Box",
    "Boxes",
    "Camera",
    "Capsule",
    "Cloth",
    "Collider",
    "Crease",
    "Cylinder",
    "Directions",
    "Flypaper",
    "Follow",
    "Forces",
    "Garment",
    "Grid",
    "Guarded",
    "Keyframe",
    "Material",
    "MethodOptions",
    "Painted",
    "Path",
    "Pin",
    "Placement",
    "Plain",
    "Plane",
    "Predictive",
    "Push",
    "Region",
    "Robust",
    "Scene",
    "Seam",
    "Sequence",
    "Sphere",
    "Spin",
    "Still",
    "Strip",
    "Untangle",
    "Wind",
    "load_scene",
    "parse_scene",
    "save_scene",
    "write_scene",
]
