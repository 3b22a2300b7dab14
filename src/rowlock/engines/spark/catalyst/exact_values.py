"""Computes expressions of Catalyst over Arrow columns, for those whose value Arrow and numpy give exactly as Spark does.

Each expression is compiled once for a statement and then run over the columns of many files.  Where the value of a row is not
certain (an overflow, text beyond ASCII in a function of text, NaN, a division by zero) the row is marked, and nothing may be
concluded from it: Spark evaluates it (I3).  An expression that is not known here is not compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.engines.spark.catalyst.predicates import Condition, Node, column_name, literal
from rowlock.protocol.schema import INTEGER_BITS

Mask = npt.NDArray[np.bool_]
_AS_NUMBERS = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
_DAYS = (-719_162, 2_932_896)
"""The days of 0001-01-01 and 9999-12-31: calendars are compared between these alone."""


class Values(NamedTuple):
    """The values of an expression, a number of rows or a single one for all of them.

    data    numpy for numbers, dates (days), timestamps (microseconds) and booleans, else an Arrow array or scalar
    valid   which rows are not null; None where none is null
    unsure  the rows whose value, and whether it is null, is not certain; None where all are certain
    """

    data: Any
    valid: Mask | None = None
    unsure: Mask | None = None


Compute = Callable[[pa.Table], Values]
Make = Callable[[Node, list["Exact"]], "Exact | None"]
"""Makes the value of a function of its node and its arguments; None where it does not know these."""


@dataclass(frozen=True, slots=True)
class Exact:
    """An expression that can be computed: its kind ("integer" for all whole numbers), its width in bits, and how it is computed."""

    kind: str
    of: Compute
    bits: int = 64


class Compiler:
    """Compiles the value expressions of one condition; `names` collects the columns that they read."""

    def __init__(self, condition: Condition, columns: Mapping[int, str]) -> None:
        self.condition, self.columns = condition, columns
        self.names: set[str] = set()

    def value(self, node: Node) -> Exact | None:
        """The expression, ready to be computed; None where it is not known here."""
        if node.name == "AttributeReference":
            return self._column(node)
        if node.name == "Literal":
            return self._literal(node)
        make = _FUNCTIONS.get(node.name)
        if make is None or (node.name == "Cast" and node.fields.get("dataType") == "string" and not self._is_plain_text(node)):
            return None
        parts = [self.value(kid) for kid in node.children]
        known = [p for p in parts if p is not None]
        return make(node, known) if len(known) == len(parts) else None

    def _is_plain_text(self, node: Node) -> bool:
        """Whether an expression gives text without a collation, of which Catalyst's JSON says nothing."""
        return str(self.condition.expression_of(node).dataType().catalogString()) == "string"

    def _column(self, node: Node) -> Exact | None:
        name, kind = column_name(node, self.columns), kind_of(node.fields.get("dataType"))
        if name is None or kind is None:
            return None
        self.names.add(name)
        bits = INTEGER_BITS.get(str(node.fields["dataType"]), 64)
        return Exact(kind, functools.partial(_column_values, name, kind), bits)

    def _literal(self, node: Node) -> Exact | None:
        kind = kind_of(node.fields.get("dataType"))
        if kind is None or node.fields.get("value") is None:
            return None
        if kind in ("timestamp", "timestamp_ntz", "binary"):  # as Catalyst has it: the JSON has a text of the session's zone, which may stand for two instants
            inner = self.condition.expression_of(node).value()
            return _constant(kind, pa.scalar(bytes(inner)) if kind == "binary" else np.int64(inner))
        if kind == "float":
            return _constant(kind, np.float32(node.fields["value"]))
        value = literal(node)
        if value is None:
            return None
        if kind == "integer":
            return replace(_constant(kind, np.int64(value)), bits=INTEGER_BITS[node.fields["dataType"]])
        if kind == "date":
            return _constant(kind, np.int64((value - value.min).days + _DAYS[0]))
        if kind == "boolean":
            return _constant(kind, np.bool_(value))
        if kind == "double":
            return _constant(kind, np.float64(value))
        return _constant(kind, pa.scalar(value))


def kind_of(data_type: Any) -> str | None:
    """What values of a Spark type (as in Catalyst's JSON) are computed as; None for a type that is not known here."""
    if not isinstance(data_type, str):
        return None
    if data_type in INTEGER_BITS:
        return "integer"
    if data_type.startswith("decimal"):
        return "decimal"
    return data_type if data_type in ("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz", "double", "float") else None


def _constant(kind: str, data: Any) -> Exact:
    return Exact(kind, lambda _: Values(data))


