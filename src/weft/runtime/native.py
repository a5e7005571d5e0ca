"""C++ that Warp cannot generate: read from headers, `native/*.h` beside the module that wraps it; and vector loads.

A header holds the bodies of one or more functions, each in a section of its own:

    // [lane_sum] double lane_sum(double value)
    #if defined(__CUDA_ARCH__)
    for (int offset = $WARP / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    #endif
    return value;

and the module gives the section to `wp.func_native`, with the Python constants that it names:

    _native = NativeHeader(__file__, "reduction.h")

    @wp.func_native(_native.body("lane_sum", WARP=WARP))
    def lane_sum(value: wp.float64) -> wp.float64: ...

A section may contain another one of the same header with a line `// [include name]`. `$NAME` stands for a constant, or
for C++ text that the caller composed; a name without a value and a value without a name are errors, so that a
number is typed once, in Python.

The functions here load and store whole vectors, and divide a vector, in fewer CUDA instructions. The CUDA compiler does not
know that arrays of vectors are aligned, and loads them component by component; these use one or two wide loads. On the CPU
they are plain array accesses and a plain division.
"""

# mypy: disable-error-code="empty-body"

import re
from pathlib import Path
from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})

_SECTION = re.compile(r"^// \[(\w+)\].*\n", re.MULTILINE)
_INCLUDE = re.compile(r"^([ \t]*)// \[include (\w+)\][^\n]*\n", re.MULTILINE)
_NAME = re.compile(r"\$(\w+)")


class NativeHeader:
    """The sections of the header `name` in the folder `native` beside a Python file."""

    def __init__(self, python_file: str, name: str) -> None:
        self.path = Path(python_file).parent / "native" / name
        pieces = _SECTION.split(self.path.read_text(encoding="utf-8"))
        self._sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        if len(self._sections) < len(pieces) // 2:
            raise ValueError(f"{self.path} has two sections of one name: {', '.join(pieces[1::2])}")

    def body(self, section: str, **values: Any) -> str:
        """The text of a section, with what it includes, and every `$NAME` replaced by its value."""
        text = self._with_includes(section)
        wanted = set(_NAME.findall(text))
        if wanted != set(values):
            missing, unused = sorted(wanted - set(values)), sorted(set(values) - wanted)
            raise ValueError(f"[{section}] of {self.path}: no value for {missing}, no use for {unused}")
        return _NAME.sub(lambda match: _literal(values[match[1]]), text)

    def _with_includes(self, section: str) -> str:
        if section not in self._sections:
            raise ValueError(f"{self.path} has no section [{section}]; it has {', '.join(self._sections)}")

        def include(match: re.Match[str]) -> str:
            indent, name = match.groups()
            return "".join(indent + line for line in self._with_includes(name).splitlines(keepends=True))

        return _INCLUDE.sub(include, self._sections[section])


def _literal(value: Any) -> str:
    """A Python value as C++ text: strings as they are, booleans and numbers as literals, constants of Warp by their value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    number = getattr(value, "value", value)
    if not isinstance(number, int | float):
        raise TypeError(f"{value!r} is no number and no C++ text")
    return repr(number)


_native = NativeHeader(__file__, "vector_loads.h")


@wp.func_native(_native.body("load_vec4i"))
def load_vec4i(values: wp.array[wp.vec4i], i: int) -> wp.vec4i:
    """values[i], in one load."""
    ...


@wp.func_native(_native.body("store_vec4i"))
def store_vec4i(values: wp.array[wp.vec4i], i: int, value: wp.vec4i):
    """values[i] = value, in one store."""
    ...


@wp.func_native(_native.body("load_vec2i"))
def load_vec2i(values: wp.array[wp.vec2i], i: int) -> wp.vec2i:
    """values[i], in one load."""
    ...


@wp.func_native(_native.body("load_vec4d"))
def load_vec4d(values: wp.array[wp.vec4d], i: int) -> wp.vec4d:
    """values[i], in two loads."""
    ...


@wp.func_native(_native.body("store_vec4d"))
def store_vec4d(values: wp.array[wp.vec4d], i: int, xyz: wp.vec3d, w: wp.float64):
    """values[i] = (xyz, w), in two stores."""
    ...


@wp.func_native(_native.body("load_vec2d"))
def load_vec2d(values: wp.array[wp.vec2d], i: int) -> wp.vec2d:
    """values[i], in one load."""
    ...


@wp.func_native(_native.body("divide"))
def divide(v: wp.vec3d, by: wp.float64) -> wp.vec3d:
    """v / by; on CUDA with one division and three multiplications."""
    ...
