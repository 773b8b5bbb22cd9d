"""Python workers of Spark do not look through all libraries for garbage after every task."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest

from dpsu.engines.cluster.steps import Batches
from dpsu.engines.spark import workers
from dpsu.engines.spark.workers import InWorker, set_aside_what_stays


class Cycle:
    """Garbage that counting references does not find."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def doubled(batches: Batches) -> Batches:
    for batch in batches:
        yield batch
        yield batch


def test_a_step_makes_what_it_makes_and_has_its_name() -> None:
    step = InWorker(doubled)
    batch = pa.record_batch({"n": [1, 2]})
    assert list(step(iter([batch]))) == [batch, batch]
    assert step.__name__ == "doubled"


def test_what_is_loaded_is_set_aside_after_a_step() -> None:
    assert len(gc.get_objects()) > workers.MANY_OBJECTS
    list(InWorker(doubled)(iter([])))
    assert gc.get_freeze_count() > workers.MANY_OBJECTS
    assert len(gc.get_objects()) < workers.MANY_OBJECTS


def test_garbage_is_never_set_aside() -> None:
    first = weakref.ref(Cycle())
    set_aside_what_stays()
    assert first() is None
    second = weakref.ref(Cycle())
    set_aside_what_stays()
    gc.collect()
    assert second() is None


def test_few_objects_are_left_to_the_collector() -> None:
    set_aside_what_stays()
    before = gc.get_freeze_count()
    kept = [[] for _ in range(100)]  # type: ignore[var-annotated]
    set_aside_what_stays()
    # Objects that are set aside may still end by counting references.
    assert gc.get_freeze_count() <= before
    assert len(kept) == 100
