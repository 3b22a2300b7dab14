"""Conditions on every row besides NOT NULL: CHECK constraints, column invariants and generated columns.

Each is a SQL expression over the table's columns.  A row satisfies it only if it is true: null violates it, as
in delta-spark.  Evaluating expressions is up to the engine, but for a few forms that mean the same everywhere, nulls and NaN included, so that a writer
without Spark can check its rows; `parsed` raises Undecided for any other text (I9).  Pure.

    column = <> != == < <= > >= literal     whole numbers, doubles; text only by = and <>
    column IN (literal, ...), column IS [NOT] NULL, AND, OR, NOT, parentheses
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rowlock.conditions import named
from rowlock.exceptions import StatementRefused, UnsupportedFeature
from rowlock.protocol.actions import Metadata
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR, KEY, conditions, is_char
from rowlock.protocol.column_values import CHECK_NAME, GENERATED, generated_columns
from rowlock.protocol.predicates import And, Column, In, IsNull, Not, Operator, Or, Predicate, compare
from rowlock.protocol.schema import COLLATIONS, INTEGER_BITS, PrimitiveType, StructField, StructType, type_name
from rowlock.protocol.schema_fit import type_changes

CONSTRAINT_PREFIX = "delta.constraints."
INVARIANTS = "delta.invariants"


@dataclass(frozen=True, slots=True)
class Check:
    """A named condition on a row, and the table feature that it comes from."""

    name: str
    expression: str
    feature: str = "checkConstraints"


def checks_of(metadata: Metadata, schema: StructType, table: str | None = None) -> tuple[Check, ...]:
    """All conditions on a table's rows, sorted by name.  Raises UnsupportedFeature for an invariant that cannot be parsed."""
    named = [Check(key[len(CONSTRAINT_PREFIX) :], text) for key, text in metadata.configuration.items() if is_constraint(key)]
    generated = [Check(CHECK_NAME, g.condition, GENERATED) for g in generated_columns(schema, metadata.partition_columns)]
    bounded = [Check(name, expression, CHAR_VARCHAR) for name, expression in conditions(schema)]
    return tuple(sorted((*named, *_invariants(schema, table), *generated, *bounded), key=lambda c: (c.name, c.expression)))


def is_constraint(key: str) -> bool:
    """Whether a table property is a CHECK constraint."""
    return key.lower().startswith(CONSTRAINT_PREFIX)


def has_constraints(configuration: Mapping[str, str]) -> bool:
    """Whether any table property is a CHECK constraint."""
    return any(map(is_constraint, configuration))


def _invariants(schema: StructType, table: str | None) -> list[Check]:
    out = []
    for path, field in schema.all_fields():
        if (text := field.metadata.get(INVARIANTS)) is None:
            continue
        try:
            expression = orjson.loads(text)["expression"]["expression"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as e:
            why = f"the invariant of column {'.'.join(path)} has an unknown form: {text}"
            raise UnsupportedFeature(why, feature="invariants", access="write", table=table) from e
        out.append(Check(f"EXPRESSION({expression})", str(expression)))
    return out


_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_CHAIN = rf"(?P<chain>{_NAME}(?:\s*\.\s*{_NAME}|\s*\[\s*(?:\d+|'[^'\\]*')\s*\])*)(?P<call>\s*\()?"
_MENTIONS, _MENTIONS_AND_TEXTS = re.compile(_CHAIN), re.compile(rf"'[^']*'|\"[^\"]*\"|{_CHAIN}")
_PARTS = re.compile(rf"{_NAME}|\[[^\]]*\]")


def names_column(expression: str, path: Sequence[str]) -> bool:
    """Whether an expression may name what is at a path, such as (`a`, `element`, `x`): itself, what is within it, or what holds it as a whole.

    Where a text in it could end elsewhere than it seems to, names in texts count, too.
    """
    wanted = [p.lower() for p in path]
    pattern = _MENTIONS if any(mark in expression for mark in ("\\", "--", "/*")) else _MENTIONS_AND_TEXTS
    for found in pattern.finditer(expression.lower()):
        parts = [p[1:-1].replace("``", "`") if p[0] == "`" else p for p in _PARTS.findall(found["chain"] or "")]
        if found["call"] and found["chain"][-1] not in "`]":  # the last name is that of a function
            parts.pop()
        if parts and all(part[0] == "[" or part == name for part, name in zip(parts, wanted, strict=False)):
            return True
    return False


def check_retyped(metadata: Metadata, before: StructType, after: StructType, table: str, *, altered: bool) -> None:
    """Raises StatementRefused where a place has another type in `after`, and a check or a generated column names it: what was true of a row, or computed
    from it, need not be so under another type.  `altered`: whether a statement says the type, or the rows of a write have it."""
    stated = [c for c in checks_of(metadata, before, table) if c.feature not in (CHAR_VARCHAR, GENERATED)]
    checks = [(f"{CONSTRAINT_PREFIX}{c.name} -> {c.expression}", c.expression) for c in stated]
    computed = {g.name: g.expression for g in generated_columns(before)}
    of_generated = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE", "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"
    kinds = (
        ("CHECK constraint", checks, "constraints", "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"),
        ("generated column", [(f"{name} -> {text}", text) for name, text in computed.items()], "generatedColumns", *of_generated),
    )
    for path, old, new in type_changes(before, after):
        if path[0] in computed:
            types = {"expressionType": type_name(old, sql=True).upper(), "columnType": type_name(new, sql=True).upper()}
            text = f"Column {path[0]} is generated: its type is that of its expression, {types['expressionType']}, and does not become {types['columnType']}"
            condition = named("DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH", columnName=path[0], **types)
            raise StatementRefused(text, what="generated column", table=table, condition=condition)
        for what, texts, parameter, said, given in kinds:
            if not (found := [shown for shown, text in texts if names_column(text, path)]):
                continue
            name, types = ".".join(path), {"columnType": type_name(old, sql=True).upper(), "dataType": type_name(new, sql=True).upper()}
            text = f"Column {name} stays {types['columnType']}, and does not become {types['dataType']}: a {what} names it, {'; '.join(found)}. Drop that first"
            parameters = {"columnName": name, parameter: "\n".join(found)} | ({} if altered else types)
            raise StatementRefused(text, what=what, table=table, condition=named(said if altered else given, **parameters))


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*')|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<quoted>`[^`]+`)|(?P<word>[A-Za-z_]\w*)|(?P<mark><=>|<=|>=|<>|!=|==|[=<>(),]))"
)
_OPERATORS: dict[str, Operator] = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL"})


