"""The TOML writer against Python's TOML reader."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from weft.scene.files import WIDTH, write_toml

scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
keys = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=25,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_what_is_written_is_read_back(table):
    assert tomllib.loads(write_toml(table)) == table


def test_lines_stay_short():
    long = {
        "numbers": [i / 3.0 for i in range(60)],
        "table": {"rows": [{"time": float(i), "position": [1 / 3, 2 / 3, i / 3]} for i in range(9)]},
    }
    text = write_toml(long)
    assert tomllib.loads(text) == long
    assert max(map(len, text.splitlines())) <= WIDTH


def test_control_characters_are_escaped():
    text = write_toml({"a": '\x00\x1f\x7f"\\\n\tend'})
    assert text.isprintable() is False
    assert text.strip().isprintable()
    assert tomllib.loads(text) == {"a": '\x00\x1f\x7f"\\\n\tend'}
