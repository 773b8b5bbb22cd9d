"""Plans in files: what was approved is what runs, and whatever differs from it is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.cli import options
from dpsu.plans.mechanisms import MECHANISMS
from tests.unit.cli.test_cli import COLUMNS, ROWS, Run

PROMISE = ("--epsilon", "2", "--delta", "1e-13")
# Weights without a cutoff grow far beyond the threshold, so these runs cannot fail by chance.
SURE = ("--mechanism", "weighted-gaussian")
ITEMS = ["item 1", "item 2", "item 3"]


@pytest.fixture
def approve(run: Run, tmp_path: Path) -> Callable[..., Path]:
    """Writes the plan that `dpsu plan --json` prints to a file."""

    def made(*arguments: object) -> Path:
        code, out, err = run("plan", *PROMISE, *COLUMNS, *arguments, "--json")
        assert (code, err) == (0, "")
        path = tmp_path / "plan.json"
        path.write_text(out, "utf-8")
        return path

    return made


def test_an_approved_plan_runs_and_everything_names_it(
    run: Run, data: Path, approve: Callable[..., Path], tmp_path: Path
) -> None:
    """Plan, report in both forms, Parquet file and ledger are joined by plan hash and run id."""
    file = approve(*SURE, "--max-items", "20", "--counts")
    plan = dpsu.Plan.from_json(file.read_text("utf-8"))
    output, ledger = tmp_path / "items.parquet", tmp_path / "ledger.db"
    code, out, err = run(
        "release", data, "--plan", file, "--output", output, "--report", tmp_path / "report.json",
        "--ledger", ledger, "--dataset", "visits", "--budget", "3,1e-5", "--verbose",
    )  # fmt: skip
    assert (code, out) == (0, ""), err
    table = pa.parquet.read_table(output)
    assert table["what"].to_pylist() == ITEMS
    assert table.column_names == ["what", "noisy_users"]
    facts = json.loads((tmp_path / "report.json").read_text("utf-8"))
    (entry,) = dpsu.Ledger(ledger).account("visits").releases
    kept = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    assert kept == {
        "dpsu.version": dpsu.__version__,
        "dpsu.plan_hash": plan.hash,
        "dpsu.run": entry.run,
        "dpsu.time": facts["run"]["time"],
        "dpsu.dataset": "visits",
        "dpsu.guarantee": facts["guarantee"],
    }
    assert facts["plan_hash"] == facts["plan"]["hash"] == entry.plan_hash == plan.hash
    assert facts["run"]["id"] == entry.run
    assert facts["run"]["dataset"] == entry.dataset
    assert entry.run in err
    assert plan.hash in err
    assert dpsu.Plan.from_dict(facts["plan"]) == plan
    assert dpsu.Plan.from_json(str(entry.plan)) == plan
    # A second run of the plan is another run.
    code, _, _ = run("release", data, "--plan", file, "--ledger", ledger, "--dataset", "visits")
    first, second = dpsu.Ledger(ledger).account("visits").releases
    assert first.plan_hash == second.plan_hash
    assert first.run != second.run


def test_a_plan_decides_what_it_decides(run: Run, data: Path, approve: Callable[..., Path]) -> None:
    """Every flag that makes a plan is refused beside one, except public data that a file lacks."""
    plan = approve(*SURE)
    kinds = {flag.name: flag.option for flag in options.flags_of(*MECHANISMS.values())}
    for name in options.plan_names():
        given: tuple[str, ...] = ("1",)
        if name == "mechanism":
            given = ("sieve",)
        elif name == "counts" or (name in kinds and kinds[name].kind is bool):
            given = ()
        elif name.endswith("_type"):
            given = ("text",)
        elif name in kinds and kinds[name].choices:
            given = kinds[name].choices[:1]
        flag = "--" + name.replace("_", "-")
        code, out, err = run("release", data, "--plan", plan, flag, *given)
        assert (code, out) == (2, ""), name
        if name in options.BESIDE_A_PLAN:
            assert "there is no file '1'" in err, name
        else:
            assert f"--plan decides {flag}; drop one of them" in err, name


def rehashed(values: dict[str, Any]) -> dict[str, Any]:
    """A plan with a hash that fits what it says was decided, as whoever edits it could have."""
    decided = {k: v for k, v in values.items() if k not in ("derived", "hash")}
    text = json.dumps(decided, sort_keys=True, separators=(",", ":"))
    return values | {"hash": hashlib.sha256(text.encode()).hexdigest()}


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def edit(values: dict[str, Any]) -> dict[str, Any]:
        inside = values
        for name in path[:-1]:
            inside = inside[name]
        assert inside.get(path[-1]) != value
        inside[path[-1]] = value
        return values

    return edit


Edit = Callable[[dict[str, Any]], Any]
# What every change of a file comes to is looked at in tests of plans; here is what the shell says.
EDITS: list[tuple[Edit, str]] = [
    (put("derived", "selection", "curve", "scale", value=0.1), "curve.scale differs"),
    (put("privacy", "epsilon", value=4.0), "not what its hash stands for"),
    (lambda values: rehashed(put("privacy", "epsilon", value=4.0)(values)), "derived."),
    (put("mechanism", "name", value="sips"), "sips has no option"),
    (put("mechanism", "name", value="magic"), "magic is not one of"),
    (put("mechanism", "max_items", value=0), "--max-items 0 is out of range"),
    (put("format", value=1), "a plan of format 1, and this dpsu knows format 3"),
    (put("note", value="approved"), "an unknown 'note'"),
    (put("user", value={"name": "who"}), "its Users has no 'columns'"),
    (put("privacy", "epsilon", value="2"), "--epsilon 2 is not a number"),
    (lambda values: [values], "this is JSON, but not a plan"),
]


def test_a_plan_that_was_edited_is_refused(
    run: Run, data: Path, approve: Callable[..., Path], tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.db"
    charged = ["--ledger", ledger, "--dataset", "d", "--budget", "9,1e-4"]
    file = approve(*SURE)
    text = file.read_text("utf-8")
    for place, (change, words) in enumerate(EDITS):
        file.write_text(json.dumps(change(json.loads(text))), "utf-8")
        code, out, err = run("release", data, "--plan", file, *charged)
        # The first three are plans, and not what was approved; the others are none.
        assert (code, out) == (3 if place < 3 else 2, ""), words
        assert words in err, (words, err)
        assert "Traceback" not in err, words
        assert not ledger.exists(), words
    for content, words in ((b"\xff\xfe", "it is not text"), (b"plan", "it is not JSON")):
        file.write_bytes(content)
        code, out, err = run("release", data, "--plan", file)
        assert (code, out) == (2, "")
        assert str(file) in err
        assert words in err
    code, out, err = run("release", data, "--plan", tmp_path / "nowhere.json")
    assert (code, out) == (2, "")
    assert "cannot be read: No such file" in err


def test_public_data_are_given_again_and_must_be_the_same(
    run: Run, data: Path, approve: Callable[..., Path], tmp_path: Path
) -> None:
    prior, known = tmp_path / "prior.csv", tmp_path / "known.txt"
    prior.write_text("item,holders\nitem 1,9\nitem 2,8\n")
    known.write_text("item 3\nelsewhere\n")
    other_prior, other_known = tmp_path / "other.csv", tmp_path / "other.txt"
    other_prior.write_text("item,holders\nitem 1,9\nitem 2,7\n")
    other_known.write_text("item 3\n")
    link = tmp_path / "link.txt"
    link.symlink_to(known)

    def given(file: Path, *typed: object) -> tuple[int, str, str]:
        return run("release", data, "--plan", file, *typed)

    file = approve("--mechanism", "greedy", "--prior", prior, "--public-items", known)
    code, out, _ = given(file, "--prior", prior, "--public-items", known)
    assert code == 0
    assert {"item 3", "elsewhere"} <= set(out.splitlines())
    lacks = "the plan was made with --{}, which a file does not hold; give it"
    another = "is not what the plan was made with, which is another one"
    for typed, words in (
        (("--public-items", known), lacks.format("prior")),
        (("--prior", prior), lacks.format("public-items")),
        (("--prior", other_prior, "--public-items", known), another),
        (("--prior", prior, "--public-items", other_known), another),
    ):
        code, out, err = given(file, *typed)
        assert (code, out) == (3 if words == another else 2, "")
        assert words in err
    plain = approve(*SURE)
    for name, path in (("prior", prior), ("public-items", known)):
        code, out, err = given(plain, f"--{name}", path)
        assert (code, out) == (3, "")
        assert f"--{name} is not what the plan was made with, which is none" in err
    # Private data are no public data, however they come to be beside a plan.
    file = approve(*SURE, "--public-items", known)
    code, out, err = run(
        "release", known, "--format", "csv", "--plan", file, "--public-items", link
    )
    assert (code, out) == (2, "")
    assert "--public-items is the file of the confidential data" in err


def test_no_file_and_no_word_names_a_function_that_the_shell_would_run(
    run: Run, data: Path, tmp_path: Path
) -> None:
    item = dpsu.Tokens("body", tokenizer=str.split)
    made = dpsu.plan(epsilon=2, delta=1e-6, mechanism="weighted-gaussian", item=item)
    file, ledger = tmp_path / "plan.json", tmp_path / "ledger.db"
    file.write_text(made.to_json(), "utf-8")
    charged = ("--ledger", ledger, "--dataset", "d", "--budget", "9,1e-4")
    code, out, err = run("release", data, "--plan", file, *charged)
    assert (code, out) == (2, "")
    assert "function str.split" in err
    assert "which a file does not hold" in err
    assert not ledger.exists()
    typed = ("--text", "what", "--tokenizer", "function str.split", *PROMISE)
    code, out, err = run("release", data, *typed)
    assert (code, out) == (2, "")
    assert "--tokenizer function str.split is not one of" in err


def test_what_was_selected_is_a_record_and_does_not_run(
    run: Run, data: Path, tmp_path: Path
) -> None:
    """Run again, it would spend the promise of the whole on a plan that the data chose."""
    candidates = [
        dpsu.plan(epsilon=2, delta=1e-6, mechanism=dpsu.WeightedGaussian(max_items=size))
        for size in (3, 30)
    ]
    # Candidates may come from files.
    read = [dpsu.Plan.from_json(candidate.to_json()) for candidate in candidates]
    chosen = dpsu.select(ROWS, read).plan
    assert dpsu.Plan.from_json(chosen.to_json()) == chosen
    assert chosen.hash not in {candidate.hash for candidate in candidates}
    (tmp_path / "plan.json").write_text(chosen.to_json(), "utf-8")
    for act in (
        lambda: dpsu.release(ROWS, chosen),
        lambda: dpsu.select(ROWS, [chosen]),
        lambda: dpsu.audit(chosen),
        lambda: dpsu.forecast(chosen, users=10, items_per_user=2),
    ):
        with pytest.raises(dpsu.ParameterError, match=r"select chose|must be plans|a plan that"):
            act()
    code, out, err = run("release", data, "--plan", tmp_path / "plan.json")
    assert (code, out) == (2, "")
    assert "this plan records what dpsu.select chose, and cannot be run again" in err


def test_whoever_approves_a_file_reads_it_in_words(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    typed = ("plan", "--epsilon", 1, "--delta", 1e-6, "--user", "person", "--item", "query")
    file.write_text(run(*typed, "--json")[1])
    assert run("plan", "--plan", file)[1] == run(*typed)[1]
    assert run("plan", "--plan", file, "--json")[1] == file.read_text()
    code, _, err = run("plan", "--plan", file, "--epsilon", 2)
    assert code == 2
    assert "--plan decides --epsilon" in err
    edited = json.loads(file.read_text())
    edited["privacy"]["delta"] = 1e-5
    file.write_text(json.dumps(edited))
    assert run("plan", "--plan", file)[0] != 0
