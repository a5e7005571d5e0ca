"""USD: one mesh a body with a time sample a frame, for Blender, Houdini, Maya, Unreal and film.

    /World                     Xform, the default prim
      /<body>                  Mesh: points, velocities (m/s, for motion blur), normals and extent at every frame;
                               polygons, st (texture coordinates; else flat rest coordinates in metres), attributes of
                               the vertices, displayColor, doubleSided
        /<material>            GeomSubset: the polygons of a material that the mesh file named
        /panel_<name>          GeomSubset of the family `panel`: the polygons of a panel of a garment; without panels,
        /group_<name>          of the family `group`, those of a group that the mesh file named
      /Materials/<body>        Material: UsdPreviewSurface in the body's colour; /Materials/<material> likewise. A number is
                               added to names that are taken

The stage is in metres, y up, with one time code a frame of the cache. Bodies that do not move have no time samples.

With a schema (`--usd-schema`) cloth is also a surface deformable with its shape at rest, its mass and its material, and
colliders get the collision API of UsdPhysics. The schema of deformable bodies is a proposal whose names differ between its
readers, so that there are two dialects: `physics`, as the working group writes it and Newton reads it, and `omniphysics`,
as Omniverse, Isaac Sim and PhysX read it. Neither is registered in usd-core, so the names are written as they are.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, missing_extra
from weft.exchange.selection import Exported, Floats, Ints, Job, Selection, Singles, staged_file
from weft.mesh import Details
from weft.mesh.details import GROUPS
from weft.mesh.formats.raw import uv_from_corners
from weft.mesh.polygons import polygon_loops
from weft.mesh.topology import vertex_normals

if TYPE_CHECKING:
    from weft.cache import Body


# the file is saved every so many frames, which limits the memory that USD needs
SAVE_EVERY = 32


def write_usd(job: Job, schema: str | None = None) -> Exported:
    """Write a USD file: .usdc and .usd are binary, .usda is text.

    schema: also describe the bodies to simulators, by the proposed schema of deformable bodies: "physics" or "omniphysics"
    (see `DIALECTS`); meshes are then triangles.
    """
    try:
        from pxr import Tf
    except ImportError:
        raise missing_extra("usd", "usd-core") from None

    if schema is not None:
        choose_dialect(schema)
    try:
        rounding = _write(job, schema)
    except Tf.ErrorException as error:
        # USD's own words are many lines about its source; the last quoted part says what happened
        reasons = re.findall(r" : '(.*)'", str(error)) or [type(error).__name__]
        raise WeftError(f"cannot write {job.path}: {reasons[0].rpartition(': ')[2]}") from None
    return Exported([job.path], job.selection.frames, rounding)


def _write(job: Job, schema: str | None) -> dict[int, int]:
    """Write the file; returns the intersections that rounding made."""
    from pxr import Usd

    selection, cache = job.selection, job.selection.cache
    with staged_file(job) as staged:
        stage = Usd.Stage.CreateNew(str(staged))
        _describe(stage, selection)
        if schema is not None:
            write_physics_scene(stage, selection)
        meshes = [
            _Mesh(stage, selection, body, name, schema)
            for body, name in zip(selection.bodies, _names(selection), strict=True)
        ]
        moving = selection.moving()
        for done, frame in enumerate(job.frames(), start=1):
            x, v = cache.positions(frame), cache.velocities(frame)
            for mesh, moves in zip(meshes, moving, strict=True):
                if moves:
                    mesh.write(x, v, frame)
                elif done == 1:
                    mesh.write(x, None, None)
            if done % SAVE_EVERY == 0:
                stage.GetRootLayer().Save()
        stage.GetRootLayer().Save()
        del stage, meshes
        return job.count_rounding(_Reader(staged, selection))


class _Mesh:
    """One body on the stage."""

    def __init__(self, stage: Any, selection: Selection, body: "Body", name: str, schema: str | None) -> None:
        from pxr import Gf, UsdGeom, UsdShade, Vt

        self.body = body
        self.faces = selection.faces(body)
        self.smooth = body.kind == "cloth"
        mesh = UsdGeom.Mesh.Define(stage, f"/World/{name}")
        mesh.GetPrim().SetDisplayName(body.name)
        # simulators take triangles
        sizes, corners = polygon_loops(self.faces, None if schema else selection.details(body).polygons)
        mesh.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(sizes.astype(np.int32)))
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(self.faces.ravel()[corners].astype(np.int32)))
        # no subdivision by other programs: the triangles are the surface
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        mesh.CreateDoubleSidedAttr(True)
        _write_primvars(mesh, selection, body, self.faces, corners)

        from weft.scene.colours import to_linear

        colour = Gf.Vec3f(*to_linear(selection.colour(body)).tolist())
        mesh.CreateDisplayColorAttr(Vt.Vec3fArray([colour]))
        material = _material(stage, name, colour)
        UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(material)
        rows = corners[np.cumsum(sizes) - sizes] // 3
        _write_materials(stage, mesh, selection.details(body), rows, colour)
        _write_groups(mesh, selection.details(body), rows)
        if schema is not None:
            write_deformable(mesh, material, selection, body, self.faces, schema)
        self._mesh = mesh
        self._points, self._velocities = mesh.CreatePointsAttr(), mesh.CreateVelocitiesAttr()
        self._extent = mesh.CreateExtentAttr()
        if self.smooth:
            self._normals = mesh.CreateNormalsAttr()
            mesh.SetNormalsInterpolation(UsdGeom.Tokens.vertex)

    def write(self, x: Floats, v: Floats | None, frame: int | None) -> None:
        """Write positions, extent, velocities and normals at a frame, or without time if it is None."""
        from pxr import Usd, Vt

        code = Usd.TimeCode.Default() if frame is None else Usd.TimeCode(frame)
        points = x[self.body.vertices].astype(np.float32)
        self._points.Set(Vt.Vec3fArray.FromNumpy(points), code)
        self._extent.Set(Vt.Vec3fArray.FromNumpy(np.stack([points.min(axis=0), points.max(axis=0)])), code)
        if v is not None:
            self._velocities.Set(Vt.Vec3fArray.FromNumpy(v[self.body.vertices].astype(np.float32)), code)
        if self.smooth:
            normals = vertex_normals(x[self.body.vertices], self.faces)
            self._normals.Set(Vt.Vec3fArray.FromNumpy(normals.astype(np.float32)), code)


def _write_primvars(mesh: Any, selection: Selection, body: "Body", faces: Ints, corners: NDArray[np.int64]) -> None:
    """Texture coordinates, one a vertex or, with seams, one a corner; and the attributes of the vertices."""
    from pxr import Sdf, UsdGeom, Vt

    primvars = UsdGeom.PrimvarsAPI(mesh)
    uv, interpolation = selection.corner_uv(body), UsdGeom.Tokens.vertex
    if uv is not None:
        count = body.vertices.stop - body.vertices.start
        values = uv_from_corners(faces.ravel(), uv.reshape(-1, 2), count)
        if values is None:
            values, interpolation = uv.reshape(-1, 2)[corners], UsdGeom.Tokens.faceVarying
        primvar = primvars.CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, interpolation)
        primvar.Set(Vt.Vec2fArray.FromNumpy(values.astype(np.float32)))
    for name, value in selection.details(body).attributes.items():
        if value.ndim == 1:
            kind = Sdf.ValueTypeNames.FloatArray
            primvar = primvars.CreatePrimvar(_identifier(name), kind, UsdGeom.Tokens.vertex)
            primvar.Set(Vt.FloatArray.FromNumpy(value.astype(np.float32)))


def _write_materials(stage: Any, mesh: Any, details: Details, rows: NDArray[np.int64], colour: Any) -> None:
    """A material and a subset of the polygons for each name of a material that the mesh had; `rows`: a triangle of each."""
    from pxr import UsdGeom, UsdShade, Vt

    labels = details.labels.get("material")
    if labels is None:
        return
    numbers = labels.index[rows]
    for number, material_name in enumerate(labels.names):
        chosen = np.flatnonzero(numbers == number).astype(np.int32)
        if not len(chosen):
            continue
        plain = _identifier(material_name)
        material = _material(stage, plain, colour)
        material.GetPrim().SetDisplayName(material_name)
        subset = UsdGeom.Subset.CreateGeomSubset(
            UsdGeom.Imageable(mesh.GetPrim()), plain, UsdGeom.Tokens.face, Vt.IntArray.FromNumpy(chosen), "materialBind"
        )
        UsdShade.MaterialBindingAPI.Apply(subset.GetPrim()).Bind(material)


def _write_groups(mesh: Any, details: Details, rows: NDArray[np.int64]) -> None:
    """A subset of the polygons for each panel of a garment, or else for each group."""
    from pxr import UsdGeom, Vt

    kind = next((kind for kind in GROUPS if kind in details.labels), None)
    if kind is None:
        return
    numbers = details.labels[kind].index[rows]
    for number, name in enumerate(details.labels[kind].names):
        chosen = Vt.IntArray.FromNumpy(np.flatnonzero(numbers == number).astype(np.int32))
        shape, plain = UsdGeom.Imageable(mesh.GetPrim()), f"{kind}_{_identifier(name)}"
        subset = UsdGeom.Subset.CreateGeomSubset(shape, plain, UsdGeom.Tokens.face, chosen, kind)
        subset.GetPrim().SetDisplayName(name)


def _identifier(name: str) -> str:
    from pxr import Tf

    return str(Tf.MakeValidIdentifier(name))


def _describe(stage: Any, selection: Selection) -> None:
    """Set units, up axis, time codes and the root prim."""
    from pxr import Kind, Usd, UsdGeom

    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(selection.cache.fps)
    stage.SetFramesPerSecond(selection.cache.fps)
    stage.SetStartTimeCode(min(selection.frames))
    stage.SetEndTimeCode(max(selection.frames))
    root = UsdGeom.Xform.Define(stage, "/World")
    Usd.ModelAPI(root).SetKind(Kind.Tokens.component)
    stage.SetDefaultPrim(root.GetPrim())
    UsdGeom.Scope.Define(stage, "/World/Materials")


def _material(stage: Any, name: str, colour: Any) -> Any:
    """A matt surface of one colour, with this name, or with a number after it where the name is taken."""
    from pxr import Sdf, UsdShade

    number, path = 1, f"/World/Materials/{name}"
    while stage.GetPrimAtPath(path):
        number += 1
        path = f"/World/Materials/{name}_{number}"
    material = UsdShade.Material.Define(stage, path)
    shader = UsdShade.Shader.Define(stage, f"{path}/Surface")
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(colour)
    shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(0.85)
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    return material


def _names(selection: Selection) -> list[str]:
    """A valid USD name for each body, all different and different from that of the materials."""
    from pxr import Tf

    names = ["Materials", "PhysicsScene"]
    for body in selection.bodies:
        plain = Tf.MakeValidIdentifier(body.name)
        number, name = 1, plain
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names.append(name)
    return names[2:]


class _Reader:
    """Reads positions from a written file, frame by frame."""

    def __init__(self, path: Path, selection: Selection) -> None:
        from pxr import Usd, UsdGeom

        self._stage = Usd.Stage.Open(str(path))
        self._frames = selection.frames
        self._points = [UsdGeom.Mesh.Get(self._stage, f"/World/{n}").GetPointsAttr() for n in _names(selection)]

    def __call__(self, k: int) -> Singles:
        points: list[NDArray[np.float32]] = [np.asarray(own.Get(self._frames[k])) for own in self._points]
        return np.concatenate(points)


class Dialect(NamedTuple):
    """The names of one reader."""

    body: str
    sim: str
    materials: tuple[str, ...]
    space: str
    surface: str
    """what stands before the names of the surface material"""
    enabled: str


DIALECTS = {
    "physics": Dialect(
        "PhysicsDeformableBodyAPI",
        "PhysicsSurfaceDeformableSimAPI",
        ("PhysicsMaterialAPI", "PhysicsSurfaceDeformableMaterialAPI"),
        "physics",
        "",
        "bodyEnabled",
    ),
    "omniphysics": Dialect(
        "OmniPhysicsDeformableBodyAPI",
        "OmniPhysicsSurfaceDeformableSimAPI",
        ("PhysicsMaterialAPI", "OmniPhysicsDeformableMaterialAPI", "OmniPhysicsSurfaceDeformableMaterialAPI"),
        "omniphysics",
        "surface",
        "deformableBodyEnabled",
    ),
}


def choose_dialect(name: str) -> Dialect:
    """The dialect of this name."""
    if name not in DIALECTS:
        raise WeftError(f"USD schema {name!r} is not known: use one of {', '.join(DIALECTS)}")
    return DIALECTS[name]


def write_physics_scene(stage: Any, selection: Selection) -> None:
    """The scene's gravity."""
    from pxr import Gf, UsdPhysics

    from weft.cache import scene_of
    from weft.scene import Forces

    scene = scene_of(selection.cache)
    gravity = np.array((Forces() if scene is None else scene.forces).gravity)
    strength = float(np.linalg.norm(gravity))
    direction = gravity / strength if strength else np.array((0.0, -1.0, 0.0))
    physics = UsdPhysics.Scene.Define(stage, "/World/PhysicsScene")
    physics.CreateGravityMagnitudeAttr(strength)
    physics.CreateGravityDirectionAttr(Gf.Vec3f(*direction.tolist()))


