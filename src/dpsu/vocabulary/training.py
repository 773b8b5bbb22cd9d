"""Tokenizers trained on a released vocabulary, weighted by its differentially private counts.

The Hugging Face library trains on text and has no way to be told counts. So words are cut here as
the tokenizer will cut text, the weights of equal pieces are added up, and every piece is repeated
in proportion to its weight, joined to long lines: millions of repetitions then take a second.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError, option_error
from dpsu.options import whole_number
from dpsu.runtime.extras import load
from dpsu.runtime.writing import check_writable, write_text
from dpsu.vocabulary.words import read_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Weighted = list[tuple[str, int]]

# In the order, and with the names, of RoBERTa and of BERT.
SPECIAL_TOKENS = {
    "bpe": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    "wordpiece": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
}
MODELS = tuple(SPECIAL_TOKENS)
DEFAULT_VOCAB_SIZE = 30_000
LARGEST_VOCAB_SIZE = 10_000_000
MOST_REPETITIONS = 5_000_000
REPETITIONS_IN_A_LINE = 1000
CONTINUED = "##"
BERT_LONGEST_WORD = 100

# A word with the one space before it, so that "bread" is the same token wherever it stands.
WORDS_WITH_THEIR_SPACE = r" ?\S+|\s+(?!\S)|\s+"
IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer, kana and ideographs: words that stand in text without a space.
_WRITTEN_WITHOUT_SPACES = re.compile(
    f"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff{IDEOGRAPHS}]"
)
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")


def train_tokenizer(
    words: Any,
    *,
    model: str = "bpe",
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    lowercase: bool = True,
    special_tokens: Iterable[str] | None = None,
) -> Tokenizer:
    """Train a Hugging Face tokenizer on released words, each as heavy as its noisy count.

    Parameters
    ----------
    words : Release, path, mapping or iterable
        A release; a .txt, .csv, .parquet or .json file that it wrote; a mapping of words to
        counts; or words, then all equally heavy. Counts below 1 are taken as 1.
    model : {"bpe", "wordpiece"}
        ``"bpe"`` works on bytes as that of GPT-2 does: any text can be encoded, and decoding gives
        it back. ``"wordpiece"`` has BERT's ``##`` pieces; words with characters that neither ASCII
        nor a released word has become ``[UNK]``.
    vocab_size : int
        At most this many tokens; 30,000 by default. It must have room for the special tokens and
        for every byte (bpe) or twice every character (wordpiece).
    lowercase : bool
        Whether text is put in lowercase first. Words with capitals decode to themselves only
        where this is False.
    special_tokens : iterable of str, optional
        They get the first ids; ``SPECIAL_TOKENS[model]`` by default. No released word may contain
        one of them. For wordpiece one must be ``[UNK]`` or ``<unk>``.

    Returns
    -------
    tokenizers.Tokenizer
        Without a post-processor: it adds no token of its own to a text. Text is brought to NFC,
        as released words are.

    Privacy
    -------
    Costs nothing: it sees released words and released counts only, and what is computed from a
    release is as private as the release. Training on the private text itself would not be.

    Cost
    ----
    Linear in the words plus the library's training, which sees at most five million repetitions
    more than there are words: seconds for 100,000 words. The same words give the same tokenizer.

    Examples
    --------
    >>> from dpsu.vocabulary.training import train_tokenizer
    >>> tokenizer = train_tokenizer({"bread": 900, "breakfast": 3}, vocab_size=266)
    >>> tokenizer.encode("bread breakfast").tokens
    ['Ġbread', 'Ġbrea', 'k', 'f', 'a', 's', 't']
    >>> tokenizer.decode(tokenizer.encode("bread & 🥐").ids)
    'bread & 🥐'
    """
    if model not in MODELS:
        raise option_error("model", f"is unknown; it is one of {', '.join(MODELS)}", model)
    size = whole_number("vocab_size", vocab_size, 1, LARGEST_VOCAB_SIZE)
    library = load("tokenizers")
    special = _special_tokens(model, special_tokens)
    vocabulary = read_vocabulary(words)
    steps = library.normalizers
    # Lowercase first: J with a caron has no composed form, j with a caron has.
    folding = steps.Sequence([steps.Lowercase(), steps.NFC()] if lowercase else [steps.NFC()])
    folded = [folding.normalize_str(word) for word in vocabulary.words]
    _refuse_special_words(special, vocabulary.words, folded)
    train = _train_bpe if model == "bpe" else _train_wordpiece
    weighted = list(zip(folded, vocabulary.counts, strict=True))
    tokenizer: Tokenizer = train(library, folding, weighted, size, special)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, path: str | Path) -> None:
    """Write a ``tokenizer.json``, whole or not at all.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        As `train_tokenizer` returns it.
    path : str or Path
        Its name must end in .json.

    Privacy
    -------
    Costs nothing: the file holds pieces of released words.

    Cost
    ----
    A few dozen bytes for each token.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpsu.vocabulary.training import train_tokenizer, write_tokenizer
    >>> path = Path(tempfile.mkdtemp()) / "tokenizer.json"
    >>> write_tokenizer(train_tokenizer(["bread", "milk"], model="wordpiece"), path)
    >>> from tokenizers import Tokenizer
    >>> Tokenizer.from_file(str(path)).encode("Milk, bread").tokens
    ['milk', ',', 'bread']
    """
    path = Path(path)
    check_writable(path, (".json",))
    write_text(path, tokenizer.to_str(pretty=True) + "\n")


def _special_tokens(model: str, given: Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return SPECIAL_TOKENS[model]
    tokens = (given,) if isinstance(given, str) else tuple(given)
    if len(set(tokens)) < len(tokens) or not all(
        isinstance(token, str) and token and not token.isspace() for token in tokens
    ):
        raise option_error("special_tokens", "must be different texts, none of them empty")
    if model == "wordpiece" and _unknown(tokens) is None:
        raise option_error(
            "special_tokens",
            "lacks '[UNK]' (or '<unk>'), which wordpiece needs for words that it cannot spell",
        )
    return tokens


def _unknown(special: tuple[str, ...]) -> str | None:
    return next((token for token in special if token.lower().strip("[<|>]") == "unk"), None)


def _refuse_special_words(
    special: tuple[str, ...], words: tuple[str, ...], folded: list[str]
) -> None:
    for token in special:
        if any(token in word for word in words) or any(token in word for word in folded):
            raise ParameterError(
                f"a released word contains the special token {token!r} and would be mistaken for "
                "it; give other {special_tokens}, or leave that word out",
                special_tokens=...,
            )


def _check_room(size: int, needed: int, what: str) -> None:
    if size < needed:
        raise option_error(
            "vocab_size",
            f"is too small for these words; {what} take {needed} tokens: give at least {needed}",
            size,
        )


def _train_bpe(
    library: Any, folding: Any, words: Weighted, size: int, special: tuple[str, ...]
) -> Any:
    bytes_as_text = sorted(library.pre_tokenizers.ByteLevel.alphabet())
    _check_room(size, len(special) + len(bytes_as_text), "special tokens and bytes")
    cut = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.Split(library.Regex(WORDS_WITH_THEIR_SPACE), "isolated"),
            library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    spaced = [
        (word if _WRITTEN_WITHOUT_SPACES.match(word) else f" {word}", count)
        for word, count in words
    ]
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=bytes_as_text,
        show_progress=False,
    )
    tokenizer = _trained(library, library.models.BPE(), trainer, _pieces(spaced, cut))
    # The first word of a text has no space before it; it is given one, and decoding takes it back.
    prepend = library.normalizers.Prepend(" ")
    tokenizer.normalizer = library.normalizers.Sequence([folding, prepend])
    tokenizer.pre_tokenizer = cut
    tokenizer.decoder = library.decoders.Sequence(
        [library.decoders.ByteLevel(), library.decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def _train_wordpiece(
    library: Any, folding: Any, words: Weighted, size: int, special: tuple[str, ...]
) -> Any:
    pieces = _pieces(words, library.pre_tokenizers.WhitespaceSplit())
    printable = folding.normalize_str("".join(map(chr, range(ord("!"), ord("~") + 1))))
    alphabet = sorted(set(printable).union(*pieces))
    spelled = [*special, *alphabet, *(f"{CONTINUED}{character}" for character in alphabet)]
    _check_room(size, len(spelled), "special tokens and characters")
    # Left to itself the library numbers the ## characters in the random order of a hash table, and
    # numbers decide between equally frequent pairs. Named in advance, they are always the same.
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=spelled, show_progress=False
    )
    unknown = _unknown(special)
    trained = _trained(library, library.models.WordPiece(unk_token=unknown), trainer, pieces)
    tokenizer = library.Tokenizer(
        library.models.WordPiece(
            vocab=trained.get_vocab(),
            unk_token=unknown,
            # Beyond this the library gives up and says [UNK], also for released words.
            max_input_chars_per_word=max(BERT_LONGEST_WORD, *map(len, pieces), 0),
            continuing_subword_prefix=CONTINUED,
        )
    )
    tokenizer.normalizer = folding
    tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.WhitespaceSplit(),
            library.pre_tokenizers.Split(library.Regex(_standing_alone(pieces)), "isolated"),
        ]
    )
    tokenizer.decoder = library.decoders.WordPiece(prefix=CONTINUED, cleanup=False)
    return tokenizer


def _standing_alone(pieces: Iterable[str]) -> str:
    """A pattern of the characters that are cut off from what is written beside them.

    BERT cuts off punctuation, symbols and ideographs, and then cannot tell "don't" from "don ' t".
    Those inside released words are left in place, so that every released word can be restored.
    """
    inside = set().union(*(piece for piece in pieces if len(piece) > 1))
    # Python and the library know different versions of Unicode: what is new to one of them may be a
    # symbol to the other, so all that is no letter, mark, number or space is named.
    kept = sorted(c for c in inside if unicodedata.category(c)[0] not in "LMNZ")
    ideographs = "" if any(map(_IDEOGRAPH.match, inside)) else IDEOGRAPHS
    but = "(?![{}])".format("".join(f"\\x{{{ord(c):x}}}" for c in kept)) if kept else ""
    return rf"{but}[\p{{P}}\p{{S}}{ideographs}]"


def _pieces(words: Weighted, cut: Any) -> Counter[str]:
    """What `cut`, a pre-tokenizer, makes of the words, and how heavy each piece is."""
    found: Counter[str] = Counter()
    for word, count in words:
        for piece, _ in cut.pre_tokenize_str(word):
            found[piece] += count
    return found


def _trained(library: Any, model: Any, trainer: Any, pieces: Counter[str]) -> Any:
    tokenizer = library.Tokenizer(model)
    # Pieces hold no whitespace: bytes are written as visible characters, words were cut at it.
    tokenizer.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated(pieces), trainer)
    return tokenizer


def _repeated(pieces: Counter[str]) -> Iterator[str]:
    """Every piece in proportion to its weight and at least once."""
    share = min(1.0, MOST_REPETITIONS / max(1, pieces.total()))
    for piece in sorted(pieces):
        left = max(1, round(pieces[piece] * share))
        while left > 0:
            yield " ".join(repeat(piece, min(left, REPETITIONS_IN_A_LINE)))
            left -= REPETITIONS_IN_A_LINE
