"""`weft untangle`: moves a tangled mesh until nothing intersects."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.mesh import TriMesh
    from weft.untangling import Round, UntangleResult

# a table with more rounds than this shows every second, third, ... round
LINES = 24


def untangle(
    tangled: Annotated[
        Path, typer.Argument(help="A mesh file (obj, ply, npz, usd, gltf, stl), or a cache.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The mesh to write: .obj, .ply or .npz.", show_default=False)
    ],
    rest: Annotated[
        Path | None,
        typer.Option(help="A mesh with the same vertices as they lie at rest, flat for example.", show_default=False),
    ] = None,
    uv: Annotated[
        bool, typer.Option("--uv", help="The uv of the mesh are its shape at rest, in metres, not only for textures.")
    ] = False,
    seams: Annotated[
        Path | None,
        typer.Option(help="An npz file with stitch_vertices, as in scenes. A cache knows its own.", show_default=False),
    ] = None,
    collider: Annotated[
        list[Path] | None,
        typer.Option(help="A mesh that stays where it is, and that the other one is moved out of.", show_default=False),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Objects or groups of the mesh, cloths of a cache, from the inner to the outer one: shirt,jacket. "
            "Where two cross, the outer one goes to the outside: the front of its triangles.",
            show_default=False,
        ),
    ] = None,
    frame: Annotated[
        int | None, typer.Option(help="The frame of a cache; negative counts from the last.", show_default="last")
    ] = None,
    array: Annotated[
        str | None, typer.Option(help="The array of an npz file that has the positions.", show_default="vertices")
    ] = None,
    thickness: Annotated[
        float, typer.Option(help="Gap to open between layers, in metres, where there is room.", min=0.0)
    ] = 0.0,
    rounds: Annotated[int | None, typer.Option(help="Stop after so many rounds.", show_default="600", min=0)] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair the mesh and colliders first, if they are not manifold.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Move a tangled mesh, as little as possible, until no edge passes through a triangle.

    The exit code is 1 if some intersections remain; the best result is written nevertheless. For a cache, all cloths
    of a frame are untangled together; its colliders are left out. UVs, names and polygons of a mesh are kept.
    """
    from weft.mesh import TriMesh, load_mesh, save_mesh
    from weft.mesh.files import WRITABLE
    from weft.untangling import untangle as untangle_mesh
    from weft.untangling.untangler import MAX_ROUNDS

    if out.suffix.lower() not in WRITABLE:
        raise WeftError(f"--out {out}: weft writes meshes to {', '.join(WRITABLE)} files")
    if out.exists() and not overwrite:
        raise WeftError(f"{out} exists already: choose another name, or replace it with --overwrite")
    mesh, relaxed, stitches = _read(tangled, frame=frame, array=array, repair=repair, uv=uv)
    if rest is not None:
        if uv:
            raise WeftError("give --rest or --uv, not both: they are two ways to say the shape at rest")
        relaxed = {"rest": _rest_vertices(rest, mesh)}
    if seams is not None:
        stitches = _stitches(seams)
    colliders = [load_mesh(path, repair=repair) for path in collider or ()]
    ordered = [] if layers is None else _layers(layers, mesh)
    with _Status() as status:
        result = untangle_mesh(
            mesh.vertices,
            mesh.faces,
            seams=stitches,
            colliders=colliders,
            layers=ordered,
            thickness=thickness,
            max_rounds=MAX_ROUNDS if rounds is None else rounds,
            progress=status.show,
            **relaxed,
        )
    save_mesh(TriMesh.with_vertices(mesh, result.vertices), out)
    _show(result, out)
    if not result.free:
        _show_where(
            result, [(tangled.name, mesh), *((p.name, m) for p, m in zip(collider or (), colliders, strict=True))]
        )
    raise typer.Exit(0 if result.free else 1)


def _read(
    path: Path, *, frame: int | None, array: str | None, repair: bool, uv: bool
) -> tuple["TriMesh", dict[str, Any], Any]:
    """The mesh, the arguments for its rest shape, and its stitches."""
    if path.is_dir():
        if array is not None or repair:
            raise WeftError(f"{path} is a cache: --array and --repair are for mesh files")
        return _read_cache(path, -1 if frame is None else frame, uv=uv)
    if frame is not None:
        raise WeftError(f"--frame {frame}: {path} is no cache; give the frame of a cache folder")
    from weft.mesh import load_mesh

    mesh = load_mesh(path, array=array, repair=repair)
    if uv and mesh.uv is None:
        raise WeftError(f"--uv: {path} has no uv, or not one a vertex; give --rest with a mesh at rest")
    return mesh, {"uv": mesh.uv} if uv else {}, None


