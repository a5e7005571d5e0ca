"""Loads and stores of whole vectors from arrays, and the division of a vector, in fewer CUDA instructions.

The CUDA compiler does not know that arrays of vectors are aligned, and loads them component by component; these functions use
one or two wide loads. On the CPU they are plain array accesses and a plain division.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

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
