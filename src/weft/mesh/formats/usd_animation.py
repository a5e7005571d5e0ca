"""The times at which meshes of a USD file have samples."""

from pathlib import Path
from typing import Any

from weft.errors import MeshError
from weft.mesh.formats.usd import open_stage


class UsdTimes:
    """The time codes of a stage at which its meshes or their places are written, and what a second is."""

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


def _check_triangles(mesh: Any) -> None:
    """Faces that are written at several times must be the same at all of them."""
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
    """There must be as many points at all times."""
    attribute = mesh.GetPointsAttr()
    samples = attribute.GetTimeSamples()
    counts = [len(attribute.Get(code) or ()) for code in samples]
    changed = next((i for i, count in enumerate(counts) if count != counts[0]), None)
    if changed is not None:
        raise MeshError(
            f"its mesh {mesh.GetPath()} has {counts[0]} points at first and {counts[changed]} at the time code "
            f"{samples[changed]:g}; a sequence keeps its vertices"
        )
