"""How many items each mechanism releases on real data, and how many anybody could.

    python benchmarks/yields.py --data FOLDER            everything, 20 keys each
    python benchmarks/yields.py --data FOLDER --only sieve auto --sets airbnb_reviews

FOLDER holds airbnb_reviews, acl_first_author, steam_200k and fimi_retail as Parquet files with the
columns user and text, or user and item, and public_reddit_posts with item and holders. Words are
lower-case matches of [a-z0-9']+. The Reddit-shaped set is `made_up.reddit_like`. Results are
merged into benchmarks/results/yields.json by set, privacy and mechanism.

Sizes here come from many runs on the same data with options compared afterwards. That is how
mechanisms are studied; it is not how data may be released.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import sys
import warnings
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dpsu
from benchmarks.kept import keep
from dpsu.contributions.grouped import arrange
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Block, Pairs
from dpsu.engines import local
from dpsu.inputs import public
from dpsu.inputs.reading import Source
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.planning import make_plan
from dpsu.privacy.curves import Optimal
from dpsu.randomness.keys import Key

RESULTS = Path(__file__).resolve().parent / "results" / "yields.json"
SETS = ("airbnb_reviews", "acl_first_author", "steam_200k", "fimi_retail", "reddit_like")
TEXTS = ("airbnb_reviews", "acl_first_author")
PRIVACY = {"3, e^-10": (3.0, math.exp(-10)), "1, 1e-5": (1.0, 1e-5)}
WORD = re.compile(r"[a-z0-9']+")
SIZES = (10, 30, 100, 300, 1000)
GW_KT: dict[str, Any] = {
    "mechanism": "greedy", "calibration": "paper", "allow_unproven": True, "prior": True,
}  # fmt: skip
# Names of rows; "paper" is as published. Rows with a prior are for texts only.
ROWS: dict[str, dict[str, Any]] = {
    "count-laplace, paper": {"mechanism": "count-laplace", "calibration": "paper", "max_items": 10},
    "count-gaussian, paper": {"mechanism": "count-gaussian", "calibration": "paper"},
    "weighted-laplace, paper": {
        "mechanism": "weighted-laplace", "calibration": "paper", "max_items": 30,
    },
    "weighted-gaussian, paper": {"mechanism": "weighted-gaussian", "calibration": "paper"},
    "policy-laplace, paper": {
        "mechanism": "policy-laplace", "calibration": "paper", "max_items": 100,
    },
    **{
        f"policy-gaussian {size}, paper": {
            "mechanism": "policy-gaussian", "calibration": "paper", "max_items": size,
        }
        for size in SIZES
    },
    "GW, paper (not private)": {
        "mechanism": "greedy", "calibration": "paper", "allow_unproven": True,
    },
    "GW, paper (not private), own ties": {
        "mechanism": "greedy", "calibration": "paper", "allow_unproven": True, "own_ties": True,
    },
    "sips, paper": {"mechanism": "sips", "calibration": "paper"},
    "policy-laplace": {"mechanism": "policy-laplace"},
    **{
        f"policy-gaussian {size}": {"mechanism": "policy-gaussian", "max_items": size}
        for size in SIZES
    },
    "greedy": {"mechanism": "greedy"},
    "greedy, own ties": {"mechanism": "greedy", "own_ties": True},
    "reroute": {"mechanism": "reroute"},
    "sips": {"mechanism": "sips"},
    "sieve, 6 rounds": {"mechanism": "sieve", "rounds": 6},
    "sieve": {"mechanism": "sieve"},
    "bits": {"mechanism": "bits"},
    "bits, hints": {"mechanism": "bits", "hints": True},
    "auto, hints": {"mechanism": "auto", "hints": True},
    "auto": {"mechanism": "auto"},
    "GW-KT, paper (not private), Reddit prior": GW_KT,
    "greedy popular, Reddit prior": {"mechanism": "greedy", "prior": True},
    "greedy scarce, Reddit prior": {"mechanism": "greedy", "prior": True, "order": "scarce"},
}  # fmt: skip


EXPLANATION = """\
How many items each mechanism releases, as the mean over 20 keys with its standard error, made by
`python benchmarks/yields.py`. *Of the bound* is the share of what any private mechanism that
outputs only held items could release in expectation; *missing* is the part of all occurrences
(words of texts, else pairs) that belong to items not released. *Missed* is, of the items that three
times as many users hold as are typically needed, the part that is not released; what is typically
needed are the holders of the item whose rank is the number of released items; "-" stands where
there is none. "paper" is as published, everything else is calibrated by us. Rows with a number are
for that many items per user: the best of them is known only after the fact, and choosing it by
looking is not private. The prior is the words of public Reddit posts. With hints, `auto` and `bits`
get the numbers of users and of items per user to one digit; otherwise `auto` pays 1 %
of epsilon for an estimate, and `bits` 1 % of its budget.

The constants of `sieve` were chosen on made-up data (`python -m benchmarks.steering`), but for
three that keep common items from being missed: for these the sizes of real sets were in view. The
shares of the rounds of `bits` were found with some of these sets in view, too. The Reddit-shaped
set is made up, with a seed of its own.

