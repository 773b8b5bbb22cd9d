"""A black-box audit: run what is installed many times and measure epsilon and delta from outside.

The audit knows the public call and nothing else. It makes small databases with and without one
user, releases them again and again with fresh keys, and asks how well an adversary who knows
everything but the coins could tell them apart. What it measures are lower bounds: it can refute a
guarantee, never prove one. At a realistic delta nothing could be seen in any number of runs, so it
runs at an inflated one; the code is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpsu.audit_scenarios import COPIES, ITEMS_PER_COPY, Scenario, copies, scenarios_of
from dpsu.errors import ParameterError, keep_warnings
from dpsu.inputs.values import Values
from dpsu.options import number, suggests_keywords, whole_number
from dpsu.plans.mechanisms import Bits
from dpsu.plans.plan import Plan
from dpsu.releases import release
from dpsu.showing.progress import Steps, steps

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

DIRECTIONS = ("shown, present", "hidden, present", "shown, absent", "hidden, absent")
HEAD = ("scenario", "", "measured", "at least", "allowed", "verdict")
NOVEL = 100  # in the score of an output: one novel item outweighs any number of shared ones


@dataclass(frozen=True)
class Finding:
    """One scenario: what an adversary could show, and what the guarantee allows.

    `quantity` is delta for canaries and epsilon otherwise; `direction` says which outputs speak for
    which database. `measured` is the plain estimate, `proved` the lower confidence bound, `allowed`
    the claim.
    """

    scenario: str
    quantity: str
    direction: str
    measured: float
    proved: float
    allowed: float
    trials: int

    @property
    def passed(self) -> bool:
        """Whether the guarantee survives."""
        return self.proved <= self.allowed


@dataclass(frozen=True)
class Verdict:
    """All findings of one scenario."""

    findings: tuple[Finding, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table: the largest estimate, the bounds of all directions, the verdict."""
        first = self.findings[0]
        return (
            first.scenario,
            first.quantity,
            f"{max(finding.measured for finding in self.findings):.3f}",
            "  ".join(f"{finding.proved:.3f}" for finding in self.findings),
            f"{first.allowed:g}",
            "pass" if all(finding.passed for finding in self.findings) else "FAIL",
        )


@dataclass(frozen=True)
class Audit:
    """All findings about one plan; ``print`` shows them as a table.

    Attributes
    ----------
    plan : Plan
        The plan that was tested.
    findings : tuple of Finding
        What was measured in each scenario: for delta one bound, for epsilon one in each direction.
        Each has its `scenario`, `quantity` ("epsilon" or "delta"), `direction`, number of `trials`,
        plain estimate `measured`, lower confidence bound `proved`, claim `allowed`, and `passed`.
    """

    plan: Plan
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether the guarantee survives every scenario."""
        return all(finding.passed for finding in self.findings)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The findings scenario by scenario."""
        by_scenario: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_scenario.setdefault(finding.scenario, []).append(finding)
        return tuple(Verdict(tuple(found)) for found in by_scenario.values())

    @property
    def title(self) -> str:
        """What was tested, and whether it passed."""
        mechanism = self.plan.mechanism
        named = [mechanism.name, mechanism.calibrated]
        if self.plan.max_items is not None:
            named.append(f"max items {self.plan.max_items}")
        if getattr(mechanism, "passes", 1) != 1:
            named.append(f"passes {getattr(mechanism, 'passes', 1)}")
        if self.plan.user.ids_per_person > 1:
            named.append(f"{self.plan.user.ids_per_person} ids per person")
        return f"{', '.join(named)}: {'pass' if self.passed else 'FAIL'}"

    def __repr__(self) -> str:
        return f"<Audit of {self.title}>"

    def __str__(self) -> str:
        from dpsu.yields.tables import aligned

        return "\n".join([self.title, *aligned(HEAD, [each.cells for each in self.verdicts])])

    def _repr_html_(self) -> str:
        from dpsu.showing.markup import alert, block, paragraph, table, title

        told = title(self.title) if self.passed else alert("FAIL", self.title)
        privacy = self.plan.privacy
        return block(
            told,
            paragraph(f"Tested at epsilon {privacy.epsilon:g}, delta {privacy.delta:g}."),
            table(HEAD, [each.cells for each in self.verdicts], texts=2),
            paragraph("An audit can refute a guarantee, never prove one."),
        )


