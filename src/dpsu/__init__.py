"""Differentially private set union: release as many items as possible, prove what it costs."""

from dpsu.audit import Audit, audit
from dpsu.comparing import Comparison, compare
from dpsu.errors import (
    DataError,
    DataWarning,
    DpsuError,
    MissingLibraryError,
    OutputError,
    ParameterError,
    ResourceError,
)
from dpsu.forecast import Forecast, forecast
from dpsu.ngrams import ngrams
from dpsu.plan import Plan
from dpsu.planning import plan
from dpsu.privacy import Privacy
from dpsu.release import Release, release
from dpsu.selecting import select

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Comparison",
    "DataError",
    "DataWarning",
    "DpsuError",
    "Forecast",
    "MissingLibraryError",
    "OutputError",
    "ParameterError",
    "Plan",
    "Privacy",
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
