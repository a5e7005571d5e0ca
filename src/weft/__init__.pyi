"""The public names as type checkers and editors see them; a test holds them against `__init__.py`."""

from weft import cache as cache
from weft import check as check
from weft import detection as detection
from weft import errors as errors
from weft import exchange as exchange
from weft import mesh as mesh
from weft import scene as scene
from weft import view as view
from weft import world as world
from weft.cache import Cache as Cache
from weft.cache import open_cache as open_cache
from weft.detection.contact import contacts as contacts
from weft.detection.intersection import intersections as intersections
from weft.errors import WeftError as WeftError
from weft.mesh import TriMesh as TriMesh
from weft.mesh import load_mesh as load_mesh
from weft.mesh import save_mesh as save_mesh
from weft.run import simulate as simulate
from weft.scene import Box as Box
from weft.scene import Camera as Camera
from weft.scene import Capsule as Capsule
from weft.scene import Cloth as Cloth
from weft.scene import Collider as Collider
from weft.scene import Cylinder as Cylinder
from weft.scene import Forces as Forces
from weft.scene import Grid as Grid
from weft.scene import Keyframe as Keyframe
from weft.scene import Material as Material
from weft.scene import Path as Path
from weft.scene import Pin as Pin
from weft.scene import Placement as Placement
from weft.scene import Plane as Plane
from weft.scene import Scene as Scene
from weft.scene import Seam as Seam
from weft.scene import Sequence as Sequence
from weft.scene import Sphere as Sphere
from weft.scene import Spin as Spin
from weft.scene import Still as Still
from weft.scene import Strip as Strip
from weft.scene import Wind as Wind
from weft.scene import load_scene as load_scene
from weft.scene import save_scene as save_scene

__version__: str
