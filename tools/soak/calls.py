"""Wrong calls: arguments of every wrong type and size, in the library and on the command line.

Only errors of this package come out, or usage errors of the command line, and nothing is charged
for what could be refused without reading.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import fractions
import inspect
import io
import json
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dpsu.errors import ParameterError
from tools.soak import data, promises
from tools.soak.batches import everything_said, in_batches, leaks, unexpected
from tools.soak.cases import Attack, Room, Verdict

SILENCE = 240.0  # seconds for one call
# Internal, or the callbacks of whoever calls: their own errors are their own.
LEFT_ALONE = {"progress"}
LEDGER, PLAN = "ledger.db", "plan.json"
CHARGE: Mapping[str, Any] = {"dataset": "visits", "budget": (50, 0.1)}
SURE: Mapping[str, Any] = {"epsilon": 8.0, "delta": 1e-9}
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "release": ("rows.csv", "--epsilon", "8", "--delta", "1e-9", "--mechanism", "count-gaussian"),
    "release --plan": ("rows.csv", "--plan", PLAN),
    "ngrams": ("rows.csv", "--text", "item", "--epsilon", "8", "--delta", "1e-9"),
    "plan": ("--epsilon", "8", "--delta", "1e-9"),
    "ledger": (LEDGER,),
    "mechanisms": (),
}
# Options that start clusters, reach for networks or take minutes by design.
NOT_TYPED = {"engine", "source", "connect", "master", "trials", "runs"}
TYPED = (
    "", " ", "x", "-50", "0", "1", "3", "0.5", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 40,
    "é", "a" * 3000, "\udcff", "-", "--", ".", "..", "nowhere.csv", "nowhere/x.txt", "rows.csv",
    "known.txt", "wordfreq:xx", "regex:(", "regex:", "1-3", "3-1", "3,1e-5", "1,2,3", "4GB", "-4GB",
    "user", "item", "sieve", "greedy", "auto", "paper", "parquet", "table", ":memory:", "/dev/null",
    "items.txt", "items.xyz", PLAN, "[", "*", "{}", "true", "None", "\t", "a\nb",
)  # fmt: skip


class _Strange:
    """Something that can be nothing that anybody asks for."""


def _zoo() -> list[Any]:
    import numpy as np
    import pyarrow as pa

    import dpsu

    return [
        dpsu.Sieve(), dpsu.Sieve, dpsu.Greedy(order="hash"), dpsu.CountLaplace(max_items=5),
        dpsu.NGrams(), dpsu.Auto(), dpsu.Auto(budget=0.02), dpsu.Counts(), dpsu.Users("user"),
        dpsu.Items("item", repeats="user"), dpsu.Tokens("item"), dpsu.Tokens("item", str.split),
        dpsu.plan(**SURE), dpsu.plan(**SURE, counts=True), dpsu.Privacy(**SURE),
        dpsu.Ledger("other.db"), dpsu.Ledger("other.db").dataset("visits"),
        None, True, False, 0, 1, -1, 2, 3, -50, 2**31, 2**63, 2**70, -(2**70), 0.0, 0.5, 1.5, -0.5,
        1e-320, 1e308, math.nan, math.inf, -math.inf, 1j, decimal.Decimal("0.5"),
        decimal.Decimal("nan"), fractions.Fraction(1, 3), "", " ", "x", "1", "user", "item",
        "a\nb", "\0", "\ud800", "é" * 500, "nowhere.csv", "rows.csv", "known.txt", "sieve",
        "greedy", "auto", "tight", "words", "1-3", "regex:(", "4GB", b"", b"x", bytearray(b"x"),
        [], [1], [None], ["a", None], ["a", 1], [[1, 2]], (), (1,), (1, 2), (1.0, 1e-6), (0, -1),
        ("a", "b"), {}, {"a": 1}, {1: "a"}, {"a": None}, {None: 1}, {"a": ["b"]}, {"a": {"b":
        -1}}, set(), {1}, frozenset(), range(3), _Strange(), _Strange, len, (lambda text: 5),
        (lambda text: ["a", 1]), (lambda: 1), Path(), Path("nowhere"), Path("rows.csv"),
        np.float64(0.5), np.float32(math.nan), np.int64(3), np.bool_(True), np.array([1.0]),
        np.array([]), np.array([[1, 2]]), np.array(["a"], object), pa.array([1]), pa.scalar(1),
        pa.table({"a": [1]}), pa.table({"user": [1.5], "item": [None]}), pa.table({"user": [[1]],
        "item": [{"a": 1}]}), datetime.date(2020, 1, 1), datetime.timedelta(1), Ellipsis,
        NotImplemented, Exception("x"), io.StringIO("a,b"), memoryview(b"x"), slice(1), type,
        warnings,
    ]  # fmt: skip


def _doors() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Functions of the library, each with a call that is right."""
    import dpsu

    pairs = {"data": data.rows(30)}
    plan = dpsu.plan(mechanism="weighted-laplace", **SURE)
    texts = {"mechanism": "ngrams", "item": dpsu.Tokens("item")}
    doors: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "plan": (dpsu.plan, dict(SURE)),
        "release": (dpsu.release, pairs | {"mechanism": "weighted-laplace", **SURE}),
        "release by a plan": (dpsu.release, pairs | {"plan": plan}),
        "ngrams": (dpsu.release, {**pairs, **texts, **SURE}),
        "select": (dpsu.select, pairs | {"candidates": [plan]}),
        "ledger": (_ledger, {"path": LEDGER, **CHARGE}),
        "privacy": (dpsu.Privacy, dict(SURE)),
        "write": (_write, {"path": "items.txt"}),
        "an edited plan": (_edited, {}),
    }
    needed: dict[type, dict[str, Any]] = {
        dpsu.Tokens: {"column": "item"}, dpsu.CountLaplace: {"max_items": 5},
    }  # fmt: skip
    for kind in _objects():
        doors[f"options of {kind.__name__}"] = (_planned(kind), needed.get(kind, {}))
    return doors


