"""Tokenizers: from texts to segments of bytes.

A tokenizer is a function of one text alone. Privacy rests on that: the tokens of a user's texts do
not depend on the texts of others. Named tokenizers are compiled loops. Functions, patterns and
tokenizer files get a few hundred texts at a time, so that few tokens are Python objects at once.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.ids import text_buffers
from dpsu.errors import (
    DataError,
    ParameterError,
    ResourceError,
    is_memory_error,
    option_error,
)
from dpsu.kernels import segmenting
from dpsu.runtime.extras import load
from dpsu.text import paper_preprocessing
from dpsu.text.spec import (
    LINES,
    LONGEST_ITEM,
    PAPER,
    REGEX,
    SENTENCES,
    WORDS,
    Split,
    Tokenizer,
    TokenizerFile,
    is_file,
)
from dpsu.text.unicode_properties import tables

TEXTS_AT_ONCE = 256
TRIED = "Some words."
# One lock for all tokenizers that are functions: tasks of Dask share a process and a function, and
# each makes a tokenizer of it. A forked process needs a lock of its own, because an inherited one
# may be held forever.
_turns: dict[int, AbstractContextManager[bool]] = {}


@dataclass(frozen=True, repr=False)
class Segments:
    """Tokens as ranges of bytes of `data`; those of row r end before ``row_stops[r]``.

    A token that was too long has the length -1; `too_long` is the number of such tokens, and
    `failed` the number of texts on which the tokenizer failed.
    """

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int32]
    row_stops: NDArray[np.int64]
    too_long: int
    failed: int = 0


Tokenize = Callable[[pa.Array], Segments]
SplitMany = Callable[[list[str]], list[Iterable[str]]]


def tokenize_by(tokenizer: Tokenizer | None) -> Tokenize:
    """The tokenizer that was asked for; it takes normalized ``large_string`` without nulls."""
    words, sentences = tables()
    if tokenizer is None or tokenizer == WORDS:
        return lambda texts: _segments(segmenting.words, pc.utf8_lower(texts), words)
    if tokenizer in (SENTENCES, LINES):
        loop = segmenting.sentences if tokenizer == SENTENCES else segmenting.lines
        return lambda texts: _segments(loop, texts, sentences)
    if isinstance(tokenizer, str) and is_file(tokenizer):
        tokenizer = content_of(tokenizer)
    if isinstance(tokenizer, TokenizerFile):
        return partial(_collected, _from_file(tokenizer))
    split: Split
    if tokenizer == PAPER:
        split = paper_preprocessing.splitter()
    elif callable(tokenizer):
        split = _one_at_a_time(tokenizer)
    else:
        pattern = re.compile(tokenizer.removeprefix(REGEX))

        def split(text: str) -> Iterable[str]:
            return (match.group() for match in pattern.finditer(text))

    return partial(_collected, lambda some: [split(text) for text in some])


def _one_at_a_time(split: Split) -> Split:
    """Never call the caller's function on two texts at once: it may not be safe for threads.

    Tokens of one user could then end up with another.
    """

    def alone(text: str) -> list[str]:
        with _turns.setdefault(os.getpid(), threading.RLock()):
            return _tokens(split(text))

    return alone


def _segments(
    loop: Callable[..., tuple[int, int]], texts: pa.Array, table: NDArray[np.uint8]
) -> Segments:
    data, offsets = text_buffers(texts)
    room = int(offsets[-1] - offsets[0])
    # Room for the worst case; the system takes no memory for what is never written.
    begins, lengths = np.empty(room, np.int64), np.empty(room, np.int32)
    row_stops = np.empty(len(texts), np.int64)
    n, too_long = loop(data, offsets, table, LONGEST_ITEM, begins, lengths, row_stops)
    return Segments(data, begins[:n], lengths[:n], row_stops, too_long)


def _collected(split: SplitMany, texts: pa.Array) -> Segments:
    """Gather tokens that are Python objects into one buffer."""
    chunks, sizes, failed = [pa.array([], pa.large_string())], [], 0
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts.slice(first, TEXTS_AT_ONCE).to_pylist()
        for tokens, numbers in _tokens_of(split, some):
            chunks.append(tokens)
            sizes += numbers or [0]
            failed += not numbers
    data, offsets = text_buffers(pa.concat_arrays(chunks))
    lengths = np.diff(offsets)
    beyond = lengths > LONGEST_ITEM
    return Segments(
        data,
        offsets[:-1],
        np.where(beyond, -1, lengths).astype(np.int32),
        np.cumsum(np.array(sizes, np.int64)),
        int(beyond.sum()),
        failed,
    )


def _tokens_of(split: SplitMany, texts: list[str]) -> Iterator[tuple[pa.Array, list[int]]]:
    """Tokens of all texts, and how many each text has; none if the tokenizer fails on it.

    One person's text must neither end the run nor cost other texts their tokens.
    """
    try:
        found = [_tokens(tokens) for tokens in split(texts)]
        flat = pa.array([token for tokens in found for token in tokens], pa.large_string())
        yield flat, [len(tokens) for tokens in found]
        return
    except BaseException as error:
        # A panic in a Rust library is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        short = is_memory_error(error) and not _quotes(error, texts)
    if short:
        # Out of its context: what stands there may quote the text.
        raise ResourceError("the tokenizer has too little memory for a text")
    if len(texts) == 1:
        yield pa.array([], pa.large_string()), []
        return
    for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        yield from _tokens_of(split, half)


def _quotes(error: BaseException, texts: list[str]) -> bool:
    """Whether an error that is known by its words may have them from one of the texts."""
    return isinstance(error, RuntimeError) and any(str(error) in text for text in texts)


def _tokens(found: Iterable[str]) -> list[str]:
    if isinstance(found, str):
        raise DataError("the tokenizer returned one text; it must return a list of tokens")
    return [token for token in found if token]


def try_tokenizer(tokenizer: Tokenizer | None) -> None:
    """Refuse a tokenizer that is not there, and a function that is wrong for any text.

    One that raises other errors may be for texts of another kind than ours.
    """
    tokenize_by(tokenizer)
    if not callable(tokenizer):
        return
    try:
        found = tokenizer(TRIED)
        if not isinstance(found, str) and all(isinstance(token, str) for token in found):
            return
        problem = "it returns no list of texts"
    except (AttributeError, ImportError, NameError, TypeError) as error:
        problem = f"it raises {type(error).__name__}: {error}"
    except Exception:
        return
    raise option_error("tokenizer", f"cannot be used: of {TRIED!r}, made up to try it, {problem}")


def content_of(path: str) -> TokenizerFile:
    """Read a tokenizer file."""
    if not Path(path).is_file():
        raise ParameterError(f"there is no tokenizer file {path!r}")
    return TokenizerFile(path, Path(path).read_bytes())


def _from_file(file: TokenizerFile) -> SplitMany:
    """A tokenizer of the `tokenizers` library; special tokens are not added.

    Options that make the tokens of a text depend on chance, or on other texts, are switched off.
    """
    tokenizers = load("tokenizers")
    loaded: Any = None
    try:
        loaded = tokenizers.Tokenizer.from_buffer(file.content)
    except Exception as error:
        # A tokenizer file is public, so that the error may quote it.
        raise ParameterError(f"{file.name!r} is not a tokenizer file: {error}") from None
    loaded.no_truncation()
    loaded.no_padding()
    # Only BPE models have dropout.
    if getattr(loaded.model, "dropout", None) is not None:
        loaded.model.dropout = None
    return lambda some: [
        encoding.tokens for encoding in loaded.encode_batch(some, add_special_tokens=False)
    ]
