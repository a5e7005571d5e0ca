"""What a run is computed from, and whether a cache that is to be continued comes from the same."""

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft.scene import Scene

# settings that do not affect the motion: name, length, checks, device, camera
NOT_PHYSICS = {"name", "frames", "check", "device", "camera"}


def origin_of(scene: "Scene", positions: npt.NDArray[np.float64], faces: npt.NDArray[np.int32]) -> dict[str, Any]:
    """What a run is computed from: settings, compiled geometry, hashes of files, kind of device. Equal: equal frames."""
    from weft.scene.files import files_read

    physics = json.loads(json.dumps({k: v for k, v in scene.model_dump().items() if k not in NOT_PHYSICS}))
    for body in [*physics["cloths"], *physics["colliders"]]:
        body.pop("colour", None)
    geometry = hashlib.sha256(np.ascontiguousarray(positions).tobytes())
    geometry.update(np.ascontiguousarray(faces).tobytes())
    return {
        # as text, since a scene may hold infinite numbers, which other readers of the cache's JSON would refuse
        "physics": json.dumps(physics, sort_keys=True),
        "geometry": geometry.hexdigest(),
        "files": {name: _digest(scene.base / name, files) for name, files in files_read(scene).items()},
        "functions": _function_digests(scene),
        "device": scene.device.partition(":")[0],
    }


# frames at which a motion that is a Python function is compared, when a run is continued
_COMPARED_FRAMES = 16


def _function_digests(scene: "Scene") -> dict[str, str]:
    """For each motion that is a Python function, a hash of what it gives in the first frames, by its place in the scene."""
    from weft.scene.messages import key_path
    from weft.scene.motion import Function
    from weft.scene.resolved_motion import called
    from weft.scene.unit_checks import motions

    digests = {}
    for key, motion in motions(scene):
        if isinstance(motion, Function) and not isinstance(motion.function, str):
            values = [called(motion.function, motion.name, k / scene.fps, None) for k in range(_COMPARED_FRAMES)]
            digests[key_path(key)] = hashlib.sha256(b"".join(v.tobytes() for v in values)).hexdigest()
    return digests


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The differences between two origins, one text each; `old` comes from a file."""
    try:
        return _differences(old, new)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ["it does not say what its frames were computed from"]


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    found = _differing(json.loads(old["physics"]), json.loads(new["physics"]), "")
    files = [f"the file {n} has changed" for n, d in new["files"].items() if old["files"].get(n, d) != d]
    found += files
    old_functions = old.get("functions", {})
    found += [f"{key} moves otherwise" for key, d in new.get("functions", {}).items() if old_functions.get(key, d) != d]
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


def _digest(path: Path, files: list[Path]) -> str:
    """The hash of files and of their names relative to a path."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(Path(os.path.relpath(file, path)).as_posix().encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
