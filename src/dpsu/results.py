"""What a release gives back, and all that may be published of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from dpsu.errors import ParameterError
from dpsu.plans.plan import Plan
from dpsu.runtime.extras import load

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True)
class Run:
    """One run of a plan: a random id, when it began, and the dataset it was charged to."""

    id: str
    time: str
    dataset: str | None


def new_run(dataset: str | None) -> Run:
    """A run that begins now."""
    return Run(uuid.uuid4().hex, datetime.now(UTC).isoformat(timespec="seconds"), dataset)


@dataclass(frozen=True, eq=False)
class Release:
    """What may be published: sorted items, the plan that made them, and a report.

    A release holds nothing but released items and public parameters, so it can be pickled, printed
    and passed on. ``len``, iteration, ``in``, ``release[0]`` and ``release[:10]`` work on the
    items. Releases are equal if plan, items and counts are.

    Attributes
    ----------
    plan : Plan
        The plan that made it.
    values : pyarrow.Array
        The items, sorted, in the type of their column; a struct of their columns where there are
        several. `items` has them as Python objects.
    counts : pyarrow.Array or None
        The noisy number of users of each item, in the same order; None if the plan has no counts.
    prior_share : float or None
        The part of the released items that the prior knew; None without a prior or items.
    approved : Plan or None
        The plan that was approved and charged, if that left the mechanism to be chosen; `plan` is
        what was chosen then.
    run : Run
        When it was made, under which id, and for which dataset of a ledger.
    """

    plan: Plan
    values: pyarrow.Array = field(repr=False)
    counts: pyarrow.Array | None = field(default=None, repr=False)
    prior_share: float | None = None
    approved: Plan | None = field(default=None, repr=False)
    run: Run = field(default_factory=lambda: new_run(None), repr=False)

    @cached_property
    def items(self) -> tuple[Any, ...]:
        """The released items, sorted; tuples where there are several columns."""
        columns = [objects(column) for column in self.columns.values()]
        return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))

    @property
    def columns(self) -> dict[str, pyarrow.Array]:
        """The columns of the items by their names."""
        import pyarrow as pa

        if not pa.types.is_struct(self.values.type):
            return {self.plan.item.name: self.values}
        fields, arrays = self.values.type, self.values.flatten()
        return {fields.field(place).name: array for place, array in enumerate(arrays)}

    @cached_property
    def _lookup(self) -> frozenset[Any]:
        return frozenset(self.items)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._lookup

    @overload
    def __getitem__(self, place: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        return self.items[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        same_counts = (
            self.counts is other.counts
            if self.counts is None or other.counts is None
            else self.counts.equals(other.counts)
        )
        return self.plan == other.plan and self.values.equals(other.values) and same_counts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Release: {len(self):,} items by {self.plan.name}, private={self.private}>"

    def _repr_html_(self) -> str:
        from dpsu.reports import release_html

        return release_html(self)

    @property
    def plan_hash(self) -> str:
        """The hash of the plan that was approved, which ledger, report and files carry."""
        return (self.plan if self.approved is None else self.approved).hash

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: False for seeded and for unproven releases."""
        return self.plan.private

    @property
    def counts_error(self) -> float | None:
        """Standard error of every noisy count; None without counts.

        It is that of the noise. A user with more released items than `plan.counts.max_items`
        counts less than 1 for each of them, so that counts may also be too low.
        """
        return None if self.plan.noisy_counts is None else self.plan.noisy_counts.standard_error

    def to_dict(self) -> dict[Any, int | None]:
        """The items in their order, each with its noisy count, or with None without counts.

        A noisy count of an item that few users hold may be below 0: to cut it off there would
        make such counts too large on average.
        """
        counts = [None] * len(self) if self.counts is None else self.counts.to_pylist()
        return dict(zip(self.items, counts, strict=True))

    def to_arrow(self) -> pyarrow.Table:
        """A PyArrow table: the items, named as their columns were, and with counts noisy_users."""
        import pyarrow as pa

        columns = self.columns
        if self.counts is not None:
            columns[self.counts_name] = self.counts
        return pa.table(columns)

    @property
    def counts_name(self) -> str:
        """Name of the column of noisy counts."""
        name = "noisy_users"
        while name in self.columns:
            name += "_count"
        return name

    @property
    def metadata(self) -> dict[str, str]:
        """What ties a file to the plan that was approved, and to its entry in a ledger."""
        from dpsu.reports import release_metadata

        return release_metadata(self)

    def to_polars(self) -> polars.DataFrame:
        """A Polars frame of the same columns (needs Polars); UUIDs are text there."""
        frame: polars.DataFrame = load("polars").from_arrow(_without_extensions(self.to_arrow()))
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame of the same columns (needs pandas); UUIDs are text there."""
        load("pandas")
        return _without_extensions(self.to_arrow()).to_pandas()

    def write(self, path: str | Path, *, csv_safe: bool = False) -> None:
        r"""Write the items to a .txt, .csv, .parquet or .json file, whole or not at all.

        When it returns, the file is on the disk. A file that is replaced hands on its mode and,
        where possible, its owner; links are followed, pipes and devices refused.

        In .txt files every line is an item; a backslash, line feed or carriage return inside an
        item is written as ``\\``, ``\n`` or ``\r``.

        Spreadsheets take cells of a .csv file that begin with ``=``, ``+``, ``-``, ``@``, a tab or
        a carriage return for formulas. `csv_safe` puts ``'`` before such cells, and before cells
        that begin with ``'``, so that one quote can be taken away again. This changes the items.
        """
        from dpsu.outputs import SUFFIXES, items_writer
        from dpsu.runtime.writing import check_writable, write_whole

        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"path must be the name of a file, not a {type(path).__name__}")
        check_writable(Path(path), SUFFIXES)
        write_whole(Path(path), items_writer(self, Path(path), csv_safe=csv_safe))

    def report(self) -> str:
        """The release in words: mechanism, guarantee, what an item needed. Safe to publish."""
        from dpsu.reports import release_text

        return release_text(self)

    def report_json(self) -> str:
        """The same as JSON: number of items, guarantee, plan. Safe to publish."""
        from dpsu.reports import release_json

        return release_json(self)


def objects(column: pyarrow.Array) -> list[Any]:
    """Python objects of a column; timestamps are those of Python wherever they fit.

    Timestamps with a zone are in UTC: in others, two instants of the night in which summer ends are
    equal to Python.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        zone = None if column.type.tz is None else "UTC"
        column = column.cast(pa.timestamp(column.type.unit, zone))
        if column.type.unit == "ns":
            with suppress(pa.ArrowInvalid):
                column = column.cast(pa.timestamp("us", zone))
    if column.type == pa.time64("ns"):
        column = _times(column)
    objects: list[Any] = column.to_pylist()
    return objects


def _times(column: pyarrow.Array) -> pyarrow.Array:
    """Times in microseconds, which is all that Python has; as text where that would lose some."""
    import pyarrow as pa

    from dpsu.contributions.cells import spell

    try:
        return column.cast(pa.time64("us"))
    except pa.ArrowInvalid:
        return spell(column)


def _without_extensions(table: pyarrow.Table) -> pyarrow.Table:
    """A table with text for UUIDs, and for times that pandas would cut short."""
    import pyarrow as pa

    from dpsu.contributions.cells import spell

    for place, column in enumerate(table.columns):
        if isinstance(column.type, pa.BaseExtensionType):
            texts = pa.chunked_array([spell(chunk) for chunk in column.chunks], pa.large_string())
            table = table.set_column(place, table.column_names[place], texts)
        elif column.type == pa.time64("ns"):
            times = _times(pa.concat_arrays(column.chunks) if column.chunks else column)
            table = table.set_column(place, table.column_names[place], times)
    return table
