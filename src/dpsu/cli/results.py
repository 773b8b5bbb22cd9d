"""What happens to a release in the shell: items to a file or stdout, words to stderr."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

import dpsu
from dpsu.cli.streams import to_stderr, to_stdout
from dpsu.words import guarantee, summary


def prepared(read: Sequence[str], output: Path | None, report: Path | None) -> Path | None:
    """Refuse before the work what could not be written; returns where items go, None for stdout."""
    from dpsu.writing import check_writable

    output = None if output is not None and str(output) == "-" else output
    taken = {Path(name).resolve() for name in read}
    for name, path in (("output", output), ("report", report)):
        if path is None:
            continue
        if path.resolve() in taken:
            raise click.UsageError(f"--{name} {str(path)!r} is also read, or written twice")
        taken.add(path.resolve())
    if output is not None:
        check_writable(output)
    if report is not None:
        check_writable(report, suffixes=())
    return output


def writable(read: Sequence[str | None], written: Mapping[str, Path | None]) -> None:
    """Refuse before the work files that could not be written, or that are also read."""
    from dpsu.writing import check_writable

    taken = {Path(name).resolve() for name in read if name}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise click.UsageError(f"--{option} {str(path)!r} is also read, or written twice")
        taken.add(path.resolve())
        check_writable(path, suffixes=(".html", ".htm") if option == "html" else ())


@contextmanager
def told_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Keep what the curator should know until the items are written."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dpsu.DataWarning)
        yield caught


def write_result(
    result: dpsu.Release,
    output: Path | None,
    report: Path | None,
    caught: list[warnings.WarningMessage],
    *,
    verbose: bool,
    quiet: bool,
) -> None:
    """Write the report, the items, and then words for people."""
    from dpsu.writing import lines, write_text

    if report is not None:
        as_json = report.suffix == ".json"
        write_text(report, (result.report_json() if as_json else result.report()) + "\n")
    if output is not None:
        result.write(output)
    else:
        to_stdout("".join(f"{line}\n" for line in lines(result)).encode())
    # The items come first: trouble with words for people must not cost the release.
    if not quiet:
        for warning in caught:
            to_stderr(f"warning: {warning.message}")
        to_stderr(result.report() if verbose else f"{summary(result)} (--verbose tells more)")
    elif not result.private:
        to_stderr(f"warning: {guarantee(result.plan)}")
