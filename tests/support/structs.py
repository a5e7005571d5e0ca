"""Structs of arrays for kernels under test: only the fields that matter are given."""

import warp as wp


def struct_of(kind, **given):
    """A struct whose fields are given as arrays of any kind; the others are empty, or 0."""
    made = kind()
    for name, field in kind.vars.items():
        value = given.pop(name, None)
        if not isinstance(field.type, wp.array) and not hasattr(field.type, "ndim"):
            setattr(made, name, 0 if value is None else value)
        elif isinstance(value, wp.array):
            setattr(made, name, value)
        elif value is None:
            shape = (0,) * field.type.ndim
            setattr(made, name, wp.zeros(shape, dtype=field.type.dtype, device="cpu"))
        else:
            setattr(made, name, wp.array(value, dtype=field.type.dtype, ndim=field.type.ndim, device="cpu"))
    assert not given, f"no such fields: {given}"
    return made
