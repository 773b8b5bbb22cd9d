"""From texts to items: segmentation, tokenizers, n-grams, and texts that try to break them."""

from __future__ import annotations

import json
import random
import threading
import unicodedata
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import unicode_table

import dpsu
from dpsu.inputs import files
from dpsu.inputs.columns import DEFAULT_USER
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.text import grams as grams_module
from dpsu.text import pieces as pieces_module
from dpsu.text.spec import LONGEST_ITEM, parse_lengths
from dpsu.text.tokenizing import tokenize_by
from tests.support import flat, segments
from tests.support.segments import IS_WORD

KEY = Key.from_insecure_seed(1)
EDGES = regex.compile(r"(?w)\b")


def tokens(text: str, tokenizer: Any = None) -> list[str]:
    found = tokenize_by(tokenizer)(pa.array([text], pa.large_string()))
    return [
        bytes(found.data[begin : begin + length]).decode()
        for begin, length in zip(found.begins, found.lengths, strict=True)
        if length >= 0
    ]


def held(
    data: Any, tokenizer: Any = None, ngrams: Any = None, **options: Any
) -> dict[Any, dict[str, int]]:
    """Items and local counts of every user, through reading and interning."""
    user, item = (
        dpsu.Users(options.pop("user", DEFAULT_USER)),
        dpsu.Tokens("text", tokenizer, ngrams),
    )
    pairs = Source(data, user, item, **options).pairs(KEY, with_repeats=True)
    users, items = pairs.users.values.to_pylist(), pairs.items.values.to_pylist()
    found: dict[Any, dict[str, int]] = {}
    for block in pairs.blocks:
        assert block.repeats is not None
        for user, item, count in zip(block.users, block.items, block.repeats, strict=True):
            own = found.setdefault(users[user], {})
            own[items[item]] = own.get(items[item], 0) + int(count)
    return found


# ---- words, sentences, lines ---------------------------------------------------------------------


def test_the_table_of_unicode_is_what_its_tool_makes() -> None:
    assert unicode_table.TABLE.read_text(encoding="ascii") == unicode_table.table()


def test_words() -> None:
    cases: list[tuple[Any, ...]] = [
        ("Hello, world!", ["hello", "world"]),
        ("can't won\u2019t 'quoted' rock'n'roll", ["can't", "won\u2019t", "quoted", "rock'n'roll"]),
        ("3.14 1,000 3.a v2.0 e.g. U.S.A.", ["3.14", "1,000", "3", "a", "v2.0", "e.g", "u.s.a"]),
        ("snake_case __ _x", ["snake_case", "_x"]),
        ("a-b c/d e@f", ["a", "b", "c", "d", "e", "f"]),
        ("北京很美", ["北", "京", "很", "美"]),
        ("カタカナ ひらがな", ["カタカナ", "ひ", "ら", "が", "な"]),
        ("שלום צה\"ל ג'ירפה", ["שלום", 'צה"ל', "ג'ירפה"]),
        ("السلام عليكم", ["السلام", "عليكم"]),
        ("मैं हिन्दी", ["मैं", "हिन्दी"]),
        ("👍🏽 👩‍🔬❤️🇩🇪🇫🇷 ❤", ["👍🏽", "👩‍🔬", "❤️", "🇩🇪", "🇫🇷"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("x\u200by soft\u00adhyphen", ["x", "y", "soft\u00adhyphen"]),
        ("a\0b", ["a", "b"]),
        ("a\r\nb\u2028c", ["a", "b", "c"]),
        ("ΟΔΟΣ İstanbul ẞ", ["οδοσ", "i\u0307stanbul", "ß"]),
        ("... --- !!! ™ ©", []),
        ("", []),
    ]
    for text, words in cases:
        normal = unicodedata.normalize("NFC", text)
        got = tokens(normal)
        # Arrow lower-cases code point by code point; a dotted capital I may keep its dot or lose it.
        assert [w.replace("i\u0307", "i") for w in got] == [
            w.replace("i\u0307", "i") for w in words
        ], (text, words)


SOUP = "aB9_ .,:;'\"\n\r-\u0301\u200d\ufe0f\u00ad中ひカ한गאֱ\U0001f469\U0001f3fd\U0001f1e9\u0e01\u2019\u066b½ªǅ"


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.text(SOUP, max_size=40), st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    )
)
def test_words_are_those_of_the_rules_as_printed(text: str) -> None:
    lowered: str = pa.compute.utf8_lower(pa.array([text], pa.large_string()))[0].as_py()
    assert tokens(text) == segments.words(lowered)


