"""Releases that were given no seed have keys all the same, in every run of a test the same."""

from __future__ import annotations

import itertools

import pytest

from dpsu.randomness.keys import Key


@pytest.fixture(autouse=True)
def no_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases of a test have different keys, and the next run of it has the same ones."""
    seeds = itertools.count()
    monkeypatch.setattr(
        Key, "from_os", classmethod(lambda cls: cls.from_insecure_seed(next(seeds)))
    )
