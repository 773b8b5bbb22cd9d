"""Cells of every type that can be a user or an item: what kind a type is, and one text per value.

A kind is what a type means, whatever its width, unit or physical form: dates are dates in 32 and in
64 bits. Within a kind every value has exactly one text, and a text stands for one value, so that
cells are equal exactly if their texts are. Python has no dates beyond the years 1 to 9999, so that
cells there have no text, and neither has a time of more than a day.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.ids import (
    INTEGERS,
    NOTHING,
    TEXT,
    integers,
    is_text,
    is_unsigned,
    numbers,
    text_buffers,
)

BOOLEANS, DATES, TIMES = "booleans", "dates", "times"
LOCAL, INSTANTS = "timestamps without a time zone", "timestamps with a time zone"
DECIMALS, UUIDS, BYTES = "decimals", "UUIDs", "bytes"

UNITS = ("s", "ms", "us", "ns")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_OF_DAY = 86_400
MS_OF_DAY = 1000 * SECONDS_OF_DAY
# Days and seconds since 1970 of the first day of the year 1 and of the year 10000.
FIRST_DAY, END_DAY = -719_162, 2_932_897
MOST_DIGITS, MOST_DIGITS_OF_ALL = 38, 76
DIGITS_OF_64_BITS = 20
HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)


def kind_of(type_: pa.DataType) -> str | None:
    """What cells of an Arrow type are; None if they can be no users and items."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if isinstance(type_, pa.UuidType):
        return UUIDS
    if pa.types.is_timestamp(type_):
        return LOCAL if type_.tz is None else INSTANTS
    if pa.types.is_decimal(type_) and type_.precision - type_.scale > MOST_DIGITS_OF_ALL:
        return None
    tests = (
        (pa.types.is_null, NOTHING), (is_text, TEXT), (pa.types.is_integer, INTEGERS),
        (pa.types.is_boolean, BOOLEANS), (pa.types.is_date, DATES), (pa.types.is_time, TIMES),
        (pa.types.is_decimal, DECIMALS), (is_binary, BYTES),
    )  # fmt: skip
    return next((kind for test, kind in tests if test(type_)), None)


def is_binary(type_: pa.DataType) -> bool:
    """Whether this is one of the types of bytes."""
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def result_type(type_: pa.DataType) -> pa.DataType:
    """The type in which cells of this type are released."""
    if pa.types.is_dictionary(type_):
        return result_type(type_.value_type)
    kind = kind_of(type_)
    if kind == DATES:
        return pa.date32()
    if kind == BYTES and pa.types.is_binary_view(type_):
        return pa.large_binary()
    if kind == DECIMALS:
        return _decimal(type_.precision - min(type_.scale, 0), max(type_.scale, 0))
    if kind == INTEGERS:
        return pa.uint64() if is_unsigned(type_) else pa.int64()
    return pa.large_string() if kind == TEXT else type_


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type of results for what two files have in two types of one kind, in whichever order."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_timestamp(one):
        return pa.timestamp(_finer(one, other), one.tz if one.tz == other.tz else "UTC")
    if pa.types.is_time(one):
        unit = _finer(one, other)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if pa.types.is_decimal(one):
        scale = max(one.scale, other.scale)
        digits = scale + max(each.precision - each.scale for each in (one, other))
        # Arrow has no larger decimals: if what is released does not fit, it is released as text.
        return _decimal(min(digits, MOST_DIGITS_OF_ALL), scale)
    # Decimals have room for both signed and unsigned integers.
    return _decimal(DIGITS_OF_64_BITS, 0) if pa.types.is_integer(one) else pa.large_binary()


