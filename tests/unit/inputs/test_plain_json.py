"""Plain lines of JSON have a loop of their own: it reads what the whole parsers read, or nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from dpsu.contributions.id_columns import Column
from dpsu.inputs import delimited
from dpsu.inputs.plain_json import plain_table

COLUMNS = [Column("user", "user"), Column("item", "item")]

PLAIN = [
    b'{"user":1,"item":"a"}',
    b'{"user": -12, "item": "b c"}',
    b'{"item":"","user":0}',
    b'{ "x" : "y" , "user" : 7 , "item" : "\xc3\xa9" }',
    b'{"user":123456789012345678,"item":"d","z":3}',
    b'{"usera":"1","use":"2","user":3,"item":"e,}{:"}',
    b'{"user":4,"item":"a"}\r',
]
NOT_PLAIN = [
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


def parsed(block: bytes, *, plain: bool) -> tuple[pa.Table, Counter[str]]:
    lost: Counter[str] = Counter()
    parser = delimited._JsonLines(COLUMNS, lambda reason: lost.update([reason]))
    with pytest.MonkeyPatch.context() as patch:
        if not plain:
            patch.setattr(delimited, "plain_table", lambda block, names: None)
        return parser.parse(block), lost


def assert_same(block: bytes) -> None:
    found, lost = parsed(block, plain=True)
    expected, expected_lost = parsed(block, plain=False)
    assert found.equals(expected)
    assert found.schema == expected.schema
    assert lost == expected_lost


def test_plain_lines_are_read_without_a_parser() -> None:
    block = b"\n".join(PLAIN) + b"\n"
    found = plain_table(block, ["user", "item"])
    assert found is not None
    assert found.to_pylist() == [
        {"user": row["user"], "item": row["item"]} for row in map(json.loads, PLAIN)
    ]
    assert_same(block)
    assert_same(block[:-1])


def test_a_file_without_line_breaks_at_its_end_or_in_blocks_of_one_line() -> None:
    for line in PLAIN:
        assert plain_table(line, ["user", "item"]) is not None
        assert_same(line)


@pytest.mark.parametrize("at", range(len(NOT_PLAIN)))
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_one_line_that_is_not_plain_leaves_all_to_the_parsers(at: int, end: bytes) -> None:
    block = b"\n".join([PLAIN[0], NOT_PLAIN[at], PLAIN[1]]) + end
    assert plain_table(block, ["user", "item"]) is None
    assert_same(block)
    last = b"\n".join([PLAIN[0], NOT_PLAIN[at]]) + end
    assert at == NOT_PLAIN.index(b"") or plain_table(last, ["user", "item"]) is None
    assert_same(last)


@pytest.mark.parametrize("seed", range(40))
def test_lines_with_random_damage_are_read_as_the_parsers_read_them(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = [*b'{}":,\\ \n\r\t-0123a', 0xC3, 0xA9, 0xFF, 0x00]
    for _ in range(40):
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
        if block:
            assert_same(bytes(block))


@pytest.mark.parametrize("seed", range(10))
def test_random_objects_are_read_as_the_parsers_read_them(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["", "a", "é", "\u2028", '"', "\\", "\n", "null", "1", "\x7f", "日本"]
    values: list[Any] = [*texts, 0, 1, -1, 10**17, 10**18, 2**63, 1.5, None, True, [], {}]
    for _ in range(40):
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
        assert_same(
            "".join(
                json.dumps(row, separators=compact, ensure_ascii=ascii_only) + "\n" for row in rows
            ).encode()
        )
