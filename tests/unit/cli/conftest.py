"""All tests of this folder run the command in this process."""

from tests.unit.cli.test_cli import data, run  # noqa: F401
