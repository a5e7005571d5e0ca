"""From where pictures are taken."""

from typing import Annotated

from pydantic import Field

from weft.scene.fields import Number, Vector
from weft.scene.part import Part


class Camera(Part):
    """From where pictures are taken; what is not given is chosen so that everything is in the picture."""

    position: Vector | None = Field(default=None, description="m; default: chosen")
    target: Vector | None = Field(
        default=None, description="the point in the middle of the picture, m; default: chosen"
    )
    fov_deg: Annotated[Number, Field(gt=0, lt=180)] = Field(default=35.0, description="vertical angle of view, degrees")
