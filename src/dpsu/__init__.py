"""Differentially private set union: release as many items as possible, prove what it costs."""

import dpsu_command

# `python -m dpsu` imports all of this first, and Ctrl-C must end that without a traceback, too.
if dpsu_command.started_as_module():
    dpsu_command.begin()

from dpsu import spark as spark
from dpsu._version import __version__ as __version__
from dpsu.audits import Audit, audit
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
from dpsu.inputs.sql import Query
from dpsu.ledger.ledger import Ledger
from dpsu.ngrams import ngrams
from dpsu.plans.plan import Plan
from dpsu.plans.planning import plan
from dpsu.privacy.guarantee import Privacy
from dpsu.releases import Release, release
from dpsu.selection import select
from dpsu.yields.comparing import Comparison, compare
from dpsu.yields.forecasting import Forecast, forecast

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
