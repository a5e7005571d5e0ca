"""From the settings of a scene to meshes, vertex numbers and motions: reads its files and checks what they contain."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np

from weft.errors import MeshError, SceneError, WeftError
from weft.mesh import TriMesh, shapes
from weft.scene.bodies import Cloth, Collider, is_pattern
from weft.scene.creases import Crease, fold_creases, rest_angles
from weft.scene.messages import Key
from weft.scene.methods import Flypaper
from weft.scene.motion import Sequence as SequenceMotion
from weft.scene.pins import PinnedVertices, hold_vertices
from weft.scene.resolved_motion import FunctionMotion, ResolvedMotion, SampledMotion
from weft.scene.scene import Scene
from weft.scene.seams import Stitches, resolve_stitches
from weft.scene.shape import AnyShape, Box, Capsule, Cylinder, Grid, Plane, Sphere, Strip
from weft.scene.size import check_shape
from weft.scene.unit_checks import suspicious_needle, suspicious_size, warn, warn_of_units


@dataclass(frozen=True)
class Resolved:
    """The meshes, pins, motions and stitches of a scene; lists in the order of the scene."""

    cloth_meshes: list[TriMesh]
    starts: list[np.ndarray]
    """for each cloth, where its vertices are when the simulation starts"""
    pins: list[list[PinnedVertices]]
    """for each cloth, its pins"""
    painted: list[dict[str, np.ndarray]]
    """for each cloth, the factors of some of its material's numbers, one a vertex"""
    rest_angles: list[np.ndarray | None]
    """for each cloth with creases, the angle at rest of each hinge in radians, or NaN"""
    collider_meshes: list[TriMesh]
    collider_motions: list[ResolvedMotion]
    seams: list[Stitches]


def resolve_scene(scene: Scene) -> Resolved:
    """Read and check everything; all mistakes are listed together, one line each. Warns of numbers in wrong units."""
    lines: list[str] = []

    @contextmanager
    def collecting_mistakes() -> Iterator[None]:
        try:
            yield
        except WeftError as error:
            lines.extend(str(error).splitlines())

    if not scene.cloths:
        lines.append(scene.problem(("cloths",), "the scene has no cloth"))
    cloth_meshes: list[TriMesh] = []
    starts: list[np.ndarray] = []
    pins: list[list[PinnedVertices]] = []
    painted: list[dict[str, np.ndarray]] = []
    angles: list[np.ndarray | None] = []
    for cloth in scene.cloths:
        with collecting_mistakes():
            mesh = resolve_cloth_mesh(scene, cloth)
            cloth_meshes.append(mesh)
            starts.append(resolve_start(scene, cloth, mesh))
            pins.append(resolve_pins(scene, cloth, mesh))
            painted.append(resolve_painted(scene, cloth, mesh))
            angles.append(resolve_creases(scene, cloth, mesh))
            _check_threads(scene, cloth, mesh)
    colliders: list[tuple[TriMesh, ResolvedMotion]] = []
    for collider in scene.colliders:
        with collecting_mistakes():
            colliders.append(resolve_collider(scene, collider))
    seams: list[Stitches] = []
    if len(cloth_meshes) == len(scene.cloths):
        with collecting_mistakes():
            seams = resolve_seams(scene, cloth_meshes)
    if lines:
        raise SceneError("\n".join(lines))
    if not scene.source:
        # a scene from a file was checked when it was read
        warn_of_units(scene)
    meshes, motions = [m for m, _ in colliders], [m for _, m in colliders]
    return Resolved(cloth_meshes, starts, pins, painted, angles, meshes, motions, seams)


def resolve_cloth_mesh(scene: Scene, cloth: Cloth) -> TriMesh:
    """The mesh of a cloth in the world, with its flat rest shape as uv where lengths at rest come from that."""
    key = _body_key(scene, cloth)
    with _naming_key(scene, (*key, "shape" if cloth.shape else "mesh")):
        mesh = _load(scene, cloth) if cloth.shape is None else shape_mesh(cloth.shape)
        if cloth.repair and not _sewn(scene, cloth):
            mesh = _joined_panels(mesh)
        placed = mesh.transformed(cloth.placement.matrix())
        uv = mesh.uv
        if cloth.shape is None and cloth.rest != "uv":
            uv = None
        elif uv is not None and cloth.rest != "uv":
            uv = uv * np.array(cloth.placement.scale)[[0, 2]]
        placed = placed.with_uv(uv)
    if cloth.rest == "uv" and uv is None:
        with _naming_key(scene, (*key, "rest")):
            placed = _resting_in_corners(cloth, placed)
    if cloth.mesh is not None and not cloth.repair:
        _warn_of_tears(scene, key, cloth, mesh)
    if cloth.mesh is not None and cloth.rest == "uv":
        _warn_of_rest(scene, key, placed)
    for suspicion in (suspicious_size(placed.vertices), suspicious_needle(placed)):
        if suspicion:
            warn(scene, key, suspicion)
    return placed


