"""The files that a scene names: whether they are there, and how they are called from another folder."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from weft.scene.part import Part
from weft.scene.scene import Scene

Key = tuple[str | int, ...]
P = TypeVar("P", bound=Part)


def named_files(part: Part, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Every file that a part or its parts name, with its key."""
    for name in type(part).model_fields:
        value = getattr(part, name)
        here = (*key, name)
        if name in part.file_fields and value is not None:
            yield here, value
        elif isinstance(value, Part):
            yield from named_files(value, here)
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, Part):
                    yield from named_files(item, (*here, i))


def missing_files(scene: Scene) -> list[tuple[Key, str]]:
    """The files that a scene names and that are not there, each with its key and a message."""
    missing = []
    for key, name in named_files(scene):
        path = scene.base / name
        if not path.exists():
            looked = "" if Path(name).is_absolute() else f" (looked in {scene.base.absolute()})"
            missing.append((key, f"no such file: {name}{looked}"))
    return missing


def moved_files(scene: Scene, folder: Path) -> Scene:
    """The scene with its file names relative to another folder."""
    if folder.resolve() == scene.base.resolve():
        return scene
    return _renamed(scene, scene.base, folder)


def _renamed(part: P, base: Path, folder: Path) -> P:
    changes: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if name in part.file_fields and value is not None and not Path(value).is_absolute():
            changes[name] = os.path.relpath((base / value).resolve(), folder.resolve()).replace(os.sep, "/")
        elif isinstance(value, Part):
            changes[name] = _renamed(value, base, folder)
        elif isinstance(value, tuple) and any(isinstance(item, Part) for item in value):
            changes[name] = tuple(_renamed(item, base, folder) for item in value)
    return part.model_copy(update=changes)
