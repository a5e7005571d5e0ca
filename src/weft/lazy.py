"""Public names: those of a package are imported on first use, since their modules compile kernels or need optional packages."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

Made = TypeVar("Made")


def shows(names: str) -> Callable[[type[Made]], type[Made]]:
    """What `dir` and completion list of the objects of a class: what callers use, without what only weft itself uses."""

    def decorate(kind: type[Made]) -> type[Made]:
        listed = sorted(names.split())
        kind.__dir__ = lambda self: listed  # type: ignore[method-assign]
        return kind

    return decorate


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
        # with these two Python says what is meant
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])

    return load, lambda: sorted([*sys.modules[package].__all__, *rooms])
