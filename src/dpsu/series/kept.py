"""One result that is kept: hidden until it may be seen, and then whole.

What decides that it may be seen is a mark that only one run can make, in a ledger or beside the
file. The result is on the disk before the mark, under a hidden name with the id of its run. So
a process that finds the mark finds the result, however early the first one ended.
"""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from dpsu.engines.found import Found
from dpsu.errors import REFUSED, OutputError, ParameterError, exit_code_of
from dpsu.plans.plan import Plan
from dpsu.results import Release, Run
from dpsu.runtime.writing import PendingFile, leftovers, place_tagged

if TYPE_CHECKING:
    import pyarrow as pa

PLAN_KEY, TYPES_KEY, RUN_KEY = b"dpsu.plan", b"dpsu.types", b"dpsu.run"


def stage(file: Path, found: Found, run: Run) -> None:
    """Write what a run released, and by which plan, whole, durably and hidden."""
    import pyarrow as pa
    import pyarrow.parquet

    # Only a process with the lock gets here, so these are of runs that ended and were not shown.
    remove_leftovers(file)
    values, counts = found.values()
    table = pa.table({"items": values} if counts is None else {"items": values, "counts": counts})
    # Parquet has no seconds and would give them back as milliseconds, so the types are kept too.
    table = table.replace_schema_metadata(
        {
            PLAN_KEY: found.plan.to_json().encode(),
            TYPES_KEY: base64.b64encode(table.schema.serialize()),
            RUN_KEY: json.dumps(vars(run)).encode(),
        }
    )
    PendingFile(
        file, lambda opened: pyarrow.parquet.write_table(table, opened), private=True, tag=run.id
    ).leave()


def show(file: Path, run: str) -> bool:
    """Give what this run staged its name; whether a result is there then."""
    try:
        return place_tagged(file, run)
    except OSError as error:
        raise OutputError(
            f"cannot write {str(file)!r}: {error.strerror}", exit_code=exit_code_of(error)
        ) from None


def show_or_fail(file: Path, run: str) -> None:
    """Give what this run staged its name, without which nothing may be shown."""
    if not show(file, run):
        raise OutputError(
            f"the result that belongs to {str(file)!r} was removed before it could be shown",
            exit_code=REFUSED,
        )
    remove_leftovers(file)


def remove_leftovers(file: Path) -> None:
    """Remove the temporary files of runs that have ended."""
    for left in leftovers(file):
        with contextlib.suppress(OSError):
            left.unlink()


def count(file: Path) -> int:
    """How many items were kept."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        raise _damaged(file) from None


def load(file: Path, planned: Plan) -> Release:
    """What was kept, as it was returned when it was made by this plan."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(file)
        metadata = table.schema.metadata
        written, run = metadata[PLAN_KEY].decode(), Run(**json.loads(metadata[RUN_KEY]))
        types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(metadata[TYPES_KEY])))
        columns = {each.name: _whole(table[each.name], each.type) for each in types}
        items = columns["items"]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        raise _damaged(file) from None
    try:
        plan = Plan.from_json(written)
    except ParameterError as error:
        raise ParameterError(
            f"{str(file)!r} has items that were released, but this dpsu does not know their plan: "
            f"{error}"
        ) from None
    if plan.hash == planned.hash:
        return Release(planned, items, columns.get("counts"), run=run)
    return Release(plan, items, columns.get("counts"), approved=planned, run=run)


def _damaged(file: Path) -> ParameterError:
    return ParameterError(f"{str(file)!r} is damaged; restore a copy of that file")


def _whole(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    import pyarrow as pa

    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole if whole.type == type_ else whole.cast(type_)
