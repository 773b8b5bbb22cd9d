"""The one call most people need, and what it returns."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import DataWarning, ParameterError
from dpsu.ledger.spending import Spending
from dpsu.options import flag, function, number
from dpsu.plans.mechanisms import AUTO
from dpsu.plans.plan import Plan
from dpsu.plans.planning import (
    DEFAULT_COUNTS_ITEMS,
    DEFAULT_COUNTS_SHARE,
    DEFAULT_ITEM,
    DEFAULT_USER,
    plan,
)
from dpsu.randomness.keys import Key
from dpsu.runtime.extras import load
from dpsu.text.source import Split

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dpsu.ledger.ledger import Ledger
    from dpsu.plans.auto import Hints

Progress = Callable[[str, int], None]


@dataclass(frozen=True, eq=False)
class Release:
    """What may be published: sorted items, the plan that made them, and a report.

    A release holds nothing but released items and public parameters, so it can be pickled, printed
    and passed on. ``len``, iteration and ``in`` work on the items. `prior_share` is the part of the
    released items that the prior knew.
    """

    plan: Plan
    values: pyarrow.Array = field(repr=False)
    counts: pyarrow.Array | None = field(default=None, repr=False)
    prior_share: float | None = None

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

    def __repr__(self) -> str:
        return f"<Release: {len(self):,} items by {self.plan.mechanism}, private={self.private}>"

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: False for seeded and for unproven releases."""
        return self.plan.private

    @property
    def counts_error(self) -> float | None:
        """Standard error of every noisy count; None without counts.

        It is that of the noise. A user with more released items than `plan.counts.max_items`
        counts for a sample of them only, so that counts of common items may also be too low.
        """
        return None if self.plan.counts is None else self.plan.counts.standard_error

    def to_arrow(self) -> pyarrow.Table:
        """A PyArrow table: the items, named as their column was, and with counts noisy_users."""
        import pyarrow as pa

        columns = {self.plan.item: self.values}
        if self.counts is not None:
            columns[self.counts_name] = self.counts
        return pa.table(columns)

    @property
    def counts_name(self) -> str:
        """Name of the column of noisy counts."""
        return "noisy_users" if self.plan.item != "noisy_users" else "noisy_users_count"

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
        from dpsu.runtime.writing import write_release

        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError(f"path must be the name of a file, not a {type(path).__name__}")
        write_release(self, Path(path), csv_safe=csv_safe)

    def report(self) -> str:
        """The release in words: mechanism, guarantee, what an item needed. Safe to publish."""
        from dpsu.plans.prose import release_text

        return release_text(self)

    def report_json(self) -> str:
        """The same as JSON: number of items, guarantee, plan. Safe to publish."""
        from dpsu.plans.prose import release_json

        return release_json(self)


