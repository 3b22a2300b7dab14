"""Compiles SQL expressions into Python functions over rows in memory, with SQL's three-valued logic; NULL is None.

sqlglot parses the text in Spark's dialect.  Expressions that are not in `_BUILDERS` are refused by name, never guessed (I9),
and so are comparisons that Spark would decide by an implicit cast.  Values are integers, strings and booleans.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowlock.exceptions import InvalidInput, StatementRefused

Value = int | str | bool | None
Row = Mapping[str, Value]
Rows = Sequence[Row]
Evaluate = Callable[[Rows], Value]
Build = Callable[[exp.Expr], Evaluate]


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation that expressions may refer to: its alias and its columns."""

    alias: str
    columns: tuple[str, ...]


Scope = tuple[Relation, ...]
"""The relations that an expression may refer to; the compiled function takes one row of each, in this order."""


@functools.lru_cache(maxsize=65_536)
def compile_expression(sql: str, scope: Scope) -> Evaluate:
    """The function that evaluates an expression over one row of each relation in `scope`.

    Raises StatementRefused for what is not supported, InvalidInput for text that cannot be parsed or a column that no
    relation has.
    """
    return _Compiler(scope, sql).build(parse_expression(sql))


@functools.lru_cache(maxsize=65_536)
def parse_expression(sql: str) -> exp.Expr:
    """The syntax tree of an expression in Spark's dialect."""
    try:
        return sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError as error:
        raise InvalidInput(f"the expression {sql!r} cannot be read: {error}") from error


def is_true(evaluate: Evaluate, rows: Rows) -> bool:
    """Whether a predicate is true for the rows; NULL is not."""
    return evaluate(rows) is True


def negate(value: Value) -> Value:
    """NOT in three-valued logic."""
    return None if value is None else not value


def compare(operator: str, left: Value, right: Value) -> Value:
    """`left operator right`; NULL where one side is NULL.  Raises InvalidInput for values of different types."""
    if left is None or right is None:
        return None
    if type(left) is not type(right):
        raise InvalidInput(f"{left!r} {operator} {right!r} compares two types")
    return _COMPARE[operator](left, right)


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


def _remainder(a: int, b: int) -> int:
    """The remainder of a / b with the sign of the dividend, as in Spark and DuckDB."""
    if b == 0:
        raise InvalidInput(f"{a} % 0: division by zero")
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


