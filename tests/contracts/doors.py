"""Every door, which is a way to pass rows to dpsu, as cases that read rows in a random layout.

What a row is depends on the door: a line of a file, cells of a table, an element of a list. `check`
tests what holds at all doors (`docs/proofs/reading.md`). A new door is one line in `DOORS`.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import gzip
import io
import json
import random
import uuid
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.engines.cluster.messages import arrived
from dpsu.engines.cluster.running import ClusterData
from dpsu.engines.cluster.steps import received_pairs
from dpsu.inputs import delimited, reading
from dpsu.inputs.columns import MissingColumnError
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from tests.support.clusters import OneProcessData

Read = Counter[Any]
Rng = random.Random
Rows = Sequence[Any]
KEY = Key(bytes(32))
LONGEST = 120
ONE_EACH = "one per entry"
# What Python says where threads are missing.
THREADS = "can't start new thread"
TEXTS = [
    "a", "b", "\u00fc", "u\u0308", "", " ", "a,b", "a\tb", 'q"q', '"', "line\nbreak", "\r", "user", "item", "odd", "null",
    "NA", "nan", "1", "01", "-0", "1.0", "1e3", "\0", "\U0001f600", "x" * 60, "y" * 200, str(2**63), "Some words. More!",
    THREADS,
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 7, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**63 + 1, 2**64 - 1,
]  # fmt: skip
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 5)


class Explodes:
    """An object that says it has a length, and fails when it is iterated or printed."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        raise ValueError("Zzsecret")

    def __str__(self) -> str:
        raise KeyError("Zzsecret")


class Deceives(dict[Any, Any]):
    """A mapping with more values than keys."""

    def values(self) -> Any:
        return [1, 2, 3, *super().values()]


class FailingList(list[Any]):
    """One that is longer than it says, and fails when it is iterated."""

    __iter__ = Explodes.__iter__


class FailingText(str):
    """Text that cannot be encoded."""

    encode: Any = Explodes.__str__


class FailingInteger(int):
    """An integer that says it is another one."""

    def __int__(self) -> int:
        return 8


class FailingNumPyInteger(np.int64):
    """One of NumPy that says it is two others."""

    __int__ = FailingInteger.__int__

    def __index__(self) -> int:
        return 9


class FailingDigits(str):
    """Text of digits that says it is a huge integer."""

    def __int__(self) -> int:
        return 10**30


class NoUnicode(uuid.UUID):
    """An object of a known type, of which the text is no Unicode."""

    def __str__(self) -> str:
        return "\ud800"


class NoText(datetime.time):
    """One of which the text is no text."""

    replace: Any = lambda self, **fields: self
    isoformat: Any = lambda self: FailingDigits


class Proxy:
    """An object of which nothing can be asked, as that of a session that is closed."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("Zzsecret")


class FailingTuple(tuple[Any, ...]):
    """One of which nothing can be asked by its own methods."""

    __len__: Any = Explodes.__iter__
    __getitem__: Any = Explodes.__iter__
    __iter__: Any = Explodes.__iter__
    __bool__: Any = Explodes.__iter__


class Equal(type):
    """A type of types that equal each other, and have no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return True


class Alike(metaclass=Equal):
    """An object of such a type."""


class AlikeList(list[Any], metaclass=Equal):
    """A list of such a type."""


class FailingType(type):
    """A type of types of which nothing can be asked."""

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError("Zzsecret")


# In a list, because pytest looks for examples in whatever a module holds.
FAILING_TYPES: list[Any] = [FailingType("OfFailingType", (), {})]


def of_failing_type() -> Any:
    """An object of such a type, made without its type."""
    return object.__new__(FAILING_TYPES[0])


def _is_key(each: Any) -> bool:
    with contextlib.suppress(Exception):
        hash(each)
        return True
    return False


def gone() -> Any:
    """An object that stands for one that is no more."""
    return weakref.proxy(Explodes())


