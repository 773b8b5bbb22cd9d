"""Plans and releases in words. Public parameters and released items only: safe to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsu.errors import warn
from dpsu.inputs.values import Values
from dpsu.plans.mechanisms import Auto, Choice, Hints
from dpsu.showing import markup

if TYPE_CHECKING:
    from dpsu.plans.plan import Plan
    from dpsu.plans.shares import Selected

UNPROVEN = "greedy-published"
SUMS_ONLY = (
    "an estimate is paid for, so that releases add up by sums of epsilon and delta, not as one "
    "Gaussian; whoever releases again and again names sieve"
)
THEOREMS = {
    "laplace": "Laplace noise, Gopi et al. 2020, Theorems 4.1 and B.1: `dpsu proofs laplace`",
    "gaussian": "Gaussian noise, Gopi et al. 2020, Theorems 5.1 and B.2: `dpsu proofs gaussian`",
    "truncated-laplace": "truncated Laplace noise: `dpsu proofs truncated-laplace`",
    "gaussian-joint": "Gaussian noise accounted jointly: `dpsu proofs gaussian-joint`",
    "optimal": "optimal selection of whole votes: `dpsu proofs optimal`",
    "sips": "rounds of Gaussian noise, their budgets added up: `dpsu proofs sips`",
    "sieve": "rounds of Gaussian noise and a boundary for novel items: `dpsu proofs sieve`",
    "bits": "rounds of exact coins under one Renyi account: `dpsu proofs bits`",
    "auto": "an estimate, and the candidates it chooses from: `dpsu proofs auto`",
    "ngrams": "Gaussian noise on public domains, length by length: `dpsu proofs ngrams`",
    "several-ids": "Gaussian noise for all ids of a person: `dpsu proofs several-ids`",
    UNPROVEN: "NONE: the published proof of greedy has a gap: `dpsu proofs greedy`",
}


def guarantee(plan: Plan) -> str:
    """The guarantee in one sentence."""
    if plan.insecure_seed is not None:
        return "NO GUARANTEE: made with an insecure seed, for tests only."
    if not plan.proven and plan.selected is not None:
        return "NO GUARANTEE: a candidate is not differentially private as published."
    if not plan.proven:
        return "NO GUARANTEE: this mechanism is not differentially private as published."
    text = (
        f"({at_least(plan.privacy.epsilon)}, {at_least(plan.privacy.delta)})-differential privacy "
        f"for adding or removing any one {plan.user.person} with all of their rows."
    )
    weak = weakness(plan)
    return f"{text} {weak[0].upper()}{weak[1:]}." if weak else text


def weakness(plan: Plan) -> str:
    """Why the guarantee is weak for the number of users that the plan names; empty if it is not."""
    known = plan.expected_users if plan.hints is None else plan.hints.expected_users
    if isinstance(plan.mechanism, Auto):
        known = plan.mechanism.users
    return plan.privacy.weakness(known) if plan.private else ""


def warn_of_weakness(plan: Plan, planned: Plan | None = None) -> None:
    """Warn of a weak guarantee, unless `planned`, from which this plan was made, was weak too."""
    text = weakness(plan)
    if text and (planned is None or not weakness(planned)):
        warn(text)


def at_least(number: float) -> str:
    """A number in few digits that do not make it smaller; all of them otherwise."""
    short = f"{number:.4g}"
    return short if float(short) >= number else repr(number)


def promises(plan: Plan) -> list[str]:
    """What a plan asks its caller to promise, in sentences."""
    listed = [
        plan.user.promise,
        f"of which type {plan.item.name!r} is, such as text or integers, is no secret"
        if plan.text is None
        else "the tokenizer looks at one text at a time and at nothing else",
        "files and tables are not damaged (a run that finds otherwise refuses; with `strict` also "
        "one that finds a cell it would have to ignore)",
        "epsilon, delta and all options were chosen without looking at the data",
        "only the items and this report are published, and nobody but you saw the run's errors or "
        "timing",
        "every further release of the same people adds its own epsilon and delta",
        "if a ledger counts Gaussian releases as one: epsilon, delta and mechanism were not chosen "
        "by what earlier releases of these people showed (otherwise see `dpsu proofs ledger`)",
    ]
    if plan.max_users < 2**32:
        listed.append(f"there are at most {plan.max_users:,} users (a run with more refuses)")
    if plan.prior is not None:
        listed.append("the prior was not made from the confidential data")
    if plan.public_items is not None:
        listed.append("the public items were not taken from the confidential data")
    return listed


def plan_text(plan: Plan, called: str = "plan") -> str:
    """A plan for people to read; `called` says which of several plans it is."""
    facts = _facts(plan, called)
    width = max(len(name) for name, _ in facts)
    text = [f"{name:<{width}}  {value}" for name, value in facts]
    text.append(_heading(plan))
    text += [f"  {probability:<5} {need}" for probability, need in _chances(plan)]
    text.append("You promise that")
    text += [f"  - {promise}" for promise in promises(plan)]
    return "\n".join(text)


def plan_html(plan: Plan) -> str:
    """A plan for notebooks, its guarantee first."""
    return markup.block(
        *([] if plan.private else [markup.alert("NOT PRIVATE")]),
        markup.facts(sorted(_facts(plan), key=lambda fact: fact[0] != "guarantee")),
        markup.table((_heading(plan), ""), _chances(plan), texts=2),
        markup.bullets("You promise that", promises(plan)),
    )


def _facts(plan: Plan, called: str = "plan") -> list[tuple[str, str]]:
    """What is decided, by name."""
    facts = [
        (called, f"{plan.hash[:16]}, by dpsu {plan.version}"),
        ("guarantee", guarantee(plan)),
        ("mechanism", f"{plan.name}, {plan.mechanism.calibrated} calibration"),
        ("proof", _proof_text(plan)),
    ]
    if plan.user.ids_per_person > 1:
        facts.append(("a person", _ids_text(plan)))
    if plan.text is not None:
        facts.append(("items", str(plan.text)))
    if isinstance(plan.item, Values):
        facts.append(("items", plan.item.told))
    facts += plan.mechanism.facts(plan.design)
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
        facts.append(("chosen by", _hints_text(plan.name, plan.hints)))
    if estimates(plan):
        facts.append(("ledger", SUMS_ONLY))
    if plan.min_users is not None:
        text = f"items of fewer users are never released; an item needs {plan.shift:,} weight more"
        if plan.shift and plan.theorem == "gaussian":
            text += "; noise and novel items are accounted for apart, by the published curve"
        facts.append(("at least", f"{plan.min_users:,} users: {text}"))
    if plan.noisy_counts is not None:
        c = plan.noisy_counts
        told = (
            f"paid with epsilon {c.epsilon:g} and delta {c.delta:.3g}; standard error "
            f"{c.standard_error:.4g}, so that below {2.0 * c.standard_error:,.0f} users a "
            f"count is mostly noise, perhaps below 0, and {100.0 * c.standard_error:,.0f} "
            f"users are counted to 1 %; too low where users hold more than {c.max_items:,} "
            f"released items, by half where they hold {4 * c.max_items:,}; where they hold "
            "few, fewer items that count in full (counts_items) make less noise"
        )
        facts.append(("counts", told))
    if plan.public_items is not None:
        facts.append(("public items", f"{plan.public_items.entries:,}, released in any case"))
    return facts


def _ids_text(plan: Plan) -> str:
    """What several ids per person cost."""
    ids = plan.user.ids_per_person
    if len(plan.user.names) > 1:
        return (
            f"is protected for any {ids:,} ids together, which count as users below; an item needs "
            f"about {ids:,} times as many of them as if each were protected alone"
        )
    return (
        f"has up to {ids:,} ids, which count as users below; an item needs about {ids:,} times as "
        "many of them as if everybody had one"
    )


def estimates(plan: Plan) -> bool:
    """Whether a part of epsilon is set aside for an estimate that chooses the mechanism."""
    paid = plan.hints is not None and plan.hints.epsilon > 0.0
    return paid or _is_open(plan)


def proofs(plan: Plan) -> dict[str, str]:
    """The proof pages that the guarantee of a plan rests on, and what each is for."""
    if isinstance(plan.selection, Choice):
        found = {plan.theorem: "theorem"}
        for each in plan.candidates:
            told = {page: what for page, what in proofs(each).items() if page not in found}
            found |= {
                page: f"theorem of {each.name}" if what == "theorem" else what
                for page, what in told.items()
            }
        return found
    design, hints = plan.design, plan.hints
    rests_on = getattr(plan.rounds, "rests_on", ("noise",)) if plan.rounds else ("coins",)
    drawn = "noise" in rests_on or plan.noisy_counts is not None
    paid = hints is not None and hints.epsilon > 0.0
    orders = plan.max_items is not None or design.order is not None or not plan.mechanism.parallel
    orders = orders or "orders" in rests_on
    policy = {} if plan.rounds is not None else {plan.policy.kind: (True, "policy")}
    wanted = {
        plan.theorem: (plan.theorem != UNPROVEN, "theorem"),
        **policy,
        "several-ids": (plan.user.ids_per_person > 1, "several ids of a person"),
        "min-users": (plan.shift > 0, "min_users"),
        "text": (plan.text is not None, "texts"),
        "domains": (isinstance(plan.item, Values), "values of columns"),
        "orders": (orders, "orders and samples"),
        "public": (plan.prior is not None or plan.public_items is not None, "public data"),
        "counts": (plan.noisy_counts is not None, "counts"),
        "auto": (paid, "estimates"),
        "select": (plan.selected is not None, "choice among candidates"),
        "coins": ("coins" in rests_on, "exact coins"),
        "noise": (drawn or paid, "exact noise"),
    }
    return {page: what for page, (needed, what) in wanted.items() if needed}


def _proof_text(plan: Plan) -> str:
    """The theorem in words, and every other page by what it is for."""
    pages = proofs(plan)
    told = THEOREMS.get(plan.theorem, f"`dpsu proofs {plan.theorem}`")
    others = (
        f"; {what}: `dpsu proofs {page}`" for page, what in pages.items() if page != plan.theorem
    )
    return told + "".join(others)


def _is_open(plan: Plan) -> bool:
    """Whether the mechanism is still to be chosen."""
    return isinstance(plan.selection, Choice)


def _heading(plan: Plan) -> str:
    """What the table of probabilities is about."""
    heading = f"{plan.mechanism.noun} is released with probability"
    most = ", by the candidate that needs most (bits, for hundreds of items per user, aside)"
    return f"{heading}{most}" if _is_open(plan) else heading


def _size(plan: Plan) -> str:
    """A mechanism, and how many items of a user it counts if there is a limit."""
    most = plan.max_items
    items = "item" if most == 1 else "items"
    return plan.name if most is None else f"{plan.name}, at most {most:,} {items} per user"


def _chances(plan: Plan) -> list[tuple[str, str]]:
    """Probabilities of a release, and what an item needs for each."""
    found = []
    possible = [(each, each.needed) for each in plan.for_few_items] if _is_open(plan) else []
    for probability, weight in plan.needed.items():
        text = "never: weights stop at the cutoff"
        if weight is not None:
            # Where candidates differ, the weight is that of the one that needs most.
            fit = (each for each, needed in possible if needed[probability] == weight)
            needing = next(fit, plan)
            people = needing.mechanism.people(needing.design, weight)
            text = f"at weight {weight:.4g}: {people}"
            text += f" ({_size(needing)})" if _is_open(plan) else ""
        found.append((f"{probability:g}", text))
    if plan.cutoff is not None:
        most = f"{plan.largest_probability:.4f}"
        found.append((most, f"at most, when it is full: {_missed(plan)}"))
    return found


def _selected_text(selected: Selected) -> str:
    text = (
        f"from {selected.candidates:,} candidates, the largest of {selected.expected_runs:.3g} "
        f"runs on average, each of ({selected.epsilon:g}, {selected.delta:.3g})"
    )
    if selected.tune_fraction is None:
        return text
    return f"{text}, on a sample of {selected.tune_fraction:.1%} of the users; released from others"


def _hints_text(name: str, hints: Hints) -> str:
    """Why a mechanism was chosen, for people who do not know any."""
    users, size = hints.expected_users, hints.expected_items_per_user
    if hints.for_speed:
        return f"auto: {name}, because speed was preferred"
    paid = f", estimated for epsilon {hints.epsilon:.4g}" if hints.epsilon else ", as expected"
    if size is None:
        why = "too few users to tell what they hold" if hints.epsilon else "nothing known of users"
        return f"auto: {name}, with {why}"
    who = "users" if users is None else f"about {_about(users)} users"
    who += " (as expected)" if hints.users_known else ""
    items = "item" if f"{size:.2g}" == "1" else "different items"
    holds = f"{who} with {size:.2g} {items} each on average{paid}"
    return f"auto: {name} is expected to release most from {holds}"


def _about(number: int) -> str:
    """A number of people in two digits."""
    places = max(0, len(str(number)) - 2)
    return f"{round(number, -places):,}"


def _missed(plan: Plan) -> str:
    missed = 1.0 - plan.largest_probability
    if missed < 1e-9:
        return "no common item is missed"
    return f"1 in {1.0 / missed:,.0f} of even the commonest items is missed (raise the cutoff)"


def _order_text(plan: Plan) -> str:
    prior = "" if plan.prior is None else f" of {plan.prior.entries:,} items"
    return {
        "repeats": "how often each user holds an item, most often first",
        "hash": "a keyed hash of the item",
        "popular": f"the public prior{prior}, most popular first",
        "scarce": f"the public prior{prior}, scarcest reachable items first, "
        f"for {plan.expected_users or 0:,} expected users",
    }[str(plan.order)]
