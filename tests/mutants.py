"""Break the code on purpose, one place at a time, and see whether the tests of its own folder notice: `make mutants`.

A mutant replaces a piece of text, which must occur exactly once in its file, and names the tests that must fail. It runs in a
copy of the working tree, so that nothing here changes. `python tests/mutants.py NAME ...` runs some of them by name, `--list`
shows all. The tests run with the sound code first, since a test that fails always notices nothing. A
mutant that survives is a hole in the tests; a mutant whose text is not found any more must be written anew.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/weft")
# seconds of one run of pytest; a mutant that waits for ever is noticed then
LONGEST = 600


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
        "broad_phase/test_broad_phase.py",
    ),
    Mutant(
        "slack-without-distance",
        "contact/step_search.py",
        "return 0.5 * (self.margin - float(self.surface.tolerance_scale) * ccd_tests.COLLISION_DISTANCE)",
        "return 0.5 * self.margin",
        "contact/test_step_search.py",
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
        "contact/test_contact_tests.py contact/test_cones.py",
    ),
    Mutant(
        "no-fsync",
        "cache/layout.py",
        "            os.fsync(handle)",
        "            pass",
        "cache/test_cache.py cache/test_faults.py",
    ),
    Mutant(
        "harmonic-weights-swapped",
        "scene/resolved_motion.py",
        "    weight_before = gaps[:-1] + 2.0 * gaps[1:]\n    weight_after = 2.0 * gaps[:-1] + gaps[1:]",
        "    weight_after = gaps[:-1] + 2.0 * gaps[1:]\n    weight_before = 2.0 * gaps[:-1] + gaps[1:]",
        "scene/test_motions.py",
    ),
    Mutant(
        "push-halves-later",
        "methods/push/method.py",
        "        self.farthest = 0.5 * options.close",
        "        self.farthest = options.close",
        "methods/push/test_push.py methods/push/test_push_out.py",
    ),
    Mutant(
        "static-friction-is-kinetic",
        "contact/friction.py",
        "    if size <= static * normal_impulse:",
        "    if size <= kinetic * normal_impulse:",
        "contact/test_friction.py contact/test_impulses.py",
    ),
    Mutant(
        "normal-impulse-pulls",
        "contact/friction.py",
        "    now = wp.max(given + (least_speed - normal_speed) / inverse_mass, least)",
        "    now = given + (least_speed - normal_speed) / inverse_mass",
        "contact/test_friction.py contact/test_impulses.py",
    ),
    Mutant(
        "friction-keeps-normal-part",
        "contact/friction.py",
        "        after = after - wp.dot(n, after) * n",
        "        after = after + wp.float64(0.0) * n",
        "contact/test_friction.py contact/test_impulses.py",
    ),
    Mutant(
        "repulsion-without-spring",
        "contact/friction.py",
        "    return wp.min(removed * overlap / dt, dt * stiffness * overlap * inverse_mass)",
        "    return removed * overlap / dt",
        "contact/test_repulsion.py",
    ),
    Mutant(
        "creases-have-friction",
        "contact/friction.py",
        "        if wp.length(along) < tables.crease_lengths[a]:",
        "        if wp.length(along) < wp.float64(0.0) * tables.crease_lengths[a]:",
        "contact/test_repulsion.py contact/test_impulses.py",
    ),
    Mutant(
        "collision-start-fraction",
        "contact/ccd_tests.py",
        "    return wp.min(scale * _DISTANCE, START_FRACTION * distance)",
        "    return scale * _DISTANCE",
        "contact/test_ccd_tests.py contact/test_collisions.py",
    ),
    Mutant(
        "zone-rotates-without-bound",
        "methods/robust/collision_rounds.py",
        "    angle = min(speed * dt, LARGEST_ANGLE)",
        "    angle = speed * dt",
        "methods/robust/test_impact_zones.py",
    ),
    Mutant(
        "zone-without-inertia-of-arm",
        "methods/robust/collision_rounds.py",
        '    inertia = squares * np.eye(3) - np.einsum("i,ij,ik->jk", mass, arm, arm)',
        "    inertia = squares * np.eye(3)",
        "methods/robust/test_impact_zones.py",
    ),
    Mutant(
        "strain-limit-one-sided",
        "methods/robust/limited_springs.py",
        "    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)",
        "    shortest = wp.float64(0.0) * length",
        "methods/robust/test_strain_limits.py",
    ),
    Mutant(
        "flypaper-counts-points",
        "methods/untangle/flypaper.py",
        "        weight = here * pull[body - first_body, i] / shared",
        "        weight = here * pull[body - first_body, i]",
        "methods/untangle/test_flypaper.py",
    ),
    Mutant(
        "seal-not-checked",
        "cache/layout.py",
        '        or sealed.get("crc32") != _crc(sealed["content"])',
        "        or False",
        "cache/test_cache.py",
    ),
    Mutant(
        "hermite-slope-sign",
        "scene/resolved_motion.py",
        "rest * ((1.0 - u) * slope_a - u * slope_b)",
        "rest * ((1.0 - u) * slope_a + u * slope_b)",
        "scene/test_motions.py",
    ),
    Mutant(
        "collision-changes-not-carried",
        "methods/robust/step_motion.py",
        "    v_end[i] = v_end[i] + v[i] - free[i]",
        "    v_end[i] = v_end[i] + free[i] - v[i]",
        "methods/robust/test_step_motion.py",
    ),
    Mutant(
        "flypaper-is-pushed",
        "methods/untangle/corrections.py",
        "    if owner[i] == PRESCRIBED or owner[i] == FLYPAPER:",
        "    if owner[i] == PRESCRIBED:",
        "methods/untangle/test_corrections.py",
    ),
    Mutant(
        "locked-edge-pushes",
        "methods/untangle/locking.py",
        "        springs.normals[s] = -along / wp.length(along)",
        "        springs.normals[s] = along / wp.length(along)",
        "methods/untangle/test_locking.py",
    ),
    Mutant(
        "plane-wider-than-gap",
        "methods/boxes/plane_kernels.py",
        "    spacing = wp.min(wp.min(mesh.thickness[f[0]], mesh.thickness[g[0]]), gap)",
        "    spacing = wp.min(mesh.thickness[f[0]], mesh.thickness[g[0]])",
        "methods/boxes/test_collision_planes.py",
    ),
    Mutant(
        "friction-beyond-pressure",
        "methods/boxes/relaxation.py",
        "    most = friction * wp.dot(p - free, normal)",
        "    most = wp.dot(p - free, normal)",
        "methods/boxes/test_elastic_surface.py",
    ),
    Mutant(
        "cloth-pushes-along-normal",
        "methods/push/kernels.py",
        "                    if is_cloth == 1 and d < step.dt * wp.dot(n, velocity - carrier):",
        "                    if is_cloth == 1 and d < wp.float64(0.0):",
        "methods/push/test_push_out.py",
    ),
    Mutant(
        "kinetic-friction-is-static",
        "methods/predictive/native/half_spaces.h",
        "            share = friction_factor * halves.friction.data[i][1] * met / sqrt(squared);",
        "            share = friction_factor * halves.friction.data[i][0] * met / sqrt(squared);",
        "methods/predictive/test_collider_contacts.py",
    ),
    Mutant(
        "old-depth-undone-at-once",
        "methods/predictive/native/contacts.h",
        "    undone = known < rest ? known : rest;",
        "    undone = known;",
        "methods/predictive/test_contacts_of_cloth.py",
    ),
    Mutant(
        "uncaused-crossings-uncounted",
        "methods/guarded/ledger.py",
        "        self.newly_crossing += int((new & ~left_alone & ~released).sum())",
        "        self.newly_crossing += int((new & left_alone & ~released).sum())",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "tangle-of-one-side",
        "methods/guarded/pair_states.py",
        "        if has_item(offsets, items, other, items[k] ^ 1):",
        "        if has_item(offsets, items, other, items[k]):",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "tangles-joined-share-numbers",
        "methods/guarded/pair_states.py",
        "            sides.append(part.side + 2 * first)",
        "            sides.append(part.side + first)",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "parting-against-what-stands",
        "methods/guarded/parting.py",
        "        factor = np.where(one & other, 1.0, 2.0)[:, None]",
        "        factor = np.where(one & other, 1.0, 1.0)[:, None]",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "half-forced-is-forced",
        "methods/guarded/forcing.py",
        "            forced = ~movable.any(axis=1)",
        "            forced = ~movable.all(axis=1)",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "pins-among-held-cloth-give-way",
        "methods/guarded/held.py",
        "        weight = np.where(free, 1.0, PIN_WEIGHT)",
        "        weight = np.where(free, 1.0, 1.0)",
        "methods/guarded/test_guarded_parts.py",
    ),
    Mutant(
        "seams-run-the-other-way",
        "garment/cut.py",
        "        both = np.stack([one, other if seam.same_way else other[::-1]], axis=1)",
        "        both = np.stack([one, other[::-1]], axis=1)",
        "garment/test_cut.py",
    ),
    Mutant(
        "panels-turned-alone",
        "garment/cut.py",
        "                        turned[other] = turned[panel] != seam.same_way",
        "                        turned[other] = seam.same_way",
        "garment/test_cut.py",
    ),
    Mutant(
        "large-arcs-are-small",
        "garment/curves.py",
        "    sweep = (2.0 * math.pi - angle) if large else angle",
        "    sweep = angle",
        "garment/test_pattern.py",
    ),
    Mutant(
        "divided-by-parameter",
        "garment/curves.py",
        "        return self.at(np.interp(np.asarray(fractions) * lengths[-1], lengths, t))",
        "        return self.at(np.asarray(fractions, dtype=np.float64))",
        "garment/test_pattern.py",
    ),
    Mutant(
        "sewn-edges-graded-one-way",
        "garment/division.py",
        "        density = np.maximum(density, needed[::-1] if turned else needed)",
        "        density = np.maximum(density, needed)",
        "garment/test_cut.py",
    ),
    Mutant(
        "spots-do-not-turn-with-bodies",
        "methods/predictive/native/half_spaces.h",
        "        const float a = p[k + 4 * stride] - sx - (ty * z - tz * y);",
        "        const float a = p[k + 4 * stride] - sx;",
        "methods/predictive/test_collider_contacts.py methods/predictive/test_collider_cull.py",
    ),
    Mutant(
        "bodies-turn-late-in-a-step",
        "methods/predictive/solver.py",
        "    angle = share * np.arctan2(sine,",
        "    angle = share * share * np.arctan2(sine,",
        "methods/predictive/test_predictive_division.py",
    ),
    Mutant(
        "long-steps-undivided",
        "methods/predictive/solver.py",
        "        fractions = math.ceil(dt / LONGEST_STEP - 1e-9)",
        "        fractions = 1",
        "methods/predictive/test_predictive_division.py",
    ),
    Mutant(
        "fans-go-around-unseen",
        "run/crossing_guard.py",
        "        elif before != 1 and behind != -1:",
        "        elif False:",
        "run/test_crossing_guard.py",
    ),
    Mutant(
        "fans-of-any-facing",
        "run/crossing_guard.py",
        "        if side_of_normal(wp.cross(a, b), cross_size(a, b), n) != 1:",
        "        if side_of_normal(wp.cross(a, b), cross_size(a, b), n) == 7:",
        "run/test_crossing_guard.py",
    ),
    Mutant(
        "motion-ball-without-radius",
        "contact/feature_bounds.py",
        "a[2] - b[2])) + a[3] + b[3]",
        "a[2] - b[2])) + a[3]",
        "contact/test_ccd_tests.py",
    ),
    Mutant(
        "escaped-triangles-forgotten",
        "broad_phase/escaped_pairs.py",
        "                if escaped + marks.patches[other] != 0:",
        "                if escaped != 0:",
        "broad_phase/test_escaped_pairs.py",
    ),
    Mutant(
        "lift-along-the-wind",
        "dynamics/air.py",
        "    lift = wind.lift * un * speed * (n - un / (speed * speed) * u)",
        "    lift = wind.lift * un * speed * (n + un / (speed * speed) * u)",
        "dynamics/test_air.py",
    ),
    Mutant(
        "shear-matrix-transposed",
        "dynamics/implicit/forces.py",
        "    terms.along_v = -h * (force_v + mu * elastic.uv + elastic.vv * mv)",
        "    terms.along_v = -h * (force_v + elastic.uv * mu + elastic.vv * mv)",
        "dynamics/test_implicit_forces.py",
    ),
    Mutant(
        "path-mean-of-mixed-sheets",
        "analysis/attraction.py",
        "    sign = np.where(analysis.sheet == 0, 1.0, -1.0)[:, None]",
        "    sign = np.ones((len(own), 1))",
        "analysis/test_contour.py",
    ),
    Mutant(
        "barrier-waits-for-itself",
        "runtime/native/cooperative.h",
        "    while ((int)(__atomic_load_n(counter, __ATOMIC_ACQUIRE) - goal) < 0) {",
        "    while ((int)(__atomic_load_n(counter, __ATOMIC_ACQUIRE) - old) < 0) {",
        "runtime/test_cooperative.py::test_nobody_goes_on_before_all_are_there",
    ),
    Mutant(
        "extra-behind-the-totals",
        "runtime/compaction.py",
        "[*totals[: len(lists)], totals[MAX_LISTS]]",
        "totals[: len(lists) + 1]",
        "runtime/test_compaction.py",
    ),
    Mutant(
        "colours-of-two-passes-overlap",
        "runtime/colouring.py",
        "        base += MASK_BITS\n",
        "        base += MASK_BITS - 1\n",
        "runtime/test_colouring.py",
    ),
    Mutant(
        "frames-removed-forwards",
        "cache/writer.py",
        '        for path in sorted(folder.glob("*.json"), reverse=True):',
        '        for path in sorted(folder.glob("*.json")):',
        "cache/test_cache.py cache/test_faults.py",
    ),
    Mutant(
        "stop-forgets-earlier-rounds",
        "finish/stop.py",
        "            np.minimum.at(shorter, column, fraction[column] * keep)",
        "            np.minimum.at(shorter, column, keep)",
        "finish/test_stop.py",
    ),
    Mutant(
        "children-of-other-parents",
        "finish/levels.py",
        "np.repeat(coarse.source[body.faces], 4)",
        "np.tile(coarse.source[body.faces], 4)",
        "finish/test_levels.py",
    ),
    Mutant(
        "texture-numbers-of-last-body",
        "exchange/sequence.py",
        "        textured += 0 if uv is None else len(uv)",
        "        textured = 0 if uv is None else len(uv)",
        "exchange/test_exchange_sequence.py",
    ),
    Mutant(
        "run-names-by-order-of-keys",
        "farm/sweeps.py",
        "for key, value in sorted(combination.items())]",
        "for key, value in combination.items()]",
        "farm/test_farm_keys.py",
    ),
    Mutant(
        "strips-turn-over",
        "mesh/formats/gltf.py",
        "        triangles[1::2] = triangles[1::2, [1, 0, 2]]",
        "        triangles[::2] = triangles[::2, [1, 0, 2]]",
        "mesh/test_mesh_gltf.py",
    ),
    Mutant(
        "negative-index-from-the-end",
        "mesh/formats/obj.py",
        "np.where(written < 0, written + seen, -1)",
        "np.where(written < 0, written + count, -1)",
        "mesh/test_mesh_files.py",
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


def failing(tests: str, copy: Path) -> str:
    """The first of these tests that fails in a copy of the tree; nothing when all pass."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [f"tests/{word}" if not word.startswith("-") else word for word in tests.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"no end after {LONGEST} s"
    if done.returncode == 0:
        return ""
    said = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", done.stdout, re.MULTILINE)
    # a process that dies says nothing, but it is no success either; 3 and more: pytest could not run
    if said is None and 3 <= done.returncode <= 5:
        raise SystemExit(f"{tests}: pytest could not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return said[1] if said else f"exit {done.returncode}"


def noticed(mutant: Mutant, copy: Path) -> str:
    """The first test that fails when a copy of the tree has this mutant."""
    file = copy / PACKAGE / mutant.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(sound.replace(mutant.text, mutant.instead), encoding="utf-8")
    try:
        return failing(mutant.tests, copy)
    finally:
        file.write_text(sound, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants; otherwise all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only-mutants", action="store_true", help="do not run the tests with the sound code first")
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
        if not options.only_mutants:
            for tests in dict.fromkeys(mutant.tests for mutant in chosen):
                if fault := failing(tests, copy):
                    raise SystemExit(f"the sound code fails: {fault}")
        for mutant in chosen:
            began = time.perf_counter()
            by = noticed(mutant, copy)
            survivors += [mutant.name] * (not by)
            print(f"{mutant.name:32} {time.perf_counter() - began:4.0f} s  {by or 'SURVIVED'}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    if survivors:
        raise SystemExit(f"survivors: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
