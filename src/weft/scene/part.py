"""What all parts of a scene have in common: frozen, exact about their keys, clear about mistakes."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationInfo, model_validator
from pydantic_core import ValidationError

from weft.errors import SceneError
from weft.scene.messages import problem, reword, shown, suggest


class Part(BaseModel):
    """A piece of a scene. Made with keywords, never changed; `replace` makes a changed copy."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False)

    # fields that have another name in TOML: field -> key
    toml_names: ClassVar[dict[str, str]] = {}
    # fields that name files, relative to the scene's folder
    file_fields: ClassVar[tuple[str, ...]] = ()
    # fields that are written even where they hold their default
    always_written: ClassVar[tuple[str, ...]] = ()

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise SceneError("\n".join(error_lines(error, type(self).__name__))) from None

    # nested parts are then read in one pass, and all mistakes of a scene are listed together
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Give each mistake its final text here, where the keys of the part are known."""
        try:
            return handler(data)
        except ValidationError as error:
            in_toml = bool(info.context and info.context.get("toml"))
            raise reword(error, cls.__name__, cls.keys(toml=in_toml)) from None

    @classmethod
    def keys(cls, *, toml: bool = False) -> list[str]:
        """The keys of this part, as Python or as TOML spells them."""
        return [cls.toml_names.get(name, name) if toml else name for name in cls.model_fields]

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **changes})

    def plain(self) -> Any:
        """This part as TOML holds it: tables, lists, numbers, texts; defaults left out."""
        table: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            default = field.get_default(call_default_factory=True)
            if value is None or (value == default and name not in self.always_written):
                continue
            table[self.toml_names.get(name, name)] = plain_value(value)
        return table


def plain_value(value: Any) -> Any:
    """A field's value as TOML holds it."""
    if isinstance(value, Part):
        return value.plain()
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    return value


def choose(value: Any, info: ValidationInfo, by: str, choices: Mapping[str, type[Part]]) -> Any:
    """Read a table as the part that its key `by` names; parts and None pass as they are."""
    if value is None or isinstance(value, Part):
        if isinstance(value, Part) and not isinstance(value, tuple(choices.values())):
            raise ValueError(f"must be one of {', '.join(c.__name__ for c in choices.values())}, not {shown(value)}")
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a table with the key '{by}', not {shown(value)}")
    name = value.get(by)
    if name is None:
        raise ValueError(f"needs the key '{by}', one of {', '.join(choices)}")
    if not isinstance(name, str) or name not in choices:
        raise ValueError(f"{by} = {shown(name)} is unknown, {suggest(str(name), list(choices))}")
    return choices[name].model_validate(value, context=info.context)


def error_lines(error: ValidationError, where: str, names: Mapping[str, str] | None = None) -> list[str]:
    """All mistakes, one line each; `names` are those of top-level fields that are called otherwise in TOML."""
    lines = []
    for detail in error.errors(include_url=False):
        first, *rest = detail["loc"] or ("",)
        location = [(names or {}).get(str(first), first), *rest] if detail["loc"] else []
        # what a part finds when all its fields are right is not reworded
        lines.append(problem(where, location, detail["msg"].removeprefix("Value error, ")))
    return lines
