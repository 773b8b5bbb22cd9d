"""Mutation testing of the guarantees: weaken one on purpose, and see whether a test notices.

    python -m tools.mutants                    all mutations of the table, two at a time
    python -m tools.mutants joint sieve        those whose name or target contains one of these
    python -m tools.mutants --list             what there is, and what became of it last time
    python -m tools.mutants --few 12 --by HASH a dozen of the quick ones, chosen by a hash
    python -m tools.mutants --record           keep what is found for docs/figures/audit.md

The exit code is 1 if fewer than 95 % are killed or one cannot be made.

`tools/mutations.toml` is the table. Each mutation is made in a scratch copy of the tree, the tests
that must notice run there, and the copy is restored. The test that killed it last time runs first,
and the others only if that one passes. They run once without any mutation before: a test that fails
anyway kills nothing. Proof stamps never count, since they notice every change. Nor does a test that
fails because the changed line is misspelled.

Kernels are compiled again in the copy when one of them is changed (conftest.py).

Libraries such as mutmut and cosmic-ray change operators wherever they find them, and only in
Python that is not compiled. A guarantee is broken by changes that are meant, and each of these has
a name, a reason and tests that are to answer for it.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tools import stamp

ROOT = stamp.ROOT
TABLE = ROOT / "tools" / "mutations.toml"
RESULTS = ROOT / "tools" / "mutants.json"
# What tests read, with the compiled kernels beside their sources.
COPIED = ("src", "tests", "tools", "benchmarks", "docs")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", ".hypothesis")
STAMPS = "tests/privacy/test_proofs.py::test_the_code_is_the_code_that_was_read"
KILLED, SURVIVED, ERROR = "killed", "survived", "error"
ENOUGH = 0.95
QUICK = 20.0
# A mutation may make a loop endless. Machines may be slow, so this is far more than any run takes.
LONGEST = 900.0
TESTS_FAILED = 1
_RECORDING = threading.Lock()
KERNELS = Path("src", "dpsu", "kernels")
# A mutation that ends like this is a mistake in the table and weakens nothing.
BROKEN = re.compile(
    r"\b(NameError|SyntaxError|ImportError|ModuleNotFoundError|IndentationError|UnboundLocalError"
    r"|AttributeError|TypingError|LoweringError)\b"
)
# So is one whose own lines raise one of these; the last line of a traceback says which did.
MISSPELLED = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in .*\n(?:(?! *File ").*\n){0,4}?'
    r"(?P<error>NameError|AttributeError|TypeError)\b.*$",
    re.M,
)


@dataclass(frozen=True)
class Mutation:
    """One weakening of one function; the head of the table says what each field means."""

    name: str
    target: str
    old: str
    new: str
    weakens: str
    guarantee: str
    tests: tuple[str, ...]
    survives: str = ""


def table() -> list[Mutation]:
    """All mutations there are."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**row | {"tests": tuple(row["tests"])}) for row in rows]


MUTATIONS = table()


@dataclass(frozen=True)
class Verdict:
    """What became of a mutation, after how many seconds, and which test noticed or what failed."""

    outcome: str
    seconds: float
    told: str


def place(mutation: Mutation) -> tuple[Path, int, int]:
    """The file of a mutation and where in its text the fragment begins and ends.

    A fragment that is not there exactly once is an error: nobody may guess which one was meant.
    """
    path, node = stamp.find(mutation.target)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Constant))
    first, last = node.lineno - 1, node.end_lineno
    before, inside = "".join(lines[:first]), "".join(lines[first:last])
    if inside.count(mutation.old) != 1:
        raise ValueError(
            f"{mutation.name}: {mutation.old!r} is {inside.count(mutation.old)} times in "
            f"{mutation.target}, and must be there once"
        )
    at = len(before) + inside.index(mutation.old)
    return path, at, at + len(mutation.old)


def mutated(mutation: Mutation) -> tuple[Path, str, range]:
    """The file of a mutation, its text with the mutation in it, and the lines that are new."""
    path, begin, end = place(mutation)
    text = path.read_text(encoding="utf-8")
    weaker = text[:begin] + mutation.new + text[end:]
    if weaker == text or (
        path.suffix == ".py" and ast.dump(ast.parse(weaker)) == ast.dump(ast.parse(text))
    ):
        raise ValueError(f"{mutation.name}: the code stays the same")
    first = 1 + text.count("\n", 0, begin)
    return path, weaker, range(first, first + 1 + mutation.new.count("\n"))


def killer(mutation: Mutation) -> str | None:
    """The test that killed this mutation when it was last tried, if it is still there."""
    last = recorded().get(mutation.name, {})
    test = str(last.get("told", ""))
    return test if last.get("outcome") == KILLED and exists(test) else None


