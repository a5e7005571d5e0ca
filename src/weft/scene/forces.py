"""What pulls and blows on the cloth."""

from typing import Annotated

from pydantic import Field

from weft.scene.fields import NotNegative, Number, Positive, Seed, Vector
from weft.scene.part import Part


class Wind(Part):
    """Moving air, felt by each triangle along its normal (drag) and across the flow (lift)."""

    velocity: Vector = Field(description="of the air, m/s")
    gust: Annotated[Number, Field(ge=0, le=1)] = Field(
        default=0.0, description="how much the speed comes and goes: 0 steady, 1 between nothing and twice the speed"
    )
    gust_period: Positive = Field(default=2.0, description="typical time from gust to gust, s")
    drag: NotNegative = Field(default=1.0, description="drag coefficient")
    lift: NotNegative = Field(default=0.5, description="lift coefficient")
    seed: Seed | None = Field(default=None, description="of the random gusts; default: the scene's")


class Forces(Part):
    """What pulls and blows on the cloth."""

    gravity: Vector = Field(default=(0.0, -9.81, 0.0), description="m/s^2; y is up")
    wind: Wind | None = Field(default=None, description="moving air; default: none")
    air_damping: NotNegative = Field(default=0.0, description="rate at which still air slows every vertex, 1/s")
