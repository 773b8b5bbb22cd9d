"""What a release gives back, and all that may be published of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, overload

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
        The items, sorted; `items` has them as Python's texts or integers.
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
    def items(self) -> tuple[str | int, ...]:
        """The released items, sorted."""
        return tuple(self.values.to_pylist())

    @cached_property
    def _lookup(self) -> frozenset[str | int]:
        return frozenset(self.items)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._lookup

    @overload
    def __getitem__(self, place: SupportsIndex) -> str | int: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str | int, ...]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> str | int | tuple[str | int, ...]:
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

    def to_dict(self) -> dict[str | int, int | None]:
        """The items in their order, each with its noisy count, or with None without counts.

        A noisy count of an item that few users hold may be below 0: to cut it off there would
        make such counts too large on average.
        """
        counts = [None] * len(self) if self.counts is None else self.counts.to_pylist()
        return dict(zip(self.items, counts, strict=True))

    def to_arrow(self) -> pyarrow.Table:
        """A PyArrow table: the items, named as their column was, and with counts noisy_users."""
        import pyarrow as pa

        columns = {self.plan.item.name: self.values}
        if self.counts is not None:
            columns[self.counts_name] = self.counts
        return pa.table(columns)

    @property
    def counts_name(self) -> str:
        """Name of the column of noisy counts."""
        return "noisy_users" if self.plan.item.name != "noisy_users" else "noisy_users_count"

    @property
    def metadata(self) -> dict[str, str]:
        """What ties a file to the plan that was approved, and to its entry in a ledger."""
        from dpsu.reports import release_metadata

        return release_metadata(self)

    def to_polars(self) -> polars.DataFrame:
        """A Polars frame of one column (needs Polars)."""
        frame: polars.DataFrame = load("polars").from_arrow(self.to_arrow())
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame of one column (needs pandas)."""
        load("pandas")
        return self.to_arrow().to_pandas()

    def write(self, path: str | Path, *, csv_safe: bool = False) -> None:
        r"""Write the items to a .txt, .csv, .parquet or .json file, whole or not at all.

        When it returns, the file is on the disk. A file that is replaced hands on its mode and,
        where possible, its owner; links are followed, pipes and devices written to.

        In .txt files every line is an item; a backslash, line feed or carriage return inside an
        item is written as ``\\``, ``\n`` or ``\r``.

        Spreadsheets take cells of a .csv file that begin with ``=``, ``+``, ``-``, ``@``, a tab or
        a carriage return for formulas. `csv_safe` puts ``'`` before such cells, and before cells
        that begin with ``'``, so that one quote can be taken away again. This changes the items.
        """
        from dpsu.outputs import write_release

        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"path must be the name of a file, not a {type(path).__name__}")
        write_release(self, Path(path), csv_safe=csv_safe)

    def report(self) -> str:
        """The release in words: mechanism, guarantee, what an item needed. Safe to publish."""
        from dpsu.reports import release_text

        return release_text(self)

    def report_json(self) -> str:
        """The same as JSON: number of items, guarantee, plan. Safe to publish."""
        from dpsu.reports import release_json

        return release_json(self)
