"""What is known of an expression's value in each of many places, and which tests it may pass.

A place is a row, where the value itself is known, or all rows of a file, where it lies between a minimum and a maximum: so one
interpreter reads conditions over both.  Arrow computes.  Pure.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.protocol import arrays
from rowlock.protocol.bounds import Bounds, comparable
from rowlock.protocol.partition_values import since_1970
from rowlock.protocol.schema import INTEGER_BITS, DataType, DecimalType, PrimitiveType

TRUE, FALSE, MAYBE = arrays.of_values([True, False, None], pa.bool_())
LONG, INTEGER, STRING, DOUBLE, DATE = (PrimitiveType(n) for n in ("long", "integer", "string", "double", "date"))
_NOTHING = pa.nulls(1)[0]
_NAN = arrays.scalar(math.nan, pa.float64())
_WIDE = pa.decimal256(76, 38)
"""Holds every decimal of Spark's, whatever its scale."""
LOWEST_DAY, HIGHEST_DAY = -719_162, 2_932_896
"""The days of 0001-01-01 and 9999-12-31: calendars are compared between these alone."""
_STORED = {"string": pa.string(), "binary": pa.binary(), "float": pa.float64(), "double": pa.float64()}
_AS_NUMBERS = {*INTEGER_BITS, "boolean", "date", "timestamp", "timestamp_ntz"}


@dataclass(frozen=True, slots=True)
class Interval:
    """What is known of a value in each place, as Arrow arrays, or as scalars for all places alike.

    type        the value's type; numbers, booleans, days and microseconds are stored as int64, reals as doubles
    low, high   bounds of the values that are not null, null where unknown; one object where each place has one value, as rows have
    null, some  whether the value may be null, and whether it may be something else
    nan         whether NaN, which Spark orders above every number, may occur beyond `high`
    """

    type: DataType
    low: Any
    high: Any
    null: Any = FALSE
    some: Any = TRUE
    nan: bool = False

    @property
    def kind(self) -> str:
        """What values of the type are computed as."""
        return kind_of(self.type)


def kind_of(type_: DataType) -> str:
    """What values of a type are computed as: "integer", "real", "decimal", or the name of the type; "" for a type that is not known here."""
    if isinstance(type_, DecimalType):
        return "decimal"
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    return "integer" if name in INTEGER_BITS else "real" if name in ("float", "double") else name if name in _AS_NUMBERS or name in _STORED else ""


def all_of(masks: Sequence[Any]) -> Any:
    """AND of masks, in which null is "cannot tell"."""
    known = [m for m in masks if m is not TRUE]
    return functools.reduce(pc.and_kleene, known) if known else TRUE


def any_of(masks: Sequence[Any]) -> Any:
    """OR of masks, in which null is "cannot tell"."""
    known = [m for m in masks if m is not FALSE]
    return functools.reduce(pc.or_kleene, known) if known else FALSE


def _stored_type(type_: DataType) -> pa.DataType:
    if isinstance(type_, DecimalType):
        return _WIDE
    assert isinstance(type_, PrimitiveType)
    return _STORED.get(type_.name, pa.int64())


# ---- where intervals come from ---------------------------------------------------------------


def of_rows(column: pa.Array | pa.ChunkedArray, type_: DataType) -> Interval:
    """The values of a column of rows; of a type that is not known here only whether they are null."""
    kind, values = kind_of(type_), column
    if isinstance(column, pa.ChunkedArray):
        values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if not kind:
        return Interval(type_, _NOTHING, _NOTHING, values.is_null(), values.is_valid())
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if kind == "date" else pa.int64())
    wanted = None if kind == "decimal" else _stored_type(type_)
    if wanted is not None and values.type != wanted:
        values = values.cast(wanted)
    if not values.null_count:
        return Interval(type_, values, values)
    some = values.is_valid()
    return Interval(type_, values, values, pc.invert(some), some)


def constant(value: Any, type_: DataType) -> Interval | None:
    """One value in all places; None for one that cannot be stored."""
    return _constant(value, type_) if kind_of(type_) else None


@functools.lru_cache(4096, typed=True)
def _constant(value: Any, type_: DataType) -> Interval | None:
    try:
        data = arrays.scalar(_stored(value, type_), _stored_type(type_))
    except (ArithmeticError, TypeError, ValueError):
        return None
    return Interval(type_, data, data, TRUE if value is None else FALSE, FALSE if value is None else TRUE)


