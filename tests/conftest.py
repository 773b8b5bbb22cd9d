"""Spark tests run where Java is, and not where somebody does not want them."""

from __future__ import annotations

import os

import pytest

from dpsu.engines.spark.session import NO_JAVA, has_java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("spark")]
    reason = "DPSU_SKIP_SPARK=1" if os.environ.get("DPSU_SKIP_SPARK") == "1" else ""
    if marked and not reason and not has_java():
        reason = NO_JAVA
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))
