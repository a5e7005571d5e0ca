"""What the user says: scenes, in Python and in TOML, one to one."""

from weft.scene.camera import Camera
from weft.scene.classical import Boxes, Push
from weft.scene.cloth import Cloth
from weft.scene.collider import Collider
from weft.scene.forces import Forces, Wind
from weft.scene.io import load_scene, parse_scene, save_scene, write_scene
from weft.scene.material import MATERIALS, Material
from weft.scene.methods import MethodOptions, Plain, Robust
from weft.scene.motion import Keyframe, Path, Sequence, Spin, Still
from weft.scene.pin import Pin
from weft.scene.placement import Placement
from weft.scene.predictive import Follow, Predictive, Region
from weft.scene.scene import Scene
from weft.scene.seam import Seam
from weft.scene.shape import Box, Capsule, Cylinder, Grid, Plane, Sphere, Strip
from weft.scene.untangle import Flypaper, Untangle

__all__ = [
    "MATERIALS",
    "Box",
    "Boxes",
    "Camera",
    "Capsule",
    "Cloth",
    "Collider",
    "Cylinder",
    "Flypaper",
    "Follow",
    "Forces",
    "Grid",
    "Keyframe",
    "Material",
    "MethodOptions",
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