def resolve_collider(scene: Scene, collider: Collider) -> tuple[TriMesh, ResolvedMotion]:
    """The placed mesh of a collider and its motion; `motion.positions(mesh.vertices, time)` are its vertices at a time."""
    key = _body_key(scene, collider)
    with _naming_key(scene, (*key, "motion")):
        motion = collider.motion.resolve(base=scene.base, placement=collider.placement, object=collider.object)
    source = "shape" if collider.shape else "mesh" if collider.mesh else "motion"
    with _naming_key(scene, (*key, source)):
        if collider.shape is not None:
            mesh = shape_mesh(collider.shape)
        elif collider.mesh is not None:
            mesh = _load(scene, collider)
        else:
            assert isinstance(motion, SampledMotion)
            if motion.sequence.faces is None:
                raise MeshError("the sequence has no array 'faces': give the collider a mesh as well")
            mesh = TriMesh(motion.sequence.vertices(0), motion.sequence.faces)
        placed = mesh.transformed(collider.placement.matrix())
    if isinstance(motion, FunctionMotion):
        # a function that gives the wrong number of positions is found before the run begins
        with _naming_key(scene, (*key, "motion")):
            motion.positions(placed.vertices, 0.0)
    if isinstance(motion, SampledMotion) and collider.mesh is not None:
        _check_same_mesh(scene, key, collider, mesh, motion)
    suspicion = None if isinstance(collider.shape, Plane) else suspicious_size(placed.vertices)
    if suspicion:
        warn(scene, key, suspicion)
    return placed, motion


def resolve_start(scene: Scene, cloth: Cloth, mesh: TriMesh) -> np.ndarray:
    """Where the vertices of a cloth are when the simulation starts: as placed, or as its mesh `start` has them."""
    from weft.mesh.files import read_mesh

    if cloth.start is None:
        return mesh.vertices
    key = (*_body_key(scene, cloth), "start")
    with _naming_key(scene, key):
        if isinstance(cloth.start, TriMesh):
            found = cloth.start.vertices
        else:
            path = scene.base / cloth.start
            if not path.exists():
                raise MeshError(f"no such file: {cloth.start} (looked in {scene.base.absolute()})")
            found = np.asarray(read_mesh(path).vertices)
        if len(found) != len(mesh.vertices):
            raise MeshError(f"has {len(found)} vertices, and {cloth.name!r} has {len(mesh.vertices)}")
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(bad):
            raise MeshError(f"vertex {bad[0]} is not at finite coordinates")
    return found


def resolve_pins(scene: Scene, cloth: Cloth, mesh: TriMesh) -> list[PinnedVertices]:
    """The vertices that each pin of a cloth holds, and their motion; a vertex in two pins follows the later one."""
    return hold_vertices(scene, cloth, mesh, _body_key(scene, cloth))


def resolve_painted(scene: Scene, cloth: Cloth, mesh: TriMesh) -> dict[str, np.ndarray]:
    """The factors of the material's numbers that are painted, one for each vertex of the cloth."""
    found = {}
    for name in type(cloth.painted).model_fields:
        given = getattr(cloth.painted, name)
        if given is None:
            continue
        key = (*_body_key(scene, cloth), "painted", name)
        factors = _factors(scene, key, given, cloth, mesh)
        found[name] = factors
    return found


def resolve_grips(scene: Scene, weights: Sequence[Flypaper], meshes: Sequence[TriMesh]) -> dict[str, np.ndarray]:
    """The factors of flypaper weights at the vertices of colliders, by name; `meshes` are those of all colliders."""
    found = {}
    bodies = {collider.name: (collider, mesh) for collider, mesh in zip(scene.colliders, meshes, strict=True)}
    for i, flypaper in enumerate(weights):
        if flypaper.surface is not None:
            key = ("method", "flypaper", i, "surface")
            found[flypaper.collider] = _factors(scene, key, flypaper.surface, *bodies[flypaper.collider])
    return found


def _factors(
    scene: Scene, key: Key, given: str | tuple[float, ...], body: Cloth | Collider, mesh: TriMesh
) -> np.ndarray:
    """One factor for each vertex of a body, from numbers or the name of a vertex attribute."""
    with _naming_key(scene, key):
        named = isinstance(given, str)
        factors = _attribute(mesh, given) if isinstance(given, str) else np.array(given)
    if len(factors) != len(mesh.vertices):
        what = f"{given!r} has" if named else "there are"
        text = f"{what} {len(factors)} values, and {body.name!r} has {len(mesh.vertices)} vertices"
        raise SceneError(scene.problem(key, text + (" after its repair" if body.repair else "")))
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        worst = int((~(np.isfinite(factors) & (factors >= 0.0))).argmax())
        raise SceneError(scene.problem(key, f"must be 0 or more, not {factors[worst]:g} at vertex {worst}"))
    return factors


