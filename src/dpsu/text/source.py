"""Items that come from text: which column, which tokenizer, which lengths of n-grams. Public."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpsu.errors import ParameterError
from dpsu.options import whole_number

Split = Callable[[str], Iterable[str]]

WORDS, PAPER, SENTENCES, LINES = "words", "paper", "sentences", "lines"
NAMED = (WORDS, PAPER, SENTENCES, LINES)
REGEX = "regex:"
LONGEST_GRAM = 16
# Items of more bytes are dropped: nobody else will have them, and a table has to hold them.
LONGEST_ITEM = 1024


@dataclass(frozen=True)
class TextSource:
    """A column of texts, what makes tokens of it, and the lengths of n-grams that are items."""

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


def text_source(
    text: str | None, tokenizer: str | Split | None, ngrams: Any, *, count: str | None = None
) -> TextSource | None:
    """Check the options of text; None where items come from a column of their own."""
    if text is None:
        for name, value in (("tokenizer", tokenizer), ("ngrams", ngrams)):
            if value is not None:
                raise ParameterError(f"{name} is for texts: name their column with text")
        return None
    if count is not None:
        raise ParameterError(f"count={count!r} is not for texts: their tokens are counted")
    shortest, longest = parse_lengths(ngrams)
    return TextSource(text, tokenizer_name(tokenizer), shortest, longest)


def tokenizer_name(tokenizer: str | Split | None) -> str:
    """What a plan calls a tokenizer."""
    if tokenizer is None:
        return WORDS
    if isinstance(tokenizer, str):
        if tokenizer in NAMED or is_file(tokenizer):
            return tokenizer
        if tokenizer.startswith(REGEX):
            _check_pattern(tokenizer)
            return tokenizer
        raise ParameterError(
            f"tokenizer={tokenizer!r} is not one of {', '.join(NAMED)}, {REGEX}PATTERN, or a "
            "tokenizer.json file"
        )
    if not callable(tokenizer):
        raise ParameterError(
            f"tokenizer is a {type(tokenizer).__name__}; give a name, or a function from a text to "
            "its tokens"
        )
    name = getattr(tokenizer, "__qualname__", type(tokenizer).__name__)
    return f"function {name}"


def is_file(tokenizer: str) -> bool:
    """Whether the tokenizer is named by a file."""
    return tokenizer.endswith(".json") and not tokenizer.startswith(REGEX)


def _check_pattern(tokenizer: str) -> None:
    try:
        re.compile(tokenizer.removeprefix(REGEX))
    except re.error as error:
        raise ParameterError(f"tokenizer={tokenizer!r} is no regular expression: {error}") from None


def parse_lengths(ngrams: Any) -> tuple[int, int]:
    """Shortest and longest of 2, (1, 3), "2" or "1-3"."""
    given: Any = 1 if ngrams is None else ngrams
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", given)
        if found is None:
            raise ParameterError(f"ngrams={ngrams!r} is not a length or a range such as 1-3")
        given = int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))
    if not isinstance(given, (tuple, list)):
        given = (given, given)
    if len(given) != 2:
        raise ParameterError(f"ngrams={ngrams!r} must have two ends, as (1, 3)")
    shortest, longest = (whole_number("ngrams", end, 1, LONGEST_GRAM) for end in given)
    if shortest > longest:
        raise ParameterError(f"ngrams={ngrams!r} begins above its end; did you mean the reverse?")
    return shortest, longest
