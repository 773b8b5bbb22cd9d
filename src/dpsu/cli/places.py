"""Where rows come from, where a release is charged and where its result goes, for all commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar
from warnings import WarningMessage

import click

from dpsu.cli.charges import spending_of
from dpsu.cli.interrupts import COMPLETE, NOT_WRITTEN, PERHAPS_IN_PART, stage
from dpsu.cli.progress import shown_progress
from dpsu.cli.results import LINES, Form, print_warnings, put_in_place, told_warnings, writable
from dpsu.cli.sources import data_of, files_read
from dpsu.cli.streams import refuse_closed_stdout, to_stderr, to_stdout
from dpsu.errors import INPUT, OutputError
from dpsu.ledger.spending import Spending
from dpsu.plans.prose import guarantee
from dpsu.reports import summary
from dpsu.results import Release
from dpsu.runtime.writing import PendingFile, other_than_file, text_writer

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
        self._refuse_outputs(read, form)
        made = make()
        with told_warnings() as caught, shown_progress(self.quiet) as progress:
            result = release(data, made, spending, progress)
        self._write(result, form, caught, spending)

    @property
    def _file(self) -> Path | None:
        """The file of the items; None for standard output."""
        return None if self.output is None or str(self.output) == "-" else self.output

    def _refuse_outputs(self, read: Sequence[str | None], form: Form) -> None:
        """Refuse before the work what could not be written."""
        output = self._file
        if output is None:
            refuse_closed_stdout()
        if self.report is not None and str(self.report) == "-":
            raise click.UsageError("--report must be a file; --verbose prints the report")
        if self.csv_safe and (output is None or output.suffix != ".csv"):
            raise click.UsageError("--csv-safe is for --output FILE.csv")
        if output is not None and (what := other_than_file(output)) is not None:
            raise OutputError(
                f"cannot write {str(output)!r}: it is {what}; leave out --output to print to "
                "standard output, or name a file",
                exit_code=INPUT,
            )
        written = {"output": output, "report": self.report}
        writable(read, written, {"output": form.suffixes}, quiet=self.quiet)

    def _write(
        self, result: Release, form: Form, caught: list[WarningMessage], spending: Spending
    ) -> None:
        """Write the items and the report, mark the release as done, and then words for people."""
        output, report = self._file, self.report
        where = "on standard output" if output is None else f"in {str(output)!r}"
        items = f"the items {where}"
        named: dict[str, PendingFile] = {}
        with ExitStack() as stack:
            late = stack.enter_context(told_warnings())
            stage.outputs = {items: NOT_WRITTEN}
            if output is not None:
                named[items] = PendingFile(output, form.writer(result, output, self.csv_safe))
                stack.callback(named[items].discard)
            if report is not None:
                text = result.report_json() if report.suffix == ".json" else result.report()
                name = f"the report in {str(report)!r}"
                stage.outputs[name] = NOT_WRITTEN
                named[name] = PendingFile(report, text_writer(text + "\n"))
                stack.callback(named[name].discard)
            if output is None:
                stage.outputs[items] = PERHAPS_IN_PART
                to_stdout(form.printed(result))
                stage.outputs[items] = COMPLETE
            put_in_place(named, spending.done)
        # The items come first: trouble with words for people must not cost the release.
        if not self.quiet:
            print_warnings([*caught, *late])
            more = f"{summary(result)} (--verbose says more)"
            to_stderr(result.report() if self.verbose else more)
        elif not result.private:
            to_stderr(f"warning: {guarantee(result.plan)}")
