"""A release in SQL is charged once for a statement that runs, and never for one that is planned."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpsu
import dpsu.duckdb
from tests.docs.test_docs import ROOT, blocks
from tests.privacy.test_leaks import MARK, assert_clean, chain

ROWS = "select person, product from visits"
OPTIONS = "epsilon := 1, delta := 1e-6, mechanism := 'sieve'"
CALL = f"dpsu_release('{ROWS}', {OPTIONS})"
PRODUCTS = [("bread",), ("milk",)]


class Shop:
    """A database in which two products are bought by everybody, and a ledger."""

    def __init__(self, folder: Path, connection: Any) -> None:
        self.ledger = dpsu.Ledger(folder / "ledger.db")
        self.connection = connection
        connection.execute(
            "create table visits as select range // 2 as person, "
            "if(range % 2 = 0, 'bread', 'milk') as product from range(2000)"
        )

    @property
    def spending(self) -> Any:
        return self.ledger.dataset("visits", budget=(20, 1e-4))

    @property
    def charges(self) -> int:
        return len(self.ledger.account("visits").releases) if self.ledger.path.exists() else 0

    def ask(self, statement: str, *more: Any) -> list[Any]:
        rows: list[Any] = self.connection.execute(statement, *more).fetchall()
        return rows

    def charges_of(self, statement: str, *more: Any) -> int:
        before = self.charges
        self.ask(statement, *more)
        return self.charges - before

    def refused(self, statement: str, match: str, charged: int = 0) -> str:
        before = self.charges
        with pytest.raises(duckdb.Error, match=match) as caught:
            self.ask(statement)
        assert self.charges == before + charged
        assert_clean(chain(caught.value))
        return str(caught.value)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with duckdb.connect() as connection:
        made = Shop(tmp_path, connection)
        dpsu.duckdb.register(connection, ledger=made.spending)
        yield made


def test_a_statement_releases_and_is_charged(shop: Shop) -> None:
    assert sorted(shop.ask(f"select * from {CALL}")) == PRODUCTS
    (entry,) = shop.ledger.account("visits").releases
    assert (entry.state, entry.mechanism) == ("done", "sieve")
    assert shop.ledger.account("visits").spent.sums.epsilon == 1
    assert shop.charges_of(f"create table released as select * from {CALL}") == 1
    assert shop.charges_of("select * from released a, released b") == 0
    given = ("select * from dpsu_release(?, epsilon := ?, delta := ?)", [ROWS, 1, 1e-6])
    assert shop.charges_of(*given) == 1


@pytest.mark.parametrize(
    "statement",
    [
        f"explain select * from {CALL}",
        f"explain create table released as select * from {CALL}",
        f"prepare released as select * from {CALL}",
        f"describe select * from {CALL}",
        f"create view released as select * from {CALL}",
        f"create macro released() as table select * from {CALL}",
        f"select * from {CALL} limit 0",
        f"select * from {CALL} where false",
    ],
)
def test_what_is_planned_and_not_run_spends_nothing(shop: Shop, statement: str) -> None:
    assert shop.charges_of(statement) == 0


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (None, f"explain analyze select * from {CALL}"),
        (f"prepare released as select * from {CALL}", "execute released"),
        (f"create view released as select * from {CALL}", "select * from released"),
        (None, f"select count(*) from {CALL}"),
        (None, f"select product, product || '!' from {CALL} where product > 'a' order by 1"),
        (None, f"select * from range(3), {CALL} as released"),
        (None, f"select range, (select count(*) from {CALL}) from range(3)"),
        (None, f"select * from range(3) where exists (select * from {CALL})"),
        (None, f"select dpsu_release.product from {CALL} as dpsu_release -- dpsu_release("),
        (None, f"with r as materialized (select * from {CALL}) select * from r a, r b"),
    ],
)
def test_what_runs_is_charged_once(shop: Shop, before: str | None, statement: str) -> None:
    if before is not None:
        assert shop.charges_of(before) == 0
    assert shop.charges_of(statement) == 1


def test_every_look_at_a_relation_is_charged(shop: Shop) -> None:
    relation = shop.connection.sql(f"select * from {CALL}")
    assert (relation.columns, shop.charges) == (["product"], 0)
    assert (sorted(relation.fetchall()), shop.charges) == (PRODUCTS, 1)
    assert ("bread" in str(relation), shop.charges) == (True, 2)


@pytest.mark.parametrize(
    "statement",
    [
        f"select * from {CALL} a, {CALL} b",
        f"select * from {CALL} union all select * from {CALL}",
        f"""select * from {CALL} union all select * from "DPSU_Release"  ('{ROWS}', {OPTIONS})""",
    ],
)
def test_two_calls_in_a_statement_are_refused_before_the_first_is_charged(
    shop: Shop, statement: str
) -> None:
    shop.refused(statement, "second call of dpsu_release in one statement")
    assert shop.charges_of(f"select * from {CALL}") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "select * from released a, released b",
        "select * from released a join released b using (product)",
        "select * from released union all select * from released",
    ],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_view_is_called_once_in_a_statement(shop: Shop, statement: str, threads: int) -> None:
    shop.ask(f"set threads = {threads}")
    shop.ask(f"create view released as select * from {CALL}")
    shop.refused(statement, "second call of dpsu_release in one statement", charged=1)
    assert shop.charges_of("select * from released") == 1


def hidden(shop: Shop) -> str:
    """The function behind the macro."""
    found = "select function_name from duckdb_functions() where function_name like 'dpsu_release_%'"
    ((name,),) = shop.ask(found)
    return str(name)


def test_a_constant_call_is_not_computed_while_it_is_planned(shop: Shop) -> None:
    """In the macro, the number of the statement is no constant to newer versions of DuckDB."""
    told = {
        "query": ROWS, "epsilon": 1, "delta": 1e-6, "mechanism": "sieve", "counts": False,
        "once": None, "types": "STRUCT(product VARCHAR)[]", "temporary": None,
        "database": "memory", "schema": "main", "schemas": [], "macros": None,
        "statement": 0, "text": "",
    }  # fmt: skip
    call = f"select {hidden(shop)}('{json.dumps(told)}')"
    assert shop.charges_of(f"explain {call}") == 0
    assert shop.charges_of(f"prepare released as {call}") == 0
    assert shop.charges_of("execute released") == 1


def test_calls_for_each_row_are_refused(shop: Shop) -> None:
    rows = "(values ('a'), ('c')) as t(name)"
    each = f"(select count(*) from {CALL} r where r.product < t.name)"
    # Older versions of DuckDB call it once for all rows.
    with contextlib.suppress(duckdb.InvalidInputException):
        shop.ask(f"select {each} from {rows}")
        assert duckdb.__version__ < "2"
    assert shop.charges == (duckdb.__version__ < "2")
    of_row = f"dpsu_release('{ROWS} where product = ''' || name || '''', {OPTIONS})"
    shop.refused(f"select * from {rows}, lateral (select * from {of_row}) s", "only supports lit")
    shop.refused(f"select {hidden(shop)}(name) from {rows}", "second call")


def test_a_call_inside_of_a_call_is_refused(shop: Shop) -> None:
    """The number of a statement does not tell, as the inner query is one of its own."""
    shop.ask("""create table told as select '{"statement": 0, "text": ""}' as told""")
    inner = f"select range as person, {hidden(shop)}(told) as product from told, range(1)"
    shop.refused(f"select * from dpsu_release('{inner}', {OPTIONS})", "query failed", charged=1)


def test_options_are_constants(shop: Shop) -> None:
    """A price that is computed from rows would tell of them."""
    for option, value in (("epsilon", "1"), ("mechanism", "'sieve'"), ("once", "'a'")):
        others = [f"{o} := {v}" for o, v in (("epsilon", 1), ("delta", 1e-6)) if o != option]
        given = ", ".join([*others, f"{option} := (select any_value({value}) from visits)"])
        shop.refused(f"select * from dpsu_release('{ROWS}', {given})", "cannot contain subqueries")
    query = "(select any_value('select person, product from visits') from visits)"
    shop.refused(f"select * from dpsu_release({query}, {OPTIONS})", "cannot contain subqueries")


def test_a_release_needs_a_ledger() -> None:
    connection = duckdb.connect()
    with pytest.raises(dpsu.ParameterError, match=r"ledger is missing.*dataset.*once := "):
        dpsu.duckdb.register(connection)
    with pytest.raises(dpsu.ParameterError, match="needs the name"):
        dpsu.duckdb.register(connection, ledger=dpsu.Ledger("ledger.db"))  # type: ignore[arg-type]
    with pytest.raises(duckdb.CatalogException):
        connection.execute(f"select * from {CALL}")


def test_what_cannot_be_registered_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db").dataset("visits", budget=(3, 1e-5))
    connection = duckdb.connect()
    register: Any = dpsu.duckdb.register
    wrong: Any
    for wrong, match in [
        ({"name": "a b"}, "name='a b' must be letters"),
        ({"plan": "sieve"}, "plan is a str"),
        ({"strict": 2}, "strict"),
        ({"memory_limit": "much"}, "memory_limit"),
    ]:
        with pytest.raises(dpsu.ParameterError, match=match):
            register(connection, ledger=ledger, **wrong)
    with pytest.raises(dpsu.ParameterError, match=r"connection is a str; give what duckdb.connect"):
        register("shop.db", ledger=ledger)
    monkeypatch.setattr(dpsu.duckdb, "NEEDED", ("current_query_id", "of_a_later_version"))
    with pytest.raises(dpsu.MissingLibraryError, match=r"DuckDB 1\.3"):
        register(connection, ledger=ledger)


def test_a_budget_is_a_budget(shop: Shop) -> None:
    small = shop.ledger.dataset("small", budget=(1.5, 1e-5))
    dpsu.duckdb.register(shop.connection, ledger=small, name="release_small")
    call = f"select * from release_small('{ROWS}', {OPTIONS})"
    shop.ask(call)
    with pytest.raises(duckdb.Error, match="BudgetError"):
        shop.ask(call.replace("epsilon := 1", "epsilon := 1.5"))
    assert len(shop.ledger.account("small").releases) == 1


def test_a_name_is_charged_once(shop: Shop) -> None:
    named = f"select * from dpsu_release('{ROWS}', {OPTIONS}, once := 'monday')"
    assert shop.charges_of(named) == 1
    shop.ask("delete from visits")
    assert shop.charges_of(named) == 0
    assert sorted(shop.ask(named)) == PRODUCTS
    shop.refused(named.replace("epsilon := 1", "epsilon := 2"), "by another plan")
    tuesday = shop.ledger.dataset("visits", once="tuesday")
    dpsu.duckdb.register(shop.connection, ledger=tuesday)
    shop.refused(named, "once='tuesday'; drop it in one of the places")
    shop.ask("insert into visits select range // 2, 'tea' from range(2000)")
    assert shop.charges_of(f"select * from {CALL}") == 1
    shop.ask("delete from visits")
    assert (shop.ask(f"select * from {CALL}"), shop.charges) == ([("tea",)], 2)


def test_types_come_back_as_they_are(shop: Shop) -> None:
    values = {
        "texts": "'a \"quoted\" \\ {text}, [NULL] ''é ' || chr(0)",
        "empty": "'NULL'",
        "yes": "true",
        "tiny": "(-5)::tinyint",
        "huge": "9223372036854775807::hugeint",
        "large": "9223372036854775807::ubigint",
        "day": "date '2024-02-29'",
        "noon": "timestamp '2024-02-29 12:00:00.123456'",
        "second": "timestamp_s '2024-02-29 12:00:00'",
        "nano": "timestamp_ns '2024-02-29 12:00:00.123456789'",
        "instant": "timestamptz '2024-02-29 12:00:00+02'",
        "hour": "time '12:00:01.5'",
        "price": "12345678901234567890.1234567891::decimal(38, 10)",
        "id": "uuid '12345678-1234-1234-1234-123456789012'",
        "bytes": "'\\x00\\xFFab'::blob",
        "kind": "'x'::enum ('x', 'y')",
        'odd "name"': "1",
    }
    selected = ", ".join(
        '{} as "{}"'.format(value, name.replace('"', '""')) for name, value in values.items()
    )
    shop.ask("set timezone = 'America/St_Johns'")
    query = f"select person, {selected} from visits".replace("'", "''")
    released = shop.connection.sql(f"select * from dpsu_release('{query}', {OPTIONS})")
    expected = shop.connection.sql(f"select {selected}")
    assert (released.columns, released.types) == (expected.columns, expected.types)
    assert table_of(released).equals(table_of(expected))


def table_of(relation: Any) -> pa.Table:
    """The rows of a relation; other versions of DuckDB have the second name only."""
    name = "to_arrow_table" if hasattr(relation, "to_arrow_table") else "fetch_arrow_table"
    table: pa.Table = getattr(relation, name)()
    return table


def test_columns_may_be_called_like_parts_of_the_macro(shop: Shop) -> None:
    names = ["query", "once", "counts", "row", "rows", "key", "types", "texts", "released", "user"]
    values = ", ".join(f'{place} as "{name}"' for place, name in enumerate(names))
    call = f"select * from dpsu_release('select person, {values} from visits'"
    expected = (names, [tuple(range(len(names)))])
    asked = shop.connection.sql(f"{call}, {OPTIONS})")
    assert (asked.columns, asked.fetchall()) == expected
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve", user="person", item=names)
    dpsu.duckdb.register(shop.connection, ledger=shop.spending, plan=plan)
    asked = shop.connection.sql(f"{call})")
    assert (asked.columns, asked.fetchall()) == expected


def test_noisy_counts_are_a_further_column(shop: Shop) -> None:
    for query in (ROWS, f"{ROWS} ;\n", f"{ROWS} -- all"):
        call = f"dpsu_release('{query}', {OPTIONS}, counts := true)"
        asked = shop.connection.sql(f"select * from {call} where noisy_users > 300")
        assert list(map(str, asked.types)) == ["VARCHAR", "BIGINT"]
        assert sorted(row[:1] for row in asked.fetchall()) == PRODUCTS


def test_an_empty_release_has_columns_too(shop: Shop) -> None:
    query = "select person, person::varchar as alone, date ''2024-02-29'' as day from visits"
    asked = shop.connection.sql(f"select * from dpsu_release('{query}', {OPTIONS})")
    with pytest.warns(dpsu.DataWarning, match=r"^0 items released by sieve"):
        assert (asked.columns, asked.fetchall()) == (["alone", "day"], [])


def test_an_empty_release_says_what_an_item_needed(shop: Shop) -> None:
    """And which column was taken for the person, as it is the first one."""
    query = "select ''NL'' as country, product, person from visits"
    with pytest.warns(dpsu.DataWarning) as caught:
        rows = shop.ask(f"select * from dpsu_release('{query}', {OPTIONS})")
    (told,) = caught
    needed = r"needs .* users.*, to be released with probability .* says what to do\. "
    taken = "The person was taken from country, the item from product, person.$"
    assert re.search(needed + taken, str(told.message))
    assert rows == []
    plan = dpsu.Plan.from_json(shop.ledger.account("visits").releases[-1].plan or "")
    assert (plan.user.name, plan.item.names) == ("country", ("product", "person"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop.ask(f"select * from {CALL}")


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ("select person, [product] as several from visits", "'several' is a list"),
        ("select person, {'a': product} as fields from visits", "'fields' is a struct"),
        ("select person, product, product from visits", "would be called 'product'"),
        ("select person, product, 1 as PERSON from visits", "would be called 'PERSON'"),
        ("select person, product, 1 as noisy_users from visits", "would be called 'noisy_users'"),
        ("select person, 0.5::double as half from visits", "'half' has type double"),
        ("select person, timetz '12:00:00+01' as hour from visits", "TIME WITH TIME ZONE"),
        ("select person, '0101'::bit as bits from visits", "'bits' has type BIT"),
        ("select person from visits", "first column is the person, the others .* has 1 column"),
        ("show tables", "first column is the person, the others .* has 1 column"),
        ("select person, other from visits", "other"),
        ("select person, product from nowhere", "nowhere"),
        ("delete from visits", "Expected a single SELECT"),
        ("select 1; select 2", "Expected a single SELECT"),
    ],
)
def test_what_the_columns_say_is_wrong_costs_nothing(shop: Shop, query: str, match: str) -> None:
    typed = query.replace("'", "''")
    counts = ", counts := true" if "noisy_users" in query else ""
    shop.refused(f"select * from dpsu_release('{typed}', {OPTIONS}{counts})", match)


def test_counts_are_true_or_false(shop: Shop) -> None:
    call = f"select * from dpsu_release('{ROWS}', {OPTIONS}, counts := {{}})"
    shop.refused(call.format("'false'"), "counts='false' is neither True nor False")
    assert sorted(shop.ask(call.format("NULL"))) == PRODUCTS


def test_users_may_have_several_columns(shop: Shop) -> None:
    query = "select {''site'': person % 2, ''visitor'': person // 2} as who, product from visits"
    assert sorted(shop.ask(f"select * from dpsu_release('{query}', {OPTIONS})")) == PRODUCTS


def test_a_plan_names_the_columns_and_decides_the_rest(shop: Shop) -> None:
    counted = dpsu.plan(
        epsilon=1, delta=1e-6, mechanism=dpsu.Sieve(rounds=6), user="person",
        item=["product", "day"], counts=True,
    )  # fmt: skip
    dpsu.duckdb.register(shop.connection, ledger=shop.spending, plan=counted)
    query = "select date ''2024-02-29'' as day, product, 0 as more, person from visits"
    asked = shop.connection.sql(f"select * from dpsu_release('{query}')")
    assert asked.columns == ["product", "day", "noisy_users"]
    assert sorted(row[:1] for row in asked.fetchall()) == PRODUCTS
    assert shop.ledger.account("visits").releases[-1].plan_hash == counted.hash
    shop.refused(f"select * from dpsu_release('{query}', epsilon := 1)", "once := NULL")
    shop.refused(f"select * from dpsu_release('{ROWS}')", "day")
    texts = dpsu.plan(
        epsilon=1, delta=1e-6, mechanism="sieve", user="person",
        item=dpsu.Tokens("body", tokenizer="regex:[a-z]+", name="word"),
    )  # fmt: skip
    dpsu.duckdb.register(shop.connection, ledger=shop.spending, plan=texts)
    query = "select person, ''fresh '' || product as body from visits"
    words = shop.connection.sql(f"select * from dpsu_release('{query}') order by word")
    assert words.fetchall() == [("bread",), ("fresh",), ("milk",)]


def test_a_transaction_that_is_rolled_back_takes_no_charge_back(shop: Shop) -> None:
    shop.ask("begin")
    shop.ask(f"create table released as select * from {CALL}")
    assert shop.charges_of(f"select * from {CALL}") == 1
    shop.ask("rollback")
    assert shop.charges == 2
    with pytest.raises(duckdb.CatalogException):
        shop.ask("select * from released")


def test_what_the_query_would_not_see_is_refused(shop: Shop) -> None:
    """It runs beside the statement; a table of the same name must not take another's place."""
    call = f"select * from dpsu_release('select person, product from {{}}', {OPTIONS})"
    shop.ask("create temp table mine as select * from visits")
    shop.refused(call.format("mine"), "connection of its own")
    shop.ask("create temp view VISITS as select person, 'other' as product from mine")
    for name in ("visits", "query_table('visits')", "query_table(['visits'])"):
        shop.refused(call.format(name.replace("'", "''")), "connection of its own")
    shop.ask("drop view temp.visits")
    for where in ("", "temp"):
        shop.ask(f"create {where} macro bought() as table select person, product from main.visits")
    shop.refused(call.format("bought()"), "connection of its own")
    shop.ask("drop macro table temp.bought")
    assert shop.charges_of(call.format("bought()")) == 1
    shop.ask("create schema other; create table other.visits as select 1 as person, 'a' as product")
    shop.ask("create schema bare; set search_path = 'bare,other'")
    shop.refused(call.format("visits"), "connection of its own")
    shop.ask("set search_path = 'main'")
    before = shop.charges
    shop.connection.register("frame", pa.table({"person": [1], "product": ["a"]}))
    shop.refused(call.format("frame"), "connection of its own")
    shop.ask("begin")
    shop.ask("create table fresh as select * from visits")
    shop.refused(call.format("fresh"), "connection of its own")
    shop.ask("rollback")
    cursor = pa.table({"person": [1], "product": ["a"]})
    with pytest.raises(duckdb.Error, match="connection of its own"):
        # Found among the variables here, and not among those of whoever runs the query.
        shop.connection.execute(call.format("cursor"))
    assert (len(cursor), shop.charges) == (1, before)


