"""The base class of everything in a scene, and the types of its keys: numbers, vectors, names, file names.

Numbers are strict: `"60"` and `true` are refused where a number is expected, and a whole number is accepted for a real
one. numpy scalars and arrays are accepted wherever Python numbers and lists are.
"""

import inspect
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Never, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, ValidationError

from weft.errors import SceneError
from weft.scene.messages import listed, problem, reword, shown, suggest


def unwrap(value: Any) -> Any:
    """numpy scalars and arrays as plain Python values; anything else as it is."""
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def sliding_friction(table: Mapping[str, Any]) -> dict[str, Any]:
    """`friction_kinetic` for a table that gives only `friction`: the same."""
    static = unwrap(table.get("friction"))
    # a value that is no coefficient is reported once, for `friction`
    good = isinstance(static, int | float) and not isinstance(static, bool) and 0.0 <= static < math.inf
    return {"friction_kinetic": static} if good and "friction_kinetic" not in table else {}


def check_friction(static: float, kinetic: float) -> None:
    """Refuse a kinetic friction coefficient that exceeds the static one."""
    if kinetic > static:
        raise ValueError(
            f"friction_kinetic = {kinetic:g} is more than friction = {static:g}: "
            "sliding friction cannot exceed static friction"
        )


def _as_text(value: Any) -> Any:
    """A `pathlib.Path` as text with forward slashes."""
    return os.fspath(value).replace(os.sep, "/") if isinstance(value, os.PathLike) else value


def _checked_name(value: str) -> str:
    """Names end up in file names and USD paths: no separators and no control characters."""
    if not value.strip():
        raise ValueError("must not be empty")
    if any(c in "/\\" or not c.isprintable() for c in value):
        raise ValueError(f"must not hold slashes or control characters, not {value!r}")
    return value


def _checked_colour(value: str) -> str:
    if not re.fullmatch("#[0-9a-fA-F]{6}", value):
        raise ValueError(f"must be a colour like '#3366cc', not {value!r}")
    return value


def _checked_device(value: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise ValueError(f"must be 'cpu', 'cuda' or 'cuda:' with a number, not {value!r}")
    return value


def _checked_whole(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"must fit 64 bits, which {shown(value)} does not")
    return value


def _checked_file(value: str) -> str:
    if not value.strip():
        raise ValueError("must name a file, not an empty string")
    if "\0" in value:
        raise ValueError("must not hold a null character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("must be a file name that can be written as UTF-8") from None
    return value


Number = Annotated[float, Strict(), BeforeValidator(unwrap)]
# of 64 bits, as in TOML: arrays and files cannot hold others
Whole = Annotated[int, Strict(), BeforeValidator(unwrap), AfterValidator(_checked_whole)]
Flag = Annotated[bool, Strict(), BeforeValidator(unwrap)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]

Vector = Annotated[tuple[Number, Number, Number], BeforeValidator(unwrap)]
Pair = Annotated[tuple[Positive, Positive], BeforeValidator(unwrap)]
Count = Annotated[Whole, Field(ge=1)]
# of steps, sweeps or rounds: a million of them would take hours for any cloth
LoopCount = Annotated[Whole, Field(ge=1, lt=1_000_000)]
CountPair = Annotated[tuple[Count, Count], BeforeValidator(unwrap)]
CountTriple = Annotated[tuple[Count, Count, Count], BeforeValidator(unwrap)]
PositiveVector = Annotated[tuple[Positive, Positive, Positive], BeforeValidator(unwrap)]

# a number that may be infinite: the side of a box that is open
Bound = Annotated[float, Strict(), Field(allow_inf_nan=True), BeforeValidator(unwrap)]
BoundVector = Annotated[tuple[Bound, Bound, Bound], BeforeValidator(unwrap)]

# the range that both TOML integers and random generators accept
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Index = Annotated[Whole, Field(ge=0)]
Indices = Annotated[tuple[Index, ...], BeforeValidator(unwrap)]

Name = Annotated[str, AfterValidator(_checked_name)]
Colour = Annotated[str, AfterValidator(_checked_colour)]
Device = Annotated[str, AfterValidator(_checked_device)]
FileName = Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked_file)]


# what stands before the list of keys in the docstring of a model
KEYS = "Keys:"


if TYPE_CHECKING:
    # type checkers read the keys from pydantic's own metaclass
    from pydantic._internal._model_construction import ModelMetaclass as _ModelKind
else:

    class _ModelKind(type(BaseModel)):
        """The type of scene models, which keeps what pydantic adds to them out of `dir` and so of `help`."""

        def __dir__(cls) -> list[str]:
            own = {name for kind in cls.__mro__ if kind.__module__.startswith("weft.") for name in vars(kind)}
            hidden = {"model_config", "toml_names", "file_fields", "always_written", "known"}
            return sorted(name for name in own - hidden if not name.startswith("_"))


def _models_in(annotation: Any) -> Iterator["type[SceneModel]"]:
    """The models that a value of this type may be, or a list of it may hold."""
    if isinstance(annotation, type) and issubclass(annotation, SceneModel):
        yield annotation
        for kind in annotation.__subclasses__():
            yield from _models_in(kind)
    for part in get_args(annotation):
        yield from _models_in(part)


