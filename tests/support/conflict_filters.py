"""A filter in SQL text, as the peers' conflict cases give it, read into a predicate for skipping.

It keeps too much and never too little (I3): what is no plain comparison of a column with a literal
becomes Unknown.  Literals take their column's type, as Spark's implicit casts do; a string column
that is compared with whole numbers is compared as a number, and only where it partitions the table,
since the bounds of text say nothing about numbers.  Pure.

Statements never come this way: their predicates are resolved by the engine that runs them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowlock.exceptions import CorruptLog
from rowlock.log.pruning import files_that_may_match
from rowlock.protocol import partition_values
from rowlock.protocol.actions import AddFile
from rowlock.protocol.predicates import And, Column, In, IsNull, Like, Not, Operator, Or, Predicate, Unknown, compare
from rowlock.protocol.schema import ColumnPath, DataType, DecimalType, PrimitiveType, StructType

_OPERATORS: dict[type[exp.Expr], Operator] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>"}
_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE_TYPES = frozenset({"long", "integer", "short", "byte"})
_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
_TIMES = {
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp_ntz",
}
_PREFIX = re.compile(r"([^%_\\]+)%")


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate and the schema in whose types it compares.  Times without a zone are in UTC."""

    predicate: Predicate
    schema: StructType
    partition_columns: tuple[str, ...]

    def may_match(self, file: AddFile) -> bool:
        """Whether a row of the file may satisfy the filter."""
        typed: dict[str, Any] = {}
        for name in self.partition_columns:
            field = self.schema.find(name)
            if field is None or field.physical_name not in file.partition_values:
                continue
            try:
                typed[field.name] = partition_values.parse(file.partition_values[field.physical_name], field.type)
            except CorruptLog:
                continue  # what cannot be read keeps the file
        return bool(files_that_may_match(self.predicate, [typed], [file.parsed_stats()], self.schema)[0])


