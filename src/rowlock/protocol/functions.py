"""What functions and casts make of what is known of their arguments (`protocol.intervals`).

Where a value is not certain (an overflow, text beyond ASCII in a function of text, a division by zero) nothing is known of it, nor whether it
is null (I3): Spark decides, and raises what it raises.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.protocol.intervals import DATE, DOUBLE, FALSE, HIGHEST_DAY, INTEGER, LOWEST_DAY, MAYBE, STRING, Interval, all_of, any_of, by_numpy, kind_of, point
from rowlock.protocol.schema import INTEGER_BITS, DataType, DecimalType, PrimitiveType

Function = Callable[[Sequence[Interval]], "Interval | None"]
"""A function of some values; None where it does not know their types."""


def _if_any(mask: Any) -> Any:
    return mask if (mask if isinstance(mask, pa.Scalar) else pc.any(mask)).as_py() else FALSE


def _result(type_: DataType, low: Any, high: Any, args: Sequence[Interval], unsure: Any = FALSE) -> Interval:
    """The outcome of a function that is null where an argument is.

    Where it is `unsure`, or an end is not known, nothing is: it may have wrapped around, or be null as a division by zero is.
    """
    null, some = any_of([a.null for a in args]), all_of([a.some for a in args])
    ends = (low,) if low is high else (low, high)
    if unsure is FALSE and all(x.is_valid if isinstance(x, pa.Scalar) else not x.null_count for x in ends):
        return Interval(type_, low, high, null, some)
    known = all_of([*map(pc.is_valid, ends), pc.invert(pc.fill_null(unsure, True))])
    ends = tuple(pc.if_else(known, x, pa.scalar(None, x.type)) for x in ends)
    doubt = pc.if_else(known, FALSE, MAYBE)
    return Interval(type_, ends[0], ends[-1], any_of((null, doubt)), all_of((some, pc.invert(doubt))))


def _function(kind: str, compute: Callable[[Any], Any], result: DataType, odd: Callable[[Any], Any], *, rises: bool = False) -> Function:
    """A function of one value of a kind, computed by itself and not known where the value is `odd`; with `rises` it never falls, so that it has bounds."""

    def function(args: Sequence[Interval]) -> Interval | None:
        if len(args) != 1 or args[0].kind != kind:  # `trim(BOTH 'x' FROM c)` has two
            return None
        a = args[0]
        ends = (a.low, a.high) if rises and a.low is not a.high else (point(a),)
        unsure = [_if_any(odd(x)) for x in ends]
        plain = [x if u is FALSE else pc.if_else(u, "" if kind == "string" else 0, x) for x, u in zip(ends, unsure, strict=True)]
        found = [compute(x) for x in plain]
        return _result(result, found[0], found[-1], args, any_of(unsure))

    return function


def _outside(data: Any, type_: DataType) -> Any:
    """The whole numbers that a type does not hold."""
    limit = 1 << (INTEGER_BITS[type_.name] - 1)  # type: ignore[union-attr]
    if limit == 1 << 63 or all(x is None or -limit <= x < limit for x in _ends(data)):
        return FALSE
    return pc.or_(pc.less(data, -limit), pc.greater_equal(data, limit))


def _ends(data: Any) -> tuple[Any, ...]:
    return (data.as_py(),) if isinstance(data, pa.Scalar) else tuple(pc.min_max(data).as_py().values())


def _wider(args: Sequence[Interval]) -> DataType:
    return max((a.type for a in args), key=lambda t: INTEGER_BITS.get(getattr(t, "name", ""), 64))


def _arithmetic(name: str) -> Function:
    """Arrow's `add`, `subtract` or `multiply` of two numbers of one kind."""
    plain, checked = getattr(pc, name), getattr(pc, f"{name}_checked")

    def function(args: Sequence[Interval]) -> Interval | None:
        a, b = args
        if a.kind != b.kind or a.kind not in ("integer", "real") or PrimitiveType("float") in (a.type, b.type):
            return None
        if a.kind == "real":
            data = plain(point(a), point(b))
            return _result(DOUBLE, data, data, args)
        ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        if a.low is a.high and b.low is b.high:
            ends = ends[:1]
        elif name != "multiply":
            ends = ends[1:3] if name == "subtract" else ends[::3]
        try:
            found = [checked(x, y) for x, y in ends]
        except pa.ArrowInvalid:  # 64 bits are too few
            return None
        low = high = found[0]
        if len(found) > 1:
            low, high = (pick(*found, skip_nulls=False) for pick in (pc.min_element_wise, pc.max_element_wise))
        type_ = _wider(args)
        return _result(type_, low, high, args, any_of([_outside(x, type_) for x in found]))

    return function


def _remainder(args: Sequence[Interval]) -> Interval | None:
    """%, as Java has it; numbers that are not negative are divided faster."""
    if [a.kind for a in args] != ["integer", "integer"]:
        return None

    def compute(a: Any, b: Any) -> Any:
        if a.size > 1 and not b.ndim and b > 0 and a.min() >= 0:
            of, by = a.view(np.uint64), np.uint64(b)
            found = of // by
            found *= by
            return np.subtract(of, found, out=found).view(np.int64)
        return np.fmod(a, b)

    a, b = map(point, args)
    data = by_numpy(compute, pa.int64(), a, b)
    return _result(_wider(args), data, data, args, _if_any(pc.equal(b, 0)))


