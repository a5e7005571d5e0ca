"""`weft dress`: sews garments on a body, lets them settle, and checks them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.dressing import Dressed


def dress(
    patterns: Annotated[
        str,
        typer.Argument(
            help="A sewing pattern (GarmentCode, .json), or several with commas between, the innermost first.",
            show_default=False,
        ),
    ],
    body: Annotated[Path, typer.Argument(help="The body: a mesh file in metres, y up.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The cache to write, .zarr.", show_default=False)],
    edge: Annotated[float, typer.Option(help="Length of the edges of triangles, in metres.")] = 0.01,
    material: Annotated[str, typer.Option(help="The preset of all garments: cotton, silk, denim, ...")] = "cotton",
    thickness: Annotated[float, typer.Option(help="What layers keep apart, in metres.", min=1e-5)] = 0.002,
    settle: Annotated[float, typer.Option(help="How long gravity acts, in seconds.", min=0.0)] = 1.0,
    onto: Annotated[
        Path | None, typer.Option(help="Another body, which wears the garments in the end.", show_default=False)
    ] = None,
    motion: Annotated[
        Path | None,
        typer.Option(help="An animation of the body (npz, glb, usd, folder) to go on with.", show_default=False),
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Samples a second of the animation.", show_default="its own")
    ] = None,
    blend: Annotated[
        float, typer.Option(help="From the pose of the body to the first one of the animation, in seconds.", min=0.0)
    ] = 1.0,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            help="The label of edges that stay where they are on the body, lower_interface for a waistband; can be "
            "given again.",
            show_default=False,
        ),
    ] = None,
    tension: Annotated[
        list[str] | None,
        typer.Option(
            help="Elastic: a label of edges and how many times as long as cut these are at rest, lower_interface=0.9; can be "
            "given again.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="The method that sews and drapes.")] = "guarded",
    pictures: Annotated[bool, typer.Option(help="Draw the dressed body, its strain and the pressure on it.")] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Sew garments on a body, let them settle, check them, and write a scene to go on with.

    Beside the cache dressed.zarr appear dressed.toml, a scene that starts with the dressed body, and the folder dressed
    with the meshes of the garments, a report of how they fit, and pictures. The exit code is 1 if a seam stayed
    open or something crosses.
    """
    from weft.cli.terminal import progress_bar
    from weft.dressing import dress as dress_body
    from weft.dressing.report import draw_fit, write_report

    names = [name.strip() for name in patterns.split(",") if name.strip()]
    if onto is not None and motion is not None:
        raise WeftError("give --onto or --motion, not both: dress the other body with its own animation")
    with progress_bar("dressing") as bar:
        dressed = dress_body(
            names,
            body,
            out,
            edge=edge,
            material=material,
            thickness=thickness,
            settle=settle,
            onto=onto,
            motion=motion,
            fps=fps,
            blend=blend,
            attach=attach or (),
            tension=_tension(tension or []),
            method=method,
            overwrite=overwrite,
            progress=lambda _, done, total: bar(done, total),
        )
    folder = out.with_suffix("")
    write_report(dressed, folder / "fit.json")
    drawn = draw_fit(dressed, folder) if pictures else []
    _show(dressed, out, folder, drawn)
    raise typer.Exit(0 if dressed.ok else 1)


def _tension(given: list[str]) -> dict[str, float]:
    """The length at rest by the label of edges."""
    found = {}
    for text in given:
        label, _, fraction = text.partition("=")
        try:
            found[label] = float(fraction)
        except ValueError:
            raise WeftError(f"--tension {text}: write a label and a fraction, lower_interface=0.9") from None
    return found


def _show(dressed: "Dressed", out: Path, folder: Path, pictures: list[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in ("panel", "mean strain", "95 % below", "largest"):
        table.add_column(title, justify="left" if title == "panel" else "right")
    for fit in dressed.fits:
        for panel in fit.panels:
            name = panel.name if len(dressed.fits) == 1 else f"{fit.name}: {panel.name}"
            table.add_row(name, f"{panel.mean:.1f} %", f"{panel.most:.1f} %", f"{panel.largest:.1f} %")
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    pressure = max(float(fit.pressure.max()) for fit in dressed.fits)
    console.print(f"largest pressure on the body: {pressure:.0f} Pa")
    found = dressed.crossings
    if found.free:
        console.print("[green]free[/]: nothing crosses, neither cloth nor body")
    else:
        console.print(f"[red]{found.cloth} crossings of cloth with cloth, {found.body} with the body[/]")
    for remark in dressed.remarks:
        console.print(f"[red]{remark}[/]")
    written = [out, dressed.scene, folder / "fit.json", *pictures]
    console.print("written: " + ", ".join(str(path) for path in written))
