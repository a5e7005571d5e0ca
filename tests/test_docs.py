"""What the README and the docs show runs as it is printed, and lists everything there is."""

import importlib.util
import re
import runpy
import shlex
import tempfile
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from patterns import save, vest
from typer.testing import CliRunner

import weft
from weft.cli.main import COMMANDS, app, load_command
from weft.cli.start import SCENE as FLAG
from weft.cli.start import TEMPLATE
from weft.mesh import save_mesh, shapes
from weft.methods.base import METHODS
from weft.scene import MethodOptions

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def blocks(page: str | Path, language: str) -> list[str]:
    """The code of a page in one language, block by block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def execute(code: str) -> dict:
    # from a file, since Warp reads the source of kernels
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "printed.py"
        path.write_text(code, encoding="utf-8")
        return runpy.run_path(str(path))


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def hooks():
    spec = importlib.util.spec_from_file_location("weft_docs_hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readme_runs_as_printed(folder, capsys):
    (code,) = blocks("README.md", "python")
    assert len(code.splitlines()) <= 5
    said = execute(code)
    assert said["cache"].complete and said["cache"].frames == 61
    assert capsys.readouterr().out.splitlines()[-1] == "(4243, 3) 0"

    # the file says the same scene
    (text,) = blocks("README.md", "toml")
    assert len(text.splitlines()) <= 5
    Path("drape.toml").write_text(text)
    scene = weft.load_scene("drape.toml")
    assert scene == said["cache"].scene
    call("run", "drape.toml", "-o", "file.zarr", "--frames", "2", "--quiet")
    cache = weft.open_cache("file.zarr")
    assert cache.positions(2).tobytes() == said["cache"].positions(2).tobytes()


def test_the_tutorial_runs_as_printed(folder, capsys):
    call("new", "curtain.toml")
    (code,) = blocks("docs/tutorial.md", "python")
    cache = execute(code)["cache"]
    assert cache.frames == 31
    assert re.fullmatch(r"the curtain reaches down to 0\.\d\d m, worst .*%", capsys.readouterr().out.splitlines()[-1])


def test_the_tutorial_changes_the_scene_as_it_says(folder):
    (collider,) = blocks("docs/tutorial.md", "toml")
    # the collider is what `weft new` writes, without the comment signs
    template = TEMPLATE.read_text(encoding="utf-8")
    commented = "".join(f"# {line}\n" for line in collider.splitlines())
    assert commented in template
    Path("curtain.toml").write_text(template.replace(commented, collider))
    scene = weft.load_scene("curtain.toml")
    assert scene.method.name == "guarded" and [c.name for c in scene.colliders] == ["ball"]


def test_a_new_scene_shows_the_defaults():
    settings = TEMPLATE.read_text(encoding="utf-8").split("[[cloth]]")[0]
    shown = tomllib.loads("\n".join(re.findall(r"^# (\w+ = .*#.*)$", settings, re.MULTILINE)))
    assert set(shown) >= {"method", "device", "thickness", "seed", "check"}
    for key, value in shown.items():
        default = weft.Scene.model_fields[key].default
        assert value == (default.name if key == "method" else default), key


def test_the_page_about_python_runs_as_printed(folder):
    Path("flag.toml").write_bytes(FLAG.read_bytes())
    for code in [*blocks("docs/python.md", "python"), *blocks("docs/robots.md", "python")]:
        execute(code)
    assert weft.open_cache("flag.zarr").report.frames == 11
    assert weft.load_mesh("sphere.obj").face_areas.sum() > 0.0


def test_the_page_about_real_time_runs_as_printed(folder):
    Path("flag.toml").write_bytes(FLAG.read_bytes())
    for code in blocks("docs/realtime.md", "python"):
        # the others are pieces of a program
        if code.startswith("import"):
            execute(code)


def test_the_page_about_garments_runs_as_printed(folder):
    save_mesh(shapes.capsule(0.14, 0.8, segments=16).transformed(np.diag([1.25, 1.0, 1.0, 1.0])), "body.obj")
    save(vest(y=10), Path("shirt.json"))
    names: dict = {}
    for code in blocks("docs/garments.md", "python"):
        exec(code.replace("edge=0.02", "edge=0.06"), names)
    assert names["dressed"].ok
    (scene,) = blocks("docs/garments.md", "toml")
    assert [cloth.name for cloth in weft.scene.parse_scene(scene).cloths] == ["shirt"]


def test_the_page_about_caches_tells_what_is_there(folder, capsys):
    cloth = weft.Cloth(name="sheet", shape=weft.Grid(cells=(3, 3)), pins=[weft.Pin(boundary="all")])
    cache = weft.simulate(weft.Scene(cloths=[cloth], frames=2), "out.zarr", progress=False)
    (code,) = blocks("docs/cache.md", "python")
    execute(code)
    mean = cache.positions(-1).mean(axis=0)
    assert capsys.readouterr().out == f"sheet {mean}\n"
    # every file of a cache is in the listing, and every key in the table
    text = (DOCS / "cache.md").read_text()
    for path in Path("out.zarr").rglob("*"):
        top, *rest = path.relative_to("out.zarr").parts
        assert f"  {top}" in text or f"  {top}/{rest[0]}" in text, path
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(cache.meta)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_called_as_printed(page):
    lines = [line for text in blocks(page, "sh") for line in text.splitlines() if line.startswith("weft ")]
    lines += re.findall(r"`(weft [a-z]+ [^`]*)`", page.read_text(encoding="utf-8"))
    for line in lines:
        _, name, *arguments = shlex.split(line, comments=True)
        assert name in COMMANDS, line
        if "--help" not in arguments and "COMMAND" not in line:
            # reads the line and complains of what it does not know, without running it
            load_command(name).make_context(name, arguments)


def test_the_page_of_commands_names_all_of_them(hooks):
    text = hooks.describe_commands()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(COMMANDS)
    for name, section in sections.items():
        described = set(re.findall(r"`(--?[\w-]+)[ `]", section.split("| --- |", 1)[1]))
        parameters = [p for p in load_command(name).params if p.name != "help"]
        real = {o for p in parameters if p.param_type_name == "option" for o in (*p.opts, *p.secondary_opts)}
        assert described >= real, f"weft {name}"
        # nothing but options, or what their descriptions mention
        assert {o for o in described - real if f"| `{o}" in section} == set()
        for p in parameters:
            assert p.help.replace("<", "&lt;") in section
            if p.param_type_name == "argument":
                assert f"| `{p.name.upper()}` |" in section
    assert "<!-- all commands -->" in (DOCS / "commands.md").read_text()


def test_the_page_of_names_lists_all_of_them(hooks):
    named = re.findall(r"^\| `weft\.(\w+)` \| \w+ \| [A-Z0-9].*\. \|$", hooks.describe_names(), re.MULTILINE)
    assert sorted(named) == sorted(set(weft.__all__) - {"__version__"})
    assert "<!-- all public names -->" in (DOCS / "python.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md"])
def test_methods_of_the_tables_exist(page):
    text = (ROOT / page).read_text()
    table = re.search(r"^\| name \|.*?\n\n", text, re.MULTILINE | re.DOTALL)[0]
    names = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert {"plain", "robust"} <= set(names)
    for name in names:
        assert name in MethodOptions.known
        module, _, method = METHODS[name].partition(":")
        assert getattr(import_module(module), method).name == name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def names_something(name: str) -> bool:
    """Whether a dotted name is that of a module, of what is in one, or of a field or an attribute there."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        try:
            found = import_module(".".join(words[:count]))
        except ImportError:
            continue
        for word in words[count:]:
            fields = {**getattr(found, "model_fields", {}), **getattr(found, "__annotations__", {})}
            if not hasattr(found, word) and word not in fields:
                return False
            found = getattr(found, word, None)
        return True
    return False


