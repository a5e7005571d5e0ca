"""Vertices of a cloth that are held, and how they move while they are."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from weft.scene.fields import BoundVector, Indices, Positive
from weft.scene.motion import Motion, Still
from weft.scene.part import Part

Boundary = Literal[
    "left",
    "right",
    "top",
    "bottom",
    "corners",
    "top_left",
    "top_right",
    "bottom_left",
    "bottom_right",
    "all",
]


class Pin(Part):
    """Vertices that are held: chosen by index, by a box or by a boundary, exactly one of the three."""

    indices: Annotated[Indices, Field(min_length=1)] | None = Field(default=None, description="vertex numbers, from 0")
    box: tuple[BoundVector, BoundVector] | None = Field(
        default=None,
        description="all vertices in a box: its smallest and its largest corner, in the world before anything moves, "
        "m; inf leaves a side open",
    )
    boundary: Boundary | None = Field(
        default=None,
        description="a side or corner of a grid or strip, its four corners, the top or bottom of a cylinder, or (any "
        "mesh) all boundary vertices",
    )
    motion: Motion = Field(default=Still(), description="how the held vertices move, from where they are placed")
    until: Positive | None = Field(default=None, description="when they are released, s; default: never")

    @model_validator(mode="after")
    def _check_choice(self) -> "Pin":
        given = [n for n in ("indices", "box", "boundary") if getattr(self, n) is not None]
        if len(given) != 1:
            what = " and ".join(given) if given else "none of them"
            raise ValueError(f"needs exactly one of indices, box and boundary, and has {what}")
        if self.box is not None:
            for axis, low, high in zip("xyz", *self.box, strict=True):
                if not low <= high:
                    raise ValueError(f"box is empty along {axis}: {low:g} is not below {high:g}")
        return self


def _one_or_more(value: Any) -> Any:
    """A single pin needs no list."""
    return (value,) if isinstance(value, Pin) else value


Pins = Annotated[tuple[Pin, ...], BeforeValidator(_one_or_more)]
