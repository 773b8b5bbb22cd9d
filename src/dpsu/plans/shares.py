"""Shares of a budget: what counts, estimates and repeated runs leave for the selection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsu.errors import ParameterError
from dpsu.options import flag, number, whole_number
from dpsu.plans.counts import NoisyCounts
from dpsu.plans.mechanisms import Hints
from dpsu.privacy.guarantee import LARGEST_DELTA, LARGEST_EPSILON, Privacy, rest_of


@dataclass(frozen=True)
class Selected:
    """How a plan was chosen by :func:`dpsu.select`, and what every run of the choice cost.

    `proven` says that every candidate has a guarantee: one without it leaves none to the whole.
    """

    candidates: int
    expected_runs: float
    epsilon: float
    delta: float
    tune_fraction: float | None
    proven: bool

    def __post_init__(self) -> None:
        whole_number("candidates", self.candidates, 1, 2**31)
        number("expected_runs", self.expected_runs, 1.0, 1e6)
        number("epsilon", self.epsilon, 0.0, LARGEST_EPSILON)
        number("delta", self.delta, 0.0, LARGEST_DELTA)
        if self.tune_fraction is not None:
            number("tune_fraction", self.tune_fraction, 0.0, 1.0)
        flag("proven", self.proven)


def left_for_selection(
    privacy: Privacy,
    noisy: NoisyCounts | None,
    hints: Hints | None,
    selected: Selected | None,
) -> Privacy:
    """What is left for the selection: counts and estimates are paid for first, by sums."""
    if selected is not None and selected.tune_fraction is None:
        privacy = replace(privacy, epsilon=selected.epsilon, delta=selected.delta)
    others = [spent for spent in (noisy, hints) if spent is not None]
    for spent in others:
        number("estimates", spent.epsilon, 0.0, privacy.epsilon)
        number("estimates", spent.delta, 0.0, privacy.delta)
    epsilon = rest_of(privacy.epsilon, *(spent.epsilon for spent in others))
    delta = rest_of(privacy.delta, *(spent.delta for spent in others))
    if min(epsilon, delta) <= 0.0:
        raise ParameterError(
            "counts and estimates leave nothing of epsilon or delta for the selection; give them "
            "smaller shares"
        )
    return replace(privacy, epsilon=epsilon, delta=delta)