OBJECTS: list[Any] = [
    *TEXTS, *NUMBERS, 10**30, "\ud800", None, 1.0, 2.5, float("nan"), 2.0**60, True, b"a", b"\xff", NOON, NOON.date(),
    NOON.time(), decimal.Decimal("1.50"), uuid.UUID(int=5), (1, 2), ("a",), pd.NA, pd.NaT, Path("a"), int, object(),
    np.int64(3), np.uint64(2**63), np.float64(2.5), decimal.Decimal("0E-999999999"), FailingText("a"), FailingInteger(7), Proxy(),
    FailingTuple(("a", "b")), gone(), np.timedelta64(1, "s"), FailingNumPyInteger(7), FailingDigits("1"), NoUnicode(int=5),
    NoText(12), of_failing_type(),
]  # fmt: skip
HELD: list[Any] = [
    ["a", "b"], ["a", None, 3], [], ["a", "a"], {"a"}, frozenset("ab"), {"a": 2, "b": 1}, {"a": None, "b": "x"}, Deceives(a=2, b=1), Explodes(),
    np.array(["a", "b"]), np.array(3), [["a"], "b"], [{"a": 1}], [Explodes(), "a"], [b"\xff", 2**63],
    FailingList(["a"]), AlikeList("ab"), of_failing_type(), Alike(),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Rows of one shape, and how to read them; a layout of None is the plainest one.

    `usual` are valid rows; a single row is read beside them, because some doors refuse it alone.
    """

    row: Callable[[Rng], Any]
    read: Callable[[Rows, Rng | None, Path], Read]
    usual: Rows = ()
    # Whether rows are keys with values, so that each key may be in one row only.
    keys: bool = False
    # Whether the pairs of a row are right, if that can be known without reading it.
    right: Callable[[Any, Read], bool] = lambda row, read: True
    # What reads single rows, if not `read`; then two doors must read the same pairs.
    plain: Callable[[Rows, Rng | None, Path], Read] | None = None

    def alone(self, row: Any, folder: Path) -> Read:
        """The pairs of one row."""
        plain = self.plain or self.read
        both = plain([*self.usual, row], None, folder)
        both.subtract(plain(self.usual, None, folder) if self.usual else {})
        return +both


def check(made: Callable[[Rng], Case], seed: str, folder: Path, max_rows: int = 9) -> None:
    """Rows in a random layout become the same pairs as each row by itself."""
    rng = Rng(seed)
    case = made(rng)
    rows = [case.row(rng) for _ in range(rng.randint(1, max_rows))]
    if case.keys:
        rows = list({row[0]: row for row in rows}.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = case.read(case.usual, None, folder) if case.usual else Counter()
        for row in rows:
            alone = case.alone(row, folder)
            assert case.right(row, alone), (row, alone)
            expected.update(alone)
        actual = case.read([*case.usual, *rows], rng, folder)
    if isinstance(actual, Once):
        actual, expected = Counter(set(actual)), Counter(set(expected))
    assert actual == expected, (rows, "more", actual - expected, "less", expected - actual)


class Once(Read):
    """Pairs to compare without repeats, because clusters send each only once."""


def pairs_of(source: Source, *, repeats: bool = False) -> Read:
    """How often each pair occurs; if ids are drawn, only what each user holds."""
    read = _counted(source.pairs(KEY, with_repeats=repeats), repeats)
    return in_distribution(read) if source.user.columns == ONE_EACH else read


def _counted(pairs: Any, repeats: bool = False) -> Read:
    users, items = pairs.users.values.to_pylist(), pairs.items.values.to_pylist()
    found: Read = Counter()
    for block in pairs.blocks:
        times = block.repeats if repeats and block.repeats is not None else [1] * len(block.users)
        for user, item, number in zip(block.users, block.items, times, strict=True):
            # An integer and its digits are one id.
            found[str(users[user]), str(items[item]), int(number)] += 1
    return found


def in_distribution(read: Read) -> Read:
    """What each user holds, without the ids that were drawn."""
    held: dict[str, list[Any]] = {}
    for (user, *pair), number in sorted(read.items()):
        held.setdefault(user, []).append((*pair, number))
    return Counter(tuple(each) for each in held.values())


def random_parts(rows: Rows, rng: Rng | None) -> list[list[Any]]:
    """Rows in a random order, in one to three parts."""
    rows = list(rows)
    if rng is None:
        return [rows]
    rng.shuffle(rows)
    cuts = sorted(rng.choices(range(len(rows) + 1), k=rng.randint(0, 2)))
    return [rows[first:last] for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@contextlib.contextmanager
def small_blocks(rng: Rng | None) -> Iterator[None]:
    block = LONGEST if rng is None else rng.randint(1, LONGEST)
    limits: dict[str, Any] = {
        "BLOCK": block,
        "LONGEST_ROW": LONGEST,
        "LONGEST_ROW_OF_TEXTS": LONGEST,
    }
    rows = 1 << 20 if rng is None else rng.randint(1, 5)
    with mock.patch.multiple(delimited, **limits), mock.patch.object(reading, "ROWS_AT_ONCE", rows):
        yield


class PanicException(BaseException):
    """Named as the error that libraries in Rust raise."""


def fails_on_some(text: str) -> list[str]:
    """A tokenizer that fails on some texts."""
    if text == THREADS:
        raise RuntimeError(text)
    if "x" in text or "1" in text:
        raise PanicException(text) if "1" in text else ValueError(text)
    return text.split("a") if "\n" not in text else text  # type: ignore[return-value]


@cache
def tokenizer_file(folder: Path) -> str:
    """A tokenizer that pads and truncates, as those of language models do."""
    import tokenizers

    model = tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "words": 3}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding(pad_token="[PAD]")
    made.enable_truncation(1)
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def tokens(rng: Rng, folder: Path) -> dpsu.Tokens:
    made = [fails_on_some, "words", "lines", r"regex:\S+", tokenizer_file(folder.parent)]
    return dpsu.Tokens("item", rng.choice(made), ngrams=rng.choice([1, (1, 2)]))


# ---- files of lines ------------------------------------------------------------------------------


RAW = [
    b"a", b'a"b', b'"a""b"', b'"a"b"c', b'""a', b"\xff", b"\xffa", b"", b'"a"', b"#", b'"x\ny"', b'"\r"', b"\0",
]  # fmt: skip


def _csv_line(delimiter: str, rng: Rng) -> bytes:
    cells = rng.choices(RAW, k=rng.choice([0, 1, 2, 2, 2, 2, 2, 2, 3]))
    if rng.random() < 0.5:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, lineterminator="").writerow(rng.choices(TEXTS, k=2))
        cells = [out.getvalue().encode()]
    if rng.random() < 0.3:
        cells[:1] = [b"z" * rng.randint(1, 2 * LONGEST)]
    cells.append(rng.choice([b"1", b"1", b"2", b"1", b"x", b""]))
    # Behind a mark, a quote opens no cell, and a return behind it would end the row.
    mark = b"\xef\xbb\xbf" if b"\r" not in cells[0] and rng.random() < 0.2 else b""
    return mark + delimiter.encode().join(cells)


ODD_LINES = [
    b"", b" ", b"[1]", b"null", b"{", b'{"user"', b"{}", b"\xff", b"[" * 100, b'{"user": "a", "user": "b", "item": "a", "n": 1}',
    b'{"user":1,"item":"a","item":"b","n":1}', b'{"user": 01, "item": "a", "n": 1}', b'{"us\\u0065r":-0,"item":"a","n":1}',
    b'{"user": NaN, "item": Infinity, "n": 1}', b'{"user": 1e2, "item": 1.0, "n": 2}', b'{"user":1,"item":"a\tb","n":1}',
    b'{"user":1,"item":"a","n":1,"x":{"item":"b"}}', b'{"user":1,"item":"a","n":1,"x":nul}', b' {"user":1,"item":"a","n":1}',
    b'{"user":1,"item":"a","n":1}\r', b'{"user":12345678901234567890123,"item":"\xc3\xa9","n":1}',
    b'\xef\xbb\xbf{"user":1,"item":"a","n":1}', b'\xef\xbb\xbf\xef\xbb\xbf{"user":1,"item":"a","n":1}', b'\xff\xfe{"user":1,"item":"a","n":1}',
    b'{"user":1,"item":"a","n":1}{"user":1,"item":"b","n":1}', b'{"user":1,"item":"a","n":1,"x":"\xff"}',
]  # fmt: skip


def _json_line(rng: Rng) -> bytes:
    odd = [None, True, 0.5, 1.0, 1e300, [1], ["a", "b"], {"a": 1}, "\ud800", 10**2500]
    cells = [*TEXTS, *NUMBERS, *odd] if rng.random() < 0.5 else ["a", "b", 1, 2]
    row = {name: rng.choice(cells) for name in ("user", "item", "more") if rng.random() < 0.95}
    row["n"] = rng.choice([1, 2, "3", "3", rng.choice(odd)])
    if rng.random() < 0.3:
        row["more"] = "z" * rng.randint(1, 2 * LONGEST)
    line = json.dumps(row, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        return rng.choice(ODD_LINES)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(line))
        letter = rng.choice([b"", bytes([rng.choice([*b'{}":,\\ \r\t-01a', 0xC3, 0xFF, 0])])])
        line = line[:at] + letter + line[at + rng.randint(0, 1) :]
    return line


def _files(suffix: str, header: bytes, rows: Rows, rng: Rng | None, folder: Path) -> list[Any]:
    """Lines in files, some of which are compressed or given under several names."""
    inside = folder / f"files {len(list(folder.iterdir()))}"
    (inside / ".hidden").mkdir(parents=True)
    (inside / "more").mkdir()
    for number, part in enumerate(random_parts(rows, rng)):
        end, at_end, packed, mark = b"\n", b"\n", False, b""
        if rng is not None:
            end = rng.choice([b"\n", b"\r\n", b"\r"] if header else [b"\n", b"\r\n"])
            at_end, packed = rng.choice([end, b""]), rng.random() < 0.2
            mark = rng.choice([b"", b"", b"\xef\xbb\xbf"])
        # Without a header, an empty line, because rows that begin as other kinds of files do would
        # end the run.
        data = mark + header + (end if header else b"\n") + end.join(part) + at_end
        path = inside / (f"{number}.{suffix}" + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(data, 1) if packed else data)
        if rng is not None and rng.random() < 0.3:
            (inside / "more" / path.name).hardlink_to(path)
        if rng is not None and rng.random() < 0.3:
            (inside / ".hidden" / path.name).write_bytes(path.read_bytes())
    return [inside] if rng is None else [inside, f"{inside}/*.{suffix}*"][: rng.randint(1, 2)]


def _lines(suffix: str, rng: Rng) -> Case:
    delimiter = {"csv": ",", "tsv": "\t"}.get(suffix)
    names = rng.sample(["user", "item", "n"], k=3)
    header = b"" if delimiter is None else delimiter.join(names).encode()
    in_texts, type_, seed = rng.random() < 0.3, rng.choice([None, "integer"]), rng.random()
    user = dpsu.Users(ONE_EACH) if rng.random() < 0.2 else dpsu.Users("user", type_)

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        item: Any = tokens(Rng(str(seed)), folder) if in_texts else dpsu.Items("item", type_, "n")
        with small_blocks(layout):
            paths = _files(suffix, header, rows, layout, folder)
            return pairs_of(Source(paths, user, item), repeats=not in_texts)

    row = _json_line if delimiter is None else partial(_csv_line, delimiter)
    return Case(row, read)


# ---- Python objects ------------------------------------------------------------------------------


def _mapping(rng: Rng) -> Case:
    """Users and what they hold; ids may be names of columns."""
    in_texts, seed, names = (
        rng.random() < 0.3,
        rng.random(),
        rng.choice(["", "user", "item", "both"]),
    )

    def row(rng: Rng) -> Any:
        users = [each for each in [*OBJECTS, Alike()] if _is_key(each)]
        held = [*HELD, *TEXTS] if in_texts else [*HELD, None, "a", 3, b"a"]
        return rng.choice([rng.choice(users), rng.choice(users), "user", "item"]), rng.choice(held)

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        user = dpsu.Users("user") if names in ("user", "both") else dpsu.Users()
        item: Any = dpsu.Items("item") if names in ("item", "both") else dpsu.Items()
        if in_texts:
            # The column of texts is always named.
            item = tokens(Rng(str(seed)), folder)
        data: dict[Any, Any] = {}
        for part in random_parts(rows, layout):
            data.update(part)
        source = Source(data, user, item)
        if names == "both" or (in_texts and names == "user"):
            # Named columns make it a table, which lacks one of them.
            data.pop("user", None)
            with pytest.raises(MissingColumnError):
                pairs_of(source)
            return Counter()
        return pairs_of(source, repeats=not in_texts)

    return Case(row, read, [("usual", ["a"])], keys=True)


def _elements(rng: Rng) -> Case:
    """Tuples of users and items."""
    types = rng.choice([None, "integer"]), rng.choice([None, "integer"])
    parts = rng.choice([1, 1, 2])
    names = ["one", "two"][:parts] if parts > 1 else "user"

    def row(rng: Rng) -> Any:
        user, item = rng.choice(OBJECTS), rng.choice([*OBJECTS, *HELD])
        if parts > 1:
            user = tuple(rng.choices(OBJECTS, k=rng.choice([1, 2, 2, 2])))
            user = rng.choice([user, user, user, FailingTuple(user), gone()])
        return rng.choice(
            [(user, item)] * 9
            + [
                FailingTuple((user, item)),
                (user,),
                (user, item, 1),
                user,
                [user, item],
                None,
                {"user": "a"},
                Alike(),
                of_failing_type(),
            ]
        )

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        kinds: list[Any] = [list] if layout is None else [list, tuple, iter]
        data = (layout or rng).choice(kinds)(
            [each for part in random_parts(rows, layout) for each in part]
        )
        user = dpsu.Users(names, None if parts > 1 else types[0])
        return pairs_of(Source(data, user, dpsu.Items("item", types[1])))

    return Case(row, read, [(("usual", "usual") if parts > 1 else "7", "7")])


def _entries(rng: Rng) -> Case:
    """Entries without users, each of another person."""

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        data = [each for part in random_parts(rows, layout) for each in part]
        return pairs_of(Source(data, dpsu.Users(ONE_EACH), dpsu.Items()))

    return Case(lambda rng: rng.choice([*HELD, *HELD, None, "a", 3, ("a", "b")]), read, [["a"]])


def _objects(rng: Rng) -> Case:
    """A pandas frame whose cells are Python objects."""
    type_ = rng.choice([None, "integer"])
    as_text, times_as_text = rng.random() < 0.3, rng.random() < 0.3

    def row(rng: Rng) -> Any:
        if as_text:
            cells = ["1", "2", "a", "\ud800"]
            return rng.choice(cells), rng.choice([*cells, *TEXTS]), rng.choice(cells)
        return (
            rng.choice(OBJECTS),
            rng.choice([*OBJECTS, *HELD]),
            rng.choice(
                ["1", "x", "2"]
                if times_as_text
                else [
                    *(1, 3, -1, 0.5, None, "x", "2", True, gone(), np.timedelta64(2, "s")),
                    *(FailingDigits("2"), FailingNumPyInteger(2)),
                ]
            ),
        )

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        cells = [each for part in random_parts(rows, layout) for each in part]
        lazy = not as_text and layout is not None and layout.random() < 0.3
        columns: dict[str, Any] = {}
        for at, name in enumerate(("user", "item", "n")):
            column = np.empty(len(cells), object)
            for place, each in enumerate(cells):
                column[place] = each[at]
            kind: Any = pd.StringDtype("python") if as_text else object
            columns[name] = pd.Series(column, dtype=kind)
        data: Any = pd.DataFrame(columns)
        if times_as_text and not as_text:
            data["n"] = data["n"].astype("str")
        # Polars itself fails on some objects.
        failing = (weakref.ProxyType, *FAILING_TYPES)
        if lazy and not any(
            type(cell) is kind for each in cells for cell in each for kind in failing
        ):
            objects = [pl.Series(name, list(cells), pl.Object) for name, cells in columns.items()]
            data = pl.DataFrame(objects).lazy()
        source = Source(data, dpsu.Users("user", type_), dpsu.Items("item", repeats="n"))
        return pairs_of(source, repeats=True)

    return Case(row, read)


def _arrays(rng: Rng) -> Case:
    """Arrays of NumPy, some cells of which are masked, or have numbers that are no characters."""
    days = rng.random() < 0.5

    def row(rng: Rng) -> Any:
        day = np.datetime64(rng.choice(["2024-02-29", "0001-01-01", "-9999999-01-01"]))
        item = day if days else rng.choice(TEXTS)
        return rng.choice([None, *TEXTS]), item, rng.random() < 0.2

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        cells = [each for part in random_parts(rows, layout) for each in part]
        users = np.array([user or "" for user, *_ in cells], "U60")
        broken = [user is None for user, *_ in cells]
        users.view(np.uint32).reshape(len(cells), -1)[broken, 0] = 2**32 - 1
        items, masked = [item for _, item, _ in cells], [mask for *_, mask in cells]
        held = np.ma.array(np.array(items, "M8[D]" if days else "U60"), mask=masked)
        return pairs_of(
            Source({"user": users, "item": held}, dpsu.Users("user"), dpsu.Items("item"))
        )

    def right(row: Any, read: Read) -> bool:
        return not read if row[0] is None or row[2] else True

    return Case(row, read, right=right)


def _estimator(rng: Rng) -> Case:
    """Groups and texts of the estimator of scikit-learn."""
    import dpsu.sklearn

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        cells = [each for part in random_parts(rows, layout) for each in part]
        words = dpsu.sklearn.PrivateVocabulary(1, 1e-6)
        groups = [group for group, _ in cells]
        with (
            mock.patch.object(dpsu.sklearn, "release", side_effect=_given) as given,
            contextlib.suppress(_GivenError),
        ):
            words.fit([text for _, text in cells], groups=groups)
        (data,), options = given.call_args
        user = dpsu.Users(options["user"]) if isinstance(options["user"], str) else options["user"]
        return pairs_of(Source(data, user, options["item"]))

    return Case(lambda rng: (rng.choice(OBJECTS), rng.choice(TEXTS)), read)


class _GivenError(Exception):
    pass


def _given(*data: Any, **options: Any) -> Any:
    raise _GivenError


# ---- tables with types ---------------------------------------------------------------------------

# Type, cells, and the declared type of ids.
TYPES: dict[str, tuple[pa.DataType, list[Any], str | None]] = {
    "text": (pa.string(), TEXTS, None),
    "large text": (pa.large_string(), TEXTS, None),
    "categories": (pa.dictionary(pa.int32(), pa.string()), TEXTS, None),
    "integers in text": (pa.string(), [*TEXTS, *map(str, NUMBERS)], "integer"),
    "bytes in UTF-8": (pa.binary(), [b"a", b"\xff", b"", "\u00fc".encode(), "u\u0308".encode()], "text"),
    "bytes": (pa.binary(), [b"a", b"\xff", b"", b"\0"], None),
    "views of bytes": (pa.binary_view(), [b"a", b"\xff", b"", b"\0"], None),
    "views": (pa.string_view(), TEXTS, None),
    "integers": (pa.int64(), [each for each in NUMBERS if each < 2**63], None),
    "integers as text": (pa.int64(), [each for each in NUMBERS if each < 2**63], "text"),
    "short integers": (pa.int8(), [0, 1, -7, 127], None),
    "unsigned": (pa.uint64(), [each for each in NUMBERS if each >= 0], None),
    "whole floats": (pa.float64(), [0.5, float("nan"), float("inf"), *NUMBERS], "integer"),
    "booleans": (pa.bool_(), [True, False], None),
    "dates": (pa.date32(), [NOON.date(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], None),
    "timestamps": (pa.timestamp("us"), [NOON, datetime.datetime(1900, 1, 1), datetime.datetime(1970, 1, 1)], None),
    "instants": (pa.timestamp("us", "UTC"), [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 1, 1)], None),
    "times": (pa.time64("us"), [NOON.time(), datetime.time(0)], None),
    "decimals": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), decimal.Decimal("-3.00"), decimal.Decimal("0.00")], None),
    "lists": (pa.list_(pa.string()), [["a"], ["a", "b"], [], [None, "a"], ["a", "a"]], None),
    "structs": (
        pa.struct([("a", pa.string()), ("b", pa.int64())]),
        [{"a": "a", "b": 1}, {"a": None, "b": 2}, {"a": "\t", "b": 0}, {"a": "\u00fc", "b": 0}], None,
    ),
}  # fmt: skip
TYPES["structs of views"] = pa.struct([("a", pa.string_view())]), [{"a": "a"}, {"a": None}], None
VIEWS = ("views", "views of bytes", "structs of views")
WHOLE = ("integers", "integers as text", "short integers", "unsigned", "whole floats")


@dataclass(frozen=True)
class Shape:
    """The types of user and item columns, and the kind of items."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    kind: str
    seed: float

    @classmethod
    def drawn(cls, rng: Rng, lacking: Sequence[str], kinds: Sequence[str]) -> Shape:
        kind = rng.choice(kinds)
        had = [name for name in TYPES if name not in lacking]
        several = [name for name in had if TYPES[name][2] is None and name != "lists"]
        users = rng.choices(
            [name for name in had if name not in ("lists", "structs", "structs of views")]
        )
        users = {"keys": rng.choices(several, k=2), "rows": []}.get(kind, users)
        items = rng.choices(had) if kind in ("items", "rows") else ["text"]
        if kind in ("keys", "values"):
            items = rng.choices([name for name in several if not name.startswith("structs")], k=2)
        return cls(tuple(users), tuple(items), kind, rng.random())

    @property
    def names(self) -> list[str]:
        return [
            *(f"u{at}" for at in range(len(self.users))),
            *(f"i{at}" for at in range(len(self.items))),
        ]

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.users, *self.items)

    def row(self, rng: Rng) -> tuple[Any, ...]:
        return tuple(
            None if rng.random() < 0.1 else rng.choice(TYPES[name][1]) for name in self.types
        )

    def table(self, rows: Rows) -> pa.Table:
        def cell(name: str, value: Any) -> Any:
            return float(value) if name == "whole floats" and value is not None else value

        arrays = [
            pa.array([cell(name, row[at]) for row in rows], TYPES[name][0])
            for at, name in enumerate(self.types)
        ]
        return pa.table(arrays, names=self.names)

    def columns(self, folder: Path) -> dict[str, Any]:
        users, items = self.names[: len(self.users)], self.names[len(self.users) :]
        user = dpsu.Users(users or ONE_EACH, TYPES[self.users[0]][2] if len(users) == 1 else None)
        if self.kind == "texts":
            item: Any = tokens(Rng(str(self.seed)), folder)
            item = dpsu.Tokens("i0", item.tokenizer, item.ngrams)
        elif self.kind == "values":
            item = dpsu.Values(items[:1], levels=items)
        else:
            item = dpsu.Items(items, TYPES[self.items[0]][2] if len(items) == 1 else None)
        return {"user": user, "item": item}

    def right(self, row: tuple[Any, ...], read: Read) -> bool:
        """An integer is read as itself, or not at all if it was rounded; never as another one."""
        if self.kind != "items":
            return True
        known = [
            (at, cell)
            for at, cell in enumerate(row)
            if self.types[at] in WHOLE and isinstance(cell, int)
        ]
        lost = [
            cell for at, cell in known if self.types[at] == "whole floats" and abs(cell) >= 2**53
        ]
        if lost or None in row:
            return not read
        exact = all(pair[at] == str(cell) for pair in read for at, cell in known)
        return exact and (len(known) < 2 or bool(read))


