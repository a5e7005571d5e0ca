"""`weft garment`: reads a sewing pattern, checks it, draws it, and cuts it into triangles."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.garment import Pattern


def garment(
    pattern: Annotated[
        Path, typer.Argument(help="A sewing pattern: a GarmentCode specification (.json).", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A drawing (.svg, .png, .pdf), or the panels as a mesh (.obj, .ply), or with their stitches (.npz).",
            show_default=False,
        ),
    ] = None,
    edge: Annotated[
        float | None,
        typer.Option(help="Length of the edges of triangles, in metres. A drawing shows them.", show_default="0.01"),
    ] = None,
    welded: Annotated[
        bool, typer.Option("--welded", help="Write the mesh with its seams joined, instead of separate panels.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Check a sewing pattern, draw it, or cut it into triangles.

    Without --out only the panels and seams are listed.
    """
    from weft.garment import cut_pattern, load_pattern
    from weft.garment.drawing import DRAWING_FORMATS, draw_pattern
    from weft.garment.files import GARMENT_FORMATS, save_garment

    known = (*DRAWING_FORMATS, *GARMENT_FORMATS)
    if out is not None and out.suffix.lower() not in known:
        raise WeftError(f"--out {out}: weft writes patterns to {', '.join(known)} files")
    if out is not None and out.exists() and not overwrite:
        raise WeftError(f"{out} exists already: choose another name, or replace it with --overwrite")
    read = load_pattern(pattern)
    if out is None:
        _list(read)
    elif out.suffix.lower() in DRAWING_FORMATS:
        draw_pattern(read, out, cut=None if edge is None else cut_pattern(read, edge))
        print(f"written: {out}")
    else:
        cut = cut_pattern(read, 0.01 if edge is None else edge)
        save_garment(cut, out, welded=welded)
        print(f"{len(cut.faces)} triangles, smallest angle {cut.smallest_angle:.0f} degrees; written: {out}")


def _list(pattern: "Pattern") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title, justify in (("panel", "left"), ("edges", "right"), ("area, m²", "right"), ("sewn to", "left")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for panel in pattern.panels:
        others = [
            other.panel
            for seam in pattern.seams
            for one, other in ((seam.one, seam.other), (seam.other, seam.one))
            if one.panel == panel.name
        ]
        joined = ", ".join("itself (dart)" if name == panel.name else name for name in dict.fromkeys(others))
        table.add_row(panel.name, str(len(panel.edges)), f"{abs(panel.area):.3f}", joined or "nothing")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    labels = f"; labels of edges: {', '.join(pattern.labels)}" if pattern.labels else ""
    console.print(f"{pattern.name}: {len(pattern.panels)} panels, {len(pattern.seams)} seams{labels}")
