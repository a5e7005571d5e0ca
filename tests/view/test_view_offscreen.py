"""Finding an OpenGL: what is taken, and the sentence when there is none (VTK would end the process)."""

import sys

import pytest

from weft.errors import WeftError
from weft.view import stage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere VTK brings its own")


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.delenv(stage.WINDOW, raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    stage.find_window.cache_clear()
    yield
    stage.find_window.cache_clear()


def only(monkeypatch, *names):
    real = stage._load
    monkeypatch.setattr(stage, "_load", lambda name: real("libc.so.6") if name in names else None)


def test_without_any_library_one_line_says_what_to_install(monkeypatch):
    only(monkeypatch)
    with pytest.raises(WeftError, match="apt-get install libegl1"):
        stage.import_pyvista()


def test_osmesa_will_do(monkeypatch):
    only(monkeypatch, "libOSMesa.so.8")
    assert stage.find_window() == "vtkOSOpenGLRenderWindow"


def test_an_egl_without_a_device_does_not_count(monkeypatch):
    monkeypatch.setattr(stage, "_egl_works", lambda: False)
    only(monkeypatch)
    with pytest.raises(WeftError):
        stage.find_window()


def test_a_screen_will_do(monkeypatch):
    only(monkeypatch, "libGL.so.1")
    monkeypatch.setenv("DISPLAY", ":0")
    assert stage.find_window() is None


def test_what_the_user_set_stands(monkeypatch):
    only(monkeypatch)
    monkeypatch.setenv(stage.WINDOW, "vtkOSOpenGLRenderWindow")
    assert stage.find_window() is None