def resolve_creases(scene: Scene, cloth: Cloth, mesh: TriMesh) -> np.ndarray | None:
    """The angles at rest of the hinges of a cloth in radians, NaN where no crease says them; None without creases."""
    folds = _pattern_folds(scene, cloth)
    if not cloth.creases and not folds:
        return None
    for i, crease in enumerate(cloth.creases):
        with _naming_key(scene, (*_body_key(scene, cloth), "creases", i)):
            rest_angles((crease,), mesh)
    return rest_angles((*folds, *cloth.creases), mesh)


def _pattern_folds(scene: Scene, cloth: Cloth) -> tuple[Crease, ...]:
    """The folds of the sewing pattern whose panels a cloth is."""
    if not (isinstance(cloth.mesh, str) and is_pattern(cloth.mesh)):
        return ()
    from weft.garment.files import cut_file

    return fold_creases(cut_file(scene.base / cloth.mesh, cloth.edge).folds)


def _attribute(mesh: TriMesh, name: str) -> np.ndarray:
    """One number a vertex, by its name in the mesh."""
    values = mesh.attributes.get(name)
    if values is None:
        there = ", ".join(mesh.attributes) or "none"
        raise MeshError(f"the mesh has no vertex attribute {name!r}; it has {there}")
    if values.ndim != 1:
        raise MeshError(f"the vertex attribute {name!r} has {values.shape[1]} numbers a vertex, and one is needed")
    return values


def resolve_seams(scene: Scene, cloth_meshes: Sequence[TriMesh]) -> list[Stitches]:
    """The stitches of each seam, with the numbers that vertices have in their own cloth."""
    return [resolve_stitches(scene, i, cloth_meshes) for i in range(len(scene.seams))]


def shape_mesh(shape: AnyShape) -> TriMesh:
    """The triangles of a shape, about the origin."""
    check_shape(shape)
    match shape:
        case Grid():
            return shapes.grid(shape.size, shape.cells, diagonals=shape.diagonals)
        case Strip():
            return shapes.grid((shape.length, shape.width), shape.cells, diagonals=shape.diagonals)
        case Sphere(triangles="uv"):
            return shapes.uv_sphere(shape.radius, segments=shape.segments, rings=shape.rings)
        case Sphere():
            return shapes.icosphere(shape.radius, subdivisions=shape.subdivisions)
        case Capsule():
            sizes = {name: getattr(shape, name) for name in ("end_radius", "segments", "rings", "bands")}
            return shapes.capsule(shape.radius, shape.length, **sizes)
        case Box():
            return shapes.box(shape.size, cells=shape.cells)
        case Cylinder():
            return shapes.cylinder(shape.radius, shape.height, segments=shape.segments, rings=shape.rings)
        case Plane():
            return shapes.plane(shape.size, cells=shape.cells)


def _load(scene: Scene, body: Cloth | Collider) -> TriMesh:
    from weft.mesh import load_mesh, repair_mesh

    assert body.mesh is not None
    if isinstance(body.mesh, TriMesh):
        mesh = body.mesh if body.object is None else body.mesh.part(body.object)
        return repair_mesh(mesh.vertices, mesh.faces, mesh.uv, details=mesh.details).mesh if body.repair else mesh
    path = scene.base / body.mesh
    if not path.exists():
        raise MeshError(f"no such file: {body.mesh} (looked in {scene.base.absolute()})")
    if isinstance(body, Cloth) and is_pattern(body.mesh):
        from weft.garment.files import cut_file

        return cut_file(path, body.edge).mesh()
    # uv that are only texture coordinates are left out: where they differ, repair would not join torn edges
    uv = isinstance(body, Collider) or body.rest == "uv"
    return load_mesh(path, object=body.object, array=body.array, repair=body.repair, uv=uv)


def _joined_panels(mesh: TriMesh) -> TriMesh:
    """The mesh without torn edges: panels with a uv a vertex share the vertices of their seams, and rest in their corners."""
    from weft.mesh import repair_mesh

    if mesh.uv is None or not len(mesh.with_uv(None).torn_edges):
        return mesh
    details = replace(mesh.details, corner_uv=mesh.uv[mesh.faces])
    return repair_mesh(mesh.vertices, mesh.faces, details=details).mesh


