"""The command line itself: quick to answer, plain about errors."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import weft
from weft.cli import main as cli
from weft.errors import WeftError, WeftWarning

HEAVY = {"warp", "scipy", "trimesh", "zarr", "pyvista", "viser", "pxr", "matplotlib", "numpy", "pydantic", "vtk"}


def weft_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "weft", *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def say(monkeypatch):
    """A command `say` whose body is the test's."""

    def make(body) -> CliRunner:
        def say() -> None:
            """Say something."""
            body()

        alone = typer.Typer(add_completion=False)
        alone.command("say")(say)
        monkeypatch.setitem(cli.COMMANDS, "say", "weft.cli.main:say")
        monkeypatch.setattr(cli, "say", say, raising=False)
        return CliRunner()

    return make


def test_help_lists_every_command():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("new", "run", "info", "demo"))


def test_help_needs_nothing_heavy():
    # what each command needs is imported when it is called, not when its help is shown
    code = (
        "import sys\nfrom weft.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stdout[-200:] + done.stderr


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_has_help(name):
    if name not in cli.LazyGroup().list_commands(None):
        pytest.skip("not there yet")
    result = CliRunner().invoke(cli.app, [name, "--help"])
    assert result.exit_code == 0 and f"weft {name}" in result.output.replace("root ", "weft ")


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_no_help_has_brackets_that_are_not_shown(name):
    # square brackets are markup where help is printed
    command = cli.LazyGroup().get_command(None, name)
    assert not [p.name for p in command.params if "[" in (p.help or "")]


def test_version():
    done = weft_command("--version")
    assert (done.returncode, done.stdout) == (0, f"weft {weft.__version__}\n")


def test_error_is_one_line(tmp_path):
    done = weft_command("run", "nothing.toml", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "weft: nothing.toml: no such file\n"


def test_every_mistake_has_its_line(say):
    def body() -> None:
        raise WeftError("one: is wrong\ntwo: is wrong too")

    result = say(body).invoke(cli.app, ["say"])
    assert result.exit_code == 1 and result.stderr == "weft: one: is wrong\nweft: two: is wrong too\n"


def test_terminal_commands_in_names_are_shown_and_not_executed(say, tmp_path):
    def body() -> None:
        raise WeftError("a\x1b[2Jb: is wrong\ntwo \u202e\r: too")

    result = say(body).invoke(cli.app, ["say"])
    assert result.stderr == "weft: a\\x1b[2Jb: is wrong\nweft: two \\u202e\\r: too\n"
    (tmp_path / "a.toml").write_text('"\\u001b[31m\\n\\u0007" = 1\n')
    done = weft_command("run", "a.toml", cwd=tmp_path)
    assert "\\x1b[31m\\n\\x07: unknown key" in done.stderr and "\x1b" not in done.stderr


def test_faults_of_weft_itself_are_not_hidden(say):
    def body() -> None:
        raise ZeroDivisionError("a fault")

    result = say(body).invoke(cli.app, ["say"])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.fixture
def ctrl_c():
    """Ctrl-C is heard, also where the tests run in the background, to whom shells give deaf ears."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c(say):
    def body() -> None:
        raise KeyboardInterrupt("stopped after frame 3")

    result = say(body).invoke(cli.app, ["say"])
    assert result.exit_code == 130 and result.stderr == "weft: stopped after frame 3\n"


def test_warnings_are_lines(say):
    def body() -> None:
        warnings.warn("this is 170 m tall", WeftWarning, stacklevel=1)
        warnings.warn("for programmers", DeprecationWarning, stacklevel=1)

    result = say(body).invoke(cli.app, ["say"])
    assert result.exit_code == 0 and result.stderr == "weft: warning: this is 170 m tall\n"


def test_unknown_command_suggests_the_nearest():
    result = CliRunner().invoke(cli.app, ["rum"])
    assert result.exit_code == 2 and "'run'" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_real_run(tmp_path):
    # a scene that would run for hours, stopped as a user stops it, and continued
    assert weft_command("new", "long.toml", cwd=tmp_path).returncode == 0
    command = [sys.executable, "-m", "weft", "run", "long.toml", "-o", "my run.zarr", "--frames", "1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while not (tmp_path / "my run.zarr/weft/frames/00000003.json").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    *_, noted, told = said.splitlines()
    assert noted == "stopping after this frame; Ctrl-C again stops at once"
    assert told.startswith("weft: stopped after frame ") and "my run.zarr keeps all frames up to it" in told
    assert told.endswith("Go on with:  weft run long.toml -o 'my run.zarr' --frames 1000000 --resume")
    last = weft.open_cache(tmp_path / "my run.zarr").frames - 1
    done = weft_command("run", "long.toml", "-o", "my run.zarr", "--frames", str(last + 1), "--resume", cwd=tmp_path)
    assert done.returncode == 0 and f"{last + 2} frames, 1 computed now" in done.stdout
