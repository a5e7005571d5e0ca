"""Fuzz the readers of scenes and meshes for as long as wanted: `python tests/fuzz/fuzz.py --minutes 60`.

Every target gets rounds of examples in a process of its own, so that a crash or a hang is a find too. What is found is
kept in the folder `--out`, each with the reader's last words; the exit code is 1 if there is anything.
"""

import argparse
import faulthandler
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
# one example may take this many seconds of the processor and use this much memory; and so long in all, where others
# use the machine too
SECONDS = 20
PATIENCE = 400
MEMORY = 8 * 1024**3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--examples", type=int, default=1500, help="examples a round")
    parser.add_argument("--targets", default="", help="names with commas between; default: all")
    parser.add_argument("--out", type=Path, default=Path("fuzz-finds"))
    parser.add_argument("--round", nargs=2, metavar=("TARGET", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round:
        return run_round(options.round[0], int(options.round[1]), options.examples, options.out)

    names = [name for name in options.targets.split(",") if name] or list_targets()
    end = time.monotonic() + 60.0 * options.minutes
    finds = rounds = 0
    while time.monotonic() < end:
        for name in names:
            if time.monotonic() >= end:
                break
            finds += watch_round(name, rounds, options.examples, options.out)
        rounds += 1
        print(f"{rounds} rounds of {options.examples} examples for {len(names)} targets: {finds} finds", flush=True)
    return 1 if finds else 0


def list_targets() -> list[str]:
    from targets import make_targets

    with tempfile.TemporaryDirectory() as folder:
        return list(make_targets(Path(folder)))


def watch_round(name: str, seed: int, examples: int, out: Path) -> int:
    """Run a round in a process of its own; gives how many finds it made."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--round", name, str(seed), "--examples", str(examples), "--out", str(out)]
        # libraries complain there by the thousand
        said = Path(folder) / "stderr.txt"
        with said.open("wb") as stderr:
            started = subprocess.Popen(command, env={**os.environ, "FUZZ_FOLDER": folder}, stderr=stderr)
            try:
                code = started.wait(timeout=PATIENCE + 10 * examples)
            except subprocess.TimeoutExpired:
                started.kill()
                code = started.wait()
        if code in (0, 3):
            return int(code == 3)
        # it died: the example that it was at is still there
        words = said.read_bytes()[-3000:].decode(errors="replace")
        for left in Path(folder).glob("now.*"):
            keep(out, name, left.suffix, left.read_bytes(), f"{words}\nthe process ended with {code}")
        return 1


def run_round(name: str, seed: int, examples: int, out: Path) -> int:
    """Examples of one target; 3 if one of them is a find."""
    import hypothesis
    from targets import make_targets

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder = Path(os.environ["FUZZ_FOLDER"])
    target = make_targets(folder)[name]
    place = folder / f"now{target.ending}"
    signal.signal(signal.SIGPROF, too_long)

    import weft

    @hypothesis.seed(seed * 1_000_003 + int(hashlib.sha256(name.encode()).hexdigest()[:6], 16))
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(target.contents)
    def survives(content: bytes) -> None:
        place.write_bytes(content)
        # a hang in compiled code does not see the alarm: the process is ended then
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            target.read(place)
        except weft.WeftError:
            pass
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            faulthandler.cancel_dump_traceback_later()

    try:
        survives()
    except Exception:
        # the last example that ran is the smallest one that failed
        keep(out, name, target.ending, place.read_bytes(), traceback.format_exc())
        return 3
    return 0


def too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def keep(out: Path, name: str, ending: str, content: bytes, words: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace(' ', '-')}-{hashlib.sha256(content).hexdigest()[:10]}"
    (out / f"{stem}{ending}").write_bytes(content)
    (out / f"{stem}.txt").write_text(words, encoding="utf-8", errors="backslashreplace")
    print(f"find: {out / stem}{ending}\n{words.strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    os.environ.setdefault("TF_WARN_OFF", "1")
    sys.exit(main())
