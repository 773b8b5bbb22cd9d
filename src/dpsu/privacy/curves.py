"""Release curves: noise, threshold and comparison in one object.

A release is a set, so "add noise, compare with a threshold" is a coin: an item of weight w > 0 is
released with probability ``pi(w) = P[w + noise > threshold]``, and ``pi(0) = 0`` always. A curve is
that function, three times:

- ``probability``: in doubles, for people and plans;
- ``formula`` and ``parameters``: the same compiled function, which `kernels/chances.py` runs over
  arrays as well; its relative error is below ``FORMULA_ERROR``;
- ``exact``: to as many bits as a coin asks for. This one defines the mechanism.

The numbers inside a curve are doubles and stand for themselves: the curve of a plan is exactly
reproducible from the plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpsu.kernels.chances import (
    gaussian_formula,
    laplace_formula,
    optimal_formula,
    truncated_laplace_formula,
)

# Proved in docs/proofs/coins.md: arguments carry at most 16 units in the last place, and no tail
# that a 64-bit word can tell from zero multiplies that by more than 2^11.
FORMULA_ERROR = 2.0**-36
GUARD_BITS = 64
# A probability that is 1 and not merely close to it: without the distinction a coin whose first
# bits are all ones would ask for more bits forever.
CERTAIN = None


class ReleaseCurve(ABC):
    """Probability of release as a function of an item's weight; see the module docstring."""

    kind: ClassVar[str]
    formula: ClassVar[Callable[..., float]]

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, ...]:
        """Arguments of `formula` after the weight."""

    @abstractmethod
    def value(self, mp: Any, weight: Fraction) -> Any:
        """Probability for a weight above 0, in the arithmetic of `mp`; or CERTAIN."""

    def probability(self, weight: float) -> float:
        """Probability that an item of this weight is released, in double precision."""
        return self.formula(weight, *self.parameters)

    def exact(self, weight: Fraction, bits: int) -> tuple[int, int]:
        """Integers with ``low <= probability * 2**bits <= high`` and a difference of at most 3."""
        return _bracket(self.value, weight, bits)


@dataclass(frozen=True)
class Laplace(ReleaseCurve):
    """Laplace noise of this scale, as published (Gopi et al. 2020; Korolova et al. 2009)."""

    scale: float
    threshold: float
    kind: ClassVar[str] = "laplace"
    formula: ClassVar[Callable[..., float]] = staticmethod(laplace_formula)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Scale and threshold."""
        return (self.scale, self.threshold)

    def value(self, mp: Any, weight: Fraction) -> Any:
        """The same in the arithmetic of `mp`."""
        gap = (mp.mpf(self.threshold) - _real(mp, weight)) / mp.mpf(self.scale)
        return mp.exp(-gap) / 2 if gap >= 0 else 1 - mp.exp(gap) / 2


@dataclass(frozen=True)
class Gaussian(ReleaseCurve):
    """Gaussian noise of this scale; `joint.py` and `calibration.py` choose scale and threshold."""

    scale: float
    threshold: float
    kind: ClassVar[str] = "gaussian"
    formula: ClassVar[Callable[..., float]] = staticmethod(gaussian_formula)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Scale and threshold."""
        return (self.scale, self.threshold)

    def value(self, mp: Any, weight: Fraction) -> Any:
        """The same in the arithmetic of `mp`."""
        gap = (mp.mpf(self.threshold) - _real(mp, weight)) / mp.mpf(self.scale)
        return mp.erfc(gap / mp.sqrt(2)) / 2


