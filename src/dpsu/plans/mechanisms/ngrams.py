"""N-grams of texts, longer ones only of released shorter ones (Kim et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpsu.errors import ParameterError
from dpsu.options import number, option
from dpsu.plans.mechanisms.base import (
    UNBOUNDED_FRACTION_BITS,
    Design,
    Mechanism,
    max_items,
)
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_rounds
from dpsu.rounds.ngrams import design_ngrams
from dpsu.text.spec import LINES, LONGEST_GRAM, SENTENCES, TextSpec

if TYPE_CHECKING:
    from dpsu.inputs.columns import Items
    from dpsu.inputs.tokens import Tokens


def _numbers(typed: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in typed.split(","))
    except ValueError:
        raise ParameterError(
            "{shares} is not a list of numbers such as 1,2,2", shares=typed
        ) from None


@dataclass(frozen=True, kw_only=True)
class NGrams(Mechanism):
    """N-grams of all lengths up to `longest`, longer ones only of released shorter ones.

    It needs texts: ``item=dpsu.Tokens("body")``. Of length 2 and more a few n-grams come out that
    nobody holds: that is what makes their domain free of charge.
    """

    longest: int = option(3, int, "Length of the longest n-grams.", low=1, high=LONGEST_GRAM)
    max_items: int = max_items(300)
    shares: tuple[float, ...] | None = option(
        None,
        object,
        "Share of the budget for each length, beginning with 1.",
        usual="1 for length 1 and 2 for every other",
        parse=_numbers,
    )
    spurious: float = option(
        0.01,
        float,
        "About how many n-grams that nobody holds come out for each n-gram released one shorter; "
        "more of them lower the threshold.",
        low=1e-6,
        high=0.5,
    )
    name: ClassVar[str] = "ngrams"
    summary: ClassVar[str] = (
        "n-grams of texts, longer ones only of released shorter ones (Kim et al.)"
    )
    counts: ClassVar[bool] = False
    by_length: ClassVar[bool] = True
    several_ids: ClassVar[bool] = True
    noun: ClassVar[str] = "A token"

    def check(self) -> None:
        """Make one share of each length."""
        given = self.shares
        if given is None:
            given = (1.0, *(2.0 for _ in range(1, self.longest)))
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ParameterError(
                "{shares} is not a list of numbers such as (1, 2, 2)", shares=given
            )
        if len(given) != self.longest:
            raise ParameterError(
                f"{{shares}} has {len(given)} numbers; it needs one for each length up to "
                f"{self.longest}",
                shares=...,
            )
        checked = tuple(number("shares", share, 1e-6, 1e6) for share in given)
        object.__setattr__(self, "shares", checked)

    def reading(self, item: Items | Tokens) -> Mechanism:
        """Texts, of which it makes n-grams itself."""
        if item.tokenizer is None:
            raise ParameterError(
                "ngrams needs texts: name their column with item=dpsu.Tokens('column') (--text)"
            )
        if item.tokenizer in (SENTENCES, LINES):
            raise ParameterError(
                "{tokenizer} makes no n-grams; choose another mechanism", tokenizer=item.tokenizer
            )
        if item.longest > 1:
            raise ParameterError(
                "the mechanism ngrams has lengths of its own; drop {ngrams}, or say {longest}",
                ngrams=...,
                longest=...,
            )
        return self

    def design(self, privacy: Privacy) -> Design:
        """Gaussian noise on the tokens, and then on the public domain of each length."""
        assert self.shares is not None
        design, split = design_ngrams(
            privacy.epsilon,
            privacy.delta,
            shares=self.shares,
            max_items=self.max_items,
            spurious=self.spurious,
            fraction_bits=UNBOUNDED_FRACTION_BITS,
            ids=privacy.ids_per_person,
        )
        return Design(
            design, self.max_items, "order", None, tuple(split.items()), "ngrams", order="repeats"
        )

    def texts(self, item: Items | Tokens) -> TextSpec | None:
        """All lengths up to `longest`."""
        source = super().texts(item)
        return None if source is None else replace(source, shortest=1, longest=self.longest)

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """All rounds as one, and the delta that novel items have."""
        return shift_of_rounds(design.selection.scales, design.delta_split, ids)

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """Every length with its share and noise."""
        rounds = design.selection
        facts = [
            ("bounding", f"of each length a user's {rounds.max_items:,} most frequent n-grams"),
            ("threshold", f"{rounds.threshold:.6g} for tokens"),
            (
                "spurious",
                "beyond length 1, n-grams that nobody need hold come out: at most "
                f"{rounds.spurious:g}, on average, for each n-gram released one shorter",
            ),
        ]
        lengths = zip(rounds.shares, rounds.scales, strict=True)
        for length, (share, scale) in enumerate(lengths, start=1):
            facts.append((f"length {length}", f"share {share:.4f}, noise scale {scale:.5g}"))
        return facts

    def people(self, design: Design, weight: float) -> str:
        """Tokens come first, and all else follows from them."""
        return f"{math.ceil(weight):,} users who hold no other token"
