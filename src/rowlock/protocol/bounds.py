"""Bounds of one column in one file, from its partition value or its statistics.

All pitfalls of statistics are handled here and nowhere else: truncated strings, timestamps truncated to
milliseconds, NaN, missing values, and wide bounds and null counts of files with a deletion vector (I3).  Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rowlock.exceptions import CorruptLog
from rowlock.protocol import partition_values as partition_text
from rowlock.protocol.schema import INTEGER_BITS, TYPE_CHANGES, ColumnPath, DataType, DecimalType, PrimitiveType, StructType

_ZONE = re.compile(r"(?:Z|([+-]\d{2}:?\d{2})(:?\d{2})?)$")
_TRUNCATED_OFFSET = dt.timedelta(minutes=1)
_WHOLE_MINUTE_OFFSETS_SINCE = 1973
"""From this year on every time zone's offset is whole minutes; before it, a writer may have dropped the offset's seconds."""
_MILLISECOND = dt.timedelta(milliseconds=1)
_FLOATS = frozenset({"float", "double"})
_EXACT_EVERYWHERE = 1 << 22
"""Whole numbers up to this one are exact in every numeric type."""
_EXACT_DOUBLE = 1 << 53
"""Whole numbers below this one are exact in a double: no other whole number is rounded to the same double."""
_LOWEST_LONG, _HIGHEST_LONG = -(1 << 63), (1 << 63) - 1


REPLACEMENT_CHARACTER = "\ufffd"
"""What other writers put in place of bytes that are not valid UTF-8."""
TRUNCATION_MARKS = "\uffff\x7f\U0010ffff"
"""Characters that writers append to a truncated maximum, so that it bounds the original string."""
ABOVE_ALL_STRINGS = "\U0010ffff" * 4
"""Appended to a string, this makes it greater than every string that begins with it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column's values in one file.

    low, high        bound every non-null value; None if that side is unknown
    may_be_null      whether some value may be null
    may_be_non_null  whether some value may be other than null
    may_be_nan       NaN, which Spark orders above every number, may occur beyond `high`
    """

    type: DataType
    low: Any
    high: Any
    may_be_null: bool
    may_be_non_null: bool
    may_be_nan: bool = False


def comparable(value: Any, type_: DataType) -> Any:
    """The value in the form in which `Bounds` of this type are compared; None if no safe comparison exists.

    Spark widens both sides of a comparison, sometimes through a float.  Values that such widening could make
    equal to an unequal one give None, so that no file is skipped for them.
    """
    if isinstance(type_, DecimalType):
        return _for_decimal(value, type_)
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name in INTEGER_BITS or name in _FLOATS:
        return _for_number(value, is_float=name in _FLOATS)
    if name == "boolean":
        return value if isinstance(value, bool) else None
    if name == "string":
        return value if isinstance(value, str) else None
    if name == "binary":
        return bytes(value) if isinstance(value, (bytes, bytearray)) else None
    if name == "date":
        return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None
    if name in ("timestamp", "timestamp_ntz") and isinstance(value, dt.datetime):
        if name == "timestamp":
            return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else None
        return None if value.tzinfo else value
    return None


def _for_decimal(value: Any, type_: DecimalType) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        return None
    number = decimal.Decimal(value)
    if not number.is_finite():
        return None
    scale = max(0, -int(number.as_tuple().exponent))
    whole = max(type_.precision - type_.scale, number.adjusted() + 1)
    return number if whole + max(scale, type_.scale) <= 38 else None


def _for_number(value: Any, *, is_float: bool) -> Any:
    """A number as int or Decimal, so that a long is never compared as a float; None if it cannot be compared safely."""
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return None
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return None
        return decimal.Decimal(float(value)) if is_float else value
    if isinstance(value, float):
        if not math.isfinite(value) or (not is_float and abs(value) > _EXACT_EVERYWHERE):
            return None
        return decimal.Decimal(value)
    return None if is_float and abs(value) > _EXACT_EVERYWHERE else value


def bounds_in_files(column: ColumnPath, values: Sequence[Mapping[str, Any]], stats: Sequence[Mapping[str, Any]], schema: StructType) -> list[Bounds] | None:
    """The bounds of a column in each of some files, by their typed partition values and statistics; None for a column that is not there."""
    found, path = schema.resolve(column), schema.physical_path(column)
    if found is None or path is None:
        return None
    type_, name = found.type, column[0].lower() if len(column) == 1 else None
    changed = TYPE_CHANGES in found.metadata and not (isinstance(type_, PrimitiveType) and type_.name in INTEGER_BITS)
    out = []
    for of_file, its_stats in zip(values, stats, strict=True):
        constant = next((v for n, v in of_file.items() if n.lower() == name), ...)
        known = _of_stats(path, type_, its_stats) if constant is ... else _of_constant(constant, type_)
        if changed and constant is ...:  # the file may have been written with a narrower type: the float 1.1 is not the double 1.1
            known = replace(known, low=None, high=None)
        out.append(known)
    return out


def _of_constant(value: Any, type_: DataType) -> Bounds:
    if value is None:
        return Bounds(type_, None, None, may_be_null=True, may_be_non_null=False)
    typed = comparable(_as_float32(value) if type_ == PrimitiveType("float") else value, type_)
    return Bounds(type_, typed, typed, may_be_null=False, may_be_non_null=True, may_be_nan=typed is None)


def _as_float32(value: Any) -> Any:
    """A number rounded to a 4-byte float: the decimal text of a float is not its exact value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def _of_stats(path: ColumnPath, type_: DataType, stats: Mapping[str, Any]) -> Bounds:
    total, nulls = stats.get("numRecords"), lookup(stats.get("nullCount"), path)
    may_be_null = may_be_non_null = True
    if _is_count(nulls):
        may_be_null = nulls != 0
        may_be_non_null = not (_is_count(total) and nulls == total)
    low = _bound_from_json(lookup(stats.get("minValues"), path), type_, is_high=False)
    high = _bound_from_json(lookup(stats.get("maxValues"), path), type_, is_high=True)
    is_float = isinstance(type_, PrimitiveType) and type_.name in _FLOATS
    return Bounds(type_, low, high, may_be_null, may_be_non_null, may_be_nan=is_float)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def lookup(tree: Any, path: ColumnPath) -> Any:
    """The entry of statistics for a leaf column, by its path; None where there is none."""
    for name in path:
        if type(tree) is not dict and not isinstance(tree, Mapping):  # the second is slow
            return None
        tree = tree.get(name)
    return tree


