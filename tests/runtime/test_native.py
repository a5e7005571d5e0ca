"""The text of C++ headers: sections, includes, constants."""

import pytest
import warp as wp

from weft.runtime.native import NativeHeader


@pytest.fixture
def header(tmp_path):
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "some.h").write_text(
        "// what comes before the first section is for readers\n"
        "// [square] of a number\nreturn x * x * $SCALE;\n"
        "// [guarded]\nif (x > 0) {\n    // [include square]\n}\nreturn $ZERO;\n"
    )
    return NativeHeader(str(tmp_path / "some.py"), "some.h")


def test_a_section_has_its_constants(header):
    assert header.body("square", SCALE=0.1) == "return x * x * 0.1;\n"
    assert header.body("square", SCALE=wp.constant(wp.float64(1.0 / 3.0))) == f"return x * x * {1.0 / 3.0!r};\n"


def test_a_section_includes_another_at_its_indent(header):
    assert header.body("guarded", SCALE=2, ZERO="wp::zero()") == (
        "if (x > 0) {\n    return x * x * 2;\n}\nreturn wp::zero();\n"
    )


@pytest.mark.parametrize("values", [{}, {"SCALE": 1, "OTHER": 2}])
def test_names_and_values_must_agree(header, values):
    with pytest.raises(ValueError, match=r"\[square\]"):
        header.body("square", **values)


def test_an_unknown_section_and_a_strange_value_are_errors(header):
    with pytest.raises(ValueError, match=r"no section \[cube\]; it has square, guarded"):
        header.body("cube")
    with pytest.raises(TypeError, match="no number"):
        header.body("square", SCALE=[1])


def test_two_sections_of_one_name_are_errors(tmp_path):
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "twice.h").write_text("// [a]\n// [a]\n")
    with pytest.raises(ValueError, match="two sections"):
        NativeHeader(str(tmp_path / "x.py"), "twice.h")
