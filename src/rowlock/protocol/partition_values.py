"""Partition values: conversion between the log's text and typed values.

The empty string is null.  Timestamps are read as Spark casts texts; one without a time zone is in the
session's time zone, which the caller passes.  Timestamps are written as ISO-8601 in UTC.  Every write
path of Rowlock uses `serialize`, so that one value has one spelling and makes one partition.  Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol.schema import INTEGER_BITS, DataType, DecimalType, PrimitiveType, type_name
from rowlock.time_zones import zone_of

_TIMESTAMP = re.compile(
    r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?: *([A-Za-z+-].*))?)?)?)?)?)?", re.ASCII
)
"""What Spark casts to a time: the end may be left out from anywhere, a zone may follow seconds alone.  Years of dates have up to 7 digits."""
_TIME_OF_TODAY = re.compile(r"T?\d{1,2}:\d{1,2}.*", re.ASCII)
_TRIMMED = "".join(map(chr, (*range(0x21), *range(0x7F, 0xA0))))
"""Spaces and control characters, which Spark takes off at both ends."""
_NUMBERS = tuple(map(PrimitiveType, (*INTEGER_BITS, "float", "double")))
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY_MICROS = 86_400_000_000


def parse(value: str | None, type_: DataType) -> Any:
    """The Python value of a partition value in the log; None for null.

    Returns int, float, bool, str, bytes, Decimal, date, an aware datetime in UTC for `timestamp` (also where the text states no zone), or a
    naive one for `timestamp_ntz`.  Raises CorruptLog if the text is not a value of the type.
    """
    if value is None or value == "":
        return None
    try:
        if "_" in value and (isinstance(type_, DecimalType) or type_ in _NUMBERS):  # which Python lets stand between digits
            raise ValueError("not a number")
        if isinstance(type_, DecimalType):
            found = decimal.Decimal(value)
            if found.is_finite() and -found.as_tuple().exponent > type_.scale:  # type: ignore[operator]  # finite: it is a number
                found = found.quantize(decimal.Decimal(1).scaleb(-type_.scale), decimal.ROUND_HALF_UP, decimal.Context(prec=60))  # as Spark's cast reads it
            if not found.is_finite() or (found and found.adjusted() >= type_.precision - type_.scale):
                raise ValueError("out of range")
            return found
        if isinstance(type_, PrimitiveType):
            return _parse_primitive(value, type_.name)
    except (ValueError, ArithmeticError, OverflowError) as e:
        raise _not_a_value(value, type_) from e
    raise CorruptLog(f"a partition column cannot have the type {type_name(type_)}")


def _not_a_value(value: str, type_: DataType) -> CorruptLog:
    return CorruptLog(f"the log's partition value {value!r} is not a value of type {type_name(type_)}")


def _parse_primitive(value: str, name: str) -> Any:
    if name == "string":
        return value
    if name in INTEGER_BITS:
        number = int(value)
        if not -(1 << (INTEGER_BITS[name] - 1)) <= number < 1 << (INTEGER_BITS[name] - 1):
            raise ValueError("out of range")
        return number
    if name in ("float", "double"):
        return float(value)
    if name == "boolean":
        if value.lower() not in ("true", "false"):
            raise ValueError("not a boolean")
        return value.lower() == "true"
    if name == "binary":
        return value.encode("utf-8")
    if name == "date":
        return (_EPOCH + dt.timedelta(days=_units_since_1970(value, name))).date()
    found = _EPOCH + _units_since_1970(value, name, "UTC") * _MICROSECOND
    return found.replace(tzinfo=dt.UTC) if name == "timestamp" else found


def parse_stored(value: str | None, type_: DataType, timezone: str | None = None) -> Any:
    """Like `parse`, but with times as microseconds and dates as days since 1970, as Arrow stores them, so that every year is in range.

    Raises CorruptLog if the text is not a value of the type, and for a `timestamp` without a time zone where no `timezone` is given.
    """
    if not (value and isinstance(type_, PrimitiveType) and type_.name in TIMES):
        return parse(value, type_)
    try:
        return _units_since_1970(value, type_.name, timezone)
    except (ValueError, OverflowError) as e:
        raise _not_a_value(value, type_) from e


TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})


def _units_since_1970(value: str, name: str, timezone: str | None = None) -> int:
    """The days (of a date) or microseconds (of a timestamp) since 1970; raises ValueError."""
    local, zone = _local_time_and_zone(value)
    if name == "timestamp" and zone is None:
        if timezone is None:
            raise ValueError("no time zone")
        zone = zone_of(timezone)
    count, bits = (local // _DAY_MICROS, 31) if name == "date" else (local - _offset_at(local, zone) if name == "timestamp" and zone is not None else local, 63)
    if not -(1 << bits) <= count < 1 << bits:
        raise ValueError("out of range")
    return count


_CYCLE_MICROS = 146_097 * _DAY_MICROS
"""Four hundred years, after which days and the rules of zones repeat."""
_YEAR_2_MICROS, _YEAR_9000_MICROS = ((dt.datetime(year, 1, 1) - _EPOCH) // _MICROSECOND for year in (2, 9000))


def _offset_at(local: int, zone: dt.tzinfo) -> int:
    """The offset of a zone from UTC, in microseconds, at a local time; where clocks were set that of before, as Java has it."""
    if local >= _YEAR_9000_MICROS:
        local = _YEAR_9000_MICROS - _CYCLE_MICROS + (local - _YEAR_9000_MICROS) % _CYCLE_MICROS
    offset = (_EPOCH + max(local, _YEAR_2_MICROS) * _MICROSECOND).replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def states_zone(value: str) -> bool | None:
    """Whether the text of a timestamp contains its time zone; None where Spark alone knows what instant it means (a time of today, or a zone of a short name)."""
    match = _TIMESTAMP.fullmatch(value.strip(_TRIMMED))
    if match is None:
        return None if _TIME_OF_TODAY.fullmatch(value.strip(_TRIMMED)) else False
    if match[8] is None:
        return False
    try:
        zone_of(match[8])
    except ValueError:
        return None if match[8] in _SHORT_NAMES else False
    return True


_SHORT_NAMES = frozenset({
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "IET",
    "IST", "JST", "MIT", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST",
})  # fmt: skip
"""Java's short names, which Spark reads as regions."""