![Items released as a share of the best published mechanism](../images/yields.svg)"""
NAMES = {
    "airbnb_reviews": "Airbnb reviews",
    "acl_first_author": "ACL abstracts by first author",
    "steam_200k": "Steam games",
    "fimi_retail": "FIMI retail baskets",
    "reddit_like": "Reddit-shaped, made up",
}


def tables(found: dict[str, Any]) -> str:
    """One Markdown table for every set, best first."""
    parts = []
    for name, title in NAMES.items():
        entry = found[name]
        head = f"## {title}: {entry['users']:,} users, {entry['pairs']:,} pairs"
        columns = "".join(f" ({p}) | of the bound | missing | missed |" for p in PRIVACY)
        parts += ["", head, "", f"| |{columns}", "|---" + "|---:" * 4 * len(PRIVACY) + "|"]
        first = next(iter(PRIVACY))
        sizes = entry["rows"][first]["sizes"]
        for label in sorted(sizes, key=lambda row: -float(sizes[row]["size"])):
            cells = []
            for privacy in PRIVACY:
                at = entry["rows"][privacy]
                m = at["sizes"][label]
                cells.append(
                    f"{m['size']:,.0f} ± {m['error']:.0f} | {m['size'] / at['bound']:.1%} | "
                    f"{m['missing']:.2%} | {_missed(m)}"
                )
            parts.append(f"| {label} | {' | '.join(cells)} |")
    parts += ["", f"{found['date']}, dpsu {found['dpsu']}."]
    return "\n".join(parts)


def of_ties() -> str:
    """What one order for all users is worth to greedy where they hold items equally often."""
    found = json.loads(RESULTS.read_text("utf-8"))
    once, texts, lost = list[float](), list[float](), list[str]()
    for name, privacy in itertools.product(NAMES, PRIVACY):
        size = {row: at["size"] for row, at in found[name]["rows"][privacy]["sizes"].items()}
        part = size["greedy"] / size["greedy, own ties"] - 1.0
        (texts if name in (*TEXTS, "reddit_like") else once).append(part)
        policy = max(at for row, at in size.items() if re.match("policy-.*, paper", row))
        if size["GW, paper (not private)"] > policy > size["GW, paper (not private), own ties"]:
            lost.append(f"{NAMES[name]} ({privacy})")
    return (
        "**Ties.** Users of greedy take their items by how often they hold them. The paper leaves "
        "open what breaks ties. Here one random order of all items does, the same for all users, "
        "so that their budgets meet on the same items. If every user has another one (*own ties* "
        "in [yields](yields.md)), it is another mechanism: with the common order greedy "
        f"releases {min(once):.0%} to {max(once):.0%} more where users hold each item once (Steam, "
        f"FIMI), and {min(texts):.0%} to {max(texts):.0%} more on texts. Thanks "
        "to the common order alone, GW releases more than both policies as published on "
        f"{'; '.join(lost) or 'no set'}."
    )


def _missed(measured: dict[str, Any]) -> str:
    """The part of the common items that is missed, in thousandths."""
    if measured["missed"] is None:
        return "-"
    part = 1000.0 * measured["missed"]
    shown = f"{part:.0f}" if part >= 10 else f"{part:.2g}"
    return f"{shown} ‰" if part else "0"


def published(sizes: dict[str, Any]) -> float:
    """The best of what was published, without a prior."""
    rows = [v["size"] for k, v in sizes.items() if "paper" in k and "prior" not in k]
    return float(max(rows))


def rows_of(name: str, folder: Path) -> pa.Table:
    """User, item and local count of a set."""
    if name == "reddit_like":
        from dpsu.yields.made_up import reddit_like

        return reddit_like(seed=1)
    table = pa.parquet.read_table(folder / f"{name}.parquet")
    if "text" not in table.column_names:
        ones = pa.array(np.ones(len(table), np.int64))
        return table.select(["user", "item"]).append_column("count", ones)
    words: dict[str, Counter[str]] = {}
    for user, text in zip(table["user"].to_pylist(), table["text"].to_pylist(), strict=True):
        words.setdefault(user, Counter()).update(WORD.findall((text or "").lower()))
    users: list[str] = []
    items: list[str] = []
    counts: list[int] = []
    for user, held in words.items():
        users += [user] * len(held)
        items += held.keys()
        counts += held.values()
    return pa.table({"user": users, "item": items, "count": counts})


def interned(rows: pa.Table) -> Pairs:
    """Rows of user, item and count, ready for any number of runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        key = Key.from_insecure_seed(0)
        return intern(
            Source(rows, dpsu.Users("user"), dpsu.Items("item", repeats="count")).rows(
                key, with_repeats=True
            )
        )


