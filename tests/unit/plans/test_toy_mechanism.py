"""A new mechanism is one file: whoever imports it has it everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.pages import ROOT

TOY = '''
"""A mechanism that nobody needs."""

from dataclasses import dataclass
from typing import ClassVar

from dpsu.options import option
from dpsu.plans.mechanisms.base import UNBOUNDED_FRACTION_BITS, Design, Mechanism, OneShot
from dpsu.policies import Weighted
from dpsu.privacy.curves import TruncatedLaplace


@dataclass(frozen=True, kw_only=True)
class Toy(Mechanism):
    """Each user spreads weight 1 over its items, and the noise is more than it need be."""

    toys: int = option(3, int, "At most this many toys count.", low=1, high=1234)
    caution: float = option(1.5, float, "Epsilon is divided by it.", low=1.25, high=8.5)
    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "weighted-laplace with more noise than it need have"

    def design(self, privacy):
        """Weights of l1 sensitivity 1, with a Laplace curve for less than the promise."""
        curve = TruncatedLaplace(privacy.epsilon / self.caution, privacy.delta)
        return Design(
            OneShot(Weighted(1, UNBOUNDED_FRACTION_BITS), curve),
            self.toys,
            "hash",
            None,
            (("novel items", privacy.delta),),
            "truncated-laplace",
        )
'''
COMMAND = "import toy; from dpsu.cli import main; main()"
EVERYWHERE = """
import sys
from pathlib import Path

import toy
import dpsu
from dpsu.cli.demo import mechanisms
from tests.contracts import assertions
from tools import reference

folder = Path(sys.argv[1])
assert dpsu.mechanism("toy", toys=2) == toy.Toy(toys=2)
for number, mechanism in enumerate([toy.Toy(), *assertions.variants(toy.Toy, None)]):
    made = folder / str(number)
    made.mkdir()
    assertions.check_everything(mechanism, made)
assertions.check_forecast(toy.Toy())
assertions.check_audit(toy.Toy())
plan = dpsu.plan(epsilon=2, delta=1e-3)
seen = dpsu.forecast(plan, users=200, items_per_user=3, vocabulary=100)
assert "toy" in {point.mechanism for point in seen.by_mechanism}
rows = [(user, item) for user in range(50) for item in range(3)]
compared = dpsu.compare(rows, epsilon=2, delta=1e-3, runs=1)
assert "toy" in {row.mechanism for row in compared.rows}
assert toy.Toy() in mechanisms()
pages = reference.pages()
assert "[`toy.Toy`](classes/toy.Toy.md)" in pages["index.md"]
assert "`toys` : int, default 3\\n:   At most this many" in pages["classes/toy.Toy.md"]
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A folder with the one file in it."""
    (tmp_path / "toy.py").write_text(TOY)
    return tmp_path


def said(folder: Path, code: str, *arguments: str) -> str:
    """What Python prints that finds the file of the mechanism, and this tree."""
    places = [str(folder), str(ROOT / "src"), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places), "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_knows_its_name_and_its_flags(toy: Path) -> None:
    listed = said(toy, COMMAND, "mechanisms")
    assert "toy                weighted-laplace with more noise than it need have\n" in listed
    helped = " ".join(said(toy, COMMAND, "release", "--help").split())
    assert "|auto|toy]" in helped
    count = "--toys INTEGER At most this many toys count. From 1 to 1,234. (toy) Default 3."
    assert count in helped
    assert (
        "--caution FLOAT Epsilon is divided by it. From 1.25 to 8.5. (toy) Default 1.5." in helped
    )


def test_errors_know_its_bounds_and_its_options(toy: Path) -> None:
    tried = """
import toy
import dpsu

for options in ({"toys": 0}, {"rounds": 2}):
    try:
        dpsu.mechanism("toy", **options)
    except dpsu.ParameterError as error:
        print(error)
"""
    bounds, lacking = said(toy, tried).splitlines()
    assert bounds == "toys=0 is out of range; it must lie between 1 and 1234"
    assert lacking.startswith("toy has no option rounds, which sips, sieve, bits have; its options")


@pytest.mark.thorough
def test_it_keeps_the_contract_of_all_mechanisms_and_is_everywhere(toy: Path) -> None:
    """Data in every form, plans, shell, reports, ledgers, forecasts, audits and the reference."""
    said(toy, EVERYWHERE, str(toy))
