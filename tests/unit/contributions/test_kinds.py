"""Items of several kinds: they come back, and bring what they imply and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsu.contributions.codecs import encode
from dpsu.contributions.id_columns import Column
from dpsu.contributions.kinds import KindsCodec
from tests.unit.contributions.test_codecs import AWKWARD, nobody, normal

NAMES = ("a", "b", "c", "d")
TEXTS = st.text(st.sampled_from(AWKWARD), max_size=2).map(normal)
Item = tuple[int, tuple[str, ...]]


@st.composite
def codecs(draw: Callable[[Any], Any]) -> tuple[KindsCodec, list[Item]]:
    places = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(tuple)
    kinds = draw(st.lists(places, min_size=1, max_size=12, unique_by=frozenset))
    # A column that is in no kind is not there at all.
    kinds += [(at,) for at in range(4) if not any(at in kind for kind in kinds)]
    codec = KindsCodec(NAMES, (pa.large_string(),) * 4, tuple(kinds))
    items = st.integers(0, len(kinds) - 1).flatmap(
        lambda kind: st.tuples(st.just(kind), st.tuples(*[TEXTS] * len(kinds[kind])))
    )
    return codec, draw(st.lists(items, max_size=8, unique=True))


def ids_of(items: list[Item]) -> pa.Array:
    """Ids by the code for keys, the kind first."""
    parts = [pa.array([], pa.large_string())]
    for kind, cells in items:
        columns = [pa.array([text], pa.large_string()) for text in (str(kind), *cells)]
        named = [(Column(str(at), "item"), column) for at, column in enumerate(columns)]
        parts.append(encode(named, nobody).dictionary_decode())
    return pa.concat_arrays(parts)


def plain(codec: KindsCodec, item: Item) -> dict[str, str | None]:
    kind, cells = item
    own = dict(zip(codec.kinds[kind], cells, strict=True))
    return {name: own.get(at) for at, name in enumerate(NAMES)}


@settings(deadline=None)
@given(codecs())
def test_every_item_comes_back_in_its_place(drawn: tuple[KindsCodec, list[Item]]) -> None:
    codec, items = drawn
    texts = ids_of(items)
    assert codec.decode(texts).to_pylist() == [plain(codec, item) for item in items]
    assert len(texts.unique()) == len(items)


@settings(deadline=None)
@given(codecs())
def test_items_bring_what_they_imply(drawn: tuple[KindsCodec, list[Item]]) -> None:
    """A part of an item's columns, if it is a kind, is implied; the ids alone decide."""
    codec, items = drawn
    expected = {(kind, cells) for kind, cells in items}
    for kind, cells in items:
        own = dict(zip(codec.kinds[kind], cells, strict=True))
        for other, places in enumerate(codec.kinds):
            if set(places) <= set(own) and other != kind:
                expected.add((other, tuple(own[place] for place in places)))
    found = codec.with_implied(ids_of(items))
    assert sorted(found.to_pylist()) == found.to_pylist()
    assert set(found.to_pylist()) == set(ids_of(sorted(expected)).to_pylist())
    assert len(found) == len(expected)
    # What is complete stays as it is.
    assert codec.with_implied(found).equals(found)
