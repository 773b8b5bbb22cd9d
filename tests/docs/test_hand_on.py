"""The guide to other libraries shows what runs, and does what it shows."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.peers import made_up, tables
from tools.peers.environments import LIBRARIES

import dpsu
from tests.support.examples import python, shell

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guides" / "hand-on.md").read_text("utf-8")


def shown() -> list[str]:
    return [textwrap.dedent(code) for code in re.findall(r"```python\n(.*?)```", GUIDE, re.S)]


def test_every_example_is_literally_in_what_runs() -> None:
    about_zcdp, *examples = shown()
    assert "rho" in about_zcdp
    assert len(examples) == len(LIBRARIES)
    for library in LIBRARIES:
        script = (tables.SCRIPTS / f"{library.name}.py").read_text("utf-8")
        _, code, _ = GUIDE.split(f"code for {library.name} -->\n")[1].split("```")
        code = code.removeprefix("python\n")
        examples.remove(code)
        assert textwrap.indent(code, "    ") in script
        assert script.count(tables.BEGIN) == script.count(tables.END) == 1, library
    assert examples == []


def test_keys_and_sums_share_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up.write(made_up.purchases(people=2000, products=20), tmp_path / "purchases.parquet")
    (typed,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.S)
    shell(typed, tmp_path)
    # The second time nothing is left.
    shell(typed, tmp_path, wanted=3)
    keys = pq.read_table(tmp_path / "keys.parquet")["product"].to_pylist()
    assert "product 0001" in keys
    monkeypatch.chdir(tmp_path)
    account = dpsu.Ledger("ledger.db").account("purchases")
    assert account.left.sums.epsilon == 0
    space = python(shown()[:1], "hand-on.md")
    assert f"# {space['epsilon']:.2f}\n" in shown()[0]
    assert dpsu.Ledger("ledger.db").account("survey").spent.sums.epsilon == space["epsilon"]


def test_the_join_of_duckdb_keeps_released_products_and_bounds(tmp_path: Path) -> None:
    rows = made_up.purchases(people=500, products=30)
    made_up.write([*rows, (1, "product 0001", 999), (2, "product 0001", -5)], tmp_path / "all")
    released = [f"product {rank:04}" for rank in range(1, 11)]
    pq.write_table(pa.table({"product": pa.array(released, pa.large_string())}), tmp_path / "keys")
    (code,) = [code for code in shown() if "duckdb" in code]
    space = {"purchases": str(tmp_path / "all"), "keys": str(tmp_path / "keys")}
    bounds = {"max_rows": 3, "max_amount": 50}
    scope: dict[str, object] = {**space, **bounds}
    exec(compile(code, "hand-on.md", "exec"), scope)
    kept = scope["rows"].fetchall()  # type: ignore[attr-defined]
    held = defaultdict(list)
    for person, product, _ in [*rows, (1, "product 0001", 0), (2, "product 0001", 0)]:
        if product in released:
            held[person].append(product)
    assert Counter(person for person, _, _ in kept) == {
        person: min(3, len(products)) for person, products in held.items()
    }
    assert all(product in held[person] and 0 <= amount <= 50 for person, product, amount in kept)
