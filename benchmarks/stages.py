"""Which stage of a step a kernel belongs to: the room of the module that defines it."""

import warp as wp


def stage_of(kernel: wp.Kernel) -> str:
    """The room of a kernel, such as "dynamics"; of contact, which is several stages, the module as well."""
    _, *path = kernel.module.name.replace("weft.clusters.", "weft.", 1).split(".")
    room = path[0].replace("_", " ")
    if room in ("contact", "methods") and len(path) > 1:
        return f"{room}, {path[1].replace('_', ' ')}"
    return room
