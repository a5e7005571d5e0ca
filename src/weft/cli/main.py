"""The `weft` command: a table of commands that are imported on use, and errors without tracebacks.

To add a command, write `weft/cli/<module>.py` with a function that carries typer annotations and a docstring
(its first line is its line in `weft --help`), import anything heavy inside that function, and add one line to
`COMMANDS`.
"""

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from weft import __version__
from weft.errors import WeftError, WeftWarning, printable

# command -> "module:function", in the order of the help
COMMANDS = {
    "new": "weft.cli.start:new",
    "run": "weft.cli.run:run",
    "info": "weft.cli.info:info",
    "check": "weft.cli.check:check",
    "untangle": "weft.cli.untangle:untangle",
    "garment": "weft.cli.garment:garment",
    "dress": "weft.cli.dress:dress",
    "subdivide": "weft.cli.subdivide:subdivide",
    "view": "weft.cli.view:view",
    "play": "weft.cli.view:play",
    "render": "weft.cli.render:render",
    "plot": "weft.cli.view:plot",
    "export": "weft.cli.export:export",
    "bind": "weft.cli.export:bind",
    "compare": "weft.cli.compare:compare",
    "validate": "weft.cli.validate:validate",
    "wedge": "weft.cli.wedge:wedge",
    "bench": "weft.cli.bench:bench",
    "warmup": "weft.cli.run:warmup",
    "demo": "weft.cli.start:demo",
}


def print_error(message: str) -> None:
    """Print a message on stderr, each of its lines with the prefix `weft:`."""
    for line in message.strip("\n").split("\n"):
        print(f"weft: {printable(line)}", file=sys.stderr)


def print_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print warnings for the user as a line; other warnings are for programmers and not shown here."""
    if issubclass(category, WeftWarning):
        print_error(f"warning: {message}")


def load_command(name: str) -> Any:
    """Import the module of a command and create the command from its function."""
    module, function = COMMANDS[name].split(":")
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(import_module(module), function))
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """A group whose commands are imported on first use, and whose errors are messages instead of tracebacks."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, place in COMMANDS.items() if find_spec(place.split(":")[0])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = self.list_commands(ctx)
        # an unknown name loads them all, so that the nearest can be suggested
        for name in [cmd_name] if cmd_name in known else known:
            if name not in self.commands:
                self.commands[name] = load_command(name)
        return self.commands.get(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = print_warning
            try:
                return super().invoke(ctx)
            except WeftError as error:
                print_error(str(error))
                ctx.exit(1)
            except KeyboardInterrupt as stop:
                print_error(str(stop) or "stopped")
                ctx.exit(130)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        print(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def weft(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Simulate cloth that does not pass through itself, and check, view and export it."""


def main() -> NoReturn:
    """Run the command line; errors that a user can correct are one line on stderr and exit code 1."""
    try:
        app(prog_name="weft")
    except KeyboardInterrupt:
        print_error("stopped")
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    main()
