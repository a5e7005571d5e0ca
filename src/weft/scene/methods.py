"""The options of each method: one class a method, found by its name.

A new method adds one class here; its `name` is then known to scenes, to TOML and to the docs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from weft.scene.fields import Count, Number, Whole
from weft.scene.messages import shown, suggest
from weft.scene.part import Part, choose

Key = tuple[str | int, ...]
Dynamics = Literal["mass_spring", "position_based", "implicit"]


class MethodOptions(Part):
    """The options of a method; `name` says which."""

    always_written = ("name",)
    known: ClassVar[dict[str, type[Part]]] = {}

    name: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        MethodOptions.known[cls.model_fields["name"].default] = cls

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """What is wrong with these options in a scene with these cloths and colliders: keys and texts."""
        return iter(())

    def plain(self) -> Any:
        """The name alone where all options have their defaults."""
        table = super().plain()
        return self.name if len(table) == 1 else table


class Plain(MethodOptions):
    """Internal dynamics only: gravity, wind, springs, pins; nothing is done about contact."""

    name: Literal["plain"] = "plain"
    dynamics: Dynamics = Field(
        default="position_based",
        description="the model of the cloth: mass_spring (explicit, small steps), position_based (fast) or implicit "
        "(Baraff and Witkin 1998, whole frames a step)",
    )


class Robust(MethodOptions):
    """Bridson, Fedkiw and Anderson 2002: cloth that starts free of intersections stays free of them."""

    name: Literal["robust"] = "robust"
    dynamics: Dynamics = Field(default="position_based", description="the model of the cloth between collisions")
    steps: Count = Field(default=6, description="collision steps a frame while nothing goes wrong")
    halvings: Annotated[Whole, Field(ge=0, le=10)] = Field(
        default=3, description="how often a step that collides may be halved before impact zones resolve it"
    )
    strain_limit: Annotated[Number, Field(gt=0, lt=1)] = Field(
        default=0.1,
        description="how far an edge may end a step from its rest length, and how much a step may change its length",
    )
    end_velocity: Literal["carried", "implicit"] = Field(
        default="carried",
        description="the velocity of cloth that touched something: carried (what the dynamics propose, changed as contacts "
        "changed the motion) or implicit (the average velocity of the step and an implicit half step of all springs)",
    )
    sweeps: Count = Field(
        default=3, description="sweeps of Gauss-Seidel over the contacts after the dynamics, while nothing collides"
    )


def _choose_method(value: Any, info: ValidationInfo) -> Any:
    known = MethodOptions.known
    if isinstance(value, str):
        if value not in known:
            raise ValueError(f"no method is called {shown(value)}, {suggest(value, list(known))}")
        return known[value].model_validate({}, context=info.context)
    if value is None or not isinstance(value, Part | Mapping):
        raise ValueError(f"must be the name of a method or a table with the key 'name', not {shown(value)}")
    return choose(value, info, "name", known)


Method = Annotated[SerializeAsAny[MethodOptions], BeforeValidator(_choose_method)]
