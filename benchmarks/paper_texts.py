"""The texts that the papers measured on, from the original files to tables of (user, text).

    python -m benchmarks.paper_texts NAME PATH... --output table.parquet

The papers are Gopi et al. 2020 (ICML, with supplement) and Carvalho et al. 2022 (AAAI). Where they
do not say which file or column they mean, the code that each published decides, and `paper_sets`
tells so. Texts are as in the file, words are made of them later. Only rows are dropped here, each
for what is in that row or in other rows of the same user:

- Without a user, or with ``[deleted]`` or ``[removed]`` for one: "deleted authors".
- With a text that is empty, or nothing but white space and those two markers: "removed posts" and
  "empty posts". A post that holds nothing but a link is empty only after tokenizing; it gives no
  words, but its user may be one more than were published.
- Repeated by the same user, where the paper says so. Gopi et al. "filter out duplicate entries"
  without saying whose. A filter across users would make what one user holds depend on another, so
  that removing a person changes the data of two: the unit of privacy would no longer be a user.

The published code reads CSV with pandas, which takes the cells NA, null, nan and others for
missing. A post of that one word is a post here.

The public tables have the column user too: whose word it is when holders of a word are counted.
Published code counts authors, not documents; see :func:`count_holders`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from benchmarks import paper_sets
from benchmarks.paper_files import Expected
from benchmarks.paper_sets import SCHEMA
from dpsu.cli.progress import shown_progress
from dpsu.cli.streams import to_stderr
from dpsu.errors import DpsuError
from dpsu.runtime.writing import check_writable, write_whole

MARKERS = ("[deleted]", "[removed]")
NOTHING = r"^(?:\s|\[deleted\]|\[removed\])*$"
GOPI = "github.com/heyyjudes/differentially-private-set-union"


@dataclass(frozen=True)
class Loader:
    """How one data set of the papers becomes a table.

    Parameters
    ----------
    side
        Whether the papers protect it, or learn from it.
    expected
        Its name, and the files as they are named at their source.
    described
        Where the papers describe it.
    published
        Its size in the papers.
    read
        From a path to tables of raw rows: user and text, or one column of texts.
    own_user
        Every text is a user of its own, named by its place in the files.
    within_user_once
        A text that a user repeats is kept once.
    """

    side: Literal["private", "public"]
    expected: Expected
    described: str
    published: str
    read: Callable[[Path, Expected], Iterator[pa.Table]]
    own_user: bool = False
    within_user_once: bool = False

    @property
    def name(self) -> str:
        """What the data set is called here and in the papers."""
        return self.expected.name

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files at their source; any one of them will do."""
        return self.expected.files

    def tables(
        self, paths: Sequence[Path], told: Callable[[int], object] | None = None
    ) -> Iterator[pa.Table]:
        """Rows of (user, text) after the filters, in the order of the files, in pieces.

        Parameters
        ----------
        paths
            One file, or several of the same kind, such as one a month.
        told
            Is called with the number of rows read so far.

        Yields
        ------
        pyarrow.Table
            Columns user and text. Where repeated texts are filtered it is one table: the texts are
            held in Arrow's memory until the end.
        """
        kept = (with_text(table) for table in self._rows(paths, told))
        if self.within_user_once:
            yield once_per_user(pa.concat_tables([SCHEMA.empty_table(), *kept]))
        else:
            yield from kept

    def _rows(
        self, paths: Sequence[Path], told: Callable[[int], object] | None
    ) -> Iterator[pa.Table]:
        rows = 0
        for path in paths:
            for table in self.read(path, self.expected):
                after = rows + len(table)
                if self.own_user:
                    # Places are counted before any filter, so no text's name hangs on another.
                    places = pa.array(np.arange(rows, after)).cast(pa.string())
                    yield pa.table([places, table.column(0)], schema=SCHEMA)
                else:
                    yield table.cast(SCHEMA)
                rows = after
                if told is not None:
                    told(rows)


def with_text(table: pa.Table) -> pa.Table:
    """Rows that have a user and say something."""
    nobody = pc.is_in(table["user"], value_set=pa.array(["", *MARKERS, None], pa.string()))
    silent = pc.match_substring_regex(table["text"], NOTHING).fill_null(True)
    return table.filter(pc.invert(pc.or_(nobody, silent)))


def once_per_user(table: pa.Table) -> pa.Table:
    """The first of equal texts of one user; equal texts of different users all stay."""
    placed = table.append_column("place", pa.array(np.arange(len(table))))
    first = placed.group_by(["user", "text"]).aggregate([("place", "min")])
    kept = np.zeros(len(table), np.bool_)
    kept[first["place_min"].to_numpy()] = True
    return table.filter(pa.array(kept))


