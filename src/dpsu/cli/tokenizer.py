"""`dpsu tokenizer`: from released words to a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpsu.cli.results import putting, writable
from dpsu.cli.streams import to_stderr


@click.command("tokenizer")
@click.argument("words", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write the tokenizer.json for Hugging Face.",
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
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def tokenizer_command(
    words: Path,
    output: Path,
    model: str | None,
    vocab_size: int | None,
    cased: bool | None,
    special_tokens: str | None,
    quiet: bool,
) -> None:
    """Make a tokenizer from WORDS, a file that `dpsu release --output` wrote.

    Noisy counts, if WORDS has them, say how heavy each word is. This spends no privacy budget: it
    reads what is released, never the data.
    """
    from dpsu.vocabulary.training import train_tokenizer, write_tokenizer
    from dpsu.vocabulary.words import read_vocabulary

    given: dict[str, Any] = {
        "model": model,
        "vocab_size": vocab_size,
        "lowercase": None if cased is None else not cased,
        "special_tokens": None if special_tokens is None else special_tokens.split(),
    }
    options = {name: value for name, value in given.items() if value is not None}
    writable([str(words)], {"output": output}, {"output": (".json",)}, quiet=quiet)
    vocabulary = read_vocabulary(words)
    trained = train_tokenizer(vocabulary, **options)
    with putting("the tokenizer", output):
        write_tokenizer(trained, output)
    if not quiet:
        counted = "with" if vocabulary.counted else "without"
        words_of = f"{len(vocabulary):,} words {counted} counts"
        tokens = f"{trained.get_vocab_size():,} tokens"
        folded = ""
        if not cased and any(word != word.lower() for word in vocabulary.words):
            folded = " Capitals were put in lowercase (--cased keeps them)."
        to_stderr(f"{words_of} made {tokens}, written to {str(output)!r}.{folded}")
