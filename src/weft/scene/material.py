"""Materials of cloth in SI units, and the presets by name.

A stiffness is one number, or three: along the warp (u), along the weft (v), and along the bias at 45 degrees to both. Three
numbers of stretch and one of shear are a linear orthotropic membrane, three of bend an orthotropic plate.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import BeforeValidator, Field, PlainValidator, TypeAdapter, ValidationInfo, model_validator

from weft.scene.messages import shown, suggest
from weft.scene.model import (
    Bound,
    NotNegative,
    Number,
    Positive,
    SceneModel,
    check_friction,
    sliding_friction,
    toml_value,
    unwrap,
)

Preset = Literal["cotton", "silk", "denim", "wool", "leather", "chiffon", "linen"]

# numbers and their sources: docs/materials.md, which a test compares with this table
PRESETS: dict[str, dict[str, float]] = {
    "cotton": {
        "density": 0.15,
        "stretch": 500.0,
        "shear": 60.0,
        "bend": 1.6e-05,
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
        "stretch": 10000.0,
        "shear": 150.0,
        "bend": 7e-05,
        "damping": 0.0005,
        "friction": 0.6,
        "friction_kinetic": 0.5,
    },
    "wool": {
        "density": 0.25,
        "stretch": 10000.0,
        "shear": 50.0,
        "bend": 1.5e-05,
        "damping": 0.0005,
        "friction": 0.5,
        "friction_kinetic": 0.45,
    },
    "leather": {
        "density": 0.7,
        "stretch": 4000.0,
        "shear": 1500.0,
        "bend": 5e-05,
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
    "linen": {
        "density": 0.19,
        "stretch": 10000.0,
        "shear": 80.0,
        "bend": 2e-05,
        "stretch_limit": 0.04,
        "yield_curvature": 100.0,
        "bend_hysteresis": 10.0,
        "damping": 0.0005,
        "friction": 0.5,
        "friction_kinetic": 0.4,
    },
}


# the preset of tables that name none
_COTTON = PRESETS["cotton"]
# N/m: that of a steel sheet of 0.05 mm, a hundred times that of any cloth; stiffer springs are lost in rounding
STIFFEST = 1e7
# kg/m^2: that of graphene is 8e-7, that of a steel plate of 100 mm 800; beyond them forces over masses leave what numbers hold
LIGHTEST, HEAVIEST = 1e-7, 1e4
# what a material can say beyond one number each for stretch, shear and bend; a method says which of these it models
FEATURES = {
    "directions": "a stiffness that depends on the direction",
    "painted": "a painted stiffness",
    "creases": "a rest shape with creases",
    "stretch_limit": "a limit of stretch",
    "yield_curvature": "a crease that stays",
    "bend_hysteresis": "friction between yarns",
}


class Directions(SceneModel):
    """A stiffness that depends on the direction."""

    warp: NotNegative = Field(description="along the warp: u of the rest shape")
    weft: NotNegative = Field(description="along the weft: v of the rest shape")
    bias: NotNegative | None = Field(
        default=None, description="at 45 degrees to both; default: what warp, weft and shear imply"
    )

    @property
    def mean(self) -> float:
        """That of warp and weft."""
        return 0.5 * (self.warp + self.weft)


def _read_stiffness(value: Any, info: ValidationInfo) -> float | Directions:
    """One number, three numbers, or a table of directions; `stretch` has to be more than 0 and not absurdly stiff."""
    value = unwrap(value)
    if isinstance(value, Directions):
        table = value
    elif isinstance(value, Mapping):
        for name, other in (("warp", "weft"), ("weft", "warp")):
            if name not in value:
                there = next((key for key in (other, "bias") if key in value), None)
                without = f"has {there} and no {name}" if there else f"has no {name}"
                raise ValueError(f"{without}: give one number, or warp and weft (and bias)")
        table = Directions.model_validate(value, context=info.context)
    elif isinstance(value, list | tuple):
        if len(value) != 3:
            raise ValueError(f"must be one number or three (warp, weft, bias), not {shown(value)}")
        table = Directions.model_validate(dict(zip(("warp", "weft", "bias"), value, strict=True)), context=info.context)
    else:
        return _NUMBERS["stretch" if info.field_name == "stretch" else "other"].validate_python(value)
    if info.field_name == "stretch":
        for name in ("warp", "weft", "bias"):
            number = getattr(table, name)
            if number is not None and not 0.0 < number <= STIFFEST:
                raise ValueError(f"{name} must be more than 0 and at most {STIFFEST:g}, not {number:g}")
    return table


_NUMBERS: dict[str, TypeAdapter[float]] = {
    "stretch": TypeAdapter(Annotated[Number, Field(gt=0, le=STIFFEST, allow_inf_nan=False)]),
    "other": TypeAdapter(Annotated[Number, Field(ge=0, le=STIFFEST, allow_inf_nan=False)]),
}
Stiffness = Annotated[float | Directions, PlainValidator(_read_stiffness)]


class Material(SceneModel):
    """The material of a cloth. Values that are not given come from the preset.

    `material = "silk"` is `Material(preset="silk")`; `material = {preset = "silk", bend = 1e-5}` is stiffer silk.
    """

    preset: Preset = Field(default="cotton", description="the material that fills in what is not given here")
    density: Annotated[Number, Field(ge=LIGHTEST, le=HEAVIEST)] = Field(
        default=_COTTON["density"], description="mass of the cloth, kg/m^2; default: the preset's"
    )
    stretch: Stiffness = Field(
        default=_COTTON["stretch"],
        description="stiffness against stretching, N/m: one number, or {warp, weft, bias}; default: the preset's",
    )
    shear: Stiffness = Field(
        default=_COTTON["shear"],
        description="stiffness against shearing, N/m: one number, or {warp, weft, bias}; default: the preset's",
    )
    bend: Stiffness = Field(
        default=_COTTON["bend"],
        description="stiffness against bending, N m: one number, or {warp, weft, bias}; default: the preset's",
    )
    stretch_limit: Annotated[Bound, Field(gt=0)] = Field(
        default=math.inf,
        description="strain along the threads beyond which the cloth does not give, such as 0.03; inf: it always does; "
        "default: the preset's",
    )
    yield_curvature: Annotated[Bound, Field(gt=0)] = Field(
        default=math.inf,
        description="curvature beyond which a bend stays as a crease, 1/m; inf: none stays; default: the preset's",
    )
    bend_hysteresis: NotNegative = Field(
        default=0.0,
        description="curvature that friction between the yarns keeps in cloth that was bent and let go, 1/m; default: the "
        "preset's",
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

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """All numbers, also those of the preset."""
        return ((name, getattr(self, name)) for name in type(self).model_fields)

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
    def _check(self) -> "Material":
        check_friction(self.friction, self.friction_kinetic)
        self.membrane()
        self.rigidities()
        return self

    def mean(self, name: str) -> float:
        """`stretch`, `shear` or `bend` as one number: the mean of warp and weft where there are three."""
        value = getattr(self, name)
        return value.mean if isinstance(value, Directions) else float(value)

    def membrane(self) -> np.ndarray:
        """The tensor C (3, 3) in N/m: forces per width (warp, weft, shear) from strains (warp, weft, shear angle).

        Pulled along the warp alone cloth has the stiffness `stretch.warp`, along the weft `stretch.weft`, at 45 degrees
        `stretch.bias`; this last number, or the shear stiffness along the bias, says how much cloth narrows when it is pulled.
        Without either it does not. Stress is symmetric, so that shear along warp and weft have one stiffness: their mean.
        """
        stretch, shear = self.stretch, self.mean("shear")
        warp, weft = (stretch.warp, stretch.weft) if isinstance(stretch, Directions) else (stretch, stretch)
        bias = stretch.bias if isinstance(stretch, Directions) else None
        across = self.shear.bias if isinstance(self.shear, Directions) else None
        cross = 0.0
        if bias is not None and across is not None:
            raise ValueError("stretch.bias and shear.bias both say how much cloth narrows when it is pulled: give one")
        largest = 1.0 / math.sqrt(warp * weft)
        if bias is not None:
            if shear == 0.0:
                raise ValueError(
                    f"stretch.bias = {bias:g} is impossible without shear stiffness: at 45 degrees it is 0"
                )
            free = 1.0 / warp + 1.0 / weft + 1.0 / shear
            cross = 0.5 * (4.0 / bias - free)
            if not abs(cross) < largest:
                low, high = 4.0 / (free + 2.0 * largest), 4.0 / max(free - 2.0 * largest, 1e-300)
                raise ValueError(f"stretch.bias = {bias:g} must be between {low:.4g} and {high:.4g} for these numbers")
        if across is not None:
            free = 1.0 / warp + 1.0 / weft
            cross = 0.5 * (free - 1.0 / max(across, 1e-300))
            if not abs(cross) < largest:
                low = 1.0 / (free + 2.0 * largest)
                raise ValueError(f"shear.bias = {across:g} must be more than {low:.4g} for these numbers")
        direct = np.linalg.inv(np.array([[1.0 / warp, cross], [cross, 1.0 / weft]]))
        tensor = np.zeros((3, 3))
        tensor[:2, :2], tensor[2, 2] = direct, shear
        return tensor

    def rigidities(self) -> tuple[float, float, float]:
        """Rigidities of an orthotropic plate in N m: along the warp, along the weft, and of twist.

        With curvatures k the energy per area is (warp k_uu^2 + weft k_vv^2 + 4 twist k_uv^2) / 2. Bent along the bias, the
        rigidity is (warp + weft) / 4 + twist; where it is not given it is the mean of warp and weft.
        """
        bend = self.bend
        if not isinstance(bend, Directions):
            return bend, bend, 0.5 * bend
        twist = 0.5 * bend.mean if bend.bias is None else bend.bias - 0.5 * bend.mean
        if twist < 0.0:
            raise ValueError(
                f"bend.bias = {bend.bias:g} must be at least a quarter of warp + weft, {0.5 * bend.mean:g}"
            )
        return bend.warp, bend.weft, twist

    def unusual(self) -> dict[str, str]:
        """What is said here beyond the preset and beyond one number each: key -> one of `FEATURES`."""
        table = self.plain()
        given = {} if isinstance(table, str) else table
        found = {name: name for name in FEATURES if name in given}
        found |= {name: "directions" for name in ("stretch", "shear", "bend") if isinstance(given.get(name), dict)}
        return found

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; a new preset replaces all values that were not given explicitly."""
        table = self.plain()
        given = {"preset": table} if isinstance(table, str) else table
        return type(self)(**{**given, **changes})

    def plain(self) -> Any:
        """The name of the preset, or a table with the values that differ from it."""
        usual = PRESETS[self.preset]
        table: dict[str, Any] = {"preset": self.preset}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            default = usual.get(name, field.default)
            if name == "friction_kinetic" and "friction" in table:
                default = self.friction
            if name != "preset" and value != default:
                table[name] = toml_value(value)
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