def read_filter(sql: str, schema: StructType, partition_columns: Sequence[str]) -> Filter:
    """The filter that a text means; one that cannot be read keeps every file."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError:
        return Filter(Unknown(), schema, tuple(partition_columns))
    schema = _with_numbers(tree, schema, {p.lower() for p in partition_columns})
    return Filter(_Reader(schema).read(tree), schema, tuple(partition_columns))


def _with_numbers(tree: exp.Expr, schema: StructType, partitions: set[str]) -> StructType:
    """The schema with a string partition column as a number, where the filter compares it with nothing but whole numbers."""
    literals: dict[str, list[exp.Expr]] = {}
    for node in tree.find_all(*_OPERATORS, exp.In, exp.Between):
        parts = [p for p in node.iter_expressions() if not isinstance(p, exp.Column)]
        for column in (p for p in node.iter_expressions() if isinstance(p, exp.Column)):
            literals.setdefault(column.name.lower(), []).extend(parts)
    numeric = {name for name, values in literals.items() if name in partitions and values and all(_is_whole(v) for v in values)}
    return StructType(tuple(replace(f, type=_LONG) if f.type == _STRING and f.name.lower() in numeric else f for f in schema.fields))


def _is_whole(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, exp.Literal) and inner.is_int


class _Reader:
    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, node: exp.Expr) -> Predicate:
        reader = _READERS.get(type(node))
        if reader is not None:
            return reader(self, node)
        return self._compare(node) if type(node) in _OPERATORS else Unknown()

    def both(self, node: exp.Expr) -> Predicate:
        return And((self.read(node.this), self.read(node.expression)))

    def either(self, node: exp.Expr) -> Predicate:
        return Or((self.read(node.this), self.read(node.expression)))

    def negation(self, node: exp.Expr) -> Predicate:
        return Not(self.read(node.this))

    def inner(self, node: exp.Expr) -> Predicate:
        return self.read(node.this)

    def constant(self, node: exp.Expr) -> Predicate:
        return And(()) if node.this is True else Or(())

    def is_null(self, node: exp.Expr) -> Predicate:
        column = self._column(node.this)
        return IsNull(Column(column[0])) if column and isinstance(node.expression, exp.Null) else Unknown()

    def member(self, node: exp.Expr) -> Predicate:
        column = self._column(node.this)
        if column is None or not node.expressions:
            return Unknown()
        values = [_literal(e, column[1]) for e in node.expressions]
        return Unknown() if None in values else In(Column(column[0]), tuple(v[0] for v in values if v is not None))

    def between(self, node: exp.Expr) -> Predicate:
        column = self._column(node.this)
        if column is None:
            return Unknown()
        low, high = _literal(node.args["low"], column[1]), _literal(node.args["high"], column[1])
        return And((compare(">=", column[0], low[0]) if low else Unknown(), compare("<=", column[0], high[0]) if high else Unknown()))

    def like(self, node: exp.Expr) -> Predicate:
        column, pattern = self._column(node.this), node.expression
        found = _PREFIX.fullmatch(pattern.this) if isinstance(pattern, exp.Literal) and pattern.is_string else None
        return Like(Column(column[0]), found[1]) if column and found and column[1] == _STRING else Unknown()

    def _compare(self, node: exp.Expr) -> Predicate:
        operator = _OPERATORS[type(node)]
        for left, right, op in ((node.this, node.expression, operator), (node.expression, node.this, _MIRRORED.get(operator, operator))):
            if (column := self._column(left)) is not None:
                value = _literal(right, column[1])
                return Unknown() if value is None else compare(op, column[0], value[0])
        return Unknown()

    def _column(self, node: exp.Expr) -> tuple[ColumnPath, DataType] | None:
        if not isinstance(node, exp.Column):
            return None
        parts = tuple(p.name for p in node.parts)
        for path in (parts, parts[1:]):  # the first part may be the table's name
            if path and (field := self._schema.resolve(path)) is not None:
                return path, field.type
        return None


def _literal(node: exp.Expr, type_: DataType) -> tuple[Any] | None:
    """The value of a literal in its column's type, boxed, for it may be null; None where that is not certain."""
    if isinstance(node, exp.Cast):  # DATE '2024-01-01' is read as a cast
        same = isinstance(type_, PrimitiveType) and _TIMES.get(node.to.this) == type_.name
        return _literal(node.this, type_) if same and node.this.is_string else None
    if isinstance(node, exp.Paren):
        return _literal(node.this, type_)
    if isinstance(node, exp.Null):
        return (None,)
    if isinstance(node, exp.Boolean):
        return (node.this,) if type_ == PrimitiveType("boolean") else None
    if isinstance(node, exp.Neg):
        inner = _literal(node.this, type_)
        return (-inner[0],) if inner and isinstance(inner[0], int | float | decimal.Decimal) and not isinstance(inner[0], bool) else None
    if not isinstance(node, exp.Literal):
        return None
    return _typed(node.this, is_text=node.is_string, type_=type_)


def _typed(text: str, *, is_text: bool, type_: DataType) -> tuple[Any] | None:
    name = type_.name if isinstance(type_, PrimitiveType | DecimalType) else ""
    if name == "string":
        return (text,) if is_text else None
    if name in _WHOLE_TYPES or name in ("float", "double") or isinstance(type_, DecimalType):
        if is_text and not (re.fullmatch(r"-?\d+", text) and name in _WHOLE_TYPES):
            return None  # which way Spark casts it depends on its settings
        try:
            return (int(text) if re.fullmatch(r"-?\d+", text) else decimal.Decimal(text),)
        except decimal.InvalidOperation:
            return None
    if not is_text or name not in ("date", "timestamp", "timestamp_ntz"):
        return None
    try:
        value: dt.date | None = partition_values.parse(text, PrimitiveType(name))
    except CorruptLog:
        return None
    return None if value is None else (value,)


_READERS: Mapping[type[exp.Expr], Callable[[_Reader, exp.Expr], Predicate]] = {
    exp.And: _Reader.both,
    exp.Or: _Reader.either,
    exp.Not: _Reader.negation,
    exp.Paren: _Reader.inner,
    exp.Boolean: _Reader.constant,
    exp.Is: _Reader.is_null,
    exp.In: _Reader.member,
    exp.Between: _Reader.between,
    exp.Like: _Reader.like,
}