def _sewn(scene: Scene, cloth: Cloth) -> bool:
    return any(cloth.name in (seam.cloth, seam.to) for seam in scene.seams)


def _check_threads(scene: Scene, cloth: Cloth, mesh: TriMesh) -> None:
    """What depends on the direction needs threads, which run along the axes of the flat rest shape."""
    remedies = {"directions": "give one number", "stretch_limit": "leave it out"}
    for key, feature in cloth.unusual().items():
        if feature in remedies and mesh.flat_corners is None:
            text = f'is along the threads, which are unknown for this cloth: {remedies[feature]}, or rest = "uv"'
            raise SceneError(scene.problem((*_body_key(scene, cloth), *key), text))


def _warn_of_tears(scene: Scene, key: Key, cloth: Cloth, mesh: TriMesh) -> None:
    """Warn of a mesh whose triangles share no vertices: it would fall apart. Cloths with seams are left out."""
    if _sewn(scene, cloth):
        return
    # panels whose edges lie on each other have different uv there
    tears = len(mesh.with_uv(None).torn_edges)
    if tears:
        edges = "1 torn edge" if tears == 1 else f"{tears} torn edges"
        text = f"has {edges}, where triangles meet that share no vertices: cloth falls apart there; repair = true joins them"
        warn(scene, (*key, "mesh"), text)


def _resting_in_corners(cloth: Cloth, mesh: TriMesh) -> TriMesh:
    """The mesh at rest in the texture coordinates of its corners, which at the seams of panels are several a vertex."""
    what = f"the shape {cloth.shape.kind}" if cloth.shape else cloth.mesh if isinstance(cloth.mesh, str) else "the mesh"
    if mesh.corner_uv is None:
        raise MeshError(f"{what} has no uv coordinates to rest in")
    try:
        return mesh.resting_in_corners()
    except MeshError as error:
        raise MeshError(f"{what} has {error}, so that they are no flat rest shape: leave rest out") from None


# how far the lengths of edges may be from those at rest before it is probably a mistake: the middle one of all edges, which
# says that uv is in other units, and the longest hundredth of them, which cloth that is put on a body rarely exceeds
_USUAL_MEDIAN = (0.8, 1.25)
_USUAL_LONGEST = 1.5


def _warn_of_rest(scene: Scene, key: Key, mesh: TriMesh) -> None:
    """Warn where the lengths in uv are not those of the mesh, as with a texture atlas."""
    ratios = mesh.edge_lengths / mesh.rest_lengths
    median, longest = float(np.median(ratios)), float(np.quantile(ratios, 0.99))
    if _USUAL_MEDIAN[0] <= median <= _USUAL_MEDIAN[1] and longest <= _USUAL_LONGEST:
        return
    text = (
        f"rests in its uv coordinates, in which its edges have other lengths: the mesh is {median:.3g} times as long at the "
        f"median, {longest:.3g} times at the 99th percentile. Flat panels are in metres; texture coordinates are no rest "
        "shape: with those, leave rest out"
    )
    warn(scene, (*key, "rest"), text)


def _check_same_mesh(scene: Scene, key: Key, collider: Collider, mesh: TriMesh, motion: SampledMotion) -> None:
    """A sequence moves the vertices of its mesh, so both must have the same ones."""
    assert isinstance(collider.motion, SequenceMotion)
    sequence, given = motion.sequence, collider.motion.file
    which = f"the mesh {collider.mesh}" if isinstance(collider.mesh, str) else "the mesh"
    file = FilePath(given).name if given is not None else "the array"
    if len(mesh.vertices) != sequence.vertex_count:
        text = f"{file} has {sequence.vertex_count} vertices and {which} has {len(mesh.vertices)}"
    elif sequence.faces is not None and not np.array_equal(mesh.faces, sequence.faces):
        text = f"{file} and {which} have different triangles"
    else:
        return
    hint = "; leave the mesh out to use that of the sequence" if given is not None else ""
    raise SceneError(scene.problem((*key, "motion", "file" if given else "positions"), f"{text}{hint}"))


def _body_key(scene: Scene, body: Cloth | Collider) -> Key:
    """The key of a body in its scene; names are unique."""
    kind, bodies = ("cloths", scene.cloths) if isinstance(body, Cloth) else ("colliders", scene.colliders)
    names = [other.name for other in bodies]
    if body.name not in names:
        raise SceneError(f"the scene has no {kind.removesuffix('s')} called {body.name!r}")
    return kind, names.index(body.name)


@contextmanager
def _naming_key(scene: Scene, key: Key) -> Iterator[None]:
    """Turn an error about a mesh into one that names its key in the scene."""
    try:
        yield
    except MeshError as error:
        raise SceneError(scene.problem(key, str(error))) from None
