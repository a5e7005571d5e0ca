"""The gallery: every example can be shown, and the pages show pictures that are there and small."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES, PICTURES = ROOT / "examples", ROOT / "docs" / "images" / "gallery"
METHODS = ("guarded", "robust", "untangle", "predictive", "boxes", "push", "finish")
NAMES = sorted(path.stem for method in METHODS for path in EXAMPLES.glob(f"{method}_*.py"))
LARGEST = 300_000


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_what_it_shows_and_gives_a_scene(name):
    module = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(module)
    functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assert {"scene", "build"} & functions and "check" in functions


@pytest.mark.parametrize("page", ["README.md", "docs/gallery.md"])
def test_pictures_are_there_and_small(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    linked = set(re.findall(r"images/gallery/(\w+\.\w+)", text))
    assert linked
    for name in linked:
        assert 1_000 < (PICTURES / name).stat().st_size < LARGEST, name
    # a still has its film, and the other way round
    assert {n[:-4] for n in linked if n.endswith(".jpg")} == {n[:-5] for n in linked if n.endswith(".webp")}
    assert {Path(n).stem for n in linked} <= set(NAMES)
