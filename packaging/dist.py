"""Build the source archive and the wheel, and test both in clean environments: python packaging/dist.py [folder].

Every Python from 3.11 to 3.14 that is found here is used: on the PATH, or among those of pyenv or uv. A version that is not
here is skipped with a line; WEFT_DIST_PYTHONS=3.12,3.13 tests these only, and then a missing one is an error.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# the wheel has these besides Python files
NEEDED = ("weft/py.typed", "weft/__init__.pyi", "weft/cli/scenes/flag.toml", "weft/runtime/native/thread_pool.h")
# a user's first minutes, without extras, in an empty folder
TRIAL = """
import subprocess, sys, weft
from pathlib import Path
from importlib.metadata import version
assert version("weft-cloth") == weft.__version__ == sys.argv[1], (version("weft-cloth"), weft.__version__)
assert Path(weft.__file__).is_relative_to(sys.prefix), weft.__file__
command = str(Path(sys.executable).with_name("weft"))
def run(*words, code=0):
    done = subprocess.run([command, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr
assert weft.__version__ in run("--version")
run("new", "scene.toml")
run("run", "scene.toml", "--frames", "3")
assert "no intersections" in run("check", "scene.zarr")
run("export", "scene.zarr", "-o", "scene.npz")
assert "pip install 'weft-cloth[render]'" in run("render", "scene.zarr", "-o", "still.png", code=1)
"""


def build(folder: Path) -> list[Path]:
    """The archive and the wheel; older ones in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("weft_cloth-*"):
        old.unlink()
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, stdout=subprocess.DEVNULL
    )
    made = sorted(folder.glob("weft_cloth-*"))
    wheel = next(path for path in made if path.suffix == ".whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = [name for name in NEEDED if name not in names]
    if len(made) != 2 or missing:
        sys.exit(f"{wheel} is not whole: {missing or made}")
    return made


def find_python(version: str) -> str | None:
    """A Python of this version, if there is one."""
    found = shutil.which(f"python{version}")
    candidates = [Path(found)] if found else []
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
    if uv := shutil.which("uv"):
        told = subprocess.run([uv, "python", "find", "--offline", version], capture_output=True, text=True)
        candidates += [Path(told.stdout.strip())] if told.returncode == 0 else []
    for path in candidates:
        # pyenv's command of a version that is not chosen is there, and fails
        told = subprocess.run(
            [str(path), "-c", "import sys, venv; print(*sys.version_info[:2], sep='.')"], capture_output=True
        )
        if told.returncode == 0 and told.stdout.decode().strip() == version:
            return str(path)
    return None


def test(package: Path, python: str) -> None:
    """Install a package into a new environment and use it there, far from the sources."""
    version = re.match(r"weft_cloth-(\d[^-]*?)(?:-py3|\.tar)", package.name)
    assert version is not None, package
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([python, "-m", "venv", f"{place}/env"], check=True, env=clean)
        inside = f"{place}/env/{'Scripts' if os.name == 'nt' else 'bin'}/python"
        install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(package)]
        subprocess.run(install, check=True, env=clean)
        subprocess.run([inside, "-c", TRIAL, version[1]], check=True, env=clean, cwd=place)


def main(folder: Path) -> None:
    chosen = os.environ.get("WEFT_DIST_PYTHONS", "")
    made = build(folder)
    tested = 0
    for version in chosen.split(",") if chosen else VERSIONS:
        python = find_python(version)
        if python is None and chosen:
            sys.exit(f"Python {version} is not on this machine")
        if python is None:
            print(f"Python {version}: skipped, it is not on this machine", flush=True)
            continue
        for package in made:
            test(package, python)
        tested += 1
        print(f"Python {version}: {made[0].name} and {made[1].name} install and run", flush=True)
    if not tested:
        sys.exit("no Python from 3.11 to 3.14 was found")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
