"""Curves, cutoffs and splits of delta that several one-shot mechanisms share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpsu.errors import ParameterError
from dpsu.options import number, option
from dpsu.plans.mechanisms.base import Mechanism
from dpsu.privacy import calibration, joint, several_ids
from dpsu.privacy.curves import Gaussian, Laplace, TruncatedLaplace
from dpsu.privacy.guarantee import Privacy

DEFAULT_ALPHA = 3.0
LARGEST_ALPHA = 1000.0
LARGEST_CUTOFF = 2.0**30
LARGEST_PASSES = 1000
# Rounding may keep a novel item this far below its share, in every pass: weights have at least 30
# fraction bits, and no rounding costs more than four units.
NOVEL_SLACK = 2.0**-28
Split = tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class WithCutoff(Mechanism):
    """Mechanisms in which an item can be full."""

    alpha: float | None = option(
        None,
        float,
        "An item is full at threshold + ALPHA x noise scale.",
        low=0.0,
        high=LARGEST_ALPHA,
        usual="3",
    )
    cutoff: float | None = option(
        None,
        float,
        "The weight itself at which an item is full, instead of alpha.",
        low=1.0,
        high=LARGEST_CUTOFF,
    )

    def check(self) -> None:
        """Refuse two statements of when an item is full."""
        if self.alpha is not None and self.cutoff is not None:
            raise ParameterError(
                "{alpha} and {cutoff} say the same thing twice; give one of them",
                alpha=...,
                cutoff=...,
            )

    def full_at(self, threshold: float, scale: float, shift: int = 0) -> float:
        """Weight at which an item is full."""
        if self.cutoff is not None:
            return number("cutoff", self.cutoff, 1.0 + shift, LARGEST_CUTOFF)
        alpha = DEFAULT_ALPHA if self.alpha is None else self.alpha
        cutoff = max(1.0, threshold + alpha * scale) + shift
        return number("cutoff", cutoff, 1.0, LARGEST_CUTOFF)


def passes() -> Any:
    """In how many passes users spend."""
    what = "In how many passes users give out their weight."
    return option(1, int, what, low=1, high=LARGEST_PASSES)


def fraction_bits(cutoff: float) -> int:
    """Bits after the point of weights up to this cutoff."""
    return min(52, 62 - math.ceil(math.log2(cutoff)))


def l1_curve(
    privacy: Privacy, max_items: int | None, *, as_published: bool, name: str, slack: float
) -> tuple[Laplace | TruncatedLaplace, str]:
    """The curve of an l1 policy, and the theorem that covers it."""
    if not as_published:
        ids = float(privacy.ids_per_person)
        return TruncatedLaplace(privacy.epsilon, privacy.delta, ids), "truncated-laplace"
    if max_items is None:
        raise needs_max_items(f"{name} as published")
    scale = calibration.laplace_scale(privacy.epsilon, 1.0)
    threshold = calibration.laplace_threshold(scale, privacy.delta, max_items, slack)
    return Laplace(scale, threshold), "laplace"


def l2_curve(
    privacy: Privacy,
    max_items: int,
    lowest: float,
    *,
    apart: bool,
    sensitivity: float = 1.0,
) -> tuple[Gaussian, Split, str]:
    """The curve of an l2 policy whose novel items weigh at least `lowest` after scaling.

    `apart` accounts for noise and novel items apart, as published. What is left of a novel item
    above `min_users` may weigh less than `lowest`, so that only this account holds for it. Where a
    person has several ids, nothing is known of novel weights but their norm and number.
    """
    ids = privacy.ids_per_person
    if ids > 1:
        sigma, threshold, novel = several_ids.scale_and_threshold(privacy, max_items)
        split, theorem = noise_and_novel(privacy.delta, novel), "several-ids"
    elif apart:
        sigma = calibration.gaussian_scale(privacy.epsilon, privacy.delta / 2.0)
        threshold = calibration.gaussian_threshold(sigma, privacy.delta / 2.0, max_items)
        split, theorem = halves(privacy.delta), "gaussian"
    else:
        weights = joint.NovelWeights(max_items, lowest, 1.0)
        sigma, threshold = joint.joint_scale_and_threshold(privacy.epsilon, privacy.delta, weights)
        split, theorem = together(privacy.delta), "gaussian-joint"
    return Gaussian(ids * sigma * sensitivity, ids * threshold * sensitivity), split, theorem


def noise_and_novel(delta: float, novel: float) -> Split:
    """Delta in two parts, one of them for novel items."""
    return ("noise", delta - novel), ("novel items", novel)


def halves(delta: float) -> Split:
    """Delta in two halves."""
    return ("noise", delta / 2.0), ("novel items", delta / 2.0)


def together(delta: float) -> Split:
    """Delta for everything at once."""
    return (("noise and novel items together", delta),)


def all_delta_for_novel_items(delta: float) -> Split:
    """Delta for items that one user alone brings."""
    return (("novel items", delta),)


def needs_max_items(who: str) -> ParameterError:
    """The error for a guarantee that needs bounded users."""
    return ParameterError(
        f"{who} needs {{max_items}}: its guarantee holds only if every user is bounded to a number "
        "of items chosen without looking at the data",
        max_items=...,
    )