def write_deformable(mesh: Any, material: Any, selection: Selection, body: "Body", faces: Ints, name: str) -> None:
    """Describe one body to a simulator: `mesh` and `material` are its prims, `faces` its triangles."""
    from pxr import Sdf, UsdPhysics, UsdShade, Vt

    from weft.cache import scene_of

    dialect, prim = choose_dialect(name), mesh.GetPrim()
    UsdPhysics.CollisionAPI.Apply(prim)
    if body.kind != "cloth":
        UsdPhysics.MeshCollisionAPI.Apply(prim).CreateApproximationAttr(UsdPhysics.Tokens.none)
        return
    for schema in (dialect.body, dialect.sim):
        prim.AddAppliedSchema(schema)
    types = Sdf.ValueTypeNames
    rest = selection.cache.positions(0)[body.vertices].astype(np.float32)
    _set(prim, f"{dialect.space}:{dialect.enabled}", types.Bool, True)
    _set(prim, f"{dialect.space}:restShapePoints", types.Point3fArray, Vt.Vec3fArray.FromNumpy(rest))
    _set(prim, f"{dialect.space}:restTriVtxIndices", types.Int3Array, Vt.Vec3iArray.FromNumpy(faces.astype(np.int32)))
    scene = scene_of(selection.cache)
    cloth = None if scene is None else next((c for c in scene.cloths if c.name == body.name), None)
    if scene is None or cloth is None:
        return
    own, thickness = cloth.material, scene.thickness
    _set(prim, f"{dialect.space}:mass", types.Float, own.density * _area(rest.astype(np.float64), faces))
    for schema in dialect.materials:
        material.GetPrim().AddAppliedSchema(schema)
    numbers = {f"{dialect.space}:density": own.density / thickness}
    numbers |= {"physics:staticFriction": own.friction, "physics:dynamicFriction": own.friction_kinetic}
    named = {"thickness": thickness} | {f"{n}Stiffness": own.mean(n) for n in ("stretch", "shear", "bend")}
    for key, value in named.items():
        full = dialect.surface + key[0].upper() + key[1:] if dialect.surface else key
        numbers[f"{dialect.space}:{full}"] = value
    for key, value in numbers.items():
        _set(material.GetPrim(), key, types.Float, value)
    UsdShade.MaterialBindingAPI(prim).Bind(material, UsdShade.Tokens.weakerThanDescendants, "physics")


def _set(prim: Any, name: str, kind: Any, value: Any) -> None:
    prim.CreateAttribute(name, kind).Set(value)


def _area(x: Floats, faces: Ints) -> float:
    a, b, c = (x[faces[:, k]] for k in range(3))
    return float(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