def literal(value: Any, like: DataType) -> Interval | None:
    """A constant that is compared with values of the type `like`; None where no comparison is safe."""
    if value is None or (type(value) is int and kind_of(like).startswith("timestamp")):
        return constant(value, like)
    value = comparable(value, like)
    if isinstance(value, decimal.Decimal) and kind_of(like) == "integer":
        return constant(value, DecimalType(38, 0))
    return None if value is None else constant(value, like)


def of_bounds(bounds: Sequence[Bounds]) -> Interval | None:
    """What is known of a column in some files, by its bounds in each."""
    if not bounds:
        return None
    type_, low, high = bounds[0].type, _NOTHING, _NOTHING
    if kind_of(type_):
        low, high = (arrays.of_values([_stored_bound(b.high if up else b.low, type_, up=up) for b in bounds], _stored_type(type_)) for up in (False, True))
    null, some = _flags([b.may_be_null for b in bounds]), _flags([b.may_be_non_null for b in bounds])
    return Interval(type_, low, high, null, some, any(b.may_be_nan for b in bounds))


def _flags(flags: list[bool]) -> Any:
    return TRUE if all(flags) else arrays.of_values(flags, pa.bool_()) if any(flags) else FALSE


def _stored(value: Any, type_: DataType) -> Any:
    if value is None or type(value) is str:
        return value
    if isinstance(value, dt.date):
        return since_1970(value)
    kind = kind_of(type_)
    return float(value) if kind == "real" else int(value) if kind in _AS_NUMBERS else value


def _stored_bound(value: Any, type_: DataType, *, up: bool) -> Any:
    """A bound as it is stored, rounded outwards; None for one that is too far out."""
    if value is None or type(value) is str:
        return value
    if type(value) is not int:
        value = _stored(value, type_)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return None
    if isinstance(value, decimal.Decimal):
        with decimal.localcontext() as context:
            context.prec = 120
            value = value.quantize(decimal.Decimal(1).scaleb(-38), decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)
            return value if value.adjusted() < 38 else None
    return value


# ---- tests -------------------------------------------------------------------------------------


def may_compare(op: str, a: Interval, b: Interval) -> Any:
    """Whether a comparison may be true in each place; null where that is unknown.  None where the types cannot be compared."""
    if not a.kind or (a.kind != b.kind and {a.kind, b.kind} != {"integer", "decimal"}):
        return None
    if op in (">", ">="):
        return may_compare("<" if op == ">" else "<=", b, a)
    if op == "<=>":
        return any_of((all_of((a.null, b.null)), may_compare("=", a, b)))
    if a.nan or b.nan:
        if op == "=" and all(x.nan or _holds_nan(x.low) for x in (a, b)):
            return all_of((a.some, b.some))
        a, b = (replace(x, high=_NAN if x.nan and op != "=" else x.high, nan=False) for x in (a, b))
    (low, high), (least, most) = _ordered(a, b)
    single = low is high and least is most
    if op == "=":
        found = pc.equal(low, least) if single else all_of((pc.less_equal(low, most), pc.less_equal(least, high)))
    elif op == "!=":
        found = pc.not_equal(low, least) if single else any_of((pc.not_equal(low, most), pc.not_equal(high, least)))
    else:
        found = (pc.less if op == "<" else pc.less_equal)(low, most)
    return all_of((a.some, b.some, found))


def _ordered(*values: Interval) -> list[tuple[Any, Any]]:
    """The bounds of some values in a form that Arrow orders as Spark orders them."""
    if values[0].kind == "real":
        if not any(_holds_nan(data) for v in values for data in {id(v.low): v.low, id(v.high): v.high}.values()):
            return [(v.low, v.high) for v in values]
        change = _key
    elif len({v.low.type for v in values}) > 1:
        change = _wide
    else:
        return [(v.low, v.high) for v in values]
    return [(low := change(v.low), low if v.low is v.high else change(v.high)) for v in values]


def _holds_nan(data: Any) -> bool:
    return bool(pc.any(pc.is_nan(data)).as_py()) if isinstance(data, pa.Array) else data.is_valid and math.isnan(data.as_py())


def _key(data: Any) -> Any:
    """Doubles as whole numbers in Spark's order: -0.0 is 0.0, and NaN is equal to itself and above all else."""

    def keys(reals: Any) -> Any:
        bits = np.where(np.isnan(reals), np.nan, reals + 0.0).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits)

    return by_numpy(keys, pa.int64(), data)


