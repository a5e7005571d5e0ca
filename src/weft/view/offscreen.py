"""Drawing without a screen: find an OpenGL that VTK can use, or say in one line what to install.

VTK ends the process when it finds none, so the libraries are tried here first.
"""

import ctypes
import os
import sys
from functools import cache
from typing import Any

from weft.errors import WeftError, missing_extra

# VTK reads this when it makes its first window
WINDOW = "VTK_DEFAULT_OPENGL_WINDOW"
OSMESA = ("libOSMesa.so", "libOSMesa.so.8", "libOSMesa.so.6")


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _egl_works() -> bool:
    # a library without a driver behind it is as good as none: ask it for a display
    egl = _load("libEGL.so.1")
    if egl is None:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not query:
        return False
    devices = ctypes.c_int(0)
    prototype = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    return bool(prototype(query)(0, None, ctypes.byref(devices))) and devices.value > 0


@cache
def find_window() -> str | None:
    """The kind of VTK window to draw into on Linux; None leaves the choice to VTK. Raises when there is none."""
    if not sys.platform.startswith("linux") or os.environ.get(WINDOW):
        return None
    if _egl_works():
        return "vtkEGLRenderWindow"
    if any(_load(name) for name in OSMESA):
        return "vtkOSOpenGLRenderWindow"
    if os.environ.get("DISPLAY") and _load("libGL.so.1"):
        return None
    raise WeftError(
        "drawing needs an OpenGL library: install one with  apt-get install libegl1 libgl1  (or libosmesa6)"
    )


def import_pyvista() -> Any:
    """PyVista, set up to draw without a screen."""
    window = find_window()
    if window is not None:
        os.environ[WINDOW] = window
    try:
        import pyvista
    except ImportError as error:
        raise missing_extra("render", "pyvista") from error
    return pyvista