_ARITHMETIC: dict[type[exp.Expr], tuple[str, Callable[[int, int], int]]] = {
    exp.Add: ("+", lambda a, b: a + b),
    exp.Sub: ("-", lambda a, b: a - b),
    exp.Mul: ("*", lambda a, b: a * b),
    exp.Mod: ("%", _remainder),
}
_COMPARISON: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def _calculate(sign: str, function: Callable[[int, int], int], left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if type(left) is not int or type(right) is not int:
        raise InvalidInput(f"{left!r} {sign} {right!r}: arithmetic is over integers")
    result = function(left, right)
    if not -(1 << 63) <= result < 1 << 63:
        raise InvalidInput(f"{left} {sign} {right} does not fit into 64 bits")
    return result


class _Compiler:
    """Builds the function of one expression; column names are looked up once, without regard to case."""

    def __init__(self, scope: Scope, sql: str) -> None:
        self._scope, self._sql = scope, sql

    def build(self, node: exp.Expr) -> Evaluate:
        kind = type(node)
        if kind in _COMPARISON:
            return self._binary(node, functools.partial(compare, _COMPARISON[kind]))
        if kind in _ARITHMETIC:
            return self._binary(node, functools.partial(_calculate, *_ARITHMETIC[kind]))
        builder = _BUILDERS.get(kind)
        if builder is None:
            raise StatementRefused(f"{kind.__name__} is not supported in the expression {self._sql!r}", what=kind.__name__)
        return builder(self, node)

    def _binary(self, node: exp.Expr, function: Callable[[Value, Value], Value]) -> Evaluate:
        left, right = self.build(node.this), self.build(node.expression)
        return lambda rows: function(left(rows), right(rows))

    def column(self, node: exp.Expr) -> Evaluate:
        assert isinstance(node, exp.Column)
        alias, wanted = node.table.lower(), node.name.lower()
        found = [(i, c) for i, r in enumerate(self._scope) if alias in ("", r.alias.lower()) for c in r.columns if c.lower() == wanted]
        if len(found) != 1:
            raise InvalidInput(f"the column {node.sql()} is {'ambiguous' if found else 'not there'} in {self._sql!r}")
        index, name = found[0]
        return lambda rows: rows[index][name]

    def literal(self, node: exp.Expr) -> Evaluate:
        assert isinstance(node, exp.Literal)
        if not node.is_string and not node.is_int:
            raise StatementRefused(f"the number {node.this} is not an integer", what="Literal")
        value: Value = node.this if node.is_string else int(node.this)
        return lambda rows: value

    def both(self, node: exp.Expr) -> Evaluate:
        left, right = self.build(node.this), self.build(node.expression)

        def conjunction(rows: Rows) -> Value:
            a, b = left(rows), right(rows)
            return False if a is False or b is False else None if a is None or b is None else True

        return conjunction

    def either(self, node: exp.Expr) -> Evaluate:
        left, right = self.build(node.this), self.build(node.expression)

        def disjunction(rows: Rows) -> Value:
            a, b = left(rows), right(rows)
            return True if a is True or b is True else None if a is None or b is None else False

        return disjunction

    def is_null(self, node: exp.Expr) -> Evaluate:
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            raise StatementRefused(f"IS {node.expression.sql()} is not supported in {self._sql!r}", what="Is")
        wanted = None if isinstance(node.expression, exp.Null) else node.expression.this
        operand = self.build(node.this)
        return lambda rows: operand(rows) is wanted

    def null_safe(self, node: exp.Expr) -> Evaluate:
        left, right = self.build(node.this), self.build(node.expression)

        def same(rows: Rows) -> Value:
            a, b = left(rows), right(rows)
            return a is b if a is None or b is None else compare("=", a, b)

        return same

    def member(self, node: exp.Expr) -> Evaluate:
        assert isinstance(node, exp.In)
        if not node.expressions:
            raise StatementRefused(f"IN over a subquery in {self._sql!r}", what="In")
        operand, values = self.build(node.this), [self.build(e) for e in node.expressions]

        def membership(rows: Rows) -> Value:
            outcomes = [compare("=", operand(rows), v(rows)) for v in values]
            return True if True in outcomes else None if None in outcomes else False

        return membership

    def between(self, node: exp.Expr) -> Evaluate:
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return self.both(exp.And(this=low, expression=high))

    def case(self, node: exp.Expr) -> Evaluate:
        assert isinstance(node, exp.Case)
        subject, default = node.this, node.args.get("default")
        branches = []
        for branch in node.args["ifs"]:
            test = exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject else branch.this
            branches.append((self.build(test), self.build(branch.args["true"])))
        if default is not None:
            branches.append((lambda rows: True, self.build(default)))

        def chosen(rows: Rows) -> Value:
            return next((value(rows) for test, value in branches if test(rows) is True), None)

        return chosen

    def coalesce(self, node: exp.Expr) -> Evaluate:
        options = [self.build(e) for e in (node.this, *node.expressions)]

        def first(rows: Rows) -> Value:
            return next((v for v in (option(rows) for option in options) if v is not None), None)

        return first

    def negation(self, node: exp.Expr) -> Evaluate:
        operand = self.build(node.this)
        return lambda rows: negate(operand(rows))

    def minus(self, node: exp.Expr) -> Evaluate:
        operand = self.build(node.this)
        return lambda rows: _calculate("-", lambda a, b: a - b, 0, operand(rows))

    def constant(self, node: exp.Expr) -> Evaluate:
        value = None if isinstance(node, exp.Null) else node.this
        return lambda rows: value

    def inner(self, node: exp.Expr) -> Evaluate:
        return self.build(node.this)


_BUILDERS: dict[type[exp.Expr], Callable[[_Compiler, exp.Expr], Evaluate]] = {
    exp.Column: _Compiler.column,
    exp.Literal: _Compiler.literal,
    exp.Null: _Compiler.constant,
    exp.Boolean: _Compiler.constant,
    exp.Paren: _Compiler.inner,
    exp.And: _Compiler.both,
    exp.Or: _Compiler.either,
    exp.Not: _Compiler.negation,
    exp.Neg: _Compiler.minus,
    exp.Is: _Compiler.is_null,
    exp.NullSafeEQ: _Compiler.null_safe,
    exp.In: _Compiler.member,
    exp.Between: _Compiler.between,
    exp.Case: _Compiler.case,
    exp.Coalesce: _Compiler.coalesce,
}
