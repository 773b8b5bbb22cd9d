"""Columns of every type in every library do what the table of the guide says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contracts import column_types
from tests.support import servers


@pytest.mark.parametrize("library", [name for name in column_types.LIBRARIES if name != "Spark"])
def test_columns_do_what_the_guide_says(library: str, tmp_path: Path) -> None:
    found = column_types.outcomes(library, tmp_path)
    if found is None:
        pytest.skip(servers.MISSING)
    assert found == column_types.documented()[library]


@pytest.mark.spark
@pytest.mark.thorough
def test_columns_of_spark_do_what_the_guide_says(spark: Any, tmp_path: Path) -> None:
    assert column_types.outcomes("Spark", tmp_path, spark) == column_types.documented()["Spark"]
