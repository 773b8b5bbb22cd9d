"""The page of the documentation about the papers' experiments, from their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import carvalho2022, gopi2020, paper_claims, yields
from benchmarks import paper_numbers as published
from benchmarks.paper_compare import Compared, at_limit, compared, copied
from benchmarks.paper_corpora import TITLES

Sets = dict[str, Any]
NOT_GIVEN = "files not given"

INTRODUCTION = """\
Every table and figure of the two papers, run again by `make papers` (`make papers DATA=folder` for
more than the made-up corpus). Mechanisms are calibrated as published. Ratios are ours to theirs; a
⚑ marks those more than 10 % away from 1, and [why](#deviations-above-10) is told at the end. Sizes
are means over keys with the standard error; Gopi et al. print standard deviations. What the papers
call the contribution limit is `max_items` here.

**What stands for what.** The papers' files are not here. *Reddit, made up* stands for their Reddit
set: users drawn from a distribution that is fitted to what was published of the data, and, for
words of more than 25 users, of which nothing was said, to the sizes of the count mechanisms, which
depend on numbers of holders alone (`python -m benchmarks.paper_fit`). So the rows of count-laplace
and count-gaussian in Table 2 are a check of the fit and no evidence; no other result of the papers
was fitted. Rows called *statistics only* are for the corpus of `dpsu demo`, which is fitted to no
result at all: there count-laplace comes out up to 36 % too large, and what adds Gaussian noise to
one item per user 13 %, but from 10 items on weighted-gaussian and the policies are 2 to 4 points
*nearer* to the papers than in the fitted corpus. Words are drawn independently: made-up users have
no topics and no style.

Four real sets stand for nothing that was published and have no published number beside them.
Nothing stands for Twitter and Finance. Each set of the papers is read from its own files where
`DATA` holds them; `python -m benchmarks.paper_texts --help` says which.

**Not how data may be released.** Options are compared by looking at many runs on the same data."""

FIT = """\
Users, words, the percentages and the words of at least k users are what the corpus was made to
have. Posts are not modeled: a user's set of words is drawn at once."""

MISPRINTS = """\
The paper has two misprints: 24.5 % in its Table 3 must be 42.5 % (14,739 of 34,699), which is what
we compare with, and in Table 4 policy-gaussian at 100 items per user and more repeats the numbers
of policy-laplace, which are compared as printed. The papers' figures come without numbers; crosses
in ours are numbers of their tables."""

PRIORS = """\
For the made-up corpus there is one made-up prior for each public set: every word's rate times a
lognormal factor, in a public corpus of a size that gives the published overlap, with the spread
that comes nearest to the published correlation. Priors are made of the rates that the corpus
is drawn from, never of who turned out to hold what. The text sets have three real priors: words of
public Reddit posts, of IMDB reviews, and of the list wordfreq. Only the shared IMDB reviews are
like a public set of the paper. Steam and FIMI have no public counterpart. Correlations are
Pearson's, between numbers of holders, over the words that both know."""

NOT_PRIVATE = """\
epsilon = alpha = 3, delta = e^-10. GW and GW-KT are **not private as published** (see
[greedy](../proofs/greedy.md)): shown for comparison, run with `allow_unproven=True`. *greedy* and
*greedy, prior* are the same ideas repaired, with a proof; *sieve* is ours and uses
no prior. The best max_items of the policies is known only after the fact, and choosing it so is not
private either."""


def page(gopi: Path = gopi2020.OUTPUT, carvalho: Path = carvalho2022.OUTPUT) -> str:
    """The whole page as Markdown."""
    first, second = (json.loads(path.read_text("utf-8")) for path in (gopi, carvalho))
    beside = compared(first, second)
    parts = ["# The papers' experiments", "", INTRODUCTION, ""]
    parts += _fit(beside)
    parts += _gopi(first["sets"], beside)
    parts += _carvalho(second["sets"], beside)
    parts += ["", "## What the papers conclude", "", *_claims(first["sets"], second["sets"])]
    parts += ["", "## Deviations above 10 %", "", *_deviations(beside)]
    parts += ["", "## Runs", "", "Seconds are wall time, whatever else the machine was doing.", ""]
    parts += _colophon({"Gopi": first["sets"], "Carvalho": second["sets"]})
    return "\n".join(parts) + "\n"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: Sequence[int] = (0,)
) -> list[str]:
    """A Markdown table: columns of texts to the left, numbers to the right."""
    sides = ("---" if at in texts else "---:" for at in range(len(head)))
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(sides)}|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def shown_ratio(entry: Compared) -> str:
    """A ratio with its flag."""
    return f"{entry.ratio:.2f}{' ⚑' if entry.flagged else ''}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 200 else f"{value:.4g}"


