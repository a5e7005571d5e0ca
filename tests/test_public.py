"""The public names: all there, the same for Python, type checkers and editors, and free until they are used."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft

STUB = Path(weft.__file__).with_suffix(".pyi")


def names_of_the_stub():
    """Name -> the module that the stub takes it from."""
    found = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # `import x as x` is how a stub gives a name on
                assert alias.asname == alias.name
                found[alias.name] = node.module
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = "weft"
    return found


@pytest.mark.parametrize("name", dir(weft))
def test_every_name_is_there(name):
    assert getattr(weft, name) is not None


def test_type_checkers_see_the_same_names():
    assert sorted(names_of_the_stub()) == dir(weft)


@pytest.mark.parametrize("name", sorted(set(weft.__all__) - {"__version__"}))
def test_type_checkers_see_the_same_things(name):
    place = names_of_the_stub()[name]
    module = __import__(place, fromlist=[name])
    assert getattr(module, name) is getattr(weft, name)


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="'weft' has no attribute 'Clth'"):
        weft.Clth  # noqa: B018


def test_python_says_which_name_was_meant():
    done = subprocess.run([sys.executable, "-c", "import weft; weft.simlate"], capture_output=True, text=True)
    assert "Did you mean: 'simulate'?" in done.stderr


def test_objects_list_what_the_documentation_describes():
    pages = "".join(path.read_text(encoding="utf-8") for path in (STUB.parents[2] / "docs").glob("*.md"))
    scene = weft.Scene(cloths=weft.Cloth(shape=weft.Grid(cells=(2, 2))), method="predictive")
    for made in (weft.Simulation(scene), weft.Realtime(scene)):
        for name in dir(made):
            assert hasattr(made, name), name
            assert re.search(rf"\.{name}\b|`{name}\b", pages), name
        assert "step" in dir(made) and "solver" not in dir(made) and "take_step" not in dir(made)


def test_import_loads_nothing_but_itself():
    code = (
        "import sys; before = set(sys.modules); import weft; "
        "print(*sorted(m for m in set(sys.modules) - before if not m.startswith('weft')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()} <= set(sys.stdlib_module_names), done.stdout
