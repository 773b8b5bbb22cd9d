"""Differentially private set union: release as many items as possible, prove what it costs."""

import dpsu_command

# `python -m dpsu` imports all of this first, and Ctrl-C must end that without a traceback, too.
if dpsu_command.started_as_module():
    dpsu_command.begin()

from dpsu import spark as spark
from dpsu.audit import Audit, audit
from dpsu.comparing import Comparison, compare
from dpsu.errors import (
    BudgetError,
    DataError,
    DataWarning,
    DpsuError,
    LedgerError,
    MissingLibraryError,
    OutputError,
    ParameterError,
    ResourceError,
)
from dpsu.forecast import Forecast, forecast
from dpsu.inputs.sql import Query
from dpsu.ledger import Ledger
from dpsu.ngrams import ngrams
from dpsu.plan import Plan
from dpsu.planning import plan
from dpsu.privacy.guarantee import Privacy
from dpsu.release import Release, release
from dpsu.selecting import select

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "BudgetError",
    "Comparison",
    "DataError",
    "DataWarning",
    "DpsuError",
    "Forecast",
    "Ledger",
    "LedgerError",
    "MissingLibraryError",
    "OutputError",
    "ParameterError",
    "Plan",
    "Privacy",
    "Query",
    "Release",
    "ResourceError",
    "audit",
    "compare",
    "forecast",
    "ngrams",
    "plan",
    "release",
    "select",
]
