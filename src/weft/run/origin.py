"""What a run is computed from: two runs with the same origin give the same frames."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft.scene import Scene

# what a scene says that does not change where the vertices go: how long, how it is called, how it is looked at
_NOT_PHYSICS = {"name", "frames", "check", "device", "camera"}


def origin_of(scene: "Scene", positions: npt.NDArray[np.float64], faces: npt.NDArray[np.int32]) -> dict[str, Any]:
    """The scene's physics, its compiled geometry, the content of its files, and the kind of device."""
    from weft.scene.files import named_files

    physics = json.loads(json.dumps({k: v for k, v in scene.model_dump().items() if k not in _NOT_PHYSICS}))
    for body in [*physics["cloths"], *physics["colliders"]]:
        body.pop("colour", None)
    geometry = hashlib.sha256(np.ascontiguousarray(positions).tobytes())
    geometry.update(np.ascontiguousarray(faces).tobytes())
    return {
        # as text, since a scene may hold infinite numbers, which other readers of the cache's JSON would refuse
        "physics": json.dumps(physics, sort_keys=True),
        "geometry": geometry.hexdigest(),
        "files": {name: _digest(scene.base / name) for name in sorted({name for _, name in named_files(scene)})},
        "device": scene.device.partition(":")[0],
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two origins, in words; the first few settings by name."""
    found = _differing(json.loads(old["physics"]), json.loads(new["physics"]), "")
    files = [f"the file {n} has changed" for n, d in new["files"].items() if old["files"].get(n, d) != d]
    found += files
    if old["geometry"] != new["geometry"] and not found:
        found.append("the meshes are not the same")
    if old["device"] != new["device"]:
        found.append(f"device was {old['device']}, is {new['device']} (another device gives other rounding)")
    return found


def _differing(old: Any, new: Any, key: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        return [d for k in keys for d in _differing(old.get(k), new.get(k), f"{key}.{k}" if key else k)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and _has_tables(old):
        return [d for i, (a, b) in enumerate(zip(old, new, strict=True)) for d in _differing(a, b, f"{key}[{i}]")]
    return [] if old == new else [f"{key} was {_short(old)}, is {_short(new)}"]


def _has_tables(values: list[Any]) -> bool:
    return any(isinstance(v, dict) for v in values)


def _short(value: Any) -> str:
    if isinstance(value, list) and _has_tables(value):
        return f"a list of {len(value)}"
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _digest(path: Path) -> str:
    """Of a file's bytes, or of the names and bytes of all files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        digest.update(file.relative_to(path).as_posix().encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
