"""Write what weft reads: a scene in TOML with its meshes in npz files. Knows nothing of Blender.

weft is in metres with y up, Blender has z up: (x, y, z) here becomes (x, z, -y) there.
"""

import json

import numpy as np


def to_weft(points, scale=1.0):
    """Blender's world coordinates in weft's, in metres; `scale` is how many metres a unit is."""
    x, y, z = np.asarray(points, dtype=np.float64).reshape(-1, 3).T
    return scale * np.column_stack([x, z, -y])


def from_weft(points, scale=1.0):
    """The way back."""
    x, y, z = np.asarray(points, dtype=np.float64).reshape(-1, 3).T
    return np.column_stack([x, -z, y]) / scale


def write_scene(folder, *, cloths, colliders, method, thickness, frames, fps, gravity, name="blender"):
    """Write `scene.toml` and a mesh file a body into a folder; gives the path of the scene.

    cloths: tables with name, vertices (n, 3), faces (m, 3), material, pins (vertex numbers).
    colliders: tables with name, samples (frames + 1, n, 3) or (1, n, 3) if it does not move, faces, friction.
    """
    lines = [
        f"name = {json.dumps(name)}",
        f"fps = {float(fps)!r}",
        f"frames = {int(frames)}",
        f"method = {json.dumps(method)}",
        f"thickness = {float(thickness)!r}",
        "",
        "[forces]",
        f"gravity = [{', '.join(repr(float(g)) for g in gravity)}]",
    ]
    for number, cloth in enumerate(cloths):
        file = f"cloth_{number}.npz"
        np.savez(folder / file, vertices=cloth["vertices"], faces=np.asarray(cloth["faces"], np.int32))
        lines += ["", "[[cloth]]", f"name = {json.dumps(cloth['name'])}", f"mesh = {json.dumps(file)}"]
        lines += [f"material = {json.dumps(cloth['material'])}"]
        if len(cloth["pins"]):
            lines += [f"pins = [{{indices = [{', '.join(str(int(v)) for v in cloth['pins'])}]}}]"]
    for number, collider in enumerate(colliders):
        file = f"collider_{number}.npz"
        samples = np.asarray(collider["samples"], np.float64)
        faces = np.asarray(collider["faces"], np.int32)
        np.savez(folder / file, vertices=samples[0], samples=samples, faces=faces)
        lines += ["", "[[collider]]", f"name = {json.dumps(collider['name'])}", f"mesh = {json.dumps(file)}"]
        lines += [f"friction = {float(collider['friction'])!r}"]
        if len(samples) > 1:
            motion = f'kind = "sequence", file = {json.dumps(file)}, array = "samples", fps = {float(fps)!r}'
            lines += [f"motion = {{{motion}}}"]
    path = folder / "scene.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def body_names(names):
    """Names that weft takes, all different: without slashes and control characters."""
    plain = ["".join(c if c.isprintable() and c not in "/\\" else "_" for c in n).strip() or "body" for n in names]
    return _unlike(plain, str)


def file_names(names):
    """What weft calls the files of bodies with these names, in their order."""
    plain = ["".join(c if c.isalnum() or c in "-_" else "_" for c in given) or "body" for given in names]
    return _unlike(plain, str.lower)


def _unlike(names, key):
    """The names with a number after those that are there already."""
    taken = []
    for plain in names:
        number, name = 1, plain
        while key(name) in {key(n) for n in taken}:
            number += 1
            name = f"{plain}_{number}"
        taken.append(name)
    return taken


def read_point_cache(path):
    """The samples of a PC2 file, (samples, points, 3)."""
    data = path.read_bytes()
    points, samples = (int(v) for v in np.frombuffer(data, "<i4", 5, 12)[[1, 4]])
    return np.frombuffer(data, "<f4", samples * points * 3, 32).reshape(samples, points, 3)


def write_point_cache(path, samples):
    """Write samples as a PC2 file."""
    header = b"POINTCACHE2\0" + np.array([1, samples.shape[1]], "<i4").tobytes()
    header += np.array([0.0, 1.0], "<f4").tobytes() + np.array([len(samples)], "<i4").tobytes()
    path.write_bytes(header + np.ascontiguousarray(samples, "<f4").tobytes())