def _bound_from_json(value: Any, type_: DataType, *, is_high: bool) -> Any:
    """A minimum or maximum from the statistics' JSON, widened if its writer may have truncated it; None if it cannot be used."""
    if value is None:
        return None
    if isinstance(type_, DecimalType):
        return _widened_decimal(value, type_, is_high=is_high)
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name in INTEGER_BITS:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if name in _FLOATS:
        bound = _as_float32(value) if name == "float" else value
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
            return None
        return decimal.Decimal(bound)
    if name == "string" and isinstance(value, str):
        known = value.split(REPLACEMENT_CHARACTER, 1)[0]  # it may stand for any bytes that are not valid UTF-8
        ends = known.rstrip(TRUNCATION_MARKS), known  # a maximum may be truncated, with or without a mark at its end
        return max(end + ABOVE_ALL_STRINGS for end in ends) if is_high else known
    if name in ("date", "timestamp", "timestamp_ntz") and isinstance(value, str):
        return _time_bound(value, name, is_high=is_high)
    return None


def _widened_decimal(value: Any, type_: DecimalType, *, is_high: bool) -> Any:
    """A decimal bound, widened by the rounding error of a float if it may have been computed as one.

    None if the writer may have truncated it to 64 bits: delta-rs computes bounds of decimals as floats and
    writes the result as whole numbers.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str, decimal.Decimal)):
        return None
    try:
        number = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        return None
    if not number.is_finite() or (isinstance(value, int) and not _LOWEST_LONG < value < _HIGHEST_LONG):
        return None
    exact = type_.precision <= 15 or not isinstance(value, (int, float)) or (isinstance(value, int) and type_.scale == 0 and abs(value) < _EXACT_DOUBLE)
    if exact:
        return number
    with decimal.localcontext() as context:
        context.prec = 80
        slack = abs(number).scaleb(-14) + decimal.Decimal(1).scaleb(-type_.scale)
        return number + slack if is_high else number - slack


def _time_bound(value: str, name: str, *, is_high: bool) -> Any:
    zone = _ZONE.search(value.partition("T")[2] or value.partition(" ")[2])
    has_zone = zone is not None
    if name != "date" and has_zone != (name == "timestamp"):
        return None  # unclear which time zone the bound is in
    try:
        parsed = partition_text.parse(value, PrimitiveType(name))
    except CorruptLog:
        return None
    if name == "date" or parsed is None:
        return parsed
    naive = parsed.replace(tzinfo=None)
    loose = _TRUNCATED_OFFSET if zone is not None and zone[1] and not zone[2] and naive.year < _WHOLE_MINUTE_OFFSETS_SINCE else dt.timedelta()
    try:
        return naive + _MILLISECOND + loose if is_high else naive - loose
    except OverflowError:
        return None
