"""The state of a series: a folder of public files, each of them made once and never changed.

::

    series.json          the terms: plan, number of periods and budget
    0001-begun.json      period 1 is spent; made before any row of it is read
    0001-items.parquet   what it released, and by which plan

That a period is spent is a file that only one process can make. So no lock is needed to be sure
that none is spent twice, and a process that is killed can lose its period and nothing else.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dpsu.engines.found import Found
from dpsu.errors import (
    FAILED,
    TRY_AGAIN,
    BudgetError,
    OutputError,
    ParameterError,
    exit_code_of,
)
from dpsu.plans.plan import Plan
from dpsu.results import Release, Run
from dpsu.runtime.writing import (
    claim,
    claimed_by_somebody,
    sync_folder,
    write_text,
    write_whole,
)
from dpsu.series.terms import Terms

if TYPE_CHECKING:
    import pyarrow as pa

TERMS = "series.json"
BEGUN, ITEMS = "begun.json", "items.parquet"
OURS = re.compile(r"(\d{4,})-(begun\.json|items\.parquet)")
DONE, UNFINISHED, RUNNING = "done", "unfinished", "running"
PLAN_KEY, TYPES_KEY = b"dpsu.plan", b"dpsu.types"


@dataclass(frozen=True)
class Period:
    """One period that was begun.

    Attributes
    ----------
    number : int
        The first is 1.
    state : str
        "done"; "running", as far as this machine knows; or "unfinished": it failed or was killed,
        and is spent.
    run : Run or None
        Its random id and when it began; None if that file was changed by hand.
    released : int or None
        How many items it released; None if it is not done.
    """

    number: int
    state: str
    run: Run | None
    released: int | None


class State:
    """The folder of a series."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, terms: Terms) -> None:
        """Make the folder, with all that it holds at first; of several processes, one succeeds."""
        there = ParameterError(
            f"{str(self.path)!r} is there already; a series begins in a folder of its own, so "
            "choose another name"
        )
        if os.path.lexists(self.path):
            raise there
        made = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.partial")
        try:
            made.mkdir()
            write_text(made / TERMS, f"{terms.to_json()}\n")
            # It gets its name whole; a folder that somebody filled meanwhile is not replaced.
            made.rename(self.path)
            # Without its name the whole series would be gone, and what it spent with it.
            sync_folder(self.path.parent)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise there from None
            raise OutputError(
                f"cannot make {str(self.path)!r}: {error.strerror}", exit_code=exit_code_of(error)
            ) from None
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def terms(self) -> Terms:
        """What was fixed at the start, checked."""
        try:
            text = (self.path / TERMS).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ParameterError(
                f"there is no series {str(self.path)!r}; begin one with dpsu series new, or "
                "dpsu.Series.create in Python"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ParameterError(f"series {str(self.path)!r} cannot be read: {reason}") from None
        try:
            return Terms.read(text)
        except ParameterError as error:
            raise ParameterError(
                f"series {str(self.path)!r} is damaged, or was made by another dpsu: {error}"
            ) from None

    def begun(self, terms: Terms) -> int:
        """How many periods are spent; refused if files are missing or of no period."""
        found: dict[str, set[int]] = {BEGUN: set(), ITEMS: set()}
        for each in self.path.iterdir():
            ours = OURS.fullmatch(each.name)
            if ours is not None:
                found[ours[2]].add(int(ours[1]))
        count = len(found[BEGUN])
        if found[BEGUN] != set(range(1, count + 1)) or count > terms.periods:
            raise ParameterError(
                f"series {str(self.path)!r} is damaged: its periods are not numbered one after the "
                f"other, up to {terms.periods}; files were removed or added by hand"
            )
        if not found[ITEMS] <= found[BEGUN]:
            raise ParameterError(
                f"series {str(self.path)!r} is damaged: it has items of a period that was never "
                "begun; files were removed or added by hand"
            )
        for number in range(1, count + 1):
            if self._noted(number).get("terms", terms.digest) != terms.digest:
                raise ParameterError(
                    f"series {str(self.path)!r} is damaged: period {number} was begun by another "
                    "plan, budget or number of periods than those on record; files were changed "
                    "by hand"
                )
        return count

    def period(self, number: int) -> Period:
        """What is known of a period that was begun."""
        if self._file(number, ITEMS).exists():
            items = kept(self._file(number, ITEMS)).items
            return Period(number, DONE, self._run(number), len(items))
        running = claimed_by_somebody(self._file(number, BEGUN))
        return Period(number, RUNNING if running else UNFINISHED, self._run(number), None)

    def begin(self, number: int, run: Run, terms: Terms) -> BinaryIO:
        """Spend a period, on disk, before anything is read; it runs until the result is closed."""
        noted = vars(run) | {"terms": terms.digest}
        try:
            return claim(self._file(number, BEGUN), f"{json.dumps(noted)}\n")
        except FileExistsError:
            raise ParameterError(
                f"another process began period {number} of {str(self.path)!r} meanwhile; nothing "
                "was read. Try again when it has ended",
                exit_code=TRY_AGAIN,
            ) from None
        except OSError as error:
            there = self._file(number, BEGUN).exists()
            raise OutputError(
                f"cannot note in {str(self.path)!r} that period {number} begins: {error.strerror}; "
                f"nothing was read, and the period is {'spent all the same' if there else 'left'}",
                exit_code=FAILED if there else exit_code_of(error),
            ) from None

    def finish(self, number: int, found: Found) -> None:
        """Keep what a period released, whole or not at all."""
        keep(self._file(number, ITEMS), found)

    def stored(self, number: int, terms: Terms) -> Release:
        """The release of a period that is done, as it was returned then."""
        found = kept(self._file(number, ITEMS))
        return released_before(found, terms.plan, self._run(number))

    def _file(self, number: int, kind: str) -> Path:
        return self.path / f"{number:04d}-{kind}"

    def _noted(self, number: int) -> dict[str, Any]:
        """What was noted when a period began; the file alone says that it is spent."""
        try:
            found = json.loads(self._file(number, BEGUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _run(self, number: int) -> Run | None:
        noted = self._noted(number)
        noted.pop("terms", None)
        try:
            return Run(**noted)
        except TypeError:
            return None


def spent(path: Path, periods: int) -> BudgetError:
    """The refusal of a period beyond the last."""
    return BudgetError(
        f"all {periods:,} periods of the series {str(path)!r} are spent, and the budget with them. "
        "Nothing was read. If more may be spent on these people, begin another series: its budget "
        "comes on top"
    )


def keep(file: Path, found: Found) -> None:
    """Write what was released, and by which plan, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet

    values, counts = found.values()
    table = pa.table({"items": values} if counts is None else {"items": values, "counts": counts})
    # Parquet has no seconds and would give them back as milliseconds, so the types are kept too.
    types = base64.b64encode(table.schema.serialize())
    table = table.replace_schema_metadata(
        {PLAN_KEY: found.plan.to_json().encode(), TYPES_KEY: types}
    )
    write_whole(file, lambda opened: pyarrow.parquet.write_table(table, opened))


def kept(file: Path) -> Found:
    """What :func:`keep` wrote."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(file)
        written = table.schema.metadata[PLAN_KEY].decode()
        types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(table.schema.metadata[TYPES_KEY])))
        columns = {each.name: _whole(table[each.name], each.type) for each in types}
        items = columns["items"]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        raise ParameterError(f"{str(file)!r} is damaged; restore a copy of that file") from None
    try:
        return Found(Plan.from_json(written), items, columns.get("counts"))
    except ParameterError as error:
        raise ParameterError(
            f"{str(file)!r} has items that were released, but this dpsu does not know their plan: "
            f"{error}"
        ) from None


def released_before(found: Found, planned: Plan, run: Run | None) -> Release:
    """A release as it was returned when it was made."""
    run = Run("", "", None) if run is None else run
    if found.plan.hash == planned.hash:
        return Release(planned, found.items, found.counts, run=run)
    return Release(found.plan, found.items, found.counts, approved=planned, run=run)


def _whole(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    import pyarrow as pa

    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole if whole.type == type_ else whole.cast(type_)