def _side_by_side(entries: Iterable[Compared]) -> list[str]:
    rows = [(e.where, _number(e.published), _number(e.ours), shown_ratio(e)) for e in entries]
    return table(("", "published", "here", "ratio"), rows)


def _of(beside: list[Compared], paper: str, number: str, name: str) -> dict[str, Compared]:
    return {
        e.where: e for e in beside if (e.paper, e.table, e.corpus) == (paper, number, name)
    }  # fmt: skip


def _fit(beside: list[Compared]) -> list[str]:
    names = [e.corpus for e in beside if e.table == "statistics"]
    parts = []
    for name in dict.fromkeys(names):
        facts = list(_of(beside, "gopi", "statistics", name).values())
        facts += _of(beside, "gopi", "1", name).values()
        facts += [e for w, e in _of(beside, "gopi", "3", name).items() if w.startswith("words")]
        text = ["", FIT, ""] if name == "synthetic" else [""]
        parts += [
            f"## {TITLES[name]}, beside the papers' Reddit data",
            *text,
            *_side_by_side(facts),
            "",
        ]
    return parts


def _gopi(sets: Sets, beside: list[Compared]) -> list[str]:
    head = ["## Gopi et al. 2020", "", MISPRINTS]
    sizes = table(
        ("Users with at most so many items", *map(str, published.SET_SIZES)),
        [
            ("published", *(f"{p:.2f} %" for p in published.SET_SIZES.values())),
            *(
                (TITLES[name], *(f"{p:.2f} %" for p in entry["tables"]["1"].values()))
                for name, entry in sets.items()
            ),
        ],
    )
    parts = [*head, "", "### Table 1: items per user", "", *sizes]
    parts += ["", "### Table 2 and Figure 5: size by items per user", ""]
    parts += ["epsilon = 3, delta = e^-10, alpha = 5."]
    for name, entry in sets.items():
        parts += ["", f"**{TITLES[name]}**", "", *_table_2(name, entry, beside)]
    parts += ["", "![Size by items per user](../images/gopi2020-figure5.svg)"]
    parts += ["", "### Table 3: coverage of what at least k users hold", ""]
    for name, entry in sets.items():
        parts += [f"**{TITLES[name]}**", "", *_table_3(name, entry, beside), ""]
    parts += ["### Table 4: one pass and two", "", "alpha = 2; p of a two-sided t-test."]
    for name, entry in sets.items():
        parts += ["", f"**{TITLES[name]}**", "", *_table_4(name, entry, beside)]
    for number, text in (
        ("1", "Figure 1: size by epsilon (max_items = 100, alpha = 5)"),
        ("4", "Figure 4: holders by rank"),
        ("6", "Figure 6: size by alpha (max_items = 100, epsilon = 3)"),
    ):
        parts += ["", f"### {text}", "", f"![{text}](../images/gopi2020-figure{number}.svg)"]
    return parts


def _table_2(name: str, entry: Any, beside: list[Compared]) -> list[str]:
    found = _of(beside, "gopi", "2", name)
    rows = []
    for mechanism, row in published.GOPI_TABLE_2.items():
        ours = entry["tables"]["2"][mechanism]
        cells = [f"{m['size']:,.0f} ± {m['error']:.0f}" for m in ours.values()]
        if not found:
            rows.append((mechanism, *cells))
            continue
        rows.append((f"{mechanism}, published", *(f"{m:,} ± {s}" for m, s in row)))
        rows.append(("here", *cells))
        rows.append(
            ("ratio", *(shown_ratio(found[at_limit(mechanism, d)]) for d in published.LIMITS))
        )
        if "statistics_only" in entry:
            plain = entry["statistics_only"][mechanism].values()
            ratios = (f"{mean / size:.2f}" for mean, (size, _) in zip(plain, row, strict=True))
            rows.append(("ratio, statistics only", *ratios))
    return table(("max_items", *map(str, published.LIMITS)), rows)


