"""Finding an OpenGL: what is taken, and the sentence when there is none (VTK would end the process)."""

import sys

import pytest

from weft.errors import WeftError
from weft.view import offscreen

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere VTK brings its own")


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.delenv(offscreen.WINDOW, raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    offscreen.find_window.cache_clear()
    yield
    offscreen.find_window.cache_clear()


def only(monkeypatch, *names):
    real = offscreen._load
    monkeypatch.setattr(offscreen, "_load", lambda name: real("libc.so.6") if name in names else None)


def test_without_any_library_one_line_says_what_to_install(monkeypatch):
    only(monkeypatch)
    with pytest.raises(WeftError, match="apt-get install libegl1"):
        offscreen.import_pyvista()


def test_osmesa_will_do(monkeypatch):
    only(monkeypatch, "libOSMesa.so.8")
    assert offscreen.find_window() == "vtkOSOpenGLRenderWindow"


def test_an_egl_without_a_device_does_not_count(monkeypatch):
    monkeypatch.setattr(offscreen, "_egl_works", lambda: False)
    only(monkeypatch)
    with pytest.raises(WeftError):
        offscreen.find_window()


def test_a_screen_will_do(monkeypatch):
    only(monkeypatch, "libGL.so.1")
    monkeypatch.setenv("DISPLAY", ":0")
    assert offscreen.find_window() is None


def test_what_the_user_set_stands(monkeypatch):
    only(monkeypatch)
    monkeypatch.setenv(offscreen.WINDOW, "vtkOSOpenGLRenderWindow")
    assert offscreen.find_window() is None
