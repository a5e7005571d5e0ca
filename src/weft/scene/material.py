"""Materials of cloth in SI units, and the presets by name."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from weft.scene.messages import shown, suggest
from weft.scene.model import NotNegative, Positive, SceneModel, check_friction, sliding_friction

Preset = Literal["cotton", "silk", "denim", "wool", "leather", "chiffon"]

# numbers and their sources: docs/materials.md, which a test compares with this table
PRESETS: dict[str, dict[str, float]] = {
    "cotton": {
        "density": 0.15,
        "stretch": 500.0,
        "shear": 60.0,
        "bend": 5e-06,
        "damping": 0.0005,
        "friction": 0.5,
        "friction_kinetic": 0.4,
    },
    "silk": {
        "density": 0.08,
        "stretch": 400.0,
        "shear": 20.0,
        "bend": 2e-06,
        "damping": 0.0002,
        "friction": 0.3,
        "friction_kinetic": 0.25,
    },
    "denim": {
        "density": 0.4,
        "stretch": 1500.0,
        "shear": 150.0,
        "bend": 3e-05,
        "damping": 0.0005,
        "friction": 0.6,
        "friction_kinetic": 0.5,
    },
    "wool": {
        "density": 0.25,
        "stretch": 600.0,
        "shear": 50.0,
        "bend": 1e-05,
        "damping": 0.0005,
        "friction": 0.5,
        "friction_kinetic": 0.45,
    },
    "leather": {
        "density": 0.7,
        "stretch": 4000.0,
        "shear": 1500.0,
        "bend": 0.0002,
        "damping": 0.001,
        "friction": 0.6,
        "friction_kinetic": 0.5,
    },
    "chiffon": {
        "density": 0.04,
        "stretch": 250.0,
        "shear": 10.0,
        "bend": 6e-07,
        "damping": 0.0002,
        "friction": 0.35,
        "friction_kinetic": 0.3,
    },
}


# the preset of tables that name none
_COTTON = PRESETS["cotton"]


class Material(SceneModel):
    """The material of a cloth. Values that are not given come from the preset.

    `material = "silk"` is `Material(preset="silk")`; `material = {preset = "silk", bend = 1e-5}` is stiffer silk.
    """

    preset: Preset = Field(default="cotton", description="the material that fills in what is not given here")
    density: Positive = Field(
        default=_COTTON["density"], description="mass of the cloth, kg/m^2; default: the preset's"
    )
    stretch: Positive = Field(
        default=_COTTON["stretch"], description="stiffness against stretching, N/m; default: the preset's"
    )
    shear: NotNegative = Field(
        default=_COTTON["shear"], description="stiffness against shearing, N/m; default: the preset's"
    )
    bend: NotNegative = Field(
        default=_COTTON["bend"], description="stiffness against bending, N m; default: the preset's"
    )
    damping: NotNegative = Field(
        default=_COTTON["damping"],
        description="internal damping: damping coefficient over stiffness, s; default: the preset's",
    )
    friction: NotNegative = Field(
        default=_COTTON["friction"], description="coefficient of static friction; default: the preset's"
    )
    friction_kinetic: NotNegative = Field(
        default=_COTTON["friction_kinetic"],
        description="coefficient of sliding friction; default: `friction` where that is given, else the preset's",
    )
    thickness: Positive | None = Field(default=None, description="m; default: the scene's")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Fill in the values of the preset that are not given."""
        if not isinstance(data, Mapping):
            return data
        preset = data.get("preset", "cotton")
        if not isinstance(preset, str) or preset not in PRESETS:
            # the wrong preset is reported elsewhere; with any valid numbers the other mistakes are found too
            preset = "cotton"
        return {**PRESETS[preset], **data, **sliding_friction(data)}

    @model_validator(mode="after")
    def _check_friction(self) -> "Material":
        check_friction(self.friction, self.friction_kinetic)
        return self

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; a new preset replaces all values that were not given explicitly."""
        table = self.plain()
        given = {"preset": table} if isinstance(table, str) else table
        return type(self)(**{**given, **changes})

    def plain(self) -> Any:
        """The name of the preset, or a table with the values that differ from it."""
        usual = PRESETS[self.preset]
        table: dict[str, Any] = {"preset": self.preset}
        for name in usual:
            value = getattr(self, name)
            default = usual[name]
            if name == "friction_kinetic" and "friction" in table:
                default = self.friction
            if value != default:
                table[name] = value
        if self.thickness is not None:
            table["thickness"] = self.thickness
        return self.preset if len(table) == 1 else table


def _read_material(value: Any, info: ValidationInfo) -> Any:
    """Accept the name of a preset instead of a table."""
    if isinstance(value, str):
        if value not in PRESETS:
            raise ValueError(f"no material is called {shown(value)}, {suggest(value, list(PRESETS))}")
        return MATERIALS[value]
    if not isinstance(value, Material | Mapping):
        raise ValueError(f"must be the name of a material or a table, not {shown(value)}")
    return value


MaterialField = Annotated[Material, BeforeValidator(_read_material)]

MATERIALS: dict[str, Material] = {name: Material.model_validate({"preset": name}) for name in get_args(Preset)}
