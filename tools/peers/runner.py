"""Release keys, hand them to every library, and compare with the keys that it finds by itself.

    python -m tools.peers                 all libraries; missing environments are made
    python -m tools.peers --only opendp   one of them; what is known of the others stays

Versions of Spark are tried, too: they are to release what one machine releases.

The result goes to benchmarks/results/peers.json, and from there to the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.kept import keep

from tools.peers import made_up, spark_versions
from tools.peers.asking import MAX_AMOUNT
from tools.peers.environments import LIBRARIES, Library, NotInstalledError, last_line, python_of
from tools.peers.scoring import mean_of, true_sums

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "peers.json"
BUDGET = (2.0, 1e-6)
REPEATS = 5
HALF = 0.5
SHARES = (0.25, 0.5, 0.75)
"""Of epsilon, for keys: tried with the first library."""
RANKS = (1, 100, 500)
"""The true sums of these products tell how large noise is."""

Price = tuple[float, float]


@dataclass(frozen=True)
class Purchases:
    """Made-up data, and how many rows of a person count; both are public."""

    name: str
    mean_basket: float
    max_rows: int


MANY = Purchases("many", made_up.MEAN_BASKET, 10)
ONE = Purchases("one", 1.0, 1)


class FailedError(Exception):
    """A command ended with an error; the message is its last line."""


def prices(library: Library, share: float) -> tuple[Price, Price]:
    """What keys and sums cost, which together is the budget.

    Sums with Laplace noise need no delta, and keys have all of it; otherwise both have half.
    """
    epsilon, delta = BUDGET
    kept = delta / 2 if library.needs_delta else 0.0
    return (epsilon * share, delta - kept), (epsilon - epsilon * share, kept)


def spelled(price: Price) -> str:
    """A price as the command line takes it."""
    return f"{price[0]:g},{price[1]:g}"


class Run:
    """Runs on one set of purchases: a folder with the data, released keys and ledgers."""

    def __init__(self, folder: Path, data: Purchases, repeats: int, python: str) -> None:
        self.folder, self.data, self.repeats, self.python = folder, data, repeats, python
        self.work = folder / f"work-{data.name}"
        self.clean()
        self.work.mkdir(parents=True)
        self.purchases = self.work / "purchases.parquet"
        made_up.write(made_up.purchases(data.mean_basket), self.purchases)

    def clean(self) -> None:
        """Remove data, keys and ledgers; environments stay."""
        shutil.rmtree(self.work, ignore_errors=True)

    def keys(self, price: Price) -> list[Path]:
        """Release keys as often as runs are repeated, each time on a ledger of its own."""
        files = [self.work / f"keys-{spelled(price)}-{n}.parquet" for n in range(self.repeats)]
        for file in files:
            if not file.exists():
                self._dpsu(
                    *("release", str(self.purchases), "--user", "person", "--item", "product"),
                    *("--epsilon", f"{price[0]:g}", "--delta", f"{price[1]:g}"),
                    *("--output", str(file), "--ledger", str(file.with_suffix(".db"))),
                    *("--dataset", "purchases", "--budget", spelled(BUDGET)),
                )
        return files

    def charge(self, library: Library, keys: Path, price: Price) -> None:
        """Put the sums on record beside the keys; refused if both exceed the budget."""
        ledger = keys.with_suffix(f".{library.name}.db")
        shutil.copy(keys.with_suffix(".db"), ledger)
        self._dpsu(
            *("ledger", str(ledger), "--dataset", "purchases"),
            *("--add", f"{library.title}: sums of amounts", "--cost", spelled(price)),
        )

    def given(self, library: Library, share: float) -> dict[str, Any]:
        """Scores of sums over keys that were released before."""
        price, rest = prices(library, share)
        files = self.keys(price)
        if library.private:
            for file in files:
                self.charge(library, file, rest)
        told = self._ask(library, "--keys", *map(str, files), "--cost", spelled(rest))
        return {"cost_of_keys": price, "cost_of_sums": rest, **told}

    def own(self, library: Library) -> dict[str, Any]:
        """Scores of sums over keys that the library finds itself, for the whole budget."""
        return self._ask(library, "--own", str(self.repeats), "--cost", spelled(BUDGET))

    def _ask(self, library: Library, *arguments: str) -> dict[str, Any]:
        python = python_of(library, self.folder, self.python)
        module = f"tools.peers.libraries.{library.name}"
        command = [python, "-m", module, str(self.purchases), *arguments]
        command += ["--max-rows", str(self.data.max_rows)]
        told = [json.loads(line) for line in self._out(command, PYTHONPATH=str(ROOT)).splitlines()]
        return {"version": told[0]["version"], **mean_of(told)}

    def _dpsu(self, *arguments: str) -> None:
        self._out([sys.executable, "-m", "dpsu", *arguments])

    def _out(self, command: Iterable[str], **variables: str) -> str:
        done = subprocess.run(
            list(command), capture_output=True, check=False, text=True, cwd=self.work,
            env=os.environ | variables,
        )  # fmt: skip
        if done.returncode:
            raise FailedError(last_line(done.stderr))
        return done.stdout


def tried(library: Library, many: Run, one: Run) -> dict[str, Any]:
    """All that is known of a library, or why nothing is."""
    today = {"date": datetime.now(UTC).date().isoformat()}
    found: dict[str, Any] = {}
    try:
        found["given"] = many.given(library, HALF)
        if library.selects:
            found["own"] = many.own(library)
            found["one"] = {"given": one.given(library, HALF), "own": one.own(library)}
        if library == LIBRARIES[0]:
            found["shares"] = {f"{share:g}": many.given(library, share) for share in SHARES}
    except NotInstalledError as reason:
        return today | {"failed": f"not installed: {reason}"}
    except FailedError as reason:
        return today | {"failed": f"did not run: {reason}"}
    return today | found


def setting(repeats: int) -> dict[str, Any]:
    """What a result is about; results of other settings are not kept beside it."""
    sums = sorted(true_sums(made_up.purchases(MANY.mean_basket)).values(), reverse=True)
    return {
        "budget": list(BUDGET),
        "repeats": repeats,
        "max_amount": MAX_AMOUNT,
        "people": made_up.PEOPLE,
        "products": made_up.PRODUCTS,
        "seed": made_up.SEED,
        "many": asdict(MANY),
        "one": asdict(ONE),
        "sums": {str(rank): sums[rank - 1] for rank in RANKS},
    }


def main() -> None:
    """Run what is asked for, and keep what it gave."""
    import dpsu

    parser = argparse.ArgumentParser(description="Hand released keys to other libraries.")
    every = (*LIBRARIES, *spark_versions.VERSIONS)
    parser.add_argument("--only", nargs="*", choices=[each.name for each in every])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--folder", type=Path, default=ROOT / ".peers")
    parser.add_argument("--python", default=sys.executable, help="what makes the environments")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    found: dict[str, Any] = {"setting": setting(asked.repeats), "libraries": {}}
    if asked.results.exists():
        known = json.loads(asked.results.read_text("utf-8"))
        if known["setting"] == found["setting"]:
            found = known
    many, one = (
        Run(asked.folder.resolve(), data, asked.repeats, asked.python) for data in (MANY, ONE)
    )
    for library in every:
        if asked.only is None or library.name in asked.only:
            print(library.title, file=sys.stderr, flush=True)
            if library in LIBRARIES:
                kept, entry = found["libraries"], tried(library, many, one)
            else:
                kept = found.setdefault("versions", {})
                entry = spark_versions.tried(library, many.folder, many.purchases, asked.python)
            print(f"  {entry.get('failed', 'ran')}", file=sys.stderr, flush=True)
            kept[library.name] = entry | {"dpsu": dpsu.__version__}
            keep(asked.results, found)
    many.clean()
    one.clean()
