"""What the yields of a forecast say about its settings."""

from __future__ import annotations

from dpsu.plans.feasibility import Finding
from dpsu.yields.forecasted import Forecast

WORTH_TELLING = 1.05
NOTHING = 0.5


def advice(made: Forecast, typed_size: bool) -> list[Finding]:
    """What the yields say about the settings."""
    found, shape, planned = [], made.profile, made.planned
    if shape.used_users < shape.users:
        most = "the corpus has" if shape.zipf is None else "that are made up"
        found.append(
            Finding(
                False,
                f"yields of users={shape.users:,} are extrapolated from up to "
                f"{shape.used_users:,} users, the most {most}",
            )
        )
    mean = shape.used_pairs / shape.used_users
    if mean < 0.9 * shape.items_per_user:
        found.append(
            Finding(
                False,
                f"made-up users hold {mean:.3g} items on average, not "
                f"{shape.items_per_user:g} as asked: zipf={shape.zipf:g} leaves too few that "
                "differ; lower it, or raise vocabulary",
            )
        )
    if made.plan.prior is not None or made.plan.public_items is not None:
        found.append(Finding(False, "prior and public items are not part of the forecast"))
    if planned.released < NOTHING and not made.hopeless:
        found.append(_nothing_comes_out(made))
    return found + _better(made, typed_size)


def _nothing_comes_out(made: Forecast) -> Finding:
    """Enough users for one item, but their weight is spread over too many."""
    planned = made.planned
    message = (
        f"at epsilon={planned.epsilon:g}, delta={made.plan.privacy.delta:g} {planned.mechanism} is "
        f"expected to release {planned.released:.2g} items of users={made.profile.users:,}"
    )
    enough = [p for p in made.by_epsilon if p.planned and p.released >= NOTHING]
    if enough:
        first = min(enough, key=lambda point: point.epsilon)
        return Finding(
            True, f"{message}. Try epsilon={first.epsilon:g} ({first.released:,.0f} items)"
        )
    return Finding(True, f"{message}. It takes more users, or a much larger epsilon")


def _better(made: Forecast, typed_size: bool) -> list[Finding]:
    """Other settings that would release clearly more."""
    planned, found = made.planned, []
    sizes = [p for p in made.by_max_items if p.planned]
    best = max(sizes, key=lambda point: point.released, default=planned)
    least = max(1.0, WORTH_TELLING * planned.released)
    if best.released > least and (
        planned.max_items is None or typed_size or (best.max_items or 0) < planned.max_items
    ):
        more = f"{best.released:,.0f} items instead of {planned.released:,.0f}"
        found.append(
            Finding(
                False, f"a limit of {best.max_items} items per user is expected to release {more}"
            )
        )
    rival = max(made.by_mechanism, key=lambda point: point.released)
    if rival.released > least:
        more = f"{rival.released:,.0f} items instead of {planned.released:,.0f}"
        found.append(Finding(False, f"{rival.mechanism} is expected to release {more}"))
    return found
