"""Compiled kernels: where they are kept, and who is notified when one has to be compiled first.

Warp compiles a module of kernels when the first of them is launched, seconds a module, and keeps the result on the disk. That
happens once on a machine and can be in the middle of a run; whoever shows progress listens here.
"""

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import warp as wp

from weft.errors import WeftWarning

# called with the name of a module before it is compiled, and again with the seconds that it took
Listener = Callable[[str, float | None], None]
_listeners: list[Listener] = []
_said = False
# endings of compiled modules: of the CPU, and of CUDA
_COMPILED = {True: (".o",), False: (".ptx", ".cubin")}


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Notify this listener, and no other, of all modules that are compiled in the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def announced(module: Any, device: wp.Device, block: int | None = None) -> Iterator[None]:
    """Announce the module if running a kernel of it in the block will compile it."""
    if is_compiled(module, device, block):
        yield
        return
    listener, name = _listeners[-1] if _listeners else _say_once, str(module.name).removeprefix("weft.")
    listener(name, None)
    start = time.perf_counter()
    try:
        yield
    finally:
        listener(name, time.perf_counter() - start)


def is_compiled(module: Any, device: wp.Device, block: int | None = None) -> bool:
    """Whether a module is loaded or lies compiled on the disk; True where this Warp does not say."""
    variant = 1 if device.is_cpu else block or 256
    try:
        if any(context == device.context for context, _ in module.execs):
            return True
        folder = Path(str(wp.config.kernel_cache_dir)) / module.get_module_identifier(variant)
        return folder.is_dir() and any(file.suffix in _COMPILED[device.is_cpu] for file in folder.iterdir())
    except (AttributeError, TypeError, ValueError, KeyError, OSError):
        # these are no part of Warp's public interface
        return True


def compile_modules(device: wp.Device) -> None:
    """Compile all imported modules of weft for a device that are not compiled yet, one after the other."""
    import warp._src.context as context

    modules = [module for name, module in sorted(context.user_modules.items()) if name.startswith("weft.")]
    for module in modules:
        # clusters of thread blocks are there on CUDA only
        if device.is_cpu and module.name.startswith("weft.clusters."):
            continue
        if not is_compiled(module, device):
            with announced(module, device):
                wp.force_load(device, modules=[module], max_workers=0)


def _say_once(name: str, seconds: float | None) -> None:
    """Where nobody shows progress: one line in a terminal or a notebook."""
    global _said
    if not _said and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print("weft: compiling kernels, once on this machine; `weft warmup` does it beforehand", file=sys.stderr)
    _said = True


def choose_cache() -> None:
    """Before Warp starts: keep compiled kernels in a temporary folder where their usual one cannot be written, and say so."""
    usual = wp.config.kernel_cache_dir or os.environ.get("WARP_CACHE_PATH") or _user_cache()
    try:
        Path(usual).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=usual):
            return
    except OSError as error:
        reason = error.strerror or str(error)
    user = os.getuid() if hasattr(os, "getuid") else 0
    instead = Path(tempfile.gettempdir()) / f"weft-kernels-{user}"
    instead.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and instead.stat().st_uid != user:
        # somebody else's folder under this name: kernels from there would be run
        instead = Path(tempfile.mkdtemp(prefix="weft-kernels-"))
    wp.config.kernel_cache_dir = str(instead)
    warnings.warn(
        f"compiled kernels cannot be kept in {usual} ({reason.lower()}), and are kept in {instead}; the environment variable "
        "WARP_CACHE_PATH names another folder",
        WeftWarning,
        stacklevel=2,
    )


def _user_cache() -> str:
    """The folder that Warp chooses for the compiled kernels of this user."""
    from warp._src.thirdparty import appdirs

    return str(appdirs.user_cache_dir(appname="warp", appauthor="NVIDIA", version=wp.config.version))
