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

from weft.errors import WeftError, writing
from weft.scene.colours import body_colours

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.run.simulation import Simulation

Floats = NDArray[np.float64]

_TEMPLATE = Path(__file__).with_name("page.html")
# bytes of positions in a page; of longer runs every second frame is shown, or every third. Notebooks keep the page, so that
# it should not be much larger than pictures are
PAGE_BYTES = 12_000_000
# the largest number of 16 bits, and the bytes of a position of three such numbers
_STEPS = 65535
_POSITION_BYTES = 6
# distance of the camera in units of the extent of the cloth: all of it, with a margin, at a vertical angle of view of 0.6 rad
_DISTANCE = 2.2
# height of the page in a notebook, pixels
_HEIGHT = 420


def cache_page(cache: "Cache", *, frames: Sequence[int] | None = None) -> str:
    """The page of a cache: all frames, or as many as fit into it."""
    from weft.cache import scene_of

    chosen = list(range(cache.frames)) if frames is None else [int(frame) for frame in frames]
    if not chosen:
        raise WeftError("the cache has no complete frame yet")
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


def save_page(cache: "Cache", path: str | Path, *, frames: Sequence[int] | None = None) -> Path:
    """Write a cache as a web page that needs no server and no network."""
    target = Path(path)
    with writing(target):
        target.write_text(cache_page(cache, frames=frames), encoding="utf-8")
    return target


def inline(page: str, height: int = _HEIGHT) -> str:
    """The page as HTML inside another one."""
    quoted = html.escape(page, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{quoted}" style="{style}" sandbox="allow-scripts"></iframe>'


def notebook_html(shown: Any) -> str:
    """What a notebook shows of a cache or a simulation: a line of words, and the page."""
    words = f"<div><code>{html.escape(repr(shown))}</code></div>"
    if hasattr(shown, "bodies") and hasattr(shown, "frames"):
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
    if np.array_equal(own, np.broadcast_to(own[:1], own.shape)):
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
        "low": low.tolist(),
        "step": step.tolist(),
        "front": np.asarray(front).tolist(),
        "back": np.asarray(back).tolist(),
    }


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
