"""The values of many columns in one release, column by column."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.codebook_forms import (
    SUFFIXES,
    counted,
    distinct,
    html,
    json_text,
    long_table,
    nested,
    writer,
)
from dpsu.errors import ParameterError
from dpsu.inputs.columns import Users
from dpsu.inputs.values import Values
from dpsu.ledger.spending import Spending
from dpsu.options import suggests_keywords
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.releases import release
from dpsu.results import Release, objects
from dpsu.runtime.extras import load
from dpsu.showing.progress import Stages

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Domains(Mapping[str, tuple[Any, ...]]):
    """What may be published of many columns: a mapping from each column to its released values.

    ``domains["job"]`` are the values of a column, sorted, in the types of that column; ``len``,
    iteration, ``in``, ``items()`` and ``==`` are those of a mapping. A column that has nothing to
    show has no values, and is there all the same.

    Parameters
    ----------
    release : Release
        The release that the values come from, with its report, its plan and its guarantee. Its
        table has a column for each column, and one row for each item.
    """

    def __init__(self, release: Release) -> None:
        if not isinstance(release, Release) or not isinstance(release.plan.item, Values):
            raise ParameterError("this is no release of the values of columns; see dpsu.domains")
        self.release = release
        self._item = release.plan.item

    def __getitem__(self, column: str) -> tuple[Any, ...]:
        return self._values[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._item.names)

    def __len__(self) -> int:
        return len(self._item.names)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(values):,}" for name, values in self.items())
        return f"<Domains: {sizes} values by {self.plan.name}, private={self.private}>"

    def _repr_html_(self) -> str:
        return html(self)

    @property
    def plan(self) -> Plan:
        """The plan that made the release."""
        return self.release.plan

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: False for seeded and for unproven releases."""
        return self.release.private

    @property
    def metadata(self) -> dict[str, str]:
        """What ties a file to the plan that was approved, and to its entry in a ledger."""
        return self.release.metadata

    def report(self) -> str:
        """The release in words: mechanism, guarantee, what a value needed. Safe to publish."""
        return self.release.report()

    def report_json(self) -> str:
        """The same as JSON. Safe to publish."""
        return self.release.report_json()

    @cached_property
    def arrays(self) -> dict[str, pyarrow.Array]:
        """The values of each column, sorted, as Arrow has them."""
        return {name: distinct(column) for name, column in self.release.columns.items()}

    @cached_property
    def _values(self) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(objects(column)) for name, column in self.arrays.items()}

    @cached_property
    def levels(self) -> dict[tuple[str, ...], dict[Any, Any]]:
        """For each chain of columns, its values level under level.

        ``levels["country", "city"]`` leads from each country to a tuple of its cities, and of
        three columns from the first to mappings of the second. A value under which nothing was
        released leads to an empty tuple or mapping.
        """
        return {chain: nested(self.release, chain) for chain in self._item.levels}

    @property
    def counts(self) -> dict[str | tuple[str, ...], dict[Any, int]] | None:
        """Noisy numbers of users; None if the plan has no counts.

        ``counts["job"]`` leads from values to numbers, and ``counts["country", "city"]`` from
        tuples of values.
        """
        if self.release.counts is None:
            return None
        return {
            kind[0] if len(kind) == 1 else kind: counted(self.release, kind)
            for kind in self._item.kinds
        }

    def to_dict(self) -> dict[str, list[Any]]:
        """Each column with a list of its values."""
        return {name: list(values) for name, values in self.items()}

    def to_arrow(self) -> pyarrow.Table:
        """A PyArrow table with a row for each item: the column, and the value as text.

        Of levels there are columns with the values above it, named as these, and with counts there
        is noisy_users.
        """
        return long_table(self.release)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame (needs pandas)."""
        load("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The same as a Polars frame (needs Polars)."""
        frame: polars.DataFrame = load("polars").from_arrow(self.to_arrow())
        return frame

    def to_json(self) -> str:
        """The values as JSON: an object from each column to a list of its values.

        Chains of levels follow, as ``"country > city"``, with an object from each country to its
        cities. With counts, lists are objects from values to noisy numbers of users.
        """
        return json_text(self.release)

    def write(self, path: str | Path, *, csv_safe: bool = False) -> None:
        """Write the values to a .json, .csv or .parquet file, whole or not at all.

        JSON is that of :meth:`to_json`; the others have the table of :meth:`to_arrow`. `csv_safe`
        is that of :meth:`Release.write`.
        """
        from dpsu.runtime.writing import check_writable, write_whole

        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"path must be the name of a file, not a {type(path).__name__}")
        check_writable(Path(path), SUFFIXES)
        write_whole(Path(path), writer(self, Path(path), csv_safe=csv_safe))


