"""Releases in SQL: a table macro of DuckDB that is charged once for every statement.

DuckDB may call a function as often as it likes, and calls it again for each mention. So the macro
calls one that has side effects, which is never computed while a statement is planned, and that
refuses to be called twice by one statement.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import traceback
import uuid
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.duckdb_macro import COUNTS, ROW, list_of, literal, macro, select_keys
from dpsu.errors import (
    NO_MEMORY,
    DpsuError,
    MissingLibraryError,
    ParameterError,
    ResourceError,
    is_memory_error,
    warn,
)
from dpsu.inputs.connected import Connected, beside
from dpsu.ledger.spending import Spending
from dpsu.options import flag
from dpsu.plans.plan import Plan
from dpsu.releases import release
from dpsu.reports import summary
from dpsu.results import Release
from dpsu.runtime.extras import load

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["register"]

NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,62}")
# Functions of DuckDB that the macro needs: without them it would fail when it is called.
NEEDED = ("cast_to_type", "current_query_id", "query")
NESTED = ("list", "array", "struct", "map", "union")


def register(
    connection: DuckDBPyConnection,
    *,
    ledger: Spending | None = None,
    plan: Plan | None = None,
    strict: bool = False,
    memory_limit: int | str | None = None,
    name: str = "dpsu_release",
) -> None:
    """Make a table macro that releases the items of a query, in SQL.

    It is called as ``select * from dpsu_release('select person, product from visits', epsilon := 1,
    delta := 1e-6)``. The first column of the query is the person to protect; all others together
    are the item, and come back under their names, with their types. ``mechanism := 'sieve'`` and
    ``counts := true`` (a further column, noisy_users) are as for :func:`dpsu.release`, and
    ``once := 'week-10'`` is as for :meth:`dpsu.Ledger.dataset`. All of them are constants.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Where the macro is made, as a temporary one: other connections and cursors do not have it.
        DuckDB 1.3 or newer.
    ledger : Spending
        Where every call is charged before it reads: ``dpsu.Ledger("ledger.db").dataset("visits",
        budget=(3, 1e-5))``. It cannot be left out, because DuckDB decides what is called.
    plan : Plan, optional
        What every call releases by; it names the columns of person and item, and takes the place of
        epsilon, delta, mechanism and counts, which statements do not have then.
    strict, memory_limit
        As for :func:`dpsu.release`.
    name : str
        What the macro is called.

    Privacy
    -------
    Each call is a :func:`dpsu.release` of the rows of its query, charged to the ledger. EXPLAIN,
    PREPARE and CREATE VIEW call nothing; a second call in one statement is refused. A transaction
    that is rolled back takes no charge back. The query must treat one person's rows without regard
    to others', and runs in a transaction of its own.

    Cost
    ----
    That of the query and of :func:`dpsu.release`. Rows are streamed; released items come back as
    one text.

    Examples
    --------
    >>> import dpsu, duckdb, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dpsu.Ledger(pathlib.Path(folder.name) / "ledger.db")
    >>> shop = duckdb.connect()
    >>> _ = shop.execute("create table visits as select range // 2 as person from range(2000)")
    >>> dpsu.duckdb.register(shop, ledger=ledger.dataset("visits", budget=(3, 1e-5)))
    >>> shop.execute('''
    ...     select * from dpsu_release(
    ...         'select person, 7 as shelf, date ''2024-02-29'' as day from visits',
    ...         epsilon := 1, delta := 1e-6)
    ... ''').fetchall()
    [(7, datetime.date(2024, 2, 29))]
    >>> ledger.account("visits").left.sums.epsilon
    2.0
    >>> shop.close()
    >>> folder.cleanup()
    """
    from dpsu.runtime.memory import parse_size

    _refuse_other(connection)
    flag("strict", strict)
    parse_size(memory_limit)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ParameterError(
            "{name} must be letters, digits and underscores, such as dpsu_release", name=name
        )
    if plan is not None and not isinstance(plan, Plan):
        raise ParameterError(
            f"{{plan}} is a {type(plan).__name__}; give what dpsu.plan returned", plan=...
        )
    if ledger is None:
        raise ParameterError(
            "{ledger} is missing: DuckDB runs a statement whenever somebody looks at its result, "
            "and each run costs; give "
            "ledger=dpsu.Ledger('ledger.db').dataset('visits', budget=(3, 1e-5)), and once := "
            "'a name' in a statement that is to be charged once",
            ledger=...,
        )
    spending = Spending.of(ledger, may_be_named=True)
    if not spending.recorded:
        raise ParameterError(
            "{ledger} records nothing; give a dataset of a dpsu.Ledger", ledger=...
        )
    # Connections of one database share functions, so that each registration has its own.
    function = f"{name}_{uuid.uuid4().hex[:16]}"
    calls = _Calls(connection, spending, plan, name, strict=strict, memory_limit=memory_limit)
    create: Any = connection.create_function
    create(
        function, calls.answer, ["VARCHAR"], "VARCHAR",
        type="arrow", null_handling="special", side_effects=True,
    )  # fmt: skip
    connection.execute(macro(name, function, plan))


def _refuse_other(connection: Any) -> None:
    duckdb = load("duckdb")
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise ParameterError(
            f"{{connection}} is a {type(connection).__name__}; give what duckdb.connect() returned",
            connection=...,
        )
    found = "select count(distinct function_name) from duckdb_functions() where function_name in "
    ((count,),) = connection.execute(f"{found}{NEEDED}").fetchall()
    if count < len(NEEDED):
        raise MissingLibraryError("this needs DuckDB 1.3 or newer: pip install -U duckdb")


class _Calls:
    """What the macro calls. PRIVATE: no repr."""

    def __init__(
        self,
        connection: Any,
        spending: Spending,
        plan: Plan | None,
        name: str,
        **options: Any,
    ) -> None:
        # DuckDB keeps the function, which must not keep the database open in turn.
        self._connection = weakref.ref(connection)
        self._spending, self._plan, self._name, self._options = spending, plan, name, options
        self._running = threading.Lock()
        self._statement: int | None = None

    # DuckDB evaluates annotations, so that they name nothing that is not there.
    def answer(self, told: Any) -> Any:
        """The released items as JSON, for one row of what the macro tells."""
        import pyarrow as pa

        if len(told) != 1:
            # Whoever calls the function itself, with a column.
            raise self._second_call()
        failure: DpsuError | None = None
        try:
            return pa.array([self._once(json.loads(told[0].as_py()))], pa.large_string())
        except (DpsuError, Warning):
            raise
        except Exception as error:
            # Its message may quote a cell: tell where it happened, not what it says.
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            failure = DpsuError(f"unexpected {where}; this is a defect, please report it")
            if is_memory_error(error):
                failure = ResourceError(NO_MEMORY)
        raise failure

    def _once(self, told: dict[str, Any]) -> str:
        """Release, unless this statement did already."""
        if not self._running.acquire(blocking=False):
            raise self._second_call()
        try:
            # A statement is told by its number. What it says is looked at so that two calls that
            # stand there are refused before the first is charged.
            if told["statement"] == self._statement or _calls_in(told["text"], self._name) > 1:
                raise self._second_call()
            self._statement = told["statement"]
            return self._release(told)
        finally:
            self._running.release()

    def _second_call(self) -> ParameterError:
        return ParameterError(
            f"a second call of {self._name} in one statement is refused, as each would be charged; "
            f"make a table (create table released as select * from {self._name}(...)), and read "
            "that as often as you like"
        )

    def _release(self, told: dict[str, Any]) -> str:
        connection = self._connection()
        if connection is None:
            raise ParameterError("the {connection} that was registered is gone", connection=...)
        with beside(connection, (told["database"], told["schema"])) as cursor:
            rows = Connected(query=told["query"], connection=cursor)
            columns = self._columns(cursor, told)
            options = self._options | columns
            if self._plan is None:
                options |= {each: told[each] for each in ("epsilon", "delta", "mechanism")}
                options["counts"] = bool(told["counts"])
            found = release(rows, self._plan, **options, ledger=self._charged(told))
            if not len(found):
                # A statement shows no report, and an empty table does not say why.
                user, item = found.plan.user.name, found.plan.item.name
                warn(f"{summary(found)} The person was taken from {user}, the item from {item}.")
            return _as_json(cursor, found)

    def _charged(self, told: dict[str, Any]) -> Spending:
        """Where the call is charged; under the name that the statement gives, if there is one."""
        once = told["once"]
        if once is None:
            return self._spending
        if self._spending.once is not None:
            raise ParameterError(
                "the ledger that was registered has {once}; drop it in one of the places",
                once=self._spending.once,
            )
        spending = copy.copy(self._spending)
        spending.once = once
        return spending

    def _columns(self, cursor: Any, told: dict[str, Any]) -> dict[str, Any]:
        """The columns of person and item, for a release; refuses what would fail after it."""
        given = told.get("counts")
        counted = given is not None and flag("counts", given)
        ((off,),) = cursor.execute("SELECT current_setting('disabled_optimizers')").fetchall()
        if off:
            # Types are asked for by LIMIT 0, for which DuckDB would then read rows: uncharged.
            raise ParameterError("disabled_optimizers is set; say RESET disabled_optimizers")
        keys = select_keys(self._plan, literal(told["query"]), str(counted))
        _refuse_what_is_not_seen(cursor, keys, told)
        for name, type_ in zip(*_columns_of(cursor, keys), strict=True):
            if type_.id in NESTED:
                raise _unfit(f"{name!r} is a {type_.id}; select its elements or fields: unnest")
        if self._plan is not None:
            counted = self._plan.noisy_counts is not None
            _refuse_equal_names([*self._plan.item.names, *([COUNTS] if counted else [])])
            return {}
        names, _ = _columns_of(cursor, told["query"])
        _refuse_equal_names([*names, *([COUNTS] if counted else [])])
        return {"user": names[0], "item": names[1:]}


def _refuse_what_is_not_seen(cursor: Any, keys: str, told: dict[str, Any]) -> None:
    """Refuse a query that is another one where it is run.

    There, another table or macro may have the name of a temporary one, or stand in another schema.
    """
    import duckdb

    seen, named = None, set()
    # What DuckDB says would be about the wrong place: in the statement, the query is known.
    with suppress(duckdb.Error):
        ((seen,),) = cursor.sql(f"SELECT typeof({list_of(keys)})").fetchall()
        named = {name.lower() for name in cursor.get_table_names(told["query"])}
    temporary = {name.lower() for name in told["temporary"] or ()}
    hidden = (
        named & temporary
        # DuckDB does not tell which tables are named by a list.
        or (temporary and "query_table" in told["query"].lower())
        or any(_calls_in(told["query"], name) for name in told["macros"] or ())
        or len(told["schemas"]) > 1
    )
    if seen != told["types"] or hidden:
        raise _unfit(
            "it runs on a connection of its own, where temporary tables, views and macros, "
            "registered frames, settings of this session, a search_path of several schemas and "
            "what is not committed are not seen; name other tables, or commit first"
        )


def _columns_of(cursor: Any, query: str) -> tuple[list[str], list[Any]]:
    relation = cursor.sql(query)
    return relation.columns, relation.types


def _refuse_equal_names(names: Sequence[str]) -> None:
    """Refuse columns that DuckDB does not tell apart."""
    known = [name.lower() for name in names]
    for place, name in enumerate(known):
        if name in known[:place]:
            raise _unfit(f"more than one column would be called {names[place]!r}; rename one")


def _unfit(problem: str) -> ParameterError:
    return ParameterError(f"{{query}}: {problem}", query=...)


def _calls_in(text: str, name: str) -> int:
    """How many calls of this name stand in a statement, outside of its texts and comments."""
    import duckdb

    said = text.encode()
    places = [place for place, _ in duckdb.tokenize(text)]
    words = [
        said[start:end].decode(errors="replace").strip()
        for start, end in pairwise([*places, len(said)])
    ]
    return sum(
        word.strip('"').lower() == name.lower() and after.startswith("(")
        for word, after in pairwise(words)
    )


def _as_json(cursor: Any, found: Release) -> str:
    """The released items as a list of objects of texts, spelled by the database that reads them."""
    rows = cursor.from_arrow(found.to_arrow()).project("COLUMNS(*)::VARCHAR").set_alias(ROW)
    ((text,),) = rows.aggregate(f'to_json(list("{ROW}"))').fetchall()
    return "[]" if text is None else str(text)