@suggests_keywords
def audit(
    plan: Plan,
    *,
    trials: int = 100_000,
    error: float = 1e-6,
    progress: bool | Steps | None = None,
) -> Audit:
    """Measure lower bounds of epsilon and delta of an installed mechanism, from outside.

    Parameters
    ----------
    plan : Plan
        The mechanism and the guarantee to be tested. Its delta should be inflated (0.01 to 0.2), or
        nothing can be seen; a prior should know the items 0, 1, 2, ..., as :func:`audit_prior`
        does. Where it leaves the mechanism to be chosen, every candidate is tested, with what the
        estimate leaves it. Bits is tested with a public number of items per user: what it
        estimates otherwise is shared by all copies.
    trials : int
        Copies of each small database with the user, and as many without.
    error : float
        Chance of a false alarm in one scenario, over all directions. There are up to nine scenarios
        for each mechanism that is tested.
    progress : bool or callable, optional
        True shows a progress bar, in a terminal or a notebook. A function is called with the number
        of releases done and of all releases.

    Returns
    -------
    Audit

    Privacy
    -------
    Uses made-up data only.

    Cost
    ----
    Seconds to a minute for 100,000 trials.

    Examples
    --------
    >>> import dpsu
    >>> inflated = dpsu.plan(
    ...     epsilon=1, delta=0.05, mechanism=dpsu.WeightedGaussian(max_items=3)
    ... )
    >>> dpsu.audit(inflated, trials=4000).passed
    True
    """
    trials = whole_number("trials", trials, 2 * COPIES, 10**9)
    error = number("error", error, 1e-30, 0.5)
    if not isinstance(plan, Plan):
        raise ParameterError(f"plan is a {type(plan).__name__}; give what dpsu.plan returned")
    for name, given in (
        ("insecure_seed", plan.insecure_seed),
        ("public_items", plan.public_items),
        ("repeats", plan.item.repeats),
        ("item", plan.text),
        ("columns", plan.item if isinstance(plan.item, Values) else None),
    ):
        if given is not None:
            raise ParameterError(
                f"an audit makes its own data and keys; plan it without {{{name}}}", **{name: ...}
            )
    plan.refuse_other_design()
    tested = plan.candidates
    findings = []
    with steps(progress, "auditing") as tell:
        for at, each in enumerate(tested):
            found = _findings(_apart(each), trials, error, _part(tell, at, len(tested)))
            if len(tested) > 1:
                found = [replace(one, scenario=f"{each.name}: {one.scenario}") for one in found]
            findings += found
    return Audit(plan, tuple(findings))


def _apart(plan: Plan) -> Plan:
    """A plan under which copies of a small database do not interact.

    What bits estimates of all users decides the tables of all of them. Copies with and without a
    user differ in many users together, and may well lead to different tables, which no neighbors
    do; so users hold one item here, as almost all users of an audit do.
    """
    if isinstance(plan.mechanism, Bits) and plan.mechanism.items_per_user is None:
        return plan.with_mechanism(replace(plan.mechanism, items_per_user=1.0))
    return plan


def _part(tell: Steps, at: int, parts: int) -> Steps:
    """Progress of one of several parts as that of the whole."""
    return lambda done, total: tell(at * total + done, parts * total)


def _findings(plan: Plan, trials: int, error: float, tell: Steps) -> list[Finding]:
    scenarios = scenarios_of(plan)
    rounds = math.ceil(trials / COPIES)
    findings = []
    for at, scenario in enumerate(scenarios):
        tables = copies(scenario)
        scores: tuple[list[Any], list[Any]] = ([], [])
        for repeat in range(rounds):
            for table, collected in zip(tables, scores, strict=True):
                collected.append(_scores(scenario, table, plan))
            tell(at * rounds + repeat + 1, len(scenarios) * rounds)
        findings += _judge(scenario, scores, plan, error)
    return findings


