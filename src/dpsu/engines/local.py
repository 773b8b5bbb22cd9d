"""One machine, in memory: from the data as they were given to the released items.

reading and interning -> rows of codes
orders -> grouping -> bounding -> policy weights -> exact coins -> sorted items
orders -> grouping -> rounds with exact noise -> sorted items
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions import bounding, order
from dpsu.contributions.grouped import Contributions, arrange
from dpsu.contributions.ids import Ids, integers
from dpsu.contributions.pairs import Pairs
from dpsu.engines.estimates import estimate, histogram
from dpsu.engines.found import Found, Report
from dpsu.engines.local_rounds import LocalRounds
from dpsu.errors import DataError
from dpsu.inputs.public import Prior, PublicItems
from dpsu.inputs.reading import Source
from dpsu.plans.mechanisms import Choice, OneShot
from dpsu.plans.plan import Plan
from dpsu.randomness.coins import flip_coins
from dpsu.randomness.keys import Key
from dpsu.rounds import NGramRounds
from dpsu.runtime.memory import Memory


class OneMachine:
    """A release on one machine: it reads the data, and chooses items from them."""

    def __init__(self, plan: Plan, source: Source, memory: Memory, report: Report) -> None:
        self._plan, self._source, self._memory = plan, source, memory
        self._report = report
        self._read = 0

    def run(self, key: Key) -> Found:
        """Read the data, and choose items of them."""
        return self._of_texts(key) if self._plan.by_length else self._of_pairs(key)

    def _of_pairs(self, key: Key) -> Found:
        plan = self._plan
        pairs = self._source.pairs(
            key,
            with_repeats=plan.order == "repeats",
            memory=self._memory,
            progress=self._tick,
        )
        known = plan.knowledge
        if known.public_items is not None:
            known.public_items.refuse_other_than(pairs.codec)
        plan, items = select_items(
            plan,
            pairs,
            key,
            prior=known.prior,
            public=known.public_items,
            memory=self._memory,
            progress=self._report,
        )
        # Before they are counted, so that what they imply has a count, too.
        items = pairs.codec.with_implied(items)
        noisy = None
        if plan.noisy_counts is not None:
            noisy = count(plan, pairs, items, key, memory=self._memory)
        return Found(plan, items, noisy, pairs.codec)

    def _of_texts(self, key: Key) -> Found:
        from dpsu.engines import local_texts

        assert self._plan.text is not None
        corpus = self._source.corpus(self._plan.text, key, self._tick)
        items = local_texts.run(self._plan, corpus, key, self._memory, self._report)
        return Found(self._plan, items)

    def _tick(self, rows: int) -> None:
        self._read += rows
        self._report("reading", self._read)


def select_items(
    plan: Plan,
    pairs: Pairs,
    key: Key,
    *,
    prior: Prior | None = None,
    public: PublicItems | None = None,
    memory: Memory | None = None,
    progress: Report = lambda name, users: None,
) -> tuple[Plan, pa.Array]:
    """Run a plan on pairs: the released items, sorted, and the plan that chose them.

    Items have the type of the private ones.
    """
    users, items, held = group_as_planned(
        plan, pairs, key, prior=prior, public=public, memory=memory, progress=progress
    )
    plan = chosen(plan, held, key)
    progress("weighing items", 0)

    def users_weighed(weighed: int) -> None:
        progress("weighing items", weighed)

    selection = plan.selection
    if isinstance(selection, OneShot):
        weights = above_min_users(
            plan,
            plan.policy.weights(bound_as_planned(plan, held, users, items, key), users_weighed),
        )
        progress("tossing coins", 0)
        released = flip_coins(plan.curve, weights, plan.policy.fraction_bits, items, key)
    else:
        assert not isinstance(selection, (NGramRounds, Choice)), "these never come here"
        released = selection.run(LocalRounds(held, users, items, key, users_weighed), items, key)
    found = items.take(np.flatnonzero(released)).values
    if public is not None:
        found = pa.concat_arrays([found, public.added(found.type)])
    return plan, found.take(pc.sort_indices(found))


def chosen(plan: Plan, held: Contributions, key: Key) -> Plan:
    """The plan itself, or the one that an estimate of set sizes chooses among its candidates."""
    if not isinstance(plan.selection, Choice):
        return plan
    return plan.chosen(
        estimate(histogram(held.sizes), key, plan.selection.epsilon, plan.privacy.ids_per_person)
    )


def shares(
    plan: Plan,
    pairs: Pairs,
    key: Key,
    *,
    prior: Prior | None = None,
    public: PublicItems | None = None,
) -> tuple[Ids, NDArray[np.int64]]:
    """What these users together give to each of their items. PRIVATE.

    If the policy has no order of users, sums over parts of the users add up to the sum over all.
    """
    users, items, held = group_as_planned(plan, pairs, key, prior=prior, public=public)
    return items, plan.policy.weights(bound_as_planned(plan, held, users, items, key))


def above_min_users(plan: Plan, weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Subtract (min_users - 1) from every weight, but leave none below 0."""
    return np.maximum(weights - (plan.shift << plan.policy.fraction_bits), 0)


