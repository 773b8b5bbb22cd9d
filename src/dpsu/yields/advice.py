"""What the yields of a forecast say about its settings."""

from __future__ import annotations

from dpsu.plans.feasibility import Finding
from dpsu.yields.forecasted import Forecast

WORTH_TELLING = 1.05
NOTHING = 0.5


def advice(made: Forecast, typed_size: bool) -> list[Finding]:
    """What the yields say about the settings."""
    notes, shape = [], made.profile
    if shape.used_users < shape.users:
        most = "the corpus has" if shape.zipf is None else "that are made up"
        notes.append(
            f"yields of users={shape.users:,} are extrapolated from up to "
            f"{shape.used_users:,} users, the most {most}"
        )
    mean = shape.used_pairs / shape.used_users
    if mean < 0.9 * shape.items_per_user:
        notes.append(
            f"made-up users hold {mean:.3g} items on average, not {shape.items_per_user:g} as "
            f"asked: zipf={shape.zipf:g} leaves too few that differ; lower it, or raise vocabulary"
        )
    if made.plan.prior is not None or made.plan.public_items is not None:
        notes.append("prior and public items are not part of the forecast")
    none = made.planned.released < NOTHING and not made.hopeless
    stops = [Finding(True, _nothing_comes_out(made))] if none else []
    better = [Finding(False, text) for text in _better(made, typed_size)]
    return [*(Finding(False, text) for text in notes), *stops, *better]


def _nothing_comes_out(made: Forecast) -> str:
    """Enough users for one item, but their weight is spread over too many."""
    planned = made.planned
    message = (
        f"at epsilon={planned.epsilon:g}, delta={made.plan.privacy.delta:g} {planned.mechanism} is "
        f"expected to release {planned.released:.2g} items of users={made.profile.users:,}"
    )
    enough = [p for p in made.by_epsilon if p.planned and p.released >= NOTHING]
    if enough:
        first = min(enough, key=lambda point: point.epsilon)
        return f"{message}. Try epsilon={first.epsilon:g} ({first.released:,.0f} items)"
    return f"{message}. It takes more users, or a much larger epsilon"


def _better(made: Forecast, typed_size: bool) -> list[str]:
    """Other settings that would release clearly more."""
    planned, found = made.planned, []
    sizes = [p for p in made.by_max_items if p.planned]
    best = max(sizes, key=lambda point: point.released, default=planned)
    least = max(1.0, WORTH_TELLING * planned.released)
    if best.released > least and (
        planned.max_items is None or typed_size or (best.max_items or 0) < planned.max_items
    ):
        found.append((f"a limit of {best.max_items} items per user", best))
    rival = max(made.by_mechanism, key=lambda point: point.released)
    if rival.released > least:
        found.append((rival.mechanism, rival))
    return [
        f"{what} is expected to release {point.released:,.0f} items instead of "
        f"{planned.released:,.0f}"
        for what, point in found
    ]