@settings(max_examples=200, deadline=None)
@given(st.text("abcXYZ019 .,:;!?-\n\u00e9\u4e2d\u30ab\u05d0", max_size=60))
def test_words_are_those_of_another_implementation(text: str) -> None:
    # Only text without apostrophes and characters that join: there it has rules of its own.
    assert tokens(text) == [part for part in EDGES.split(text.lower()) if IS_WORD.search(part)]


def test_sentences() -> None:
    for text, sentences in (
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ("It is 3.4 m. He said “Go!” Then", ["It is 3.4 m.", "He said “Go!”", "Then"]),
        ("See etc. and so on. Done", ["See etc. and so on.", "Done"]),
        ("U.S. law. No", ["U.S. law.", "No"]),
        ("one\ntwo\r\nthree", ["one", "two", "three"]),
        ("字。字", ["字。", "字"]),
        ("  \n ", []),
    ):
        assert tokens(text, "sentences") == sentences, text


# ---- other tokenizers ----------------------------------------------------------------------------


def test_tokenizers() -> None:
    text = "Don't visit https://x.example/a?b=c, it's 100% *bad*_ly_ www.y.example I'll #tag"
    cut = ["do", "n't", "visit", "it", "'s", "100", "bad", "ly", "i", "'ll", "tag"]
    cases: list[tuple[Any, str, list[str]]] = [
        ("lines", " One  line \n\n\tTwo\u3000\r\nThree", ["One  line", "Two", "Three"]),
        ("regex:[A-Za-z]+", "The CAT, 42", ["The", "CAT"]),
        (r"regex:\w+\.json", "a.json b", ["a.json"]),
        (lambda text: text.split("|"), "a|b||c", ["a", "b", "c"]),
        ("paper", text, cut),
        ("paper", "[removed]", []),
        ("paper", " [deleted]\n", []),
    ]
    for tokenizer, whole, found in cases:
        assert tokens(whole, tokenizer) == found, whole


def test_the_papers_posts_are_taken_once_per_author() -> None:
    table = pa.table(
        {
            "user": ["a", "a", "b", "[deleted]", "a", None],
            "text": ["same words", "same words", "same words", "gone", "other", "same words"],
        }
    )
    with pytest.warns(dpsu.DataWarning, match="have no 'user'"):
        found = held(table, "paper")
    assert found == {
        "a": {"same": 1, "words": 1, "other": 1},
        "b": {"same": 1, "words": 1},
    }


def test_removing_an_author_leaves_the_others_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "BYTES_AT_ONCE", 16)
    posts = {f"u{u}": [f"shared post {k % 3}" for k in range(u)] for u in range(6)}
    for tokenizer, ngrams in (("paper", None), (None, (1, 2))):
        everybody = held(posts, tokenizer, ngrams)
        for gone in posts:
            rest = held({u: p for u, p in posts.items() if u != gone}, tokenizer, ngrams)
            assert rest == {u: items for u, items in everybody.items() if u != gone}, tokenizer


