"""A dataset's account in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsu.errors import LedgerError
from dpsu.ledger.accounting import delta_text
from dpsu.showing.markup import block, bullets, paragraph, table, title

if TYPE_CHECKING:
    from dpsu.inputs.columns import Users
    from dpsu.ledger.accounting import Amount
    from dpsu.ledger.ledger import Ledger
    from dpsu.ledger.records import Account, RecordedRelease
    from dpsu.ledger.splitting import Split
    from dpsu.privacy.guarantee import Privacy

STATES = {
    "done": "the result is where it was asked for. Counted in full.",
    "pending": "charged, and not known to have ended: it is running, failed or was killed. Counted "
    "in full; under a name (once), it runs again without a further charge.",
    "publishing": "the result may have been seen. Counted in full; asked for again by its name, it "
    "becomes done, or the name is spent if no result was kept.",
    "void": "it ended after the charge and before it began to read, so it revealed nothing about "
    "any person. Counted as nothing.",
}
RULES = (
    "A release is refused if it exceeds the budget by both accounts.",
    "Either account may be the smaller one; a release needs room in one of them only.",
)
RELEASES_HEAD = ("entry", "started (UTC)", "run", "mechanism", "state", "epsilon", "delta")
DATASETS_HEAD = ("dataset", "releases", "epsilon left", "of", "delta left", "of")
NEWEST = 10
RUN_SHOWN = 8
ACCOUNT_PROMISES = (
    "everything that is released about these people is charged here, under this name, and this "
    "file was never lost or replaced by an older copy",
    "neither the budget nor epsilon, delta and mechanism of a release were chosen by what earlier "
    "releases showed",
    "each person is at most one unit of each release: no more ids in its user columns than its "
    "ids per person; the total holds for no other people",
    "what other software was charged is all of its price for adding or removing one user of these "
    "ids, and was charged before it read anything",
    "if a run under a name, or of a period, was followed by another one, whatever ended the first "
    "did not depend on what it had drawn",
)
WITHOUT_PROMISE = (
    "If you cannot promise the second point, you must stop when the sums reach the budget; or, if "
    "all releases are Gaussian, count three times the delta of the budget (`dpsu proofs ledger`)."
)


def account_text(account: Account) -> str:
    """What was spent on a dataset and what is left, by both accounts, and what that rests on."""
    spent, left, budget = account.spent, account.left, account.budget
    at = spent.gaussian.epsilon
    gaussian = "no epsilon" if math.isinf(at) else f"epsilon {at:.4g}"
    text = [
        f"budget: {_set(budget)}",
        *(f"earlier budget: {earlier}" for earlier in _earlier(account)),
        f"spent, sums: {_amount(spent.sums)}; left: {_amount(left.sums)}",
        f"spent, Gaussian releases as one: {gaussian} of {budget.epsilon:g}, at delta "
        f"{budget.delta:g}",
        *RULES,
        *_sums_only(account),
        *_units(account),
        *_states(account),
    ]
    text += ["You promise that", *(f"  - {promise}" for promise in ACCOUNT_PROMISES)]
    return "\n".join([*text, WITHOUT_PROMISE])


def account_html(account: Account) -> str:
    """The same for notebooks, with the newest releases."""
    spent, left, budget = account.spent, account.left, account.budget
    newest = account.releases[-NEWEST:]
    older = len(account.releases) - len(newest)
    return block(
        title(f"{account.dataset}: {_amount(left.sums)} left by sums"),
        table(
            ("", "epsilon", "delta"),
            [
                ("budget", f"{budget.epsilon:g}", f"{budget.delta:g}"),
                _balance_row("spent, sums", spent.sums),
                _balance_row("left, sums", left.sums),
                _balance_row("spent, Gaussian releases as one", spent.gaussian),
                _balance_row("left, Gaussian releases as one", left.gaussian),
            ],
        ),
        paragraph("Gaussian: epsilon at the delta of the budget, and delta at its epsilon."),
        *(paragraph(f"earlier budget: {earlier}") for earlier in _earlier(account)),
        paragraph(" ".join(RULES)),
        *([paragraph(f"{older:,} older releases, and then")] if older else []),
        *([table(RELEASES_HEAD, map(_release_row, newest), texts=5)] if newest else []),
        *map(paragraph, (*_sums_only(account), *_units(account), *_states(account))),
        bullets("You promise that", [*ACCOUNT_PROMISES, WITHOUT_PROMISE]),
    )


def shared_text(split: Split) -> str:
    """How several equal releases share a budget."""
    how = (
        "by sums of epsilon and delta"
        if split.by_sums
        else f"by Gaussian composition; by sums each would have epsilon "
        f"{split.budget.epsilon / split.releases:.4g}"
    )
    return (
        f"The plan of one of {split.releases:,} equal releases, which together stay within "
        f"{_set(split.budget)} ({how}; `dpsu proofs ledger`). Charge each of them to one dataset "
        f"of a ledger with the budget {split.budget.epsilon:g},{split.budget.delta:g}, and choose "
        "no later one by what earlier ones showed."
    )


def ledger_html(ledger: Ledger) -> str:
    """All datasets of a ledger for notebooks, and what is left of each by sums."""
    try:
        book = ledger.read()
    except LedgerError as error:
        return block(title(repr(ledger)), paragraph(f"{error}."))
    accounts = [book.account(name) for name in book.datasets()]
    return block(
        title(repr(ledger)),
        table(DATASETS_HEAD, map(_dataset_row, accounts)),
        paragraph("Left by sums; ledger.account(name) tells the other account, and all releases."),
        paragraph(f"head, of {len(book.hashes):,} entries: {book.head}"),
    )


def _dataset_row(account: Account) -> tuple[str, ...]:
    left, budget = account.left.sums, account.budget
    return (
        account.dataset,
        f"{len(account.releases):,}",
        f"{left.epsilon:.4g}",
        f"{budget.epsilon:g}",
        f"{left.delta:.4g}",
        f"{budget.delta:g}",
    )


def _balance_row(name: str, amount: Amount) -> tuple[str, str, str]:
    epsilon = "none" if math.isinf(amount.epsilon) else f"{amount.epsilon:.4g}"
    return name, epsilon, f"{amount.delta:.4g}"


def _set(budget: Privacy) -> str:
    return f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"


def _amount(spent: Amount) -> str:
    return f"epsilon {spent.epsilon:.4g}, delta {delta_text(spent.delta)}"


def _earlier(account: Account) -> list[str]:
    return [
        f"{_set(each.privacy)}, set {utc(each.since)} (entry {each.number})"
        for each in account.earlier_budgets
    ]


def _sums_only(account: Account) -> list[str]:
    """How many releases have no Gaussian account, and what to do about it."""
    found = [each for each in account.releases if each.state != "void" and each.cost.shift is None]
    if not found:
        return []
    names = ", ".join(sorted({each.mechanism for each in found}))
    ours = not all(each.elsewhere for each in found)
    return [
        f"{len(found):,} without a Gaussian account ({names}): noise is not Gaussian, an estimate "
        "or a choice is paid for, as by auto, or other software spent it. Sums count for it in "
        f"both accounts{'; whoever releases again and again names sieve' if ours else ''}."
    ]


def units_text(units: Sequence[Users]) -> str:
    """Which units releases protect, and what a total means if these differ."""
    inorder = sorted(units, key=lambda unit: (unit.name, unit.ids_per_person))
    listed = "; ".join(f"{_ids(each)} by {each.name!r}" for each in inorder)
    if len({unit.name for unit in units}) == 1:
        means = f"people with at most {_ids(inorder[0])}; others lose more"
    else:
        means = "people who are at most one unit of each release; others lose more"
    return (
        f"releases that protect different units ({listed}): the total holds only for {means} "
        "(`dpsu proofs ledger`)"
    )


def _ids(unit: Users) -> str:
    return "1 id" if unit.ids_per_person == 1 else f"{unit.ids_per_person:,} ids"


def _units(account: Account) -> list[str]:
    return [f"It has {units_text(account.units)}."] if len(account.units) > 1 else []


def _states(account: Account) -> list[str]:
    """How many releases are in each state, and what that means."""
    found = []
    for state, words in STATES.items():
        number = sum(entry.state == state for entry in account.releases)
        found += [f"{number:,} {state}: {words}"] if number else []
    return found


def _release_row(entry: RecordedRelease) -> tuple[str, ...]:
    price = entry.cost.privacy
    return (
        f"{entry.number}",
        utc(entry.started),
        short_run(entry),
        entry.mechanism,
        entry.state if entry.reason is None else f"{entry.state} ({entry.reason})",
        f"{price.epsilon:g}",
        f"{price.delta:g}",
    )


def short_run(entry: RecordedRelease) -> str:
    """The beginning of a run's id, enough to find its report."""
    return entry.run[:RUN_SHOWN]


def utc(time: str) -> str:
    """A time of an entry, without what all of them have."""
    return time[:19].replace("T", " ")
