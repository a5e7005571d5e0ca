"""The options of the method `untangle`."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from weft.scene.fields import Count, Flag, Name, NotNegative, Positive
from weft.scene.messages import unknown
from weft.scene.methods import Key, MethodOptions
from weft.scene.part import Part


class Flypaper(Part):
    """How much pinched cloth goes with one collider, against others that pinch it too."""

    collider: Name = Field(description="the collider that the weight is of")
    weight: NotNegative = Field(default=1.0, description="only proportions count: 1 and 9 are a tenth and the rest")
    map: tuple[NotNegative, ...] | None = Field(
        default=None, description="factors of the weight, one for each vertex of all cloths; default: 1 everywhere"
    )


class Untangle(MethodOptions):
    """Baraff, Witkin and Kass 2003: implicit cloth that finds its way out of tangles, and pinches without flutter."""

    name: Literal["untangle"] = "untangle"
    steps: Count | None = Field(default=None, description="steps a frame; default: as many as make them 1/60 s at most")
    begin: NotNegative = Field(
        default=0.0, description="time before which cloth passes through cloth as if it were not there, s"
    )
    attract: Flag = Field(
        default=True, description="pull back what has passed through; without, all cloth that is near is pushed apart"
    )
    pinch: Flag = Field(
        default=True, description="carry pinched cloth with what pinches it; without, contacts fight over it"
    )
    depth: Positive = Field(
        default=0.05, description="how deep in a collider cloth may be and is still brought back, or held if pinched, m"
    )
    flypaper: tuple[Flypaper, ...] = Field(default=(), description="weights of colliders; all others have 1")

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """Names of colliders that are not there."""
        for i, flypaper in enumerate(self.flypaper):
            if flypaper.collider not in colliders:
                yield ("flypaper", i, "collider"), unknown("collider", flypaper.collider, colliders)
