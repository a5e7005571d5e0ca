"""Contact caching (Lewin 2018, section 5.2): contacts made once in a pose, solved in every step without detection."""

from pathlib import Path

import numpy as np

from weft.errors import SceneError
from weft.methods.predictive.contacts import Contacts
from weft.methods.predictive.regions import Regions
from weft.runtime.colouring import colour_items
from weft.scene import Scene


def keep_nearest(contacts: Contacts, x: np.ndarray, regions: Regions, fixed: np.ndarray) -> None:
    """Of the triangles that a vertex has on one side in one region keep only the nearest.

    The others say the same in the pose, and something else once layers slide over each other.
    """
    count = contacts.count
    if count == 0:
        return
    vertices, kinds, weights, normals, thickness, friction = (a.numpy()[:count] for a in contacts.arrays)
    r = np.einsum("kc,kcd->kd", weights, x[vertices])
    distance = np.linalg.norm(r, axis=1)
    tilt = 1.0 - np.abs((r * normals).sum(axis=1)) / np.maximum(distance, 1e-300)
    corners = regions.vertex_region[vertices[:, 1:]]
    region = np.where(corners[:, 1] == corners[:, 2], corners[:, 1], corners[:, 0])

    # of equally near ones the least tilted, then the first
    order = np.lexsort((np.arange(count), np.round(tilt, 9), np.round(distance, 12), kinds, region, vertices[:, 0]))
    key = np.stack([vertices[order, 0], region[order], kinds[order]], axis=1)
    nearest = np.append(True, (np.diff(key, axis=0) != 0).any(axis=1))
    kept = np.sort(order[nearest])

    # neighbours in the list have no vertex in common, which lets a processor work on several at once
    kept = kept[colour_items(np.where(fixed[vertices[kept]], -1, vertices[kept]), len(x)).order]
    rows = [a[kept].copy() for a in (vertices, kinds, weights, normals, thickness, friction)]
    triangles = contacts.triangles.numpy()[kept].copy()
    contacts.grow(len(kept))
    for array, values in zip([*contacts.arrays, contacts.triangles], [*rows, triangles], strict=True):
        array[: len(kept)].assign(values)


def read_pose(scene: Scene, name: str, count: int) -> np.ndarray:
    """The vertices of all cloths in the pose of a file."""

    def blame(text: str) -> SceneError:
        return SceneError(scene.problem(("method", "cache_pose"), f"{name} {text}"))

    path = Path(scene.base) / name
    try:
        with np.load(path) as file:
            positions = np.asarray(file["positions"], dtype=np.float64) if "positions" in file else None
    except (OSError, ValueError) as error:
        raise blame(f"cannot be read as an npz file: {error}") from None
    if positions is None:
        raise blame("has no array 'positions'")
    if positions.shape != (count, 3):
        raise blame(f"holds positions of shape {positions.shape}, and the cloths have {count} vertices")
    if not np.isfinite(positions).all():
        raise blame("holds positions that are not finite")
    return positions
