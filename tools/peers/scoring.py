"""How far sums per product are from the true ones. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import Any

COMMON = 500
"""Errors are averaged over so many products: those with the largest true sums."""

Sums = dict[str, float]


def true_sums(rows: Iterable[tuple[int, str, int]]) -> Sums:
    """Exact sums of the amounts of each product."""
    sums: Sums = {}
    for _, product, amount in rows:
        sums[product] = sums.get(product, 0) + amount
    return sums


def largest_purchases(rows: Iterable[tuple[int, str, int]]) -> list[tuple[int, str, int]]:
    """One row for each person: the largest amount, and of equal ones the last product by name."""
    best: dict[int, tuple[int, str]] = {}
    for person, product, amount in rows:
        best[person] = max(best.get(person, (0, "")), (amount, product))
    return [(person, product, amount) for person, (amount, product) in best.items()]


def score(true: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    """Compare noisy sums with true ones; a product that is missing is off by all of its sum.

    Returns
    -------
    dict
        ``groups``, how many products have a sum; ``covered``, the share of the true total that
        belongs to them; ``off``, all errors together as a share of the true total; ``mean`` and
        ``median``, of the errors of the :data:`COMMON` largest products.
    """
    total = sum(true.values())
    errors = {name: abs(value - found.get(name, 0.0)) for name, value in true.items()}
    # A sum for a product that nobody bought is an error, too.
    invented = [abs(value) for name, value in found.items() if name not in true]
    common = sorted(true, key=lambda name: (-true[name], name))[:COMMON]
    return {
        "groups": len(found),
        "covered": sum(true[name] for name in found if name in true) / total,
        "off": (sum(errors.values()) + sum(invented)) / total,
        "mean": fmean(errors[name] for name in common),
        "median": median(errors[name] for name in common),
    }


def mean_of(answers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Means of several answers, name by name, of all that are numbers."""
    every = list(answers)
    names = [name for name, value in every[0].items() if isinstance(value, int | float)]
    return {name: fmean(each[name] for each in every) for name in names}
