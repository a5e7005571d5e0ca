"""USD meshes, still or animated (.usd, .usda, .usdc, .usdz), converted to metres and y up.

A damaged binary file can make USD's own library crash or take all memory. So a process of its own, with limits, reads a
file first (`probe`: this module as a program); only what it could read is read here.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import MeshError, WeftWarning, missing_extra
from weft.mesh.details import GROUPS, Labels
from weft.mesh.formats.probe import answer, probe
from weft.mesh.formats.raw import (
    RawMesh,
    concatenate,
    cut_polygons,
    place,
    turned,
)
from weft.mesh.validate import Floats, list_first


def read_usd(path: Path) -> RawMesh:
    """Every visible mesh at the first time of the stage, in the order of the stage, as one."""
    stage = open_stage(path)
    mesh = read_stage(stage)
    others = _other_shapes(stage)
    if others:
        text = (
            f"{path}: left out, since weft reads meshes only: {list_first(others)}. Make them meshes to have them too"
        )
        warnings.warn(text, WeftWarning, stacklevel=4)
    return mesh


def _probe_main(path: Path) -> dict[str, Any]:
    """Read all of a file; in the process that `probe` starts."""
    from pxr import Usd, UsdGeom

    try:
        stage = _open(path)
        layers = [layer.realPath.partition("[")[0] for layer in stage.GetUsedLayers() if layer.realPath]
        outside = [layer for layer in layers if not Path(layer).is_relative_to(path.parent)]
        if outside:
            return {"error": f"its layer {outside[0]!r} does not lie in its folder"}
        read_stage(stage)
        for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
            for attribute in prim.GetAttributes() if prim.IsA(UsdGeom.Mesh) else ():
                for code in attribute.GetTimeSamples():
                    attribute.Get(code)
    except MeshError:
        raise
    except Exception as error:
        return {"error": f"it is damaged ({_reason(error)})"}
    return {"layers": sorted(set(layers))}


def usd_layers(path: Path) -> list[Path]:
    """The files of all layers of a USD file; an error if it cannot be read (`probe`)."""
    return probe(path, "weft.mesh.formats.usd")


def open_stage(path: Path) -> Any:
    """The stage of a file that could be probed; skeletal animation is baked to points, one sample a pose."""
    try:
        from pxr import Usd
    except ImportError:
        raise missing_extra("usd", "usd-core") from None
    assert Usd
    usd_layers(path)
    return _open(path)


def _open(path: Path) -> Any:
    from pxr import Gf, Tf, Usd, UsdSkel

    try:
        stage = Usd.Stage.Open(str(path), Usd.Stage.LoadAll)
        if any(prim.IsA(UsdSkel.Root) for prim in stage.Traverse()):
            # what baking writes stays in memory
            stage.SetEditTarget(stage.GetSessionLayer())
            UsdSkel.BakeSkinning(stage.Traverse(), Gf.Interval.GetFullInterval())
    except Tf.ErrorException as error:
        raise MeshError(f"it is no USD file that can be opened ({_reason(error)})") from None
    return stage


def read_stage(stage: Any, time: float | None = None) -> RawMesh:
    """Every visible mesh of an open stage at a time code, as one; None: the value without time, or the first sample."""
    from pxr import Usd, UsdGeom

    code = Usd.TimeCode.EarliestTime() if time is None else Usd.TimeCode(time)
    cache = UsdGeom.XformCache(code)
    to_metres = _to_metres(stage)
    meshes: list[RawMesh] = []
    paths: list[str] = []
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
        if not prim.IsA(UsdGeom.Mesh):
            continue
        shown = UsdGeom.Imageable(prim)
        if shown.ComputeVisibility(code) == UsdGeom.Tokens.invisible or shown.ComputePurpose() == UsdGeom.Tokens.guide:
            continue
        # USD multiplies rows from the left
        matrix = to_metres @ np.array(cache.GetLocalToWorldTransform(prim)).T
        meshes.append(_read_prim(UsdGeom.Mesh(prim), code, matrix))
        paths.append(str(prim.GetPath()))
    return concatenate(_own_names(meshes, paths))


def _own_names(meshes: list[RawMesh], paths: list[str]) -> list[RawMesh]:
    """Meshes of the same name as another one are called by their paths."""
    names = [path.rpartition("/")[2] for path in paths]
    return [
        mesh if names.count(name) == 1 else mesh._replace(details=mesh.details.named("object", path, len(mesh.faces)))
        for mesh, name, path in zip(meshes, names, paths, strict=True)
    ]


def _other_shapes(stage: Any) -> list[str]:
    """Visible geometry that is no mesh: spheres, cubes, curves, points."""
    from pxr import Usd, UsdGeom

    code = Usd.TimeCode.EarliestTime()
    return [
        f"{prim.GetTypeName()} {prim.GetPath()}"
        for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies())
        if prim.IsA(UsdGeom.Gprim)
        and not prim.IsA(UsdGeom.Mesh)
        and UsdGeom.Imageable(prim).ComputeVisibility(code) != UsdGeom.Tokens.invisible
        and UsdGeom.Imageable(prim).ComputePurpose() != UsdGeom.Tokens.guide
    ]


def _to_metres(stage: Any) -> Floats:
    """The matrix from the stage's units and up axis to metres and y up."""
    from pxr import UsdGeom

    scale = UsdGeom.GetStageMetersPerUnit(stage)
    if not scale > 0.0:
        raise MeshError(f"its metersPerUnit is {scale}")
    if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z:
        return np.array([[scale, 0, 0, 0], [0, 0, scale, 0], [0, -scale, 0, 0], [0, 0, 0, 1]])
    return np.diag([scale, scale, scale, 1.0])