def _objects() -> list[type]:
    """What people type with options of its own."""
    import dpsu
    from dpsu.plans.mechanisms import MECHANISMS

    return [*MECHANISMS.values(), dpsu.Auto, dpsu.Counts, dpsu.Users, dpsu.Items, dpsu.Tokens]


def _planned(kind: Any) -> Callable[..., Any]:
    """A function with the options of a class, which plans with an object of them."""
    import dpsu

    where = {dpsu.Counts: "counts", dpsu.Users: "user", dpsu.Items: "item", dpsu.Tokens: "item"}

    def plan(**options: Any) -> None:
        chosen: dict[str, Any] = {where.get(kind, "mechanism"): kind(**options)}
        if getattr(kind, "by_length", False):
            chosen["item"] = dpsu.Tokens("item")
        dpsu.plan(**SURE, **chosen)

    plan.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return plan


def _edited(
    format: Any = None, version: Any = None, privacy: Any = None, mechanism: Any = None,
    user: Any = None, item: Any = None, insecure_seed: Any = None, counts: Any = None,
    derived: Any = None, hash: Any = None, more: Any = None,
) -> list[str]:  # fmt: skip
    """Read a plan in which some parts were replaced; returns what is wrong with that."""
    import dpsu

    changed = {name: value for name, value in locals().items() if value is not None}
    del changed["dpsu"]
    plan = dpsu.plan(**SURE)
    text = json.dumps(plan.to_dict() | changed, default=repr)
    return ["an edited plan was taken"] if dpsu.Plan.from_json(text) != plan else []


def _ledger(path: Any, dataset: Any, budget: Any) -> None:
    import dpsu

    book = dpsu.Ledger(path)
    with book.dataset(dataset, budget=budget) as spending:
        plan = dpsu.plan(epsilon=1.0, delta=1e-9, mechanism="policy-laplace")
        spending.charge(plan, run="a run")
    book.account(dataset)
    book.set_budget(dataset, budget)


def _write(path: Any) -> None:
    import dpsu

    dpsu.release(data.rows(3), mechanism="weighted-laplace", **SURE).write(path)


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return in_batches(seeds, room, _prepare, SILENCE)


def _prepare(folder: Path) -> Callable[[int], list[str]]:
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    zoo, doors, plan = _zoo(), _doors(), _plan_in_a_file()

    def case(seed: int) -> list[str]:
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()
        (folder / "rows.csv").write_bytes(data.as_csv(5))
        (folder / "known.txt").write_text("known\n", encoding="utf-8")
        (folder / PLAN).write_text(plan, encoding="utf-8")
        rng = random.Random(seed)
        return _typed(rng) if rng.random() < 0.3 else _called(rng, zoo, doors)

    return case


