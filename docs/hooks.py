"""mkdocs hook: pages whose tables come from the code are filled in when the site is built."""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from typer.models import ArgumentInfo

import weft
from weft.cli.main import COMMANDS

# mkdocs loads this file alone, without its folder
sys.path.append(str(Path(__file__).parent))
from describe_scene import describe_features, describe_presets, describe_scene


def describe_commands() -> str:
    """All commands, in Markdown: what each does, its arguments and its options with their defaults."""
    return "\n".join(line for name in COMMANDS for line in _command(name))


# what the public names that are no classes or functions hold
DATA = {"MATERIALS": "The presets of materials by name."}


def describe_names() -> str:
    """The public names, in Markdown, each with the first sentence of its documentation."""
    rows = []
    for name in sorted(set(weft.__all__) - {"__version__"}, key=str.lower):
        thing = getattr(weft, name)
        kind = "class" if isinstance(thing, type) else "function" if callable(thing) else "table"
        text = DATA[name] if kind == "table" else _sentence(thing)
        rows.append(f"| `weft.{name}` | {kind} | {text} |")
    return "\n".join(["| name | | meaning |", "| --- | --- | --- |", *rows])


def describe_api() -> str:
    """A section for each public name, which mkdocstrings fills from its docstrings."""
    sections = []
    for name in sorted(set(weft.__all__) - {"__version__"}, key=str.lower):
        thing = getattr(weft, name)
        if callable(thing):
            sections.append(f"## {name}\n\n::: {thing.__module__}.{thing.__qualname__}")
    return "\n\n".join(sections)


FILLED = {
    "<!-- api -->": describe_api,
    "<!-- all keys of a scene -->": describe_scene,
    "<!-- all presets -->": describe_presets,
    "<!-- all features -->": describe_features,
    "<!-- all commands -->": describe_commands,
    "<!-- all public names -->": describe_names,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each mark by its generated text."""
    for mark, write in FILLED.items():
        if mark in markdown:
            markdown = markdown.replace(mark, write())
    return markdown


def _command(name: str) -> Iterator[str]:
    module, _, function = COMMANDS[name].partition(":")
    command = getattr(import_module(module), function)
    parameters = [Parameter(p) for p in inspect.signature(command).parameters.values()]
    usage = " ".join([name, *(p.spelling for p in parameters if p.is_argument), "[OPTIONS]"])
    yield from (f"## {name}", "", "```text", f"weft {usage}", "```", "", _prose(command.__doc__), "")
    yield from ("| option | meaning | default |", "| --- | --- | --- |")
    # arguments first, then options
    for p in sorted(parameters, key=lambda p: not p.is_argument):
        yield f"| {p.shown} | {_cell(p.info.help)} | {p.default} |"
    yield ""


class Parameter:
    """An argument or option of a command, read from the annotation that typer reads."""

    def __init__(self, parameter: inspect.Parameter) -> None:
        self.kind, self.info = get_args(parameter.annotation)
        self.name, self._value = parameter.name, parameter.default
        self.is_argument = isinstance(self.info, ArgumentInfo)
        self.needed = self._value is inspect.Parameter.empty
        self.is_flag = self.kind is bool
        # typer keeps the first name where a default would be
        given = [n for n in (self.info.default, *(self.info.param_decls or ())) if isinstance(n, str)]
        # "--full/--quick" are two names of a flag
        self._given = [name for text in given for name in text.split("/")]

    @property
    def spelling(self) -> str:
        return self.name.upper() if self.needed else f"[{self.name.upper()}]"

    @property
    def shown(self) -> str:
        """`--out PATH`, `-o PATH`; `--check`, `--no-check`."""
        if self.is_argument:
            return f"`{self.name.upper()}`"
        names = self.names
        if self.is_flag:
            return ", ".join(f"`{name}`" for name in names)
        return ", ".join(f"`{name} {self._what}`" for name in names)

    @property
    def names(self) -> list[str]:
        """The names of the option; a flag without explicit names also has one that turns it off."""
        if self._given:
            return self._given
        long = self.name.replace("_", "-")
        return [f"--{long}", f"--no-{long}"] if self.is_flag else [f"--{long}"]

    @property
    def default(self) -> str:
        if self.needed:
            return "needed"
        if isinstance(self.info.show_default, str):
            return self.info.show_default
        if self._value is None or (self.is_flag and self._given):
            return ""
        if self.is_flag:
            return f"`{self.names[0 if self._value else 1]}`"
        return f"`{self._value}`"

    @property
    def _what(self) -> str:
        """What follows the option."""
        kinds = [kind for kind in get_args(self.kind) or (self.kind,) if kind is not type(None)]
        kind = (get_args(kinds[0]) or kinds)[0]
        return {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}[kind]


def _prose(text: str | None) -> str:
    """A docstring as paragraphs."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").strip().split("\n\n"))


def _sentence(thing: Any) -> str:
    """The first sentence of a docstring."""
    first = _prose(thing.__doc__).split("\n\n")[0]
    return _cell(re.split(r"(?<=[.;:])\s", first, maxsplit=1)[0].rstrip(".;: ")) + "."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
