"""The command line: thin over the library. Data on stdout, words for people on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

import dpsu
from dpsu.cli.interrupts import ignore_signals, leave_interrupted, listen, stage
from dpsu.cli.streams import hold_closed, to_stderr
from dpsu.errors import (
    NO_MEMORY,
    DpsuError,
    JobLostError,
    ParameterError,
    exit_code_of,
    is_memory_error,
)

# One file of this folder each, which is loaded when the command is named, or listed in the help.
COMMANDS = (
    "audit", "compare", "demo", "domains", "ledger", "mechanisms", "ngrams", "plan", "proofs",
    "release", "series", "tokenizer",
)  # fmt: skip
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # Where there is no such command, click looks for one that is near among all of them.
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(getattr(import_module(f"dpsu.cli.{name}"), f"{name}_command"))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dpsu.__version__, prog_name="dpsu")
def cli() -> None:
    """Differentially private set union.

    Many users each hold a set of items; release as many of the items as possible while no single
    user can be noticed.

    Exit codes: 0 done, 1 failed, 2 usage or data, 3 refused by a budget or a plan, 75 try again,
    128 plus the number of the signal if interrupted.
    """


def main(*, own_process: bool = False) -> None:
    """Run the command line, and leave with the exit code that `dpsu.errors` lists.

    Parameters
    ----------
    own_process
        Whether signals are for this command alone.
    """
    stage.begin()
    try:
        if own_process:
            listen()
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        leave_interrupted()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ParameterError as error:
        fail(error.in_the_shell(), error.exit_code)
    except Exception as error:
        if stage.signal:
            # Standard error may have gone, and with it what was to be said of the interruption.
            leave_interrupted()
        # A lost job says by itself what stays charged.
        fail(_worded(error), exit_code_of(error), charge=not isinstance(error, JobLostError))


def _worded(error: Exception) -> str:
    """What went wrong, and what of the output is there nevertheless."""
    if isinstance(error, DpsuError):
        message = str(error)
    elif is_memory_error(error):
        message = NO_MEMORY
    elif isinstance(error, OSError):
        message = error.strerror or "input or output failed"
    else:
        # Its message may quote a cell: tell where it happened, not what it says.
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        message = f"unexpected {where}; this is a defect, please report it"
    return f"{message}; {stage.message()}" if stage.begun() else message


def run() -> NoReturn:
    """The `dpsu` command: `main`, and then leave without waiting for threads that read ahead."""
    code: Any = 0
    try:
        hold_closed()
        # Nothing needs BLAS, which NumPy loads, and which takes memory at once for each thread.
        for name in BLAS_THREADS:
            os.environ.setdefault(name, "1")
        try:
            main(own_process=True)
        except SystemExit as stop:
            code = stop.code
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        # All is said and done: a signal from here on changes nothing.
        ignore_signals()
    except KeyboardInterrupt:
        # A signal while an error was being printed, or in the last moment.
        leave_interrupted()
    os._exit(code if isinstance(code, int) else int(code is not None))


def fail(message: str, code: int, *, charge: bool = True) -> NoReturn:
    """Say what went wrong, and what it cost, and leave."""
    said = None if stage.spending is None or stage.begun() else stage.spending.said
    if charge and said is not None:
        message += f"; {said}"
    to_stderr(f"dpsu: {message}")
    sys.exit(code)
