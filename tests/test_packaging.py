"""What publishing relies on: one version, one name, dependencies that all recipes agree on, workflows that name real things."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
yaml = pytest.importorskip("yaml")


def load(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    place = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{weft.__version__}"' in place.read_text(encoding="utf-8")


def test_everything_says_weft_cloth():
    """`pip install weft` would install another project."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("no repository here")
    wrong = re.compile(r"pip install (?:--?[\w-]+ )*'?weft(?![\w-])(?!-cloth)")
    for name in tracked.stdout.split("\n"):
        if name.endswith((".py", ".md", ".toml", ".yml", ".yaml", ".cff")) and Path(name) != Path(
            "tests/test_packaging.py"
        ):
            text = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).exists() else ""
            found = [line for line in text.splitlines() if wrong.search(line) and "another project" not in line]
            assert name == "docs/faq.md" or not found, (name, found)


def test_the_recipe_of_conda_has_our_dependencies():
    recipe = load("packaging/conda/recipe.yaml")
    assert recipe["context"]["name"] == PROJECT["project"]["name"]
    assert recipe["context"]["version"] == weft.__version__
    assert PROJECT["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    ours = sorted(line.replace(">=", " >=", 1) for line in PROJECT["project"]["dependencies"])
    assert sorted(recipe["requirements"]["run"][1:]) == ours
    assert recipe["build"]["python"]["entry_points"] == ["weft = " + PROJECT["project"]["scripts"]["weft"]]


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / ".github" / "workflows").glob("*.yml")))
def test_workflows_name_what_there_is(name):
    jobs = load(f".github/workflows/{name}")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands or name == "x"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = {*PROJECT["project"]["optional-dependencies"]}
    for command in commands:
        assert set(re.findall(r"\bmake ([\w-]+)", command)) <= targets
        assert {e for found in re.findall(r"\.\[([\w,]+)\]", command) for e in found.split(",")} <= extras
        assert [p for p in re.findall(r"\btests/[\w/.]+", command) if not (ROOT / p).exists()] == []


def test_the_warp_versions_in_ci_are_those_that_are_known():
    from weft.runtime.warp_version import KNOWN

    matrix = load(".github/workflows/tests.yml")["jobs"]["warp"]["strategy"]["matrix"]["warp"]
    assert matrix[0] == f"warp-lang=={KNOWN[0]}.*" and matrix[1] == f"warp-lang=={KNOWN[-1]}.*" and len(matrix) == 3
    assert f"warp-lang>={KNOWN[0]},<2" in PROJECT["project"]["dependencies"]


def test_an_old_python_is_told_which_one_is_needed(tmp_path):
    code = (ROOT / "src" / "weft" / "__init__.py").read_text(encoding="utf-8")
    (tmp_path / "weft.py").write_text(
        "import sys; sys.version_info = (3, 10, 13); sys.version = '3.10.13 (main)'\n" + code
    )
    done = subprocess.run([sys.executable, "-c", "import weft"], cwd=tmp_path, capture_output=True, text=True, env={})
    assert done.stderr.splitlines()[-1] == "ImportError: weft needs Python 3.11 or later, and this is Python 3.10.13"


def test_the_citation_is_whole():
    citation = load("CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["license"] == PROJECT["project"]["license"]
    assert citation["title"] and citation["authors"] and citation["message"]
