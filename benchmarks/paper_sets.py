"""What each data set of the papers is: which file, which columns, and what was published about it.

Each function reads one file to raw rows, in pieces: user and text, or one column of texts where
every text is a user of its own. No row is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import paper_files
from benchmarks.paper_files import Expected
from dpsu.errors import ParameterError

SCHEMA = pa.schema([("user", pa.string()), ("text", pa.string())])


def read_reddit(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """AskReddit as Gopi et al. published it: the columns author and clean_text.

    Notes
    -----
    Published: 223,388 users and 373,983 posts (both papers), 153,701 words (Carvalho et al.,
    Table 2); 93.13 % of users hold at most 100 words (Gopi et al., supplement, Table 1).

    The texts are tokenized already, with one space between words: split them at spaces, do not
    tokenize them again. Repeated posts were filtered before the file was published, and are not
    filtered again: posts that became equal by cleaning count where a mechanism looks at how often a
    user says a word.
    """
    return _user_and_text(path, ("author", "clean_text"), expected)


def read_reddit_raw(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """AskReddit before cleaning: the columns author and body of a dump of Reddit, as CSV.

    Notes
    -----
    The paper takes "a sample of 15,000 posts from each month between January 2017 and December
    2018", which is 360,000, and ends with 373,983 after filters: both cannot be. The sample was not
    published, so whatever is in the files is taken for it. A post may be a question or a comment;
    dumps call the text of a comment body. Posts that a user repeats are dropped, within that user.
    """
    return _user_and_text(path, ("author", "body"), expected)


def read_twitter(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Customer support on Twitter: the columns author_id and text of twcs.csv.

    Notes
    -----
    Published: 702,682 users, 2,811,774 observations, 1,300,123 words (Carvalho et al., Table 2).
    The file has as many rows as that, so no repeated tweet was dropped, and companies, which write
    by the thousand, are users beside their customers. Neither column inbound nor threads are used.
    """
    return _user_and_text(path, ("author_id", "text"), expected)


def read_finance(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Headlines for stocks: the column title of analyst_ratings_processed.csv.

    Notes
    -----
    Published: 1,400,465 users, 1,400,465 observations, 267,256 words (Carvalho et al., Table 2).
    No column is the user: as many users as headlines means that every row is one, and the code
    numbers them. Neither stock nor a publisher is protected, and a headline that was printed for
    several stocks is several users. The file has 1,400,469 rows. In some the title is a date, where
    a line break cut a row in two; they are kept, as the code keeps them.
    """
    return paper_files.csv_tables(path, ("title",), expected)


def read_imdb(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """IMDB reviews: the column review of the CSV file, or the labeled texts of a folder aclImdb.

    Notes
    -----
    Published: 194,532 words (Carvalho et al., Table 3). The code reads the CSV file of 50,000
    reviews; the folder holds the same ones, and 50,000 in unsup, which are not read.
    """
    if path.is_dir():
        return _one_column(paper_files.labeled_reviews(path, expected))
    return paper_files.csv_tables(path, ("review",), expected)


def read_covid(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Medical papers about Covid-19: the column text_body. Titles and abstracts are not used.

    Notes
    -----
    Published: 784,699 words (Carvalho et al., Table 3). Rows without a body are dropped.
    """
    return paper_files.csv_tables(path, ("text_body",), expected)


def read_songs(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Lyrics of English songs: the columns artist and seq, where seq is the lyrics.

    Notes
    -----
    Published: 222,074 words (Carvalho et al., Table 3). The code counts artists that sing a word,
    not songs that hold it; the paper says neither.
    """
    return _user_and_text(path, ("artist", "seq"), expected)


def read_wiki(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Wikipedia abstracts: the column abstract_original, or the abstracts of an XML dump.

    Notes
    -----
    Published: 631,866 words (Carvalho et al., Table 3). The code reads one column of a data set of
    simple and normal abstracts, from a pickle. A pickle runs whatever code is in it and cannot be
    read in pieces, so it must be converted by somebody who trusts it. The XML dump (elements doc
    with an abstract) is all of Wikipedia, and not what was published.
    """
    paper_files.check_file(path, expected)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".pkl"]:
        raise ParameterError(
            f"{str(path)!r} is a pickle, which may run any code when it is read; {expected}; if "
            "you trust it, convert it: python -c \"import pandas; pandas.read_pickle('"
            f"{path.name}')[['abstract_original']].to_parquet('wikipedia_abstracts.parquet')\""
        )
    if ".xml" in suffixes[-2:]:
        return _one_column(paper_files.xml_texts(path, "doc", "abstract", expected))
    return _one_column(paper_files.parquet_texts(path, "abstract_original", expected))


def read_enron(path: Path, expected: Expected) -> Iterator[pa.Table]:
    """Enron mails: the columns file and message; the text is what follows a message's headers.

    Notes
    -----
    Published: 989,560 words (Carvalho et al., Table 3). The code takes the first folder of file for
    the author, so a mailbox holds what its owner got as well as what they wrote, and no word has
    more holders than there are mailboxes. Bodies are not decoded ("=20" stays), as in the code.
    """
    parser = HeaderParser()
    for table in paper_files.csv_tables(path, ("file", "message"), expected):
        owners = pc.list_element(pc.split_pattern(table["file"], "/", max_splits=1), 0)
        bodies = (
            None if message is None else parser.parsestr(message).get_payload()
            for message in table["message"].to_pylist()
        )
        yield pa.table({"user": owners, "text": pa.array(bodies, pa.string())})


def _user_and_text(path: Path, columns: tuple[str, str], expected: Expected) -> Iterator[pa.Table]:
    tables = paper_files.csv_tables(path, columns, expected)
    return (table.rename_columns(SCHEMA.names) for table in tables)


def _one_column(texts: Iterator[pa.Array]) -> Iterator[pa.Table]:
    return (pa.table({"text": array}) for array in texts)
