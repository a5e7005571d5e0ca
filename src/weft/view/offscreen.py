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
EGL_PLATFORM_DEVICE = 0x313F
MOST_DEVICES = 32
OSMESA = ("libOSMesa.so", "libOSMesa.so.8", "libOSMesa.so.6")


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _egl_works() -> bool:
    # a library without a driver behind it is as good as none: start one of its devices, as VTK will
    os.environ.setdefault("EGL_LOG_LEVEL", "fatal")
    egl = _load("libEGL.so.1")
    if egl is None:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    display_of = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not display_of:
        return False
    pointer, number, yes = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
    query_devices = ctypes.CFUNCTYPE(yes, number, ctypes.POINTER(pointer), ctypes.POINTER(number))(query)
    get_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(display_of)
    egl.eglInitialize.argtypes = [pointer, pointer, pointer]
    egl.eglTerminate.argtypes = [pointer]

    devices, count = (pointer * MOST_DEVICES)(), number(0)
    if not query_devices(MOST_DEVICES, devices, ctypes.byref(count)):
        return False
    for device in devices[: count.value]:
        display = get_display(EGL_PLATFORM_DEVICE, device, None)
        if display and egl.eglInitialize(display, None, None):
            egl.eglTerminate(display)
            return True
    return False


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
    raise WeftError("drawing needs an OpenGL library: install one with  apt-get install libegl1 libgl1-mesa-dri")


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