def _read_prim(mesh: Any, code: Any, matrix: Floats) -> RawMesh:
    from pxr import UsdGeom

    name = mesh.GetPath()
    points = np.array(mesh.GetPointsAttr().Get(code) or (), dtype=np.float64).reshape(-1, 3)
    sizes = np.array(mesh.GetFaceVertexCountsAttr().Get(code) or (), dtype=np.int64)
    corners = np.array(mesh.GetFaceVertexIndicesAttr().Get(code) or (), dtype=np.int64)
    if len(points) == 0 or len(sizes) == 0:
        raise MeshError(f"its mesh {name} is empty")
    if (sizes < 3).any() or sizes.sum() != len(corners) or corners.min() < 0 or corners.max() >= len(points):
        raise MeshError(f"its mesh {name} has faces that do not fit its points")
    primvars = UsdGeom.PrimvarsAPI(mesh)
    uv = _at_corners(_texture(primvars), code, corners, len(points), 2)
    normals = _at_corners(primvars.GetPrimvar("normals"), code, corners, len(points), 3)
    if normals is None:
        own = mesh.GetNormalsAttr().Get(code)
        values = None if own is None else np.array(own, dtype=np.float64)
        normals = _spread(values, mesh.GetNormalsInterpolation(), corners, len(points), 3)
    raw = cut_polygons(points, sizes, corners, uv, normals)
    labels = {"object": Labels((mesh.GetPrim().GetName(),), np.zeros(len(raw.faces), dtype=np.int32))}
    materials = _materials(mesh, code, len(sizes))
    if materials is not None:
        owner = np.repeat(np.arange(len(sizes)), sizes - 2)
        labels["material"] = Labels(materials.names, materials.index[owner])
    details = replace(raw.details, labels=labels, attributes=_attributes(primvars, code, len(points)))
    raw = raw._replace(details=details)
    if mesh.GetOrientationAttr().Get(code) == UsdGeom.Tokens.leftHanded:
        raw = turned(raw)
    return place(raw, matrix)


def _texture(primvars: Any) -> Any:
    """The texture coordinates: `st`, else the first primvar of that type, as programs write that keep the names of UV maps."""
    from pxr import Sdf

    found = primvars.GetPrimvar("st")
    if found and found.HasValue():
        return found
    kinds = (Sdf.ValueTypeNames.TexCoord2fArray, Sdf.ValueTypeNames.TexCoord2dArray, Sdf.ValueTypeNames.TexCoord2hArray)
    others = [primvar for primvar in primvars.GetPrimvarsWithValues() if primvar.GetTypeName() in kinds]
    return others[0] if others else found


def _at_corners(primvar: Any, code: Any, corners: Any, vertex_count: int, columns: int) -> Floats | None:
    """(corners, columns) the values of a primvar, which has one a vertex or one a corner; None where it has none."""
    values = primvar.ComputeFlattened(code) if primvar and primvar.HasValue() else None
    if values is None:
        return None
    array = np.array(values, dtype=np.float64).reshape(len(values), -1)[:, :columns]
    return _spread(array, primvar.GetInterpolation(), corners, vertex_count, columns)


def _spread(values: Floats | None, interpolation: str, corners: Any, vertex_count: int, columns: int) -> Floats | None:
    from pxr import UsdGeom

    if values is None:
        return None
    if interpolation in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying) and values.shape == (vertex_count, columns):
        return np.asarray(values[corners])
    if interpolation == UsdGeom.Tokens.faceVarying and values.shape == (len(corners), columns):
        return values
    return None


