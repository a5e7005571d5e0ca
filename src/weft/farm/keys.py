"""Keys of a scene by their dotted names: `cloth.material.friction`, `collider.ball.placement.position[1]`.

They are spelt as in a scene file. In a list of one body it needs no name; of several, one is selected by its name
(`cloth.skirt.material`) or its number (`cloth[0].material`).
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from weft.errors import SceneError
from weft.scene import Scene
from weft.scene.files import parse_scene, write_toml
from weft.scene.messages import key_path, listed, shown, suggest
from weft.scene.model import SceneModel, toml_value

Path = tuple[str | int, ...]

# a name in quotes, a number in brackets, or anything up to the next dot or bracket
_STEP = re.compile(r'"(?P<quoted>[^"]+)"|\[(?P<index>\d{1,9})\]|(?P<plain>[^.\[\]"]+)')


def split_key(key: str) -> list[str | int]:
    """The steps of a dotted key: names, and numbers for what is in brackets."""
    steps: list[str | int] = []
    place = 0
    while place < len(key):
        found = _STEP.match(key, place)
        if found is None:
            break
        steps.append(int(found["index"]) if found["index"] else (found["quoted"] or found["plain"]).strip())
        place = found.end()
        # a dot precedes a name, nothing precedes a bracket
        if place < len(key) - 1 and key[place] == "." and key[place + 1] != "[":
            place += 1
        elif place < len(key) and key[place] != "[":
            break
    if not steps or place < len(key) or "" in steps:
        raise SceneError(f"{key}: write a key as in a scene file, such as cloth.material.friction or seed")
    return steps


def find_key(scene: Scene, key: str) -> Path:
    """The path of a key in the scene's table; an error names the wrong step and what exists instead."""
    return _find(scene, key)[0]


def value_of(scene: Scene, key: str) -> Any:
    """The value of a key in the scene."""
    return _find(scene, key)[1]


def _find(scene: Scene, key: str) -> tuple[Path, Any]:
    value: Any = scene
    path: Path = ()
    steps = split_key(key)
    while steps:
        value, path, steps = _enter(key, value, path, steps)
    if isinstance(value, tuple) and any(isinstance(item, SceneModel) for item in value):
        raise SceneError(f"{key}: is a list of tables; choose a key in one of them, such as {_example(path, value)}")
    return path, value


def change_scene(scene: Scene, changes: Mapping[Path, Any]) -> Scene:
    """The scene with changed values at some paths, validated as if they were in its file."""
    table = scene.plain()
    # a table is set before the keys in it
    for path in sorted(changes, key=len):
        _set(table, scene, path, changes[path])
    return parse_scene(write_toml(table), base=scene.base, source=scene.source)


def _enter(key: str, value: Any, path: Path, steps: list[str | int]) -> tuple[Any, Path, list[str | int]]:
    """Descend one step: the value there, its path, and the remaining steps."""
    step, rest = steps[0], steps[1:]
    if isinstance(value, SceneModel):
        names = type(value).keys(toml=True)
        if step not in names:
            where = f"{key_path(path)} has no key" if path else "the scene has no key"
            raise SceneError(f"{key}: {where} {step!r}, {suggest(str(step), names)}")
        field = next(name for name in type(value).model_fields if type(value).toml_names.get(name, name) == step)
        return getattr(value, field), (*path, step), rest
    if isinstance(value, tuple):
        return _enter_list(key, value, path, steps)
    if value is None:
        raise SceneError(
            f"{key}: {key_path(path)} is not set in the scene; write it there, then its keys can be varied"
        )
    raise SceneError(f"{key}: {key_path(path)} is {shown(value)}, which has no keys")


def _enter_list(
    key: str, items: tuple[Any, ...], path: Path, steps: list[str | int]
) -> tuple[Any, Path, list[str | int]]:
    """Descend into an item of a list: by its number, by its name, or, if there is only one, implicitly."""
    step, rest = steps[0], steps[1:]
    number = int(step) if isinstance(step, int) or step.isdecimal() else None
    tables = bool(items) and isinstance(items[0], SceneModel)
    if number is not None:
        if number >= len(items):
            raise SceneError(f"{key}: {key_path(path)} has {len(items)} items, counted from 0")
        return items[number], (*path, number), rest
    if not tables:
        what = (
            "is empty in this scene" if not items else f"has {len(items)} items: choose one by its number, in brackets"
        )
        raise SceneError(f"{key}: {key_path(path)} {what}")
    # a key of the item takes precedence over a body of the same name
    names = [getattr(item, "name", None) for item in items]
    is_key = any(step in type(item).keys(toml=True) for item in items)
    if step in names and not (is_key and len(items) == 1):
        return items[names.index(step)], (*path, names.index(step)), rest
    if len(items) == 1:
        return items[0], (*path, 0), steps
    if all(names):
        raise SceneError(
            f"{key}: the scene has {len(items)} of {key_path(path)}: choose one by its name, such as "
            f"{_example(path, items)}; they are called {listed(names)}"
        )
    raise SceneError(f"{key}: {key_path(path)} has {len(items)} items: choose one, such as {_example(path, items)}")


def _example(path: Path, items: tuple[Any, ...]) -> str:
    """A key within the first item of a list."""
    item = items[0]
    name = getattr(item, "name", None)
    keys = [k for k in type(item).keys(toml=True) if k != "name"]
    inside = "material.friction" if "material" in keys else keys[0]
    if len(items) == 1:
        return f"{key_path(path)}.{inside}"
    plain = name is not None and re.fullmatch(r"[\w-]+", name) and not name.isdecimal()
    return f"{key_path(path)}.{name}.{inside}" if plain else f"{key_path((*path, 0))}.{inside}"


def _set(table: Any, value: Any, path: Path, new: Any) -> None:
    """Set a value in the table of a scene, creating tables on the way that were left out as defaults."""
    for step, following in pairwise(path):
        if isinstance(value, SceneModel):
            names = type(value).toml_names
            value = getattr(value, next(n for n in type(value).model_fields if names.get(n, n) == step))
        else:
            value = value[step]
        there = table.get(step) if isinstance(table, dict) else table[step]
        if there is None:
            there = toml_value(value)
        if isinstance(there, str):
            # a material or a method by its name alone
            there = {"name" if step == "method" else "preset": there}
        elif isinstance(there, list):
            there = list(there)
        if isinstance(following, int) and not isinstance(there, list):
            raise SceneError(f"{key_path(path)}: cannot be varied together with what holds it")
        table[step] = there
        table = there
    table[path[-1]] = new
