"""Documentation of all keys of a scene, generated from the models so that it cannot go out of date."""

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from weft.scene.arrays import Samples
from weft.scene.bodies import Cloth, Collider, Painted, Pin
from weft.scene.creases import Crease
from weft.scene.files import write_value
from weft.scene.material import FEATURES, MATERIALS, Directions, Material
from weft.scene.methods import Flypaper, Follow, MethodOptions, Region, methods_that_model
from weft.scene.model import KEYS, SceneModel, toml_value
from weft.scene.motion import MOTIONS, Keyframe
from weft.scene.placement import Placement
from weft.scene.scene import Camera, Forces, Garment, Scene, Seam, Wind
from weft.scene.shape import SHAPES


def describe_scene() -> str:
    """All keys, in Markdown: a section for each table, with what each key means, its type and its default."""
    sections = [
        _section("The scene", "the top of the file", Scene),
        _section("Cloth", "`[[cloth]]`", Cloth),
        _section("Collider", "`[[collider]]`", Collider),
        _section("Placement", "`placement` of a cloth or collider", Placement),
        _section("Material", "`material` of a cloth", Material),
        _section(
            "Directions", "`stretch`, `shear` and `bend` of a material, where they are no single number", Directions
        ),
        _section("Painted", "`painted` of a cloth", Painted),
        _section("Crease", "`[[cloth.creases]]`", Crease),
        _section("Pin", "`[[cloth.pins]]`", Pin),
        _section("Seam", "`[[seam]]`", Seam),
        _section("Garment", "`garment`, one table, or several as `[[garment]]`", Garment),
        _section("Forces", "`[forces]`", Forces),
        _section("Wind", "`[forces.wind]`", Wind),
        _section("Camera", "`[camera]`", Camera),
        _choices("Shapes", "`shape` of a cloth or collider; `kind` says which.", SHAPES),
        _choices("Motions", "`motion` of a collider or pin; `kind` says which.", MOTIONS),
        _section("Keyframe", "`keyframes` of a path", Keyframe),
        _choices("Methods", "`method`: the name alone, or a table `[method]` with `name`.", MethodOptions.known),
        _section("Flypaper", "`[[method.flypaper]]` of `untangle`", Flypaper),
        _section("Region", "`[[method.regions]]` of `predictive`", Region),
        _section("Follow", "`[[method.follow]]` of `predictive`", Follow),
    ]
    return "\n\n".join(sections) + "\n"


def describe_presets() -> str:
    """The table of the material presets."""
    columns = {
        "density": "kg/m²",
        "stretch": "N/m",
        "shear": "N/m",
        "bend": "N m",
        "stretch_limit": "",
        "yield_curvature": "1/m",
        "bend_hysteresis": "1/m",
        "damping": "s",
        "friction": "",
        "friction_kinetic": "",
    }
    head = ["material", *(f"{name} ({unit})" if unit else name for name, unit in columns.items())]
    rows = [
        [f"`{name}`", *(f"{getattr(preset, column):g}" for column in columns)] for name, preset in MATERIALS.items()
    ]
    return "\n".join(_table(head, rows))


def describe_features() -> str:
    """Which method, with its default options, models which features of materials."""
    rows = [
        [feature, *("yes" if name in methods_that_model(key) else "refused" for name in MethodOptions.known)]
        for key, feature in FEATURES.items()
    ]
    return "\n".join(_table(["", *(f"`{name}`" for name in MethodOptions.known)], rows))


def _section(title: str, where: str, model: type[SceneModel]) -> str:
    return "\n".join([f"## {title}", "", f"{_sentence(where)}.", "", _prose(model), "", *_keys(model)])


def _choices(title: str, where: str, models: Mapping[str, type[SceneModel]]) -> str:
    lines = [f"## {title}", "", where]
    for name, model in models.items():
        lines += ["", f"### {name}", "", _prose(model)]
        if len(model.model_fields) > 1:
            lines += ["", *_keys(model, without=("kind", "name"))]
    return "\n".join(lines)


def _prose(model: type[SceneModel]) -> str:
    """The docstring as paragraphs."""
    paragraphs = (model.__doc__ or "").partition(f"\n{KEYS}\n")[0].strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _keys(model: type[SceneModel], without: tuple[str, ...] = ()) -> list[str]:
    rows = []
    for name, field in model.model_fields.items():
        if name in without:
            continue
        meaning, _, default = (field.description or "").partition("default: ")
        kind = "file name" if name in model.file_fields else words(field.annotation, field.metadata)
        rows.append(
            [
                f"`{model.toml_names.get(name, name)}`",
                kind,
                default or _default(model, name, field),
                meaning.rstrip("; "),
            ]
        )
    return list(_table(["key", "type", "default", "meaning"], rows))


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _default(model: type[SceneModel], name: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "needed"
    if default is None or default == ():
        return "none"
    plain = toml_value(default)
    return f"`{write_value(plain)}`" if plain != {} else "as below"


def words(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """The type of a key in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner, *more = arguments
        return words(inner, [*more, *metadata])
    if origin in (Union, types.UnionType):
        kinds = [a for a in arguments if a is not type(None)]
        if kinds == [Samples]:
            return "array"
        if kinds == [float, Directions]:
            return "number, 3 numbers or table"
        if kinds[0] is str:
            return "list of numbers or text"
        if len(kinds) > 1:
            # shapes and motions: their section lists them
            return "table"
        return words(kinds[0], metadata)
    if origin is Literal:
        return ", ".join(f"`{write_value(a)}`" for a in arguments)
    if origin is tuple:
        return _tuple_words(arguments)
    if isinstance(annotation, type) and issubclass(annotation, MethodOptions | Material):
        return "text or table"
    if isinstance(annotation, type) and issubclass(annotation, SceneModel):
        return "table"
    name = {float: "number", int: "whole number", bool: "true or false", str: "text"}[annotation]
    limits = _limits(metadata)
    return f"{name} {limits}" if limits else name


def _tuple_words(arguments: tuple[Any, ...]) -> str:
    item = words(arguments[0])
    if arguments[-1] is Ellipsis:
        return f"list of {_plural(item)}"
    if len(arguments) == 2 and get_origin(get_args(arguments[0])[0] if get_args(arguments[0]) else None) is tuple:
        return "2 lists of 3 numbers"
    return f"{len(arguments)} {_plural(item)}"


def _plural(item: str) -> str:
    noun, space, limits = item.partition(" ")
    if noun == "whole":
        return f"whole {_plural(limits)}"
    return f"{noun}s{space}{limits}" if noun[0].isalpha() else f"lists of {item}"


def _limits(metadata: Iterable[Any]) -> str:
    signs = {Gt: ">", Ge: "≥", Lt: "<", Le: "≤"}
    found = []
    for item in _flat(metadata):
        for kind, sign in signs.items():
            if isinstance(item, kind):
                limit = getattr(item, kind.__name__.lower())
                # limits as large as that of seeds are not worth printing
                found += [f"{sign} {limit:g}"] if limit < 1e9 else []
    return ", ".join(found)


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from _flat(item.metadata)
        else:
            yield item


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
