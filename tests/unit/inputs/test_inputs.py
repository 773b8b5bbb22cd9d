"""The same rows in every form give the same release for the same seed."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpsu
from dpsu.contributions.interning import intern
from dpsu.inputs import delimited, files
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from tests.support import flat
from tests.support.databases import OF_PAIRS, limited

KEY = Key.from_insecure_seed(0)

SETTINGS: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "insecure_seed": 11}
# Weights without a cutoff grow far beyond the threshold, so these runs cannot fail by chance.
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}


def make_rows(kind: str) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(7)
    pairs = []
    for u in range(120):
        size = int(rng.integers(1, 25))
        for i in rng.zipf(1.3, size) % 200:
            pairs.append((u * 7, int(i)) if kind == "int" else (f"user {u}", f"ítem {i}"))
    return pairs


Form = Callable[[list[tuple[Any, Any]], Path], Any]


def arrow(rows: list[tuple[Any, Any]]) -> pa.Table:
    return pa.table(
        {"other": [0.5] * len(rows), "user": [r[0] for r in rows], "item": [r[1] for r in rows]}
    )


def parquet(rows: list[tuple[Any, Any]], path: Path, **options: Any) -> Path:
    pa.parquet.write_table(arrow(rows), path, **options)
    return path


def csv(rows: list[tuple[Any, Any]], path: Path, delimiter: str = ",") -> Path:
    options = pa.csv.WriteOptions(delimiter=delimiter)
    buffer = io.BytesIO()
    pa.csv.write_csv(arrow(rows), buffer, options)
    data = buffer.getvalue()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def jsonl(rows: list[tuple[Any, Any]], path: Path) -> Path:
    text = "".join(json.dumps({"user": u, "item": i, "x": [1]}) + "\n" for u, i in rows)
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as out:
            out.write(text.encode())
    else:
        path.write_text(text, encoding="utf-8")
    return path


def two_files(rows: list[tuple[Any, Any]], folder: Path) -> list[Path]:
    half = len(rows) // 2
    return [parquet(rows[:half], folder / "1.parquet"), parquet(rows[half:], folder / "2.parquet")]


def mapping(rows: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    held: dict[Any, list[Any]] = {}
    for u, i in rows:
        held.setdefault(u, []).append(i)
    return held


FORMS: dict[str, Form] = {
    "arrow": lambda rows, tmp: arrow(rows),
    "arrow chunks": lambda rows, tmp: pa.concat_tables([arrow(rows[:50]), arrow(rows[50:])]),
    "arrow dictionary": lambda rows, tmp: arrow(rows).set_column(
        2, "item", arrow(rows)["item"].dictionary_encode()
    ),
    "pandas": lambda rows, tmp: arrow(rows).to_pandas(),
    "pandas category": lambda rows, tmp: arrow(rows).to_pandas().astype("category"),
    "polars": lambda rows, tmp: pl.from_arrow(arrow(rows)),
    "polars lazy": lambda rows, tmp: pl.from_arrow(arrow(rows)).lazy(),  # type: ignore[union-attr]
    "duckdb": lambda rows, tmp: duckdb.from_arrow(arrow(rows)),
    "mapping": lambda rows, tmp: mapping(rows),
    "pairs": lambda rows, tmp: rows,
    "generator": lambda rows, tmp: (row for row in rows),
    "reversed": lambda rows, tmp: arrow(rows[::-1]),
    "parquet": lambda rows, tmp: parquet(rows, tmp / "a.parquet"),
    "parquet groups": lambda rows, tmp: str(parquet(rows, tmp / "a.pq", row_group_size=70)),
    "parquet plain": lambda rows, tmp: parquet(rows, tmp / "b.parquet", use_dictionary=False),
    "two files": two_files,
    "glob": lambda rows, tmp: (two_files(rows, tmp), str(tmp / "*.parquet"))[1],
    "folder": lambda rows, tmp: (two_files(rows, tmp), tmp)[1],
    "csv": lambda rows, tmp: csv(rows, tmp / "a.csv"),
    "csv.gz": lambda rows, tmp: csv(rows, tmp / "a.csv.gz"),
    "tsv": lambda rows, tmp: csv(rows, tmp / "a.tsv", "\t"),
    "jsonl": lambda rows, tmp: jsonl(rows, tmp / "a.jsonl"),
    "jsonl.zst": lambda rows, tmp: jsonl(rows, tmp / "a.jsonl.zst"),
}


UNTYPED = {
    "mapping", "pairs", "generator", "csv", "csv.gz", "tsv", "jsonl", "jsonl.zst",
}  # fmt: skip


def options_of(mechanism: str) -> dict[str, Any]:
    return {} if mechanism == "greedy" else dict(limited(mechanism, 6))


@pytest.mark.parametrize("kind", ["text", "int"])
def test_every_form_gives_the_same_release(kind: str, tmp_path: Path) -> None:
    """Greedy counts repeats; every other mechanism has its turn with some of the forms."""
    rows = make_rows(kind)
    others = itertools.cycle(name for name in OF_PAIRS if name != "greedy")
    settings = {name: SETTINGS | options_of(name) | {"mechanism": name} for name in OF_PAIRS}
    expected = {name: flat.release(arrow(rows), **settings[name]).items for name in OF_PAIRS}
    for form, given in FORMS.items():
        folder = tmp_path / form
        folder.mkdir()
        for name in ("greedy", next(others)):
            assert len(expected[name]) > 3, name
            found = flat.release(given(rows, folder), **settings[name]).items
            if kind == "int" and form in UNTYPED:
                # The same items, as text.
                assert sorted(found) == sorted(map(str, expected[name])), (form, name)
            else:
                assert found == expected[name], (form, name)


def test_every_form_keeps_to_a_declared_type(tmp_path: Path) -> None:
    rows = make_rows("int")
    options: dict[str, Any] = SETTINGS | {"mechanism": "policy-gaussian", "max_items": 6}
    expected = flat.release(arrow(rows), **options)
    assert len(expected) > 3
    for form, type_ in itertools.product(FORMS, ("integer", "text")):
        folder = tmp_path / f"{form} {type_}"
        folder.mkdir()
        given = flat.release(FORMS[form](rows, folder), user_type=type_, item_type=type_, **options)
        wanted = expected.items if type_ == "integer" else sorted(map(str, expected.items))
        assert given.items == tuple(wanted), (form, type_)
        assert given.plan.item.type == given.plan.user.type == type_, form
        assert dpsu.Plan.from_json(given.plan.to_json()) == given.plan, form


def test_sets_of_items_one_per_user() -> None:
    """Ids of listed users are drawn from the key, so only order-free mechanisms must agree."""
    held = mapping(make_rows("text"))
    options = SETTINGS | {"mechanism": "weighted-gaussian", "max_items": 100}
    expected = flat.release(held, **options)
    entries: dict[str, Any] = {"user": "one per entry"}
    assert flat.release(list(held.values()), **options, **entries).items == expected.items
    sets = [set(items) for items in held.values()]
    assert flat.release(sets, **options, **entries).items == expected.items
    again = [flat.release(list(held.values()), **SETTINGS, **entries).items for _ in range(2)]
    assert again[0] == again[1]


def test_repeats_in_every_form(tmp_path: Path) -> None:
    rows = make_rows("text")
    options = SETTINGS | {"mechanism": "greedy"}
    repeated = flat.release(arrow(rows), **options)
    counted = arrow(rows).group_by(["user", "item"]).aggregate([([], "count_all")])
    counted = counted.rename_columns(["user", "item", "n"])
    assert flat.release(counted, count="n", **options).items == repeated.items
    path = tmp_path / "counted.csv"
    pa.csv.write_csv(counted, path)
    assert flat.release(path, count="n", **options).items == repeated.items
    nested: dict[str, dict[str, int]] = {}
    for user, item, n in zip(*(counted[c].to_pylist() for c in ("user", "item", "n")), strict=True):
        nested.setdefault(user, {})[item] = n
    assert flat.release(nested, **options).items == repeated.items
    assert flat.release(arrow(sorted(set(rows))), **options).items != repeated.items


def test_unicode_forms_of_one_text_are_one_item() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    data = {u: [composed if u % 2 else decomposed] for u in range(60)}
    result = flat.release(data, epsilon=1, delta=1e-3, **SURE)
    assert result.items == (composed,)


def test_public_items_and_priors_in_every_form(tmp_path: Path) -> None:
    rows = make_rows("text")
    known = ["ítem 1", "ítem 2", "nobody holds this"]
    expected = flat.release(rows, public_items=known, **SETTINGS)
    assert set(known) <= set(expected.items)
    assert expected.items == tuple(sorted(expected.items, key=lambda s: str(s).encode()))
    (tmp_path / "known.txt").write_text("\n".join(known) + "\n", encoding="utf-8")
    pa.parquet.write_table(pa.table({"item": known, "z": [1, 2, 3]}), tmp_path / "known.parquet")
    for form in (
        tmp_path / "known.txt",
        str(tmp_path / "known.parquet"),
        pd.DataFrame({"item": known}),
        set(known),
    ):
        assert flat.release(rows, public_items=form, **SETTINGS).items == expected.items

    prior = {f"ítem {k}": 100.0 / (k + 1) for k in range(50)}
    greedy = SETTINGS | {"mechanism": "greedy"}
    expected = flat.release(rows, prior=prior, **greedy)
    frame = pl.DataFrame({"item": list(prior), "holders": list(prior.values())})
    frame.write_csv(tmp_path / "prior.csv")
    frame.write_parquet(tmp_path / "prior.parquet")
    for form in (frame, frame.to_pandas(), tmp_path / "prior.csv", tmp_path / "prior.parquet"):
        result = flat.release(rows, prior=form, **greedy)
        assert result.items == expected.items
        assert result.plan == expected.plan


def test_public_items_are_removed_before_bounding() -> None:
    """Known items must not use up a user's places: with them gone, every unknown item has room."""
    known = [f"k{k}" for k in range(9)]
    data = {u: [*known, "unknown"] for u in range(300)}
    result = flat.release(data, epsilon=1, delta=1e-3, max_items=1, public_items=known, **SURE)
    assert set(result.items) == {*known, "unknown"}


