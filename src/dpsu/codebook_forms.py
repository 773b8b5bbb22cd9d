"""The values of many columns as tables, trees, JSON and pages. Released values only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.inputs.values import Values, chain_name
from dpsu.outputs import items_writer, written
from dpsu.reports import summary
from dpsu.results import Release, objects
from dpsu.runtime.writing import Write, text_writer
from dpsu.showing.markup import alert, block, paragraph, short, table

if TYPE_CHECKING:
    import pyarrow

    from dpsu.codebooks import Domains

SUFFIXES = (".json", ".csv", ".parquet")
PREVIEW = 10
COLUMN, VALUE, COUNT = "column", "value", "noisy_users"
Kind = tuple[str, ...]
Cells = Callable[["pyarrow.Array", bool], list[Any]]


def values_of(release: Release) -> Values:
    """Which columns a release has the values of."""
    assert isinstance(release.plan.item, Values)
    return release.plan.item


def places_of(release: Release) -> dict[Kind, pyarrow.Array]:
    """For each kind of item, the rows of the release that are of this kind.

    These have a cell in exactly the columns of the kind.
    """
    import numpy as np

    from dpsu.contributions.ids import integers

    columns = release.columns
    there = {
        name: column.is_valid().to_numpy(zero_copy_only=False) for name, column in columns.items()
    }
    found = {}
    for kind in values_of(release).kinds:
        exactly = [there[name] == (name in kind) for name in columns]
        found[kind] = integers(np.flatnonzero(np.logical_and.reduce(exactly)))
    return found


def distinct(column: pyarrow.Array) -> pyarrow.Array:
    """The distinct values of a column, sorted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    type_ = column.type
    extended = isinstance(type_, pa.BaseExtensionType)
    values = (column.storage if extended else column).drop_null().unique()
    values = values.take(pc.sort_indices(values))
    return pa.ExtensionArray.from_storage(type_, values) if extended else values


def counted(release: Release, kind: Kind) -> dict[Any, int]:
    """The noisy numbers of users of one kind of item."""
    assert release.counts is not None
    columns, places = release.columns, places_of(release)[kind]
    cells = [objects(columns[name].take(places)) for name in kind]
    keys = cells[0] if len(kind) == 1 else list(zip(*cells, strict=True))
    return dict(zip(keys, release.counts.take(places).to_pylist(), strict=True))


def nested(
    release: Release,
    chain: Kind,
    cells: Cells = lambda column, last: objects(column),
    end: Callable[[dict[Any, Any]], Any] = tuple,
) -> dict[Any, Any]:
    """The values of a chain, level under level.

    `cells` makes cells of a column, which may be that of the last level; `end` makes of the last
    level, a mapping from values to counts, what is to stand there. A level above is always there:
    a release has all that its items imply.
    """
    columns, places = release.columns, places_of(release)
    tree: dict[Any, Any] = {}
    for depth in range(1, len(chain) + 1):
        rows = places[chain[:depth]]
        names = [
            cells(columns[name].take(rows), at + 1 == len(chain))
            for at, name in enumerate(chain[:depth])
        ]
        noisy = [None] * len(rows) if release.counts is None else release.counts.take(rows)
        for path, number in zip(zip(*names, strict=True), noisy, strict=True):
            level = tree
            for name in path[:-1]:
                level = level[name]
            level[path[-1]] = {} if depth < len(chain) else _plain(number)
    ended: dict[Any, Any] = _ended(tree, len(chain), end)
    return ended


def _plain(number: Any) -> int | None:
    return None if number is None else int(number.as_py())


def _ended(tree: dict[Any, Any], levels: int, end: Callable[[dict[Any, Any]], Any]) -> Any:
    if levels == 1:
        return end(tree)
    return {name: _ended(below, levels - 1, end) for name, below in tree.items()}


def json_text(release: Release) -> str:
    """An object from columns, and from chains of levels, to their values.

    With counts, lists of values are objects from values to numbers.
    """
    item, counts = values_of(release), release.counts
    found: dict[str, Any] = {}
    for name, column in release.columns.items():
        values = distinct(column)
        found[name] = _json_cells(values, True)
        if counts is not None:
            known = counted(release, (name,)) if (name,) in item.kinds else {}
            numbers = map(known.get, objects(values))
            found[name] = dict(zip(_texts(values).to_pylist(), numbers, strict=True))
    for chain in item.levels:
        found[chain_name(chain)] = (
            nested(release, chain, _json_cells, list)
            if counts is None
            else nested(release, chain, lambda column, last: _texts(column).to_pylist(), dict)
        )
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def _json_cells(column: pyarrow.Array, last: bool) -> list[Any]:
    """Values of JSON; names of objects are texts there."""
    import pyarrow as pa

    if not last:
        return list(_texts(column).to_pylist())
    return written(pa.chunked_array([column]), json=True)


def _texts(column: pyarrow.Array) -> pyarrow.Array:
    """Cells as text, in the spelling of all files."""
    from dpsu.contributions.cells import spell
    from dpsu.contributions.ids import is_text

    return column if is_text(column.type) else spell(column)


def long_table(release: Release) -> pyarrow.Table:
    """A row for each item: its column, the value and those above it, and perhaps its count."""
    import pyarrow as pa

    places = places_of(release)
    texts = {name: _texts(column) for name, column in release.columns.items()}
    above = list(dict.fromkeys(name for kind in places for name in kind[:-1]))
    found = {
        _free(COLUMN, above): [
            pa.array([k[-1]] * len(rows), "string") for k, rows in places.items()
        ],
        _free(VALUE, above): [texts[kind[-1]].take(rows) for kind, rows in places.items()],
    }
    for name in above:
        found[name] = [
            texts[name].take(rows) if name in kind[:-1] else pa.nulls(len(rows), "large_string")
            for kind, rows in places.items()
        ]
    if release.counts is not None:
        found[_free(COUNT, above)] = [release.counts.take(rows) for rows in places.values()]
    return pa.table({name: pa.concat_arrays(parts) for name, parts in found.items()})


def _free(head: str, taken: list[str]) -> str:
    """A name for a column of the table that no level above has."""
    while head in taken:
        head += "_"
    return head


def writer(domains: Domains, path: Path, *, csv_safe: bool = False) -> Write:
    """A function that writes the values in the format of the suffix; without one, as JSON."""
    if csv_safe or path.suffix in (".csv", ".parquet"):
        return items_writer(domains, path, csv_safe=csv_safe)
    return text_writer(domains.to_json())


def html(domains: Domains) -> str:
    """The values for notebooks: the guarantee, and the first values of each column."""
    parts = [] if domains.private else [alert("NOT PRIVATE")]
    parts.append(paragraph(summary(domains.release)))
    rows = [(name, f"{len(values):,}", _preview(values)) for name, values in domains.items()]
    parts.append(table(("column", "values", "the first of them"), rows, texts=3))
    parts += [
        paragraph(f"levels[{chain!r}]: {chain_name(chain)}, level under level")
        for chain in domains.levels
    ]
    return block(*parts)


def _preview(values: tuple[Any, ...]) -> str:
    shown = ", ".join(short(str(value)) for value in values[:PREVIEW])
    left = len(values) - PREVIEW
    return f"{shown}, … and {left:,} more" if left > 0 else shown