def _attributes(primvars: Any, code: Any, vertex_count: int) -> dict[str, Floats]:
    """All numbers with one value a vertex, by their names: vertex groups, painted values, colours."""
    from pxr import UsdGeom

    found = {}
    for primvar in primvars.GetPrimvarsWithValues():
        name = primvar.GetPrimvarName()
        if primvar.GetInterpolation() not in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying) or name in (
            "st",
            "normals",
        ):
            continue
        values = np.array(primvar.ComputeFlattened(code))
        good = values.dtype.kind in "fiub" and values.ndim in (1, 2) and len(values) == vertex_count
        if good and np.isfinite(values).all():
            found["colour" if name == "displayColor" else name] = values.astype(np.float64)
    return found


def _materials(mesh: Any, code: Any, polygon_count: int) -> Labels | None:
    """The name of the material of each polygon: that of its subset, else that of the mesh; None where there is none."""
    from pxr import UsdGeom, UsdShade

    names: list[str] = []
    index = np.full(polygon_count, -1, dtype=np.int32)
    subsets = UsdGeom.Subset.GetAllGeomSubsets(UsdGeom.Imageable(mesh.GetPrim()))
    parts: list[tuple[Any, Any]] = [(mesh.GetPrim(), slice(None))]
    parts += [(subset.GetPrim(), np.array(subset.GetIndicesAttr().Get(code) or (), np.int64)) for subset in subsets]
    for prim, rows in parts:
        # subsets of other families, such as panels, would inherit the material of the whole mesh
        family = UsdGeom.Subset(prim).GetFamilyNameAttr().Get() if prim.IsA(UsdGeom.Subset) else None
        if family in GROUPS:
            continue
        material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
        inside = isinstance(rows, slice) or not len(rows) or 0 <= rows.min() <= rows.max() < polygon_count
        if material and inside:
            name = material.GetPrim().GetName()
            if name not in names:
                names.append(name)
            index[rows] = names.index(name)
    return Labels(tuple(names), index) if names else None


def _reason(error: Exception) -> str:
    """The message of USD without the place in its own source code."""
    return " ".join(str(error).split()).rpartition(" : '")[2].rstrip("'")[:160] or type(error).__name__


def units_of(stage: Any) -> str:
    """The unit and the up axis of a stage, in words."""
    from pxr import UsdGeom

    return f"{UsdGeom.GetStageMetersPerUnit(stage):g} m a unit, {str(UsdGeom.GetStageUpAxis(stage)).lower()} up"


class UsdTimes:
    """The time codes at which the meshes of a stage or their transforms have samples, and the codes per second."""

    def __init__(self, path: Path) -> None:
        self.stage = open_stage(path)
        from pxr import Usd, UsdGeom

        codes: set[float] = set()
        for prim in Usd.PrimRange(self.stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
            if not prim.IsA(UsdGeom.Mesh):
                continue
            mesh = UsdGeom.Mesh(prim)
            _check_triangles(mesh)
            _check_count(mesh)
            codes.update(mesh.GetPointsAttr().GetTimeSamples())
            while prim and not prim.IsPseudoRoot():
                codes.update(UsdGeom.Xformable(prim).GetTimeSamples() if prim.IsA(UsdGeom.Xformable) else ())
                prim = prim.GetParent()
        if not codes:
            raise MeshError("it holds no animation: no mesh in it has time samples")
        self.codes = sorted(codes)
        self.codes_per_second = float(self.stage.GetTimeCodesPerSecond())
        self.units = units_of(self.stage)


def _check_triangles(mesh: Any) -> None:
    """Refuse a mesh whose triangles change over time."""
    for attribute in (mesh.GetFaceVertexIndicesAttr(), mesh.GetFaceVertexCountsAttr()):
        samples = attribute.GetTimeSamples()
        if not samples:
            continue
        first = attribute.Get(samples[0])
        changed = next((code for code in samples[1:] if attribute.Get(code) != first), None)
        if changed is not None:
            raise MeshError(
                f"the triangles of its mesh {mesh.GetPath()} change at the time code {changed:g}; a sequence keeps its "
                "triangles"
            )


def _check_count(mesh: Any) -> None:
    """Refuse a mesh whose number of points changes over time."""
    attribute = mesh.GetPointsAttr()
    samples = attribute.GetTimeSamples()
    counts = [len(attribute.Get(code) or ()) for code in samples]
    changed = next((i for i, count in enumerate(counts) if count != counts[0]), None)
    if changed is not None:
        raise MeshError(
            f"its mesh {mesh.GetPath()} has {counts[0]} points at first and {counts[changed]} at the time code "
            f"{samples[changed]:g}; a sequence keeps its vertices"
        )


if __name__ == "__main__":
    from pxr import Usd, UsdGeom, UsdSkel

    # imported before the limit on memory
    assert Usd and UsdGeom and UsdSkel
    answer(_probe_main)
