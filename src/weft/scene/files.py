"""Scene files: reading and writing TOML, and the files that a scene names."""

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic_core import ValidationError

from weft.errors import SceneError
from weft.mesh import TriMesh, save_mesh
from weft.mesh.files import mesh_files
from weft.scene.arrays import arrays_in
from weft.scene.bodies import Cloth, Collider
from weft.scene.messages import Key, problem
from weft.scene.model import SceneModel, error_lines
from weft.scene.motion import Function, Sequence
from weft.scene.scene import Scene
from weft.scene.unit_checks import motions, warn_of_units

M = TypeVar("M", bound=SceneModel)
B = TypeVar("B", Cloth, Collider)

# longest line, in characters, that a table or a list is written on
WIDTH = 100


def load_scene(path: str | Path) -> Scene:
    """Read a scene from a TOML file; file names in it are relative to its folder.

    Only data is read: nothing in a scene is run. Mistakes are listed together, one line each, with the file and key.
    """
    source = str(path)
    try:
        # some editors put a byte order mark in front of UTF-8 text
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
    warn_of_units(scene)
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
    except ValueError as error:
        # Python reads no whole numbers of thousands of digits
        raise SceneError(f"{where}: a number in it cannot be read: {str(error).partition(';')[0].lower()}") from None
    try:
        return _read_table(table, where).at(base, source)
    except RecursionError:
        raise SceneError(f"{where}: is nested too deep to be a scene") from None


def write_scene(scene: Scene) -> str:
    """The scene as TOML text, defaults left out; `parse_scene` gives back an equal scene."""
    return write_toml(scene.plain())


def save_scene(scene: Scene, path: str | Path) -> None:
    """Write a scene to a TOML file, whole or not at all.

    Relative file names are rewritten where the file goes to another folder than the one they are relative to, so that
    they still mean the same files. Meshes and motions that are arrays are written beside it, as `scene.shirt.npz`.
    """
    if not isinstance(scene, SceneModel):
        raise SceneError(f"save_scene writes a Scene, not a {type(scene).__name__}")
    target = Path(path)
    text = write_scene(with_files(rebase_files(scene, target.parent), target))
    try:
        _write_whole(target, text)
    except OSError as error:
        raise SceneError(f"{path}: cannot be written: {error.strerror}") from None


def with_files(scene: Scene, target: Path) -> Scene:
    """The scene with its arrays in npz files beside `target`, named after it and the body: `target.shirt.npz`."""
    for key, motion in motions(scene):
        if isinstance(motion, Function):
            text = f"is the Python function {motion.name}, which no file can hold: make its positions a sequence"
            raise SceneError(scene.problem(key, text))
    if not arrays_in(scene):
        return scene

    def stored(body: B) -> B:
        changes: dict[str, Any] = {}
        if isinstance(body.mesh, TriMesh):
            changes["mesh"] = f"{target.stem}.{_file_name(body.name)}.npz"
            save_mesh(body.mesh, target.parent / changes["mesh"])
        if isinstance(body, Cloth):
            if isinstance(body.start, TriMesh):
                changes["start"] = f"{target.stem}.{_file_name(body.name)}.start.npz"
                save_mesh(body.start, target.parent / changes["start"])
            pins = enumerate(body.pins)
            changes["pins"] = tuple(p.replace(motion=moved(p.motion, f"{body.name}.pin{i}")) for i, p in pins)
        else:
            changes["motion"] = moved(body.motion, f"{body.name}.motion")
        return body.model_copy(update=changes)

    def moved(motion: Any, name: str) -> Any:
        if not isinstance(motion, Sequence) or motion.positions is None:
            return motion
        file = f"{target.stem}.{_file_name(name)}.npz"
        try:
            with (target.parent / file).open("wb") as npz:
                np.savez_compressed(npz, vertices=motion.positions.positions)
        except OSError as error:
            raise SceneError(f"{target.parent / file}: cannot be written: {error.strerror}") from None
        return motion.replace(file=file, positions=None)

    bodies = {"cloths": tuple(map(stored, scene.cloths)), "colliders": tuple(map(stored, scene.colliders))}
    return scene.model_copy(update=bodies)


def _file_name(name: str) -> str:
    """A name of a body as a name of a file."""
    return re.sub(r"[^\w.-]", "_", name)


