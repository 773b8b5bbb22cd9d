"""Releases in words. Public parameters and released items only: safe to publish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dpsu._version import __version__
from dpsu.plans.prose import estimates, guarantee, plan_text, promises, proofs
from dpsu.showing.markup import alert, block, paragraph, short, table

if TYPE_CHECKING:
    from dpsu.plans.plan import Plan
    from dpsu.results import Release

PREVIEW = 10
CHOSEN_BEFORE = (
    "An earlier run chose this plan. Nothing was estimated in this one: what the plan sets aside "
    "for an estimate is charged, and not spent."
)


def summary(release: Release) -> str:
    """A release in one line."""
    text = f"{len(release):,} items released by {release.plan.name}. {guarantee(release.plan)}"
    return text if len(release) else f"{text} {_nothing(release.plan)}"


def _nothing(plan: Plan) -> str:
    """What an item needed, for whoever got none. Nothing but the plan: it is public."""
    probability, weight = next(iter(plan.needed.items()))
    if weight is None:
        return (
            "With this cutoff no number of users lets an item out with probability "
            f"{probability:g}; raise --cutoff."
        )
    needs = plan.mechanism.people(plan.design, weight)
    return (
        f"{plan.mechanism.noun} needs {needs}, to be released with probability {probability:g}; "
        "docs/guides/nothing-came-out.md says what to do."
    )


def release_text(release: Release) -> str:
    """A release for people to read."""
    known = release.plan.public_items
    among = "" if known is None else f", {known.entries:,} of them public"
    text = [f"{len(release):,} items released{among}, by dpsu {__version__}."]
    run = release.run
    where = "" if run.dataset is None else f", charged to dataset {run.dataset!r}"
    text.append(f"Run {run.id} of {run.time}, by plan {release.plan_hash}{where}.")
    if release.approved is not None:
        text.append(f"It left the choice open, and chose plan {release.plan.hash}, shown here.")
    elif estimates(release.plan):
        text.append(CHOSEN_BEFORE)
    if release.prior_share is not None:
        text.append(f"The prior knew {release.prior_share:.1%} of them.")
    if not len(release):
        text.append(_nothing(release.plan))
    called = "plan" if release.approved is None else "chosen plan"
    return "\n".join([*text, plan_text(release.plan, called)])


def release_html(release: Release) -> str:
    """A release for notebooks: its guarantee and its first items."""
    parts = [] if release.private else [alert("NOT PRIVATE")]
    parts.append(paragraph(summary(release)))
    # Of these alone: a release may have millions of items.
    shown = release.to_arrow().slice(0, PREVIEW)
    counts = release.counts is not None and len(release) > 0
    columns = [[short(str(cell)) for cell in column.to_pylist()] for column in shown.columns]
    if counts:
        columns[-1] = [f"{count:,}" for count in shown[-1].to_pylist()]
    if len(release):
        parts.append(table(tuple(shown.column_names), list(zip(*columns, strict=True))))
    if len(release) > PREVIEW:
        parts.append(paragraph(f"… and {len(release) - PREVIEW:,} more"))
    if counts and release.counts_error is not None:
        assert release.plan.noisy_counts is not None
        parts.append(
            paragraph(
                f"{release.counts_name}: noisy numbers of users, standard error "
                f"{release.counts_error:.4g}; too low where users hold more than "
                f"{release.plan.noisy_counts.max_items:,} of these items"
            )
        )
    return block(*parts)


def release_json(release: Release) -> str:
    """A release for programs to read."""
    facts = {
        "dpsu": __version__,
        "run": vars(release.run),
        "plan_hash": release.plan_hash,
        "chosen_plan_hash": None if release.approved is None else release.plan.hash,
        "released": len(release),
        "prior_share": release.prior_share,
        "private": release.private,
        "guarantee": guarantee(release.plan),
        "proofs": list(proofs(release.plan)),
        "promises": promises(release.plan),
        "needed": [
            {"probability": p, "weight": weight} for p, weight in release.plan.needed.items()
        ],
        "largest_probability": release.plan.largest_probability,
        "plan": release.plan.to_dict(),
        "approved": None if release.approved is None else release.approved.to_dict(),
    }
    return json.dumps(facts, indent=2, ensure_ascii=False)


def release_metadata(release: Release) -> dict[str, str]:
    """A release for files that keep words beside columns; the dataset only if there is one."""
    run = release.run
    facts = {
        "dpsu.version": __version__,
        "dpsu.plan_hash": release.plan_hash,
        "dpsu.run": run.id,
        "dpsu.time": run.time,
        "dpsu.dataset": run.dataset,
        "dpsu.guarantee": guarantee(release.plan),
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
