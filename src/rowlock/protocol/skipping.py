"""Data skipping: whether a file may contain a row that satisfies a predicate.

Owns a small typed predicate language and its evaluation against one file's partition values and statistics.
Errs only towards keeping files: a skipped file with a matching row would be a lost update (I3).  Null counts
as false.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rowlock.protocol.bounds import Bounds, bounds_of, comparable
from rowlock.protocol.schema import ColumnPath, StructType

Operator = Literal["=", "<=>", "<", "<=", ">", ">=", "!="]


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if some part is true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if the part is false."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; `value` is a Python value of the column's type, or None for SQL NULL."""

    op: Operator
    column: ColumnPath
    value: Any


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if the column is null."""

    column: ColumnPath


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """True if the column is not null."""

    column: ColumnPath


@dataclass(frozen=True, slots=True)
class In:
    """True if the column equals one of the values."""

    column: ColumnPath
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    """True if the column is a string that begins with the prefix."""

    column: ColumnPath
    prefix: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A predicate that is not understood: keeps every file, also under Not."""


Predicate: TypeAlias = And | Or | Not | Compare | IsNull | IsNotNull | In | StartsWith | Unknown

_NEGATED: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def pushed_down(predicate: Predicate, negated: bool = False) -> Predicate:
    """An equivalent predicate without Not, or a weaker one: it is true for at least the rows that satisfy `predicate`.

    A negated comparison becomes the opposite comparison (both are null for null); one without an opposite becomes Unknown.
    """
    if isinstance(predicate, Not):
        return pushed_down(predicate.part, not negated)
    if isinstance(predicate, And):
        parts = tuple(pushed_down(p, negated) for p in predicate.parts)
        return Or(parts) if negated else And(parts)
    if isinstance(predicate, Or):
        parts = tuple(pushed_down(p, negated) for p in predicate.parts)
        return And(parts) if negated else Or(parts)
    if not negated:
        return predicate
    if isinstance(predicate, IsNull):
        return IsNotNull(predicate.column)
    if isinstance(predicate, IsNotNull):
        return IsNull(predicate.column)
    if isinstance(predicate, Compare) and predicate.op in _NEGATED:
        return Compare(_NEGATED[predicate.op], predicate.column, predicate.value)
    return Unknown()


def columns_of(predicate: Predicate) -> set[ColumnPath]:
    """Every column that the predicate refers to."""
    if isinstance(predicate, (And, Or)):
        return set().union(*(columns_of(p) for p in predicate.parts)) if predicate.parts else set()
    if isinstance(predicate, Not):
        return columns_of(predicate.part)
    return set() if isinstance(predicate, Unknown) else {predicate.column}


def may_match(predicate: Predicate | None, partition_values: Mapping[str, Any], stats: Mapping[str, Any], schema: StructType) -> bool:
    """Whether some live row of the file may satisfy the predicate.

    partition_values  typed values of every partition column by logical name; other columns are data columns
    stats             the file's parsed statistics by physical name; empty if there are none
    """
    return predicate is None or _may(pushed_down(predicate), partition_values, stats, schema)


def _may(p: Predicate, partition_values: Mapping[str, Any], stats: Mapping[str, Any], schema: StructType) -> bool:
    if isinstance(p, And):
        return all(_may(part, partition_values, stats, schema) for part in p.parts)
    if isinstance(p, Or):
        return any(_may(part, partition_values, stats, schema) for part in p.parts)
    if isinstance(p, (Unknown, Not)):
        return True
    bounds = bounds_of(p.column, partition_values, stats, schema)
    if bounds is None:
        return True
    if isinstance(p, IsNull):
        return bounds.may_be_null
    if isinstance(p, IsNotNull):
        return bounds.may_be_non_null
    if isinstance(p, Compare):
        return _may_compare(p.op, p.value, bounds)
    if isinstance(p, In):
        return any(_may_compare("=", value, bounds) for value in p.values)
    return _may_start_with(p.prefix, bounds)


def _may_compare(op: Operator, value: Any, bounds: Bounds) -> bool:
    if op == "<=>":
        return bounds.may_be_null if value is None else _may_compare("=", value, bounds)
    if value is None or not bounds.may_be_non_null:
        return False
    low, high = bounds.low, bounds.high
    value = comparable(value, bounds.type)
    if value is None:
        return True
    if op in ("=", "<", "<=") and low is not None and (low >= value if op == "<" else low > value):
        return False
    if op in (">", ">=") and bounds.may_be_nan:
        return True
    if op in ("=", ">", ">=") and high is not None and (high <= value if op == ">" else high < value):
        return False
    return not (op == "!=" and bounds.exact and low == high == value)


def _may_start_with(prefix: str, bounds: Bounds) -> bool:
    if not bounds.may_be_non_null:
        return False
    low, high = bounds.low, bounds.high
    if isinstance(low, str) and low[: len(prefix)] > prefix:
        return False
    return not (isinstance(high, str) and high < prefix)
