"""What a mechanism in rounds asks of the engine that holds the users' data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.privacy.curves import Gaussian
    from dpsu.randomness.keys import Key
    from dpsu.rounds.account import Limits
    from dpsu.rounds.ngrams import NGramRounds
    from dpsu.text.domain import Domain


class RoundEngine(Protocol):
    """An engine that asks all users for weights, round after round."""

    def choose(self, max_items: int, attention: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Choose every user's set: a sample by hash, or the best of its last set by attention.

        Returns which items are in anybody's set.
        """

    def classify(self, sizes: tuple[int, ...]) -> None:
        """Fix every user's class by the size of its set now, whatever sets it has later.

        `sizes` are the largest sizes of the classes; what is beyond the last belongs to it.
        """

    def attend(
        self, attention: NDArray[np.float64], limits: Limits, shape: float, unit: float
    ) -> NDArray[np.int64]:
        """Sum over users of weights in proportion to attention, within their limits, in units."""

    def share(
        self, released: NDArray[np.bool_], max_items: int, shares: NDArray[np.int64], round_: int
    ) -> NDArray[np.int64]:
        """Sum over users of equal shares to a fresh sample of their unreleased items."""

    def give_units(
        self, released: NDArray[np.bool_], prices: tuple[int, ...], budget: int, round_: int
    ) -> NDArray[np.int64]:
        """Sum over users of equal units to all of their unreleased items, within the budget."""

    def add_open(
        self, released: NDArray[np.bool_], limits: tuple[int, ...], units: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Sums over users of their numbers of unreleased items as parts of limits, in units."""


class Weighed(Protocol):
    """The grams that have weight: how many there are, and whether one is among them. PRIVATE."""

    def __len__(self) -> int:
        """How many there are."""

    def __contains__(self, pair: object, /) -> bool:
        """Whether a pair is among them."""


class TextEngine(Protocol):
    """An engine that asks users with texts for weights of grams, length after length."""

    def select(
        self, length: int, rounds: NGramRounds, curve: Gaussian, key: Key
    ) -> tuple[Any, Weighed]:
        """The grams whose coins succeed by their weights, and all grams that have weight.

        Every user weighs at most `max_items` of its allowed grams, the most frequent ones first.
        Grams are tokens (an Arrow array), and pairs of the last domain for lengths above 1.
        """

    def allow_extensions(self, released: Domain) -> None:
        """From now on only grams one longer than `released`, with both parts in it, are allowed."""