def spell(values: pa.Array) -> pa.Array:
    """The text of each cell; null where it is missing or has none.

    Cells are not dictionary-encoded, and of a kind other than text.
    """
    made = {
        UUIDS: _hex_of_uuids, DATES: _spelled_dates, TIMES: _spelled_times, BYTES: _hex,
        LOCAL: _spelled_timestamps, INSTANTS: _spelled_timestamps, DECIMALS: _spelled_decimals,
    }.get(str(kind_of(values.type)))  # fmt: skip
    return values.cast(pa.large_string()) if made is None else made(values)


def text_of(value: object) -> str | None:
    """The text of one Python object, as `spell` has it; None if it has none, as floats have not."""
    for kind, made in TEXTS_OF.items():
        if isinstance(value, kind):
            # Subclasses may fail in any way, and return what is no Unicode, or no text at all; one
            # user's object must not stop the run.
            with contextlib.suppress(Exception):
                text = made(value)
                return None if text is None else str.encode(text).decode()
            return None
    return None


def _fraction(digits: str) -> str:
    return digits.rstrip("0").rstrip(".")


def _text_of_datetime(value: datetime.datetime) -> str | None:
    zoned = value.utcoffset() is not None
    try:
        plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else value
    except (OverflowError, ValueError):
        return None
    # Timestamps of pandas have nanoseconds, too.
    fraction = f".{plain.microsecond:06}{getattr(plain, 'nanosecond', 0):03}"
    return f"{plain:%Y-%m-%dT%H:%M:%S}".zfill(19) + _fraction(fraction) + ("Z" if zoned else "")


def _text_of_decimal(value: decimal.Decimal) -> str | None:
    exponent = value.as_tuple().exponent
    # NaN and infinity have no number there. Zero has any exponent.
    if not isinstance(exponent, int):
        return None
    if not value:
        return "0"
    if not -MOST_DIGITS_OF_ALL <= exponent <= value.adjusted() < MOST_DIGITS_OF_ALL:
        return None
    text = f"{value:f}"
    return _fraction(text) if "." in text else text


def _text_of_boolean(value: object) -> str:
    return "true" if value else "false"


def _text_of_time(value: datetime.time) -> str | None:
    whole = value.replace(microsecond=0, tzinfo=None).isoformat()
    return None if value.tzinfo is not None else whole + _fraction(f".{value.microsecond:06}")


# The first that fits: timestamps are dates to Python.
TEXTS_OF: dict[type, Callable[[Any], str | None]] = {
    bool: _text_of_boolean,
    np.bool_: _text_of_boolean,
    datetime.datetime: _text_of_datetime,
    datetime.date: datetime.date.isoformat,
    datetime.time: _text_of_time,
    decimal.Decimal: _text_of_decimal,
    uuid.UUID: str,
    bytes: bytes.hex,
}


def parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Values of this type from their texts; raises an Arrow error for texts that `spell` no value.

    Timestamps of a fine unit do not reach far: years that need a coarser one get it.
    """
    made = {
        UUIDS: _parsed_uuids, BOOLEANS: _parsed_booleans, TIMES: _parsed_times, BYTES: _bytes_of,
        LOCAL: _parsed_timestamps, INSTANTS: _parsed_timestamps,
    }.get(str(kind_of(type_)))  # fmt: skip
    return texts.cast(type_) if made is None else made(texts, type_)


def _finer(one: pa.DataType, other: pa.DataType) -> str:
    units: tuple[str, str] = (one.unit, other.unit)
    return max(units, key=UNITS.index)


def _decimal(digits: int, scale: int) -> pa.DataType:
    made = pa.decimal128 if digits <= MOST_DIGITS else pa.decimal256
    return made(digits, scale)


def _between(values: pa.Array, counted: pa.Array, first: int, end: int) -> pa.Array:
    """The values whose number is at least `first` and below `end`, the others null."""
    inside = pc.and_(pc.greater_equal(counted, first), pc.less(counted, end))
    return pc.if_else(inside, values, pa.scalar(None, values.type))


def _without_zeros(texts: pa.Array, fractions: bool) -> pa.Array:
    """Texts without zeros at the end of their fractions, which all of them or none have."""
    if not fractions:
        return texts
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, characters="0"), characters=".")


def _spelled_dates(values: pa.Array) -> pa.Array:
    if values.type == pa.date64():
        # Bounded in 64 bits, and counted down to whole days, before Arrow has 32 bits for them.
        counted = values.view(pa.int64())
        values = _between(values, counted, FIRST_DAY * MS_OF_DAY, END_DAY * MS_OF_DAY)
        down = pc.floor(pc.divide(values.view(pa.int64()).cast(pa.float64()), float(MS_OF_DAY)))
        values = down.cast(pa.int32()).view(pa.date32())
    return _between(values, values.view(pa.int32()), FIRST_DAY, END_DAY).cast(pa.large_string())


def _spelled_times(values: pa.Array) -> pa.Array:
    unit = values.type.unit
    counted = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    inside = _between(values, counted, 0, SECONDS_OF_DAY * PER_SECOND[unit])
    return _without_zeros(inside.cast(pa.large_string()), unit != "s")


def _spelled_timestamps(values: pa.Array) -> pa.Array:
    """ISO 8601 without zeros at the end; with a zone, the instant in UTC."""
    unit, zoned = values.type.unit, values.type.tz is not None
    # Arrow counts from 1970 in UTC, whatever zone a column is shown in.
    plain = values.view(pa.int64()).view(pa.timestamp(unit))
    if unit != "ns":
        per_day = SECONDS_OF_DAY * PER_SECOND[unit]
        bounds = FIRST_DAY * per_day, END_DAY * per_day
        plain = _between(plain, plain.view(pa.int64()), *bounds)
    texts = pc.strftime(plain, format="%Y-%m-%dT%H:%M:%S").cast(pa.large_string())
    texts = _without_zeros(texts, unit != "s")
    if not zoned:
        return texts
    end = pa.scalar("Z", texts.type)
    return pc.binary_join_element_wise(texts, end, pa.scalar("", texts.type))


def _parsed_timestamps(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Timestamps in their unit, or in the next coarser one if that has room for all of them."""
    plain = texts if type_.tz is None else pc.replace_substring_regex(texts, "Z$", "")
    seconds = numbers(pc.utf8_slice_codeunits(plain, 0, 19).cast(pa.timestamp("s")), np.int64)
    digits = pc.ascii_rpad(pc.utf8_slice_codeunits(plain, 20), width=9, padding="0")
    parts = numbers(digits.cast(pa.int64()), np.int64)
    for unit in reversed(UNITS[: UNITS.index(type_.unit) + 1]):
        if unit == "ns" and not _fits_nanoseconds(seconds, parts):
            continue
        coarse = 10**9 // PER_SECOND[unit]
        if (parts % coarse).any():
            break
        # Nanoseconds of the first second overflow twice, and come out right.
        counted = seconds * np.int64(PER_SECOND[unit]) + parts // coarse
        return integers(counted).view(pa.timestamp(unit, type_.tz))
    raise pa.ArrowInvalid("no unit has room for all timestamps")


def _fits_nanoseconds(seconds: NDArray[np.int64], parts: NDArray[np.int64]) -> bool:
    """Whether 64 bits have room for all of these, counted in nanoseconds."""
    first, least = divmod(-(2**63), 10**9)
    last, most = divmod(2**63 - 1, 10**9)
    after = (seconds > first) | ((seconds == first) & (parts >= least))
    before = (seconds < last) | ((seconds == last) & (parts <= most))
    return bool((after & before).all())


