"""Differentially private set union: release as many items as possible, prove what it costs."""

import importlib as _importlib
import typing as _typing

from dpsu._version import __version__ as __version__
from dpsu.errors import (
    BudgetError,
    DataError,
    DataWarning,
    DpsuError,
    JobLostError,
    LedgerError,
    MissingLibraryError,
    OutputError,
    ParameterError,
    ResourceError,
)
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.sql import Query
from dpsu.inputs.tokens import Tokens
from dpsu.inputs.values import Values
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import (
    Bits,
    CountGaussian,
    CountLaplace,
    Greedy,
    NGrams,
    PolicyGaussian,
    PolicyLaplace,
    Reroute,
    Sieve,
    Sips,
    WeightedGaussian,
    WeightedLaplace,
)
from dpsu.plans.mechanisms.auto import Auto
from dpsu.plans.plan import Plan
from dpsu.plans.planning import mechanism, plan
from dpsu.privacy.guarantee import Privacy
from dpsu.releases import release
from dpsu.results import Release

if _typing.TYPE_CHECKING:
    from dpsu import dask as dask
    from dpsu import spark as spark
    from dpsu.audits import Audit, audit
    from dpsu.codebooks import Domains, domains
    from dpsu.ledger.ledger import Ledger
    from dpsu.ledger.splitting import split_budget
    from dpsu.selection import select
    from dpsu.series.repeated import Series
    from dpsu.yields.comparing import Comparison, compare
    from dpsu.yields.forecasted import Forecast
    from dpsu.yields.forecasting import forecast

__all__ = [
    "Audit",
    "Auto",
    "Bits",
    "BudgetError",
    "Comparison",
    "CountGaussian",
    "CountLaplace",
    "Counts",
    "DataError",
    "DataWarning",
    "Domains",
    "DpsuError",
    "Forecast",
    "Greedy",
    "Items",
    "JobLostError",
    "Ledger",
    "LedgerError",
    "MissingLibraryError",
    "NGrams",
    "OutputError",
    "ParameterError",
    "Plan",
    "PolicyGaussian",
    "PolicyLaplace",
    "Privacy",
    "Query",
    "Release",
    "Reroute",
    "ResourceError",
    "Series",
    "Sieve",
    "Sips",
    "Tokens",
    "Users",
    "Values",
    "WeightedGaussian",
    "WeightedLaplace",
    "audit",
    "compare",
    "domains",
    "forecast",
    "mechanism",
    "plan",
    "release",
    "select",
    "split_budget",
]

# What a release can do without is loaded when it is first asked for.
_MODULES = ("dask", "spark")
_LOADED_LATER = {
    "Audit": "audits",
    "Comparison": "yields.comparing",
    "Domains": "codebooks",
    "Forecast": "yields.forecasted",
    "Ledger": "ledger.ledger",
    "Series": "series.repeated",
    "audit": "audits",
    "compare": "yields.comparing",
    "domains": "codebooks",
    "forecast": "yields.forecasting",
    "select": "selection",
    "split_budget": "ledger.splitting",
}


def __getattr__(name: str) -> _typing.Any:
    """Load what was asked for; Python calls this for names that are not here yet."""
    if name in _MODULES:
        return _importlib.import_module(f"dpsu.{name}")
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(_importlib.import_module(f"dpsu.{_LOADED_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What is public: modules of the package, which imports put here too, are not."""
    beside = "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"
    return sorted([*__all__, *beside, *_MODULES])
