"""Weakened guarantees are noticed: the table of mutations fits the code, and a dozen are tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tools import mutants
from tools.mutants import MUTATIONS, Mutation

DOZEN = mutants.few(12, mutants.commit())


NO_JUDGES = ("tests/privacy/test_proofs.py", "tests/privacy/test_mutants.py")


def test_mutations_can_be_made_and_name_tests_that_exist() -> None:
    for mutation in MUTATIONS:
        path, weaker, lines = mutants.mutated(mutation)
        if path.suffix == ".py":
            compile(weaker, str(path), "exec")
        new = "\n".join(weaker.split("\n")[lines.start - 1 : lines.stop - 1])
        assert mutation.new in new, mutation.name
        assert (mutants.ROOT / "docs" / f"{mutation.guarantee}.md").exists(), mutation.name
        assert mutation.weakens.endswith("."), mutation.name
        tests = [test for test in mutation.tests if not test.startswith("-k")]
        assert tests, mutation.name
        for test in tests:
            assert test.partition("::")[0] not in NO_JUDGES, mutation.name
            assert mutants.exists(test), test


def test_there_are_enough_mutations_and_all_were_tried() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= 80
    found = mutants.recorded()
    assert set(found) == set(names), "run make mutants"
    killed = sum(verdict["outcome"] == mutants.KILLED for verdict in found.values())
    assert killed >= mutants.ENOUGH * len(names)
    for mutation in MUTATIONS:
        assert found[mutation.name]["outcome"] != mutants.ERROR
        survived = found[mutation.name]["outcome"] == mutants.SURVIVED
        assert bool(mutation.survives) == survived, mutation.name
        assert survived or mutants.exists(found[mutation.name]["told"]), mutation.name


def test_what_does_not_fit_exactly_once_is_an_error() -> None:
    some = MUTATIONS[0]
    for wrong, words in (
        (replace(some, old="no such words"), "is 0 times"),
        (replace(some, old="e"), "must be there once"),
        (replace(some, target="dpsu.privacy.curves.nothing"), "there is no nothing"),
        (replace(some, target="nowhere.at.all"), "there is no module"),
        (replace(some, new=some.old), "stays the same"),
    ):
        with pytest.raises(ValueError, match=words):
            mutants.mutated(wrong)
    with pytest.raises(SyntaxError):
        mutants.mutated(replace(some, new="if:"))


def test_what_a_run_means() -> None:
    def outcome(code: int, said: str) -> str:
        return mutants._judged(code, said, 1.0).outcome

    assert outcome(0, "2 passed in 1.0s") == mutants.SURVIVED
    assert outcome(0, "2 skipped in 1.0s") == mutants.ERROR
    assert outcome(1, "FAILED tests/test_x.py::test_y - assert 1 == 2\n1 failed") == mutants.KILLED
    assert outcome(1, "FAILED tests/test_x.py::test_y - NameError: x\n1 failed") == mutants.ERROR
    assert outcome(2, "ERROR tests/test_x.py\n1 error") == mutants.ERROR
    assert outcome(4, "ERROR: not found: tests/test_x.py::test_z") == mutants.ERROR
    assert outcome(5, "no tests ran") == mutants.ERROR


def test_a_misspelled_mutation_kills_nothing() -> None:
    changed = Path("tree/src/changed.py")

    def outcome(file: str, line: int, error: str) -> str:
        said = (
            "Traceback (most recent call last):\n"
            '  File "tree/tests/test_x.py", line 3, in test_y\n    call()\n'
            f'  File "{file}", line {line}, in call\n    nothing()\n    ^^^^^^^^^\n'
            f"{error}: what is wrong\n"
            "FAILED tests/test_x.py::test_y - Failed: it raised nothing that was asked for\n1 failed"
        )
        return mutants._judged(1, said, 1.0, changed, range(7, 9)).outcome

    assert outcome(str(changed), 8, "TypeError") == mutants.ERROR
    assert outcome(str(changed), 7, "AttributeError") == mutants.ERROR
    # In another line or file, or by another error, it is the weaker code that is noticed.
    assert outcome(str(changed), 9, "TypeError") == mutants.KILLED
    assert outcome("tree/src/other.py", 8, "TypeError") == mutants.KILLED
    assert outcome(str(changed), 8, "ValueError") == mutants.KILLED


def test_a_hash_chooses_a_dozen_of_the_quick_ones() -> None:
    found = mutants.recorded()
    chosen = {by: [m.name for m in mutants.few(12, by)] for by in ("a", "b")}
    assert chosen["a"] != chosen["b"]
    for names in chosen.values():
        assert len(set(names)) == 12
        assert all(found[name]["seconds"] < mutants.QUICK for name in names)
    assert [m.name for m in mutants.few(12, "a")] == chosen["a"]


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> mutants.Scratch:
    """One copy of the tree for each process of tests; what is compiled in it is kept."""
    return mutants.Scratch(tmp_path_factory.mktemp("mutants") / "scratch")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", DOZEN, ids=lambda m: m.name)
def test_a_mutation_is_killed(mutation: Mutation, scratch: mutants.Scratch) -> None:
    """Other ones with every commit; `make mutants` tries them all."""
    verdict = scratch.tried(mutation)
    assert verdict.outcome == mutants.KILLED, f"{mutation.weakens} {verdict.told}"
