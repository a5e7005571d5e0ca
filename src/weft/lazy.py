"""Public names of a package that are imported on first use, since their modules compile kernels or need optional packages."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], rooms: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    modules: public name -> the module that defines it. rooms: names of subpackages that can be entered as attributes.
    """
    rooms = tuple(rooms)

    def load(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        if name in rooms:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted([*sys.modules[package].__all__, *rooms])
