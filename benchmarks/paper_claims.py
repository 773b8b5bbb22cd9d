"""What the papers conclude of their results, checked on every set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.paper_numbers import FIGURE_LIMIT

OTHERS = ("count-laplace", "count-gaussian", "weighted-laplace", "weighted-gaussian")
POLICIES = ("policy-laplace", "policy-gaussian")
Check = Callable[[Any], str]


def policies_win(entry: Any) -> str:
    """Whether both policies beat all others at every epsilon from 1, or where they do not."""
    figure = entry["figures"]["1"]
    lost = [
        at
        for at in figure[POLICIES[0]]
        if float(at) >= 1
        and min(figure[p][at] for p in POLICIES) <= max(figure[o][at] for o in OTHERS)
    ]
    return "yes" if not lost else f"not at epsilon = {', '.join(lost)}"


def times_larger(entry: Any) -> str:
    """Policies over weighted, for either noise."""
    table, at = entry["tables"]["2"], str(FIGURE_LIMIT)
    ratios = [
        table[f"policy-{noise}"][at]["size"] / max(table[f"weighted-{noise}"][at]["size"], 1.0)
        for noise in ("laplace", "gaussian")
    ]
    return " and ".join(f"{ratio:.1f}" for ratio in ratios)


def second_pass(entry: Any) -> str:
    """The largest change by a second pass, and how many of the t-tests are below 0.05."""
    cells = [at for row in entry["tables"]["4"].values() for at in row.values()]
    changes = [at["2"]["size"] / max(at["1"]["size"], 1.0) - 1 for at in cells]
    low = sum(at["p"] is not None and at["p"] < 0.05 for at in cells)
    return f"at most {max(map(abs, changes)):.1%}; {low} of {len(cells)}"


def plateau(figure: dict[str, Any], at: str) -> str:
    """Sizes at one alpha as a share of the best on the axis, the lowest of all mechanisms."""
    shares = [row[at] / max(1.0, *row.values()) for row in figure.values()]
    return f"{min(shares):.1%}"


def greedy_gain(entry: Any) -> str:
    """GW over the better policy at its best limit."""
    table = entry["tables"]["4"]
    return f"{table['GW']['size'] / _better_policy(table) - 1:+.1%}"


def prior_gain(entry: Any) -> str:
    """The best GW-KT over the better policy."""
    table = entry["tables"]["4"]
    sizes = [at["size"] for label, at in table.items() if label.startswith("GW-KT")]
    if not sizes:
        return "no prior"
    return f"{max(sizes) / _better_policy(table) - 1:+.1%}"


def _better_policy(table: dict[str, Any]) -> float:
    return max(1.0, *(float(table[name]["size"]) for name in POLICIES))


def every_prior_helps(entry: Any) -> str:
    """Whether GW-KT beats GW with each prior, or with which it does not."""
    table = entry["tables"]["4"]
    priors = {k: at["size"] for k, at in table.items() if k.startswith("GW-KT")}
    if not priors:
        return "no prior"
    lost = [k.removeprefix("GW-KT ") for k, size in priors.items() if size <= table["GW"]["size"]]
    return "yes" if not lost else f"not with {', '.join(lost)}"


GOPI: tuple[tuple[str, str, Check], ...] = (
    (
        "Both policies release more than every other, for all epsilon ≥ 1 (Figure 1)",
        "yes",
        policies_win,
    ),
    (
        'Policies over weighted, Laplace and Gaussian, at max_items = 100 ("2-4 times")',
        "3.8 and 1.9",
        times_larger,
    ),
    (
        'Change by a second pass; t-tests below 0.05 (Table 4: "not strong evidence")',
        "at most 0.5%; 1 of 12",
        second_pass,
    ),
    (
        'Size at alpha = 2 over the best (Figure 6: "sharply until about alpha = 2")',
        "near 100%",
        lambda entry: plateau(entry["figures"]["6"], "2.0"),
    ),
    (
        'Size at alpha = 10 over the best (Figure 6: "then decreases")',
        "below 100%",
        lambda entry: plateau(entry["figures"]["6"], "10.0"),
    ),
)
CARVALHO: tuple[tuple[str, str, Check], ...] = (
    ("GW over the better policy (Table 4)", "+0.5% (Reddit), +9.8%, +10.0%", greedy_gain),
    ("Best GW-KT over the better policy (Table 4)", "+12.4% (Reddit), +24.7%, +12.7%", prior_gain),
    ("Every public set helps (GW-KT over GW)", "yes", every_prior_helps),
    (
        'Size at alpha = 3 over the best (Figure 3: "constant after")',
        "near 100%",
        lambda entry: plateau(entry["figures"]["3"]["alpha"], "3.0"),
    ),
)
