"""The `dpsu` command before anything else is loaded.

It is a package of its own because importing any part of `dpsu` imports much of it: Ctrl-C in the
first moments would print the traceback of an import.
"""

from dpsu_command.beginning import begin


def run() -> None:
    """Run the command line; it does not return."""
    begin()
    from dpsu.cli import run

    run()