def _wide(data: Any) -> Any:
    return pc.cast(pc.cast(data, pa.decimal128(19, 0)) if pa.types.is_integer(data.type) else data, _WIDE)


def may_be_in(a: Interval, values: Sequence[Any], *, outcome: bool) -> Any:
    """Whether `a IN (values)` may be true (or false, for the outcome False); None where a constant has no certain meaning for it."""
    among = [literal(v, a.type) for v in values if v is not None]
    known = [v for v in among if v is not None]
    if len(known) < len(among) or not a.kind:
        return None
    if not values:
        return FALSE if outcome else TRUE
    if not known or (None in values and not outcome):
        return FALSE
    if not outcome:
        value = point(a)
        a = replace(a, low=value, high=value)
    constants = [v.low for v in known]  # none of them is NaN
    low, high = ends = (a.low, a.high)
    if a.kind == "real":
        ends, constants = ((low := _key(low)), low if a.low is a.high else _key(high)), [*map(_key, constants)]
    found = _may_be_among(*ends, constants) if len({low.type, *(c.type for c in constants)}) == 1 else None
    if found is None:
        return (any_of if outcome else all_of)([may_compare("=" if outcome else "!=", a, v) for v in known])
    return all_of((a.some, found if outcome else pc.invert(found)))


def _may_be_among(low: Any, high: Any, constants: Sequence[Any]) -> Any:
    """Whether one of some constants of the same type lies between the bounds; null where these are not known."""
    wanted = sorted(c.as_py() for c in constants)
    if pa.types.is_integer(low.type):
        sought = np.array(wanted)
        if low is high:
            return by_numpy(lambda x: np.isin(x, sought), pa.bool_(), low)
        return by_numpy(lambda x, y: np.searchsorted(sought, x) < np.searchsorted(sought, y, "right"), pa.bool_(), low, high)
    if low is high:
        return pc.if_else(pc.is_valid(low), pc.is_in(low, value_set=arrays.of_values(wanted, low.type)), MAYBE)
    if isinstance(low, pa.Scalar):
        return MAYBE
    ends = zip(low.to_pylist(), high.to_pylist(), strict=True)
    return arrays.of_values([None if x is None or y is None else bisect_left(wanted, x) < bisect_right(wanted, y) for x, y in ends], pa.bool_())


def may_be_like(a: Interval, start: str, inside: Sequence[str], end: str, *, outcome: bool, exact: bool) -> Any:
    """Whether a text may begin, go on and end like this (or may not, for the outcome False); None for what is no text."""
    if a.kind != "string":
        return None
    found = []
    if a.low is a.high:
        found = [test(a.low, piece) for test, piece in ((pc.starts_with, start), (pc.ends_with, end), *((pc.match_substring, p) for p in inside)) if piece]
    elif start:
        prefix = arrays.scalar(start.encode(), pa.binary())
        low, high = (pc.binary_slice(pc.cast(x, pa.binary()), 0, len(start.encode())) for x in (a.low, a.high))
        found = [pc.less_equal(low, prefix), pc.greater_equal(high, prefix)]
    if outcome:
        return all_of((a.some, *found, TRUE if exact else MAYBE))
    return all_of((a.some, pc.invert(all_of(found)) if exact and a.low is a.high else MAYBE))


def by_numpy(compute: Callable[..., Any], type_: pa.DataType, *args: Any) -> Any:
    """A function of numbers that Arrow has not, null where one of them is null."""
    if any(isinstance(a, pa.Scalar) and not a.is_valid for a in args):
        return arrays.scalar(None, type_)
    with np.errstate(all="ignore"):
        data = compute(*(np.asarray(a.as_py()) if isinstance(a, pa.Scalar) else arrays.to_numpy(a) for a in args))
    if all(isinstance(a, pa.Scalar) for a in args):
        return arrays.scalar(data.item(), type_)
    valid = all_of([pc.is_valid(a) for a in args if isinstance(a, pa.Array) and a.null_count])
    found = arrays.of_numpy(data)
    return found if valid is TRUE else pc.if_else(valid, found, arrays.scalar(None, type_))


def point(a: Interval) -> Any:
    """The value of each place that has one value, null for the others."""
    if a.low is a.high and not a.nan:
        return a.low
    return pc.if_else(FALSE if a.nan else pc.equal(a.low, a.high), a.low, arrays.scalar(None, a.low.type))
