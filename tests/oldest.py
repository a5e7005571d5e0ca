"""Constraints for pip that hold every direct dependency at the oldest version that pyproject.toml allows.

`make test-oldest` installs these and runs the tests of what touches other packages; `make test` has the newest versions.
"""

import re
import tomllib
from pathlib import Path

REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)")


def oldest(pyproject: Path) -> list[str]:
    """A line for each dependency and each one of the extras that tests need."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for name in ("view", "render", "usd", "farm") for line in extras[name])]
    found = (REQUIREMENT.match(line) for line in wanted)
    return sorted({f"{match[1]}=={match[2]}.*" for match in found if match})


if __name__ == "__main__":
    print("\n".join(oldest(Path(__file__).parents[1] / "pyproject.toml")))