def _strange(data: Any) -> Any:
    """Text that is not ASCII, some of which may be no UTF-8."""
    return pc.invert(pc.string_is_ascii(data))


def _no_utf8(data: Any) -> Any:
    """Text that is not ASCII, where some of it is no UTF-8."""
    try:
        pc.cast(pc.cast(data, pa.binary()), pa.string())
    except pa.ArrowInvalid:
        return _strange(data)
    return FALSE


def _substring(args: Sequence[Interval]) -> Interval | None:
    """SUBSTRING from a constant position, not counted from the end, over a constant length."""
    if [a.kind for a in args] != ["string", "integer", "integer"] or any(not isinstance(a.low, pa.Scalar) for a in args[1:]):
        return None
    start, length = (a.low.as_py() for a in args[1:])
    if start is None or length is None or start < 0:
        return None
    first, size = max(start - 1, 0), max(length, 0)
    return _function("string", lambda data: pc.utf8_slice_codeunits(data, first, first + size), STRING, _strange)(args[:1])


def _concat(args: Sequence[Interval]) -> Interval | None:
    if not args or any(a.kind != "string" for a in args):
        return None
    data = pc.binary_join_element_wise(*map(point, args), "")
    return _result(STRING, data, data, args)


def _of_date(compute: Callable[[Any], Any], *, rises: bool = False) -> Function:
    """A field of a date's calendar, which is compared between the years 1 and 9999 alone."""
    return _function(
        "date",
        lambda days: pc.cast(compute(pc.cast(pc.cast(days, pa.int32()), pa.date32())), pa.int64()),
        INTEGER,
        lambda days: pc.or_(pc.less(days, LOWEST_DAY), pc.greater(days, HIGHEST_DAY)),
        rises=rises,
    )


def _moved(name: str, kinds: tuple[str, str], result: DataType) -> Function:
    """Arithmetic with days, as numbers of 32 bits."""

    def moved(args: Sequence[Interval]) -> Interval | None:
        found = _arithmetic(name)([replace(a, type=INTEGER) for a in args]) if tuple(a.kind for a in args) == kinds else None
        return None if found is None else replace(found, type=result)

    return moved


def _coalesce(args: Sequence[Interval]) -> Interval | None:
    if any(not a.kind or a.kind != args[0].kind or a.low.type != args[0].low.type or a.nan for a in args):
        return None
    out = args[-1]
    for a in args[-2::-1]:
        if a.null is FALSE:
            out = a
            continue
        lows, highs = (
            pc.if_else(pc.invert(a.null), mine, pc.if_else(a.some, pick(mine, theirs, skip_nulls=False), theirs))
            for pick, mine, theirs in ((pc.min_element_wise, a.low, out.low), (pc.max_element_wise, a.high, out.high))
        )
        if a.low is a.high and out.low is out.high and pc.any(all_of((a.null, a.some))).as_py() is False:
            highs = lows
        out = Interval(_wider(args), lows, highs, all_of((a.null, out.null)), any_of((a.some, all_of((a.null, out.some)))))
    return out


FUNCTIONS: dict[str, Function] = {
    "+": _arithmetic("add"),
    "-": _arithmetic("subtract"),
    "*": _arithmetic("multiply"),
    "%": _remainder,
    "coalesce": _coalesce,
    "upper": _function("string", pc.ascii_upper, STRING, _strange),
    "lower": _function("string", pc.ascii_lower, STRING, _strange),
    "length": _function("string", lambda data: pc.cast(pc.utf8_length(data), pa.int64()), INTEGER, _no_utf8),
    "substring": _substring,
    "trim": _function("string", lambda data: pc.ascii_trim(data, " "), STRING, _strange),
    "concat": _concat,
    "year": _of_date(pc.year, rises=True),
    "month": _of_date(pc.month),
    "day": _of_date(pc.day),
    "date_add": _moved("add", ("date", "integer"), DATE),
    "date_sub": _moved("subtract", ("date", "integer"), DATE),
    "datediff": _moved("subtract", ("date", "date"), INTEGER),
}
"""The functions that are known, by their names in SQL."""


def cast(a: Interval, type_: DataType) -> Interval | None:
    """A cast that changes no value, or that is the same everywhere: whole numbers to others and to doubles, decimals to wider ones."""
    kind = kind_of(type_)
    if a.type == type_ and kind:
        return a
    if kind == a.kind == "integer":
        return (
            _result(type_, a.low, a.high, [a], any_of([_outside(x, type_) for x in (a.low, a.high)]))
            if _digits(type_) < _digits(a.type)
            else replace(a, type=type_)
        )
    if type_ == DOUBLE and a.kind in ("integer", "real"):
        low = pc.cast(a.low, pa.float64(), safe=False)
        return replace(a, type=type_, low=low, high=low if a.low is a.high else pc.cast(a.high, pa.float64(), safe=False))
    if isinstance(type_, DecimalType) and a.kind in ("decimal", "integer"):
        whole, scale = _digits(a.type)
        return replace(a, type=type_) if scale <= type_.scale and whole <= type_.precision - type_.scale else None  # compared by its value, whatever its scale
    return None


def _digits(type_: DataType) -> tuple[int, int]:
    """The digits before and after the point of the numbers of a type."""
    if isinstance(type_, DecimalType):
        return type_.precision - type_.scale, type_.scale
    return len(str(1 << (INTEGER_BITS[type_.name] - 1))), 0  # type: ignore[union-attr]
