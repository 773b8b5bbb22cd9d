"""How items are made of text: the column, the tokenizer, the lengths of n-grams. Public."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpsu.errors import option_error
from dpsu.options import whole_number

Split = Callable[[str], Iterable[str]]

WORDS, PAPER, SENTENCES, LINES = "words", "paper", "sentences", "lines"
NAMED = (WORDS, PAPER, SENTENCES, LINES)
REGEX = "regex:"
# How a plan calls a tokenizer that is a function.
FUNCTION = "function "
LONGEST_GRAM = 16
# Items of more bytes are dropped: hardly anybody shares them, and they take memory.
LONGEST_ITEM = 1024


@dataclass(frozen=True, repr=False)
class TokenizerFile:
    """What a tokenizer file holds, for machines that do not have the file; `name` is its path."""

    name: str
    content: bytes


# A tokenizer by its name, by its function or by what its file holds.
Tokenizer = str | Split | TokenizerFile


class FunctionName(str):
    """The name of a tokenizer that is a function: all that a plan in a file has of it."""


@dataclass(frozen=True)
class TextSpec:
    """A column of texts, its tokenizer, and the lengths of n-grams that are items."""

    column: str
    tokenizer: str
    shortest: int
    longest: int

    def __str__(self) -> str:
        return f"{self.lengths} of column {self.column!r} by tokenizer {self.tokenizer!r}"

    @property
    def lengths(self) -> str:
        """The lengths in words."""
        if self.longest == 1:
            return "tokens"
        if self.shortest == self.longest:
            return f"{self.longest}-grams"
        return f"{self.shortest}- to {self.longest}-grams"


def tokenizer_name(tokenizer: str | Split | None) -> str:
    """The name of a tokenizer in a plan."""
    if tokenizer is None:
        return WORDS
    if isinstance(tokenizer, FunctionName):
        return str(tokenizer)
    if isinstance(tokenizer, str):
        if tokenizer in NAMED or is_file(tokenizer):
            return tokenizer
        if tokenizer.startswith(REGEX):
            try:
                re.compile(tokenizer.removeprefix(REGEX))
            except re.error as error:
                raise option_error(
                    "tokenizer", f"is no regular expression: {error}", tokenizer
                ) from None
            return tokenizer
        raise option_error(
            "tokenizer",
            f"is not one of {', '.join(NAMED)}, {REGEX}PATTERN, or a tokenizer.json file",
            tokenizer,
        )
    if not callable(tokenizer):
        raise option_error(
            "tokenizer",
            f"is a {type(tokenizer).__name__}; give a name, or a function from a "
            "text to its tokens",
        )
    name = getattr(tokenizer, "__qualname__", type(tokenizer).__name__)
    return f"{FUNCTION}{name}"


def is_file(tokenizer: str) -> bool:
    """Whether the tokenizer is named by a file."""
    return tokenizer.endswith(".json") and not tokenizer.startswith(REGEX)


def parse_lengths(ngrams: Any) -> tuple[int, int]:
    """Shortest and longest of 2, (1, 3), "2" or "1-3"."""
    given: Any = 1 if ngrams is None else ngrams
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", given)
        if found is None:
            raise option_error("ngrams", "is not a length or a range such as 1-3", ngrams)
        given = int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))
    if not isinstance(given, (tuple, list)):
        given = (given, given)
    if len(given) != 2:
        raise option_error("ngrams", "must have two ends, as (1, 3)", ngrams)
    shortest, longest = (whole_number("ngrams", end, 1, LONGEST_GRAM) for end in given)
    if shortest > longest:
        raise option_error("ngrams", "begins above its end; did you mean the reverse?", ngrams)
    return shortest, longest