def _table_3(name: str, entry: Any, beside: list[Compared]) -> list[str]:
    found = _of(beside, "gopi", "3", name)
    head = ["k", "held by at least k", "policy-laplace", "policy-gaussian"]
    rows = []
    for k, at in entry["tables"]["3"].items():
        cells = [f"{at['held']:,}", *(f"{at[m]:.1f} %" for m in gopi2020.POLICIES)]
        if found:
            wheres = [
                f"words of at least {k} users",
                *(f"{m} as % of the words of at least {k} users" for m in gopi2020.POLICIES),
            ]
            cells = [
                f"{cell} (published {_number(found[w].published)}, {shown_ratio(found[w])})"
                for cell, w in zip(cells, wheres, strict=True)
            ]
        rows.append((k, *cells))
    return table(head, rows)


def _table_4(name: str, entry: Any, beside: list[Compared]) -> list[str]:
    found = _of(beside, "gopi", "4", name)
    head = [
        "max_items",
        *(f"{m}, {n}" for m in gopi2020.POLICIES for n in ("1 pass", "2 passes", "p")),
    ]
    rows = []
    for at, limit in enumerate(published.LIMITS):
        cells = []
        for mechanism in gopi2020.POLICIES:
            here = entry["tables"]["4"][mechanism][str(limit)]
            for passes in ("1", "2"):
                cell = f"{here[passes]['size']:,.0f} ± {here[passes]['error']:.0f}"
                if found:
                    e = found[f"{at_limit(mechanism, limit)}, passes {passes}"]
                    cell += f" (published {e.published:,.0f}, {shown_ratio(e)})"
                cells.append(cell)
            p = "-" if here["p"] is None else f"{here['p']:.3f}"
            theirs = published.GOPI_TABLE_4[mechanism][at][4]
            cells.append(f"{p} (published {theirs:.3f})" if found else p)
        rows.append((str(limit), *cells))
    return table(head, rows)


def _carvalho(sets: Sets, beside: list[Compared]) -> list[str]:
    parts = ["", "## Carvalho et al. 2022", "", "### Table 2: private sets", ""]
    parts += table(("", "users", "observations", "vocabulary"), _private_sets(sets))
    parts += ["", "### Table 3: public vocabularies", "", PRIORS, "", *_table_3_of_priors(sets)]
    parts += ["", "Beside what was published:", ""]
    parts += _side_by_side(e for e in beside if (e.paper, e.table) == ("carvalho", "3"))
    parts += ["", "### Table 4: sizes", "", NOT_PRIVATE, "", yields.of_ties()]
    for name, entry in sets.items():
        parts += ["", f"**{TITLES[name]}**", "", *_table_4_of_greedy(name, entry, beside)]
    missing = [n for n in published.PRIVATE if n not in {e["stands_for"] for e in sets.values()}]
    parts += ["", *_not_given(missing)]
    for number, text in (
        ("2", "Figure 2: thresholds by epsilon (policies: max_items = 100)"),
        (
            "3",
            "Figure 3: size by alpha and by epsilon (policies: the max_items of Table 4)",
        ),
    ):
        parts += ["", f"### {text}", "", f"![{text}](../images/carvalho2022-figure{number}.svg)"]
    return parts


def _private_sets(sets: Sets) -> list[tuple[str, ...]]:
    rows = []
    for private, numbers in published.CARVALHO_TABLE_2.items():
        rows.append((f"{private.title()}, published", *(f"{n:,}" for n in numbers)))
        if private not in sets:
            rows.append((f"{private.title()}, here", *[NOT_GIVEN] * 3))
    for name, entry in sets.items():
        at = entry["tables"]["2"]
        cells = (
            "-" if at[k] is None else f"{at[k]:,}" for k in ("users", "observations", "vocabulary")
        )
        rows.append((TITLES[name], *cells))
    return rows


def _table_3_of_priors(sets: Sets) -> list[str]:
    rows = [
        (
            prior,
            TITLES[name],
            "-" if name == "synthetic" else f"{at['vocabulary']:,}",
            f"{at['overlap']:.0f} %",
            f"{at['correlation']:.2f}",
        )
        for name, entry in sets.items()
        for prior, at in entry["tables"]["3"].items()
    ]
    return table(("public", "private", "words", "∩", "corr."), rows, texts=(0, 1))


