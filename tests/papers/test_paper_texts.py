"""Original files of the papers, in small, become exactly the tables that the papers describe."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from benchmarks import paper_files
from benchmarks.paper_texts import LOADERS, count_holders

from dpsu.inputs.public import read_prior
from tests.support.paper_files import REDDIT, REDDIT_ROWS, Rows, as_csv, load, zipped


def in_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Make what spans blocks and pieces of gigabytes happen in files of a few lines."""
    monkeypatch.setattr(paper_files, "BLOCK", size)
    monkeypatch.setattr(paper_files, "PIECE", 2)


def test_reddit_as_published_however_it_is_packed(tmp_path: Path) -> None:
    header, rows = ["author", "clean_text"], [[user, text] for user, text in REDDIT_ROWS]
    plain = as_csv(header, rows)
    beside = {"data/": b"", "data/renamed.csv": REDDIT, "__MACOSX/data/._renamed.csv": b"\0"}
    for file, content in (
        ("clean_askreddit.csv", REDDIT),
        ("clean_askreddit.csv", b"\xef\xbb\xbf" + plain),
        ("clean_askreddit.csv", plain),
        ("clean_askreddit.csv", as_csv(header, rows, csv.QUOTE_ALL)),
        ("clean_askreddit.csv.gz", gzip.compress(REDDIT)),
        ("clean_askreddit.csv.zip", zipped({"clean_askreddit.csv": REDDIT})),
        ("clean_askreddit.csv.zip", zipped(beside)),
        ("archive.zip", zipped({"other.csv": b"a,b\n", "data/clean_askreddit.csv": REDDIT})),
    ):
        (tmp_path / file).write_bytes(content)
        assert load("reddit", tmp_path / file) == REDDIT_ROWS, (file, content)


RAW = [
    ["ann", "t1", "First.", "2017-01"],
    ["bob", "t2", "First.", "2017-01"],
    ["ann", "t3", "First.", "2017-02"],
    ["[deleted]", "t4", "Gone author", "2017-02"],
    ["bob", "t5", "[removed]", "2017-02"],
    ["bob", "t6", "[deleted]\n\n [removed]", "2017-02"],
    ["bob", "t7", "Why was this [removed] today?", "2017-02"],
    ["", "t8", "No author", "2017-02"],
    ["cid", "t9", "", "2017-02"],
    ["bob", "ta", "first.", "2017-02"],
    ["bob", "tb", "First.", "2017-03"],
]
RAW_ROWS = [
    ("ann", "First."),
    ("bob", "First."),
    ("bob", "Why was this [removed] today?"),
    ("bob", "first."),
]


def test_reddit_raw_drops_what_the_paper_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (90, 1 << 20):
        in_small_blocks(monkeypatch, block)
        header = ["author", "id", "body", "created_utc"]
        (tmp_path / "askreddit.csv").write_bytes(as_csv(header, RAW))
        assert load("reddit-raw", tmp_path / "askreddit.csv") == RAW_ROWS, block
        # Repetitions in another month's file are repetitions too.
        for month, rows in (("1", RAW[:2]), ("2", RAW[2:])):
            (tmp_path / f"{month}.csv").write_bytes(as_csv(header, rows))
        assert load("reddit-raw", tmp_path / "1.csv", tmp_path / "2.csv") == RAW_ROWS, block


def test_no_row_of_a_user_depends_on_another_user(tmp_path: Path) -> None:
    """The unit of privacy: without a user, the others have exactly what they had."""
    headers = {
        "reddit-raw": ["author", "body"],
        "reddit": ["author", "clean_text"],
        "twitter": ["author_id", "text"],
    }

    def given(name: str, gone: str | None = None) -> Rows:
        rows = [[row[0], row[2]] for row in RAW if row[0] != gone]
        (tmp_path / "file.csv").write_bytes(as_csv(headers[name], rows))
        return load(name, tmp_path / "file.csv")

    for name in headers:
        everybody = given(name)
        for gone in ("ann", "bob", "cid"):
            left = [row for row in everybody if row[0] != gone]
            assert given(name, gone) == left, (name, gone)


LONG = "virus\n" * 500_000
TWEET = "@115712 Please send a Private Message,\nso we can help 😀"
HEAD = "Message-ID: <1.JavaMail.evans@thyme>\nFrom: a@enron.com\nSubject: Re:\n\ta folded line\n"
MIXED = 'Content-Type: multipart/mixed; boundary="x"\n\n--x\n\npart\n--x--\n'
SONGS = [
    ["Elijah Blake", "No, no\r\nI never", "Everyday"], ["Elijah Blake", "I never ever", "Live"],
    ["NA", "ever", "The Otherside"], ["", "nobody sings", "Untitled"],
]  # fmt: skip
# Columns and rows of a file, and what is read of it: some columns are not looked at.
FILES: dict[str, tuple[str, list[list[str]], Rows]] = {
    # Companies, customers and repetitions.
    "twitter": (
        "tweet_id author_id inbound text",
        [
            ["1", "sprintcare", "False", TWEET], ["2", "115712", "True", "@sprintcare I did."],
            ["3", "115712", "True", "@sprintcare I did."], ["4", "007", "True", "https://t.co/x"],
            ["5", "7", "True", ""],
        ],
        [
            ("sprintcare", TWEET), ("115712", "@sprintcare I did."),
            ("115712", "@sprintcare I did."), ("007", "https://t.co/x"),
        ],
    ),
    # Bodies, however long.
    "covid": (
        "doc_id title abstract text_body",
        [["", "", "", ""], ["d1", "T", "A", "Body, with\n\nparagraphs"], ["d2", "T", "A", ""],
         ["d3", "T", "", LONG]],
        [("1", "Body, with\n\nparagraphs"), ("3", LONG)],
    ),
    "songs": ("artist seq song", SONGS, [(row[0], row[1]) for row in SONGS[:3]]),
    # Bodies by mailbox.
    "enron": (
        "file message",
        [
            ["allen-p/_sent_mail/1.", f"{HEAD}\nHere is our forecast\n\n =20"],
            ["allen-p/_sent_mail/2.", f"{HEAD}\n"], ["bass-e/inbox/3.", ""],
            ["bass-e/inbox/sub/1.", f"{HEAD}\nSubject: not a header\n"], ["bass-e/inbox/2.", MIXED],
        ],
        [
            ("allen-p", "Here is our forecast\n\n =20"), ("bass-e", "Subject: not a header\n"),
            ("bass-e", "--x\n\npart\n--x--\n"),
        ],
    ),
}  # fmt: skip