def _scores(scenario: Scenario, table: pa.Table, plan: Plan) -> NDArray[np.int64]:
    """What each copy shows: items released, novel ones counting more than all others together."""
    import numpy as np

    if len(table) == 0:
        return np.zeros(COPIES, np.int64)
    with keep_warnings():
        released = release(_named_as_planned(table, plan), plan)
    shown = next(iter(released.columns.values())).to_numpy()
    worth = np.where(shown % ITEMS_PER_COPY >= scenario.first_novel, NOVEL, 1)
    totals = np.bincount(shown // ITEMS_PER_COPY, weights=worth, minlength=COPIES)
    return totals.astype(np.int64)


def _named_as_planned(table: pa.Table, plan: Plan) -> pa.Table:
    """The table under the names of the plan; of several columns the first says it all."""
    import pyarrow as pa

    columns = {plan.user.names[0]: table["user"], plan.item.names[0]: table["item"]}
    constant = pa.nulls(len(table)).cast(pa.int64()).fill_null(0)
    others = (*plan.user.names[1:], *plan.item.names[1:])
    return pa.table(columns | dict.fromkeys(others, constant))


def _judge(
    scenario: Scenario, scores: tuple[list[Any], list[Any]], chosen: Plan, error: float
) -> list[Finding]:
    import numpy as np

    from dpsu.privacy.binomial import lower_bound

    present, absent = (np.concatenate(part) for part in scores)
    if scenario.first_novel == 0:
        hits, trials = int((present > 0).sum()), len(present)
        return [
            Finding(
                scenario.name,
                "delta",
                DIRECTIONS[0],
                hits / trials,
                lower_bound(hits, trials, error),
                chosen.privacy.delta,
                trials,
            )
        ]
    # One alarm in any direction is an alarm in this scenario: they share the chance of a false one.
    return [
        _direction(scenario, (present, absent), direction, chosen, error / len(DIRECTIONS))
        for direction in DIRECTIONS
    ]


def _direction(
    scenario: Scenario, scores: tuple[Any, Any], direction: str, chosen: Plan, error: float
) -> Finding:
    """Lower bound of epsilon from one kind of event; the event is chosen on half of the runs."""
    from dpsu.privacy.binomial import lower_bound, upper_bound

    shows = direction.startswith("shown")
    likely, unlikely = scores if direction.endswith("present") else scores[::-1]
    half = len(likely) // 2
    levels = sorted(set(likely[:half].tolist()) | set(unlikely[:half].tolist()))

    def hits(scores: Any, level: int) -> int:
        return int((scores >= level).sum() if shows else (scores < level).sum())

    def measured(level: int, p: Any, q: Any, deviations: float) -> float:
        often, seldom = hits(p, level) / len(p), hits(q, level) / len(q)
        gained = often - deviations * math.sqrt(often / len(p)) - chosen.privacy.delta
        ceiling = seldom + deviations * math.sqrt(seldom / len(q)) + 1.0 / len(q)
        return math.log(gained / ceiling) if gained > 0 else -math.inf

    best = max(levels, key=lambda level: measured(level, likely[:half], unlikely[:half], 4.0))
    p, q = likely[half:], unlikely[half:]
    gained = lower_bound(hits(p, best), len(p), error / 2) - chosen.privacy.delta
    ceiling = upper_bound(hits(q, best), len(q), error / 2)
    proved = max(0.0, math.log(gained / ceiling)) if gained > 0 else 0.0
    return Finding(
        scenario.name,
        "epsilon",
        direction,
        max(0.0, measured(best, p, q, 0.0)),
        proved,
        chosen.privacy.epsilon,
        len(p) + len(q),
    )