def release(
    data: Any,
    *,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    item_type: str | None = None,
    epsilon: float,
    delta: float,
    mechanism: str | None = None,
    text: str | None = None,
    tokenizer: str | Split | None = None,
    ngrams: int | str | tuple[int, int] | None = None,
    count: str | None = None,
    max_items: int | None = None,
    alpha: float | None = None,
    cutoff: float | None = None,
    passes: int | None = None,
    rounds: int | None = None,
    scout_items: int | None = None,
    min_users: int | None = None,
    counts: bool = False,
    counts_share: float = DEFAULT_COUNTS_SHARE,
    counts_items: int = DEFAULT_COUNTS_ITEMS,
    calibration: str = "tight",
    order: str | None = None,
    prior: Any = None,
    expected_users: int | None = None,
    expected_items_per_user: float | None = None,
    auto_budget: float | None = None,
    public_items: Any = None,
    allow_unproven: bool = False,
    insecure_seed: int | None = None,
    strict: bool = False,
    format: str | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
    ledger: str | Path | Ledger | Spending | None = None,
    dataset: str | None = None,
    budget: tuple[float, float] | None = None,
) -> Release:
    """Release as many items of the users' union as differential privacy allows.

    Parameters
    ----------
    data
        A path, list of paths or glob (parquet, csv, tsv, jsonl; .gz and .zst too); a pandas, Polars
        or PyArrow table, a DuckDB relation or a :class:`dpsu.Query`; a mapping user -> items (or
        user -> {item: count}); an iterable of (user, item) tuples; or a list of lists or sets, one
        per user.
    user, item : str
        Columns of the person to protect and of the thing to release; text or integers.
    user_type, item_type : {"text", "integer"}, optional
        Read users and items as text or as integers; cells that cannot be read so are ignored. By
        default typed columns keep their type, and everything else (mappings, tuples, lists, JSON
        lines, pandas columns of objects) is text, integers as decimal digits.
    epsilon, delta : float
        The guarantee for adding or removing one user with all rows.
    mechanism : str, optional
        One of ``dpsu mechanisms``; sieve by default. ``"auto"``, the default where
        `expected_items_per_user` is given, chooses by that and by `expected_users`.
    text : str, optional
        Column of texts, instead of a column of items: their tokens are the items, and `item` only
        names the column of the output. Mappings then lead from users to texts.
    tokenizer : str or callable, optional
        What makes tokens of a text: ``"words"`` (Unicode word segmentation, lower case; the
        default), ``"paper"`` (as in the papers; needs nltk), ``"sentences"``, ``"lines"``,
        ``"regex:PATTERN"``, the path of a Hugging Face ``tokenizer.json``, or a function from a
        text to its tokens. A function must look at nothing but the text.
    ngrams : int, (int, int) or str, optional
        Items are n-grams of these lengths, joined by a space: ``2``, ``(1, 3)`` or ``"1-3"``.
    count : str, optional
        Column of local counts (greedy); otherwise repeated rows are counted.
    max_items : int, optional
        At most so many items per user, sampled by a salted hash. Choose it without looking at the
        data. Default 300 for sieve (1000 for n-grams of several tokens), 100 for other Gaussian
        mechanisms; Laplace ones need none when tight.
    alpha, cutoff : float, optional
        When an item is full: at ``threshold + alpha * noise scale`` (alpha is 3 by default), or at
        `cutoff` itself.
    passes : int, optional
        In how many passes users spend their budget.
    rounds : int, optional
        How often sips (3) and sieve (14) look at the data; 6 keep most of sieve's gain.
    scout_items : int, optional
        How many items of a user sieve scouts before it decides on `max_items` of them; 3000 by
        default, 0 for no scouting.
    min_users : int, optional
        Never release an item of fewer users (count, weighted, policy-laplace and greedy). This is
        no filter of the output: items need as much more weight.
    counts : bool
        Also release a noisy number of users for every released item (``release.counts``).
    counts_share : float
        Share of epsilon and delta that counts take from the selection; 0.2 by default.
    counts_items : int
        For how many released items a user counts at most; 30 by default.
    calibration : {"tight", "paper"}
        Our curves, or thresholds exactly as published.
    order : {"count", "popular", "scarce", "hash"}, optional
        In which order a greedy user spends: own counts (default), a public prior (default when one
        is given), the prior's scarcest reachable items first, or a keyed hash.
    prior : mapping, frame, path or "wordfreq:LANGUAGE", optional
        Public: item -> number of holders or frequency. Tables have a column named 'item', or as
        the private one, and one column of numbers. Greedy users spend in its order; with other
        mechanisms of a single pass it decides which `max_items` items a user keeps.
    expected_users : int, optional
        Public estimate of the number of users, for ``order="scarce"`` and ``"auto"``.
    expected_items_per_user : float, optional
        Public estimate of how many different items a user holds on average, for ``"auto"``.
    auto_budget : float, optional
        Share of epsilon and delta (such as 0.02) for which ``"auto"`` estimates both privately.
    public_items : iterable, frame or path, optional
        Known items: released in full, and not paid for. Tables have a column named 'item', or as
        the private one; a .txt file has one item per line.
    allow_unproven : bool
        Accept a published mechanism whose proof fails; the release then carries no guarantee.
    insecure_seed : int, optional
        Repeatable randomness for tests; the release then carries no guarantee.
    strict : bool
        Refuse rows without a usable user or item instead of dropping them.
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
        Format of files whose name does not say it.
    memory_limit : int or str, optional
        Keep at most so much of the rows in memory (bytes, or text such as ``"4GB"``), the rest in
        temporary files without a name; by default 60 % of what is available.
    progress : callable, optional
        Called with the name of the stage and how far it is: rows read, or users weighed.
    ledger : str, Path, Ledger or Spending, optional
        Record what this release costs in this file before anything is read, and refuse it if the
        budget does not allow it. A release that fails later is charged all the same.
    dataset : str, optional
        With a ledger: the name under which releases of the same people add up.
    budget : (float, float), optional
        With a ledger: epsilon and delta for all releases of the dataset; needed for the first.

    Returns
    -------
    Release

    Privacy
    -------
    The items are (epsilon, delta)-differentially private for adding or removing one user, by the
    theorem that ``release.plan.theorem`` names. Warnings and errors are for the curator only.

    Cost
    ----
    Linear in the rows; about 16 bytes of memory per row plus the distinct strings; rows
    beyond `memory_limit` go to disk.

    Examples
    --------
    >>> import dpsu
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> result = dpsu.release(visits, epsilon=1, delta=1e-6, mechanism="weighted-gaussian")
    >>> result.items
    ('bread', 'milk')
    >>> result.private
    True

    References
    ----------
    Gopi et al., Differentially Private Set Union, ICML 2020. Carvalho et al., Incorporating Item
    Frequency for Differentially Private Set Union, AAAI 2022.
    """
    from dpsu.contributions.ids import Ids, arrow_type
    from dpsu.contributions.pairs import intern
    from dpsu.engines import local
    from dpsu.inputs import public
    from dpsu.inputs.reading import read, refuse_by_names, refuse_private_as_public, wanted
    from dpsu.plans.auto import estimate
    from dpsu.runtime.compiling import when_compiling
    from dpsu.runtime.memory import Memory, parse_size

    spending = Spending.of(ledger, dataset, budget)
    flag("strict", strict)
    refuse_private_as_public(data, format, prior=prior, public_items=public_items)
    known_prior = None if prior is None else public.read_prior(prior, item)
    known_items = None if public_items is None else public.read_public_items(public_items, item)
    key = Key.from_os() if insecure_seed is None else Key.from_insecure_seed(insecure_seed)
    memory = Memory(parse_size(memory_limit))
    tell = function("progress", progress)
    rows_read = 0

    def tick(rows: int) -> None:
        nonlocal rows_read
        rows_read += rows
        tell("reading", rows_read)

    def planned(hints: Hints | None = None) -> Plan:
        return plan(
            user=user,
            item=item,
            user_type=user_type,
            item_type=item_type,
            text=text,
            tokenizer=tokenizer,
            ngrams=ngrams,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            count=count,
            max_items=max_items,
            alpha=alpha,
            cutoff=cutoff,
            passes=passes,
            rounds=rounds,
            scout_items=scout_items,
            min_users=min_users,
            counts=counts,
            counts_share=counts_share,
            counts_items=counts_items,
            calibration=calibration,
            order=order,
            prior=known_prior,
            expected_users=expected_users,
            expected_items_per_user=expected_items_per_user,
            public_items=known_items,
            allow_unproven=allow_unproven,
            insecure_seed=insecure_seed,
            hints=hints,
        )

    if auto_budget is not None:
        auto_budget = number("auto_budget", auto_budget, 1e-4, 0.5)
        if mechanism != AUTO or expected_items_per_user is not None:
            raise ParameterError(
                "auto_budget is for mechanism='auto' without expected_items_per_user: it pays for "
                "the estimate of what is not known"
            )
    # Everything that can be refused is refused before the data are touched.
    chosen = planned()
    types = user_type, item_type
    if item_type is not None and known_items is not None:
        known_items.as_type(arrow_type(item_type))
    if insecure_seed is not None:
        warnings.warn("insecure_seed: this release is not private", DataWarning, stacklevel=2)
    if spending.path is not None:
        columns = wanted(user, text or item, count, texts=text is not None, types=types)
        refuse_by_names(data, columns, format, tokenizer)
    with spending.charged(chosen, choice=None if auto_budget is None else AUTO):
        tell("reading", 0)
    with when_compiling(lambda: tell("compiling", 0)):
        rows = read(
            data,
            user=user,
            item=item,
            count=count,
            counted=chosen.order == "count" or auto_budget is not None,
            key=key,
            format=format,
            memory=memory,
            text=chosen.text,
            tokenizer=tokenizer,
            types=types,
        )
        pairs = intern(rows, strict=strict, memory=memory, tick=tick)
        if auto_budget is not None:
            # Of the plan's numbers, which are Python's: NumPy's may have fewer digits.
            paid = auto_budget * chosen.privacy.epsilon, auto_budget * chosen.privacy.delta
            chosen = planned(estimate(pairs, key, *paid, memory=memory))
        items = local.run(
            chosen,
            pairs,
            key,
            prior=known_prior,
            public=known_items,
            memory=memory,
            stage=tell,
        )
        noisy = local.count(chosen, pairs, items, key, memory=memory) if counts else None
    share = None
    if known_prior is not None and len(items):
        share = float(known_prior.known(Ids(items)).mean())
    spending.returned()
    return Release(chosen, items, noisy, share)
