"""The page of all keys names them all, and the docs show only what works."""

import importlib.util
import re
from pathlib import Path

import pytest
from describe_scene import describe_presets, describe_scene
from scene_strategies import all_parts

import weft
from weft.errors import SceneError
from weft.scene import MethodOptions, parse_scene
from weft.scene.material import MATERIALS, PRESETS
from weft.scene.motion import MOTIONS, Function
from weft.scene.shape import SHAPES

DOCS = Path(__file__).parents[2] / "docs"


def sections():
    """Title -> the keys of its table."""
    text = describe_scene()
    parts = re.split(r"^#{2,3} (.+)$", text, flags=re.MULTILINE)[1:]
    return {
        title: set(re.findall(r"^\| `(\w+)`", body, re.MULTILINE))
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_key_of_every_part_is_described():
    tables = sections()
    for part in all_parts():
        # a function is Python only; the page is about files
        if part is Function:
            continue
        keys = set(part.keys(toml=True))
        kind = part.model_fields.get("kind") or part.model_fields.get("name")
        if part in (*SHAPES.values(), *MOTIONS.values(), *MethodOptions.known.values()):
            assert tables[kind.default] == keys - {"kind", "name"}, part
        else:
            title = {"Scene": "The scene"}.get(part.__name__, part.__name__)
            assert tables[title] == keys, part
    assert len(tables) >= len(all_parts())


def test_every_key_has_words():
    for part in all_parts():
        for name, field in part.model_fields.items():
            if name not in ("kind", "name") or part.__name__ == "Seam":
                assert field.description, f"{part.__name__}.{name}"
    # no Python type shows through
    assert not re.search(r"Annotated|Literal|typing|<class|None", describe_scene())


def test_defaults_in_the_page_are_the_defaults():
    page = describe_scene()
    assert "| `fps` | number ≥ 0.001, ≤ 1e+07 | `60.0` | frames a second |" in page
    assert "| `velocity` | 3 numbers | needed | of the air, m/s |" in page
    assert "| `until` | number > 0 | never | when they are released, s |" in page


def test_the_pages_are_filled_in_when_the_site_is_built():
    spec = importlib.util.spec_from_file_location("weft_docs_hooks", DOCS / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    for page, table in (("scenes.md", describe_scene()), ("materials.md", describe_presets())):
        raw = (DOCS / page).read_text()
        assert table not in raw
        filled = hooks.on_page_markdown(raw, page=None, config=None, files=None)
        assert table in filled
        assert "<!--" not in filled


def test_the_examples_of_the_page_say_the_same():
    text = (DOCS / "scenes.md").read_text()
    toml, python = (
        re.sub(r"^    ", "", block, flags=re.MULTILINE)
        for block in re.findall(r"```(?:toml|python)\n(.*?)```", text, re.DOTALL)[:2]
    )
    said = {}
    exec(python, said)
    assert parse_scene(toml) == said["scene"]
    assert isinstance(said["scene"], weft.Scene)


def test_the_mistakes_of_the_page_are_real():
    text = (DOCS / "scenes.md").read_text()
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1].splitlines()
    wrong = "frames = 0\ncloth = [{shape = {kind = 'grid'}, materal = 1, pins = [{boundary = 'lef'}]}]"
    with pytest.raises(SceneError) as caught:
        parse_scene(wrong, source="flag.toml")
    real = str(caught.value).splitlines()
    for line in shown:
        start, _, end = line.partition("...")
        assert any(r.startswith(start) and r.endswith(end) for r in real), line


def test_the_materials_page_speaks_of_every_preset_with_its_numbers():
    text = (DOCS / "materials.md").read_text()
    for name, numbers in PRESETS.items():
        assert f"**{name}**" in text, f"docs/materials.md has no source for {name}"
        row = next(line for line in describe_presets().splitlines() if line.startswith(f"| `{name}` |"))
        columns = [cell.split()[0] for cell in describe_presets().splitlines()[0].split("|")[2:-1]]
        assert numbers.keys() <= set(columns)
        assert [float(cell) for cell in row.split("|")[2:-1]] == [getattr(MATERIALS[name], n) for n in columns]
    # the numbers that the text derives
    leather = PRESETS["leather"]
    assert leather["stretch"] == 5e6 * 0.8e-3
    assert abs(leather["bend"] / (5e6 * 0.8e-3**3 / 12) - 1 / 4) < 0.02
    denim = PRESETS["denim"]
    assert 6.4e-5 < denim["bend"] < 1.2 * 6.4e-5
    assert 84 < denim["shear"] < 191
    # 500 gf/cm over an extension of 4.7 to 5.7 %, and what rounding adds
    assert 0.95 * 490.0 / 0.057 < denim["stretch"] < 1.05 * 490.0 / 0.047
    assert all(n["density"] * 9.81 / n["stretch"] < 0.005 for n in PRESETS.values())
    assert all(0.3 <= n["friction"] <= 0.6 for n in PRESETS.values())
