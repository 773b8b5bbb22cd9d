"""All periods of small series together, against their budget, over every path of outputs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.engines import local
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.series.known import KnownItems
from dpsu.series.terms import Terms
from tests.support.cases import every
from tests.support.divergence import BITS, UNIT, bracket, growth_at_least

KEY = Key.from_insecure_seed(5)
Rows = dict[str, list[str]]


def divergence(budget: dpsu.Privacy, terms: Terms, more: Rows, less: Rows) -> Fraction:
    """Upper bound of sup over O of P(O) - e^epsilon Q(O), over all that all periods release.

    Each period has the same rows. Every sequence of outputs is enumerated, with the weights that
    the engine itself finds for the items that are not known yet.
    """
    plan = terms.plan
    curve: Any = plan.curve

    def chances(rows: Rows, known: frozenset[str]) -> dict[str, tuple[int, int]]:
        public = KnownItems(pa.array(sorted(known), pa.large_string())) if known else None
        pairs = Source(rows, plan.user, plan.item).pairs(KEY, with_repeats=False)
        items, weights = local.shares(plan, pairs, KEY, public=public)
        bits = plan.policy.fraction_bits
        return {
            item: bracket(curve, Fraction(int(weight), 1 << bits))
            for item, weight in zip(items.values.to_pylist(), weights, strict=True)
        }

    growth = growth_at_least(budget.epsilon)

    def after(number: int, known: frozenset[str], p: int, q: int) -> int:
        """The sum over all that may follow; P at most p so far, Q at least q."""
        if number > terms.periods:
            return max(0, p - ((growth * q) >> BITS))
        ours, theirs = chances(more, known), chances(less, known)
        outputs = [(known, p, q)]
        for item in sorted(ours.keys() | theirs.keys()):
            p_low, p_high = ours.get(item, (0, 0))
            q_low, q_high = theirs.get(item, (0, 0))
            outputs = [
                each
                for shown, likely, unlikely in outputs
                for each in (
                    (shown | {item}, -((-likely * p_high) >> BITS), (unlikely * q_low) >> BITS),
                    (
                        shown,
                        -((-likely * (UNIT - p_low)) >> BITS),
                        (unlikely * (UNIT - q_high)) >> BITS,
                    ),
                )
            ]
        return sum(after(number + 1, *output) for output in outputs)

    return Fraction(after(1, frozenset(), UNIT, UNIT), UNIT)


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@every("mechanism", ["weighted-laplace", "weighted-gaussian"])
def test_all_periods_together_are_within_the_budget_exactly(mechanism: str) -> None:
    """On small neighbors, for a user who holds an item alone in every period, and one with others.

    What is released early is known later, so the enumeration is of all paths. With Laplace noise,
    where prices are sums and an item of one user comes out with all of delta, the account is tight:
    at the same prices, four periods would exceed the budget of two.
    """
    budget = dpsu.Privacy(1.0, 0.1)
    made = dpsu.plan(epsilon=1.0, delta=0.1, mechanism=mechanism)
    terms = Terms.shared(made, 2)
    others = {f"u{n}": ["shared"] for n in range(4)}
    worst = []
    for held in (["alone"], ["shared"], ["alone", "shared"]):
        more = others | {"x": held}
        worst += [divergence(budget, terms, *pair) for pair in ((more, others), (others, more))]
    assert max(worst) <= Fraction(budget.delta)
    if mechanism == "weighted-laplace":
        assert max(worst) > 0.9 * Fraction(budget.delta)
        object.__setattr__(terms, "periods", 4)
        assert divergence(budget, terms, others | {"x": ["alone"]}, others) > 1.5 * budget.delta
