"""Scopes of leases: the whole table, a partition, or a bucket of key values.

A scope pins columns to values; the table's scope pins none.  Two scopes overlap unless they pin one column to
different values.  So the table overlaps everything; `region = EU` overlaps `day = 1` (some rows may be in both)
but not `region = US`.  A column with too many values for a scope each is pinned to a bucket number, a hash of the
value.  Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rowlock.protocol.predicates import And, Column, Compare, In, IsNull, Literal, Or, Predicate, Value, normal

Pin = tuple[str, str]
"""(column, value as text); for a bucket (`column/BUCKETS`, bucket number)."""
Scope = frozenset[Pin]
TABLE: Scope = frozenset()

BUCKETS = 16
_MAX_SCOPES = 64
"""The most scopes of one statement; with more it takes the whole table."""


def overlap(a: Scope, b: Scope) -> bool:
    """Whether some row may be in both scopes."""
    others = dict(b)
    return not any(column in others and others[column] != value for column, value in a)


def any_overlap(mine: Iterable[Scope], theirs: Collection[Scope]) -> bool:
    """Whether any of `mine` overlaps any of `theirs`."""
    return any(overlap(a, b) for a in mine for b in theirs)


def scopes_of(predicates: Sequence[Predicate | None], partition_columns: Sequence[str], key: str | None = None) -> frozenset[Scope]:
    """The scopes that cover statements with these conditions: {TABLE} if one of them pins no column.

    `key`: a column whose values are pinned by bucket.  Scopes that are too narrow or too wide only cost time, since
    leases decide nothing.
    """
    scopes: set[Scope] = set()
    for predicate in predicates:
        scopes |= {TABLE} if predicate is None else _scopes(normal(predicate), frozenset(partition_columns), key)
    return _simplified(scopes)


def _scopes(p: Predicate, columns: frozenset[str], key: str | None) -> set[Scope]:
    if isinstance(p, And):
        out: set[Scope] = {TABLE}
        for part in p.parts:
            also = _scopes(part, columns, key)
            out = {a | b for a in out for b in also if overlap(a, b)} if len(out) * len(also) <= _MAX_SCOPES * _MAX_SCOPES else out
        return out
    if isinstance(p, Or):
        return set(_simplified(set().union(*(_scopes(part, columns, key) for part in p.parts))))
    if isinstance(p, Compare) and p.op in ("=", "<=>") and isinstance(p.right, Literal):
        value = p.right.value
        return {_pinned(p.left, value, columns, key)} if value is not None or p.op == "<=>" else set()
    if isinstance(p, IsNull):
        return {_pinned(p.value, None, columns, key)}
    if isinstance(p, In) and len(p.values) <= _MAX_SCOPES:
        return {_pinned(p.value, value, columns, key) for value in p.values}
    return {TABLE}


def _pinned(pinned: Value, value: Any, columns: frozenset[str], key: str | None) -> Scope:
    if not isinstance(pinned, Column):
        return TABLE
    name, text = ".".join(pinned.path), "null" if value is None else f"={value}"
    if name in columns:
        return frozenset({(name, text)})
    return frozenset({(f"{name}/{BUCKETS}", str(zlib.crc32(text.encode()) % BUCKETS))}) if name == key else TABLE


def _simplified(scopes: set[Scope]) -> frozenset[Scope]:
    return frozenset({TABLE}) if TABLE in scopes or len(scopes) > _MAX_SCOPES else frozenset(scopes)