def test_public_items_come_out_whoever_holds_them() -> None:
    """All of them and nothing of one user, whether nobody, one user or everybody holds them."""
    known = ["nobody's", "one user's", "everybody's"]
    data = {u: ["everybody's", f"own {u}"] for u in range(20)}
    for name, more in itertools.product(OF_PAIRS, ([], ["one user's"])):
        data[7] = ["everybody's", "own 7", *more]
        result = dpsu.release(
            data, epsilon=1, delta=1e-9, mechanism=dpsu.mechanism(name, **limited(name, 2)),
            public_items=known, insecure_seed=1,
        )  # fmt: skip
        assert result.items == tuple(sorted(known)), (name, more)


def test_integer_items_take_public_items_and_priors_as_text(tmp_path: Path) -> None:
    rows = make_rows("int")
    (tmp_path / "known.txt").write_text("1\n2\n999\n")
    options = SETTINGS | {"item_type": "integer"}
    result = flat.release(rows, public_items=tmp_path / "known.txt", **options)
    assert {1, 2, 999} <= set(result.items)
    assert all(isinstance(item, int) for item in result.items)
    with pytest.raises(dpsu.DataError, match="public_items"):
        flat.release(rows, public_items=["x"], **options)


def test_public_files_are_not_guessed_either(tmp_path: Path) -> None:
    """Nor are csv files of data, whose words other readers take for missing."""
    path = tmp_path / "words.csv"
    words = ["NA", "null", "nan", "None", "1.0", "007", "true", '""']
    path.write_text("user,item\n" + "".join(f"{u},{w}\n" for u in range(200) for w in words))
    result = flat.release(path, epsilon=2, delta=1e-3, **SURE)
    assert set(result.items) == {*words[:-1], ""}
    data = {u: ["007", "b"] for u in range(300)}
    for name, content in (
        ("known.csv", "item\n007\n"), ("known.tsv", "item\tz\n007\t1\n"),
        ("known.jsonl", '{"item": "007"}\n'), ("known.txt", "007\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(content)
        result = flat.release(data, epsilon=1, delta=1e-5, public_items=tmp_path / name, **SURE)
        assert result.items == ("007", "b")


def test_public_items_of_one_number_are_one_item() -> None:
    data = {u: [7, 8] for u in range(300)}
    result = flat.release(
        data, epsilon=1, delta=1e-5, public_items=["007", "7"], item_type="integer", **SURE
    )
    assert result.items == (7, 8)


def test_items_stay_with_their_users_whatever_length_things_claim() -> None:
    """A frame has as many rows as it says and as many names as one goes through."""
    frame = pd.DataFrame({"c": [1, 2, 3]})
    data = {"x": frame, "alice": ["a1", "a2"], "odd": np.array(5), "bob": ["b1", "b2"], "t": str}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        rows = Source(data, dpsu.Users(), dpsu.Items()).rows(KEY, with_repeats=False)
        (part,) = rows.parts
        users, items, _ = part()
    held = set(zip(users.to_pylist(), items.to_pylist(), strict=True))
    assert held == {("x", "c"), ("alice", "a1"), ("alice", "a2"), ("bob", "b1"), ("bob", "b2")}


def pairs_read(path: Path) -> list[tuple[Any, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        pairs = Source(path, dpsu.Users(), dpsu.Items()).pairs(KEY, with_repeats=False)
    users, items = pairs.users.values.to_pylist(), pairs.items.values.to_pylist()
    return [
        (users[user], items[item])
        for block in pairs.blocks
        for user, item in zip(block.users, block.items, strict=True)
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_row_is_too_long_by_its_own_length_wherever_it_begins(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is behind the first bytes of one that is too long is no row."""
    monkeypatch.setattr(delimited, "BLOCK", 64)
    monkeypatch.setattr(delimited, "LONGEST_ROW", 100)
    path = tmp_path / f"rows.{kind}"

    def line(user: str, item: str, length: int = 0) -> str:
        text = f"{user},{item}" if kind == "csv" else json.dumps({"user": user, "item": item})
        if length > 200:
            # What would be a row if it were one.
            forged = "f" * length + ",i" if kind == "csv" else " " * length + line("f", "i")
            return text.strip("}") + "," + forged
        return text + "#" * (length - len(text)) if kind == "csv" else f"{text:<{length}}"

    for before in range(150):
        for length in (60, 99, 100, 101, 130, 500):
            rows = ["user,item"] if kind == "csv" else []
            rows += [line("a", "i", 30)] * (before // 30) + [line("b", "i", 30 + before % 30)]
            rows += [line("odd", "i", length), line("c", "i")]
            for end in ("", "\n", "\r\n"):
                path.write_bytes((end or "\n").join(rows).encode() + end.encode())
                users = [user for user, _ in pairs_read(path)]
                assert ("odd" in users) == (length <= 100), (before, length, end)
                assert users.count("c") == 1, (before, length, end)
                assert set(users) <= {"a", "b", "c", "odd"}, (before, length, end)


def test_a_ragged_row_that_is_no_utf8_is_left_out_and_printed_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    for odd in (b"eve,secret\xff,more", b"\xffeve", b"eve,se\xffcret"):
        path.write_bytes(b"user,item\nann,caf\xc3\xa9\n,none\n" + odd + b"\nbob,\xc2\xa2\n")
        assert set(pairs_read(path)) == {("ann", "caf\u00e9"), ("bob", "\u00a2")}
    assert capfd.readouterr() == ("", "")


def test_a_file_is_read_once_by_whatever_names(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    (folder / ".ipynb_checkpoints").mkdir(parents=True)
    for name in ("a.csv", "b.csv", ".hidden.csv", ".ipynb_checkpoints/a-checkpoint.csv"):
        (folder / name).write_text(f"user,item\n{name},x\n")
    (tmp_path / "link.csv").symlink_to(folder / "a.csv")
    (tmp_path / "hard.csv").hardlink_to(folder / "b.csv")
    given: list[str | Path] = [
        folder,
        folder / "a.csv",
        f"{folder}/*.csv",
        tmp_path / "link.csv",
        tmp_path / "hard.csv",
    ]
    with pytest.warns(dpsu.DataWarning, match=r"hidden.csv', '.*a-checkpoint.csv'; to read one"):
        assert files.expand(given, note_hidden=files.warn_of_hidden) == [
            folder / "a.csv", folder / "b.csv"
        ]  # fmt: skip
    named = folder / ".hidden.csv"
    assert files.expand([named, folder]) == [named, folder / "a.csv", folder / "b.csv"]
    assert len(files.expand(given[1:])) == 2


def test_private_data_given_as_public_are_refused(tmp_path: Path) -> None:
    path, linked, hard = (tmp_path / name for name in ("d.csv", "linked.csv", "hard.csv"))
    path.write_text("user,item\n1,secret\n")
    linked.symlink_to(path)
    hard.hardlink_to(path)
    for public in (path, str(path), linked, hard):
        for option in ("public_items", "prior"):
            with pytest.raises(dpsu.ParameterError, match=f"{option} is the file of the conf"):
                flat.release(path, epsilon=1, delta=1e-6, mechanism="greedy", **{option: public})
    with path.open() as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "dpsu", "release", "-", "--epsilon", "1", "--delta", "1e-6",
             "--public-items", str(hard)],
            stdin=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "--public-items is the file of the confidential data" in done.stderr


def test_damaged_public_data_are_refused_as_such(tmp_path: Path) -> None:
    """Arrow reads names and texts that are not UTF-8, and fails where they are looked at."""
    path = tmp_path / "known.parquet"
    table = pa.table({"item": ["bread"], "holders": [1]})
    pa.parquet.write_table(table, path, compression="NONE", store_schema=False)
    whole = path.read_bytes()
    for part in (b"item", b"holders", b"bread"):
        path.write_bytes(whole.replace(part, b"\xed" + part[1:]))
        with pytest.raises(dpsu.DataError, match="is not a Parquet file, or it is damaged"):
            dpsu.plan(epsilon=1, delta=1e-6, public_items=path)
        with pytest.raises(dpsu.DataError, match="is not a Parquet file, or it is damaged"):
            dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.Greedy(prior=path))


def test_floats_that_are_no_integers_are_no_users() -> None:
    """Cut to integers, 1.2 and 1.7 would be one user."""
    table = pa.table({"user": [1.2, 1.7, 2.0, None], "item": ["a"] * 4})
    rows = Source(table, dpsu.Users(type="integer"), dpsu.Items()).rows(KEY, with_repeats=False)
    with pytest.warns(dpsu.DataWarning) as told:
        found = intern(rows)
    assert "not whole numbers" in str(told[0].message)
    assert found.users.values.to_pylist() == [2]
