"""UsdPhysics' schema of deformable bodies, which is a proposal: written only if asked for (`--usd-schema`).

Cloth becomes a surface deformable with its shape at rest, its mass and its material; colliders get the collision API,
which is part of UsdPhysics already. The proposal's names differ between its readers, so that there are two dialects:
`physics`, as the working group writes it and Newton reads it, and `omniphysics`, as Omniverse, Isaac Sim and PhysX read
it. Neither schema is registered in usd-core, so the names are written as they are.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.errors import WeftError
from weft.exchange.selection import Floats, Ints, Selection

if TYPE_CHECKING:
    from weft.cache import Body


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

    scene = scene_of(selection.cache)
    gravity = np.array((0.0, -9.81, 0.0) if scene is None else scene.forces.gravity)
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
