"""Weakened guarantees are noticed: the table of mutations fits the code, and a dozen are tried."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tools import mutants
from tools.mutants import MUTATIONS, Mutation

DOZEN = mutants.few(12, mutants.commit())


@cache
def names_of_tests(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_mutation_can_be_made_and_names_its_tests(mutation: Mutation) -> None:
    path, weaker = mutants.mutated(mutation)
    compile(weaker, str(path), "exec")
    assert (mutants.ROOT / "docs" / f"{mutation.guarantee}.md").exists()
    assert mutation.weakens.endswith(".")
    tests = [test for test in mutation.tests if not test.startswith("-k")]
    assert tests
    for test in tests:
        file, _, name = test.partition("[")[0].partition("::")
        assert file not in ("tests/privacy/test_proofs.py", "tests/privacy/test_mutants.py"), (
            "no judge of others"
        )
        assert not name or name in names_of_tests(mutants.ROOT / file), test


def test_there_are_enough_mutations_and_all_were_tried() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= 80
    found = mutants.recorded()
    assert set(found) == set(names), "run make mutants"
    killed = sum(verdict["outcome"] == mutants.KILLED for verdict in found.values())
    assert killed >= mutants.ENOUGH * len(names)
    for mutation in MUTATIONS:
        assert found[mutation.name]["outcome"] != mutants.ERROR
        assert bool(mutation.survives) == (found[mutation.name]["outcome"] == mutants.SURVIVED)


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