def _table_4_of_greedy(name: str, entry: Any, beside: list[Compared]) -> list[str]:
    found = _of(beside, "carvalho", "4", name)
    rows = []
    for label, at in entry["tables"]["4"].items():
        text = label.replace("popular ", "greedy, prior ")
        if "max_items" in at:
            text += f", best max_items {at['max_items']}"
        elif label.startswith("GW"):
            text += " (not private)"
        cells = [f"{at['size']:,.0f} ± {at['error']:.0f}"]
        if found:
            e = found.get(label)
            cells = ["-" if e is None else f"{e.published:,.0f}", *cells]
            cells.append("-" if e is None else shown_ratio(e))
        rows.append((text, *cells))
    return table(("", "published", "here", "ratio") if found else ("", "here"), rows)


def _not_given(missing: Sequence[str]) -> list[str]:
    """What was published about sets that nothing here stands for."""
    if not missing:
        return []
    rows = []
    for private in missing:
        for label, (size, error) in published.CARVALHO_TABLE_4[private].items():
            shown = f"GW-KT {label}" if label in published.PUBLIC else label
            rows.append((f"{private.title()}, {shown}", f"{size:,} ± {error}", NOT_GIVEN))
    return ["Of the other sets:", "", *table(("", "published", "here"), rows)]


def _claims(gopi: Sets, carvalho: Sets) -> list[str]:
    checks: list[tuple[str, str, Sets, Callable[[Any], str]]] = [
        *((c, t, gopi, f) for c, t, f in paper_claims.GOPI),
        *((c, t, carvalho, f) for c, t, f in paper_claims.CARVALHO),
    ]
    names = [name for name in TITLES if name in gopi or name in carvalho]
    rows = [
        (claim, told, *(check(sets[n]) if n in sets else "-" for n in names))
        for claim, told, sets, check in checks
    ]
    return table(("claim", "published", *(TITLES[name] for name in names)), rows)


def _bias(beside: list[Compared]) -> str:
    """How far sizes that nothing was fitted to are from the papers', all on one side or not."""
    ratios = [
        e.ratio
        for e in beside
        if e.corpus == "synthetic"
        and (e.paper, e.table) in {("gopi", "2"), ("gopi", "4"), ("carvalho", "4")}
        and not e.where.startswith("count-")
        and not copied(e)
    ]
    if not ratios:
        return ""
    return (
        f"Within 10 % is not exact. The {len(ratios)} sizes on the made-up corpus that nothing was "
        f"fitted to (and that are not misprinted) are {min(ratios):.2f} to {max(ratios):.2f} of "
        f"the published ones, {sum(ratios) / len(ratios):.2f} on average, with standard errors "
        "far smaller than that: the corpus is biased, not noisy. We do not know why. The number "
        "of pairs of user and word was not published, and real words are not drawn independently."
    )


def _deviations(beside: list[Compared]) -> list[str]:
    flagged = [e for e in beside if e.flagged]
    lead = f"{len(flagged)} of {len(beside)} numbers that were published and measured."
    rows = [
        (
            f"{e.paper.title()}, {e.table if e.table == 'statistics' else f'Table {e.table}'}, "
            f"{TITLES[e.corpus]}: {e.where}",
            _number(e.published), _number(e.ours), f"{e.ratio:.2f}", e.reason,
        )
        for e in flagged
    ]  # fmt: skip
    head = ("", "published", "here", "ratio", "why")
    if told := _bias(beside):
        lead = f"{lead}\n\n{told}"
    return [lead, "", *table(head, rows, texts=(0, 4))] if rows else [lead]


def _colophon(sets: Sets) -> list[str]:
    rows = [
        (
            f"{paper}, {TITLES[name]}", entry["date"], entry["dpsu"], str(entry["cores"]),
            str(entry["keys"]), str(entry["figure_keys"]), f"{entry['seconds']:,.0f}",
        )
        for paper, found in sets.items()
        for name, entry in found.items()
    ]  # fmt: skip
    head = ("", "date", "dpsu", "cores", "keys", "keys for figures", "seconds")
    return table(head, rows)
