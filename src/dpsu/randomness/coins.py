"""The exact coin: release an item with probability exactly pi(weight).

Every item with positive weight gets a uniform U, revealed bit by bit from the keyed PRF. Its first
64 bits are compared with bounds on pi from double arithmetic with a proved error; in the rare case
that U lies between them, more bits are drawn and pi is evaluated with more digits until U is
outside. U depends on the key and the item alone.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids
from dpsu.kernels import chances
from dpsu.kernels.hashing import digests
from dpsu.privacy.curves import FORMULA_ERROR, ReleaseCurve
from dpsu.randomness.keys import Key, prefix

PURPOSE = "coin"
TABLE_PURPOSE = "coin of a table"
WORD = 64
DIGEST_BITS = 256


def flip_coins(
    curve: ReleaseCurve,
    weights: NDArray[np.int64],
    fraction_bits: int,
    items: Ids,
    key: Key,
    round_: int = 0,
) -> NDArray[np.bool_]:
    """Flip one coin for each item; returns which are released. An item of weight 0 never is.

    Parameters
    ----------
    weights : array of int64
        In units of ``2**-fraction_bits``, one per item.
    """
    released = np.zeros(len(weights), bool)
    support = np.flatnonzero(weights > 0)
    held = items.take(support)
    data, offsets = held.buffers()
    words = digests(key.secret, prefix(PURPOSE, round_, 0), data, offsets, 1)[:, 0]
    low, last_open = _word_bounds(curve, weights[support], fraction_bits)
    sure = words < low
    for at in np.flatnonzero(~sure & (words <= last_open)):
        weight = Fraction(int(weights[support[at]]), 1 << fraction_bits)
        raw = data[offsets[at] : offsets[at + 1]].tobytes()
        sure[at] = decide(curve, weight, raw, key, round_)
    released[support] = sure
    return released


def flip_words(
    chances: tuple[int, ...],
    weights: NDArray[np.int64],
    items: Ids,
    key: Key,
    round_: int,
) -> NDArray[np.bool_]:
    """Flip one coin for each item of positive weight, by a table of chances in parts of 2**64.

    A uniform word of 64 bits lies below a whole number of such parts with exactly that probability,
    so that no further bits are needed. An item whose weight is beyond the table is released.

    Parameters
    ----------
    chances : tuple of int
        By weight; the first is 0 and the last ``2**64``.
    weights : array of int64
        In units, one per item.
    """
    released = np.zeros(len(weights), bool)
    support = np.flatnonzero(weights > 0)
    data, offsets = items.take(support).buffers()
    words = digests(key.secret, prefix(TABLE_PURPOSE, round_, 0), data, offsets, 1)[:, 0]
    certain = chances.index(2**WORD)
    # 2^64 itself does not fit in a word.
    bounds = np.array(chances[:certain], np.uint64)
    at = np.minimum(weights[support], certain - 1)
    released[support] = (weights[support] >= certain) | (words < bounds[at])
    return released


def decide(curve: ReleaseCurve, weight: Fraction, item: bytes, key: Key, round_: int) -> bool:
    """Decide one coin with as many bits as it takes."""
    uniform, blocks = 0, 0
    while True:
        digest = key.digest(PURPOSE, round_, blocks, item)
        uniform = (uniform << DIGEST_BITS) | int.from_bytes(digest, "big")
        blocks += 1
        low, high = curve.exact(weight, blocks * DIGEST_BITS)
        if uniform + 1 <= low:
            return True
        if uniform >= high:
            return False


def _word_bounds(
    curve: ReleaseCurve, weights: NDArray[np.int64], fraction_bits: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Items with words below the first bound are released, those above the second are not."""
    probability = probabilities(curve, weights, fraction_bits)
    low = np.floor(np.ldexp(probability * (1.0 - FORMULA_ERROR), WORD))
    last_open = np.ceil(np.ldexp(probability * (1.0 + FORMULA_ERROR), WORD))
    # 2^64 itself does not fit in a word; the largest word takes its place.
    beyond = last_open >= 2.0**WORD
    last_word = np.where(beyond, 0.0, last_open).astype(np.uint64)
    last_word[beyond] = np.uint64(2**WORD - 1)
    return low.astype(np.uint64), last_word


def probabilities(
    curve: ReleaseCurve, weights: NDArray[np.int64], fraction_bits: int
) -> NDArray[np.float64]:
    """The chance of the coin of each of these weights, in double precision."""
    found = np.empty(len(weights))
    first, second, third = (*curve.parameters, 0.0)[:3]
    weights_in_ones = np.ldexp(weights.astype(np.float64), -fraction_bits)
    place = chances.FORMULAS.index(curve.formula)
    chances.evaluate(place, weights_in_ones, first, second, third, found)
    return found
