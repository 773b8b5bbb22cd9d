"""One line of JSON changes nothing of what others hold, whether Arrow reads its block or Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any
from unittest import mock

import pyarrow as pa

from dpsu.contributions.id_columns import Column
from dpsu.inputs import delimited

COLUMNS = [Column("user", "user"), Column("item", "item")]
Rows = list[tuple[Any, ...]]

PLAIN = [
    b'{"user":1,"item":"a"}',
    b'{"user": -12, "item": "b c"}',
    b'{"item":"","user":0}',
    b'{ "x" : "y" , "user" : 7 , "item" : "\xc3\xa9" }',
    b'{"user":123456789012345678,"item":"d","z":3}',
    b'{"usera":"1","use":"2","user":3,"item":"e,}{:"}',
    b'{"user":4,"item":"a"}\r',
]
ODD = [
    b'{"user":1,"item":"a"',
    b'{"user":1,"item":"a"}}',
    b'{"user":1,"item":"a"} x',
    b'{"user":1,"item":"a",}',
    b'{"user":1,,"item":"a"}',
    b'{"user":1 "item":"a"}',
    b'{"user":1}',
    b'{"user":1,"item":null}',
    b'{"user":1,"item":"a","item":"b"}',
    b'{"user":1,"user":2}',
    b'{"item":"a","item":"b"}',
    b'{"us\\u0065r":1,"item":"a"}',
    b'{"user":1,"item":"a\\n"}',
    b'{"user":1,"item":"a\tb"}',
    b'{"user":1,"item":"\xff"}',
    b'{"user":01,"item":"a"}',
    b'{"user":-0,"item":"a"}',
    b'{"user":1.0,"item":"a"}',
    b'{"user":1e3,"item":"a"}',
    b'{"user":-,"item":"a"}',
    b'{"user":1234567890123456789012,"item":"a"}',
    b'{"user":true,"item":"a"}',
    b'{"user":[1],"item":"a"}',
    b'{"user":"1","item":"a"}',
    b'{"user":1,"item":2}',
    b'{"user":1,"item":"a","x":{"item":"b"}}',
    b'{"user":1,"item":"a","x":nul}',
    b' {"user":1,"item":"a"}',
    b'["user",1,"item","a"]',
    b"{}",
    b"",
    b'{"user":1,"item":"a',
    b'{"user":',
    b'{"user"',
    b'{"',
    b"{",
    b'\xef\xbb\xbf{"user":1,"item":"a"}',
]


def read(block: bytes, *, by_line: bool = False) -> tuple[Rows, bool]:
    """Rows as a release sees them, and whether the curator is warned."""
    lost: Counter[str] = Counter()
    parser = delimited._JsonLines(COLUMNS, lambda reason: lost.update([reason]))
    arrays = parser._by_line(block) if by_line else parser.parse(block).columns
    cells = []
    for column, array in zip(COLUMNS, arrays, strict=True):
        (chunk,) = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        if pa.types.is_large_list(chunk.type):
            cells.append(chunk.to_pylist())
            continue
        plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
        texts = column.texts(plain, lambda reason: lost.update([reason])).to_pylist()
        # Beside a list, each item is a list of one.
        cells.append(texts if column.option == "user" else [[text] for text in texts])
    return list(zip(*cells, strict=True)), bool(lost)


def assert_alike(block: bytes) -> None:
    found = read(block)
    assert found == read(block, by_line=True), block
    each = [read(line) for line in block.split(b"\n")]
    alone = [row for rows, _ in each for row in rows]
    assert found == (alone, any(lost for _, lost in each)), block


def test_plain_lines_hold_what_they_say() -> None:
    for lines in (PLAIN, *([line] for line in PLAIN)):
        block = b"\n".join(lines)
        said = [(str(row["user"]), [row["item"]]) for row in map(json.loads, lines)]
        for whole in (block, block + b"\n"):
            assert read(whole) == (said, False), whole
            assert_alike(whole)


def test_an_odd_line_changes_nothing_of_those_around_it() -> None:
    for odd in ODD:
        for lines in ([PLAIN[0], odd, PLAIN[1]], [PLAIN[0], odd]):
            for end in (b"", b"\n"):
                assert_alike(b"\n".join(lines) + end)


def test_lines_are_told_apart_although_there_are_as_many_objects() -> None:
    begun = b'{"user":1,"item":"a","x":{}'
    for lines in (
        [begun, b',"y":1}{"user":3,"item":"c"}'],
        [PLAIN[0], begun, b',"y":1}{"user":3,"item":"c"}', PLAIN[1]],
        [begun, b',"y":1}', PLAIN[0] + PLAIN[1]],
    ):
        assert_alike(b"\n".join(lines))


def test_the_last_of_equal_keys_counts_beside_any_line() -> None:
    twice = b'{"user":1,"item":"a","item":"b"}'
    assert read(b"\n".join([PLAIN[0], twice]))[0] == [("1", ["a"]), ("1", ["b"])]


def test_lines_with_random_damage_are_read_alike() -> None:
    rng = random.Random(1)
    alphabet = [*b'{}":,\\ \n\r\t-0123a', 0xC3, 0xA9, 0xFF, 0x00]
    for _ in range(500):
        lines = rng.choices(PLAIN, k=rng.randint(1, 4))
        block = bytearray(b"\n".join(lines) + rng.choice([b"", b"\n"]))
        for _ in range(rng.randint(0, 3)):
            place = rng.randrange(len(block))
            if rng.random() < 0.5:
                block[place] = rng.choice(alphabet)
            elif rng.random() < 0.5:
                block.insert(place, rng.choice(alphabet))
            else:
                del block[place]
        assert_alike(bytes(block))


def test_random_objects_are_read_alike() -> None:
    rng = random.Random(1)
    texts = ["", "a", "é", "\u2028", '"', "\\", "\n", "null", "1", "\x7f", "日本"]
    values: list[Any] = [*texts, 0, 1, -1, 10**17, 10**18, 2**63, 1.5, None, True, [], {}]
    for _ in range(400):
        likely = rng.random() < 0.7
        rows = [
            {
                "user": rng.choice([3, -4, 10**17] if likely else values),
                "item": rng.choice(texts[:4] if likely else values),
                **({"more": rng.choice(values)} if rng.random() < 0.2 else {}),
            }
            for _ in range(rng.randint(1, 5))
        ]
        compact = (",", ":") if rng.random() < 0.5 else (", ", ": ")
        ascii_only = rng.random() < 0.5
        lines = [json.dumps(row, separators=compact, ensure_ascii=ascii_only) for row in rows]
        assert_alike("\n".join([*lines, ""]).encode())


def test_a_line_that_is_no_json_is_not_tried_with_all_types() -> None:
    """One person's short lines would take hours, with many columns."""
    columns = [*COLUMNS, *(Column(name, "item") for name in "abcdef")]
    parser = delimited._JsonLines(columns, lambda reason: None)
    with mock.patch.object(delimited, "_read_json", wraps=delimited._read_json) as read:
        assert len(parser.parse(b"{\n" * 5 + PLAIN[0])) == 1
    assert read.call_count == 5
