"""Calls with flat options, as the command line has them: for tests that go through many of them."""

from __future__ import annotations

from typing import Any

import dpsu
import dpsu.spark
from dpsu.audit_scenarios import audit_prior
from dpsu.cli import options
from dpsu.options import options_of
from dpsu.plans.mechanisms import MECHANISMS

RENAMED = {"count": "repeats"}
PROMISE = ("epsilon", "delta", "public_items", "insecure_seed", "counts")
COLUMNS = {flag.name for flag in options.flags_of(dpsu.Users, dpsu.Items, dpsu.Tokens)}
CHOICE = {flag.name for flag in options.flags_of(*MECHANISMS.values())} | {"mechanism"}


def planned(flat: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `dpsu.plan` for flat options, which are taken out of `flat`."""
    for old, new in RENAMED.items():
        if old in flat:
            flat[new] = flat.pop(old)
    if flat.get("allow_unproven") is False and flat.get("mechanism") != "greedy":
        del flat["allow_unproven"]
    if flat.get("mechanism") not in (None, dpsu.Auto.name, *MECHANISMS):
        # The command line refuses other names itself.
        dpsu.plan(epsilon=1, delta=1e-6, mechanism=flat["mechanism"])
    made = {name: flat.pop(name) for name in PROMISE if name in flat}
    counts = {
        short: flat.pop(f"counts_{old}")
        for short, old in (("share", "share"), ("max_items", "items"))
        if f"counts_{old}" in flat
    }
    if counts:
        made["counts"] = dpsu.Counts(**counts)
    # What is None was not typed where that may be said of it.
    columns = {name: flat.pop(name) for name in list(flat) if name in COLUMNS}
    columns = {name: value for name, value in columns.items() if value is not None}
    made |= {"user": options.users_of(columns), "item": options.items_of(columns)}
    chosen = {name: flat.pop(name) for name in list(flat) if name in CHOICE}
    if chosen.get("mechanism", "") is None:
        del chosen["mechanism"]
    kind = MECHANISMS.get(str(chosen.get("mechanism")), dpsu.Sieve)
    if "calibration" not in options_of(kind) and chosen.get("calibration") == "tight":
        del chosen["calibration"]
    return made | {"mechanism": options.mechanism_of(chosen)}


def ledger_of(flat: dict[str, Any]) -> dict[str, Any]:
    """The ledger of a file, a dataset and a budget."""
    ledger, dataset = flat.pop("ledger", None), flat.pop("dataset", None)
    budget = flat.pop("budget", None)
    if dataset is None:
        return {} if ledger is None else {"ledger": ledger}
    book = ledger if isinstance(ledger, dpsu.Ledger) else dpsu.Ledger(ledger)
    return {"ledger": book.dataset(dataset, budget=budget)}


def plan(**flat: Any) -> dpsu.Plan:
    """Plan with flat options."""
    made = dpsu.plan(**planned(flat))
    assert not flat, flat
    return made


def release(data: Any, **flat: Any) -> dpsu.Release:
    """Release with flat options."""
    charged = ledger_of(flat)
    made = planned(flat)
    return dpsu.release(data, **made, **charged, **flat)


def spark_release(frame: Any, **flat: Any) -> dpsu.spark.SparkRelease:
    """Release on Spark with flat options."""
    charged = ledger_of(flat)
    made = planned(flat)
    return dpsu.spark.release(frame, **made, **charged, **flat)


def forecast(**flat: Any) -> dpsu.Forecast:
    """Forecast with flat options."""
    return dpsu.forecast(dpsu.plan(**planned(flat)), **flat)


def audit(**flat: Any) -> dpsu.Audit:
    """Audit with flat options."""
    flat.setdefault("epsilon", 1.0)
    flat.setdefault("delta", 0.05)
    if flat.get("order") in ("popular", "scarce"):
        flat.setdefault("prior", audit_prior())
    return dpsu.audit(dpsu.plan(**planned(flat)), **flat)


def ngrams(data: Any, **flat: Any) -> dpsu.Release:
    """Release n-grams length by length with flat options."""
    return release(data, mechanism="ngrams", **flat)


def select(data: Any, candidates: Any, **flat: Any) -> dpsu.Release:
    """Select among flat options."""
    shared = {name: flat.pop(name) for name in list(flat) if name in options.plan_names()}
    plans = [plan(**shared, **one) for one in candidates]
    return dpsu.select(data, plans, **ledger_of(flat), **flat)
