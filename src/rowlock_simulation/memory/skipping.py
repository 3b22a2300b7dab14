"""Translates the text of a condition into the predicate by which files are skipped (`protocol.predicates`).

The predicate may keep too many files, never too few (I3): anything but a comparison of one column with literals becomes
Unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from rowlock.protocol import predicates as to
from rowlock_simulation.memory.sql.expressions import Relation, Row, parse_expression

_OPERATORS: dict[type[exp.Expr], to.Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_MIRRORED: dict[to.Operator, to.Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def predicate_of(sql: str | None, target: Relation) -> to.Predicate | None:
    """The skipping predicate of the condition of an UPDATE or DELETE; None without a condition."""
    return None if sql is None else _Translator(target, None, ()).read(parse_expression(sql))


def predicate_of_merge(on: str, target: Relation, source: Relation, rows: Sequence[Row]) -> to.Predicate:
    """The skipping predicate of a MERGE: true for every target row that may match some source row under ON."""
    return _Translator(target, source, rows).read(parse_expression(on))


class _Translator:
    """Translates one expression; a column of the source stands for all values that the source rows hold in it."""

    def __init__(self, target: Relation, source: Relation | None, rows: Sequence[Row]) -> None:
        self._target, self._source, self._rows = target, source, rows

    def read(self, node: exp.Expr) -> to.Predicate:
        translate = _TRANSLATIONS.get(type(node))
        if translate is not None:
            return translate(self, node)
        return self._compare(node) if type(node) in _OPERATORS else to.Unknown()

    def conjunction(self, node: exp.Expr) -> to.Predicate:
        return to.And((self.read(node.this), self.read(node.expression)))

    def disjunction(self, node: exp.Expr) -> to.Predicate:
        return to.Or((self.read(node.this), self.read(node.expression)))

    def inner(self, node: exp.Expr) -> to.Predicate:
        return self.read(node.this)

    def negation(self, node: exp.Expr) -> to.Predicate:
        """NOT over columns of the target; Unknown where a source column is in it, which stands for several values."""
        return to.Unknown() if self._mentions_source(node) else to.Not(self.read(node.this))

    def is_null(self, node: exp.Expr) -> to.Predicate:
        column = self._column(node.this)
        return to.IsNull(to.Column((column,))) if column and isinstance(node.expression, exp.Null) else to.Unknown()

    def member(self, node: exp.Expr) -> to.Predicate:
        assert isinstance(node, exp.In)
        column, values = self._column(node.this), [_literal(e) for e in node.expressions]
        if column is None or not values or any(v is None for v in values):
            return to.Unknown()
        return to.In(to.Column((column,)), tuple(v[0] for v in values if v is not None and v[0] is not None))

    def between(self, node: exp.Expr) -> to.Predicate:
        column, low, high = self._column(node.this), _literal(node.args["low"]), _literal(node.args["high"])
        if column is None or low is None or high is None:
            return to.Unknown()
        return to.And((to.compare(">=", (column,), low[0]), to.compare("<=", (column,), high[0])))

    def _compare(self, node: exp.Expr) -> to.Predicate:
        operator = _OPERATORS[type(node)]
        for left, right, op in ((node.this, node.expression, operator), (node.expression, node.this, _MIRRORED.get(operator, operator))):
            column = self._column(left)
            if column is None:
                continue
            if (literal := _literal(right)) is not None:
                return to.compare(op, (column,), literal[0])
            if (values := self._source_values(right)) is not None:
                return _any_of(to.compare(op, (column,), value) for value in values)
        return to.Unknown()

    def _column(self, node: exp.Expr) -> str | None:
        """The column of the target that a node refers to; None for anything else."""
        if not isinstance(node, exp.Column) or node.table.lower() not in ("", self._target.alias):
            return None
        if not node.table and self._source and node.name.lower() in (c.lower() for c in self._source.columns):
            return None
        return next((c for c in self._target.columns if c.lower() == node.name.lower()), None)

    def _source_values(self, node: exp.Expr) -> set[Any] | None:
        if self._source is None or not isinstance(node, exp.Column) or node.table.lower() != self._source.alias:
            return None
        name = next((c for c in self._source.columns if c.lower() == node.name.lower()), None)
        return None if name is None else {row[name] for row in self._rows}

    def _mentions_source(self, node: exp.Expr) -> bool:
        return self._source is not None and any(c.table.lower() in ("", self._source.alias) for c in node.find_all(exp.Column))


def _any_of(parts: Iterable[to.Predicate]) -> to.Predicate:
    return to.Or(tuple(parts))


def _literal(node: exp.Expr) -> tuple[Any] | None:
    """The value of a literal in a tuple, since it may be None; None for anything but a literal."""
    if isinstance(node, exp.Null):
        return (None,)
    if isinstance(node, exp.Literal):
        return (node.this,) if node.is_string else (int(node.this),) if node.is_int else None
    if isinstance(node, exp.Neg) and (inner := _literal(node.this)) is not None and type(inner[0]) is int:
        return (-inner[0],)
    return (node.this,) if isinstance(node, exp.Boolean) else None


_TRANSLATIONS: dict[type[exp.Expr], Callable[[_Translator, exp.Expr], to.Predicate]] = {
    exp.And: _Translator.conjunction,
    exp.Or: _Translator.disjunction,
    exp.Paren: _Translator.inner,
    exp.Not: _Translator.negation,
    exp.Is: _Translator.is_null,
    exp.In: _Translator.member,
    exp.Between: _Translator.between,
}