class Undecided(ValueError):
    """A condition that only Spark can evaluate."""


def parsed(text: str, schema: StructType) -> Predicate:
    """The condition in a text over a table's columns.  Raises Undecided for what is none of the forms above."""
    parser = _Parser(text, schema)
    found = parser.either()
    if parser.kind:
        raise Undecided(text)
    return found


class _Parser:
    def __init__(self, text: str, schema: StructType) -> None:
        self._text, self._schema = text, schema
        self._tokens = self._split()
        self.kind = self.token = ""
        self._next()

    def _split(self) -> Iterator[tuple[str, str]]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise Undecided(self._text)
            yield str(found.lastgroup), found[str(found.lastgroup)]
            at = found.end()

    def _next(self) -> str:
        """Passes over the token and returns it."""
        passed = self.token
        self.kind, self.token = next(self._tokens, ("", ""))
        return passed

    def _took(self, word: str) -> bool:
        if self.kind in ("word", "mark") and self.token.upper() == word:
            self._next()
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._took(word):
            raise Undecided(self._text)

    def either(self) -> Predicate:
        parts = [self._both()]
        while self._took("OR"):
            parts.append(self._both())
        return Or(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._one()]
        while self._took("AND"):
            parts.append(self._one())
        return And(tuple(parts))

    def _one(self) -> Predicate:
        if self._took("NOT"):
            return Not(self._one())
        if self._took("("):
            found = self.either()
            self._need(")")
            return found
        column = self._column()
        if self._took("IS"):
            negated = self._took("NOT")
            self._need("NULL")
            return Not(IsNull(Column((column.name,)))) if negated else IsNull(Column((column.name,)))
        if self._took("IN"):
            return self._any_of(column)
        op = _OPERATORS.get(self._next() if self.kind == "mark" else "")
        if op is None:
            raise Undecided(self._text)
        return compare(op, (column.name,), self._literal(column, op))

    def _any_of(self, column: StructField) -> Predicate:
        self._need("(")
        values = [self._literal(column, "=")]
        while self._took(","):
            values.append(self._literal(column, "="))
        self._need(")")
        return In(Column((column.name,)), tuple(values))

    def _column(self) -> StructField:
        if self.kind not in ("word", "quoted") or (self.kind == "word" and self.token.upper() in _KEYWORDS):
            raise Undecided(self._text)
        name = self._next().strip("`")
        found = [f for f in self._schema.fields if f.name.lower() == name.lower()]
        if len(found) != 1 or not isinstance(found[0].type, PrimitiveType):
            raise Undecided(self._text)
        return found[0]

    def _literal(self, column: StructField, op: Operator) -> Any:
        kind, token = self.kind, self._next()
        type_ = column.type.name if isinstance(column.type, PrimitiveType) else ""
        if kind == "number" and "." not in token and type_ in INTEGER_BITS and -(1 << 63) < int(token) < 1 << 63:
            return int(token)
        if kind == "number" and type_ == "double" and (abs(int(token)) <= 1 << 53 if "." not in token else len(token) <= 30):
            return float(token)
        plain = type_ == "string" and not column.metadata.get(COLLATIONS) and not is_char(column.metadata.get(KEY))  # Spark pads what it compares with a char
        if kind == "text" and plain and op in ("=", "!="):
            return token[1:-1]
        raise Undecided(self._text)
