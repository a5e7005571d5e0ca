"""Compiling the kernels of methods beforehand: a few frames of small scenes in which everything happens."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.errors import WeftError
from weft.runtime.compiling import Listener, compile_modules, listening
from weft.scene import Cloth, Collider, Forces, Grid, MethodOptions, Pin, Placement, Scene, Sphere, Wind
from weft.scene.messages import suggest

METHODS = tuple(MethodOptions.known)
# methods that treat a single sheet
_ONE_SHEET = ("boxes", "push")
# frames until cloth has fallen on the sphere and on itself
_FRAMES = 8


def warm_up(methods: Sequence[str], device: str, listener: Listener) -> None:
    """Compile the kernels that runs with these methods need on a device; the listener is called for each module."""
    import warp as wp

    from weft.run.runner import simulate

    for name in methods:
        if name not in METHODS:
            raise WeftError(f"no method is called {name!r}, {suggest(name, METHODS)}")
    with listening(listener), tempfile.TemporaryDirectory(prefix="weft-warmup-") as folder:
        for name in methods:
            simulate(small_scene(name, device), Path(folder) / f"{name}.zarr", progress=False, force=True)
        # kernels that these scenes did not need, in the modules that are imported now
        compile_modules(wp.get_device(device))


def small_scene(method: str, device: str) -> Scene:
    """Two sheets that fall fast on a sphere in the wind, one of them pinned."""
    sheets = tuple(
        Cloth(
            name=f"sheet {k}",
            shape=Grid(size=(0.4, 0.4), cells=(8, 8)),
            placement=Placement(position=(0.01 * k, 0.12 + 0.01 * k, 0.0)),
            velocity=(0.0, -2.0, 0.0),
            pins=(Pin(boundary="top_left"),) if k else (),
        )
        for k in range(1 if method in _ONE_SHEET else 2)
    )
    ball = Collider(name="ball", shape=Sphere(radius=0.1, subdivisions=2))
    wind = Forces(wind=Wind(velocity=(1.0, 0.0, 0.0)))
    return Scene(
        name="warmup",
        frames=_FRAMES,
        method=MethodOptions.known[method].model_validate({}),
        device=device,
        cloths=sheets,
        colliders=(ball,),
        forces=wind,
    )
