"""A cache or a simulation as one web page without a server: what notebooks show, and what can be sent to somebody.

The page has its own drawing code and all positions, as 16-bit numbers between the corners of each body's box.
"""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import open_result
from weft.scene.colours import body_colours
from weft.view.pictures import replacing

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.cache.frames import Frames
    from weft.run.simulation import Simulation
    from weft.scene import Scene

Floats = NDArray[np.float64]

_TEMPLATE = Path(__file__).with_name("page.html")
# bytes of positions in a page; of longer runs every second frame is shown, or every third. Notebooks keep the page, so that
# it should not be much larger than pictures are
PAGE_BYTES = 12_000_000
# pictures a second of a page of `weft play`: as many as most screens show
SHARED_RATE = 60.0
# how far from a rigid motion the vertices of a collider may be to be stored as one, in extents of it: nobody sees that
_RIGID = 1e-5
# the largest number of 16 bits, and the bytes of a position of three such numbers
_STEPS = 65535
_POSITION_BYTES = 6
# distance of the camera in units of the extent of the cloth: all of it, with a margin, at a vertical angle of view of 0.6 rad
_DISTANCE = 2.2
# height of the page in a notebook, pixels
_HEIGHT = 420


def cache_page(cache: "Cache", *, frames: "Frames" = None) -> str:
    """The page of a cache: all frames, or as many as fit into it."""
    from weft.cache import choose_frames, scene_of

    chosen = choose_frames(cache, frames)
    stride = -(-_POSITION_BYTES * len(cache.positions(chosen[0])) * len(chosen) // PAGE_BYTES)
    chosen = chosen[:: max(1, stride)]
    positions = [cache.positions(frame) for frame in chosen]
    step = chosen[1] - chosen[0] if len(chosen) > 1 else 1
    return _page(cache.bodies, cache.faces, positions, chosen, cache.fps, step, scene_of(cache))


def simulation_page(simulation: "Simulation") -> str:
    """The page of a simulation as it is now."""
    world = simulation.world
    now = np.array(simulation.state.positions())
    faces = np.asarray(world.faces)
    return _page(world.bodies, faces, [now], [simulation.frame], simulation.scene.fps, 1, simulation.scene)


def share_play(
    scene: "Scene | str | Path", path: str | Path, *, method: str | None = None, seconds: float | None = None
) -> Path:
    """Simulate a scene as `weft play` does, and write what it shows as a web page that needs no server and no network.

    `seconds` of it, by default as many as the scene has; with `predictive` 60 pictures a second, else the scene's.
    """
    from weft.run.realtime import Realtime
    from weft.scene import Predictive, load_scene
    from weft.view.live_simulation import LiveSimulation

    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    found = found if method is None else found.replace(method=method)
    live = isinstance(found.method, Predictive)
    cloth: Any = Realtime(found) if live else LiveSimulation(found)
    fps = SHARED_RATE if live else found.fps
    count = max(1, round(fps * (found.frames / found.fps if seconds is None else seconds)))
    bodies, faces = cloth.world.bodies, np.asarray(cloth.world.faces)
    colliders = [body.name for body in bodies if body.kind == "collider"]
    cloth_bytes = _POSITION_BYTES * len(cloth.positions)
    stride = max(1, -(-cloth_bytes * (count + 1) // PAGE_BYTES))
    positions, frames = [], []
    for frame in range(count + 1):
        if frame:
            cloth.step(1.0 / fps)
        if frame % stride == 0:
            meshes = [cloth.collider_mesh(name)[0] for name in colliders]
            positions.append(np.concatenate([cloth.positions, *meshes]))
            frames.append(frame)
    target = Path(path)
    with replacing(target) as partial:
        partial.write_text(_page(bodies, faces, positions, frames, fps, stride, cloth.scene), encoding="utf-8")
    return target


def save_page(shown: Any, path: str | Path, *, frames: "Frames" = None) -> Path:
    """Write a `Cache`, or a `Simulation` as it is now, as a web page that needs no server and no network.

    Of many worlds it shows the first.
    """
    target = Path(path)
    shown = open_result(shown) if isinstance(shown, str | Path) else shown
    shown = shown.worlds[0] if hasattr(shown, "worlds") else shown
    page = cache_page(shown, frames=frames) if _is_cache(shown) else simulation_page(shown)
    with replacing(target) as partial:
        partial.write_text(page, encoding="utf-8")
    return target


def _is_cache(shown: Any) -> bool:
    return hasattr(shown, "planned")


def inline(page: str, height: int = _HEIGHT) -> str:
    """The page as HTML inside another one."""
    quoted = html.escape(page, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{quoted}" style="{style}" sandbox="allow-scripts"></iframe>'


def notebook_html(shown: Any) -> str:
    """What a notebook shows of a cache or a simulation: a line of words, and the page."""
    words = f"<div><code>{html.escape(repr(shown))}</code></div>"
    if _is_cache(shown):
        return words + (inline(cache_page(shown)) if shown.frames else "")
    return words + inline(simulation_page(shown))


def _page(
    bodies: Sequence[Any],
    faces: NDArray[Any],
    positions: list[Floats],
    frames: list[int],
    fps: float,
    stride: int,
    scene: Any,
) -> str:
    colours = body_colours(bodies, scene)
    target, size = _subject(bodies, positions)
    content = {
        "fps": fps,
        "stride": stride,
        "frames": frames,
        "target": target.tolist(),
        "distance": _DISTANCE * size,
        "bodies": [
            _body(body, faces, positions, colour.front, colour.back)
            for body, colour in zip(bodies, colours, strict=True)
        ],
    }
    # no text of the data can end the element that it stands in
    data = json.dumps(content).replace("<", "\\u003c")
    return _TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/", data)


def _subject(bodies: Sequence[Any], positions: list[Floats]) -> tuple[Floats, float]:
    """The middle of all cloth in all frames, and its extent; of everything, where there is no cloth."""
    shown = [body.vertices for body in bodies if body.kind == "cloth"] or [body.vertices for body in bodies]
    points = np.concatenate([x[rows] for x in positions for rows in shown])
    low, high = points.min(axis=0), points.max(axis=0)
    return 0.5 * (low + high), max(float(np.linalg.norm(high - low)), 1e-6)


def _body(body: Any, faces: NDArray[Any], positions: list[Floats], front: Floats, back: Floats) -> dict[str, Any]:
    own = np.stack([x[body.vertices] for x in positions])
    poses = _rigid_poses(own) if body.kind == "collider" and len(own) > 1 else None
    if poses is not None or np.array_equal(own, np.broadcast_to(own[:1], own.shape)):
        own = own[:1]
    low = own.min(axis=(0, 1))
    step = (own.max(axis=(0, 1)) - low) / _STEPS
    numbers = np.rint((own - low) / np.where(step > 0.0, step, 1.0)).astype("<u2")
    triangles = (faces[body.faces] - body.vertices.start).astype("<u4")
    return {
        "name": body.name,
        "vertices": own.shape[1],
        "samples": len(own),
        "faces": _text(triangles),
        "positions": _text(numbers),
        "poses": None if poses is None else _text(poses.astype("<f4")),
        "low": low.tolist(),
        "step": step.tolist(),
        "front": np.asarray(front).tolist(),
        "back": np.asarray(back).tolist(),
    }


def _rigid_poses(positions: Floats) -> Floats | None:
    """The 3x4 matrices that take the first sample to each of them, (t, 12); None where it deforms, or does not move."""
    centre = positions.mean(axis=1, keepdims=True)
    around = positions - centre
    u, _, vt = np.linalg.svd(np.einsum("nk,tnl->tkl", around[0], around))
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    turn = np.einsum("tkl,tlm->tmk", u, vt)
    off = np.abs(np.einsum("tkl,nl->tnk", turn, around[0]) - around).max()
    if off > _RIGID * np.abs(around[0]).max() or np.array_equal(positions[0], positions[-1]):
        return None
    shift = centre[:, 0] - np.einsum("tkl,l->tk", turn, centre[0, 0])
    return np.concatenate([turn, shift[:, :, None]], axis=2).reshape(-1, 12)


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