def _write_whole(target: Path, text: str) -> None:
    """Write a temporary file beside the target and rename it: a reader sees the old file or the new one, never half."""
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
    """The permission mask of new files; the system only returns it when it is set."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _read_table(table: dict[str, Any], where: str) -> Scene:
    """Validate the table of a file, where `cloths` is spelt `[[cloth]]` and may not be spelt otherwise."""
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
    """The message of tomllib with the place as `file:3` instead of `(at line 3, column 5)`."""
    found = re.search(r"^(.*) \(at line (\d+), column \d+\)$", message, re.DOTALL)
    if found:
        return f"{where}:{found[2]}: this is not TOML: {_lower_first(found[1])}"
    at_end = message.removesuffix(" (at end of document)")
    return f"{where}:{len(text.splitlines()) or 1}: this is not TOML: {_lower_first(at_end)} (the file ends too early)"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def named_files(model: SceneModel, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Every file that a model or the models in it name, with its key."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        here = (*key, name)
        if name in model.file_fields and isinstance(value, str):
            yield here, value
        elif isinstance(value, SceneModel):
            yield from named_files(value, here)
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, SceneModel):
                    yield from named_files(item, (*here, i))


def files_read(scene: Scene) -> dict[str, list[Path]]:
    """The files that a scene names, and for each all files that are read: in a folder, or named by a mesh file."""
    read = {}
    for name in sorted({name for _, name in named_files(scene)}):
        path = scene.base / name
        read[name] = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else mesh_files(path)
    return read


def missing_files(scene: Scene) -> list[tuple[Key, str]]:
    """The files that a scene names and that do not exist: key and message of each."""
    missing = []
    for key, name in named_files(scene):
        path = scene.base / name
        if not path.exists():
            looked = "" if Path(name).is_absolute() else f" (looked in {scene.base.absolute()})"
            missing.append((key, f"no such file: {name}{looked}"))
    return missing


def rebase_files(scene: Scene, folder: Path) -> Scene:
    """The scene with its relative file names rewritten for another folder."""
    if folder.resolve() == scene.base.resolve():
        return scene
    return _renamed(scene, scene.base, folder)


def _renamed(model: M, base: Path, folder: Path) -> M:
    """The model with its relative file names, and those of the models in it, relative to `folder` instead of `base`."""
    changes: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name in model.file_fields and isinstance(value, str) and not Path(value).is_absolute():
            changes[name] = os.path.relpath((base / value).resolve(), folder.resolve()).replace(os.sep, "/")
        elif isinstance(value, SceneModel):
            changes[name] = _renamed(value, base, folder)
        elif isinstance(value, tuple) and any(isinstance(item, SceneModel) for item in value):
            changes[name] = tuple(_renamed(item, base, folder) for item in value)
    return model.model_copy(update=changes)


def write_toml(table: Mapping[str, Any]) -> str:
    """The table as a TOML document. Values are tables, lists, texts, numbers and truth values."""
    lines: list[str] = []
    _write_body(lines, table, ())
    return "\n".join(lines).strip("\n") + "\n"


def _write_body(lines: list[str], table: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """The keys of a table below its header: first those on one line, then tables with headers of their own."""
    below: list[tuple[str, Any]] = []
    for key, value in table.items():
        if _needs_header(key, value, top=not path):
            below.append((key, value))
        else:
            lines.append(_assignment(key, value))
    for key, value in below:
        here = (*path, key)
        header = ".".join(_key(k) for k in here)
        if isinstance(value, Mapping):
            lines += ["", f"[{header}]"]
            _write_body(lines, value, here)
            continue
        for item in value:
            lines += ["", f"[[{header}]]"]
            _write_body(lines, item, here)


def _needs_header(key: str, value: Any, *, top: bool) -> bool:
    tables = isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)
    if not tables and not isinstance(value, Mapping):
        return False
    if tables and not top:
        return any(len(write_value(v)) + 5 > WIDTH for v in value)
    return top or len(f"{_key(key)} = {write_value(value)}") > WIDTH


def _assignment(key: str, value: Any) -> str:
    """`key = value`, a long list over several lines."""
    line = f"{_key(key)} = {write_value(value)}"
    if len(line) <= WIDTH or not isinstance(value, list):
        return line
    rows, row = [], "   "
    if isinstance(value[0], Mapping):
        return "\n".join([f"{_key(key)} = [", *(f"    {write_value(v)}," for v in value), "]"])
    for item in value:
        text = f" {write_value(item)},"
        if len(row) + len(text) > WIDTH and row.strip():
            rows.append(row)
            row = "   "
        row += text
    return "\n".join([f"{_key(key)} = [", *rows, row, "]"])


def write_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # repr gives back the same number; inf and nan are TOML too
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {write_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_value(v) for v in value) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    return key if bare else _text(key)


def _text(value: str) -> str:
    """A basic string; JSON escapes the same way, save for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