def with_own_ties(pairs: Pairs) -> Pairs:
    """Repeats with random digits behind them: users do not break their ties alike."""
    rng = np.random.default_rng(1)

    def apart(block: Block) -> Block:
        assert block.repeats is not None
        digits = rng.integers(1 << 16, size=len(block.repeats), dtype=np.int32)
        return replace(block, repeats=(np.minimum(block.repeats, (1 << 15) - 1) << 16) | digits)

    return replace(pairs, blocks=[apart(block) for block in pairs.blocks])


def facts_of(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Holders and occurrences of every item. Private; for benchmarks only."""
    orders = np.arange(len(pairs.users)), np.arange(len(pairs.items))
    held = arrange(pairs, *orders, with_repeats=True)
    assert held.repeats is not None
    kept = np.concatenate(
        [np.arange(a, b) for a, b in zip(held.start, held.stop, strict=True) if b > a]
    )
    holders = np.bincount(held.items[kept], minlength=held.n_items)
    occurrences = np.bincount(held.items[kept], held.repeats[kept], minlength=held.n_items)
    return holders, occurrences


def _mechanism(row: dict[str, Any], prior: Any, users: int, pairs: int) -> Mechanism:
    """The mechanism of a row."""
    options = dict(row)
    name = options.pop("mechanism")
    options.pop("own_ties", None)
    if options.pop("prior", False):
        options["prior"] = prior
    if options.get("order") == "scarce":
        options["expected_users"] = users
    # As somebody would know it who knows such data, to one digit.
    size = float(f"{pairs / users:.0e}")
    if options.pop("hints", False):
        if name != dpsu.Auto.name:
            return dpsu.mechanism(name, items_per_user=size, **options)
        return dpsu.Auto(users=int(float(f"{users:.0e}")), items_per_user=size)
    return dpsu.mechanism(name, **options)


def measure(
    pairs: Pairs, row: dict[str, Any], privacy: tuple[float, float], keys: int, prior: Any,
    facts: tuple[np.ndarray, np.ndarray], users: int,
) -> dict[str, float | None]:  # fmt: skip
    """Mean size with its standard error, missing mass and missed common items, over keys."""
    guarantee = dpsu.Privacy(*privacy)
    mechanism = _mechanism(row, prior, users, len(pairs))
    plan = make_plan(guarantee, mechanism, dpsu.Users(), dpsu.Items())
    sizes, missing, missed, common = [], [], 0, 0
    by_holders = np.sort(facts[0])[::-1]
    place = {item: at for at, item in enumerate(pairs.items.values.to_pylist())}
    for seed in range(keys):
        key = Key.from_insecure_seed(1000 + seed)
        found = local.select_items(plan, pairs, key, prior=prior)[1]
        sizes.append(len(found))
        at = [place[item] for item in found.to_pylist()]
        missing.append(1.0 - float(facts[1][at].sum() / facts[1].sum()))
        if len(found):
            needed = by_holders[min(len(found), len(by_holders) - 1)]
            out = np.zeros(len(facts[0]), bool)
            out[at] = True
            common += int((facts[0] >= 3 * needed).sum())
            missed += int(((facts[0] >= 3 * needed) & ~out).sum())
    return {
        "size": float(np.mean(sizes)),
        "error": float(np.std(sizes, ddof=1) / math.sqrt(keys)) if keys > 1 else 0.0,
        "missing": float(np.mean(missing)),
        "missed": missed / common if common else None,
    }


def main() -> None:
    """Measure what was asked for and merge it into the results."""
    parser = argparse.ArgumentParser(description="Items released on real data.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW")
    parser.add_argument("--keys", type=int, default=20)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    prior_file = chosen.data / "public_reddit_posts.parquet"
    for name in chosen.sets:
        pairs = interned(rows_of(name, chosen.data))
        facts, own = facts_of(pairs), with_own_ties(pairs)
        for privacy_name, privacy in PRIVACY.items():
            bound = Optimal(*privacy)
            counts, numbers = np.unique(facts[0], return_counts=True)
            likely = [min(1.0, bound.probability(float(holders))) for holders in counts]
            most = float(np.dot(numbers, likely))
            for label, row in ROWS.items():
                if (chosen.only and label not in chosen.only) or (
                    "prior" in row and name not in TEXTS
                ):
                    continue
                prior = public.read_prior(prior_file, "item") if "prior" in row else None
                ordered = own if "own_ties" in row else pairs
                found = measure(ordered, row, privacy, chosen.keys, prior, facts, len(pairs.users))
                print(f"{name} ({privacy_name}) {label}: {found['size']:.0f}", file=sys.stderr)
                _merge(name, privacy_name, label, found, most, len(pairs.users), len(pairs))


def _merge(
    name: str, privacy: str, label: str, found: dict[str, float | None], most: float, users: int,
    n: int,
) -> None:  # fmt: skip
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    entry = kept.setdefault(name, {"rows": {}}) | {"users": users, "pairs": n}
    kept[name] = entry
    at = entry["rows"].setdefault(privacy, {})
    at["bound"] = most
    at.setdefault("sizes", {})[label] = found
    kept["date"] = datetime.now(UTC).date().isoformat()
    kept["dpsu"] = dpsu.__version__
    keep(RESULTS, kept)


if __name__ == "__main__":
    main()