def _plan_in_a_file() -> str:
    import dpsu

    return dpsu.plan(mechanism="count-gaussian", **SURE).to_json()


def _called(
    rng: random.Random,
    zoo: list[Any],
    doors: Mapping[str, tuple[Callable[..., Any], dict[str, Any]]],
) -> list[str]:
    import dpsu

    name = rng.choice(("plan", "plan", *["release"] * 6, "select", "ngrams", *doors))
    door, right = doors[name]
    arguments = dict(right)
    names = sorted(set(inspect.signature(door).parameters) - LEFT_ALONE)
    if "ledger" in names and rng.random() < 0.5:
        arguments["ledger"] = dpsu.Ledger(LEDGER).dataset("visits", budget=(50, 0.1))
    wrong = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))
    arguments |= {key: rng.choice(zoo) for key in wrong}
    told = f"{name}({', '.join(f'{key}={_short(arguments[key])}' for key in wrong)})"
    troubles: list[str] = []
    early = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = door(**arguments)
            # Other data, known items and a large delta may bring them out by right.
            if not {"data", "public_items", "delta"} & set(wrong):
                troubles += found if isinstance(found, list) else _must_not_come_out(found)
        except dpsu.DpsuError as error:
            troubles += leaks(everything_said(error), "said in an error")
            # Nothing of the data decides whether an option fits.
            early = "data" not in wrong and isinstance(error, dpsu.ParameterError)
        except Exception as error:
            troubles.append(unexpected(error))
            early = "data" not in wrong
    if "ledger" in arguments and "ledger" not in wrong and early:
        troubles += ["it was charged"] * bool(promises.entries(Path(LEDGER)))
    return [f"{told}: {trouble}" for trouble in troubles]


def _must_not_come_out(found: Any) -> list[str]:
    import dpsu

    if not isinstance(found, dpsu.Release) or not found.private:
        return []
    secrets = [i for i in found.items if data.private_piece(str(i), (data.SECRET_MARK,))]
    return [f"releases {secrets[0]!r} of one user"] if secrets else []


def _short(value: Any) -> str:
    return f"{value!r}"[:60] if not isinstance(value, type(warnings)) else "a module"


def _typed(rng: random.Random) -> list[str]:
    from dpsu.cli import cli, main

    name = rng.choice(("release", "release", "release", *COMMANDS))
    arguments = [name.split()[0], *COMMANDS[name]]
    command = cli.get_command(click.Context(cli), name.split()[0])
    assert command is not None
    options = [p for p in command.params if p.name not in NOT_TYPED and p.opts]
    charged = command.name == "release" and rng.random() < 0.5
    if charged:
        arguments += ["--ledger", LEDGER, "--dataset", "visits", "--budget", "50,0.1"]
    for option in rng.sample(options, min(len(options), rng.choice((1, 1, 2, 3)))):
        arguments.append(option.opts[0] if option.opts[0].startswith("-") else rng.choice(TYPED))
        if option.opts[0].startswith("-") and not getattr(option, "is_flag", False):
            arguments.append(rng.choice(TYPED))
    # As the interpreter makes them.
    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors)
        for errors in ("surrogateescape", "backslashreplace")
    ]
    troubles, code, usage = [], 0, False
    sys.argv = ["dpsu", *arguments]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            usage = isinstance(stop.__context__, (ParameterError, click.UsageError))
        except BaseException as error:
            troubles.append(unexpected(error))
    printed, said = (each.buffer.getvalue().decode(errors="replace") for each in streams)
    troubles += promises.said_wrongly(said) + promises.breakdowns(printed)
    troubles += [] if code in (0, *promises.FAILED) else [f"it ended with {code}"]
    if usage and promises.entries(Path(LEDGER)):
        troubles.append(f"it was charged for a usage error: {said.strip()[-150:]}")
    return [f"dpsu {' '.join(_short(a) for a in arguments)}: {trouble}" for trouble in troubles]


CALLS = Attack(
    "calls", 0.06, 200, "calls",
    "one to three arguments of any type and size, of the library (70 %) and the command line",
    _run,
)  # fmt: skip
