"""The example for dbt runs, offline, and a run that is repeated is charged once."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dpsu
from tests.docs.test_docs import ROOT, blocks

EXAMPLE = ROOT / "examples" / "dbt"
PROGRAM = """
import json, socket, sys

asked = []

def refuse(*where, **options):
    asked.append("network")
    raise OSError("there is no network")

socket.getaddrinfo = socket.socket.connect = socket.socket.connect_ex = refuse

from dbt.cli.main import dbtRunner

example, scratch = sys.argv[1:]
always = ["build", "--quiet", "--project-dir", example, "--profiles-dir", example]
always += ["--target-path", f"{scratch}/target", "--log-path", f"{scratch}/logs"]
done = []
for more in ([], [], ["--vars", "{period: 2026-12}"]):
    result = dbtRunner().invoke([*always, *more])
    done.append(sorted((each.node.name, str(each.status)) for each in result.result))
print(json.dumps([done, asked]))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("dbt") is None or importlib.util.find_spec("dbt.cli") is None,
    reason="needs dbt-core and dbt-duckdb",
)
def test_the_example_for_dbt_spends_once_for_each_name(tmp_path: Path) -> None:
    before = sorted(EXAMPLE.rglob("*"))
    source = Path(dpsu.__file__).resolve().parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(EXAMPLE), str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"SHOP": str(tmp_path / "shop.duckdb"), "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done, asked = json.loads(ran.stdout.splitlines()[-1])
    passed = [
        ["not_null_products_product", "pass"],
        ["products", "success"],
        ["unique_products_product", "pass"],
        ["visits", "success"],
    ]
    assert done == [passed] * 3
    assert asked == []
    # Two names, and three runs.
    releases = dpsu.Ledger(tmp_path / "ledger.db").account("visits").releases
    assert [each.state for each in releases] == ["done", "done"]
    with duckdb.connect(tmp_path / "shop.duckdb", read_only=True) as shop:
        products = shop.execute("select product from products order by 1").fetchall()
    assert products == [("bread",), ("milk",)]
    # What dbt writes down holds no rows.
    written = [file for name in ("logs", "target") for file in (tmp_path / name).rglob("*.*")]
    assert len(written) > 3
    assert not any(b"person 77" in file.read_bytes() for file in written if file.is_file())
    assert sorted(EXAMPLE.rglob("*")) == before


def test_the_guide_shows_the_model_of_the_example() -> None:
    *_, shown = blocks(ROOT / "docs" / "guides" / "duckdb.md", "python")
    model = (EXAMPLE / "models" / "products.py").read_text(encoding="utf-8")
    assert re.sub(r'    """.*"""\n', "", model).endswith(shown)
