"""Benchmarks and examples, which no other test runs as a whole: each can be imported, and what it takes from weft is there."""

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")])


def missing(tree: ast.AST, names: dict[str, object]) -> list[str]:
    """What is imported inside functions, or looked up in an imported module, and does not exist."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weft"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                try:
                    getattr(module, alias.name)
                except AttributeError:
                    try:
                        importlib.import_module(f"{node.module}.{alias.name}")
                    except ImportError:
                        found.append(f"line {node.lineno}: {node.module} has no {alias.name}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            ours = isinstance(module, ModuleType) and module.__name__.split(".")[0] in (
                "weft",
                "benchmarks",
                "measures",
            )
            if ours and not hasattr(module, node.attr):
                found.append(f"line {node.lineno}: {module.__name__} has no {node.attr}")
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_a_script_uses_is_there(path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(path.parent))
    # the scripts of examples import each other by bare names; names of pytest's modules must not hide them
    name = f"benchmarks.{path.stem}" if path.parent.name == "benchmarks" else path.stem
    before = sys.modules.copy()
    try:
        module = importlib.import_module(name)
        assert Path(module.__file__) == path
        assert missing(ast.parse(path.read_text(encoding="utf-8")), vars(module)) == []
    finally:
        for added in sys.modules.keys() - before.keys():
            if not added.startswith(("weft", "benchmarks")) and getattr(sys.modules[added], "__file__", "") == str(
                path
            ):
                del sys.modules[added]


def test_missing_names_are_found():
    import weft

    tree = ast.parse("import weft\nweft.Scene\nweft.Scenery\ndef f():\n    from weft.mesh import trimesh, nothing\n")
    assert missing(tree, {"weft": weft}) == ["line 3: weft has no Scenery", "line 5: weft.mesh has no nothing"]
