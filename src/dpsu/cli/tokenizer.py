"""`dpsu tokenizer`: from released words to tokenizers and word lists."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.results import putting, writable
from dpsu.cli.streams import to_stderr
from dpsu.errors import DataWarning

if TYPE_CHECKING:
    from dpsu.vocabulary.words import Vocabulary

SUFFIXES = {"tokenizer": ".json", "fasttext": ".txt", "gensim": ".txt", "spacy": ".jsonl"}


@click.command("tokenizer")
@click.argument("words", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write; .json for a tokenizer, .txt for fastText and gensim, .jsonl for spaCy.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(list(SUFFIXES)),
    default="tokenizer",
    show_default=True,
    help="A tokenizer.json for Hugging Face, a list of words for fastText, a dictionary for "
    "gensim, or lexemes for spaCy.",
)
@click.option(
    "--model",
    type=click.Choice(["bpe", "wordpiece"]),
    help="Byte-level BPE (default), or WordPiece as BERT's.",
)
@click.option("--vocab-size", type=int, help="Make at most this many tokens. Default 30000.")
@click.option(
    "--cased", is_flag=True, default=None, help="Keep capitals; otherwise text is put in lowercase."
)
@click.option(
    "--special-tokens",
    metavar="'TOKEN ...'",
    help="Tokens with the first ids. Default: those of RoBERTa (bpe) or BERT (wordpiece).",
)
@click.option(
    "--documents",
    type=int,
    help="Number of users for gensim, if public. Default: the largest noisy count.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def tokenizer_command(
    words: Path,
    output: Path,
    kind: str,
    model: str | None,
    vocab_size: int | None,
    cased: bool | None,
    special_tokens: str | None,
    documents: int | None,
    quiet: bool,
) -> None:
    """Make a tokenizer or a word list from WORDS, a file that `dpsu release --output` wrote.

    Noisy counts, if WORDS has them, say how heavy each word is. This spends no privacy budget: it
    reads what is released, never the data.
    """
    given = {
        "model": model,
        "vocab_size": vocab_size,
        "lowercase": None if cased is None else not cased,
        "special_tokens": None if special_tokens is None else special_tokens.split(),
    }
    training = {name: value for name, value in given.items() if value is not None}
    _refuse_what_does_not_fit(kind, training, documents)
    writable([str(words)], {"output": output}, {"output": (SUFFIXES[kind],)}, quiet=quiet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        said = _write(words, output, kind, training, documents)
    if not quiet:
        for warning in caught:
            to_stderr(f"warning: {warning.message}")
        to_stderr(said)


def _refuse_what_does_not_fit(kind: str, training: dict[str, Any], documents: int | None) -> None:
    if kind != "tokenizer" and training:
        typed = {"lowercase": "cased"}
        names = ", ".join(f"--{typed.get(name, name).replace('_', '-')}" for name in training)
        raise click.UsageError(f"{names}: only for --as tokenizer, and this is --as {kind}")
    if kind != "gensim" and documents is not None:
        raise click.UsageError(f"--documents: only for --as gensim, and this is --as {kind}")


def _write(
    words: Path, output: Path, kind: str, training: dict[str, Any], documents: int | None
) -> str:
    from dpsu.vocabulary import lexicons
    from dpsu.vocabulary.words import read_vocabulary

    vocabulary = read_vocabulary(words)
    if kind == "tokenizer":
        return _write_tokenizer(vocabulary, output, training)
    with putting("the words", output):
        if kind == "gensim":
            lexicons.write_gensim(vocabulary, output, documents=documents)
        else:
            write = {"fasttext": lexicons.write_fasttext, "spacy": lexicons.write_spacy}[kind]
            write(vocabulary, output)
    return f"{_described(vocabulary)} written to {str(output)!r} for {kind}."


def _write_tokenizer(vocabulary: Vocabulary, output: Path, training: dict[str, Any]) -> str:
    from dpsu.vocabulary.training import train_tokenizer, write_tokenizer

    trained = train_tokenizer(vocabulary, **training)
    with putting("the tokenizer", output):
        write_tokenizer(trained, output)
    folded = ""
    if training.get("lowercase", True) and any(word != word.lower() for word in vocabulary.words):
        folded = " Capitals were put in lowercase (--cased keeps them)."
    tokens = f"{trained.get_vocab_size():,} tokens"
    return f"{_described(vocabulary)} made {tokens}, written to {str(output)!r}.{folded}"


def _described(vocabulary: Vocabulary) -> str:
    return f"{len(vocabulary):,} words {'with' if vocabulary.counted else 'without'} counts"
