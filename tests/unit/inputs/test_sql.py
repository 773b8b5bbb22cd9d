"""Queries give the release that their rows give, in streams, and say nothing of their values."""

from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpsu
from dpsu.inputs.reading import Source, wanted
from tests.contracts import doors
from tests.docs.test_docs import blocks
from tests.privacy.test_leaks import MARK, assert_clean, chain
from tests.support import flat, servers
from tests.support.examples import python, same_keys, shell
from tests.unit.inputs.test_inputs import SETTINGS, arrow, make_rows

ROOT = Path(__file__).resolve().parents[3]
KINDS = ["duckdb", "postgresql"]
NOON = datetime.datetime(2024, 2, 29, 12)
Sources = Callable[[str], str]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str | None]:
    with servers.postgres() as uri:
        if uri is not None:
            execute(uri, *statements("text"), *statements("int"), *LEAKY)
        yield uri


@pytest.fixture(scope="module")
def source(postgres: str | None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    file = tmp_path_factory.mktemp("sql") / "rows.db"
    with duckdb.connect(file) as connection:
        for statement in (*statements("text"), *statements("int"), *LEAKY):
            connection.execute(statement)

    def of(kind: str) -> str:
        if kind == "duckdb":
            return f"duckdb:{file}"
        if postgres is None:
            pytest.skip(servers.MISSING)
        return postgres

    return of


def execute(uri: str, *wanted: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in wanted:
            cursor.execute(statement)


def statements(kind: str) -> list[str]:
    type_ = "text" if kind == "text" else "bigint"
    rows = ", ".join(f"('{u}', '{i}')" for u, i in make_rows(kind))
    return [
        f'create table {kind}s ("user" {type_}, item {type_})',
        f"insert into {kind}s values {rows}",
    ]


LEAKY = [
    "create table leaky (person text, thing text, n bigint)",
    f"insert into leaky values ('{MARK} person', '{MARK} thing', 914), (null, '{MARK}', 0)",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_gives_the_release_of_its_rows(source: Sources, kind: str) -> None:
    for values, mechanism in (("text", "sieve"), ("int", "policy-gaussian"), ("text", "greedy")):
        query = dpsu.Query(source(kind), f'select item, 1 as n, "user" from {values}s -- all;\n')
        options = SETTINGS | {"mechanism": mechanism}
        expected = flat.release(arrow(make_rows(values)), **options)
        assert len(expected) > 3
        assert flat.release(query, **options).items == expected.items, (values, mechanism)
    nothing = dpsu.Query(source(kind), 'select "user", item from ints where false')
    with pytest.warns(dpsu.DataWarning):
        assert dpsu.release(nothing, epsilon=1, delta=1e-5).items == ()


@pytest.mark.parametrize("kind", KINDS)
def test_counts_texts_and_grams_of_a_query(source: Sources, kind: str) -> None:
    rows = make_rows("text")
    grouped = 'select "user", item, count(*) as n from texts group by 1, 2'
    options = SETTINGS | {"mechanism": "greedy"}
    found = flat.release(dpsu.Query(source(kind), grouped), count="n", **options)
    assert found.items == flat.release(arrow(rows), **options).items
    told = dpsu.Query(source(kind), "select \"user\", item || ' again' as body from texts")
    table = pa.table({"user": [u for u, _ in rows], "body": [f"{i} again" for _, i in rows]})
    words = flat.release(told, text="body", ngrams="1-2", **SETTINGS)
    assert len(words) > 3
    assert words.items == flat.release(table, text="body", ngrams="1-2", **SETTINGS).items
    grams = flat.ngrams(told, text="body", longest=2, **SETTINGS)
    assert grams.items == flat.ngrams(table, text="body", longest=2, **SETTINGS).items


@pytest.mark.slow
def test_a_server_that_stops_in_the_middle_is_named() -> None:
    with servers.postgres() as uri:
        if uri is None:
            pytest.skip(servers.MISSING)
        many = "select i::text as u, 'x' as i from generate_series(1, 30000000) i"
        tables = dpsu.Query(uri, many)._tables(wanted(dpsu.Users("u"), dpsu.Items("i")))
        assert len(next(tables)()) == 0
        assert len(next(tables)()) > 0
    with pytest.raises(dpsu.DataError, match="server went away"):
        sum(len(read()) for read in tables)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_streamed(source: Sources, kind: str) -> None:
    """Ten times the result must not need more memory than the few batches that are under way."""
    numbers = "range(1, {n}) t(i)" if kind == "duckdb" else "generate_series(1, {n}) i"
    code = (
        "import os, resource, sys, dpsu, pyarrow\n"
        "from dpsu.inputs.reading import wanted\n"
        "query = dpsu.Query(os.environ['SOURCE'], sys.argv[1])\n"
        "sizes = [len(read()) for read in query._tables(wanted(dpsu.Users('u'), dpsu.Items('i')))]\n"
        "print(len(sizes), sum(sizes), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for rows in (500_000, 5_000_000):
        counted = numbers.format(n=rows)
        wanted = f"select 'somebody ' || i as u, 'a long item ' || i as i from {counted}"
        done = subprocess.run(
            [sys.executable, "-c", code, wanted], capture_output=True, text=True, check=True,
            env=os.environ | {"SOURCE": source(kind)}, timeout=300,
        )  # fmt: skip
        batches, total, peak = map(int, done.stdout.split())
        assert batches > 2
        assert total >= rows - 1
        peaks.append(peak)
    # The result of the second is about 200 MB.
    assert peaks[1] - peaks[0] < 80_000


WRONG = [
    ("selec person, thing from leaky", "ParameterError", "query: "),
    ("select person, thing from nowhere", "ParameterError", "there is no table"),
    ("select person, thing, nothing from leaky", "ParameterError", "there is no column"),
    ("select person, n from leaky", "ParameterError", "there is no column 'thing' in the query"),
    ("select person, thing, 1 as thing from leaky", "ParameterError", "column"),
    ("select person, cast(thing as integer) as thing from leaky", "DataError", "failed while"),
    ("select person, cast(person as date) as thing from leaky", "DataError", "failed while"),
    ("select person, thing from leaky; select 1", "ParameterError", "one SELECT"),
    ("delete from leaky", "ParameterError", "one SELECT"),
    ("create table other (n int)", "ParameterError", "one SELECT"),
    ("copy leaky to '{folder}/written.csv'", "ParameterError", "one SELECT"),
    ("select person, cast(0.5 as float8) as thing from leaky", "DataError", "has type double"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_errors_name_the_mistake_and_no_value(source: Sources, kind: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for query, type_, words in WRONG:
        given = dpsu.Query(source(kind), query.format(folder=tmp_path))
        with pytest.raises(dpsu.DpsuError) as caught:
            dpsu.release(given, user="person", item="thing", epsilon=1, delta=1e-5)
        assert isinstance(caught.value, getattr(dpsu, type_)), query
        assert words in str(caught.value), query
        assert_clean(chain(caught.value))
        assert caught.value.__context__ is None, query
        assert list(tmp_path.iterdir()) == [], query
        assert rows_of_leaky(source(kind)) == 2, query


def rows_of_leaky(uri: str) -> int:
    read = dpsu.Query(uri, "select person, thing from leaky")._tables(
        wanted(dpsu.Users("person"), dpsu.Items("thing"))
    )
    return sum(len(table()) for table in read)


def test_passwords_are_told_to_nobody(source: Sources, capfd: Any) -> None:
    uri = source("postgresql")
    wrong = uri.replace(servers.PASSWORD, f"{MARK}wrong")
    elsewhere = uri.replace("127.0.0.1", "127.0.0.1:1").partition("/postgres")[0]
    for broken in (wrong, elsewhere, f"postgresql://{MARK}:{MARK}@[::1/x?password={MARK}"):
        query = dpsu.Query(broken, "select 1")
        assert_clean(repr(query) + str(query) + query.shown)
        with pytest.raises(dpsu.DataError, match="cannot connect") as caught:
            dpsu.release(query, epsilon=1, delta=1e-5)
        assert_clean(chain(caught.value))
    asked = ("--source", uri, "--query", 'select "user", item from texts')
    done = command("release", *asked, "--epsilon", "2", "--delta", "1e-4", "--verbose")
    assert done.returncode == 0
    for secret in (MARK, f"{servers.OWNER}:"):
        assert secret not in done.stdout + done.stderr


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpsu", *arguments],
        capture_output=True, check=False, text=True, timeout=300,
    )  # fmt: skip


def test_queries_in_the_shell(source: Sources) -> None:
    given = ("--epsilon", "2", "--delta", "1e-6", "--mechanism", "weighted-gaussian", "--quiet")
    asked = ("--source", source("duckdb"), "--query", "select person, thing from (select range as "
             "person from range(300)), (values ('bread'), ('milk')) t(thing)")  # fmt: skip
    done = command("release", *asked, "--user", "person", "--item", "thing", *given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bread\nmilk\n", "")
    said = ("--user", "person", "--text", "thing", "--longest", "1", *given[:4], "--quiet")
    assert command("ngrams", *asked, *said).stdout == "bread\nmilk\n"
    for arguments, words in (
        ((), "Missing argument"),
        (asked[:2], "go together"),
        (("x.csv", *asked), "not both"),
        (("--source", "mysql://x", "--query", "select 1"), "source must be"),
        (("--source", "duckdb:nowhere.db", "--query", "select 1"), "there is no file"),
    ):
        done = command("release", *arguments, *given)
        assert done.returncode == 2
        assert words in done.stderr


def test_what_cannot_be_queried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("", f"http://{MARK}", "duckdb", None):
        with pytest.raises(dpsu.ParameterError, match="source must be") as caught:
            dpsu.Query(source, "select 1")  # type: ignore[arg-type]
        assert_clean(chain(caught.value))
    with pytest.raises(dpsu.ParameterError, match="query is empty"):
        dpsu.Query("duckdb:x.db", "  ")
    (tmp_path / "false.db").write_text(f"{MARK}\n" * 1000)
    with pytest.raises(dpsu.DataError, match="cannot be opened") as failed:
        dpsu.release(dpsu.Query(f"duckdb:{tmp_path}/false.db", "select 1"), epsilon=1, delta=1e-5)
    assert_clean(chain(failed.value))
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(dpsu.MissingLibraryError, match=r"dpsu\[postgres\]"):
        dpsu.release(dpsu.Query("postgresql://x/y", "select 1"), epsilon=1, delta=1e-5)


def test_the_examples_of_the_guide_run(
    source: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = ROOT / "docs" / "guides" / "sql.md"
    with duckdb.connect(tmp_path / "shop.db") as shop:
        shop.execute(
            "create table visits as select range // 2 as person, 'bread' as product from range(600)"
        )
    monkeypatch.chdir(tmp_path)
    same_keys(monkeypatch)
    first, second = blocks(guide, "sh")
    shell(first, tmp_path)
    assert Path("items.txt").read_text() == "bread\n"
    query, model = (python([code], "sql.md") for code in blocks(guide, "python"))
    assert query["result"].items == ("bread",)
    assert callable(model["model"])
    uri = source("postgresql")
    execute(
        uri,
        "create table visits as select gen_random_uuid() as person_id, 'milk' as product, 2025 as "
        "year from generate_series(1, 300)",
    )
    shell(second.replace("postgresql://analyst@db.example.org/shop", f"'{uri}'"), tmp_path)
    assert Path("items.txt").read_text() == "milk\n"


# Those that all databases have are in the table of the guide on columns, which tests/contracts tries.
TYPES: dict[str, dict[str, tuple[str, str, Any]]] = {
    "duckdb": {
        "hugeint": ("7::hugeint", "decimal128(38, 0)", decimal.Decimal(7)),
        "array": ("array_value('a', 'a')", "text", "a"),
        "timestamp_ns": ("'2024-02-29'::timestamp_ns", "timestamp[ns]", NOON.replace(hour=0)),
    },
    "postgresql": {
        "numeric": ("1.50::numeric(10, 2)", "text", "1.5"),
        "inet": ("'1.2.3.4'::inet", "text", "1.2.3.4/32"),
        "enums": ("array['x']::mood[]", "text", "x"),
    },
}
INSTANT = (
    "timestamptz '2024-02-29 14:00:00+02'", "timestamp", NOON.replace(tzinfo=datetime.UTC),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_types_of_databases_are_users_and_items(kind: str, source: Sources) -> None:
    uri = source(kind)
    if kind == "postgresql":
        execute(uri, "create type mood as enum ('x', 'y')")
    settings: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "weighted-gaussian"}
    people = 'select n % 300 as "user", {} as item from generate_series(0, 599) as numbers(n)'
    for name, (cell, type_, value) in ({"timestamptz": INSTANT} | TYPES[kind]).items():
        query = dpsu.Query(uri, people.format(cell))
        released = dpsu.release(query, **settings)
        assert released.items == (value,), name
        assert str(released.values.type).replace("large_string", "text").startswith(type_), name
        if name not in ("array", "enums"):
            # All rows are one user's, who has no weight to publish anything.
            one = dpsu.release(query, user="item", item="user", **settings)
            assert one.items == (), name
    pairs = dpsu.Query(uri, people.format("'fr' as country, date '2024-02-29'"))
    released = dpsu.release(pairs, item=["country", "item"], **settings)
    assert released.items == (("fr", NOON.date()),)


# Cells of types of PostgreSQL, of which each is a row of its own.
ODD_CELLS = {
    "text[]": [
        "array['a', null]", "'[5:6]={x,y}'", "'[-2:-1]={x,y}'", "'[5:6][7:8]={{x,y},{z,w}}'",
        "array[['a', 'b', 'c'], ['d', 'e', 'f'], ['g', 'h', 'i']]", "'{}'", "null",
    ],
    "int[]": ["'[0:1]={5,6}'", "'[3:3]={7}'", "array[1, 2]"],
    "int2vector": ["'1 2'", "'3'"],
    "numeric[]": ["array[1.5]", "'[2:3]={NaN,Infinity}'"],
    "varying": ["array['a']", "'[5:6]={x,y}'"],
    "timestamp": ["'infinity'", "'-infinity'", "'294276-12-31'", "'4713-01-01 BC'", "'2024-02-29'"],
    "date": ["'infinity'", "'-infinity'", "'5874897-12-31'", "'2024-02-29'"],
    "time": ["'24:00:00'", "'12:00'"],
    "numeric": ["'NaN'", "'Infinity'", "1e-1000", "1.50"],
    '"char"': [r"'\377'", "''", "'a'"],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_rows_of_postgresql_are_read_by_themselves(source: Sources) -> None:
    uri = source("postgresql")
    execute(uri, "create domain varying as text[]")

    def read(type_: str, cells: list[tuple[int, str]]) -> doors.Read:
        rows = ", ".join(f"({user}, ({cell})::{type_})" for user, cell in cells)
        query = dpsu.Query(uri, f'select * from (values {rows}) as rows("user", item)')
        return doors.pairs_of(Source(query, dpsu.Users(), dpsu.Items()))

    for type_, listed in ODD_CELLS.items():
        cells = list(enumerate(listed))
        alone: doors.Read = sum((read(type_, [cell]) for cell in cells), Counter())
        assert alone, type_
        assert read(type_, cells) == alone, type_
    assert read("text[]", [(1, "'[5:6]={x,y}'")]) == {("1", "x", 1): 1, ("1", "y", 1): 1}


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_texts_of_postgresql_that_are_equal_are_one_user(source: Sources) -> None:
    cells = {
        "bpchar": ["'Ann'", "'Ann  '"], "char(5)": ["'Ann'", "'Ann  '"],
        "bpchar[]": ["array['Ann']", "array['Ann ']"],
    }  # fmt: skip
    for type_, (one, other) in cells.items():
        rows = f"(values (1, {one}::{type_}), (2, {other}::{type_})) as rows(a, b)"
        query = dpsu.Query(source("postgresql"), f"select * from {rows}")
        read = doors.pairs_of(Source(query, dpsu.Users("a"), dpsu.Items("b")))
        assert read == {("1", "Ann", 1): 1, ("2", "Ann", 1): 1}, type_


# Types of which texts that differ are equal.
COLLATED = {
    "duckdb": [
        "'Ann' collate nocase", "'Ann' collate noaccent", "'Ann' collate de",
        "['x', 'Ann' collate nocase]", "{'a': 1, 'b\"c': ['Ann' collate noaccent.nocase]}",
        "{'a': 'x', 'b': 'Ann' collate nocase}", "array_value('x', 'Ann' collate nocase)",
    ],
    "postgresql": [
        "'Ann' collate alike", "'Ann'::citext", "'Ann'::who", "array['Ann' collate alike]",
        "array['Ann'::citext]", "array['Ann'::anyone]", "row('Ann', 1)::spelled",
        "row(row('Ann', 1), 'x')::nested", "row('Ann')::padded", "array['Ann'::who]",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_columns_with_a_collation_are_refused(kind: str, source: Sources) -> None:
    uri = source(kind)
    if kind == "postgresql":
        alike = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
        execute(
            uri, "create extension citext", f"create collation alike ({alike})",
            "create domain who as text collate alike", "create domain anyone as citext",
            "create type spelled as (a text collate alike, b int)",
            "create type nested as (a spelled, b text)", "create type padded as (a bpchar)",
        )  # fmt: skip
    settings: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "weighted-gaussian"}
    for cell in COLLATED[kind]:
        rows = f'select n % 300 as "user", 1 as a, {cell} as item from generate_series(0, 599) as numbers(n)'
        query = dpsu.Query(uri, rows)
        for data in [query, duckdb.sql(rows)] if kind == "duckdb" else [query]:
            for columns in ({}, {"item": ["a", "item"]}, {"user": "item", "item": "user"}):
                with pytest.raises(dpsu.DataError, match=r"'item' has .* select \w+\(") as caught:
                    dpsu.release(data, **settings | columns)
        if cell[0] == "'":
            fix = str(caught.value).rpartition(": ")[2]
            cured = dpsu.Query(uri, f'{fix}, "user" from ({rows}) as rows')
            kept = "Ann" if cell.endswith(("noaccent", "de")) else "ann"
            assert dpsu.release(cured, **settings).items == (kept,), cell
            # Of a column that is not read it does not matter.
            unread = dpsu.Query(
                uri, f"select item as other, 'x' as item, \"user\" from ({rows}) as rows"
            )
            assert dpsu.release(unread, **settings).items == ("x",), cell