def count_holders(
    loader: Loader, tables: Iterable[pa.Table], words: Callable[[str], Iterable[str]]
) -> pa.Table:
    """How many users of public texts hold each word, as a prior wants it.

    Parameters
    ----------
    loader
        Where the tables are from. Its users are documents, but artists for songs and mailboxes for
        enron, as in the published code.
    tables
        Pieces of (user, text).
    words
        From a text to its words.

    Returns
    -------
    pyarrow.Table
        Columns item and holders, most widely held first.
    """
    holders: Counter[str] = Counter()
    if loader.own_user:
        for table in tables:
            for text in table["text"].to_pylist():
                holders.update(set(words(text)))
    else:
        users: dict[str, int] = {}
        items: dict[str, int] = {}
        pairs = np.empty(0, np.int64)
        for table in tables:
            found = [
                users.setdefault(row["user"], len(users)) << 32 | items.setdefault(word, len(items))
                for row in table.to_pylist()
                for word in words(row["text"])
            ]
            pairs = np.union1d(pairs, np.array(found, np.int64))
        numbers = np.bincount(pairs & 0xFFFFFFFF, minlength=len(items)).tolist()
        holders.update(dict(zip(items, numbers, strict=True)))
    counted = pa.table(
        {
            "item": pa.array(holders.keys(), pa.string()),
            "holders": pa.array(holders.values(), pa.int64()),
        }
    )
    return counted.sort_by([("holders", "descending"), ("item", "ascending")])


TABLE_2 = "Carvalho et al. 2022, section 5.1 and Table 2"
TABLE_3 = "Carvalho et al. 2022, section 5.1 and Table 3"
_ALL = (
    Loader(
        "private", Expected("reddit", ("clean_askreddit.csv", "clean_askreddit.csv.zip"), GOPI),
        f"Gopi et al. 2020, section 5.1 and supplement F; {TABLE_2}",
        "223,388 users, 373,983 posts, 153,701 words", paper_sets.read_reddit,
    ),
    Loader(
        "private", Expected("reddit-raw", ("askreddit.csv",), "a dump of r/AskReddit"),
        "Gopi et al. 2020, section 5.1", "223,388 users, 373,983 posts after cleaning",
        paper_sets.read_reddit_raw, within_user_once=True,
    ),
    Loader(
        "private",
        Expected("twitter", ("twcs.csv",), "Kaggle thoughtvector/customer-support-on-twitter"),
        TABLE_2, "702,682 users, 2,811,774 tweets, 1,300,123 words", paper_sets.read_twitter,
    ),
    Loader(
        "private",
        Expected(
            "finance", ("analyst_ratings_processed.csv",),
            "Kaggle miguelaenlle/massive-stock-news-analysis-db-for-nlpbacktests",
        ),
        TABLE_2, "1,400,465 users, 1,400,465 headlines, 267,256 words",
        paper_sets.read_finance, own_user=True,
    ),
    Loader(
        "public",
        Expected(
            "imdb", ("IMDB Dataset.csv", "aclImdb"),
            "Kaggle lakshmi25npathi/imdb-dataset-of-50k-movie-reviews, or ai.stanford.edu",
        ),
        TABLE_3, "194,532 words", paper_sets.read_imdb, own_user=True,
    ),
    Loader(
        "public",
        Expected(
            "covid", ("kaggle_covid-19_open_csv_format.csv",),
            "Kaggle fmitchell259/covid19-medical-paperscsv",
        ),
        TABLE_3, "784,699 words", paper_sets.read_covid, own_user=True,
    ),
    Loader(
        "public",
        Expected(
            "songs", ("labeled_lyrics_cleaned.csv",),
            "Kaggle edenbd/150k-lyrics-labeled-with-spotify-valence",
        ),
        TABLE_3, "222,074 words", paper_sets.read_songs,
    ),
    Loader(
        "public",
        Expected(
            "wiki", ("wikipedia_abstracts.parquet", "enwiki-latest-abstract.xml.gz"),
            "wikipedia_abstracts.pkl of Kaggle markwijkhuizen/simplenormal-wikipedia-abstracts-v1, "
            "or dumps.wikimedia.org",
        ),
        TABLE_3, "631,866 words", paper_sets.read_wiki, own_user=True,
    ),
    Loader(
        "public", Expected("enron", ("emails.csv",), "Kaggle wcukierski/enron-email-dataset"),
        TABLE_3, "989,560 words", paper_sets.read_enron,
    ),
)  # fmt: skip
LOADERS: dict[str, Loader] = {loader.name: loader for loader in _ALL}


def write(loader: Loader, paths: Sequence[Path], output: Path) -> int:
    """Write the table as Parquet, whole or not at all, and return its number of rows."""
    check_writable(output, (".parquet",))
    written = 0

    def write_pieces(file: BinaryIO) -> None:
        nonlocal written
        with (
            shown_progress(quiet=False) as show,
            pa.parquet.ParquetWriter(file, SCHEMA) as writer,
        ):
            told = None if show is None else lambda rows: show("reading", rows)
            for table in loader.tables(paths, told):
                writer.write_table(table)
                written += len(table)

    write_whole(output, write_pieces)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert the files of one data set; the exit code."""
    listed = "\n".join(
        f"  {name:<11} {loader.side:<8} {' or '.join(loader.files)}"
        for name, loader in LOADERS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper_texts",
        description=f"Texts of the papers as a table of (user, text).\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", choices=list(LOADERS))
    parser.add_argument("paths", metavar="PATH", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    loader = LOADERS[chosen.name]
    try:
        rows = write(loader, chosen.paths, chosen.output)
    except DpsuError as error:
        to_stderr(f"error: {error}")
        return 2
    to_stderr(f"{chosen.output}: {rows:,} texts. Published: {loader.published}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
