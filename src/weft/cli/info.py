"""`weft info`: what is in a cache, a scene, a mesh or an animation."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.terminal import count, print_pairs, quoted, size_of

if TYPE_CHECKING:
    from weft.cache import Cache, ForeignResult
    from weft.mesh import TriMesh
    from weft.scene import Cloth, Collider, Scene

# files that may hold frames
ANIMATIONS = (".abc", ".usd", ".usda", ".usdc", ".usdz", ".glb", ".gltf", ".npz", ".pc2", ".mdd")

Pairs = Iterator[tuple[str, str]]


def info(
    path: Annotated[
        Path, typer.Argument(help="A cache, a scene file, a mesh file or an animation, also of another program.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Of a cache: read every frame and test its checksums.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Of a cache: write the report to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Of a cache, a mesh or an animation: print JSON.")] = False,
) -> None:
    """Show what is in a cache, a scene, a mesh or an animation."""
    from weft.errors import WeftError

    if not path.exists():
        raise WeftError(f"{path} does not exist")
    if json:
        if path.suffix == ".toml" or verify or csv:
            raise WeftError(
                "--json is for caches, meshes and animations alone: a scene is TOML, which programs can read"
            )
        from json import dumps

        from weft.cache import open_result

        print(dumps(facts(open_result(path)), indent=1))
        return
    if not path.is_dir() and (verify or csv):
        raise WeftError(f"--verify and --csv are for caches, and {path} is a file")
    from weft.cache import ForeignResult, open_result

    if path.is_dir() or path.suffix.lower() in ANIMATIONS:
        cache = open_result(path)
        if isinstance(cache, ForeignResult):
            if verify or csv:
                raise WeftError(f"--verify and --csv are for caches, and {path} is none")
            print_pairs(describe_foreign(cache))
            return
        print_pairs(describe_cache(cache))
        if csv is not None:
            cache.report.to_csv(csv)
            print(f"the report is written to {csv}")
        if verify:
            verify_cache(cache)
    elif path.suffix == ".toml":
        from weft.scene import load_scene

        print_pairs(describe_scene(load_scene(path)))
    else:
        from weft.mesh import load_mesh

        print_pairs(describe_mesh(load_mesh(path), path))


def facts(cache: "Cache") -> dict[str, Any]:
    """What programs ask of a cache or of a file of another program: format, frames, rate, bodies and extent in metres."""
    from weft.cache import ForeignResult

    bodies = []
    for body in cache.bodies:
        details = cache.details(body)
        vertices, faces = (items.stop - items.start for items in (body.vertices, body.faces))
        own = {"name": body.name, "kind": body.kind, "vertices": vertices, "triangles": faces}
        polygons = faces if details.polygons is None else int(details.polygons.max()) + 1 - int(details.polygons.min())
        own |= {"polygons": polygons, "uv": details.corner_uv is not None, "materials": list(details.names("material"))}
        bodies.append(own | {"attributes": list(details.attributes)})
    x = cache.positions(0) if cache.frames else None
    return {
        "path": str(cache.path),
        "format": cache.about if isinstance(cache, ForeignResult) else "cache",
        "complete": cache.complete,
        "frames": cache.frames,
        "planned": cache.planned,
        "fps": cache.fps,
        "bodies": bodies,
        "extent": None if x is None else {"low": x.min(axis=0).tolist(), "high": x.max(axis=0).tolist()},
    }


def describe_foreign(cache: "ForeignResult") -> Pairs:
    """Format, units, frames, objects and extent of a file of another program."""
    import numpy as np

    yield "file", f"{cache.path}, {size_of(cache.path)}"
    yield "format", cache.about
    if cache.frames > 1:
        yield "frames", f"{cache.frames:,}: {cache.sequence.times[-1]:.4g} s at {cache.fps:.4g} frames/s"
    x = cache.positions(0)
    for body in cache.bodies:
        vertices, faces = (items.stop - items.start for items in (body.vertices, body.faces))
        yield "object", f"{body.name}: {_size(vertices, faces)}"
    low, high = x.min(axis=0), x.max(axis=0)
    yield "extent", f"{_vector(high - low)} m, from {_vector(low)} to {_vector(high)}"
    if cache.frames > 1:
        far = max(float(np.abs(cache.positions(f) - x).max()) for f in (cache.frames // 2, cache.frames - 1))
        yield "motion", f"vertices move by up to {far:.4g} m between the first frame and the middle or the last"
    details = cache.sequence.details
    textured = [body.name for body in cache.bodies if cache.details(body).corner_uv is not None]
    yield "uv", "no" if not textured else "yes" if len(textured) == len(cache.bodies) else f"yes: {', '.join(textured)}"
    if details.names("material"):
        yield "materials", ", ".join(details.names("material"))
    yield "check it", f"weft check {quoted(cache.path)}"


def describe_cache(cache: "Cache") -> Pairs:
    """Frames, bodies, quality and state of a cache."""
    from weft.run.progress import median_wall_time, quality, span

    frames, report = cache.frames, cache.report
    yield "cache", f"{cache.path}, {size_of(cache.path)}, written by weft {cache.meta['version']}"
    length = f"{(frames - 1) / cache.fps:g} s at {cache.fps:g} frames/s" if frames else "nothing yet"
    yield "frames", f"{frames:,} of {cache.planned:,}: {length}"
    if cache.writer:
        yield "state", f"being written by {cache.writer}"
    else:
        yield "state", "complete" if cache.complete else "stopped; continue it with  weft run ... --resume"
    for body in cache.bodies:
        vertices, faces = (items.stop - items.start for items in (body.vertices, body.faces))
        yield body.kind, f"{body.name}: {_size(vertices, faces)}"
    if cache.meta["scene"] is not None:
        scene = cache.scene
        yield "scene", scene.name + (f" ({scene.source})" if scene.source else "")
        yield "method", f"{scene.method.name} on {scene.device}"
    if frames > 1:
        median = median_wall_time(report)
        total = span(float(sum(report["wall_time"]))) if "wall_time" in report else "?"
        yield "time", f"{total} in all" + (f", median {span(median)} a frame" if median is not None else "")
    if frames:
        for i, line in enumerate(quality(report)):
            yield "" if i else "quality", line


def verify_cache(cache: "Cache") -> None:
    """Raise an error that lists all damaged files, if there are any."""
    from weft.errors import CacheError

    problems = cache.verify()
    if problems:
        if cache.damaged():
            problems.append(f"compute the damaged frames again with  weft check {quoted(cache.path)} --repair")
        raise CacheError("\n".join(problems))
    print(f"all {count(cache.frames, 'frame')} can be read and fit their checksums")


def describe_scene(scene: "Scene") -> Pairs:
    """Bodies, forces and method of a scene."""
    from weft.scene.resolve import resolve_scene

    resolved = resolve_scene(scene)
    yield "scene", scene.name + (f" ({scene.source})" if scene.source else "")
    yield "frames", f"{scene.frames:,}: {scene.frames / scene.fps:g} s at {scene.fps:g} frames/s"
    options = ", ".join(f"{k} = {v}" for k, v in scene.method.model_dump(exclude_defaults=True).items() if k != "name")
    yield "method", f"{scene.method.name} on {scene.device}" + (f" ({options})" if options else "")
    for cloth, mesh, pins in zip(scene.cloths, resolved.cloth_meshes, resolved.pins, strict=True):
        held = len({int(v) for pin in pins for v in pin.vertices})
        made = f"{cloth.material.preset}, {cloth.material.density * float(mesh.rest_areas.sum()):.3g} kg"
        yield "cloth", f"{_source(cloth)}: {_mesh_size(mesh)}, {made}" + (f", {held:,} pinned" if held else "")
    for collider, mesh in zip(scene.colliders, resolved.collider_meshes, strict=True):
        yield "collider", f"{_source(collider)}: {_mesh_size(mesh)}, motion {collider.motion.kind}"
    for sewn in resolved.seams:
        yield "seam", count(len(sewn.vertices), "stitch", "stitches")
    forces = scene.forces
    yield "gravity", f"{_vector(forces.gravity)} m/s^2"
    if forces.wind is not None:
        gusts = f", gusts of {100 * forces.wind.gust:g} %" if forces.wind.gust else ""
        yield "wind", f"{_vector(forces.wind.velocity)} m/s{gusts}"
    yield "thickness", f"{1000 * scene.thickness:g} mm"
    if scene.source:
        yield "run it", f"weft run {quoted(scene.source)}"


def describe_mesh(mesh: "TriMesh", path: Path) -> Pairs:
    """Size, components and edge lengths of a mesh."""
    import numpy as np

    yield "mesh", f"{path}, {size_of(path)}"
    yield "size", f"{_mesh_size(mesh)}, {count(len(mesh.edges), 'edge')}"
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    yield "extent", f"{_vector(high - low)} m, from {_vector(low)} to {_vector(high)}"
    pieces = int(mesh.components.max()) + 1
    loops = len(mesh.boundary_loops)
    yield "pieces", f"{pieces}, " + (f"with {count(loops, 'boundary loop')}" if loops else "closed")
    if len(mesh.torn_edges):
        yield (
            "torn",
            f"{count(len(mesh.torn_edges), 'edge')} where triangles meet that share no vertices; repair joins them",
        )
    yield "area", f"{float(mesh.face_areas.sum()):.4g} m^2"
    lengths = mesh.edge_lengths
    yield "edges", f"{lengths.min():.3g} to {lengths.max():.3g} m long, median {float(np.median(lengths)):.3g} m"
    yield "uv", _texture(mesh)
    for kind in ("object", "group", "panel", "material"):
        names = mesh.names(kind)
        if names:
            yield f"{kind}s", ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    if mesh.details.polygons is not None:
        sizes = np.unique(np.unique(mesh.details.polygons, return_counts=True)[1] + 2, return_counts=True)
        yield "polygons", ", ".join(f"{number:,} of {size} corners" for size, number in zip(*sizes, strict=True))
    if mesh.attributes:
        yield "attributes", ", ".join(mesh.attributes)


def _texture(mesh: "TriMesh") -> str:
    """Whether a mesh has texture coordinates, and whether they can be a flat rest shape."""
    if mesh.uv is not None:
        return 'yes, one a vertex: rest = "uv" takes them as flat panels in metres'
    if mesh.corner_uv is None:
        return "no"
    return 'yes, with seams: exports keep them; rest = "uv" takes them as flat panels in metres, sewn along the seams'


def _source(body: "Cloth | Collider") -> str:
    if body.shape is not None:
        return f"{body.name}, a {body.shape.kind}"
    if isinstance(body.mesh, str):
        return f"{body.name}, {body.mesh}" + (f" ({body.object})" if body.object else "")
    return f"{body.name}, arrays" if body.mesh is not None else body.name


def _mesh_size(mesh: "TriMesh") -> str:
    return _size(len(mesh.vertices), len(mesh.faces))


def _size(vertices: int, faces: int) -> str:
    return f"{count(vertices, 'vertex', 'vertices')}, {count(faces, 'triangle')}"


def _vector(values: object) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in values) + ")"  # type: ignore[attr-defined]
