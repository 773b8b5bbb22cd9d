"""Word lists of a released vocabulary, in the formats of fastText, gensim and spaCy."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from dpsu.errors import warn
from dpsu.options import whole_number
from dpsu.runtime.writing import check_writable, write_text
from dpsu.vocabulary.words import Vocabulary, read_vocabulary

# What fastText takes for the end of a word; other spaces, such as U+00A0, it reads as letters.
_BREAKS_FASTTEXT = re.compile(r"[ \t\n\r\v\f\0]")
_BREAKS_GENSIM = re.compile(r"[\t\n]")
LARGEST_DOCUMENTS = 2**53


def write_fasttext(words: Any, path: str | Path) -> None:
    r"""Write one word per line, the most frequent first, as fastText reads words.

    Parameters
    ----------
    words : Release, path, mapping or iterable
        As for `train_tokenizer`. Words with whitespace cannot be written; they are left out with
        a `DataWarning` that says how many.
    path : str or Path
        Its name must end in .txt.

    Privacy
    -------
    Costs nothing: it sees released words and released counts only.

    Cost
    ----
    Linear in the words.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpsu.vocabulary.lexicons import write_fasttext
    >>> path = Path(tempfile.mkdtemp()) / "words.txt"
    >>> write_fasttext({"milk": 12, "bread": 40}, path)
    >>> path.read_text()
    'bread\nmilk\n'
    """
    path = Path(path)
    check_writable(path, (".txt",))
    kept = _writable(read_vocabulary(words), _BREAKS_FASTTEXT, "whitespace", "fastText")
    write_text(path, "".join(f"{word}\n" for word, _ in kept))


def write_gensim(words: Any, path: str | Path, *, documents: int | None = None) -> None:
    r"""Write a dictionary for gensim's ``Dictionary.load_from_text``.

    Ids follow the frequency, and noisy counts of users are the document frequencies.

    Parameters
    ----------
    words : Release, path, mapping or iterable
        As for `train_tokenizer`. Words with a tab or line feed are left out with a `DataWarning`
        that says how many.
    path : str or Path
        Its name must end in .txt.
    documents : int, optional
        The number of documents, here of users, that gensim divides by. It must be public or
        itself differentially private. By default the largest noisy count.

    Privacy
    -------
    Costs nothing: it sees released words and released counts only. The true number of users is
    not released, so do not give it as `documents` unless it is public.

    Cost
    ----
    Linear in the words.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpsu.vocabulary.lexicons import write_gensim
    >>> path = Path(tempfile.mkdtemp()) / "dictionary.txt"
    >>> write_gensim({"milk": 12, "bread": 40}, path, documents=100)
    >>> path.read_text().splitlines()
    ['100', '0\tbread\t40', '1\tmilk\t12']
    """
    path = Path(path)
    if documents is not None:
        whole_number("documents", documents, 1, LARGEST_DOCUMENTS)
    check_writable(path, (".txt",))
    kept = _writable(read_vocabulary(words), _BREAKS_GENSIM, "tabs or line feeds", "gensim")
    everyone = max((count for _, count in kept), default=0) if documents is None else documents
    # Noise may push a count beyond the number of users, and its weight in TF-IDF below zero.
    lines = [f"{id_}\t{word}\t{min(count, everyone)}" for id_, (word, count) in enumerate(kept)]
    write_text(path, "".join(f"{line}\n" for line in (str(everyone), *lines)))


def write_spacy(words: Any, path: str | Path) -> None:
    """Write lexemes, one JSON object per line, for ``vocab_data`` in a config of spaCy 3.

    ``id`` is the rank by frequency, which becomes ``Lexeme.rank``. ``prob`` is the logarithm of
    the word's share of all counts; spaCy 3 reads it from its lookup table ``lexeme_prob`` only.

    Parameters
    ----------
    words : Release, path, mapping or iterable
        As for `train_tokenizer`.
    path : str or Path
        Its name must end in .jsonl.

    Privacy
    -------
    Costs nothing: it sees released words and released counts only.

    Cost
    ----
    Linear in the words.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpsu.vocabulary.lexicons import write_spacy
    >>> path = Path(tempfile.mkdtemp()) / "lexemes.jsonl"
    >>> write_spacy({"milk": 10, "bread": 30}, path)
    >>> path.read_text().splitlines()[0]
    '{"orth": "bread", "id": 0, "prob": -0.28768}'
    """
    path = Path(path)
    check_writable(path, (".jsonl",))
    vocabulary = read_vocabulary(words)
    total = sum(vocabulary.counts)
    lexemes = [
        # Always a float: spaCy would take an integer for the id of a text.
        {"orth": word, "id": rank, "prob": float(round(math.log(count / total), 5))}
        for rank, (word, count) in enumerate(zip(vocabulary.words, vocabulary.counts, strict=True))
    ]
    write_text(path, "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in lexemes))


def _writable(
    vocabulary: Vocabulary, breaks: re.Pattern[str], what: str, format_: str
) -> list[tuple[str, int]]:
    pairs = list(zip(vocabulary.words, vocabulary.counts, strict=True))
    kept = [(word, count) for word, count in pairs if not breaks.search(word)]
    if len(kept) < len(pairs):
        warn(
            f"{len(pairs) - len(kept):,} of {len(pairs):,} words have {what}, which the format of "
            f"{format_} cannot hold; they are left out"
        )
    return kept