def _column_values(name: str, kind: str, table: pa.Table) -> Values:
    column = table.column(name).combine_chunks()
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_) if column.null_count else None
    if kind in ("string", "binary", "decimal"):
        return Values(column, valid)
    if kind in _AS_NUMBERS:
        column = column.view(_AS_NUMBERS[kind])
    if valid is not None:
        column = pc.fill_null(column, False if kind == "boolean" else 0)
    dtype = {"boolean": np.bool_, "double": np.float64, "float": np.float32}.get(kind, np.int64)
    return Values(np.asarray(column.to_numpy(zero_copy_only=False), dtype=dtype), valid)


def either(*masks: Mask | None) -> Mask | None:
    """The rows of any of the masks; None where there is none."""
    known = [m for m in masks if m is not None]
    return functools.reduce(np.logical_or, known) if known else None


def both(*masks: Mask | None) -> Mask | None:
    """The rows that are in all of the masks, where None stands for every row."""
    known = [m for m in masks if m is not None]
    return functools.reduce(np.logical_and, known) if known else None


def _joined(values: list[Values], data: Any, *unsure: Mask | None) -> Values:
    """A value that is null where one of `values` is, and unsure where one of them is or `unsure` says so."""
    return Values(data, both(*(v.valid for v in values)), either(*(v.unsure for v in values), *unsure))


# ---- arithmetic ---------------------------------------------------------------------------


def _beyond(data: Any, bits: int) -> Mask | None:
    """The numbers that do not fit into as many bits; None where there is none, and for 64, which the caller has looked at."""
    return None if bits == 64 else _if_any(np.asarray((data < -(1 << (bits - 1))) | (data >= 1 << (bits - 1))))


OfTwo = Callable[[Any, Any, int], tuple[Any, "Mask | None"]]
"""Computes a function of two numbers for a result of so many bits: (values, the rows whose value is not certain)."""


def _arithmetic(whole: OfTwo | None = None, real: OfTwo | None = None) -> Make:
    """A function of two numbers of one kind: of whole numbers, of doubles, or of both."""

    def make(_: Node, parts: list[Exact]) -> Exact | None:
        left, right = parts
        compute = {"integer": whole, "double": real}.get(left.kind)
        if compute is None or left.kind != right.kind:
            return None
        bits = max(left.bits, right.bits)

        def of(table: pa.Table) -> Values:
            a, b = left.of(table), right.of(table)
            with np.errstate(all="ignore"):
                data, doubtful = compute(a.data, b.data, bits)
                return _joined([a, b], data, doubtful, _beyond(data, bits) if left.kind == "integer" else None)

        return Exact(left.kind, of, bits)

    return make


def _sum(a: Any, b: Any, bits: int) -> tuple[Any, Mask | None]:
    data = a + b
    return data, None if bits < 64 else _if_any(np.asarray(((a ^ data) & (b ^ data)) < 0))


def _difference(a: Any, b: Any, bits: int) -> tuple[Any, Mask | None]:
    data = a - b
    return data, None if bits < 64 else _if_any(np.asarray(((a ^ b) & (a ^ data)) < 0))


def _product(a: Any, b: Any, bits: int) -> tuple[Any, Mask | None]:
    return a * b, None if bits < 64 else _if_any(np.asarray(np.abs(np.float64(a) * np.float64(b)) >= 2.0**62))


def _remainder(a: Any, b: Any, _: int) -> tuple[Any, Mask | None]:
    zero = np.asarray(b == 0)
    return np.fmod(a, np.where(zero, 1, b)), _if_any(zero)


def _positive_remainder(a: Any, b: Any, _: int) -> tuple[Any, Mask | None]:
    odd = np.asarray(b <= 0)
    return np.mod(a, np.where(odd, 1, b)), _if_any(odd)


def _quotient(a: Any, b: Any, _: int) -> tuple[Any, Mask | None]:
    odd = np.asarray((b == 0) | (b == -1))
    divisor = np.where(odd, 1, b)
    return (a - np.fmod(a, divisor)) // divisor, _if_any(odd)


def _division(a: Any, b: Any, _: int) -> tuple[Any, Mask | None]:
    zero = np.asarray(b == 0)
    return a / np.where(zero, 1, b), _if_any(zero)


