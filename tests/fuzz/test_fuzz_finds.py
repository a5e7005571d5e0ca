"""What fuzzing found, and a short round of it: readers take a damaged file or refuse it in one sentence."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import weft
from weft.mesh.sequences import read_sequence

sys.path.insert(0, str(Path(__file__).parent))
from targets import USDA, make_targets

QUICK = settings(
    max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


def refused(read, path):
    with pytest.raises(weft.WeftError) as caught:
        read(path)
    message = str(caught.value)
    assert message.strip() and "Traceback" not in message
    return message


@pytest.mark.parametrize("kind", ["[]", "{}", "[1, 2]", "1", "true"])
def test_a_kind_that_is_no_text(tmp_path, kind):
    path = tmp_path / "a.toml"
    path.write_text(f"cloth = [{{shape = {{kind = {kind}}}}}]")
    assert "cloth[0].shape: kind =" in refused(weft.load_scene, path)


def test_usd_of_a_version_that_is_not_known(tmp_path):
    # the library then gives values of a type that it does not know either
    path = tmp_path / "a.usda"
    path.write_bytes(USDA.replace(b"#usda 1.0", b"#usda -1"))
    assert "a.usda" in refused(lambda p: read_sequence(p, fps=24.0).vertices(0), path)
    assert "a.usda" in refused(weft.load_mesh, path)


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("seeds"))


NAMES = ["scene", "obj", "ply", "stl", "glb", "gltf", "npz", "usda", "usdc", "moving glb", "moving npz", "moving usda"]


def test_all_targets_are_tried(targets):
    assert list(targets) == NAMES


# damage in a binary USD file can make its library fill a gigabyte before it gives up: left to long runs
@pytest.mark.parametrize("name", [name for name in NAMES if name != "usdc"])
def test_a_short_round(tmp_path, targets, name):
    target = targets[name]
    path = tmp_path / f"a{target.ending}"

    @QUICK
    @given(target.contents)
    def survives(content):
        path.write_bytes(content)
        try:
            target.read(path)
        except weft.WeftError as error:
            assert str(error).strip()

    survives()
