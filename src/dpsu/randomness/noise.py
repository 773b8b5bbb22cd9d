"""Exact Gaussian noise in whole units: a normal variable rounded to the nearest integer.

Every (round, item) has one uniform U, revealed bit by bit from the keyed PRF, and the noise is the
integer whose cell of the normal distribution U falls into. A table proposes a normal variable from
the first 64 bits. If it lies farther from the edges of its cell than its proved error, that is the
cell; otherwise the bits are compared with bounds on the edges. In the rare case that they do not
decide, more bits are drawn and the edges are evaluated with more digits. The noise
depends on the key, the round and the item alone, and exists whether or not anybody holds the item.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids
from dpsu.kernels.gaussians import WORDS, round_gaussians
from dpsu.kernels.hashing import digests
from dpsu.randomness.keys import Key, prefix
from dpsu.runtime.threads import in_ranges

PURPOSE = "evidence"
MORE = "more "
DIGEST_BITS = 256
GUARD_BITS = 64

_of_thread = threading.local()


class Noise:
    """The noise of some items in every round; one call of the PRF serves several rounds."""

    def __init__(self, key: Key, items: Ids, purpose: str = PURPOSE) -> None:
        self._key, self._purpose = key, purpose
        self._data, self._offsets = items.buffers()
        self._group = -1
        self._words = np.empty((0, WORDS), np.uint64)

    def rounded(self, round_: int, scale: float) -> NDArray[np.int64]:
        """Normal noise of standard deviation `scale` units, rounded to whole units."""
        group, place = divmod(round_, WORDS)
        if group != self._group:
            self._group = group
            self._words = digests(
                self._key.secret, prefix(self._purpose, group, 0), self._data, self._offsets, WORDS
            )
        noise = np.empty(len(self._words), np.int64)
        sure = np.empty(len(self._words), bool)
        in_ranges(
            lambda first, last: round_gaussians(
                self._words[first:last, place], scale, noise[first:last], sure[first:last]
            ),
            len(noise),
        )
        for at in np.flatnonzero(~sure):
            item = self._data[self._offsets[at] : self._offsets[at + 1]].tobytes()
            word, guess = int(self._words[at, place]), int(noise[at])
            noise[at] = decide(word, scale, guess, self._key, round_, item, self._purpose)
        return noise


def decide(
    word: int,
    scale: float,
    guess: int,
    key: Key,
    round_: int,
    item: bytes,
    purpose: str = PURPOSE,
) -> int:
    """The integer whose cell holds U, with as many bits as it takes; `word` are the first 64."""
    uniform, bits, block = word, 64, 0
    while True:
        found = _cell(uniform, bits, scale, guess)
        if found is not None:
            return found
        digest = key.digest(MORE + purpose, round_, block, item)
        uniform = (uniform << DIGEST_BITS) | int.from_bytes(digest, "big")
        bits, block = bits + DIGEST_BITS, block + 1


def _cell(uniform: int, bits: int, scale: float, guess: int) -> int | None:
    """The integer whose cell holds all of [uniform, uniform + 1] / 2^bits, if there is one."""
    # Where cells are tiny, a guess may be many of them off: steps grow until they go too far.
    too_low, too_high, step = None, None, 1
    while True:
        low, _ = _edge(guess, bits, scale)
        _, high = _edge(guess + 1, bits, scale)
        if uniform + 1 <= low:
            too_high = guess
        elif uniform >= high:
            too_low = guess
        else:
            break
        if too_low is not None and too_high is not None:
            guess = (too_low + too_high) // 2
        else:
            guess += step if too_high is None else -step
            step *= 2
    below, above = _edge(guess, bits, scale)[1], _edge(guess + 1, bits, scale)[0]
    return guess if below <= uniform and uniform + 1 <= above else None


def _context() -> Any:
    """An mpmath context for this thread alone, because its precision is changed; made once."""
    if not hasattr(_of_thread, "mp"):
        from mpmath.ctx_mp import MPContext

        _of_thread.mp = MPContext()
    return _of_thread.mp


def _edge(cell: int, bits: int, scale: float) -> tuple[int, int]:
    """Integers around ``2^bits P[Z scale < cell - 1/2]``."""
    mp = _context()
    mp.prec = bits + GUARD_BITS + 128
    gap = (mp.mpf(cell) - mp.mpf(0.5)) / mp.mpf(scale)
    value: Any = mp.ldexp(mp.erfc(-gap / mp.sqrt(2)) / 2, bits)
    margin = mp.ldexp(1, -GUARD_BITS // 2)
    return int(mp.floor(value - margin)), int(mp.ceil(value + margin))