def _if_any(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _of_one(kinds: tuple[str, ...], compute: Callable[[Any], tuple[Any, Mask | None]], result: str = "", bits: int = 0) -> Make:
    """A function of one value of one of these kinds; its result has the argument's kind and width unless given."""

    def make(_: Node, parts: list[Exact]) -> Exact | None:
        if len(parts) != 1 or parts[0].kind not in kinds:
            return None
        inner, kind, width = parts[0], result or parts[0].kind, bits or parts[0].bits

        def of(table: pa.Table) -> Values:
            value = inner.of(table)
            data, doubtful = compute(value.data)
            return _joined([value], data, doubtful, _beyond(data, width) if kind == "integer" else None)

        return Exact(kind, of, width)

    return make


def _negative(data: Any) -> tuple[Any, Mask | None]:
    return -data, _if_any(np.asarray(np.abs(np.float64(data)) > 2.0**62)) if np.asarray(data).dtype == np.int64 else None


def _magnitude(data: Any) -> tuple[Any, Mask | None]:
    return np.abs(data), _if_any(np.asarray(np.float64(data) < -(2.0**62))) if np.asarray(data).dtype == np.int64 else None


# ---- casts --------------------------------------------------------------------------------


def _cast(node: Node, parts: list[Exact]) -> Exact | None:
    """A cast that changes no value, or that is the same everywhere: whole numbers to wider ones, to text, to real numbers; decimals to wider ones.

    A cast of text to text changes its collation, which Catalyst's JSON does not say.
    """
    inner, wanted = parts[0], node.fields.get("dataType")
    kind = kind_of(wanted)
    if kind == inner.kind and kind in ("binary", "boolean", "date", "timestamp", "timestamp_ntz", "double", "float"):
        return inner
    if kind == "integer" and inner.kind == "integer":
        bits = INTEGER_BITS[str(wanted)]
        if bits >= inner.bits:
            return replace(inner, bits=bits)
        return Exact("integer", lambda t: (v := inner.of(t))._replace(unsure=either(v.unsure, _beyond(v.data, bits))), bits)
    if kind == "double" and inner.kind in ("integer", "float"):
        return Exact(kind, lambda t: (v := inner.of(t))._replace(data=np.float64(v.data)))
    if kind == "string" and inner.kind == "integer":
        return Exact(kind, lambda t: (v := inner.of(t))._replace(data=pc.cast(_as_arrow(v.data), pa.string())))
    if kind == "decimal" and inner.kind in ("decimal", "integer"):
        return _wider_decimal(node, inner)
    return None


def _wider_decimal(node: Node, inner: Exact) -> Exact | None:
    """A decimal's or whole number's cast to a decimal that holds each of its values."""
    precision, scale = _digits(str(node.fields["dataType"]))
    child = str(node.children[0].fields.get("dataType"))
    have, have_scale = (len(str(1 << (inner.bits - 1))), 0) if inner.kind == "integer" else _digits(child)
    if scale < have_scale or precision - scale < have - have_scale:
        return None
    if inner.kind == "decimal":
        return inner  # compared by its value, whatever its scale
    return Exact("decimal", lambda t: (v := inner.of(t))._replace(data=pc.cast(_as_arrow(v.data), pa.decimal128(19, 0))))


def _digits(data_type: str) -> tuple[int, int]:
    """(precision, scale) of a type like decimal(10,2)."""
    if "(" not in data_type:
        return 0, 38
    precision, scale = data_type[data_type.index("(") + 1 : -1].split(",")
    return int(precision), int(scale)


def _as_arrow(data: Any) -> Any:
    return pa.array(data) if isinstance(data, np.ndarray) and data.ndim else pa.scalar(data.item())


# ---- text ---------------------------------------------------------------------------------


def _not_ascii(data: Any) -> Mask | None:
    """The rows whose text is not ASCII: for these functions of text may differ."""
    plain = pc.string_is_ascii(data)
    if isinstance(plain, pa.Scalar):
        return None if plain.as_py() in (True, None) else np.ones((), dtype=np.bool_)
    return _if_any(~np.asarray(pc.fill_null(plain, True).to_numpy(zero_copy_only=False), dtype=np.bool_))


def _of_text(compute: Callable[[Any], Any], result: str = "string") -> Make:
    def computed(data: Any) -> tuple[Any, Mask | None]:
        doubtful = _not_ascii(data)
        if doubtful is not None and isinstance(data, pa.Array):  # some functions raise for text that is no UTF-8
            data = pc.if_else(pa.array(doubtful), "", data)
        return compute(data), doubtful

    return _of_one(("string",), computed, result, 32)


def _length(data: Any) -> Any:
    found = pc.binary_length(data)
    return np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False), dtype=np.int64) if not isinstance(found, pa.Scalar) else np.int64(found.as_py())


