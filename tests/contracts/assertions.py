"""What every mechanism owes to whoever uses it, on every engine and for every form of data.

Each function takes a mechanism object, and none knows which one it is: a new mechanism is held to
them by being in the registry.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.cli import cli
from dpsu.engines.cluster.steps import Job
from dpsu.options import Option, options_of
from dpsu.plans.mechanisms import Mechanism
from dpsu.randomness.keys import Key
from tests.contracts import inputs
from tests.support import clusters

# A budget at which rare items are left to chance, so that equal releases are no accident.
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 0.02}
REALISTIC: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SEED = 3
PUBLIC = ("aai", "nobody's")
FEW = 4


def usual(kind: type[Mechanism]) -> Mechanism:
    """A mechanism with its defaults; with few items per user where it must be told how many."""
    try:
        return kind()
    except dpsu.ParameterError:
        return kind(max_items=FEW)  # type: ignore[call-arg]


def small(kind: type[Mechanism]) -> Mechanism:
    """A mechanism that cuts off what users hold, so that it has to choose among their items."""
    given = {"max_items": 2, "scout_items": 3, "rounds": 4, "among": "parallel"}
    return kind(**{name: value for name, value in given.items() if name in options_of(kind)})


def variants(kind: type[Mechanism], prior: Any) -> Iterator[Mechanism]:
    """For every option, the mechanism with another value of it that it accepts."""
    for name, option in options_of(kind).items():
        made = next(_with_option(kind, name, option, prior), None)
        assert made is not None, f"no value of {name} was accepted: extend `companions`"
        yield made


def _with_option(
    kind: type[Mechanism], name: str, option: Option, prior: Any
) -> Iterator[Mechanism]:
    for value in [prior] if name == "prior" else _values(option):
        for more in companions(prior):
            known = {k: v for k, v in more.items() if k in options_of(kind)}
            try:
                made = kind(**(known | {name: value}))
                dpsu.plan(mechanism=made, item=item_of(made), **REALISTIC)
            except dpsu.ParameterError:
                continue
            yield made


def companions(prior: Any) -> list[dict[str, Any]]:
    """Options without which others say nothing."""
    return [
        {},
        {"max_items": FEW},
        {"max_items": FEW, "prior": prior},
        {"max_items": FEW, "prior": prior, "order": "scarce"},
        {"calibration": "paper", "allow_unproven": True},
    ]


def _values(option: Option) -> list[Any]:
    """Values of an option other than its default."""
    if option.kind is bool:
        return [not option.default]
    if option.choices:
        return [choice for choice in option.choices if choice != option.default]
    if option.parse is not None:
        return [option.parse(typed) for typed in ("2,1,1", "3")]
    numbers = [2 * (option.default or 0), option.low + 1, option.low + 4999, option.low]
    return [
        option.kind(number)
        for number in numbers
        if option.low <= number <= option.high and number != option.default
    ]


def item_of(mechanism: Mechanism) -> dpsu.Items | dpsu.Tokens:
    """Texts where it goes through them, and a column of items otherwise."""
    return dpsu.Tokens("text") if mechanism.by_length else dpsu.Items()


def rows_of(mechanism: Mechanism) -> inputs.Rows:
    """Rows in the column of :func:`item_of`."""
    rows = inputs.made_up_rows()
    return inputs.as_texts(rows) if mechanism.by_length else rows


def data_of(mechanism: Mechanism) -> pa.Table:
    """The same as a table."""
    return inputs.table(rows_of(mechanism), str(item_of(mechanism).columns))


def plan_of(mechanism: Mechanism, **options: Any) -> dpsu.Plan:
    """A plan for the made-up rows, which can be run again and again."""
    given = {"item": item_of(mechanism), "insecure_seed": SEED} | BUDGET | options
    return dpsu.plan(mechanism=mechanism, **given)


def check_items(
    release: dpsu.Release, held: Iterable[Any], public: Iterable[Any] = (), *, some: bool = True
) -> None:
    """Released items are what users hold or everybody knows, sorted, and each is there once."""
    items = release.items
    assert list(items) == sorted(set(items))
    assert set(public) <= set(items)
    assert items or not some
    if release.plan.by_length:
        # Longer n-grams may be nobody's; of tokens none is.
        items = tuple(item for item in items if " " not in str(item))
    assert set(items) <= {*held, *public}


def check_release(mechanism: Mechanism) -> dpsu.Release:
    """What comes out is of the users, and not everything of it."""
    released = dpsu.release(data_of(mechanism), plan_of(mechanism))
    everything = {item for _, item in inputs.made_up_rows()}
    check_items(released, everything)
    assert set(everything) - set(released.items)
    # What was approved may have left it to the data which mechanism it is.
    assert (released.approved or released.plan).mechanism == mechanism
    assert not released.private
    assert "NO GUARANTEE" in released.report()
    return released


def check_public_items(mechanism: Mechanism) -> None:
    """Public items come out whether or not somebody holds them; noisy counts go with all items."""
    everything = {item for _, item in inputs.made_up_rows()}
    if not mechanism.counts:
        for refused in ({"counts": True}, {"public_items": list(PUBLIC)}):
            with pytest.raises(dpsu.ParameterError, match="has no"):
                plan_of(mechanism, **refused)
        return
    plan = plan_of(mechanism, public_items=list(PUBLIC), counts=True)
    released = dpsu.release(data_of(mechanism), plan)
    check_items(released, everything, PUBLIC)
    assert released.counts is not None
    assert len(released.counts) == len(released)
    assert list(released.to_dict()) == list(released.items)


def check_inputs(mechanism: Mechanism, folder: Path, expected: dpsu.Release) -> None:
    """Every form of the same rows gives the same release, bit for bit."""
    rows, plan = rows_of(mechanism), plan_of(mechanism)
    for name, given in inputs.INPUTS.items():
        made = folder / name
        made.mkdir()
        found = dpsu.release(given(rows, str(plan.item.columns), made), plan)
        assert found == expected, name
    if not mechanism.by_length:
        _check_texts(mechanism, folder, expected)
        _check_integers(mechanism, folder)


def _check_texts(mechanism: Mechanism, folder: Path, expected: dpsu.Release) -> None:
    """The tokens of texts are items like those of a column."""
    texts = inputs.as_texts(inputs.made_up_rows())
    plan = plan_of(mechanism, item=dpsu.Tokens("text"))
    for name in ("mapping", "Parquet", "CSV"):
        found = dpsu.release(inputs.INPUTS[name](texts, "text", folder), plan)
        assert found.items == expected.items, name


def _check_integers(mechanism: Mechanism, folder: Path) -> None:
    """Declared integers are integers in every form."""
    rows = inputs.as_integers(inputs.made_up_rows())
    declared = plan_of(mechanism, user=dpsu.Users(type="integer"), item=dpsu.Items(type="integer"))
    found = [
        dpsu.release(inputs.INPUTS[name](rows, "item", folder), declared)
        for name in ("tuples", "Arrow", "CSV", "JSON lines", "Polars")
    ]
    assert all(each == found[0] for each in found)
    assert pa.types.is_integer(found[0].values.type)
    check_items(found[0], {item for _, item in rows})


def check_cluster(mechanism: Mechanism, expected: dpsu.Release) -> None:
    """The steps of a cluster release what the local engine does, however rows are cut."""
    plan, table = plan_of(mechanism), data_of(mechanism)
    for tasks, partitions in ((1, 1), (3, 2), (2, 5)):
        job = Job(plan, Key.from_insecure_seed(SEED), partitions, pa.string())
        found = clusters.released(table, job, random.Random(tasks), tasks)
        assert found == list(expected.items)


def check_plan_travels(mechanism: Mechanism, expected: dpsu.Release) -> None:
    """A plan that was written, read or sent elsewhere is the same plan, and runs the same."""
    data, plan = data_of(mechanism), plan_of(mechanism)
    read = dpsu.Plan.from_json(plan.to_json())
    assert read == plan
    assert read.hash == plan.hash
    assert read.to_json() == plan.to_json()
    assert dpsu.release(data, read) == expected
    for sent in (mechanism, plan, expected):
        assert pickle.loads(pickle.dumps(sent)) == sent
    again = pickle.loads(pickle.dumps(expected))
    assert again.run == expected.run
    assert again.report() == expected.report()


def check_edits_are_refused(mechanism: Mechanism) -> None:
    """A file that says more than follows from what was decided is refused."""
    written = json.loads(plan_of(mechanism).to_json())
    written["privacy"]["epsilon"] = 2 * BUDGET["epsilon"]
    with pytest.raises(dpsu.ParameterError, match="it was edited"):
        dpsu.Plan.from_json(json.dumps(written))


def check_options_travel(mechanism: Mechanism) -> None:
    """Options survive JSON, and the flags of the command line say the same as the object."""
    plan = dpsu.plan(mechanism=mechanism, item=item_of(mechanism), **REALISTIC)
    flags = [*flags_of(mechanism), *_promised(REALISTIC)]
    shown = _said(["plan", "--json", *flags])
    assert dpsu.Plan.from_json(shown) == plan
    assert shown == plan.to_json() + "\n"


def flags_of(mechanism: Mechanism) -> list[str]:
    """What is typed in the shell for a mechanism with these options."""
    typed = ["--mechanism", mechanism.name]
    if mechanism.by_length:
        typed += ["--text", "text"]
    for name, option in options_of(type(mechanism)).items():
        value = getattr(mechanism, name)
        if value == option.default:
            continue
        typed.append("--" + (option.name or name).replace("_", "-"))
        if isinstance(value, tuple):
            typed.append(",".join(map(str, value)))
        elif value is not True:
            typed.append(str(value))
    return typed


def _promised(budget: dict[str, Any]) -> list[str]:
    return [word for name, value in budget.items() for word in (f"--{name}", repr(value))]


def _said(arguments: list[str]) -> str:
    """What a command prints, which must succeed."""
    # Commands write to the file descriptor behind sys.stdout.
    with tempfile.TemporaryFile("w+") as kept, contextlib.redirect_stdout(kept):
        cli(arguments, standalone_mode=False)
        kept.seek(0)
        return kept.read()


def check_shell(mechanism: Mechanism, folder: Path, expected: dpsu.Release) -> None:
    """`dpsu release` gives what Python gives, by flags and by a plan in a file."""
    plan = plan_of(mechanism)
    path = inputs.csv_file(data_of(mechanism), folder)
    flags = [*flags_of(mechanism), *_promised(BUDGET), "--insecure-seed", str(SEED)]
    lines = "".join(f"{item}\n" for item in expected.items)
    assert _said(["release", str(path), "--quiet", *flags]) == lines
    approved = folder / "plan.json"
    approved.write_text(_said(["plan", "--json", *flags]))
    assert dpsu.Plan.from_json(approved.read_text()) == plan
    assert _said(["release", str(path), "--quiet", "--plan", str(approved)]) == lines


def check_traces(mechanism: Mechanism, folder: Path) -> None:
    """Report, JSON report, ledger and Parquet file name the same plan and the same run."""
    plan = replace(plan_of(mechanism), insecure_seed=None)
    ledger = dpsu.Ledger(folder / "ledger.db")
    charged = ledger.dataset("visits", budget=(9, 0.1))
    released = dpsu.release(data_of(mechanism), plan, ledger=charged)
    assert released.private == plan.proven
    run = released.run.id
    assert released.run.dataset == "visits"
    report = released.report()
    assert plan.hash in report
    assert run in report
    told = json.loads(released.report_json())
    assert told["plan_hash"] == plan.hash == (told["approved"] or told["plan"])["hash"]
    assert told["run"] == {"id": run, "time": released.run.time, "dataset": "visits"}
    (entry,) = ledger.account("visits").releases
    assert (entry.run, entry.plan_hash, entry.state) == (run, plan.hash, "done")
    assert entry.mechanism == mechanism.name
    assert entry.plan is not None
    assert dpsu.Plan.from_json(entry.plan) == plan
    assert entry.cost.privacy == plan.privacy
    path = folder / "released.parquet"
    released.write(path)
    metadata = pyarrow.parquet.read_schema(path).metadata
    assert metadata[b"dpsu.plan_hash"].decode() == plan.hash
    assert metadata[b"dpsu.run"].decode() == run
    assert metadata[b"dpsu.dataset"] == b"visits"


def check_needs(mechanism: Mechanism) -> None:
    """A surer release takes more weight, and a larger epsilon takes less."""
    plan = dpsu.plan(mechanism=mechanism, item=item_of(mechanism), **REALISTIC)
    needed = list(plan.needed.values())
    reachable = [weight for weight in needed if weight is not None]
    # What a cutoff puts out of reach is what takes the most.
    assert reachable == needed[: len(reachable)]
    assert reachable == sorted(set(reachable))
    assert reachable
    before = plan.needed
    for epsilon in (2.0, 4.0):
        after = plan.at(epsilon).needed
        for probability, weight in after.items():
            old = before[probability]
            assert weight is None or old is None or weight < old
        before = after
    assert 0.0 < plan.largest_probability <= 1.0


def check_words(mechanism: Mechanism) -> None:
    """A plan tells its guarantee, its proof and all options, and a mechanism tells what it is."""
    plan = dpsu.plan(mechanism=mechanism, item=item_of(mechanism), **REALISTIC)
    text = str(plan)
    assert "dpsu proofs" in text
    assert mechanism.name in text
    assert "(1, 1e-06)-differential privacy" in text or not plan.private
    assert mechanism.summary
    assert type(mechanism).__doc__
    assert all(option.help.endswith(".") for option in options_of(type(mechanism)).values())
    assert {each.name for each in fields(mechanism)} == set(options_of(type(mechanism)))
    total = sum(part for _, part in plan.delta_split)
    assert total <= plan.privacy.delta * (1 + 1e-9)
    assert json.loads(plan.to_json())["mechanism"]["name"] == mechanism.name


def check_forecast(mechanism: Mechanism) -> None:
    """A forecast takes the plan, unless it is about texts, which nobody makes up."""
    plan = plan_of(mechanism)
    if mechanism.by_length:
        with pytest.raises(dpsu.ParameterError, match="no forecast"):
            dpsu.forecast(plan, users=100, items_per_user=3)
        return
    seen = dpsu.forecast(plan, users=300, items_per_user=3, vocabulary=200, mechanisms=[])
    assert seen.plan == plan
    assert seen.planned.mechanism == mechanism.name
    assert seen.planned.released > 1


def check_audit(mechanism: Mechanism) -> None:
    """An audit takes the plan and cannot refute it, unless it is about texts."""
    plan = dpsu.plan(mechanism=mechanism, item=item_of(mechanism), epsilon=1.0, delta=0.05)
    if mechanism.by_length:
        with pytest.raises(dpsu.ParameterError, match="its own data"):
            dpsu.audit(plan, trials=4000)
        return
    found = dpsu.audit(plan, trials=4000)
    assert found.plan == plan
    assert found.passed


def check_everything(mechanism: Mechanism, folder: Path) -> None:
    """All that is fast, one after the other."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "insecure_seed", dpsu.DataWarning)
        expected = check_release(mechanism)
        check_public_items(mechanism)
        (folder / "inputs").mkdir()
        check_inputs(mechanism, folder / "inputs", expected)
        if mechanism.parallel:
            check_cluster(mechanism, expected)
        check_plan_travels(mechanism, expected)
        check_edits_are_refused(mechanism)
        check_options_travel(mechanism)
        check_shell(mechanism, folder, expected)
        check_traces(mechanism, folder)
        check_needs(mechanism)
        check_words(mechanism)