@suggests_keywords
def domains(
    data: Any,
    plan: Plan | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    levels: Sequence[str] | Sequence[Sequence[str]] | None = None,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users | None = None,
    counts: bool | Counts | None = None,
    insecure_seed: int | None = None,
    strict: bool = False,
    format: str | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> Domains:
    """Release the values of many columns at once, for code books, dashboards and synthetic data.

    An item is a column and one of its values, and all of them are one release, with one epsilon
    and one delta.

    Parameters
    ----------
    data
        A table: a path, list of paths or glob; a pandas, Polars or PyArrow table, a DuckDB relation
        or a :class:`dpsu.Query`; or a mapping of names to columns. A user may have many rows.
    plan : Plan, optional
        A plan that was made before, ``dpsu.plan(item=dpsu.Values(...), ...)``, instead of all
        options up to `insecure_seed`.
    columns, levels, types
        Which columns, as for :class:`dpsu.Values`.
    epsilon, delta, mechanism, user, counts, insecure_seed
        As for :func:`dpsu.release`.
    strict, format, memory_limit, progress, ledger
        As for :func:`dpsu.release`. Missing cells are no reason to refuse a row.

    Returns
    -------
    Domains
        A mapping from each column to its values.

    Privacy
    -------
    All values of all columns together are (epsilon, delta)-differentially private for adding or
    removing one user with all rows. A value that was released with its levels implies those above
    it, which come out with it and cost nothing (``dpsu proofs domains``).

    Cost
    ----
    As a release of rows times columns.

    Examples
    --------
    >>> import dpsu
    >>> people = {
    ...     "id": list(range(2000)),
    ...     "sex": ["female", "male"] * 1000,
    ...     "country": ["FR", "DE"] * 1000,
    ...     "city": ["Paris", "Berlin"] * 999 + ["Geheimort", None],
    ... }
    >>> found = dpsu.domains(
    ...     people, user="id", columns=["sex"], levels=["country", "city"],
    ...     epsilon=1, delta=1e-6, mechanism="sieve",
    ... )
    >>> found["sex"], found["city"]
    (('female', 'male'), ('Berlin', 'Paris'))
    >>> found.levels["country", "city"]
    {'DE': ('Berlin',), 'FR': ('Paris',)}
    """
    return Domains(
        release(
            data, plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user,
            item=values_of(plan, columns=columns, levels=levels, types=types),
            counts=counts, insecure_seed=insecure_seed, strict=strict, format=format,
            memory_limit=memory_limit, progress=progress, ledger=ledger,
        )
    )  # fmt: skip


def values_of(plan: Plan | None, **typed: Any) -> Values | None:
    """The columns, levels and types that were typed; None if a plan has them."""
    if plan is None:
        return Values(**{name: value for name, value in typed.items() if value is not None})
    if isinstance(plan, Plan):
        for name, value in typed.items():
            if value is not None:
                raise ParameterError(f"the plan decides {{{name}}}; drop it", **{name: ...})
        refuse_other_items(plan)
    # Anything else in the place of a plan is refused where a plan is read.
    return None


def refuse_other_items(plan: Plan) -> None:
    """Refuse a plan whose items are no values of columns."""
    if not isinstance(plan.item, Values):
        raise ParameterError(
            f"the plan releases items of {plan.item.name!r}, and not the values of columns; make "
            "one with item=dpsu.Values([...]) (dpsu plan --columns ...)"
        )