def exists(test: str) -> bool:
    """Whether there is a test file, or a test in it, of this name."""
    file, _, name = test.partition("[")[0].partition("::")
    path = ROOT / file
    return path.is_file() and (not name or name in _functions(path))


@functools.cache
def _functions(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


class Scratch:
    """A copy of the tree in which one mutation at a time is made, tried and taken back."""

    def __init__(
        self, folder: Path, unmutated: dict[tuple[str, ...], Verdict] | None = None
    ) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True)
        for name in COPIED:
            shutil.copytree(ROOT / name, self.tree / name, ignore=NOT_COPIED)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, self.tree / path.name)
        # What is known of tests without a mutation; copies of the same tree may share it.
        self._unmutated = {} if unmutated is None else unmutated
        self._version = 10**9
        self._running: subprocess.Popen[str] | None = None
        self.stopped = False
        self._refuse_another_tree()

    def _refuse_another_tree(self) -> None:
        """Tests of the copy must import the copy."""
        asked = [sys.executable, "-c", "import dpsu; print(dpsu.__file__)"]
        said = subprocess.run(
            asked, cwd=self.tree, env=self._environment(), capture_output=True, text=True,
            check=True,
        ).stdout.strip()  # fmt: skip
        if not Path(said).is_relative_to(self.tree):
            raise RuntimeError(f"the copy would test {said}")

    def unmutated(self, tests: tuple[str, ...]) -> Verdict:
        """Run tests as they are, once; survived means that they pass."""
        if tests not in self._unmutated:
            self._unmutated[tests] = self._run(tests)
        return self._unmutated[tests]

    def run_unmutated(self, tests: Sequence[str]) -> None:
        """Run many tests as they are, all in one process, and keep what became of each."""
        if not tests:
            return
        code, said, seconds = self._pytest(tuple(tests), longest=None)
        if code not in (0, TESTS_FAILED):
            return
        failed = {where.partition("[")[0] for where, _ in _failures(said)}
        for test in tests:
            verdict = (
                Verdict(ERROR, seconds, test) if test in failed else Verdict(SURVIVED, 0.0, "")
            )
            self._unmutated[test,] = verdict

    def tried(self, mutation: Mutation) -> Verdict:
        """Make a mutation, run its tests, and take it back."""
        try:
            path, weaker, lines = mutated(mutation)
        except ValueError as error:
            return Verdict(ERROR, 0.0, str(error))
        first = killer(mutation)
        sets = [mutation.tests] if first is None else [(first,), mutation.tests]
        verdict = Verdict(ERROR, 0.0, "it names no tests")
        for tests in sets:
            before = self.unmutated(tests)
            if before.outcome != SURVIVED:
                verdict = Verdict(ERROR, 0.0, f"its tests fail without it: {before.told}")
                continue
            verdict = self._weakened(path, weaker, lines, tests)
            if verdict.outcome == KILLED:
                break
        return verdict

    def _weakened(self, path: Path, weaker: str, lines: range, tests: tuple[str, ...]) -> Verdict:
        """Run tests with a file of the tree replaced by a weaker one."""
        copy = self.tree / path.relative_to(ROOT)
        copy.write_text(weaker, encoding="utf-8")
        is_kernel = path.parent == ROOT / KERNELS
        if not is_kernel:
            # Bytecode is known by size and time of its source: no two versions of a file may have
            # the same. Kernels are compiled, by conftest.py, since they are new.
            self._version += 1
            os.utime(copy, (self._version, self._version))
        try:
            return self._run(tests, copy, lines)
        finally:
            # With its old time as well: what was kept of it fits again.
            shutil.copy2(path, copy)
            for built in (ROOT / KERNELS).rglob("*.so") if is_kernel else ():
                shutil.copy2(built, self.tree / built.relative_to(ROOT))

    def stop(self) -> None:
        """End the run that is under way, and begin no other."""
        self.stopped = True
        if self._running is not None:
            os.killpg(self._running.pid, signal.SIGKILL)

    def _run(
        self,
        tests: tuple[str, ...],
        changed: Path | None = None,
        lines: range = range(0),
    ) -> Verdict:
        if self.stopped:
            return Verdict(ERROR, 0.0, "it was stopped")
        try:
            code, said, seconds = self._pytest(("-x", *tests))
        except subprocess.TimeoutExpired:
            return Verdict(ERROR, LONGEST, "it did not end")
        return _judged(code, said, seconds, changed, lines)

    def _pytest(
        self, arguments: tuple[str, ...], longest: float | None = LONGEST
    ) -> tuple[int, str, float]:
        """The exit code, the output and the seconds of a run of pytest in the copy."""
        command = [
            sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=native", "--no-header",
            "-p", "no:cacheprovider", f"--deselect={STAMPS}", *arguments,
        ]  # fmt: skip
        began = time.monotonic()
        with subprocess.Popen(
            command, cwd=self.tree, env=self._environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as running:  # fmt: skip
            self._running = running
            try:
                said, _ = running.communicate(timeout=longest)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                raise
            finally:
                self._running = None
        return running.returncode, said, time.monotonic() - began

    def _environment(self) -> dict[str, str]:
        kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
        return kept | {
            "PYTHONPATH": f"{self.tree / 'src'}{os.pathsep}{self.tree}",
            # Starting them takes longer than most tests.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "DPSU_SKIP_SPARK": "1",
            "COLUMNS": "400",
        }


def _judged(
    code: int, said: str, seconds: float, changed: Path | None = None, lines: range = range(0)
) -> Verdict:
    """What a run of pytest means, if these lines of a file were changed for it."""
    if code == 0:
        # Skipped tests notice nothing, and their set would pass for one that does.
        passed = re.search(r"\b\d+ passed\b", said)
        return Verdict(SURVIVED if passed else ERROR, seconds, "" if passed else "nothing ran")
    failed = _failures(said)
    if code == TESTS_FAILED and failed:
        where, why = failed[0]
        misspelled = [
            raised["error"]
            for raised in MISSPELLED.finditer(said)
            if raised["file"] == str(changed) and int(raised["line"]) in lines
        ]
        if misspelled or BROKEN.search(why):
            error = why or misspelled[0]
            return Verdict(ERROR, seconds, f"it is broken, not weaker: {error}")
        return Verdict(KILLED, seconds, where)
    return Verdict(ERROR, seconds, (said.strip().splitlines() or ["no words"])[-1])


def _failures(said: str) -> list[tuple[str, str]]:
    """The tests that failed in a run of pytest, each with its error in short."""
    lines = re.findall(r"^FAILED (.*)$", said, re.M)
    return [(where, why) for where, _, why in (line.partition(" - ") for line in lines)]


def verdicts(
    mutations: Sequence[Mutation], jobs: int, told: Any = lambda mutation, verdict: None
) -> dict[str, Verdict]:
    """What becomes of these mutations, `jobs` at a time; `told` hears of each."""
    found: dict[str, Verdict] = {}
    # Mutations with the same tests go to the same copy, so that those run unmutated once.
    sets: dict[tuple[str, ...], list[Mutation]] = {}
    for mutation in mutations:
        sets.setdefault(mutation.tests, []).append(mutation)
    with (
        tempfile.TemporaryDirectory(prefix="dpsu-mutants-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        known: dict[tuple[str, ...], Verdict] = {}
        copies = [Scratch(Path(folder) / str(job), known) for job in range(jobs)]
        free: SimpleQueue[Scratch] = SimpleQueue()
        for copy in copies:
            free.put(copy)

        def work(some: list[Mutation]) -> None:
            scratch = free.get()
            try:
                for mutation in some:
                    verdict = scratch.tried(mutation)
                    if scratch.stopped:
                        return
                    found[mutation.name] = verdict
                    told(mutation, verdict)
            finally:
                free.put(scratch)

        killers = sorted({test for each in mutations if (test := killer(each))})
        try:
            for ran in [
                pool.submit(copy.run_unmutated, killers[job::jobs])
                for job, copy in enumerate(copies)
            ]:
                ran.result()
            for done in [pool.submit(work, some) for some in sets.values()]:
                done.result()
        except BaseException:
            # Stopped: nothing of it goes on.
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            raise
    return {mutation.name: found[mutation.name] for mutation in mutations}


def recorded() -> dict[str, dict[str, Any]]:
    """What became of each mutation when all were last tried."""
    if not RESULTS.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def record(mutation: Mutation, verdict: Verdict) -> None:
    """Keep a verdict; those of mutations that are gone go."""
    with _RECORDING:
        found = recorded()
        told = verdict.told.partition("[")[0] if verdict.outcome == KILLED else verdict.told
        seconds = round(verdict.seconds, 1)
        found[mutation.name] = {"outcome": verdict.outcome, "seconds": seconds, "told": told}
        kept = {m.name: found[m.name] for m in MUTATIONS if m.name in found}
        rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in kept.items())
        # At once: other threads read it meanwhile.
        whole = RESULTS.with_suffix(".new")
        whole.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        whole.replace(RESULTS)


def few(number: int, by: str) -> list[Mutation]:
    """So many of the mutations that were killed quickly, as a hash chooses."""
    last = recorded()

    def quick(mutation: Mutation) -> bool:
        found = last.get(mutation.name, {})
        return found.get("outcome") == KILLED and float(found["seconds"]) < QUICK

    def drawn(mutation: Mutation) -> bytes:
        return hashlib.sha256(f"{by} {mutation.name}".encode()).digest()

    return sorted(filter(quick, MUTATIONS), key=drawn)[:number]


def commit() -> str:
    """The hash of the commit; without git, that of the table."""
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode == 0:
        return asked.stdout.strip()
    return hashlib.sha256(TABLE.read_bytes()).hexdigest()


def chosen(words: Iterable[str]) -> list[Mutation]:
    """Mutations whose name or target contains one of the words; all without any."""
    wanted = list(words)
    found = [
        m for m in MUTATIONS if not wanted or any(w in m.name or w in m.target for w in wanted)
    ]
    if not found:
        raise SystemExit(f"no mutation is called anything like {' or '.join(wanted)}")
    return found


def report() -> str:
    """The score as a section of a page: by guarantee, and every survivor with its reason."""
    last = recorded()
    by_guarantee: dict[str, list[Mutation]] = {}
    for mutation in MUTATIONS:
        by_guarantee.setdefault(mutation.guarantee, []).append(mutation)

    def killed(some: Iterable[Mutation]) -> int:
        return sum(last.get(m.name, {}).get("outcome") == KILLED for m in some)

    lines = [
        "## Mutations",
        "",
        f"Of {len(MUTATIONS)} mutations that each weaken a guarantee on purpose, tests killed "
        f"**{killed(MUTATIONS)}** ({killed(MUTATIONS) / len(MUTATIONS):.1%}) when each was "
        "last tried; `make mutants` tries them all. Each is one change of one function, listed "
        "with its reason and its "
        "tests in `tools/mutations.toml`. The check that proofs were read against the code notices "
        "any change and does not count. A dozen of them, other ones with every commit, are tried "
        "in `make test`.",
        "",
        "| guarantee | killed | of |",
        "|---|---|---|",
    ]
    for guarantee, some in sorted(by_guarantee.items()):
        page = f"[{guarantee.rpartition('/')[2]}](../{guarantee}.md)"
        lines.append(f"| {page} | {killed(some)} | {len(some)} |")
    alive = [m for m in MUTATIONS if last.get(m.name, {}).get("outcome") != KILLED]
    if alive:
        lines += ["", "Not killed:", ""]
    for mutation in alive:
        outcome = last.get(mutation.name, {}).get("outcome", "not tried yet")
        reason = mutation.survives or outcome
        lines.append(f"- `{mutation.name}` ({mutation.weakens}): {reason}")
    return "\n".join(lines)


def _tell(mutation: Mutation, verdict: Verdict) -> None:
    told = f"{verdict.outcome:9}{verdict.seconds:6.1f} s  {mutation.name}"
    print(f"{told}  {verdict.told}" if verdict.outcome == ERROR else told, flush=True)


def _list(mutations: Iterable[Mutation]) -> None:
    last = recorded()
    for mutation in mutations:
        found = last.get(mutation.name, {"outcome": "not tried", "seconds": 0.0})
        print(f"{found['outcome']:10}{found['seconds']:6.1f} s  {mutation.name}: {mutation.target}")
        print(f"{'':20}{mutation.weakens}")


def main() -> None:
    """Try mutations, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="parts of names or of targets; all without any")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time; 2 by default")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--few", type=int, metavar="N", help="only N of the quick ones")
    parser.add_argument("--by", metavar="HASH", help="what chooses them; the commit by default")
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    mutations = chosen(given.words)
    if given.few is not None:
        mutations = few(given.few, given.by or commit())
    if given.list:
        _list(mutations)
        return

    # A run in the background does not hear of Ctrl-C: it ends in order when it is told to end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))

    def told(mutation: Mutation, verdict: Verdict) -> None:
        _tell(mutation, verdict)
        if given.record:
            record(mutation, verdict)

    found = verdicts(mutations, given.jobs, told)
    outcomes = [verdict.outcome for verdict in found.values()]
    killed, errors = outcomes.count(KILLED), outcomes.count(ERROR)
    print(f"{killed} of {len(outcomes)} killed ({killed / max(1, len(outcomes)):.0%})")
    for mutation in mutations:
        if found[mutation.name].outcome == SURVIVED:
            print(f"survived: {mutation.name}: {mutation.survives or mutation.weakens}")
    if errors or killed < ENOUGH * len(outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
