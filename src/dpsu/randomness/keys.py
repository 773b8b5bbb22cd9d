"""The secret key of a release, and everything random that is derived from it.

One 256-bit key from the operating system per release. Coins are HMAC-SHA256 of
``(purpose, round, block, item)``; salts for ordering users and sampling items are derived one-way,
because salts may show in query plans and coins must not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from dpsu.options import whole_number

KEY_BYTES = 32


@dataclass(frozen=True)
class Key:
    """A secret key for exactly one release; its bytes are never printed.

    Examples
    --------
    >>> Key.from_os()
    Key(insecure=False)
    """

    secret: bytes = field(repr=False)
    insecure: bool = False

    @classmethod
    def from_os(cls) -> Key:
        """Draw a fresh key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_insecure_seed(cls, seed: int) -> Key:
        """Make a repeatable key for tests; whoever knows the seed can undo the privacy."""
        seed = whole_number("insecure_seed", seed, -(2**63), 2**63 - 1)
        return cls(hashlib.sha256(b"dpsu insecure seed %d" % seed).digest(), insecure=True)

    def digest(self, purpose: str, round_: int, block: int, item: bytes) -> bytes:
        """32 pseudorandom bytes that nobody without the key can tell from random ones."""
        return hmac.digest(self.secret, prefix(purpose, round_, block) + sized(item), "sha256")

    def salt(self, purpose: str) -> int:
        """A 64-bit salt for a fast hash; it reveals nothing about the key."""
        return int.from_bytes(self.digest("salt", 0, 0, purpose.encode())[:8], "big")


def prefix(purpose: str, round_: int, block: int) -> bytes:
    """The part of a hashed message that all items of one purpose, round and block share."""
    return sized(purpose.encode()) + round_.to_bytes(8, "big") + block.to_bytes(4, "big")


def sized(part: bytes) -> bytes:
    """Prefix a part with its length, so that no two lists of parts give the same message."""
    return len(part).to_bytes(8, "big") + part
