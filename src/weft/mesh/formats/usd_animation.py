"""The times at which meshes of a USD file have samples."""

from pathlib import Path
from typing import Any

from weft.errors import MeshError, missing_extra


class UsdTimes:
    """The time codes of a stage at which its meshes or their places are written, and what a second is."""

    def __init__(self, path: Path) -> None:
        try:
            from pxr import Tf, Usd, UsdGeom, UsdSkel
        except ImportError:
            raise missing_extra("usd", "usd-core") from None
        try:
            # kept open: reading samples then finds the layers in memory
            self._stage = Usd.Stage.Open(str(path), Usd.Stage.LoadAll)
        except Tf.ErrorException:
            raise MeshError("it is no USD file that can be opened") from None
        codes: set[float] = set()
        skinned = None
        for prim in Usd.PrimRange(self._stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
            if not prim.IsA(UsdGeom.Mesh):
                continue
            mesh = UsdGeom.Mesh(prim)
            _check_triangles(mesh)
            _check_count(mesh)
            codes.update(mesh.GetPointsAttr().GetTimeSamples())
            skinned = prim.GetPath() if prim.HasAPI(UsdSkel.BindingAPI) else skinned
            while prim and not prim.IsPseudoRoot():
                codes.update(UsdGeom.Xformable(prim).GetTimeSamples() if prim.IsA(UsdGeom.Xformable) else ())
                prim = prim.GetParent()
        if skinned is not None:
            raise MeshError(f"its mesh {skinned} is moved by a skeleton, which weft does not read: bake it to points")
        if not codes:
            raise MeshError("it holds no animation: no mesh in it has time samples")
        self.codes = sorted(codes)
        self.codes_per_second = float(self._stage.GetTimeCodesPerSecond())


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
