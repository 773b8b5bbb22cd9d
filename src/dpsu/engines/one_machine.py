"""A release on one machine, from the data as they were given to what an engine found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsu.engines.found import Found, Report
from dpsu.inputs.source import Source
from dpsu.plans.auto import Auto, Hints
from dpsu.plans.plan import Plan
from dpsu.plans.planning import make_plan

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.randomness.keys import Key
    from dpsu.runtime.memory import Memory


class OneMachine:
    """A release on one machine: it reads the data, and chooses items from them."""

    def __init__(
        self, plan: Plan, source: Source, memory: Memory, report: Report, estimating: Auto | None
    ) -> None:
        self._plan, self._source, self._memory = plan, source, memory
        self._report, self._estimating = report, estimating
        self._read = 0

    def run(self, key: Key) -> Found:
        """Read the data, and choose items of them."""
        from dpsu.runtime.compiling import when_compiling

        with when_compiling(lambda: self._report("compiling", 0)):
            return self._of_texts(key) if self._plan.by_length else self._of_pairs(key)

    def _of_pairs(self, key: Key) -> Found:
        from dpsu.engines import local

        plan, auto = self._plan, self._estimating
        pairs = self._source.pairs(
            key,
            with_repeats=plan.order == "repeats" or auto is not None,
            memory=self._memory,
            progress=self._tick,
        )
        if auto is not None:
            plan = self._chosen(auto, pairs, key)
        known = plan.knowledge
        items = local.run(
            plan,
            pairs,
            key,
            prior=known.prior,
            public=known.public_items,
            memory=self._memory,
            progress=self._report,
        )
        noisy = None
        if plan.noisy_counts is not None:
            noisy = local.count(plan, pairs, items, key, memory=self._memory)
        return Found(plan, items, noisy)

    def _of_texts(self, key: Key) -> Found:
        from dpsu.engines import local_texts

        assert self._plan.text is not None
        corpus = self._source.corpus(self._plan.text, key, self._tick)
        items = local_texts.run(self._plan, corpus, key, self._memory, self._report)
        return Found(self._plan, items)

    def _chosen(self, auto: Auto, pairs: Pairs, key: Key) -> Plan:
        from dpsu.engines.estimates import estimate

        plan = self._plan
        hints = estimate(pairs, key, *price(auto, plan), memory=self._memory)
        return make_plan(
            plan.privacy,
            auto,
            plan.user,
            self._source.item,
            counts=plan.counts or False,
            public_items=plan.knowledge.public_items,
            insecure_seed=plan.insecure_seed,
            hints=hints,
        )

    def _tick(self, rows: int) -> None:
        self._read += rows
        self._report("reading", self._read)


def price(auto: Auto, plan: Plan) -> tuple[float, float]:
    """What estimates cost, of the plan's numbers, which are Python's: NumPy's have fewer digits."""
    assert auto.budget is not None
    return auto.budget * plan.privacy.epsilon, auto.budget * plan.privacy.delta


def refuse_too_dear(auto: Auto, plan: Plan) -> None:
    """Refuse estimates that leave nothing for the selection, before they are charged."""
    hints = Hints(None, None, *price(auto, plan))
    Plan.derived(
        plan.privacy, plan.mechanism, plan.user, plan.item, counts=plan.counts, hints=hints
    )
