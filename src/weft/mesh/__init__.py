"""Triangle meshes: validated, with their topology, shapes, files, repair and subdivision."""

from weft.mesh import shapes, subdivide
from weft.mesh.convert import as_mesh
from weft.mesh.details import Details, Labels
from weft.mesh.files import load_mesh, read_mesh, save_mesh
from weft.mesh.repair import Repair, repair_mesh
from weft.mesh.topology import Csr
from weft.mesh.trimesh import TriMesh

__all__ = [
    "Csr",
    "Details",
    "Labels",
    "Repair",
    "TriMesh",
    "as_mesh",
    "load_mesh",
    "read_mesh",
    "repair_mesh",
    "save_mesh",
    "shapes",
    "subdivide",
]
