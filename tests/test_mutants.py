"""The list of mutants follows the code: each can still be made, and names tests that are there."""

from pathlib import Path

from mutants import MUTANTS, problems

TESTS = Path(__file__).parent


def test_every_mutant_can_be_made():
    assert problems() == []


def test_mutants_have_names_of_their_own_and_change_something():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 58
    assert all(mutant.text != mutant.instead for mutant in MUTANTS)


def test_the_tests_of_mutants_exist():
    for mutant in MUTANTS:
        files = [word for word in mutant.tests.split() if not word.startswith("-")]
        assert files and all((TESTS / name.split("::")[0]).exists() for name in files), mutant.name
