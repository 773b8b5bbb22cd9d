"""Released words as tokenizers, read back by the library they are made for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import dpsu
from dpsu.vocabulary import training
from dpsu.vocabulary.training import MODELS, SPECIAL_TOKENS, train_tokenizer, write_tokenizer
from dpsu.vocabulary.words import Vocabulary, read_vocabulary
from tests.support.cases import every
from tests.support.examples import python, same_keys, shell
from tests.unit.cli import test_cli
from tests.unit.cli.test_cli import Run

run = test_cli.run
ROOT = Path(__file__).resolve().parents[3]
ENGLISH = ["bread", "milk", "butter", "breakfast", "brown", "rye", "roll", "oats", "honey", "jam"]
WORLD = [
    "🥐", "👩‍👩‍👧", "❤️", "中文", "分词", "ねこ", "ภาษา", "مرحبا", "شُكْرًا", "שלום", "привет", "q̃uer", "naïve",
    "don't", "covid-19", "r/privacy", ":)", "#tag", "@home", "https://example.org/a?b=c&d", "a b", "x" * 300,
]  # fmt: skip
WORDS = ENGLISH + WORLD
RELEASED = dict(zip(WORDS, range(len(WORDS), 0, -1), strict=True))


def opened(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    write_tokenizer(tokenizer, folder / "tokenizer.json")
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def released(words: list[str], counts: list[int] | None) -> dpsu.Release:
    plan = dpsu.plan(epsilon=1, delta=1e-6, item="word")
    noisy = None if counts is None else pa.array(counts, pa.int64())
    return dpsu.Release(plan, pa.array(words, pa.large_string()), noisy)


@every("model", MODELS)
def test_words_survive_the_way_through_a_file(model: str, tmp_path: Path) -> None:
    # An empty release makes a tokenizer, too.
    empty = opened(train_tokenizer(released([], []), model=model), tmp_path)
    assert empty.decode(empty.encode("bread").ids) == "bread"
    for size in (600, 30_000):
        tokenizer = train_tokenizer(RELEASED, model=model, vocab_size=size)
        loaded = opened(tokenizer, tmp_path)
        assert loaded.get_vocab_size() == tokenizer.get_vocab_size() <= size
        for word in WORDS:
            for each in (loaded, tokenizer):
                assert each.decode(each.encode(word).ids) == word
        special = SPECIAL_TOKENS[model]
        assert [loaded.token_to_id(token) for token in special] == list(range(len(special)))
        assert not set(loaded.encode(" ".join(WORDS)).ids) & set(range(len(special)))


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.integers(-5, 2000), max_size=12))
@settings(deadline=None, max_examples=60)
def test_bytes_restore_any_text_and_wordpiece_up_to_whitespace(words: dict[str, int]) -> None:
    tokenizer = train_tokenizer(words, lowercase=False, vocab_size=300, special_tokens=())
    for word in words:
        text = unicodedata.normalize("NFC", word)
        assert tokenizer.decode(tokenizer.encode(word).ids) == text
    words = {word: count for word, count in words.items() if not re.search(r"##|\[UNK\]", word)}
    tokenizer = train_tokenizer(words, model="wordpiece", lowercase=False, special_tokens=["[UNK]"])
    for word in words:
        # What Unicode calls white space; Python adds four control characters to it.
        text = re.sub(r"[^\S\x1c-\x1f]+", " ", unicodedata.normalize("NFC", word)).strip(" ")
        assert tokenizer.decode(tokenizer.encode(word).ids) == text


@every("model", MODELS)
def test_text_that_was_never_released_is_encoded_all_the_same(model: str) -> None:
    tokenizer = train_tokenizer(ENGLISH, model=model)
    ids = tokenizer.encode("Bread ☃ \x00 \ud7ff ᚠᚢ & jam!").ids
    if model == "bpe":
        assert tokenizer.decode(ids) == "bread ☃ \x00 \ud7ff ᚠᚢ & jam!"
    else:
        assert tokenizer.encode("bread ᚠᚢ jam!").tokens == ["bread", "[UNK]", "jam", "!"]
        assert "[UNK]" not in tokenizer.encode("any ASCII text, 100 % (of it).").tokens


@every("model", MODELS)
def test_counts_decide_which_words_stay_whole(model: str, tmp_path: Path) -> None:
    rare = [f"zq{a}{b}kw" for a in "abcdefgh" for b in "abcdefgh"]
    size = {"bpe": 275, "wordpiece": 150}[model]
    for favorite in ("breakfast", "marmalade"):
        words = dict.fromkeys([*rare, "breakfast", "marmalade"], 3) | {favorite: 3000}
        tokenizer = train_tokenizer(words, model=model, vocab_size=size)
        assert len(tokenizer.encode(favorite).tokens) == 1
        (other,) = {"breakfast", "marmalade"} - {favorite}
        assert len(tokenizer.encode(other).tokens) > 3
        assert all(len(tokenizer.encode(word).tokens) > 1 for word in rare)


def test_a_word_is_one_token_wherever_it_stands() -> None:
    tokenizer = train_tokenizer([*ENGLISH, "中文", "分词"])
    assert tokenizer.encode("milk bread, milk").tokens == ["Ġmilk", "Ġbread", ",", "Ġmilk"]
    # In a script without spaces words stand side by side.
    assert len(tokenizer.encode("bread分词中文").tokens) == 3


def test_punctuation_is_cut_off_unless_a_released_word_has_it_inside() -> None:
    tokenizer = train_tokenizer(["bread", "milk", "中", "文"], model="wordpiece")
    assert tokenizer.encode('"bread" (milk)中文').tokens == [
        '"', "bread", '"', "(", "milk", ")", "中", "文",
    ]  # fmt: skip
    tokenizer = train_tokenizer(["bread", "don't"], model="wordpiece")
    assert tokenizer.encode("(don't, bread)").tokens == ["(", "don't", ",", "bread", ")"]


def test_huge_counts_are_scaled_and_every_word_is_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MOST_REPETITIONS", 10_000)
    pieces = Counter({"bread": 3 * 10**15, "milk": 10**15, "rye": 1})
    fed = Counter(" ".join(training._repeated(pieces)).split())
    assert fed == {"bread": 7500, "milk": 2500, "rye": 1}
    few = Counter({"bread": 30, "milk": 10})
    assert Counter(" ".join(training._repeated(few)).split()) == few
    # Negative counts are floored.
    assert read_vocabulary({"rye": -40, "jam": 0, "oats": 1}).counts == (1, 1, 1)
    same = [train_tokenizer(words).to_str() for words in ({"rye": -4, "jam": 0}, ["jam", "rye"])]
    assert same[0] == same[1]


MAKE = """
import sys
from dpsu.vocabulary.training import train_tokenizer, write_tokenizer
words = [a + b + c for a in "abcéñ中" for b in "defg" for c in "hijk文"]
write_tokenizer(train_tokenizer(words, model=sys.argv[1], vocab_size=400), sys.argv[2])
"""


@every("model", MODELS)
def test_the_same_words_give_the_same_file(model: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.json" for n in range(3)]
    for seed, path in enumerate(files):
        subprocess.run(
            [sys.executable, "-c", MAKE, model, str(path)],
            check=True, env=os.environ | {"PYTHONHASHSEED": str(seed)},
        )  # fmt: skip
    assert len({path.read_bytes() for path in files}) == 1
    backwards = dict(reversed(RELEASED.items()))
    first, second = (train_tokenizer(words, model=model) for words in (RELEASED, backwards))
    assert first.to_str() == second.to_str()


@every("model", MODELS)
def test_capitals(model: str) -> None:
    words = {"Bread": 3, "bread": 4, "NASA": 9}
    kept = train_tokenizer(words, model=model, lowercase=False)
    assert [kept.decode(kept.encode(word).ids) for word in words] == list(words)
    folded = train_tokenizer(words, model=model)
    assert folded.decode(folded.encode("Bread NASA").ids) == "bread nasa"
    # Composed or not, it is the same text.
    assert folded.encode("CAFE\u0301").ids == folded.encode("café").ids


AWKWARD = ["", " ", "1", "a\tb", "back\\slash", "back\\nslash", "comma,quote\"", "line\nfeed", "null", "re\rturn", "中文"]  # fmt: skip


def test_what_a_release_writes_is_read_back(tmp_path: Path) -> None:
    for counts in (None, list(range(20, 20 - len(AWKWARD), -1))):
        for suffix in (".txt", ".csv", ".parquet", ".json"):
            release = released(AWKWARD, counts)
            release.write(tmp_path / f"words{suffix}")
            found = read_vocabulary(tmp_path / f"words{suffix}")
            assert found == read_vocabulary(release), (suffix, counts)
            assert set(found.words) == set(AWKWARD) - {""}, (suffix, counts)
            assert found.counted == (counts is not None), (suffix, counts)
            empty = released([], None if counts is None else [])
            empty.write(tmp_path / f"empty{suffix}")
            assert len(read_vocabulary(tmp_path / f"empty{suffix}")) == 0, (suffix, counts)
            numbers = dpsu.Release(release.plan, pa.array([7, 12]), pa.array([3, 5]))
            numbers.write(tmp_path / f"numbers{suffix}")
            found = read_vocabulary(tmp_path / f"numbers{suffix}")
            assert found == Vocabulary(("12", "7"), (5, 3), True), suffix


BAD_FILES = [
    ("words.parquet", b"not parquet", "'words.parquet' cannot be read as a .parquet file of a release"),
    ("words.json", b"{", "'words.json' cannot be read as a .json file"),
    ("words.json", b"{}", "'words.json' holds no list"),
    ("words.json", b'["a", null]', "one of them is a NoneType"),
    ("words.json", b'[{"a": 1}, 2]', "'words.json' cannot be read"),
    ("words.csv", b"", "'words.csv' cannot be read"),
    ("words.csv", b"a,b,c\n1,2,3\n", "has the columns 'a', 'b', 'c'"),
    ("words.csv", b"word,count\nbread,many\n", "'words.csv' cannot be read"),
    ("words.csv", b"word,count\nbread,nan\n", "must be finite numbers"),
    ("words.csv", b"word,count\nbread\n", "'words.csv' cannot be read"),
    ("words.txt", b"\xff\xfe", "'words.txt' cannot be read"),
]  # fmt: skip


def test_bad_files(tmp_path: Path) -> None:
    for name, content, words in BAD_FILES:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dpsu.DataError, match=re.escape(words)):
            read_vocabulary(tmp_path / name)


BAD_OPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (["bread"], {"model": "unigram"}, "model='unigram' is unknown; it is one of bpe, wordpiece"),
    (["bread"], {"vocab_size": 260}, "vocab_size=260 is too small .* at least 261"),
    (["bread"], {"vocab_size": 100, "model": "wordpiece"}, "vocab_size=100 is too small"),
    (["bread"], {"vocab_size": 2.5}, "vocab_size=2.5 is not a whole number"),
    (["bread"], {"special_tokens": ["<s>", "<s>"]}, "special_tokens must be different"),
    (["bread"], {"special_tokens": ["<s>"], "model": "wordpiece"}, r"special_tokens lacks '\[UNK\]'"),
    (["a<MASK>b"], {}, "contains the special token '<mask>'"),
    ("nowhere.txt", {}, "there is no file 'nowhere.txt'"),
    (Path(__file__), {}, "its name ends in .txt, .csv, .parquet, .json"),
    (7, {}, "words is a int; give a release"),
]  # fmt: skip


def test_bad_options() -> None:
    for words, options, message in BAD_OPTIONS:
        with pytest.raises(dpsu.ParameterError, match=message):
            train_tokenizer(words, **options)
    for word, message in ((1.5, "one of them is a float"), ("\ud800", "lone surrogates")):
        with pytest.raises(dpsu.DataError, match=message):
            read_vocabulary([word])


def test_another_name_for_the_unknown() -> None:
    words = ["[UNK]", "bread"]
    with pytest.raises(dpsu.ParameterError, match="a released word contains the special token"):
        train_tokenizer(words, model="wordpiece", lowercase=False)
    tokenizer = train_tokenizer(
        words, model="wordpiece", lowercase=False, special_tokens=["<pad>", "<unk>"]
    )
    assert tokenizer.encode("[UNK] ᚠ bread").tokens == ["[UNK]", "<unk>", "bread"]


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(ENGLISH)
    with pytest.raises(dpsu.ParameterError, match=r"must end in \.json"):
        write_tokenizer(tokenizer, tmp_path / "tokenizer.txt")
    with pytest.raises(dpsu.OutputError, match="there is no folder"):
        write_tokenizer(tokenizer, tmp_path / "no" / "tokenizer.json")
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'dpsu[tokenizers]'")):
        train_tokenizer(ENGLISH)
    (tmp_path / "words.txt").write_text("bread\n")
    code, _, err = run("tokenizer", tmp_path / "words.txt", "--output", tmp_path / "t.json")
    assert (code, err) == (2, "dpsu: this needs tokenizers: pip install 'dpsu[tokenizers]'\n")


USAGE = [
    (["--output", "t.json", "--vocab-size", "9"], "--vocab-size 9 is too small for these words"),
    (["--output", "t.json", "--vocab-size", "0"], "--vocab-size 0 is out of range"),
    (["--output", "t.txt"], "cannot write 't.txt': its name must end in .json"),
    (["--output", "t.json", "--model", "unigram"], "Invalid value for '--model'"),
    (["--output", "t.json", "--special-tokens", "read"], "give other --special-tokens"),
    (["--output", "words.json"], "is also read"),
    ([], "Missing option '--output'"),
]  # fmt: skip


def test_usage_errors_exit_with_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.json").write_text('["bread", "milk"]')
    for arguments, words in USAGE:
        code, out, err = run("tokenizer", "words.json", *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err, arguments
        assert [path.name for path in tmp_path.iterdir()] == ["words.json"], arguments
        assert Path("words.json").read_text() == '["bread", "milk"]', arguments


def test_the_command_tells_what_it_did(run: Run, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Bread\nbrown rye\n")
    given = "tokenizer", tmp_path / "words.txt"
    code, _, err = run(*given, "--output", tmp_path / "t.json")
    assert code == 0
    assert "2 words without counts made 2" in err
    assert "Capitals were put in lowercase (--cased keeps them)." in err
    _, _, err = run(
        *given, "--cased", "--special-tokens", "<a> <b>", "--output", tmp_path / "t.json"
    )
    assert "Capitals" not in err
    kept = Tokenizer.from_file(str(tmp_path / "t.json"))
    assert (kept.token_to_id("<a>"), kept.token_to_id("<b>")) == (0, 1)
    assert kept.encode("Bread").tokens == ["ĠBread"]
    release, output = released(ENGLISH, list(range(20, 10, -1))), tmp_path / "t.json"
    release.write(tmp_path / "words.parquet")
    for model in MODELS:
        options = ("--model", model, "--vocab-size", 400, "--output", output)
        code, out, err = run("tokenizer", tmp_path / "words.parquet", *options)
        assert (code, out) == (0, "")
        assert "10 words with counts made " in err
        trained = train_tokenizer(release, model=model, vocab_size=400)
        assert json.loads(output.read_text("utf-8")) == json.loads(trained.to_str())
    (tmp_path / "words.parquet").write_bytes(b"no")
    code, _, err = run("tokenizer", tmp_path / "words.parquet", "--output", tmp_path / "t.json")
    assert (code, "cannot be read as a .parquet file" in err) == (2, True)


@pytest.mark.slow
def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what needs transformers, which is not installed."""
    page = (ROOT / "docs" / "guides" / "tokenizers.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    same_keys(monkeypatch)
    train, _, *lists = re.findall(r"```python\n(.*?)```", page, re.S)
    space = python([train, *lists], "tokenizers.md")
    (typed,) = re.findall(r"```sh\n(.*?)```", page, re.S)
    shell(typed, tmp_path)
    words = Path("fasttext.txt").read_text("utf-8").splitlines()
    assert set(words) == set(space["words"].items)
    assert Path("dictionary.txt").read_text("utf-8").splitlines()[1].startswith(f"0\t{words[0]}\t")
    lexemes = map(json.loads, Path("lexemes.jsonl").read_text("utf-8").splitlines())
    assert [lexeme["orth"] for lexeme in lexemes] == words
