"""How large a scene is before it is built, and how much memory the machine has for it."""

import contextlib
import os
from pathlib import Path

from weft.errors import MeshError, SceneError
from weft.scene.scene import Scene
from weft.scene.shape import AnyShape, Box, Capsule, Cylinder, Grid, Plane, Sphere, Strip

# bytes a vertex of a mesh with its topology, while it is made
MESH_BYTES = 500
# bytes a vertex of a run: a grid of 300 x 300 on a sphere took 355 MB more than one of 20 x 20 with robust, 3,900 a vertex
RUN_BYTES = 4000
# bytes a world of many, whatever its size: 40 worlds of a sheet of 6 x 6 cells took 1.2 MB each
WORLD_BYTES = 1_000_000
# bytes; a run that needs more than that says so
LARGE_RUN = 2e9


def shape_vertices(shape: AnyShape) -> int:
    """About how many vertices the mesh of a shape has."""
    match shape:
        case Grid() | Strip() | Plane():
            return (shape.cells[0] + 1) * (shape.cells[1] + 1)
        case Sphere(triangles="uv"):
            return shape.segments * shape.rings
        case Sphere():
            return 10 * 4**shape.subdivisions + 2
        case Capsule():
            return shape.segments * (2 * shape.rings + shape.bands)
        case Box():
            a, b, c = shape.cells
            return 2 * (a * b + b * c + c * a) + 2
        case Cylinder():
            return shape.segments * (shape.rings + 1)


def scene_vertices(scene: Scene) -> int:
    """About how many vertices the shapes of a scene have; meshes from files are no larger than their files."""
    shapes = [cloth.shape for cloth in scene.cloths] + [collider.shape for collider in scene.colliders]
    return sum(shape_vertices(shape) for shape in shapes if shape is not None)


def machine_memory() -> int:
    """Bytes of memory that this process can have: those of the machine, or of its container or limits if that is less."""
    sizes = [2**62]
    with contextlib.suppress(ValueError, OSError, AttributeError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(ValueError, OSError):
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        sizes += [limit] if limit != resource.RLIM_INFINITY else []
    return min(size for size in sizes if size > 0)


def check_shape(shape: AnyShape) -> None:
    """Refuse a shape whose mesh alone does not fit the memory."""
    vertices, memory = shape_vertices(shape), machine_memory()
    if vertices >= 2**31 or vertices * MESH_BYTES > memory:
        raise MeshError(
            f"this {shape.kind} has {vertices:.2g} vertices, whose mesh alone takes {vertices * MESH_BYTES / 1e9:.2g} GB; "
            f"there are {memory / 1e9:.2g} GB of memory"
        )


def check_worlds(scene: Scene, worlds: int) -> int:
    """The number of worlds, unless so many surely do not fit the memory of the machine."""
    vertices = scene_vertices(scene) if scene.device == "cpu" else 0
    needs, memory = worlds * (WORLD_BYTES + vertices * RUN_BYTES), machine_memory()
    if needs > memory:
        most = memory * worlds // needs
        raise SceneError(
            f"{worlds:,} worlds of this scene need {needs / 1e9:.2g} GB of memory at least, and there are "
            f"{memory / 1e9:.2g} GB, for {most:,} worlds at most"
        )
    return worlds


def check_memory(scene: Scene) -> str | None:
    """Refuse a run that does not fit the memory of the machine; for a large one, gives a sentence about its size."""
    vertices, memory = scene_vertices(scene), machine_memory()
    needs = vertices * RUN_BYTES
    size = f"{vertices:,} vertices need about {needs / 1e9:.2g} GB of memory"
    if needs > memory and scene.device == "cpu":
        raise SceneError(
            f"{scene.source or scene.name}: its {size}, and there are {memory / 1e9:.2g} GB. Coarser meshes need less; force "
            "(--force) tries it all the same"
        )
    return size if needs > LARGE_RUN else None