def test_a_tokenizer_file(tmp_path: Path) -> None:
    import tokenizers

    model = tokenizers.models.WordLevel({"big": 0, "cat": 1, "[UNK]": 2}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    assert tokens("big cat dog", str(tmp_path / "tokenizer.json")) == ["big", "cat", "[UNK]"]
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(dpsu.ParameterError, match="is not a tokenizer file"):
        tokenize_by(str(tmp_path / "broken.json"))
    with pytest.raises(dpsu.ParameterError, match="there is no tokenizer file"):
        tokenize_by(str(tmp_path / "missing.json"))


def test_tokens_of_a_file_depend_on_one_text_and_on_no_chance(tmp_path: Path) -> None:
    """With dropout, 200 equal words would have the same tokens with chance below 2^-199."""
    import tokenizers

    merges = [("a", "b"), ("c", "d"), ("ab", "cd")]
    vocab = {token: at for at, token in enumerate(["a", "b", "c", "d", "ab", "cd", "abcd"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges, dropout=0.5))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = str(tmp_path / "tokenizer.json")
    made.save(path)
    assert held({"u": "abcd " * 200}, path) == {"u": {"abcd": 200}}
    made.enable_truncation(2)
    made.save(path)
    assert tokens("abcd ab cd", path) == ["abcd", "ab", "cd"]
    made.no_truncation()
    made.enable_padding(pad_token="abcd")
    made.save(path)
    # Texts that are tokenized together, one of which is longer.
    assert held({"u": "ab", "v": "cd cd cd"}, path) == {"u": {"ab": 1}, "v": {"cd": 3}}


def test_a_text_on_which_a_tokenizer_fails_is_left_out_alone() -> None:
    def fails(text: str) -> list[str]:
        if text == "odd":
            raise ValueError(text)
        return text.split()

    def one_text(text: str) -> Any:
        return text if text == "odd" else text.split()

    def no_text(text: str) -> Any:
        return [1] if text == "odd" else text.split()

    texts = {f"u{k}": "odd" if k == 5 else f"word {k}" for k in range(600)}
    for tokenizer in (fails, one_text, no_text):
        with pytest.warns(dpsu.DataWarning, match="the tokenizer fails on some texts") as caught:
            found = held(texts, tokenizer)
        assert "odd" not in str([warning.message for warning in caught])
        assert found == {u: {"word": 1, u[1:]: 1} for u in texts if u != "u5"}


def test_a_tokenizer_that_is_wrong_for_any_text_is_refused_before_any_is_read() -> None:
    def check(tokenizer: Any) -> None:
        Source({}, dpsu.Users(DEFAULT_USER), dpsu.Tokens("text", tokenizer)).check()

    for tokenizer, problem in (
        (lambda text: text, "it returns no list of texts"),
        (lambda text: [1], "it returns no list of texts"),
        (
            lambda text: text.spilt(),
            "it raises AttributeError: 'str' object has no attribute 'spilt'",
        ),
    ):
        with pytest.raises(dpsu.ParameterError, match=f"made up to try it, {problem}"):
            check(tokenizer)
    # Others may be for texts of another kind.
    check(lambda text: json.loads(text)["tags"])


# ---- items of users ------------------------------------------------------------------------------


def plainly(texts: dict[str, list[str]], lengths: tuple[int, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for user, posts in texts.items():
        count: Counter[str] = Counter()
        for post in posts:
            words = tokens(post)
            for n in range(lengths[0], lengths[1] + 1):
                count.update(" ".join(words[k : k + n]) for k in range(len(words) - n + 1))
        if count:
            found[user] = dict(count)
    return found


def test_ngrams_and_counts_are_those_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    texts = {
        f"u{u}": [
            " ".join(rng.choices(["a", "b", "cé", "中", "D!"], k=rng.randrange(8)))
            for _ in range(rng.randrange(1, 5))
        ]
        for u in range(30)
    }
    for lengths in ((1, 1), (1, 3), (2, 2), (3, 5)):
        expected = plainly(texts, lengths)
        for at_once in (1, 50, 1 << 22):
            monkeypatch.setattr(pieces_module, "BYTES_AT_ONCE", at_once)
            assert held(texts, None, lengths) == expected, (lengths, at_once)


def test_more_ngrams_than_codes_can_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tokenize_by(None)(pa.array(["a b c", "a b"], pa.large_string()))
    # Three tokens, and room for five pairs at most.
    monkeypatch.setattr(grams_module, "MOST_GRAMS", 8)
    grams_module.grams_of(found, 1, 2)
    monkeypatch.setattr(grams_module, "MOST_GRAMS", 7)
    grams_module.grams_of(found, 1, 1)
    with pytest.raises(dpsu.DataError, match="more than 7 n-grams"):
        grams_module.grams_of(found, 1, 2)
    monkeypatch.setattr(grams_module, "MOST_GRAMS", 4)
    with pytest.raises(dpsu.DataError, match="more than 4 n-grams"):
        grams_module.grams_of(found, 1, 1)


def test_users_who_have_no_names_have_their_texts() -> None:
    posts = [["the quick fox", "the fox"], ["the quick dog"]]
    found = held(posts, None, 2, user="one per entry")
    expected = held(dict(zip("uv", posts, strict=True)), None, 2)
    assert sorted(map(str, found.values())) == sorted(map(str, expected.values()))


def test_users_that_come_again_over_shards_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in range(4):
        table = pa.table({"user": [1, 2, 1], "text": ["x y", f"y{shard}", "x"]})
        pa.parquet.write_table(table, tmp_path / f"{shard}.parquet")
    for _ in ("groups at once", "groups in batches"):
        found = held(str(tmp_path))
        assert found == {1: {"x": 8, "y": 4}, 2: {f"y{k}": 1 for k in range(4)}}
        monkeypatch.setattr(files, "LARGEST_GROUP_BYTES", 10)


# ---- hard cases ----------------------------------------------------------------------------------


def test_tokens_beyond_the_stated_length_are_dropped_and_told() -> None:
    texts = {"u": ["before " + "x" * 1_000_000 + " after", "y" * LONGEST_ITEM]}
    with pytest.warns(dpsu.DataWarning, match=r"some tokens have more than 1,024 bytes") as told:
        found = held(texts, None, (1, 2))
    # No bigram reaches over what was dropped, and the number is not told.
    assert found == {"u": {"before": 1, "after": 1, "y" * LONGEST_ITEM: 1}}
    assert len(told) == 1
    with pytest.raises(dpsu.DataError, match="more than 1,024 bytes"):
        dpsu.release(texts, epsilon=1, delta=1e-5, item=dpsu.Tokens("t"), strict=True)


def test_empty_texts_and_missing_ones() -> None:
    assert held({"u": ["", "   ", "\n"], "v": "x"}) == {"v": {"x": 1}}
    # Combining characters and case do not tell items apart.
    assert held({"u": ["Cafe\u0301", "CAF\u00c9"]}) == {"u": {"caf\u00e9": 2}}
    texts = pa.array([None, "x", "y", b"\xff", "z"], pa.binary()).view(pa.string())
    table = pa.table({"user": ["u", "v", None, "v", "w"], "text": texts})
    with pytest.warns(dpsu.DataWarning) as told:
        assert held(table) == {"v": {"x": 1}, "w": {"z": 1}}
    assert {str(w.message).split(";")[0] for w in told} == {
        "some rows have no text",
        "some texts of 'text' are not valid UTF-8",
        "some rows have no 'user' or no 'text'",
    }
    with pytest.warns(dpsu.DataWarning, match="nothing can be released"):
        assert (
            held(pa.table({"user": pa.array([], pa.string()), "text": pa.array([], pa.string())}))
            == {}
        )


def test_texts_that_are_no_text_are_refused() -> None:
    with pytest.raises(dpsu.DataError, match="column 'text' holds integers"):
        held(pa.table({"user": ["u"], "text": [5]}))
    with pytest.raises(dpsu.ParameterError, match="user and column must be different columns"):
        dpsu.release({"u": "x"}, epsilon=1, delta=1e-5, user="t", item=dpsu.Tokens("t"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=6), st.sampled_from([None, "sentences", "lines"]))
def test_any_text_can_be_read(texts: list[str], tokenizer: str | None) -> None:
    texts = [t.encode("utf-8", "ignore").decode() for t in texts]
    if not texts:
        return
    table = pa.table({"user": ["u"] * len(texts), "text": texts})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        found = held(table, tokenizer, 2)
    for item in found.get("u", {}):
        assert item == unicodedata.normalize("NFC", item)


def test_a_function_never_sees_two_texts_at_once() -> None:
    """Also where tasks of one process make tokenizers of it: the first waits for the other."""
    inside: list[str] = []
    overlap, entered = threading.Event(), threading.Event()

    def waits(text: str) -> list[str]:
        inside.append(text)
        if len(inside) > 1:
            overlap.set()
        if not entered.is_set():
            entered.set()
            # Nobody comes, so that this ends by itself; without a lock the other is here at once.
            overlap.wait(1)
        inside.remove(text)
        return text.split()

    for same in (True, False):
        entered.clear()
        first = tokenize_by(waits)
        second = first if same else tokenize_by(waits)
        thread = threading.Thread(target=first, args=[pa.array(["first"], pa.large_string())])
        thread.start()
        assert entered.wait(60)
        second(pa.array(["second"], pa.large_string()))
        thread.join()
        assert not overlap.is_set()


def test_a_list_of_texts_is_not_repeated_in_errors() -> None:
    for text in ("Zzsecret of Ann and/or Bob", "Zzsecret " * 1000, "Zzsecret\0", "Zzsecret"):
        with pytest.raises(dpsu.ParameterError, match="no such file") as caught:
            dpsu.release([text], epsilon=1, delta=1e-5, item=dpsu.Tokens("t"))
        assert "Zzsecret" not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_row_of_many_megabytes(tmp_path: Path) -> None:
    text = {"word": 4 << 20, "x": 1}
    assert held({"u": ["word " * (4 << 20), "x"]}) == {"u": text}
    table = pl.DataFrame({"user": ["u", "u"], "text": ["word " * (4 << 20), "x"]})
    table.write_csv(tmp_path / "x.csv")
    table.write_ndjson(tmp_path / "x.jsonl")
    for form in ("csv", "jsonl"):
        assert held(str(tmp_path / f"x.{form}")) == {"u": text}, form


def test_columns_without_values_have_no_type() -> None:
    empty = pd.DataFrame({"user": [], "text": []}, dtype=object)
    missing = pd.DataFrame({"user": ["u"], "text": [float("nan")]}, dtype=object)
    for frame in (empty, missing):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert dpsu.release(frame, epsilon=1, delta=1e-5, item=dpsu.Tokens("text")).items == ()
        assert "nothing can be released" in str(told[-1].message)


def test_every_type_of_text_and_any_chunks() -> None:
    users = pa.chunked_array([["a", "b"], ["a"], [], ["c", "b"]])
    texts = pa.chunked_array([["x"], ["y x", "z"], ["x", "y"]])
    everything = {"a": {"x": 1, "z": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}
    for type_ in (pa.string(), pa.large_string(), pa.string_view(), None):
        cells = [
            column.dictionary_encode() if type_ is None else column.cast(type_)
            for column in (users, texts)
        ]
        table = pa.table(cells, ["user", "text"])
        assert held(table) == everything, type_
        assert held(pa.concat_tables([table, table]).slice(5)) == everything, type_


def test_a_text_for_each_user_is_questioned() -> None:
    pairs = [(f"post {k}", "same words") for k in range(50)]
    for mechanism in (dpsu.Sieve(), dpsu.NGrams()):
        with pytest.warns(dpsu.DataWarning, match="every text has its own 'user'"):
            dpsu.release(pairs, item=dpsu.Tokens("t"), epsilon=1, delta=1e-5, mechanism=mechanism)


# ---- the public face -----------------------------------------------------------------------------


def test_lengths_and_wrong_options() -> None:
    lengths: dict[Any, tuple[int, int]] = {
        None: (1, 1), 2: (2, 2), (1, 3): (1, 3), "2": (2, 2), "1-3": (1, 3), " 1 - 3 ": (1, 3),
    }  # fmt: skip
    assert {each: parse_lengths(each) for each in lengths} == lengths
    cases: list[tuple[Any, ...]] = [
        ({"ngrams": "3-1"}, "begins above its end"),
        ({"ngrams": "x"}, "is not a length or a range"),
        ({"ngrams": 0}, "ngrams=0 is out of range"),
        ({"ngrams": (1, 2, 3)}, "must have two ends"),
        ({"tokenizer": "wrods"}, "is not one of words, paper"),
        ({"tokenizer": "regex:("}, "is no regular expression"),
        ({"tokenizer": 5}, "tokenizer is a int"),
        ({"count": "n"}, "is not for texts"),
        ({"text": None, "tokenizer": "words"}, "tokenizer is for texts"),
        ({"text": None, "ngrams": 2}, "ngrams is for texts"),
    ]  # fmt: skip
    for options, told in cases:
        everything: dict[str, Any] = {"text": "t", "epsilon": 1, "delta": 1e-5, **options}
        with pytest.raises(dpsu.ParameterError, match=told):
            flat.plan(**everything)
