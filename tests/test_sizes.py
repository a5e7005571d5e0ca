"""Nothing in src/weft is too large to read: functions, the parameters of kernels, files.

What is over a limit is named here, and bounded too. The lists may only shrink: whoever makes a thing small enough takes
its name off.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "weft"
FILES = sorted(PACKAGE.rglob("*.py"))

# lines of a function without its signature and docstring; parameters of a kernel; lines of a file
FUNCTION, KERNEL, FILE = 60, 12, 400
# and of those that are named below
LONGEST_FUNCTION, WIDEST_KERNEL, LONGEST_FILE = 90, 20, 600

LONG_FUNCTIONS: set[str] = {
    "methods/predictive/cuda_substeps.py:advance_on_cuda",
    "methods/predictive/features.py:make_features",
    "methods/predictive/substeps.py:advance",
}
WIDE_KERNELS: set[str] = {
    "dynamics/position_based/bending.py:solve_bending",
    "dynamics/position_based/kernels.py:advance_substep",
    "dynamics/position_based/kernels.py:pull_stencils",
    "dynamics/position_based/kernels.py:start_step",
    "methods/predictive/list_search.py:report_search",
}
LONG_FILES: set[str] = {
    "methods/predictive/collider_shapes.py",
    "methods/predictive/solver.py",
}


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a file, with names such as `contact/lists.py:append`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield f"{path.relative_to(PACKAGE).as_posix()}:{node.name}", node


def body_lines(node: ast.FunctionDef) -> int:
    """The lines of a function after its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0


def is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).startswith("wp.kernel") for decorator in node.decorator_list)


def sizes(kind: str) -> dict[str, int]:
    """Name -> size of all functions, kernels or files."""
    if kind == "file":
        return {p.relative_to(PACKAGE).as_posix(): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    found: dict[str, int] = {}
    for path in FILES:
        for name, node in functions(path):
            if kind == "function":
                found[name] = max(found.get(name, 0), body_lines(node))
            elif is_kernel(node):
                found[name] = len(node.args.args)
    return found


@pytest.mark.parametrize(
    ("kind", "limit", "bound", "named"),
    [
        ("function", FUNCTION, LONGEST_FUNCTION, LONG_FUNCTIONS),
        ("kernel", KERNEL, WIDEST_KERNEL, WIDE_KERNELS),
        ("file", FILE, LONGEST_FILE, LONG_FILES),
    ],
)
def test_what_is_too_large_is_named_and_bounded(kind, limit, bound, named):
    found = sizes(kind)
    large = {name: size for name, size in found.items() if size > limit}
    assert {name: size for name, size in large.items() if name not in named} == {}, "split it"
    assert named - large.keys() == set(), "small enough by now, or gone: take it off the list"
    assert {name: size for name, size in large.items() if size > bound} == {}, "split it"


def test_sizes_are_measured():
    node = ast.parse('@wp.kernel\ndef add(first: int,\n    a: int):\n    """Add."""\n    b = a\n    return b\n').body[0]
    assert isinstance(node, ast.FunctionDef) and is_kernel(node) and body_lines(node) == 2
    assert len(node.args.args) == 2 and sizes("file")["errors.py"] > 10