def written(name: str, folder: Path) -> Path:
    header, rows, _ = FILES[name]
    path = folder / LOADERS[name].files[0]
    path.write_bytes(as_csv(header.split(), rows))
    return path


def test_texts_are_of_those_whom_the_papers_take_for_users(tmp_path: Path) -> None:
    for name, (_, _, expected) in FILES.items():
        assert load(name, written(name, tmp_path)) == expected, name


def test_every_headline_is_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    high = "Stocks That Hit 52-Week Highs On Friday"
    rows = [
        ["0.0", high, "2020-06-05 10:30:00-04:00", "A"],
        ["1.0", high, "2020-06-05 10:30:00-04:00", "AA"],
        ["2.0", "", "2020-06-05 10:30:00-04:00", "A"],
        ["3.0", "Color on a Company", "", ""],
        ["", "2011-07-20 06:43:00-04:00", "AAN", ""],
    ]
    titles = [("0", high), ("1", high), ("3", rows[3][1]), ("4", rows[4][1]), ("5", high)]
    files = [tmp_path / "analyst_ratings_processed.csv", tmp_path / "more.csv"]
    for file, held in zip(files, (rows, rows[:1]), strict=True):
        file.write_bytes(as_csv(["", "title", "date", "stock"], held))
    for block in (90, 1 << 20):
        in_small_blocks(monkeypatch, block)
        assert load("finance", *files) == titles, block


def test_imdb_from_csv_and_from_the_folder_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_blocks(monkeypatch, 1 << 20)
    reviews = ["Fine.<br /><br />Really", 'A "classic", they say', "Café noir", "No."]
    labels = ["positive", "negative", "positive", "negative"]
    rows = [list(row) for row in zip(reviews, labels, strict=True)]
    (tmp_path / "IMDB Dataset.csv").write_bytes(as_csv(["review", "sentiment"], rows))
    for place, text in zip(paper_files.LABELED, reviews, strict=True):
        (tmp_path / "aclImdb" / place).mkdir(parents=True)
        (tmp_path / "aclImdb" / place / "0_9.txt").write_bytes(text.encode())
    (tmp_path / "aclImdb/train/unsup").mkdir()
    (tmp_path / "aclImdb/train/unsup/0_0.txt").write_text("unlabeled")
    (tmp_path / "aclImdb/train/urls_pos.txt").write_text("http://example.org")
    expected = [(str(place), text) for place, text in enumerate(reviews)]
    assert load("imdb", tmp_path / "IMDB Dataset.csv") == expected
    assert load("imdb", tmp_path / "aclImdb") == expected


def test_wiki_from_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, 1 << 20)
    docs = [
        "<title>Wikipedia: April</title>\n<abstract>April &amp; May are months.</abstract>"
        '<links><sublink linktype="nav"><anchor>History</anchor></sublink></links>',
        "<title>Wikipedia: Nothing</title>\n<abstract />",
        "<title>Wikipedia: None</title>",
        "<title>Wikipedia: Zürich</title>\n<abstract>Zürich is a city.</abstract>",
    ]
    xml = "<feed>\n" + "".join(f"<doc>\n{doc}\n</doc>\n" for doc in docs) + "</feed>\n"
    expected = [("0", "April & May are months."), ("3", "Zürich is a city.")]
    for suffix, content in (("", xml.encode()), (".gz", gzip.compress(xml.encode()))):
        path = tmp_path / f"enwiki-latest-abstract.xml{suffix}"
        path.write_bytes(content)
        assert load("wiki", path) == expected, suffix


def test_holders_are_artists_not_songs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader, expected = LOADERS["songs"], {"ever": 2, "I": 1, "No,": 1, "never": 1, "no": 1}
    for block in (110, 1 << 20):
        in_small_blocks(monkeypatch, block)
        counted = count_holders(loader, loader.tables([written("songs", tmp_path)]), str.split)
        found = list(zip(*counted.to_pydict().values(), strict=True))
        assert found == list(expected.items()), block
        prior = read_prior(counted)
        assert prior.items.to_pylist() == list(expected), block
        assert prior.numbers.tolist() == list(expected.values()), block
