"""Texts whose tokens, or n-grams of tokens, are the items."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from dpsu.errors import ParameterError, option_error
from dpsu.inputs.columns import DEFAULT_ITEM, check_names, plain_name
from dpsu.options import Typed, option
from dpsu.text.spec import WORDS, FunctionName, TextSpec, parse_lengths, tokenizer_name


@dataclass(frozen=True)
class Tokens(Typed):
    """A column of texts whose tokens are the items, or n-grams of them.

    Parameters
    ----------
    column : str
        Name of the column of texts. A mapping then leads from users to texts.
    tokenizer : str or callable
        What makes tokens of a text: ``"words"`` (Unicode word segmentation, lower case; the
        default), ``"paper"`` (as in the papers; needs nltk), ``"sentences"``, ``"lines"``,
        ``"regex:PATTERN"``, the path of a Hugging Face ``tokenizer.json``, or a function from a
        text to its tokens. A function must look at nothing but the text.
    ngrams : int, (int, int) or str
        Items are n-grams of these lengths, joined by a space: ``2``, ``(1, 3)`` or ``"1-3"``.
    name : str
        Name of the column of the result.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.Tokens("body", ngrams=(1, 3)).lengths
    '1- to 3-grams'
    """

    column: str = option(
        MISSING,
        object,
        "Column of texts, instead of --item: their tokens are the items.",
        name="text",
    )
    tokenizer: Any = option(
        WORDS,
        object,
        "words, paper, sentences, lines, regex:PATTERN, or a tokenizer.json file.",
    )
    ngrams: Any = option(1, object, "Items are n-grams of these lengths: 2 or 1-3.")
    name: str = option(DEFAULT_ITEM, object, "Column of the result.", name="item")
    # What columns of items have, and texts have not.
    type = None
    repeats = None

    def check(self) -> None:
        """Make a range of the lengths, and refuse what no tokenizer is."""
        if self.column is None:
            raise option_error("text", "is missing: name the column of texts")
        check_names(needed=True, text=self.column, item=self.name)
        for name in ("column", "name"):
            object.__setattr__(self, name, plain_name(getattr(self, name)))
        object.__setattr__(self, "ngrams", parse_lengths(self.ngrams))
        if self.tokenizer is None:
            object.__setattr__(self, "tokenizer", WORDS)
        tokenizer_name(self.tokenizer)

    def refuse_function_name(self) -> None:
        """Refuse a tokenizer of which only the name is known."""
        if isinstance(self.tokenizer, FunctionName):
            raise ParameterError(
                f"the tokenizer is the {self.tokenizer}, which a file does not hold; give it "
                f"again, in Python: item=dpsu.Tokens({self.column!r}, tokenizer=...)"
            )

    @property
    def columns(self) -> str:
        """The column that is read."""
        return self.column

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the result."""
        return (self.name,)

    @property
    def longest(self) -> int:
        """Length of the longest n-grams."""
        longest: int = self.ngrams[1]
        return longest

    @property
    def source(self) -> TextSpec:
        """The column, what the plan calls the tokenizer, and the lengths."""
        return TextSpec(self.column, tokenizer_name(self.tokenizer), *self.ngrams)

    @property
    def lengths(self) -> str:
        """The lengths in words."""
        return self.source.lengths
