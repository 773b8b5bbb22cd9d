"""N-grams, length after length: longer ones only of what was released before.

Tokens come first, by weighted Gaussian selection. Then, for every length, the grams whose two
shorter parts are released are a public domain. Noise falls on all of it, held or not, so that
no delta is needed for novel grams; in return some grams are released that nobody holds (Kim, Gopi,
Kulkarni and Yekhanin 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dpsu.policies.weighted import Weighted
from dpsu.privacy.calibration import ROUND_UP, gaussian_scale, gaussian_threshold
from dpsu.privacy.curves import Gaussian, weight_needed
from dpsu.privacy.guarantee import rest_of
from dpsu.privacy.normal import upper_quantile
from dpsu.privacy.several_ids import threshold_for
from dpsu.rounds.sips import SPLITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.randomness.keys import Key
    from dpsu.rounds.protocols import TextEngine, Weighed
    from dpsu.text.domain import Domain

HOW_MANY, WHICH = "number of spurious grams", "spurious gram"
DIGEST_BITS = 256
GUARD_BITS = 128


@dataclass(frozen=True)
class NGramRounds:
    """Shares of the budget and noise for each length, from 1 on.

    Attributes
    ----------
    max_items : int
        How many grams of each length a user weighs at most, its own most frequent ones first.
    shares, scales : tuple of float
        For each length: its share of the budget, and the standard deviation of its noise.
    threshold : float
        What a token's weight plus noise must exceed.
    spurious : float
        How many grams come out that nobody weighed, at most and on average, for each gram released
        one shorter.
    """

    max_items: int
    fraction_bits: int
    shares: tuple[float, ...]
    scales: tuple[float, ...]
    threshold: float
    spurious: float
    kind: ClassVar[str] = "ngrams"

    def weight_needed(self, probability: float) -> float:
        """Weight of a single token that is enough with this probability."""
        return weight_needed(Gaussian(self.scales[0], self.threshold), probability)

    def curve(self, length: int, known: Domain | None) -> Gaussian:
        """The curve that releases grams of a length; `known` is the domain one shorter."""
        scale = self.scales[length - 1]
        if known is None:
            return Gaussian(scale, self.threshold)
        share = len(known) / known.n_pairs if known.n_pairs else 1.0
        chance = self.spurious * min(1.0, share)
        return Gaussian(scale, scale * upper_quantile(chance))

    @property
    def policy(self) -> Weighted:
        """What users give: equal shares whose squares add up to 1."""
        return Weighted(2, self.fraction_bits)

    def run(self, engine: TextEngine, key: Key) -> list[Domain]:
        """The released grams, one domain for each length."""
        import numpy as np

        from dpsu.text.domain import Domain

        known: Domain | None = None
        released: list[Domain] = []
        for length in range(1, len(self.shares) + 1):
            curve = self.curve(length, known)
            taken, weighed = engine.select(length, self, curve, key)
            if known is None:
                known = Domain.of_tokens(taken)
            else:
                # A gram that is held but has no weight is treated as if nobody held it.
                extra = spurious_pairs(known, weighed, curve, key, length)
                known = known.extended(np.concatenate([taken, extra]))
            engine.allow_extensions(known)
            released.append(known)
        return released


def spurious_pairs(
    known: Domain, weighed: Weighed, curve: Gaussian, key: Key, length: int
) -> NDArray[np.int64]:
    """Grams of the domain that nobody weighed and whose noise alone exceeds the threshold.

    Their coins are not flipped one by one: how many succeed is binomial, and which is uniform.
    """
    import numpy as np

    wanted = binomial(known.n_pairs - len(weighed), curve, key, length)
    # A dict, as pairs come in the order in which they are drawn.
    drawn: dict[int, None] = {}
    attempt = 0
    while len(drawn) < wanted:
        pair = drawn_pair(known, key, length, attempt)
        attempt += 1
        if pair not in drawn and pair not in weighed:
            drawn[pair] = None
    return np.array(list(drawn), np.int64)


def drawn_pair(known: Domain, key: Key, length: int, attempt: int) -> int:
    """One of the grams one longer than `known`, each as likely as any other."""
    digest = key.digest(WHICH, length, 0, b"%d" % attempt)
    return known.pair(int.from_bytes(digest, "big") % known.n_pairs)


def binomial(trials: int, curve: Gaussian, key: Key, round_: int) -> int:
    """How many of `trials` noises exceed the threshold: exact, by as many bits as it takes.

    A uniform U is revealed bit by bit until it is known between which two values of the
    distribution function it lies.
    """
    from mpmath.ctx_mp import MPContext

    mp: Any = MPContext()
    uniform, bits, block = 0, 0, 0
    while True:
        digest = key.digest(HOW_MANY, round_, block, b"")
        uniform = (uniform << DIGEST_BITS) | int.from_bytes(digest, "big")
        bits, block = bits + DIGEST_BITS, block + 1
        mp.prec = bits + 2 * GUARD_BITS
        low, high = mp.ldexp(uniform, -bits), mp.ldexp(uniform + 1, -bits)
        margin = mp.ldexp(1, -bits - GUARD_BITS)
        ratio = mp.mpf(curve.threshold) / (mp.mpf(curve.scale) * mp.sqrt(2))
        chance = mp.erfc(ratio) / 2
        odds = chance / (1 - chance)
        below, mass = mp.mpf(0), mp.exp(trials * mp.log1p(-chance))
        for successes in range(trials + 1):
            above = below + mass
            if high <= above - margin or successes == trials:
                if below + margin <= low or successes == 0:
                    return successes
                break
            if low < above + margin:
                break
            below, mass = above, mass * odds * (trials - successes) / (successes + 1)


def design_ngrams(
    epsilon: float,
    delta: float,
    *,
    shares: tuple[float, ...],
    max_items: int,
    spurious: float,
    fraction_bits: int,
    ids: int = 1,
) -> tuple[NGramRounds, dict[str, float]]:
    """Noise for every length by its share, and the split of delta with the lowest threshold.

    Shares are brought to a sum of 1, rounded down. Only novel tokens are paid for with delta of
    their own: the domains of longer grams are public. Where a person has several ids, noise is for
    all of them, and so is the threshold.
    """
    total = math.fsum(shares)
    parts = tuple(share / total * (1.0 - 1e-14) for share in shares)

    def first(novel: float) -> tuple[float, float]:
        scale = ROUND_UP * gaussian_scale(epsilon, rest_of(delta, novel)) / math.sqrt(parts[0])
        if ids > 1:
            return ids * threshold_for(scale, novel, ids * max_items), scale
        return gaussian_threshold(scale, novel, max_items), scale

    novel = min((part * delta for part in SPLITS), key=lambda n: first(n)[0])
    sigma = gaussian_scale(epsilon, rest_of(delta, novel))
    scales = tuple(ids * ROUND_UP * sigma / math.sqrt(part) for part in parts)
    split = {"noise": rest_of(delta, novel), "novel tokens": novel}
    design = NGramRounds(max_items, fraction_bits, parts, scales, first(novel)[0], spurious)
    return design, split
