"""Break the code on purpose, one place at a time, and see whether the tests of its own folder notice: `make mutants`.

A mutant replaces a piece of text, which must occur exactly once in its file, and names the tests that must fail. It runs in a
copy of the working tree, so that nothing here changes. `python tests/mutants.py NAME ...` runs some of them by name, `--list`
shows all. A mutant that survives is a hole in the tests; a mutant whose text is not found any more must be written anew.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/weft")


class Mutant(NamedTuple):
    """What is broken and who must notice."""

    name: str
    file: str
    """below src/weft"""
    text: str
    instead: str
    tests: str
    """files or folders below tests, and options of pytest"""


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "boxes-to-nearest",
        "broad_phase/boxes.py",
        "    return nearest - wp.abs(nearest) * ULP - SMALLEST",
        "    return nearest",
        "broad_phase",
    ),
    Mutant(
        "slack-without-distance",
        "contact/step_search.py",
        "return 0.5 * (self.margin - float(self.surface.tolerance_scale) * ccd_tests.COLLISION_DISTANCE)",
        "return 0.5 * self.margin",
        "contact methods/robust/test_no_holes.py",
    ),
    Mutant(
        "tolerances-do-not-scale",
        "contact/step_search.py",
        "    return min(1.0, finest_length / USUAL_LENGTH)",
        "    return 1.0",
        "methods/robust/test_no_holes.py",
    ),
    Mutant(
        "no-crease-rule",
        "contact/contact_tests.py",
        "CREASE_DISTANCE = wp.constant(wp.float64(4e-4))",
        "CREASE_DISTANCE = wp.constant(wp.float64(0.0))",
        "contact",
    ),
    Mutant(
        "no-fsync",
        "cache/layout.py",
        "            os.fsync(handle)",
        "            pass",
        "cache",
    ),
    Mutant(
        "harmonic-weights-swapped",
        "scene/motion.py",
        "    weight_before = gaps[:-1] + 2.0 * gaps[1:]\n    weight_after = 2.0 * gaps[:-1] + gaps[1:]",
        "    weight_after = gaps[:-1] + 2.0 * gaps[1:]\n    weight_before = 2.0 * gaps[:-1] + gaps[1:]",
        "scene",
    ),
    Mutant(
        "push-halves-later",
        "methods/push/method.py",
        "        self.farthest = 0.5 * options.close",
        "        self.farthest = options.close",
        "methods/push",
    ),
    Mutant(
        "static-friction-is-kinetic",
        "contact/friction.py",
        "    if size <= static * normal_impulse:",
        "    if size <= kinetic * normal_impulse:",
        "contact",
    ),
    Mutant(
        "normal-impulse-pulls",
        "contact/friction.py",
        "    now = wp.max(given + (least_speed - normal_speed) / inverse_mass, ZERO)",
        "    now = given + (least_speed - normal_speed) / inverse_mass",
        "contact",
    ),
    Mutant(
        "friction-keeps-normal-part",
        "contact/friction.py",
        "        after = after - wp.dot(n, after) * n",
        "        after = after + wp.float64(0.0) * n",
        "contact",
    ),
    Mutant(
        "repulsion-without-spring",
        "contact/repulsion.py",
        "    return wp.min(removed * overlap / dt, dt * stiffness * overlap * inverse_mass)",
        "    return removed * overlap / dt",
        "contact",
    ),
    Mutant(
        "creases-have-friction",
        "contact/repulsion.py",
        "        if wp.length(along) < crease_lengths[a]:",
        "        if wp.length(along) < wp.float64(0.0) * crease_lengths[a]:",
        "contact methods/robust",
    ),
    Mutant(
        "collision-start-fraction",
        "contact/ccd_tests.py",
        "    return wp.min(scale * _DISTANCE, START_FRACTION * distance)",
        "    return scale * _DISTANCE",
        "contact",
    ),
    Mutant(
        "zone-rotates-without-bound",
        "methods/robust/impact_zones.py",
        "    angle = min(speed * dt, LARGEST_ANGLE)",
        "    angle = speed * dt",
        "methods/robust",
    ),
    Mutant(
        "zone-without-inertia-of-arm",
        "methods/robust/impact_zones.py",
        '    inertia = squares * np.eye(3) - np.einsum("i,ij,ik->jk", mass, arm, arm)',
        "    inertia = squares * np.eye(3)",
        "methods/robust",
    ),
    Mutant(
        "strain-limit-one-sided",
        "methods/robust/strain_limits.py",
        "    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)",
        "    shortest = wp.float64(0.0) * length",
        "methods/robust",
    ),
    Mutant(
        "flypaper-counts-points",
        "methods/untangle/flypaper.py",
        "        weight = pull[body - first_body, i] / shared",
        "        weight = pull[body - first_body, i]",
        "methods/untangle",
    ),
    Mutant(
        "seal-not-checked",
        "cache/layout.py",
        '        or sealed.get("crc32") != _crc(sealed["content"])',
        "        or False",
        "cache",
    ),
    Mutant(
        "hermite-slope-sign",
        "scene/motion.py",
        "rest * ((1.0 - u) * slope_a - u * slope_b)",
        "rest * ((1.0 - u) * slope_a + u * slope_b)",
        "scene",
    ),
)


def problems() -> list[str]:
    """Mutants that cannot be made as the code is now."""
    found = []
    for mutant in MUTANTS:
        count = (ROOT / PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.text)
        if count != 1:
            found.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}")
    return found


def noticed(mutant: Mutant, copy: Path) -> bool:
    """Whether the tests of a mutant fail in a copy of the tree."""
    file = copy / PACKAGE / mutant.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(sound.replace(mutant.text, mutant.instead), encoding="utf-8")
    try:
        environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
        tests = [f"tests/{word}" if not word.startswith("-") else word for word in mutant.tests.split()]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=1800)
    finally:
        file.write_text(sound, encoding="utf-8")
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{mutant.name}: pytest could not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants; otherwise all")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if found := problems():
        raise SystemExit("\n".join(found))
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.list:
        print("\n".join(f"{mutant.name:32} {mutant.file}" for mutant in chosen))
        return
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "weft"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "out", "__pycache__", "*.zarr", "carry")
        )
        for mutant in chosen:
            began = time.perf_counter()
            alive = not noticed(mutant, copy)
            survivors += [mutant.name] * alive
            print(
                f"{mutant.name:32} {'SURVIVED' if alive else 'noticed'} {time.perf_counter() - began:5.0f} s",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    if survivors:
        raise SystemExit(f"survivors: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
