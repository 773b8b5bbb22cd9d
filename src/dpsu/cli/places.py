"""Where rows come from, where a release is charged and where its result goes, for all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from dpsu.cli.charges import spending_of
from dpsu.cli.progress import shown_progress
from dpsu.cli.results import LINES, Form, prepared, told_warnings, write_result
from dpsu.cli.sources import data_of, files_read
from dpsu.ledger.spending import Spending
from dpsu.results import Release

Made = TypeVar("Made")


@dataclass(frozen=True)
class Places:
    """What was typed for `source_options`, `ledger_options` and `result_options`."""

    source: str | None
    query: str | None
    ledger: str | None
    dataset: str | None
    budget: str | None
    output: Path | None
    report: Path | None
    csv_safe: bool
    verbose: bool
    quiet: bool

    @classmethod
    def taken(cls, options: dict[str, Any]) -> Places:
        """The same, taken out of all options of a command."""
        return cls(**{each.name: options.pop(each.name) for each in fields(cls)})

    def released(
        self,
        files: tuple[str, ...],
        also_read: Sequence[str],
        make: Callable[[], Made],
        release: Callable[[Any, Made, Spending, Any], Release],
        form: Form = LINES,
    ) -> None:
        """Release from one place to the other.

        `make` makes arguments of flags once it is clear that the result can be written; `release`
        is called with the data, these arguments, the ledger and who is shown the progress; `form`
        says how its result is written.
        """
        data = data_of(files, self.source, self.query)
        spending = spending_of(self.ledger, self.dataset, self.budget)
        read = [*also_read, *files_read(files, self.source, self.ledger)]
        output = prepared(
            read, self.output, self.report,
            csv_safe=self.csv_safe, quiet=self.quiet, suffixes=form.suffixes,
        )  # fmt: skip
        made = make()
        with told_warnings() as caught, shown_progress(self.quiet) as progress:
            result = release(data, made, spending, progress)
        write_result(
            result, output, self.report, caught, spending,
            csv_safe=self.csv_safe, verbose=self.verbose, quiet=self.quiet, form=form,
        )  # fmt: skip
