"""The rooms of src/weft: which may import which, no cycles, helper modules beside their user, C++ in headers.

Imports count wherever they stand: at the top, inside functions, and those only a type checker reads.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
CODE_PAGE = ROOT / "docs" / "code.md"

# files at the top that belong to no room: everything may use them
SHARED = {"weft", "weft.__main__", "weft.errors", "weft.lazy"}


def module_name(path: Path) -> str:
    """The dotted name of a file below src."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted((SOURCE / "weft").rglob("*.py"))}


def imports_of(path: Path) -> set[str]:
    """The modules of weft that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: imports are absolute here"
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in inside}
    return found & FILES.keys() - {module_name(path)}


IMPORTS = {name: imports_of(path) for name, path in FILES.items()}


def room_of(module: str) -> str:
    """The folder, or the single file, directly below the package."""
    return module.split(".")[1]


def table_of_rooms() -> dict[str, set[str]]:
    """Room -> rooms that it may use, in the order of the page about the code."""
    rows = re.findall(r"^\| `(\w+)` \| .* \|([^|\n]*)\|$", CODE_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", uses)) for room, uses in rows}


def rooms_used() -> dict[str, set[str]]:
    """Room -> other rooms that its modules import from."""
    used: dict[str, set[str]] = {}
    for module, imported in IMPORTS.items():
        if module not in SHARED:
            others = {room_of(other) for other in imported - SHARED}
            used.setdefault(room_of(module), set()).update(others - {room_of(module)})
    return used


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of nodes that reach each other (Tarjan's strongly connected components of more than one node)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            place = stack.index(node)
            group = set(stack[place:])
            del stack[place:]
            if len(group) > 1:
                found.append(group)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_room_is_in_the_table():
    assert set(table_of_rooms()) == set(rooms_used())


@pytest.mark.parametrize("room", sorted(rooms_used()))
def test_a_room_uses_only_what_the_table_says(room):
    allowed = table_of_rooms()
    # commands may use everything
    assert room == "cli" or rooms_used()[room] <= allowed[room]


def test_the_table_names_only_what_is_used():
    used = rooms_used()
    assert {room: uses - used[room] for room, uses in table_of_rooms().items() if uses - used[room]} == {}


def test_a_room_uses_only_rooms_above_it_in_the_table():
    order = list(table_of_rooms())
    wrong = {
        (room, other)
        for room, uses in table_of_rooms().items()
        for other in uses
        if order.index(other) >= order.index(room)
    }
    assert wrong == set()


def test_no_modules_import_each_other():
    assert cycles(IMPORTS) == []


def folder_of(module: str) -> str:
    """The package that a module lives in; a package lives in itself."""
    return module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]


def names_in_strings(path: Path) -> set[str]:
    """The modules of weft that are named in strings: registries and public tables load them by name."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {name for text in texts if (name := text.partition(":")[0]) in FILES}


def test_a_module_with_one_user_lives_beside_it():
    users: dict[str, set[str]] = {name: set() for name in FILES}
    for module, path in FILES.items():
        for other in (IMPORTS[module] | names_in_strings(path)) - {module}:
            users[other].add(module)
    wrong = set()
    for module, by in users.items():
        if len(by) != 1 or FILES[module].name == "__init__.py":
            continue
        folder = folder_of(next(iter(by)))
        # commands are thin: what they call is the entry of a room; and the public table names entries too
        if folder in ("weft", "weft.cli") or f"{folder_of(module)}.".startswith(f"{folder}."):
            continue
        wrong.add(module)
    assert wrong == set()


def native_texts(path: Path) -> list[str]:
    """The string literals that a file passes to `func_native` or adds to what it passes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "func_native"
    ]
    named = {name.id for call in calls for name in ast.walk(call) if isinstance(name, ast.Name)}
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in named for target in node.targets)
    ]
    return [
        part.value
        for value in [*calls, *values]
        for part in ast.walk(value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def test_cpp_lives_in_headers():
    long = {name for name, path in FILES.items() if any("\n" in text.strip() for text in native_texts(path))}
    assert long == set()