def count(
    plan: Plan, pairs: Pairs, released: pa.Array, key: Key, *, memory: Memory | None = None
) -> pa.Array:
    """Noisy numbers of holders of the released items, held or not, in their order."""
    assert plan.noisy_counts is not None
    # Items that nobody holds have a count too: 0 and the same noise.
    sums = counted(plan, pairs, released, memory=memory)
    return integers(plan.noisy_counts.noisy(sums, Ids(released), key))


def counted(
    plan: Plan, pairs: Pairs, released: pa.Array, *, memory: Memory | None = None
) -> NDArray[np.int64]:
    """What these users count for each of the released items, in units. PRIVATE."""
    assert plan.noisy_counts is not None
    at = pc.index_in(released, value_set=pairs.items.values)
    codes = at.drop_null().to_numpy().astype(np.int64)
    held = arrange(pairs, np.arange(len(pairs.users)), codes, with_repeats=False, memory=memory)
    found = np.zeros(len(released), np.int64)
    found[at.is_valid().to_numpy(zero_copy_only=False)] = plan.noisy_counts.sums(held)
    return found


def group_as_planned(
    plan: Plan,
    pairs: Pairs,
    key: Key,
    *,
    prior: Prior | None = None,
    public: PublicItems | None = None,
    memory: Memory | None = None,
    progress: Report = lambda name, users: None,
) -> tuple[Ids, Ids, Contributions]:
    """Users and items in their orders, and who holds what."""
    refuse_too_many(plan, len(pairs.users))
    progress("grouping by user", 0)
    user_order = order.hash_order(pairs.users, key.salt("user order"))
    item_order = _item_order(plan, pairs.items, key, prior)
    if public is not None:
        item_order = item_order[~public.among(pairs.items)[item_order]]
    held = arrange(
        pairs, user_order, item_order, with_repeats=plan.order == "repeats", memory=memory
    )
    return pairs.users.take(user_order), pairs.items.take(item_order), held


def refuse_too_many(plan: Plan, users: int) -> None:
    """Refuse more users than the plan is proved for, without saying how many there are."""
    if users > plan.max_users:
        raise DataError(
            f"there are more users than this plan is proved for (at most {plan.max_users:,}); "
            "lower max_items or passes, or choose sieve, which has no such limit"
        )


def _item_order(plan: Plan, items: Ids, key: Key, prior: Prior | None) -> NDArray[np.int64]:
    salt = key.salt("item order")
    if plan.order == "popular":
        assert prior is not None
        return order.popular_order(items, salt, prior)
    if plan.order == "scarce":
        assert prior is not None
        assert plan.expected_users is not None
        assert plan.cutoff is not None
        return order.scarce_order(items, salt, prior, plan.expected_users, round(plan.cutoff))
    return order.hash_order(items, salt)


def bound_as_planned(
    plan: Plan, contributions: Contributions, users: Ids, items: Ids, key: Key
) -> Contributions:
    """At most `max_items` items of each user, as the plan says; `contributions` is used up."""
    if plan.order == "repeats":
        contributions = order.by_repeats(contributions)
    if plan.max_items is None:
        return contributions
    if plan.bounded_by == "order":
        return bounding.first(contributions, plan.max_items)
    return bounding.sample(
        contributions,
        plan.max_items,
        users.hashes(key.salt("sample by user")),
        items.hashes(key.salt("sample by item")),
    )