def test_names_are_checked():
    assert names_something("weft.contact.contact.CollisionSearch.free_step") and names_something("weft.Scene.fps")
    assert not names_something("weft.contact.nothing") and not names_something("weft.Scene.nothing")


# the changelog names what is gone
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_names_and_files_in_the_text_exist(page):
    text = page.read_text(encoding="utf-8")
    loggers = {"weft.memory"}
    named = set(re.findall(r"\bweft(?:\.\w+)+", text)) - loggers
    assert sorted(name for name in named if not names_something(name)) == []
    files = set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|h|ipynb))`", text))
    tops = [ROOT / top for top in ("", "src", "src/weft")]
    assert sorted(file for file in files if not any((top / file).exists() for top in tops)) == []


def test_files_in_the_page_about_the_code_exist():
    text = (DOCS / "code.md").read_text(encoding="utf-8")
    diagrams = re.findall(r"^### (\w+)\n.*?^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in diagrams] == ["robust", "guarded", "untangle", "predictive"]
    for name, diagram in diagrams:
        boxes = re.findall(r"[a-z_]+/[a-z_/]*(?:\.py)?", diagram)
        assert 5 <= len(boxes) <= 12, name
        assert [box for box in boxes if not (ROOT / "src" / "weft" / box).exists()] == [], name
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text)
    assert [path for path in named if not any((ROOT / top / path).exists() for top in ("", "src/weft"))] == []


def test_the_picture_is_small_and_its_scene_is_there():
    assert (DOCS / "images" / "drape.png").stat().st_size < 400_000
    scene = weft.load_scene(DOCS / "images" / "drape.toml")
    assert scene.method.name == "guarded"
