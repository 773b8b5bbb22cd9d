"""The SQL of the table macro: what it tells the function, and which types its result has.

What a macro returns has to be typed before anything runs: types are those that the query has, and
the function returns its items as JSON of texts, which DuckDB casts to them.
"""

from __future__ import annotations

from dpsu.inputs.sql import quoted
from dpsu.inputs.tokens import Tokens
from dpsu.plans.plan import Plan

COUNTS = "noisy_users"
# The first column of a query gets a name, so that it can be left out of the result, and so do
# whole rows. No column is called so by accident.
PERSON, ROW = "dpsu person", "dpsu row"
# What DuckDB calls a query in its error if that has one column only.
TWO = "query: the first column is the person, the others are the item; it"
# What a statement may say, with defaults. A plan decides all of these but the last.
TYPED = {
    "epsilon": "NULL", "delta": "NULL", "mechanism": "NULL", "counts": "false", "once": "NULL"
}  # fmt: skip
TEMPORARY = """(SELECT list(name) FROM (
    SELECT table_name AS name FROM duckdb_tables() WHERE temporary
    UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal))"""
MACROS = """(SELECT list(DISTINCT function_name) FROM duckdb_functions()
    WHERE database_name = 'temp' AND function_type IN ('macro', 'table_macro'))"""
# What the function is told besides, by expressions of SQL.
TOLD = {
    "query": "query", "temporary": TEMPORARY,
    "database": "current_database()", "schema": "current_schema()",
    "schemas": "current_schemas(false)", "macros": MACROS,
    "statement": "current_query_id()", "text": "current_query()",
}  # fmt: skip


def macro(name: str, function: str, plan: Plan | None) -> str:
    """The statement that makes the table macro.

    Everything but the call of the function is known while a statement is planned.
    """
    typed = TYPED if plan is None else {"once": TYPED["once"]}
    parameters = ", ".join(["query", *(f"{each} := {value}" for each, value in typed.items())])
    # DuckDB refuses a query that is computed from tables, before anything runs. So that it refuses
    # such options too, they stand where the query does, and do nothing there.
    constant = f"CASE WHEN concat({', '.join(typed)}) = '' THEN query ELSE query END"
    keys = select_keys(plan, constant, "counts")
    # Of what stands in typeof and second in cast_to_type, binding leaves the type and nothing to
    # run. Anywhere else, a session without the optimizer reads rows here that nobody was charged.
    types, texts = list_of(keys), list_of(f"SELECT COLUMNS(*)::VARCHAR FROM ({keys})")
    told = {each: each for each in typed} | TOLD | {"types": f"typeof({types})"}
    if plan is None:
        # It is bound first, so that this refuses what has no second column, in words.
        two = f'(SELECT list(a) FROM query({constant}) AS "{TWO}"(a, b))'
        told = {"two": f"typeof({two})"} | told
    pairs = ", ".join(f"'{each}', {value}" for each, value in told.items())
    return f"""
        CREATE OR REPLACE TEMP MACRO {name}({parameters}) AS TABLE
        SELECT unnest(cast_to_type(cast_to_type(released::JSON, {texts}), {types}), max_depth := 2)
        FROM (SELECT {function}(json_object({pairs})::VARCHAR) AS released)
    """


def select_keys(plan: Plan | None, query: str, counts: str) -> str:
    """A SELECT with the columns of the result, by expressions of SQL for a query and an option."""
    if plan is None:
        # Blanks and a semicolon at the end are dropped; a line break ends a comment.
        bare = f"rtrim({query}, '; ' || chr(9) || chr(10) || chr(13)) || chr(10)"
        more = f"'SELECT *, NULL::BIGINT AS {COUNTS} FROM (' || {bare} || ')'"
        rows = f"query(CASE WHEN {counts} THEN {more} ELSE {query} END)"
        return f'SELECT * EXCLUDE ("{PERSON}") FROM {rows} AS rows("{PERSON}")'
    if isinstance(plan.item, Tokens):
        keys, wanted = [f"NULL::VARCHAR AS {quoted([plan.item.name])}"], [plan.item.column]
    else:
        # A column that is called like a parameter of the macro is told from it by its table.
        keys = [f'"{ROW}".{quoted([name])}' for name in plan.item.names]
        wanted = list(plan.item.names)
    if plan.noisy_counts is not None:
        keys.append(f"NULL::BIGINT AS {COUNTS}")
    # DuckDB names a column that is missing here, and would name the table otherwise.
    existing = f"SELECT COLUMNS([{', '.join(map(literal, wanted))}]) FROM query({query})"
    return f'SELECT {", ".join(keys)} FROM ({existing}) AS "{ROW}"'


def literal(value: str) -> str:
    """A text as SQL has it."""
    return "'{}'".format(value.replace("'", "''"))


def list_of(rows: str) -> str:
    """An expression that has the type of a list of these rows, and reads none of them."""
    return f'(SELECT list("{ROW}") FROM ({rows}) AS "{ROW}" WHERE false)'