def _substring(node: Node, parts: list[Exact]) -> Exact | None:
    """SUBSTRING from a constant position, not counted from the end, over a constant length."""
    if len(parts) != 3 or parts[0].kind != "string" or any(kid.name != "Literal" for kid in node.children[1:]):
        return None
    start, length = (literal(kid) for kid in node.children[1:])
    if not isinstance(start, int) or not isinstance(length, int) or start < 0:
        return None
    first = max(start - 1, 0)
    return _of_text(lambda data: pc.utf8_slice_codeunits(data, first, first + max(length, 0)))(node, parts[:1])


def _concat(_: Node, parts: list[Exact]) -> Exact | None:
    if not parts or any(p.kind != "string" for p in parts):
        return None

    def of(table: pa.Table) -> Values:
        values = [p.of(table) for p in parts]
        return _joined(values, pc.binary_join_element_wise(*(v.data for v in values), ""))

    return Exact("string", of)


# ---- dates --------------------------------------------------------------------------------


def _of_date(compute: Callable[[Any], Any], plus: int = 0) -> Make:
    """A field of a date's calendar, which is compared between the years 1 and 9999 alone."""

    def computed(data: Any) -> tuple[Any, Mask | None]:
        days = np.asarray(data)
        far = np.atleast_1d((days < _DAYS[0]) | (days > _DAYS[1]))
        dates = pa.array(np.where(far, 0, np.atleast_1d(days)).astype(np.int32)).view(pa.date32())
        found = np.asarray(compute(dates).to_numpy(zero_copy_only=False), dtype=np.int64) + plus
        return (found, _if_any(far)) if days.ndim else (found[0], None if not far.any() else far[0])

    return _of_one(("date",), computed, "integer", 32)


def _moved_date(sign: int) -> Make:
    def make(_: Node, parts: list[Exact]) -> Exact | None:
        if [p.kind for p in parts] != ["date", "integer"]:
            return None

        def of(table: pa.Table) -> Values:
            day, by = parts[0].of(table), parts[1].of(table)
            data = day.data + sign * by.data
            return _joined([day, by], data, _beyond(data, 32))

        return Exact("date", of)

    return make


def _days_between(_: Node, parts: list[Exact]) -> Exact | None:
    if [p.kind for p in parts] != ["date", "date"]:
        return None

    def of(table: pa.Table) -> Values:
        end, start = parts[0].of(table), parts[1].of(table)
        data = end.data - start.data
        return _joined([end, start], data, _beyond(data, 32))

    return Exact("integer", of, 32)


def _certain(compute: Callable[[Any, Any], Any]) -> OfTwo:
    """A function whose every value is certain."""
    return lambda a, b, _: (compute(a, b), None)


_FUNCTIONS: dict[str, Make] = {
    "Add": _arithmetic(_sum, _certain(np.add)),
    "Subtract": _arithmetic(_difference, _certain(np.subtract)),
    "Multiply": _arithmetic(_product, _certain(np.multiply)),
    "Divide": _arithmetic(real=_division),
    "Remainder": _arithmetic(_remainder),
    "Pmod": _arithmetic(_positive_remainder),
    "IntegralDivide": _arithmetic(_quotient),
    "BitwiseAnd": _arithmetic(_certain(np.bitwise_and)),
    "BitwiseOr": _arithmetic(_certain(np.bitwise_or)),
    "BitwiseXor": _arithmetic(_certain(np.bitwise_xor)),
    "UnaryMinus": _of_one(("integer", "double"), _negative),
    "Abs": _of_one(("integer", "double"), _magnitude),
    "Cast": _cast,
    "Upper": _of_text(pc.ascii_upper),
    "Lower": _of_text(pc.ascii_lower),
    "Length": _of_text(_length, "integer"),
    "Substring": _substring,
    "StringTrim": _of_text(lambda data: pc.ascii_trim(data, " ")),
    "StringTrimLeft": _of_text(lambda data: pc.ascii_ltrim(data, " ")),
    "StringTrimRight": _of_text(lambda data: pc.ascii_rtrim(data, " ")),
    "Concat": _concat,
    "Year": _of_date(pc.year),
    "Quarter": _of_date(pc.quarter),
    "Month": _of_date(pc.month),
    "DayOfMonth": _of_date(pc.day),
    "DayOfYear": _of_date(pc.day_of_year),
    "DayOfWeek": _of_date(lambda dates: pc.day_of_week(dates, count_from_zero=True, week_start=7), plus=1),
    "WeekDay": _of_date(lambda dates: pc.day_of_week(dates, count_from_zero=True, week_start=1)),
    "WeekOfYear": _of_date(pc.iso_week),
    "DateAdd": _moved_date(1),
    "DateSub": _moved_date(-1),
    "DateDiff": _days_between,
}
"""The functions that are known here, by the names of their Catalyst classes."""
