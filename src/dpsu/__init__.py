"""Differentially private set union: release as many items as possible, prove what it costs."""

from dpsu import spark as spark
from dpsu.audit import Audit, audit
from dpsu.errors import (
    DataError,
    DataWarning,
    DpsuError,
    OutputError,
    ParameterError,
    ResourceError,
)
from dpsu.plan import Plan, plan
from dpsu.privacy import Privacy
from dpsu.release import Release, release
from dpsu.selecting import select

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "DataError",
    "DataWarning",
    "DpsuError",
    "OutputError",
    "ParameterError",
    "Plan",
    "Privacy",
    "Release",
    "ResourceError",
    "audit",
    "plan",
    "release",
    "select",
]
