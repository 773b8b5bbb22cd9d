"""Original files of the papers, in small, become exactly the tables that the papers describe."""

from __future__ import annotations

import csv
import gzip
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import paper_files
from benchmarks.paper_texts import LOADERS, count_holders

import dpsu
from dpsu.inputs.public import read_prior
from tests.support.paper_files import REDDIT, REDDIT_ROWS, Rows, as_csv, load, zipped


def in_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Make what spans blocks and pieces of gigabytes happen in files of a few lines."""
    monkeypatch.setattr(paper_files, "BLOCK", size)
    monkeypatch.setattr(paper_files, "PIECE", 2)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("clean_askreddit.csv", REDDIT),
        ("clean_askreddit.csv", b"\xef\xbb\xbf" + as_csv(["author", "clean_text"], [[u, t] for u, t in REDDIT_ROWS])),
        ("clean_askreddit.csv", as_csv(["author", "clean_text"], [[u, t] for u, t in REDDIT_ROWS])),
        ("clean_askreddit.csv", as_csv(["author", "clean_text"], [[u, t] for u, t in REDDIT_ROWS], csv.QUOTE_ALL)),
        ("clean_askreddit.csv.gz", gzip.compress(REDDIT)),
        ("clean_askreddit.csv.zip", zipped({"clean_askreddit.csv": REDDIT})),
        ("clean_askreddit.csv.zip", zipped({"data/": b"", "data/renamed.csv": REDDIT, "__MACOSX/data/._renamed.csv": b"\0"})),
        ("archive.zip", zipped({"other.csv": b"a,b\n", "data/clean_askreddit.csv": REDDIT})),
    ],
)  # fmt: skip
def test_reddit_as_published_however_it_is_packed(
    file: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(content)
    assert load("reddit", tmp_path / file) == REDDIT_ROWS


@pytest.mark.parametrize("block", [100, 101, 103, 107, 113])
def test_line_breaks_in_texts_wherever_a_block_ends(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_blocks(monkeypatch, block)
    rows = [(f"user {n}", f'one, {n}\n\nnobody,{n}\n"end"') for n in range(50)]
    path = tmp_path / "clean_askreddit.csv"
    path.write_bytes(as_csv(["author", "clean_text"], [list(row) for row in rows]))
    assert len(list(LOADERS["reddit"].tables([path]))) > 10
    assert load("reddit", path) == rows


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


@pytest.mark.parametrize("block", [90, 1 << 20])
def test_reddit_raw_drops_what_the_paper_drops(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_blocks(monkeypatch, block)
    header = ["author", "id", "body", "created_utc"]
    (tmp_path / "askreddit.csv").write_bytes(as_csv(header, RAW))
    assert load("reddit-raw", tmp_path / "askreddit.csv") == RAW_ROWS
    # Repetitions in another month's file are repetitions too.
    for month, rows in (("1", RAW[:2]), ("2", RAW[2:])):
        (tmp_path / f"{month}.csv").write_bytes(as_csv(header, rows))
    assert load("reddit-raw", tmp_path / "1.csv", tmp_path / "2.csv") == RAW_ROWS


@pytest.mark.parametrize("name", ["reddit-raw", "reddit", "twitter"])
def test_no_row_of_a_user_depends_on_another_user(name: str, tmp_path: Path) -> None:
    """The unit of privacy: without a user, the others have exactly what they had."""
    header = {
        "reddit-raw": ["author", "body"],
        "reddit": ["author", "clean_text"],
        "twitter": ["author_id", "text"],
    }[name]
    rows = [[row[0], row[2]] for row in RAW]

    def given(rows: list[list[str]]) -> Rows:
        (tmp_path / "file.csv").write_bytes(as_csv(header, rows))
        return load(name, tmp_path / "file.csv")

    everybody = given(rows)
    for gone in ("ann", "bob", "cid"):
        others = given([row for row in rows if row[0] != gone])
        assert others == [row for row in everybody if row[0] != gone]


TWITTER = ["tweet_id", "author_id", "inbound", "created_at", "text", "response_tweet_id", "in_response_to_tweet_id"]  # fmt: skip


def test_twitter_keeps_companies_customers_and_repetitions(tmp_path: Path) -> None:
    day = "Tue Oct 31 22:10:47 +0000 2017"
    rows = [
        [1, "sprintcare", "False", day, "@115712 Please send a Private Message,\nso we can help 😀", "2", "3"],
        [2, "115712", "True", day, "@sprintcare I did.", "", "1"],
        [3, "115712", "True", day, "@sprintcare I did.", "1", "4"],
        [4, "007", "True", day, "https://t.co/x", "1", "4"],
        [5, "7", "True", day, "", "1", "4"],
    ]  # fmt: skip
    (tmp_path / "twcs.csv").write_bytes(as_csv(TWITTER, rows))
    assert load("twitter", tmp_path / "twcs.csv") == [
        ("sprintcare", "@115712 Please send a Private Message,\nso we can help 😀"),
        ("115712", "@sprintcare I did."),
        ("115712", "@sprintcare I did."),
        ("007", "https://t.co/x"),
    ]


@pytest.mark.parametrize("block", [90, 1 << 20])
def test_every_headline_is_a_user(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_blocks(monkeypatch, block)
    rows = [
        ["0.0", "Stocks That Hit 52-Week Highs On Friday", "2020-06-05 10:30:00-04:00", "A"],
        ["1.0", "Stocks That Hit 52-Week Highs On Friday", "2020-06-05 10:30:00-04:00", "AA"],
        ["2.0", "", "2020-06-05 10:30:00-04:00", "A"],
        ["3.0", "Color on a Company", "", ""],
        ["", "2011-07-20 06:43:00-04:00", "AAN", ""],
    ]
    header = ["", "title", "date", "stock"]
    (tmp_path / "analyst_ratings_processed.csv").write_bytes(as_csv(header, rows))
    (tmp_path / "more.csv").write_bytes(as_csv(header, rows[:1]))
    assert load("finance", tmp_path / "analyst_ratings_processed.csv", tmp_path / "more.csv") == [
        ("0", "Stocks That Hit 52-Week Highs On Friday"),
        ("1", "Stocks That Hit 52-Week Highs On Friday"),
        ("3", "Color on a Company"),
        ("4", "2011-07-20 06:43:00-04:00"),
        ("5", "Stocks That Hit 52-Week Highs On Friday"),
    ]


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


def test_covid_is_bodies_however_long(tmp_path: Path) -> None:
    long = "virus\n" * 500_000
    rows = [
        [0, "", "", "", "", ""],
        [1, "d1", "BIORXIV", "Title", "Abstract", "Body, with\n\nparagraphs"],
        [2, "d2", "BIORXIV", "Title", "Abstract", ""],
        [3, "d3", "BIORXIV", "Title", "", long],
    ]
    header = ["", "doc_id", "source", "title", "abstract", "text_body"]
    (tmp_path / "covid.csv").write_bytes(as_csv(header, rows))
    assert load("covid", tmp_path / "covid.csv") == [("1", "Body, with\n\nparagraphs"), ("3", long)]


def songs(folder: Path) -> Path:
    rows = [
        [0, "Elijah Blake", "No, no\r\nI never", "Everyday", "0.626"],
        [1, "Elijah Blake", "I never ever", "Live Till We Die", "0.63"],
        [2, "NA", "ever", "The Otherside", "0.24"],
        [3, "", "nobody sings", "Untitled", "0.5"],
    ]
    path = folder / "labeled_lyrics_cleaned.csv"
    path.write_bytes(as_csv(["", "artist", "seq", "song", "label"], rows))
    return path


def test_songs_belong_to_artists(tmp_path: Path) -> None:
    assert load("songs", songs(tmp_path)) == [
        ("Elijah Blake", "No, no\r\nI never"),
        ("Elijah Blake", "I never ever"),
        ("NA", "ever"),
    ]


def test_wiki_from_a_converted_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, 1 << 20)
    abstracts = ["April is a month.", None, "", "Zürich\nis a city.", "Air is a gas."]
    frame = pd.DataFrame({"title": list("abcde"), "abstract_original": abstracts})
    frame.to_pickle(tmp_path / "wikipedia_abstracts.pkl")
    with pytest.raises(dpsu.ParameterError, match="convert it") as error:
        load("wiki", tmp_path / "wikipedia_abstracts.pkl")
    # The fix that the error names is the fix.
    command = str(error.value).split('python -c "')[1].removesuffix('"')
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, check=True, timeout=120)
    assert load("wiki", tmp_path / "wikipedia_abstracts.parquet") == [
        ("0", "April is a month."),
        ("3", "Zürich\nis a city."),
        ("4", "Air is a gas."),
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_wiki_from_the_dump(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, 1 << 20)
    docs = [
        "<title>Wikipedia: April</title>\n<abstract>April &amp; May are months.</abstract>"
        '<links><sublink linktype="nav"><anchor>History</anchor></sublink></links>',
        "<title>Wikipedia: Nothing</title>\n<abstract />",
        "<title>Wikipedia: None</title>",
        "<title>Wikipedia: Zürich</title>\n<abstract>Zürich is a city.</abstract>",
    ]
    xml = "<feed>\n" + "".join(f"<doc>\n{doc}\n</doc>\n" for doc in docs) + "</feed>\n"
    path = tmp_path / ("enwiki-latest-abstract.xml" + ".gz" * packed)
    path.write_bytes(gzip.compress(xml.encode()) if packed else xml.encode())
    assert load("wiki", path) == [("0", "April & May are months."), ("3", "Zürich is a city.")]


def test_enron_is_bodies_by_mailbox(tmp_path: Path) -> None:
    head = (
        "Message-ID: <1.JavaMail.evans@thyme>\nFrom: a@enron.com\nSubject: Re:\n\ta folded line\n"
    )
    mixed = 'Content-Type: multipart/mixed; boundary="x"\n\n--x\n\npart\n--x--\n'
    rows = [
        ["allen-p/_sent_mail/1.", head + "\nHere is our forecast\n\n =20"],
        ["allen-p/_sent_mail/2.", head + "\n"],
        ["bass-e/inbox/sub/1.", head + "\nSubject: not a header\n"],
        ["bass-e/inbox/2.", mixed],
        ["bass-e/inbox/3.", ""],
    ]
    (tmp_path / "emails.csv").write_bytes(as_csv(["file", "message"], rows, csv.QUOTE_ALL))
    assert load("enron", tmp_path / "emails.csv") == [
        ("allen-p", "Here is our forecast\n\n =20"),
        ("bass-e", "Subject: not a header\n"),
        ("bass-e", "--x\n\npart\n--x--\n"),
    ]


@pytest.mark.parametrize("block", [110, 1 << 20])
def test_holders_are_artists_not_songs(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_blocks(monkeypatch, block)
    loader = LOADERS["songs"]
    counted = count_holders(loader, loader.tables([songs(tmp_path)]), str.split)
    expected = {"ever": 2, "I": 1, "No,": 1, "never": 1, "no": 1}
    assert list(zip(*counted.to_pydict().values(), strict=True)) == list(expected.items())
    prior = read_prior(counted)
    assert prior.items.to_pylist() == list(expected)
    assert prior.numbers.tolist() == list(expected.values())


def test_holders_are_documents_where_each_is_its_own(tmp_path: Path) -> None:
    rows = [["a a b", "positive"], ["a", "negative"], ["", "negative"], ["b a", "negative"]]
    (tmp_path / "IMDB Dataset.csv").write_bytes(as_csv(["review", "sentiment"], rows))
    loader = LOADERS["imdb"]
    counted = count_holders(loader, loader.tables([tmp_path / "IMDB Dataset.csv"]), str.split)
    assert counted.to_pydict() == {"item": ["a", "b"], "holders": [3, 2]}


def test_the_registry_names_every_data_set_of_the_papers() -> None:
    private = ("reddit", "reddit-raw", "twitter", "finance")
    public = ("imdb", "covid", "songs", "wiki", "enron")
    sides = {name: loader.side for name, loader in LOADERS.items()}
    assert sides == dict.fromkeys(private, "private") | dict.fromkeys(public, "public")
    assert [loader.name for loader in LOADERS.values()] == list(LOADERS)


@pytest.mark.parametrize("name", [name for name in LOADERS if name != "reddit-raw"])
def test_registry_and_documentation_tell_the_same_numbers(name: str) -> None:
    numbers = re.findall(r"[\d,]+(?= \w)", LOADERS[name].published)
    assert numbers
    documented = LOADERS[name].read.__doc__ or ""
    assert [number for number in numbers if number not in documented] == []
