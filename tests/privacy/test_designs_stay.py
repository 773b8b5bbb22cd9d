"""Numbers that decide a guarantee stay what they were when their proofs were read.

The table was made by the code before mechanisms became objects. A row holds flat options and what
followed from them: noise, thresholds, cutoffs, the largest number of users, the split of delta and
the Gaussian account of ledgers; or nothing, where they were refused. A number that is to change is
changed there together with its proof.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.ledger.accounting import shift_of
from dpsu.plans.mechanisms import MECHANISMS, OneShot
from dpsu.plans.mechanisms.auto import Hints
from dpsu.plans.plan import Plan
from dpsu.plans.shares import Selected
from dpsu.plans.written import described
from dpsu.selection import repetition
from tests.support import flat
from tests.support.cases import every

TABLE: list[list[Any]] = json.loads((Path(__file__).parent / "designs.json").read_text())
RELATIVE = 1e-12


def planned(options: dict[str, Any]) -> Plan:
    """The plan of a row: also after estimates that were paid for, or as a run of a selection."""
    options = dict(options)
    estimated, selected = options.pop("estimated", None), options.pop("selected", None)
    if options.get("shares") is not None:
        options["shares"] = tuple(options["shares"])
    if estimated is not None:
        counts = flat.planned(options | {"mechanism": None}).get("counts", False)
        privacy = dpsu.Privacy(options["epsilon"], options["delta"])
        hints = Hints(*estimated)
        few: dict[float | None, Any] = {
            1.0: dpsu.Greedy(order="hash", cutoff=10_000), 1.5: dpsu.PolicyLaplace(),
        }  # fmt: skip
        chosen = few.get(hints.expected_items_per_user, dpsu.Sieve(max_items=300))
        noisy = dpsu.Counts() if counts is True else counts or None
        return Plan.derived(privacy, chosen, dpsu.Users(), dpsu.Items(), counts=noisy, hints=hints)
    plan = flat.plan(**options)
    if selected is None:
        return plan
    runs, part = selected
    run = repetition(plan.privacy, runs).run
    cost = Selected(1, runs, run.epsilon, run.delta, part, proven=True)
    return Plan.derived(plan.privacy, plan.mechanism, plan.user, plan.item, selected=cost)


def numbers_of(plan: Plan) -> dict[str, Any]:
    """What a row of the table holds; what is None, and a proof that is there, are left out."""
    chosen, noisy, shift = plan.selection, plan.noisy_counts, shift_of(plan)
    repeated = plan.selected is not None and plan.selected.tune_fraction is None
    found = {
        "theorem": plan.theorem,
        "proven": None if plan.proven else False,
        "max_items": plan.max_items,
        "bounded_by": plan.bounded_by,
        "order": plan.order,
        "cutoff": plan.cutoff,
        "max_users": plan.max_users,
        # The whole pays for repeated runs at once; the table has the split of one run.
        "delta": _plain(plan.design.delta_split if repeated else plan.delta_split),
        "selection": (
            [_plain(described(chosen.policy)), _plain(described(chosen.curve))]
            if isinstance(chosen, OneShot)
            else [_plain(described(plan.design.selection))]
        ),
        "counts": None
        if noisy is None
        else [noisy.epsilon, noisy.delta, noisy.max_items, noisy.scale],
        "shift": plan.shift or None,
        "gaussian": None if shift is None else [shift.squared, shift.novel],
    }
    return {name: value for name, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [_plain(part) for _, part in sorted(value.items())]
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def differing(before: Any, now: Any, place: str = "") -> list[str]:
    """Where two designs differ; floats may differ in their last digits, and nothing else."""
    if isinstance(before, float) and isinstance(now, float):
        return [] if math.isclose(before, now, rel_tol=RELATIVE) else [place]
    if type(before) is not type(now):
        return [place]
    if isinstance(before, dict):
        if before.keys() != now.keys():
            return [f"{place} has {sorted(before.keys() ^ now.keys())}"]
        return [at for name in before for at in differing(before[name], now[name], name)]
    if isinstance(before, list):
        if len(before) != len(now):
            return [place]
        return [
            at
            for one, other in zip(before, now, strict=True)
            for at in differing(one, other, place)
        ]
    return [] if before == now else [place]


@every("name", list(MECHANISMS))
def test_designs_are_what_they_were(name: str) -> None:
    rows = [row for row in TABLE if row[0]["mechanism"] == name]
    assert len(rows) > 5
    for options, before in rows:
        if before is None:
            with pytest.raises(dpsu.ParameterError):
                planned(options)
        else:
            assert differing(before, numbers_of(planned(options))) == [], options


def test_the_table_tells_designs_apart() -> None:
    """Rows that differ in an option that shapes the design differ in their numbers."""
    designs = [json.dumps(before) for _, before in TABLE if before is not None]
    assert len(set(designs)) > 0.8 * len(designs)
    _, before = TABLE[1]
    now = json.loads(json.dumps(before))
    assert differing(before, now) == []
    now["selection"][1][0] *= 1 + 1e-11
    assert differing(before, now) == ["selection"]
