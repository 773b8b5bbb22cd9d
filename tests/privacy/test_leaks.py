"""Nothing private leaves by a side door: every call and command on data that carries a marker."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import CALIBRATED, limited
from tests.unit.cli.test_cli import Run, run  # noqa: F401

MARK = "Zzmarker"
NUMBER = 914  # users, and a number that nothing public contains


def rows() -> list[tuple[str, str]]:
    common = [(f"{MARK}-user-{u}", f"common {i}") for u in range(NUMBER) for i in range(3)]
    return common + [(f"{MARK}-user-{u}", f"{MARK}-item-{u}") for u in range(NUMBER)]


def table() -> pa.Table:
    users, items = zip(*rows(), strict=True)
    return pa.table({"user": users, "item": items, "n": [1] * len(users)})


@cache
def broken_forms() -> dict[str, Any]:
    users, items = zip(*rows(), strict=True)
    return {
        "mixed items": [*rows(), (f"{MARK}-user-1", 5.5)],
        "mixed users": [*rows(), ([MARK], f"{MARK}-item-1")],
        "floats": pa.table({"user": users, "item": [0.25 + k for k in range(len(items))]}),
        "nested": pa.table({"user": users, "item": [{MARK: [i]} for i in items]}),
        "fields": pa.table({"user": users, "item": [{MARK: {MARK: 0.5}} for i in items]}),
        "objects": [*rows(), (f"{MARK}-user-1", {MARK: MARK})],
        "polars lists": pl.DataFrame({"user": users, "item": pl.Series([[[i]] for i in items])}),
        "far dates": pa.table({"user": users, "item": pa.array([10**7] * len(items), pa.date32())}),
        "no columns": pa.table({MARK: users, f"{MARK}2": items}),
        "surrogates": [*rows(), (f"{MARK}-user-1", "\udcff" + MARK)],
        "strings": [i for _, i in rows()],
        "triples": [(u, i, 1) for u, i in rows()],
        "mapping to text": {f"{MARK}-user-1": f"{MARK}-item-1"},
        "nulls": pa.table({"user": [*users, None], "item": [*items, f"{MARK}-null"]}),
    }


@pytest.fixture
def witness(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Collects everything that a run says or leaves behind, except what it may release."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))

    def said() -> str:
        out, err = capfd.readouterr()
        left = [
            p.name + p.read_bytes().decode("utf-8", "replace")
            for p in scratch.rglob("*")
            if p.is_file()
        ]
        return out + err + log.getvalue() + "".join(left)

    yield said
    logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(logging.WARNING)


def chain(error: BaseException) -> str:
    """The error with all behind it, but without the source lines of the test itself."""
    said = ""
    seen: list[BaseException] = [error]
    for link in seen:
        said += repr(link) + str(link) + repr(link.args) + "".join(getattr(link, "__notes__", []))
        said += "".join(traceback.format_exception_only(link))
        seen += [n for n in (link.__cause__, link.__context__) if n is not None and n not in seen]
    return said


def says(said: str, number: int) -> bool:
    """Whether the number stands there by itself: inside hashes and other numbers it is chance."""
    return re.search(rf"(?<![0-9a-f.]){number}(?![0-9a-f.])", said) is not None


def assert_clean(said: str) -> None:
    assert MARK not in said
    assert not says(said, NUMBER)


def test_a_number_is_found_by_itself_and_not_inside_a_hash() -> None:
    assert says(f"{NUMBER} users", NUMBER)
    assert says(f'"users": {NUMBER}, "items"', NUMBER)
    assert says(f"rows={NUMBER}", NUMBER)
    assert not says(f"0a{NUMBER}f3", NUMBER)
    assert not says(f"{NUMBER}b2", NUMBER)
    assert not says(f"c{NUMBER}", NUMBER)
    assert not says(f"0.{NUMBER}", NUMBER)


@every(("mechanism", "calibration"), CALIBRATED)
def test_releases_say_nothing_unreleased(mechanism: str, calibration: str, witness: Any) -> None:
    options: dict[str, Any] = {"mechanism": mechanism, "calibration": calibration}
    if mechanism == "greedy":
        options |= {"count": "n"} | ({"allow_unproven": True} if calibration == "paper" else {})
    else:
        options |= limited(mechanism, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = flat.release(
            table(), epsilon=1, delta=1e-9, progress=lambda stage, rows: print(stage), **options
        )
    told = "".join(str(w.message) for w in caught)
    assert_clean(witness() + told + repr(result) + result.report() + result.report_json())
    assert_clean("".join(map(str, result.items)))


@every("form", broken_forms())
@every("strict", [False, True])
def test_errors_and_warnings_say_nothing(form: str, strict: bool, witness: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            dpsu.release(broken_forms()[form], epsilon=1, delta=1e-9, strict=strict)
            failure = ""
        except dpsu.DpsuError as error:
            failure = chain(error)
    assert failure or caught
    assert_clean(failure + witness() + "".join(str(w.message) for w in caught))


FILES = {
    "fine.csv": "user,item\n" + "".join(f"{u},{i}\n" for u, i in rows()),
    "headless.csv": "".join(f"{u},{i}\n" for u, i in rows()),
    "ragged.csv": "user,item\n"
    + "".join(f"{u},{i}\n" for u, i in rows())
    + f"{MARK},{MARK},{MARK}\n",
    "quotes.csv": f'user,item\n"{MARK},x\n{MARK},{MARK}\n',
    "false.parquet": f"user,item\n{MARK},{MARK}\n",
    "mixed.jsonl": "".join(
        json.dumps({"user": u, "item": i}) + "\n" for u, i in [*rows(), (5, MARK)]
    ),
    "keyed.jsonl": "".join(json.dumps({u: i}) + "\n" for u, i in rows()),
    "cut.jsonl": f'{{"user": "{MARK}", "item": "{MARK}',
}


@every("name", FILES)
def test_commands_say_nothing(name: str, run: Run, tmp_path: Path, witness: Any) -> None:  # noqa: F811
    path, scratch = tmp_path / name, Path(tempfile.gettempdir())
    path.write_text(FILES[name])
    files = ["--report", scratch / f"{name}.json", "--output", scratch / f"{name}.txt"]
    code, out, err = run("release", path, "--epsilon", 1, "--delta", "1e-9", *files)
    assert code in (0, 1, 2)
    # What it wrote is in its scratch folder.
    assert_clean(out + err + witness())
    assert "Traceback" not in err


@every("name", ["fine.csv", "cut.jsonl"])
def test_a_process_of_a_command_says_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    done = subprocess.run(
        [sys.executable, "-m", "dpsu", "release", name, "--epsilon", "1", "--delta", "1e-9"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert_clean(done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


def test_intermediate_objects_do_not_print_themselves() -> None:
    from dpsu.contributions.ids import Ids
    from dpsu.contributions.interning import intern
    from dpsu.contributions.pairs import Rows

    users, items = zip(*rows(), strict=True)
    columns = pa.chunked_array([users]), pa.chunked_array([items]), None
    read = Rows([lambda: columns], ("user", "item", None))
    pairs = intern(read)
    for private in (read, pairs, pairs.users, Ids(pa.array(items, pa.large_string()))):
        assert_clean(repr(private) + str(private))


def test_defects_of_our_own_do_not_quote_the_data(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from dpsu.cli import main

    def defect(*arguments: Any, **options: Any) -> None:
        raise ValueError(f"could not convert {MARK}-item-1")

    monkeypatch.setattr(dpsu, "release", defect)
    monkeypatch.setattr(
        sys, "argv", ["dpsu", "release", "x.csv", "--epsilon", "1", "--delta", "1e-5"]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    out, err = capfd.readouterr()
    assert_clean(out + err)
    assert "unexpected ValueError at test_leaks.py:" in err


def test_frames_with_private_names_twice() -> None:
    import pandas as pd

    frame = pd.DataFrame([[1, 2, 3]], columns=["user", MARK, MARK])
    with pytest.raises(dpsu.ParameterError, match="same name") as caught:
        dpsu.release(frame, epsilon=1, delta=1e-5)
    assert_clean(chain(caught.value))


def test_a_quote_that_never_closes_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_text('user,"item\n' + f"u,{MARK}\n" * 50_000)
    with pytest.raises(dpsu.DpsuError) as caught:
        dpsu.release(path, epsilon=1, delta=1e-5)
    assert_clean(chain(caught.value))


@every("call", ["release", "ngrams", "sklearn"])
@every("strict", [False, True])
def test_texts_say_nothing_unreleased(call: str, strict: bool, witness: Any) -> None:
    users = [f"{MARK}-user-{u}" for u in range(NUMBER)]
    texts: list[str | None] = [f"common words and {MARK}{u}" for u in range(NUMBER - 2)]
    texts += [MARK + "x" * 5000, None]
    told, result = "", None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if call == "sklearn":
                from dpsu.sklearn import PrivateVocabulary

                words = PrivateVocabulary(1.0, 1e-9, groups="row" if strict else None)
                words.fit(texts, groups=None if strict else users)
            elif call == "ngrams":
                table = pa.table({"user": users, "text": texts})
                result = dpsu.release(
                    table,
                    epsilon=1,
                    delta=1e-9,
                    item=dpsu.Tokens("text"),
                    strict=strict,
                    mechanism=dpsu.NGrams(),
                )
            else:
                table = pa.table({"user": users, "text": texts})
                result = dpsu.release(
                    table,
                    epsilon=1,
                    delta=1e-9,
                    item=dpsu.Tokens("text", ngrams="1-2"),
                    strict=strict,
                )
        except (dpsu.DpsuError, ValueError) as error:
            told = chain(error)
    assert told or caught
    if result is not None:
        told += repr(result) + result.report() + result.report_json() + "".join(map(str, result))
    assert_clean(
        told.lower().replace("zz", "Zz") + witness() + "".join(str(w.message) for w in caught)
    )


def test_texts_do_not_print_themselves() -> None:
    from dpsu.inputs.reading import Source
    from dpsu.randomness.keys import Key
    from dpsu.text.corpus import read_corpus
    from dpsu.text.spec import TextSpec
    from dpsu.text.tokenizing import tokenize_by

    source = TextSpec("text", "words", 1, 1)
    rows_read = Source({MARK: MARK}, dpsu.Users(), dpsu.Tokens("text")).untokenized(Key.from_os())
    corpus = read_corpus(rows_read, source, None)
    for private in (rows_read, corpus, tokenize_by(None)(pa.array([MARK], pa.large_string()))):
        assert_clean(repr(private) + str(private))
