# SPDX-License-Identifier: GPL-3.0-or-later
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


def write_scene(
    folder, *, cloths, colliders, method, thickness, frames, fps, gravity, wind=None, air_damping=0.0, name="blender"
):
    """Write `scene.toml` and a mesh file a body into a folder; gives the path of the scene.

    cloths: tables with name, samples (frames + 1, n, 3) or (1, n, 3), faces (m, 3), material (a table of numbers), pins (vertex
    numbers), stitches (pairs of vertices), stiff ((n,) factors or None). Pins follow the samples, from whose first the
    cloth starts. colliders: tables with name, samples, faces, friction. wind: velocity and gust.
    """
    lines = [
        f"name = {json.dumps(name)}",
        f"fps = {float(fps)!r}",
        f"frames = {int(frames)}",
        f"method = {json.dumps(method)}",
        f"thickness = {float(thickness)!r}",
        "",
        "[forces]",
        f"gravity = {numbers(gravity)}",
    ]
    if air_damping:
        lines += [f"air_damping = {float(air_damping)!r}"]
    if wind is not None:
        velocity, gust = wind
        lines += [f"wind = {{velocity = {numbers(velocity)}, gust = {float(gust)!r}}}"]
    for number, cloth in enumerate(cloths):
        lines += ["", *cloth_lines(folder, f"cloth_{number}.npz", cloth, fps)]
    for number, collider in enumerate(colliders):
        lines += ["", *collider_lines(folder, f"collider_{number}.npz", collider, fps)]
    for cloth in cloths:
        if len(cloth["stitches"]):
            stitches = ", ".join(f"[{int(a)}, {int(b)}, {int(b)}]" for a, b in cloth["stitches"])
            lines += ["", "[[seam]]", f"cloth = {json.dumps(cloth['name'])}", f"vertices = [{stitches}]"]
    path = folder / "scene.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def cloth_lines(folder, file, cloth, fps):
    """One [[cloth]], with its npz file."""
    samples = np.asarray(cloth["samples"], np.float64)
    arrays = {"vertices": samples[0], "faces": np.asarray(cloth["faces"], np.int32)}
    material = ", ".join(f"{key} = {toml(value)}" for key, value in cloth["material"].items())
    lines = ["[[cloth]]", f"name = {json.dumps(cloth['name'])}", f"mesh = {json.dumps(file)}"]
    lines += [f"material = {{{material}}}"]
    if cloth["stiff"] is not None:
        arrays["attribute.stiffness"] = np.asarray(cloth["stiff"], np.float64)
        lines += ['painted = {stretch = "stiffness", shear = "stiffness", bend = "stiffness"}']
    if len(cloth["pins"]):
        motion = ""
        held = samples[:, np.asarray(cloth["pins"], int)]
        if len(samples) > 1 and not np.array_equal(held, np.broadcast_to(held[:1], held.shape)):
            arrays["samples"] = samples
            motion = f", motion = {sequence(file, fps)}"
        lines += [f"pins = [{{indices = [{', '.join(str(int(v)) for v in cloth['pins'])}]{motion}}}]"]
    np.savez(folder / file, **arrays)
    return lines


def collider_lines(folder, file, collider, fps):
    """One [[collider]], with its npz file."""
    samples = np.asarray(collider["samples"], np.float64)
    np.savez(folder / file, vertices=samples[0], samples=samples, faces=np.asarray(collider["faces"], np.int32))
    lines = ["[[collider]]", f"name = {json.dumps(collider['name'])}", f"mesh = {json.dumps(file)}"]
    lines += [f"friction = {float(collider['friction'])!r}"]
    if len(samples) > 1:
        lines += [f"motion = {sequence(file, fps)}"]
    return lines


def sequence(file, fps):
    """A motion that follows the samples of an npz file."""
    return f'{{kind = "sequence", file = {json.dumps(file)}, array = "samples", fps = {float(fps)!r}}}'


def toml(value):
    return json.dumps(value) if isinstance(value, str) else repr(float(value))


def numbers(values):
    return f"[{', '.join(repr(float(v)) for v in values)}]"


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


def read_obj_faces(path):
    """(m, 3) triangles of an OBJ of weft's."""
    lines = [line.split()[1:] for line in path.read_text().splitlines() if line.startswith("f ")]
    return np.array([[int(word.split("/")[0]) - 1 for word in corners] for corners in lines])