def plainly(shape: Shape, rows: Rows, layout: Rng | None, folder: Path) -> Read:
    """Rows of an Arrow table, read on one machine."""
    return pairs_of(Source(shape.table(rows), **shape.columns(folder)))


Typed = Callable[[pa.Table, Rng, Path], Any]


def _typed(make: Typed, lacking: Sequence[str], kinds: Sequence[str], rng: Rng) -> Case:
    shape = Shape.drawn(rng, lacking, kinds)

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        assert layout is not None
        parts = [shape.table(part) for part in random_parts(rows, layout)]
        with small_blocks(layout):
            data = make(pa.concat_tables(parts), layout, folder)
            if not isinstance(data, ClusterData):
                return pairs_of(Source(data, **shape.columns(folder)))
            plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="bits", **shape.columns(folder))
            query = data.query(plan, KEY)
            made = query.engine.collect(query._rows_by_user()).to_batches()
            return Once(
                sum(
                    (_counted(pairs) for pairs in received_pairs(arrived(made)).values()), Counter()
                )
            )

    return Case(shape.row, read, (), False, shape.right, partial(plainly, shape))


def _parquet(table: pa.Table, rng: Rng, folder: Path) -> list[Path]:
    paths = [folder / f"{number}.parquet" for number in range(rng.randint(1, 3))]
    for number, path in enumerate(paths):
        part = table.take(pa.array(range(number, len(table), len(paths)), pa.int64()))
        pyarrow.parquet.write_table(part, path, row_group_size=rng.randint(1, 4))
    return paths


