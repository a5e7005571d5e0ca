"""Scenes as TOML files, one to one with scenes in Python."""

import contextlib
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from pydantic_core import ValidationError

from weft.errors import SceneError
from weft.scene.files import missing_files, moved_files
from weft.scene.messages import problem
from weft.scene.part import Part, error_lines
from weft.scene.scene import Scene
from weft.scene.toml import write_toml
from weft.scene.unit_checks import warn_slips


def load_scene(path: str | Path) -> Scene:
    """Read a scene from a TOML file; file names in it are relative to its folder.

    Only data is read: nothing in a scene is run. Mistakes are listed together, one line each, with the file and key.
    """
    source = str(path)
    try:
        # some editors put a mark in front of UTF-8 text
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SceneError(f"{source}: no such file") from None
    except OSError as error:
        raise SceneError(f"{source}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SceneError(f"{source}: is not UTF-8 text (byte {error.start}), so it is not TOML") from None

    scene = parse_scene(text, base=Path(path).parent, source=source)
    missing = missing_files(scene)
    if missing:
        raise SceneError("\n".join(scene.problem(key, text) for key, text in missing))
    warn_slips(scene)
    return scene


def parse_scene(text: str, *, base: str | Path = ".", source: str = "") -> Scene:
    """Read a scene from TOML text; `base` is the folder that file names are relative to, `source` is for messages."""
    where = source or "scene"
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SceneError(_syntax_message(where, str(error), text)) from None
    except RecursionError:
        raise SceneError(f"{where}: is nested too deep to be a scene") from None
    return _read_table(table, where).at(base, source)


def write_scene(scene: Scene) -> str:
    """The scene as TOML text, defaults left out; `parse_scene` gives back an equal scene."""
    return write_toml(scene.plain())


def save_scene(scene: Scene, path: str | Path) -> None:
    """Write a scene to a TOML file, whole or not at all.

    Relative file names are rewritten where the file goes to another folder than the one they are relative to, so that
    they still mean the same files.
    """
    if not isinstance(scene, Part):
        raise SceneError(f"save_scene writes a Scene, not a {type(scene).__name__}")
    target = Path(path)
    text = write_scene(moved_files(scene, target.parent))
    try:
        _write_whole(target, text)
    except OSError as error:
        raise SceneError(f"{path}: cannot be written: {error.strerror}") from None


def _write_whole(target: Path, text: str) -> None:
    """Write beside the target and put it in place in one step: whoever reads sees the old file or the new one."""
    mode = 0o666 & ~_umask()
    with contextlib.suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o777
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The mask for new files; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _read_table(table: dict[str, Any], where: str) -> Scene:
    """Validate what the file says: `[[cloth]]` there is `cloths` here, and only that."""
    fields = {key: name for name, key in Scene.toml_names.items()}
    named = {fields.get(key, key): value for key, value in table.items() if key not in Scene.toml_names}
    misnamed = [(key, Scene.toml_names[key]) for key in table if key in Scene.toml_names]
    lines = [problem(where, (key,), f"unknown key, did you mean {right!r}?") for key, right in misnamed]
    scene = None
    try:
        scene = Scene.model_validate(named, context={"toml": True})
    except ValidationError as error:
        lines += error_lines(error, where, Scene.toml_names)
    if scene is None or lines:
        raise SceneError("\n".join(lines))
    return scene


def _syntax_message(where: str, message: str, text: str) -> str:
    """tomllib says `... (at line 3, column 5)`; editors and people look for `file:3`."""
    found = re.search(r"^(.*) \(at line (\d+), column \d+\)$", message, re.DOTALL)
    if found:
        return f"{where}:{found[2]}: this is not TOML: {_lower_first(found[1])}"
    at_end = message.removesuffix(" (at end of document)")
    return f"{where}:{len(text.splitlines()) or 1}: this is not TOML: {_lower_first(at_end)} (the file ends too early)"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
