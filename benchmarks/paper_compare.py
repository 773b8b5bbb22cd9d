"""Each measured number beside the published one, their ratio, and whether it needs a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import paper_numbers as published
from benchmarks.paper_reasons import reason

TOLERANCE = 0.10
POLICIES = ("policy-laplace", "policy-gaussian")


@dataclass(frozen=True)
class Compared:
    """One number of a paper and ours.

    Parameters
    ----------
    paper, table
        Where it was published: "gopi" or "carvalho", and the number of the table.
    where
        Row and column, in words.
    corpus
        The set it was measured on.
    published, ours
        The two numbers, in the same unit.
    """

    paper: str
    table: str
    where: str
    corpus: str
    published: float
    ours: float

    @property
    def ratio(self) -> float:
        """Ours as a share of the published number."""
        return self.ours / self.published

    @property
    def flagged(self) -> bool:
        """Whether they differ by more than 10 % of the published number."""
        return abs(self.ours - self.published) > TOLERANCE * self.published

    @property
    def reason(self) -> str:
        """Why they differ, as far as we know; only flagged numbers have one."""
        if not self.flagged:
            return ""
        return reason(self.paper, self.table, self.where, self.corpus)


def compared(gopi: dict[str, Any], carvalho: dict[str, Any]) -> list[Compared]:
    """Everything that was published and measured, in the order of the papers."""
    found: list[Compared] = []
    for name, entry in gopi.get("sets", {}).items():
        if entry["stands_for"] == "reddit":
            found += _statistics(name, entry)
            found += _gopi(name, entry)
    for name, entry in carvalho.get("sets", {}).items():
        if entry["stands_for"]:
            found += _carvalho(name, entry)
    found += _stand_in_priors(carvalho)
    return found


def _statistics(name: str, entry: dict[str, Any]) -> Iterator[Compared]:
    facts = {
        "users": (published.USERS, entry["users"]),
        "words": (published.VOCABULARY, entry["vocabulary"]),
        "words of the largest user": (published.TOP_USERS[1], entry["top_users"][0]),
        "words of the tenth largest user": (published.TOP_USERS[0], entry["top_users"][1]),
        "slope of Figure 4": (published.ZIPF, entry["zipf"]),
    }
    if entry["observations"] is not None:
        facts["posts"] = (published.POSTS, entry["observations"])
    for where, (theirs, ours) in facts.items():
        yield Compared("gopi", "statistics", where, name, theirs, ours)


def _gopi(name: str, entry: dict[str, Any]) -> Iterator[Compared]:
    tables = entry["tables"]
    for size, percent in published.SET_SIZES.items():
        ours = tables["1"][str(size)]
        yield Compared("gopi", "1", f"users with at most {size} words, %", name, percent, ours)
    for mechanism, row in published.GOPI_TABLE_2.items():
        for limit, (size, _) in zip(published.LIMITS, row, strict=True):
            ours = tables["2"][mechanism][str(limit)]["size"]
            yield Compared("gopi", "2", at_limit(mechanism, limit), name, size, ours)
    for k, (held, *shares) in published.GOPI_TABLE_3.items():
        at = tables["3"][str(k)]
        yield Compared("gopi", "3", f"words of at least {k} users", name, held, at["held"])
        for mechanism, share in zip(POLICIES, shares, strict=True):
            meant = published.CORRECTED.get(("gopi", "3", k, mechanism), share)
            where = f"{mechanism} as % of the words of at least {k} users"
            yield Compared("gopi", "3", where, name, meant, at[mechanism])
    for mechanism, rows in published.GOPI_TABLE_4.items():
        for limit, (one, _, two, _, _) in zip(published.LIMITS, rows, strict=True):
            at = tables["4"][mechanism][str(limit)]
            for passes, size in (("1", one), ("2", two)):
                where = f"{at_limit(mechanism, limit)}, passes {passes}"
                yield Compared("gopi", "4", where, name, size, at[passes]["size"])


def _carvalho(name: str, entry: dict[str, Any]) -> Iterator[Compared]:
    private, tables = entry["stands_for"], entry["tables"]
    users, observations, vocabulary = published.CARVALHO_TABLE_2[private]
    sizes = {"users": users, "observations": observations, "vocabulary": vocabulary}
    for where, number in sizes.items():
        if tables["2"][where] is not None:
            yield Compared("carvalho", "2", where, name, number, tables["2"][where])
    for public, (words, beside) in published.CARVALHO_TABLE_3.items():
        if public in tables["3"]:
            at, (percent, correlation) = tables["3"][public], beside[private]
            # A made-up prior is made of private words, so it has no vocabulary of its own.
            if name != "synthetic":
                where = f"vocabulary of {public}"
                yield Compared("carvalho", "3", where, name, words, at["vocabulary"])
            where = f"overlap with {public}, %"
            yield Compared("carvalho", "3", where, name, percent, at["overlap"])
            where = f"correlation with {public}"
            yield Compared("carvalho", "3", where, name, correlation, at["correlation"])
    for column, (size, _) in published.CARVALHO_TABLE_4[private].items():
        row = f"GW-KT {column}" if column in published.PUBLIC else column
        if row in tables["4"]:
            yield Compared("carvalho", "4", row, name, size, tables["4"][row]["size"])


def _stand_in_priors(carvalho: dict[str, Any]) -> Iterator[Compared]:
    for name, entry in carvalho.get("sets", {}).items():
        at = entry["tables"]["3"].get("imdb reviews")
        if at is not None:
            words = published.CARVALHO_TABLE_3["imdb"][0]
            where = "vocabulary of imdb, shared reviews"
            yield Compared("carvalho", "3", where, name, words, at["vocabulary"])
            return


def copied(entry: Compared) -> bool:
    """Whether the published number is one of those that Gopi's Table 4 repeats by mistake."""
    wrong = tuple(f"{at_limit('policy-gaussian', limit)}," for limit in (100, 200, 300))
    return (entry.paper, entry.table) == ("gopi", "4") and entry.where.startswith(wrong)


def at_limit(mechanism: str, limit: int) -> str:
    """A mechanism and its number of items per user, in words."""
    return f"{mechanism}, max_items {limit}"
