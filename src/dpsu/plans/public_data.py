"""Public data of a plan: at hand, and by their digests, which is how a file has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dpsu.errors import option_error
from dpsu.options import set_fields, whole_number

SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class PublicDigest:
    """Public data by its size and SHA-256: enough to tell whether it is the same."""

    entries: int
    sha256: str

    def __post_init__(self) -> None:
        set_fields(self, entries=whole_number("entries", self.entries, 0, 2**63))
        if not isinstance(self.sha256, str) or not SHA256.fullmatch(self.sha256):
            raise option_error("sha256", "is not a hash of 64 hexadecimal digits")


@dataclass(frozen=True)
class PublicData:
    """The public data themselves, which a plan that was read from a file does not have."""

    prior: Any = None
    public_items: Any = None
    # Which of them came from which file: no confidential file may be among these.
    paths: tuple[tuple[str, Any], ...] = ()
