"""`weft wedge`: runs of a scene with varied keys."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.farm.sweeps import Combination
    from weft.farm.wedging import Outcome

# at most so many failed runs are listed
LINES = 8


def wedge(
    scene: Annotated[Path | None, typer.Argument(help="A scene file.", show_default=False)] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A key and its values: seed=1..20 or method=robust,push; can be given again.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            help="latin:N, a Latin hypercube of N runs instead of all combinations; --set key=low:high is an interval.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option("--list", help="A CSV or TOML file that lists the runs, instead of --set.", show_default=False),
    ] = None,
    patterns: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            help="Instead of a scene: a sewing pattern to dress bodies in, layers with commas between; can be given again.",
            show_default=False,
        ),
    ] = None,
    bodies: Annotated[
        list[Path] | None,
        typer.Option("--body", help="A body to dress, a mesh file; can be given again.", show_default=False),
    ] = None,
    edge: Annotated[float, typer.Option(help="Of --pattern: length of the edges of triangles, in metres.")] = 0.01,
    usd: Annotated[bool, typer.Option("--usd", help="Of --pattern: write every garment as USD too.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder. Default: <scene's name>-study", show_default=False)
    ] = None,
    scheduler: Annotated[str, typer.Option(help="local, or the address of a Dask scheduler, tcp://...")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine.", show_default="one a core", min=1)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", "-r", help="Run only what is missing or failed.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a study that is there.")] = False,
    pictures: Annotated[bool, typer.Option(help="Draw the contact sheet and the plots.")] = True,
    dry: Annotated[bool, typer.Option("--dry", help="Only list the runs.")] = False,
) -> None:
    """Run a scene with every combination of some values: a cache a run, and one table, contact sheet and plots of all.

    Runs are spread over the cores of this machine, or over the workers of a Dask scheduler. A failed run does
    not stop the others; the exit code is then 1, and --resume runs what is missing or failed.

    With --pattern and --body every body is dressed in every pattern instead, as weft dress does it.
    """
    from weft.cli.terminal import progress_bar
    from weft.farm.wedging import Stopped
    from weft.farm.wedging import wedge as run_study

    if patterns or bodies:
        if scene is not None or vary or sample or listed:
            raise WeftError(
                "--pattern and --body dress bodies without a scene: leave out the scene, --set, --sample and --list"
            )
        options: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "pictures": pictures, "workers": workers}
        options |= {"edge": edge, "usd": usd}
        _dress_all(patterns or [], bodies or [], out or Path("wardrobe"), scheduler, options)
    if scene is None:
        raise WeftError("give a scene file, or patterns and bodies with --pattern and --body")
    vary_axes, drawn, runs = _choices(vary or [], sample, listed)
    if dry:
        _list_runs(scene, vary_axes, drawn, runs)
        return
    folder = out if out is not None else Path(f"{scene.stem}-study")
    try:
        with progress_bar("runs") as progress:
            outcome = run_study(
                scene,
                folder,
                vary_axes,
                sample=drawn,
                runs=runs,
                scheduler=scheduler,
                workers=workers,
                resume=resume,
                overwrite=overwrite,
                pictures=pictures,
                progress=progress,
            )
    except Stopped as stop:
        again = [word for word in sys.argv[1:] if word not in ("--resume", "-r", "--overwrite")]
        raise KeyboardInterrupt(f"{stop}. Go on with:  {shlex.join(['weft', *again, '--resume'])}") from None
    _show(outcome)
    raise typer.Exit(1 if outcome.failed else 0)


def _dress_all(patterns: list[str], bodies: list[Path], out: Path, scheduler: str, options: dict) -> NoReturn:
    """Dress every body in every pattern, and show what came of it."""
    from weft.cli.terminal import count, progress_bar, quoted
    from weft.farm.wardrobe import dress_many

    with progress_bar("samples") as progress:
        made = dress_many(patterns, bodies, out, scheduler=scheduler, progress=progress, **options)
    print(f"{made.path}: {count(len(made.rows), 'sample')}, {made.computed} made now, {len(made.failed)} not ok")
    for row in made.failed[:LINES]:
        print(f"{row['status']}: {row['run']}: {row['error']}")
    written = [made.path / "table.csv", made.path / "table.parquet", *([made.sheet] if made.sheet else [])]
    print("written: " + ", ".join(quoted(path) for path in written))
    raise typer.Exit(1 if made.failed else 0)


def _choices(
    vary: list[str], sample: str | None, listed: Path | None
) -> tuple[dict, tuple[int, int] | None, "list[Combination] | None"]:
    """Parse the options: values of each key, the sample, the list of runs."""
    from weft.farm.sweeps import parse_axis, parse_sample, read_list

    axes = [parse_axis(text) for text in vary]
    found: dict = {}
    for axis in axes:
        if axis.key in found:
            raise WeftError(f"--set {axis.key} is given twice: write all its values in one, with commas between")
        found[axis.key] = axis.values
    if listed is not None and (vary or sample is not None):
        raise WeftError("--list names all runs: leave out --set and --sample")
    return found, None if sample is None else parse_sample(sample), None if listed is None else read_list(listed)


def _list_runs(scene: Path, vary: dict, sample: tuple[int, int] | None, runs: "list[Combination] | None") -> None:
    from weft.cli.terminal import count
    from weft.farm.study import make_runs
    from weft.farm.wedging import plan
    from weft.scene import load_scene

    base = load_scene(scene)
    made = make_runs(base, plan(base, vary, sample, runs))
    for run in made:
        print(run.name)
    print(count(len(made), "run"))


def _show(outcome: "Outcome") -> None:
    """Print the number of runs, their intersections, failures and files."""
    from weft.cli.terminal import count, quoted

    study, rows = outcome.study, outcome.rows
    print(f"{study.path}: {count(len(rows), 'run')}, {outcome.computed} run now, {len(outcome.failed)} failed")
    good = [row for row in rows if row["status"] == "ok"]
    tangled = [row for row in good if row["intersections"]]
    if tangled:
        worst = max(tangled, key=lambda row: row["intersections"])
        print(f"intersections in {len(tangled)} runs, most in {worst['run']}: {worst['intersections']}")
    elif good and all(row["intersections"] is not None for row in good):
        print("no intersections")
    for row in outcome.failed[:LINES]:
        print(f"{row['status']}: {row['run']}: {row['error']}")
    if len(outcome.failed) > LINES:
        print(f"and {len(outcome.failed) - LINES} more, see the table")
    written = [study.path / "table.csv", study.path / "table.parquet", *outcome.pictures]
    print("written: " + ", ".join(quoted(path) for path in written))
    if outcome.no_pictures and outcome.no_pictures != "they were not asked for":
        print(f"no pictures: {outcome.no_pictures}")