def _local_time_and_zone(value: str) -> tuple[int, dt.tzinfo | None]:
    """(local time in microseconds since 1970, the zone or None if the text has none).  Raises ValueError for what Spark does not cast to a time."""
    match = _TIMESTAMP.fullmatch(value.strip(_TRIMMED))
    if match is None:
        raise ValueError("not a timestamp")
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    hour, minute, second = (int(match[i] or 0) for i in range(4, 7))
    time = dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int((match[7] or "0").ljust(6, "0")[:6]))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("not a time of day")
    days = int(np.datetime64(f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}", "D").astype(np.int64))
    return days * _DAY_MICROS + time // _MICROSECOND, None if match[8] is None else zone_of(match[8])


def one_spelling(text: str | None, type_: DataType | None) -> str | None:
    """A value as `serialize` spells it; as it is for no type, and where it is none of its type or a time that means another instant in every zone."""
    try:
        return text if text is None or type_ is None else serialize(parse_stored(text, type_), type_)
    except (CorruptLog, InvalidInput):
        return text


def serialize(value: Any, type_: DataType) -> str | None:
    """The log's text of a typed value (as `parse` or `parse_stored` returns it); None for null and for the empty string.

    A `timestamp` may be aware, or naive in UTC, and is written as ISO-8601 in UTC; years beyond 9999 get a sign, as Spark expects.
    """
    if value is None:
        return None
    if isinstance(type_, DecimalType):
        return format(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-type_.scale), context=decimal.Context(prec=60)), "f")
    if not isinstance(type_, PrimitiveType):
        raise InvalidInput(f"a partition column cannot have the type {type_name(type_)}")
    return _serialize_primitive(value, type_.name) or None


def not_utf8(value: bytes, type_: DataType) -> InvalidInput:
    """The error for a partition value that is not valid UTF-8: the log is JSON and holds partition values as text."""
    problem = f"a {type_name(type_)} partition value must be UTF-8, and {value!r} is not"
    return InvalidInput(f"{problem}: store it in a column that the table is not partitioned by, or as its hex()")


def _serialize_primitive(value: Any, name: str) -> str:
    if name in INTEGER_BITS:
        return str(int(value))
    if name in ("float", "double"):
        return _float_text(float(value), single=name == "float")
    if name == "boolean":
        return "true" if value else "false"
    if name == "binary":
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError as e:
            raise not_utf8(bytes(value), PrimitiveType(name)) from e
    if name == "string" and isinstance(value, bytes):
        raise not_utf8(value, PrimitiveType(name))
    if name in TIMES:
        return _time_text(value if isinstance(value, int) else since_1970(value), name)
    return str(value)


def since_1970(value: dt.date) -> int:
    """The days (of a date) or microseconds (of a datetime, without a zone in UTC) since 1970."""
    if not isinstance(value, dt.datetime):
        return value.toordinal() - _EPOCH.toordinal()
    return ((value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value) - _EPOCH) // _MICROSECOND


def _time_text(count: int, name: str) -> str:
    days, micros = (count, 0) if name == "date" else divmod(count, _DAY_MICROS)
    year, month, day_of_month = str(np.datetime64(days, "D")).rsplit("-", 2)
    number = int(year)
    day = f"{'-' if number < 0 else '+' if number > 9999 else ''}{abs(number):04}-{month}-{day_of_month}"
    if name == "date":
        return day
    clock = (_EPOCH + micros * _MICROSECOND).time().isoformat(timespec="microseconds")
    return f"{day}T{clock}Z" if name == "timestamp" else f"{day} {clock}"


def _float_text(value: float, *, single: bool) -> str:
    """The shortest digits that identify the number, in Java's and Spark's notation, such as 1.0E-5."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = decimal.Decimal(str(np.float32(value)) if single else repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1 if text != "0" else 0
    minus = "-" if sign else ""
    if not -3 <= power < 7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{power}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    return f"{minus}{text[: power + 1].ljust(power + 1, '0')}.{text[power + 1 :] or '0'}"