def _query(table: pa.Table, rng: Rng, folder: Path) -> dpsu.Query:
    file = folder / f"{len(list(folder.iterdir()))}.db"
    with duckdb.connect(file) as connection:
        connection.register("given", table)
        connection.execute("create table rows as select * from given")
    return dpsu.Query(f"duckdb:{file}", "select * from rows")


def _collated(rng: Rng) -> Case:
    """A column with a collation, which is refused with any texts in it."""

    def read(rows: Rows, layout: Rng | None, folder: Path) -> Read:
        query = _query(pa.table({"user": rows, "item": rows}), rng, folder)
        query = dpsu.Query(query.source, 'select "user", item collate nocase as item from rows')
        with pytest.raises(dpsu.DataError, match="collation"):
            pairs_of(Source(query, dpsu.Users(), dpsu.Items()))
        return Counter()

    return Case(lambda rng: rng.choice(["a", "A", *TEXTS]), read)


def _arrow_pandas(table: pa.Table, rng: Rng, folder: Path) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _dask(table: pa.Table, rng: Rng, folder: Path) -> ClusterData:
    import dask.dataframe

    from dpsu.engines.dask.query import DaskData

    made: Any = dask.dataframe.from_pandas
    return DaskData(made(_arrow_pandas(table, rng, folder), rng.randint(1, 3)), partitions=2)