def test_no_error_holds_a_value(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.ask(f"create table marked as select '{MARK}' as person, '{MARK} item' as product")
    broken = "select person, product::integer as product from marked"
    shop.refused(f"select * from dpsu_release('{broken}', {OPTIONS})", "cannot be conv", charged=1)

    def defect(*given: Any, **options: Any) -> None:
        raise KeyError(MARK)

    monkeypatch.setattr(dpsu.duckdb, "release", defect)
    shop.refused(f"select * from {CALL}", r"unexpected KeyError at test_duckdb.py:\d+; this is a d")

    def exhausted(*given: Any, **options: Any) -> None:
        raise MemoryError(MARK)

    monkeypatch.setattr(dpsu.duckdb, "release", exhausted)
    shop.refused(f"select * from {CALL}", "there is not enough memory")


@pytest.mark.parametrize(
    "broken",
    [
        "select person, product::integer as product from marked",
        "select person, error('leak ' || product) as product from marked",
        "with v as materialized (select person, product::integer as product from marked) from v",
    ],
)
@pytest.mark.parametrize("with_plan", [False, True])
def test_nothing_is_read_before_the_charge_without_the_optimizer(
    shop: Shop, broken: str, with_plan: bool
) -> None:
    """The macro mentions the query for its types: rows read there would stand in DuckDB's error."""
    shop.ask(f"create table marked as select '{MARK}' as person, '{MARK} item' as product")
    options = f", {OPTIONS}"
    if with_plan:
        plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve", user="person", item="product")
        dpsu.duckdb.register(shop.connection, ledger=shop.spending, plan=plan)
        options = ""
    shop.ask("pragma disable_optimizer")
    typed = broken.replace("'", "''")
    call = f"select * from dpsu_release('{typed}'{options})"
    assert shop.charges_of(f"explain {call}") == 0
    shop.refused(call, "the query failed while its rows were read", charged=1)
    assert sorted(shop.ask(f"select * from dpsu_release('{ROWS}'{options})")) == PRODUCTS


def test_optimizers_that_leave_rows_unread_are_not_disabled_for_all(shop: Shop) -> None:
    """The setting is the database's, and so one of the connection that the query runs on."""
    call = (
        f"select * from dpsu_release('select person, {{}} from visits order by product', {OPTIONS})"
    )
    shop.ask("set global disabled_optimizers = 'filter_pushdown,empty_result_pullup'")
    # Whether a row fails must not show before the charge: all are refused alike.
    for product in ("product", "product::integer as product"):
        shop.refused(call.format(product), "say RESET disabled_optimizers")
    shop.ask("reset global disabled_optimizers")
    assert shop.charges_of(f"select * from {CALL}") == 1


def test_what_is_interrupted_stays_charged(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **options: Any) -> dpsu.Release:
        found = dpsu.release(*given, **options)
        shop.connection.interrupt()
        return found

    monkeypatch.setattr(dpsu.duckdb, "release", interrupted)
    before = shop.charges
    with pytest.raises(duckdb.InterruptException):
        shop.ask(f"select * from {CALL}")
    assert shop.charges == before + 1
    monkeypatch.undo()
    assert shop.charges_of(f"select * from {CALL}") == 1


def test_connections_release_at_the_same_time(shop: Shop) -> None:
    """Each is registered by itself; one that is not has no macro."""
    with pytest.raises(duckdb.CatalogException):
        shop.connection.cursor().execute(f"select * from {CALL}")
    found: list[Any] = []

    def ask() -> None:
        with shop.connection.cursor() as cursor:
            dpsu.duckdb.register(cursor, ledger=shop.spending)
            found.append(sorted(cursor.execute(f"select * from {CALL}").fetchall()))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [PRODUCTS] * 3
    assert shop.charges == 3


def test_files_may_be_read_only_and_attached_and_are_let_go(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with duckdb.connect(file) as connection:
        shop = Shop(tmp_path, connection)
        dpsu.duckdb.register(connection, ledger=shop.spending)
        assert sorted(shop.ask(f"select * from {CALL}")) == PRODUCTS
    # A function that held the connection would keep the file open, and this would be refused.
    with duckdb.connect(file, read_only=True) as connection:
        dpsu.duckdb.register(connection, ledger=shop.spending)
        shop.connection = connection
        assert sorted(shop.ask(f"select * from {CALL}")) == PRODUCTS
    with duckdb.connect() as connection:
        connection.execute(f"attach '{file}' as shop (read_only)")
        connection.execute("use shop")
        dpsu.duckdb.register(connection, ledger=shop.spending)
        shop.connection = connection
        assert sorted(shop.ask(f"select * from {CALL}")) == PRODUCTS
    assert shop.charges == 3


def test_the_examples_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third, _ = blocks(ROOT / "docs" / "guides" / "duckdb.md", "python")
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for block in (first, second, third):
        exec(compile(block, "duckdb.md", "exec"), space)
    space["shop"].close()
    day = "datetime.date(2024, 2, 29)"
    said = capsys.readouterr().out.splitlines()
    assert said[:5] == [f"[('bread', {day}), ('milk', {day})]", "2.0", "[(2,)]", "[(2,)]", "1.5"]
    assert f"# {said[0]}\n" in first
    assert sum("An item is released with probability" in line for line in said[5:]) == 2