def _spelled_decimals(values: pa.Array) -> pa.Array:
    """Digits without a point where there is none, without zeros at the end and exponents."""
    type_ = values.type
    if type_.bit_width < 128:
        values = values.cast(pa.decimal128(type_.precision, type_.scale))
    scale, most = type_.scale, MOST_DIGITS if type_.bit_width <= 128 else MOST_DIGITS_OF_ALL
    # The same bytes without a point: Arrow would write small numbers with exponents.
    whole = pa.Array.from_buffers(
        _decimal(most, 0), len(values), values.buffers(), offset=values.offset
    ).cast(pa.large_string())
    if scale <= 0:
        zeros = pa.scalar("0" * -scale, whole.type)
        longer = pc.binary_join_element_wise(whole, zeros, pa.scalar("", whole.type))
        return pc.if_else(pc.equal(whole, pa.scalar("0", whole.type)), whole, longer)
    negative = pc.starts_with(whole, "-")
    digits = pc.ascii_lpad(pc.ascii_ltrim(whole, characters="-"), width=scale + 1, padding="0")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    after = pc.utf8_slice_codeunits(digits, -scale)
    texts = pc.binary_join_element_wise(before, after, pa.scalar(".", whole.type))
    sign = pc.if_else(negative, pa.scalar("-", whole.type), pa.scalar("", whole.type))
    joined = pc.binary_join_element_wise(sign, texts, pa.scalar("", whole.type))
    return _without_zeros(joined, fractions=True)


def _parsed_booleans(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    return pc.equal(texts, pa.scalar("true", texts.type))


def _parsed_times(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    began = pa.scalar("1970-01-01T", texts.type)
    whole = pc.binary_join_element_wise(began, texts, pa.scalar("", texts.type))
    return whole.cast(pa.timestamp(type_.unit)).cast(type_)


def _parsed_uuids(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    digits = pc.replace_substring(texts, "-", "")
    return pa.ExtensionArray.from_storage(type_, _bytes_of(digits, pa.binary(16)))


def _hex(values: pa.Array) -> pa.Array:
    """Hexadecimal digits of bytes, two for each."""
    data, offsets = text_buffers(values.cast(pa.large_binary()))
    digits = HEX.reshape(256, 2)[data[offsets[0] : offsets[-1]]].ravel()
    places = (offsets - offsets[0]) * 2
    return _text_of(digits, places, values)


def _hex_of_uuids(values: pa.Array) -> pa.Array:
    """UUIDs in the usual form, in groups of 8, 4, 4, 4 and 12 digits."""
    from dpsu.kernels.text_bytes import write_uuids

    texts = np.empty(36 * len(values), np.uint8)
    # Cells that are missing have any bytes.
    filled = values.storage.cast(pa.large_binary()).fill_null(b"\0" * 16)
    data, offsets = text_buffers(filled)
    write_uuids(data[offsets[0] : offsets[-1]], HEX, texts)
    return _text_of(texts, np.arange(len(values) + 1, dtype=np.int64) * 36, values)


def _text_of(data: NDArray[np.uint8], offsets: NDArray[np.int64], like: pa.Array) -> pa.Array:
    """Text of these bytes, null where another array is."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    made = pa.Array.from_buffers(pa.large_string(), len(like), buffers)
    if not like.null_count:
        return made
    return pc.if_else(like.is_valid(), made, pa.scalar(None, made.type))


def _bytes_of(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Bytes from their hexadecimal digits; others are refused."""
    digits = pc.match_substring_regex(texts, "^([0-9a-f]{2})*$")
    if not pc.all(digits).as_py() and len(texts):
        raise pa.ArrowInvalid("not hexadecimal")
    data, offsets = text_buffers(texts)
    found = data[offsets[0] : offsets[-1]]
    halves = np.where(found >= ord("a"), found - (ord("a") - 10), found - ord("0")).astype(np.uint8)
    whole = (halves[0::2] << 4) | halves[1::2]
    places = (offsets - offsets[0]) // 2
    buffers = [None, pa.py_buffer(places.astype(np.int64)), pa.py_buffer(whole)]
    made = pa.Array.from_buffers(pa.large_binary(), len(texts), buffers)
    return made.cast(type_)