def _read_cache(path: Path, frame: int, *, uv: bool) -> tuple["TriMesh", dict[str, Any], Any]:
    """All cloths of a frame as one mesh."""
    import numpy as np

    from weft.cache import open_cache
    from weft.cache.seams import stitches_of
    from weft.mesh import TriMesh

    cache = open_cache(path)
    if not -cache.frames <= frame < cache.frames:
        raise WeftError(f"--frame {frame}: {path} has {cache.frames} complete frames")
    cloths = [body for body in cache.bodies if body.kind == "cloth"]
    if not cloths:
        raise WeftError(f"{path} has no cloth")
    kept = np.concatenate([np.arange(body.vertices.start, body.vertices.stop) for body in cloths])
    number = np.full(max(body.vertices.stop for body in cache.bodies), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    faces = np.concatenate([cache.faces[body.faces] for body in cloths])
    flat = None if cache.uv is None else cache.uv[kept]
    if uv and (flat is None or not np.isfinite(flat).all()):
        raise WeftError(f"--uv: not every cloth of {path} has a flat rest shape; give --rest with a mesh at rest")
    names = [body.name for body in cloths for _ in range(*body.faces.indices(len(cache.faces)))]
    start = TriMesh(cache.positions(0)[kept], number[faces], flat if uv else None, labels={"object": names})
    stitches = number[stitches_of(cache)]
    if len(stitches) and cache.origin.get("finish", {}).get("total", 0):
        raise WeftError(f"{path} is subdivided and has seams: untangle a frame of the cache that it was made of")
    return start.with_vertices(cache.positions(frame % cache.frames)[kept]), {"uv": flat} if uv else {}, stitches


def _rest_vertices(path: Path, mesh: "TriMesh") -> Any:
    from weft.mesh.files import read_mesh

    read = read_mesh(path)
    if len(read.vertices) != len(mesh.vertices):
        raise WeftError(
            f"--rest {path} has {len(read.vertices)} vertices, the tangled mesh has {len(mesh.vertices)}: "
            "both must be the same mesh, with the same vertices in the same order"
        )
    return read.vertices


def _layers(names: str, mesh: "TriMesh") -> list[Any]:
    """The vertices of each layer."""
    try:
        return [mesh.vertices_of(name.strip()) for name in names.split(",")]
    except WeftError as error:
        raise WeftError(f"--layers {names}: {error}") from None


def _stitches(path: Path) -> Any:
    from weft.mesh.files import read_arrays

    return read_arrays(path, ("stitch_vertices",))["stitch_vertices"]


class _Status:
    """A status line on stderr while the command runs."""

    def __init__(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        self._status = console.status("looking for intersections") if console.is_terminal else None

    def __enter__(self) -> "_Status":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, now: "Round") -> None:
        if self._status is not None:
            settling = "settling" if now.number and not now.intersections else f"{now.intersections} intersections"
            self._status.update(f"round {now.number}: {settling}")


def _show(result: "UntangleResult", out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in ("round", "intersections", "paths", "closed", "open", "loop"):
        table.add_column(title, justify="right")
    # the last round is always shown
    every = -(-len(result.rounds) // LINES)
    for now in result.rounds:
        if now.number % every == 0 or now is result.rounds[-1]:
            numbers = (now.number, now.intersections, now.paths, now.closed, now.open, now.loop)
            table.add_row(*map(str, numbers), style=None if now.intersections else "green")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(result.describe())
    low, high = result.strain
    console.print(f"edges are between {1.0 + low:.2f} and {1.0 + high:.2f} of the lengths aimed at")
    verdict = "[green]free[/]" if result.free else f"[red]{len(result.intersections)} intersections remain[/]; best"
    console.print(f"{verdict}: {out}")


def _show_where(result: "UntangleResult", meshes: list[tuple[str, "TriMesh"]]) -> None:
    """A line for the mesh and each collider that intersections are left with: how many, and where the first is."""
    import numpy as np

    # vertices are numbered through all meshes; an intersection belongs to the later mesh of its edge and its triangle
    edge, face = result.intersections[:, :2], result.intersections[:, 2]
    x = np.concatenate([result.vertices, *(mesh.vertices for _, mesh in meshes[1:])])
    vertices = np.cumsum([len(mesh.vertices) for _, mesh in meshes])
    faces = np.cumsum([len(mesh.faces) for _, mesh in meshes])
    owner = np.maximum(np.searchsorted(vertices, edge[:, 0], "right"), np.searchsorted(faces, face, "right"))
    for number, (name, _) in enumerate(meshes):
        rows = edge[owner == number]
        if len(rows):
            place = ", ".join(f"{value:.3f}" for value in x[rows[0]].mean(axis=0))
            print(f"  {len(rows)} with {'itself' if number == 0 else name}, the first near ({place})")