class SceneModel(BaseModel, metaclass=_ModelKind):
    """Anything that is a table in a scene file. Immutable and made with keywords; `replace` makes a changed copy."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False)

    # fields that have another name in TOML: field -> key
    toml_names: ClassVar[dict[str, str]] = {}
    # fields that name files, relative to the scene's folder
    file_fields: ClassVar[tuple[str, ...]] = ()
    # fields that are written even where they hold their default
    always_written: ClassVar[tuple[str, ...]] = ()

    def __init__(self, /, *nameless: Never, **data: Any) -> None:
        if nameless:
            kind, keys = type(self).__name__, [key for key in self.keys() if key != "kind"]
            known = f"as in {kind}({keys[0]}=...); known are {listed(keys)}" if keys else "and there are none"
            raise SceneError(f"{kind}: values are given by name, {known}")
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise SceneError("\n".join(error_lines(error, type(self).__name__))) from None

    # nested models are then validated in one pass, so that all mistakes of a scene are listed together
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Give each mistake its final text here, where the valid keys of the model are known."""
        try:
            return handler(data)
        except ValidationError as error:
            in_toml = bool(info.context and info.context.get("toml"))
            raise reword(error, cls.__name__, cls.keys(toml=in_toml), cls._inner_keys(in_toml)) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """A short signature for `help` and editors: the keys and their defaults, without pydantic's types."""
        super().__pydantic_init_subclass__(**kwargs)
        keys = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_short_default(field))
            for name, field in cls.model_fields.items()
        ]
        cls.__signature__ = inspect.Signature(keys)
        described = [
            f"    {name}: {field.description}" for name, field in cls.model_fields.items() if field.description
        ]
        cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), *(["", KEYS, *described] if described else [])])

    def __dir__(self) -> list[str]:
        """The keys and weft's own methods, without those of pydantic."""
        return sorted({*type(self).model_fields, *dir(type(self))})

    def __setattr__(self, name: str, value: Any) -> None:
        """Scenes do not change: say how to make a changed copy."""
        if not name.startswith("_"):
            kind = type(self).__name__
            if name not in type(self).model_fields:
                raise SceneError(f"{kind}: {name}: unknown key, {suggest(name, self.keys())}")
            text = f"a {kind} cannot be changed; {kind.lower()}.replace({name}={shown(value)}) makes a changed copy"
            raise SceneError(f"{kind}: {name}: {text}")
        super().__setattr__(name, value)

    def __str__(self) -> str:
        return repr(self)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What `repr` shows: the keys that do not have their default."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.get_default(call_default_factory=True):
                yield name, value

    @classmethod
    def keys(cls, *, toml: bool = False) -> list[str]:
        """The keys of this model, as Python or as TOML spells them."""
        return [cls.toml_names.get(name, name) if toml else name for name in cls.model_fields]

    @classmethod
    def _inner_keys(cls, toml: bool) -> dict[str, str]:
        """The keys of the tables in this model, each with its path, such as `forces.gravity`."""
        found: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            outer = cls.toml_names.get(name, name) if toml else name
            for kind in _models_in(field.annotation):
                for key in kind.keys(toml=toml):
                    found.setdefault(key, f"{outer}.{key}")
        return found

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **changes})

    def plain(self) -> Any:
        """The model as plain TOML values (tables, lists, numbers, strings), without keys that have their default."""
        table: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            default = field.get_default(call_default_factory=True)
            if value is None or (value == default and name not in self.always_written):
                continue
            table[self.toml_names.get(name, name)] = toml_value(value)
        return table


class _Shown:
    """A default in a signature that is shown as some words."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        return self._words


def _short_default(field: FieldInfo) -> Any:
    """The default of a key for a signature."""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return inspect.Parameter.empty
    return _Shown(f"{type(default).__name__}()") if isinstance(default, SceneModel) else default


def one_or_more(value: Any) -> Any:
    """A single model as a list of one."""
    return (value,) if isinstance(value, SceneModel) else value


def toml_value(value: Any) -> Any:
    """The value of a field as plain TOML values."""
    if isinstance(value, SceneModel):
        return value.plain()
    if isinstance(value, list | tuple):
        return [toml_value(v) for v in value]
    return value


def read_choice(value: Any, info: ValidationInfo, by: str, choices: Mapping[str, type[SceneModel]]) -> Any:
    """Validate a table as the model that its key `by` names; models and None pass unchanged."""
    if value is None or isinstance(value, SceneModel):
        if isinstance(value, SceneModel) and not isinstance(value, tuple(choices.values())):
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
    """All mistakes, one line each; `names` maps top-level fields to their names in TOML where these differ."""
    lines = []
    for detail in error.errors(include_url=False):
        first, *rest = detail["loc"] or ("",)
        location = [(names or {}).get(str(first), first), *rest] if detail["loc"] else []
        # messages of validators that run after all fields were valid are final already
        lines.append(problem(where, location, detail["msg"].removeprefix("Value error, ")))
    return lines
