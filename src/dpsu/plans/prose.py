"""Plans and releases in words. Public parameters and released items only: safe to publish."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from dpsu._version import __version__
from dpsu.rounds import NGramRounds, Rounds, SipsRounds

if TYPE_CHECKING:
    from dpsu.ledger.records import Account
    from dpsu.plans.auto import Hints
    from dpsu.plans.plan import Plan, Selected
    from dpsu.releases import Release

THEOREMS = {
    "laplace": "Laplace noise, Gopi et al. 2020, Theorems 4.1 and B.1: `dpsu proofs laplace`",
    "gaussian": "Gaussian noise, Gopi et al. 2020, Theorems 5.1 and B.2: `dpsu proofs gaussian`",
    "truncated-laplace": "truncated Laplace noise: `dpsu proofs truncated-laplace`",
    "gaussian-joint": "Gaussian noise accounted jointly: `dpsu proofs gaussian-joint`",
    "optimal": "optimal selection of whole votes: `dpsu proofs optimal`",
    "sips": "rounds of Gaussian noise, their budgets added up: `dpsu proofs sips`",
    "sieve": "looks with Gaussian noise and a boundary for novel items: `dpsu proofs sieve`",
    "ngrams": "Gaussian noise on public domains, length by length: `dpsu proofs ngrams`",
    "greedy-published": "NONE: the published proof of greedy has a gap: `dpsu proofs greedy`",
}


def guarantee(plan: Plan) -> str:
    """The guarantee in one sentence."""
    if plan.insecure_seed is not None:
        return "NO GUARANTEE: made with an insecure seed, for tests only."
    if not plan.proven and plan.selected is not None:
        return "NO GUARANTEE: a candidate is not differentially private as published."
    if not plan.proven:
        return "NO GUARANTEE: this mechanism is not differentially private as published."
    return (
        f"({at_least(plan.privacy.epsilon)}, {at_least(plan.privacy.delta)})-differential privacy "
        f"for adding or removing any one {plan.user!r} with all of their rows."
    )


def at_least(number: float) -> str:
    """A number in few digits that do not make it smaller; all of them otherwise."""
    short = f"{number:.4g}"
    return short if float(short) >= number else repr(number)


def promises(plan: Plan) -> list[str]:
    """What the guarantee takes for granted about its caller."""
    listed = [
        f"one person is one value of {plan.user!r}, in all rows",
        f"whether {plan.item!r} is text or integers is no secret"
        if plan.text is None
        else "the tokenizer looks at one text at a time and at nothing else",
        "files and tables are not damaged (a run that finds otherwise refuses; with `strict` also "
        "one that finds a cell it would have to ignore)",
        "epsilon, delta and all options were chosen without looking at the data",
        "only the items and this report are published, and nobody saw the run's errors or timing",
        "every further release of the same people adds its own epsilon and delta",
        "if a ledger counts Gaussian releases as one: epsilon, delta and mechanism were not chosen "
        "by what earlier releases of these people showed (otherwise see `dpsu proofs ledger`)",
    ]
    if plan.max_users < 2**32:
        listed.append(f"there are at most {plan.max_users:,} users (a run with more refuses)")
    if plan.prior is not None:
        listed.append("the prior was not made from the private data")
    if plan.public_items is not None:
        listed.append("the public items were not taken from the private data")
    return listed


def people(plan: Plan, weight: float) -> str:
    """How many users a weight takes, in words."""
    if isinstance(plan.rounds, NGramRounds):
        return f"{math.ceil(weight):,} users who hold no other token"
    if plan.rounds is not None:
        return f"{math.ceil(weight):,} users who hold nothing else that is still open"
    kind = plan.policy.kind
    if kind == "count" or (kind == "greedy" and plan.policy.fraction_bits == 0):
        act = "hold it" if kind == "count" else "vote for it"
        return f"{math.ceil(weight):,} users who {act}"
    alone = f"{math.ceil(weight):,} users who hold nothing else"
    if kind == "greedy":
        return f"{math.ceil(weight):,} users who spend their whole budget on it"
    size = plan.max_items or 100
    if size == 1:
        return f"{math.ceil(weight):,} users"
    norm = 2 if kind in ("l2-descent", "reroute") or getattr(plan.policy, "norm", 1) == 2 else 1
    many = math.ceil(weight * (size if norm == 1 else math.sqrt(size)))
    bound = "" if kind == "weighted" else "at most "
    return f"{alone}, or {bound}{many:,} users who hold {size:,} items each"


def plan_text(plan: Plan) -> str:
    """A plan for people to read."""
    bounded = "all items of a user count"
    if plan.max_items is not None:
        how = "by a salted hash" if plan.bounded_by == "hash" else "in the user's own order"
        if plan.order == "popular":
            how = "by the public prior"
        bounded = f"at most {plan.max_items:,} items per user, chosen {how}"
    proof = THEOREMS[plan.theorem]
    if plan.rounds is None:
        proof += f"; policy: `dpsu proofs {plan.policy.kind}`"
    if plan.shift:
        proof += "; min_users: `dpsu proofs min-users`"
    facts = [
        ("guarantee", guarantee(plan)),
        ("mechanism", f"{plan.mechanism}, {plan.calibration} calibration"),
        ("proof", proof),
    ]
    if plan.text is not None:
        facts.append(("items", str(plan.text)))
    facts += [("bounding", bounded)] if plan.rounds is None else _rounds_facts(plan.rounds)
    if plan.order is not None:
        facts.append(("order", _order_text(plan)))
    if plan.noise_scale is not None and plan.threshold is not None:
        facts.append(("noise scale", f"{plan.noise_scale:.6g}"))
        facts.append(("threshold", f"{plan.threshold:.6g}"))
    if plan.cutoff is not None:
        facts.append(("cutoff", f"an item is full at weight {plan.cutoff:.6g}"))
    facts.append(
        ("delta pays for", ", ".join(f"{what}: {delta:.4g}" for what, delta in plan.delta_split))
    )
    if plan.selected is not None:
        facts.append(("selected", _selected_text(plan.selected)))
    if plan.hints is not None:
        facts.append(("chosen by", _hints_text(plan.hints)))
    if plan.min_users is not None:
        told = f"items of fewer users are never released; an item needs {plan.shift:,} weight more"
        facts.append(("at least", f"{plan.min_users:,} users: {told}"))
    if plan.counts is not None:
        c = plan.counts
        facts.append(
            (
                "counts",
                f"paid with epsilon {c.epsilon:g} and delta {c.delta:.3g}; a user counts for at "
                f"most {c.max_items:,} items; standard error {c.standard_error:.4g}",
            )
        )
    if plan.public_items is not None:
        facts.append(("public items", f"{plan.public_items.entries:,}, released in any case"))
    width = max(len(name) for name, _ in facts)
    text = [f"{name:<{width}}  {value}" for name, value in facts]
    what = "A token" if isinstance(plan.rounds, NGramRounds) else "An item"
    text.append(f"{what} is released with probability")
    for probability, weight in plan.needed.items():
        if weight is None:
            text.append(f"  {probability:<5g} never: weights stop at the cutoff")
        else:
            text.append(f"  {probability:<5g} at weight {weight:.4g}: {people(plan, weight)}")
    if plan.cutoff is not None:
        text.append(f"  {plan.largest_probability:.4f} at most, when it is full: {_missed(plan)}")
    text.append("You promise that")
    text += [f"  - {promise}" for promise in promises(plan)]
    return "\n".join(text)


STATES = {
    "done": "its result is where it was asked for. Counted in full.",
    "unfinished": "charged, and not known to have ended: it is running, failed or was killed. "
    "It may have shown something, so it is counted in full.",
    "void": "it ended after the charge and before it began to read, so it told nothing about "
    "anybody. Counted as nothing.",
}
ACCOUNT_PROMISES = (
    "everything that is released about these people is charged here, under this name, and this "
    "file was never lost or replaced by an older copy",
    "neither the budget nor epsilon, delta and mechanism of a release were chosen by what earlier "
    "releases showed",
)
WITHOUT_PROMISE = (
    "If you cannot promise the second point, you must stop when the sums reach the budget; or, if "
    "all releases are Gaussian, count three times the delta of the budget (`dpsu proofs ledger`)."
)


def account_text(account: Account) -> str:
    """What was spent on a dataset and what is left, by both accounts, and what that rests on."""
    spent, budget = account.total, account.budget
    at = spent.gaussian_epsilon(budget.delta)
    gaussian = "no epsilon" if at is None else f"epsilon {at:.4g}"
    left = max(0.0, budget.epsilon - float(spent.epsilon)), budget.delta - float(spent.delta)
    text = [
        f"budget: epsilon {budget.epsilon:g}, delta {budget.delta:g}",
        f"spent, sums: epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.4g}; "
        f"left: epsilon {left[0]:.4g}, delta {max(0.0, left[1]):.4g}",
        f"spent, Gaussian releases as one: {gaussian} of {budget.epsilon:g}, at delta "
        f"{budget.delta:g}",
        "A release is refused if it exceeds the budget by both accounts.",
        "For few releases the sums are smaller, for many the second account.",
    ]
    for state, words in STATES.items():
        number = sum(entry.state == state for entry in account.releases)
        text += [f"{number:,} {state}: {words}"] if number else []
    text += ["You promise that", *(f"  - {promise}" for promise in ACCOUNT_PROMISES)]
    return "\n".join([*text, WITHOUT_PROMISE])


def _rounds_facts(rounds: Rounds) -> list[tuple[str, str]]:
    """The rounds of a plan, all of their numbers."""
    if isinstance(rounds, SipsRounds):
        looks = zip(rounds.shares, rounds.curves, strict=True)
        facts = [("bounding", f"at most {rounds.max_items:,} items per user, sampled every round")]
        for number, (share, curve) in enumerate(looks, 1):
            drawn = f"noise scale {curve.scale:.5g}, threshold {curve.threshold:.5g}"
            facts.append((f"round {number}", f"share {share:.4f}, {drawn}"))
        return facts
    if isinstance(rounds, NGramRounds):
        facts = [
            ("bounding", f"of each length a user's {rounds.max_items:,} most frequent n-grams"),
            ("threshold", f"{rounds.threshold:.6g} for tokens"),
            (
                "spurious",
                f"beyond length 1, n-grams that nobody need hold come out: at most "
                f"{rounds.spurious:g}, on average, for each n-gram released one shorter",
            ),
        ]
        for length, (share, scale) in enumerate(
            zip(rounds.shares, rounds.scales, strict=True), start=1
        ):
            facts.append((f"length {length}", f"share {share:.4f}, noise scale {scale:.5g}"))
        return facts
    facts = [("noise scale", f"{rounds.sigma:.6g} / sqrt(share of a look)")]
    names = ["scouting", "deciding"][-len(rounds.phases) :]
    for name, phase in zip(names, rounds.phases, strict=True):
        looks_at = zip(phase.shares, phase.boundary, strict=True)
        told = ", ".join(f"{share:.4f} > {bound:.4g}" for share, bound in looks_at)
        sets = f"{phase.max_items:,} items per user, weights at most {phase.cap:g} to 1"
        facts.append((name, f"at most {sets}; share > boundary: {told}"))
    return facts


def _selected_text(selected: Selected) -> str:
    told = (
        f"from {selected.candidates:,} candidates, the largest of {selected.expected_runs:.3g} "
        f"runs on average, each of ({selected.epsilon:g}, {selected.delta:.3g})"
    )
    if selected.tune_fraction is None:
        return told
    return f"{told}, on a sample of {selected.tune_fraction:.1%} of the users; released from others"


def _hints_text(hints: Hints) -> str:
    users = "an unknown number of" if hints.expected_users is None else f"{hints.expected_users:,}"
    size = hints.expected_items_per_user
    known = "unknown sets" if size is None else f"{size:.3g} items each"
    how = "as expected"
    if hints.epsilon:
        how = f"estimated for epsilon {hints.epsilon:g} and delta {hints.delta:.3g}"
    return f"auto, for {users} users with {known}, {how}"


def _missed(plan: Plan) -> str:
    missed = 1.0 - plan.largest_probability
    if missed < 1e-9:
        return "no common item is missed"
    return f"1 in {1.0 / missed:,.0f} of even the commonest items is missed (raise the cutoff)"


def summary(release: Release) -> str:
    """A release in one line."""
    told = f"{len(release):,} items released by {release.plan.mechanism}. {guarantee(release.plan)}"
    return told if len(release) else f"{told} {_nothing(release.plan)}"


def _nothing(plan: Plan) -> str:
    """What an item needed, for whoever got none. Nothing but the plan: it is public."""
    what = "A token" if isinstance(plan.rounds, NGramRounds) else "An item"
    probability, weight = next(iter(plan.needed.items()))
    if weight is None:
        return (
            "With this cutoff no number of users lets an item out with probability "
            f"{probability:g}; raise --cutoff."
        )
    needs = people(plan, weight)
    return (
        f"{what} needs {needs}, to be released with probability {probability:g}; "
        "docs/guides/nothing-came-out.md tells what to do."
    )


def release_text(release: Release) -> str:
    """A release for people to read."""
    known = release.plan.public_items
    among = "" if known is None else f", {known.entries:,} of them public"
    text = [f"{len(release):,} items released{among}, by dpsu {__version__}."]
    if release.prior_share is not None:
        text.append(f"The prior knew {release.prior_share:.1%} of them.")
    if not len(release):
        text.append(_nothing(release.plan))
    return "\n".join([*text, plan_text(release.plan)])


def release_json(release: Release) -> str:
    """A release for programs to read."""
    facts = {
        "dpsu": __version__,
        "released": len(release),
        "prior_share": release.prior_share,
        "private": release.private,
        "guarantee": guarantee(release.plan),
        "promises": promises(release.plan),
        "needed": [
            {"probability": p, "weight": weight} for p, weight in release.plan.needed.items()
        ],
        "largest_probability": release.plan.largest_probability,
        "plan": release.plan.to_dict(),
    }
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _order_text(plan: Plan) -> str:
    prior = "" if plan.prior is None else f" of {plan.prior.entries:,} items"
    return {
        "count": "each user's own counts, largest first",
        "hash": "a keyed hash of the item",
        "popular": f"the public prior{prior}, most popular first",
        "scarce": f"the public prior{prior}, scarcest reachable items first, "
        f"for {plan.expected_users or 0:,} expected users",
    }[str(plan.order)]
