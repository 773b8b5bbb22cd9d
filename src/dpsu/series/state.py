"""The state of a series: a folder of public files, each of them made once and never changed.

::

    series.json            the terms: plan, number of periods and budget
    0001-begun.json        period 1 was begun; locked by the process that runs it
    0001-published.json    which run of it was published; made before its items can be seen
    0001-items.parquet     what that run released, and by which plan

That a run is the published one is a file that only one process can make. So no lock is needed to be
sure that none is published twice. A period without that file may be run again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dpsu.engines.found import Found
from dpsu.errors import TRY_AGAIN, BudgetError, OutputError, ParameterError, exit_code_of
from dpsu.results import Release, Run
from dpsu.runtime.writing import (
    claim,
    claim_again,
    claimed_by_somebody,
    let_go,
    sync_folder,
    unclaim,
    write_text,
)
from dpsu.series import kept
from dpsu.series.terms import Terms

TERMS = "series.json"
BEGUN, PUBLISHED, ITEMS = "begun.json", "published.json", "items.parquet"
OURS = re.compile(r"(\d{4,})-(begun\.json|published\.json|items\.parquet)")
DONE, PENDING, RUNNING, LOST = "done", "pending", "running", "lost"


@dataclass(frozen=True)
class Period:
    """One period that was begun.

    Attributes
    ----------
    number : int
        The first is 1.
    state : str
        "done"; "running", as far as this machine knows; "pending": it failed or was killed before
        anything was shown, and may be run again; or "lost": it is spent, and its result is gone.
    run : Run or None
        Its first run, or the one that was published: its random id and when it began; None if that
        file was changed by hand.
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
            # It gets its name whole; a folder that was filled meanwhile is not replaced.
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
        found: dict[str, set[int]] = {BEGUN: set(), PUBLISHED: set(), ITEMS: set()}
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
        if not found[ITEMS] <= found[PUBLISHED] <= found[BEGUN]:
            raise ParameterError(
                f"series {str(self.path)!r} is damaged: it has items of a period that was never "
                "begun or published; files were removed or added by hand"
            )
        for number in range(1, count + 1):
            if self._noted(number, BEGUN).get("terms", terms.digest) != terms.digest:
                raise ParameterError(
                    f"series {str(self.path)!r} is damaged: period {number} was begun by another "
                    "plan, budget or number of periods than those on record; files were changed "
                    "by hand"
                )
        return count

    def period(self, number: int) -> Period:
        """What is known of a period that was begun; puts a result in place that was published."""
        if self._file(number, PUBLISHED).exists():
            run = self._run(number, PUBLISHED)
            if not self.show(number, run):
                return Period(number, LOST, run, None)
            return Period(number, DONE, run, kept.count(self._file(number, ITEMS)))
        run = self._run(number, BEGUN)
        if not self._file(number, BEGUN).exists():
            # A run that was refused has taken it back.
            raise self._meanwhile(number)
        if claimed_by_somebody(self._file(number, BEGUN)):
            return Period(number, RUNNING, run, None)
        # Only `empty_claim`, or a hand, leaves a file that names no run.
        return Period(number, LOST if run is None else PENDING, run, None)

    def begin(self, number: int, run: Run, terms: Terms) -> tuple[BinaryIO, bool]:
        """Claim a period, on disk, before anything is read; and whether no run claimed it before.

        It runs until the file that this returns is closed.
        """
        file, first = self._file(number, BEGUN), True
        noted = vars(run) | {"terms": terms.digest}
        claimed: BinaryIO | None
        try:
            claimed = claim(file, f"{json.dumps(noted)}\n")
        except FileExistsError:
            claimed, first = self._claim_again(number), False
        except OSError as error:
            raise OutputError(
                f"cannot note in {str(self.path)!r} that period {number} begins: {error.strerror}; "
                "nothing was read",
                exit_code=exit_code_of(error),
            ) from None
        ended = self._file(number, PUBLISHED).exists() or self._run(number, BEGUN) is None
        if claimed is None or ended:
            if claimed is not None:
                let_go(claimed)
            raise self._meanwhile(number)
        if number > 1 and not self._file(number - 1, BEGUN).exists():
            # Another process took back the period before this one.
            if first:
                self.take_back(number, claimed)
            raise self._meanwhile(number)
        kept.remove_leftovers(file)
        return claimed, first

    def _meanwhile(self, number: int) -> ParameterError:
        return ParameterError(
            f"another process began period {number} of {str(self.path)!r} meanwhile; nothing "
            "was read. Try again when it has ended",
            exit_code=TRY_AGAIN,
        )

    def _claim_again(self, number: int) -> BinaryIO | None:
        try:
            return claim_again(self._file(number, BEGUN))
        except OSError as error:
            raise BudgetError(
                f"period {number} of {str(self.path)!r} was begun and has no result, and its lock "
                f"cannot be checked ({error.strerror}), so that it may still be running. Nothing "
                f"was read. Release period {number + 1} instead"
            ) from None

    def take_back(self, number: int, claimed: BinaryIO) -> None:
        """Take back that a period was begun, of which nothing was read."""
        unclaim(self._file(number, BEGUN), claimed)

    def first_run(self, number: int) -> str:
        """The random id of the run that began a period."""
        run = self._run(number, BEGUN)
        return "" if run is None else run.id

    def stage(self, number: int, found: Found, run: Run) -> None:
        """Bring to the disk what a run of a period released, hidden."""
        kept.stage(self._file(number, ITEMS), found, run)

    def publish(self, number: int, run: Run) -> None:
        """Mark, durably and before it can be seen, which run of a period is published.

        Only one run of a period gets past this.
        """
        try:
            claim(self._file(number, PUBLISHED), f"{json.dumps(vars(run))}\n").close()
        except FileExistsError:
            raise ParameterError(
                f"another run of period {number} of {str(self.path)!r} was published meanwhile, so "
                "that this one shows nothing; ask for that period again",
                exit_code=TRY_AGAIN,
            ) from None
        except OSError as error:
            raise OutputError(
                f"cannot note in {str(self.path)!r} that period {number} is published: "
                f"{error.strerror}; nothing was shown",
                exit_code=exit_code_of(error),
            ) from None

    def stored(self, number: int, terms: Terms) -> Release:
        """The release of a period that is done, as it was returned then."""
        return kept.load(self._file(number, ITEMS), terms.plan)

    def show(self, number: int, run: Run | None) -> bool:
        """Let the result of the run that is published be seen; whether it is there."""
        return kept.show(self._file(number, ITEMS), "" if run is None else run.id)

    def show_or_fail(self, number: int, run: Run) -> None:
        """The same, where it must be there."""
        kept.show_or_fail(self._file(number, ITEMS), run.id)

    def _file(self, number: int, kind: str) -> Path:
        return self.path / f"{number:04d}-{kind}"

    def _noted(self, number: int, kind: str) -> dict[str, Any]:
        """What such a file says of a period; that it is there says the rest."""
        try:
            found = json.loads(self._file(number, kind).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _run(self, number: int, kind: str) -> Run | None:
        noted = self._noted(number, kind)
        noted.pop("terms", None)
        try:
            return Run(**noted)
        except TypeError:
            return None


def spent(path: Path, periods: int, pending: list[int]) -> BudgetError:
    """The refusal of a period beyond the last."""
    if pending:
        return BudgetError(
            f"all {periods:,} periods of the series {str(path)!r} were begun, and these are "
            f"pending: {', '.join(map(str, pending))}. Nothing was read. Run a pending one by its "
            "number, which costs nothing more"
        )
    return BudgetError(
        f"all {periods:,} periods of the series {str(path)!r} are spent, and the budget with them. "
        "Nothing was read. If more may be spent on these people, begin another series: its budget "
        "comes on top"
    )
