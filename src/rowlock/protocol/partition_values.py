"""Partition values: the log's text to a typed value and back.

Null and the empty string are both null.  Timestamps are read in both of the log's forms; the one
without a zone means the writer's session zone, which the caller gives.  Written are ISO-8601 ones in UTC.  Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol.schema import DataType, DecimalType, PrimitiveType, type_name

_TIMESTAMP = re.compile(r"^(-?\d{4,6})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$")
_INTEGER_BITS = {"long": 63, "integer": 31, "short": 15, "byte": 7}


def parse(value: str | None, type_: DataType, timezone: str = "UTC") -> Any:
    """The Python value of a partition value; None for null.

    Gives int, float, bool, str, bytes, Decimal, date, an aware datetime in UTC for `timestamp`, a naive one for `timestamp_ntz`.
    Raises CorruptLog where the text is no value of the type.
    """
    if value is None or value == "":
        return None
    try:
        if isinstance(type_, DecimalType):
            return decimal.Decimal(value)
        if isinstance(type_, PrimitiveType):
            return _parse_primitive(value, type_.name, timezone)
    except (ValueError, ArithmeticError, OverflowError) as e:
        raise CorruptLog(f"partition value {value!r} is no {type_name(type_)}") from e
    raise CorruptLog(f"a partition column cannot have the type {type_name(type_)}")


def _parse_primitive(value: str, name: str, timezone: str) -> Any:
    if name == "string":
        return value
    if name in _INTEGER_BITS:
        number = int(value)
        if not -(1 << _INTEGER_BITS[name]) <= number < 1 << _INTEGER_BITS[name]:
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
        return _parse_timestamp(value, None).date()
    return _parse_timestamp(value, ZoneInfo(timezone) if name == "timestamp" else None)


def _parse_timestamp(value: str, zone: ZoneInfo | None) -> dt.datetime:
    match = _TIMESTAMP.match(value.strip())
    if match is None:
        raise ValueError("not a timestamp")
    year, month, day, hour, minute, second = (int(match[i] or 0) for i in range(1, 7))
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    naive = dt.datetime(year, month, day, hour, minute, second, micros)
    if zone is None:
        return naive
    if offset := match[8]:
        shift = dt.timedelta() if offset == "Z" else dt.timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:])) * (-1 if offset[0] == "-" else 1)
        return (naive - shift).replace(tzinfo=dt.UTC)
    return naive.replace(tzinfo=zone).astimezone(dt.UTC)


def serialize(value: Any, type_: DataType) -> str | None:
    """The log's text of a typed value (as `parse` gives it); None for null and for the empty string.

    A `timestamp` may be aware or naive in UTC and is written as ISO-8601 in UTC.
    """
    if value is None:
        return None
    if isinstance(type_, DecimalType):
        return format(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-type_.scale), context=decimal.Context(prec=60)), "f")
    if not isinstance(type_, PrimitiveType):
        raise InvalidInput(f"a partition column cannot have the type {type_name(type_)}")
    return _serialize_primitive(value, type_.name) or None


def _serialize_primitive(value: Any, name: str) -> str:
    if name in _INTEGER_BITS:
        return str(int(value))
    if name in ("float", "double"):
        return _float_text(float(value), single=name == "float")
    if name == "boolean":
        return "true" if value else "false"
    if name == "binary":
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError as e:
            raise InvalidInput("a binary partition value must be UTF-8") from e
    if name == "date":
        return value.strftime("%Y-%m-%d").rjust(10, "0") if isinstance(value, dt.date) else str(value)
    if name == "timestamp":
        at = value.astimezone(dt.UTC) if value.tzinfo else value
        return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if name == "timestamp_ntz":
        return str(value.isoformat(sep=" ", timespec="microseconds"))
    return str(value)


def _float_text(value: float, *, single: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(np.float32(value)) if single else repr(value)