@dataclass(frozen=True)
class TruncatedLaplace(ReleaseCurve):
    """Laplace noise cut off where one user's weight can only just be seen, with probability delta.

    Private for every policy of l1 sensitivity `sensitivity`, whatever the number of items.
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0
    kind: ClassVar[str] = "truncated-laplace"
    formula: ClassVar[Callable[..., float]] = staticmethod(truncated_laplace_formula)

    @property
    def scale(self) -> float:
        """Scale of the noise before it is cut off."""
        return self.sensitivity / self.epsilon

    @property
    def threshold(self) -> float:
        """The bound A of the noise, which is also the threshold."""
        return self.scale * math.log1p(math.expm1(self.epsilon) / (2.0 * self.delta))

    @property
    def parameters(self) -> tuple[float, ...]:
        """Epsilon, delta and sensitivity."""
        return (self.epsilon, self.delta, self.sensitivity)

    def value(self, mp: Any, weight: Fraction) -> Any:
        """The same in the arithmetic of `mp`."""
        epsilon, delta = mp.mpf(self.epsilon), mp.mpf(self.delta)
        w = _real(mp, weight) / mp.mpf(self.sensitivity)
        a = mp.log1p(mp.expm1(epsilon) / (2 * delta)) / epsilon
        if w <= a:
            return delta * mp.expm1(epsilon * w) / mp.expm1(epsilon)
        if w >= 2 * a:
            return CERTAIN
        edge = mp.exp(-epsilon * a)
        return 1 - (mp.exp(-epsilon * (w - a)) - edge) / (2 * (1 - edge))


@dataclass(frozen=True)
class Optimal(ReleaseCurve):
    """The optimal selector where neighbors differ by one unit on one item.

    ``pi_{n+1} = min(e^eps pi_n + delta, 1 - e^-eps (1 - pi_n - delta), 1)`` from ``pi_0 = 0``
    (Desfontaines et al. 2022), in closed form.
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "optimal"
    formula: ClassVar[Callable[..., float]] = staticmethod(optimal_formula)

    @property
    def switch(self) -> int:
        """Last n that the first branch of the recursion gives."""
        # The first branch leads from n to n + 1 as long as pi_n <= (1 - delta)/(1 + e^eps). At the
        # crossing both branches agree, so a rounding here changes no probability by more than that.
        limit = (1.0 - self.delta) / (1.0 + math.exp(self.epsilon))
        last = math.log1p(limit * math.expm1(self.epsilon) / self.delta) / self.epsilon
        return 1 + math.floor(last)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Epsilon, delta and the end of the first branch."""
        return (self.epsilon, self.delta, float(self.switch))

    def value(self, mp: Any, weight: Fraction) -> Any:
        """The same in the arithmetic of `mp`."""
        epsilon, delta = mp.mpf(self.epsilon), mp.mpf(self.delta)
        growth = mp.expm1(epsilon)
        limit = (1 - delta) / (1 + mp.exp(epsilon))
        switch = 1 + int(mp.floor(mp.log1p(limit * growth / delta) / epsilon))
        if weight <= switch:
            return delta * mp.expm1(epsilon * _real(mp, weight)) / growth
        hidden = 1 - delta * mp.expm1(epsilon * switch) / growth
        beyond = delta / growth
        decay = mp.exp(-epsilon * (_real(mp, weight) - switch))
        shown = 1 + beyond - (hidden + beyond) * decay
        return shown if shown < 1 else CERTAIN

    def best_cutoff(self) -> int:
        """The number of votes G at which a vote buys most: the argmin of n / pi_n."""
        best, n = 1, 1
        while self.probability(n) < 1.0 and n < 2 * (self.switch + 2):
            n += 1
            if n * self.probability(best) < best * self.probability(n):
                best = n
        return best


def weight_needed(curve: ReleaseCurve, probability: float) -> float:
    """Smallest weight that is released with at least this probability (whole votes: `Optimal`)."""
    low, high = 0.0, 1.0
    while curve.probability(high) < probability:
        low, high = high, 2.0 * high
    if isinstance(curve, Optimal):
        return float(
            next(n for n in range(1, math.ceil(high) + 1) if curve.probability(n) >= probability)
        )
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        if curve.probability(middle) < probability:
            low = middle
        else:
            high = middle
    return high


def _real(mp: Any, weight: Fraction) -> Any:
    # Weights are dyadic, so this quotient is exact once the precision covers their bits.
    return mp.mpf(weight.numerator) / mp.mpf(weight.denominator)


def _bracket(value: Callable[[Any, Fraction], Any], weight: Fraction, bits: int) -> tuple[int, int]:
    if weight <= 0:
        return 0, 0
    from mpmath.ctx_mp import MPContext

    mp = MPContext()  # private: changing the precision of the shared context is visible elsewhere
    mp.prec = bits + GUARD_BITS + 128
    probability = value(mp, weight)
    if probability is CERTAIN:
        return 1 << bits, 1 << bits
    scaled = mp.ldexp(probability, bits)
    margin = mp.ldexp(1, -GUARD_BITS // 2)
    low = int(mp.floor(scaled - margin))
    high = int(mp.ceil(scaled + margin))
    return max(0, low), min(1 << bits, high)
