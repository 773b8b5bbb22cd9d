"""Text of strangers, made harmless before it is shown.

Items are whatever users typed. Terminals obey control characters, and marks of writing direction
let one text look like another one; both are shown by their numbers instead.
"""

from __future__ import annotations

import re
import unicodedata

# Between letters of several scripts and of emoji; terminals do nothing else on them.
_JOINERS = "\u200c\u200d"


def harmless(line: str) -> str:
    r"""A line for people to see; control characters are shown by their number, as \x1b is."""
    return re.sub(r"[^ -~]", _shown, line)


def _shown(found: re.Match[str]) -> str:
    character = found.group()
    kind = unicodedata.category(character)
    if character in _JOINERS or kind not in ("Cc", "Cf", "Zl", "Zp"):
        return character
    return _spelled(character)


def _spelled(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def encodable(text: str) -> str:
    r"""The text with halves of surrogate pairs, which no encoding has, shown as \udc80 is."""
    return re.sub("[\ud800-\udfff]", lambda found: _spelled(found.group()), text)