def _twin(table: pa.Table, rng: Rng, folder: Path) -> ClusterData:
    return OneProcessData(table, partitions=2, rng=rng, tasks=rng.randint(1, 3))


def on_spark(spark: Any) -> Callable[[Rng], Case]:
    """Frames of a Spark session; Spark has fewer types."""
    from dpsu.engines.spark.query import SparkData

    def made(table: pa.Table, rng: Rng, folder: Path) -> ClusterData:
        return SparkData(spark.createDataFrame(table).repartition(rng.randint(1, 3)), partitions=2)

    return partial(
        _typed,
        made,
        ("unsigned", "times", "categories", "timestamps", *VIEWS),
        ("items", "keys", "texts"),
    )


SHAPES = ("items", "items", "keys", "values", "texts", "rows")
CLUSTER_SHAPES = ("items", "keys", "values", "texts")
DOORS: dict[str, Callable[[Rng], Case]] = {
    "csv": partial(_lines, "csv"),
    "tsv": partial(_lines, "tsv"),
    "jsonl": partial(_lines, "jsonl"),
    "mapping": _mapping,
    "tuples": _elements,
    "entries": _entries,
    "objects": _objects,
    "arrays": _arrays,
    "estimator": _estimator,
    "arrow": partial(_typed, lambda table, rng, folder: table, (), SHAPES),
    "parquet": partial(_typed, _parquet, VIEWS, SHAPES),
    "pandas": partial(_typed, _arrow_pandas, (), SHAPES),
    "polars": partial(_typed, lambda table, rng, folder: pl.from_arrow(table), (), SHAPES),
    "lazy": partial(_typed, lambda table, rng, folder: pl.from_arrow(table).lazy(), (), SHAPES),  # type: ignore[union-attr]
    "relation": partial(_typed, lambda table, rng, folder: duckdb.from_arrow(table), (), SHAPES),
    "query": partial(_typed, _query, (), SHAPES),
    "collated": _collated,
    "columns": partial(_typed, lambda table, rng, folder: dict(zip(table.column_names, table.columns, strict=True)), (), SHAPES),
    "twin": partial(_typed, _twin, (), CLUSTER_SHAPES),
    "dask": partial(_typed, _dask, VIEWS, CLUSTER_SHAPES),
}  # fmt: skip
