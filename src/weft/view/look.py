"""What pictures are like, for those who pass it on before it is drawn."""

from dataclasses import dataclass

from weft.view.fields import Colour


@dataclass(frozen=True)
class Look:
    """How pictures are drawn; `samples` is for traced ones, None for others."""

    size: tuple[int, int]
    colour: Colour = "body"
    wireframe: bool = False
    crossings: bool = False
    draft: bool = False
    samples: int | None = None
    motion_blur: bool = False
