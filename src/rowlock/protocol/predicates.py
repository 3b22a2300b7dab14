"""The algebra of conditions: frozen values for the rows that a statement selects, from every source and form of condition.

Catalyst's expressions, texts of CHECK constraints and conditions of logs are translated into it; `protocol.evaluation` reads it.
What has no certain meaning here is `Unknown`, which may be true of every row (I3).  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal as OneOf, TypeAlias, get_args

from rowlock.protocol.schema import ColumnPath, DataType

Operator = OneOf["=", "<=>", "<", "<=", ">", ">=", "!="]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct, by its path of logical names."""

    path: ColumnPath


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.  Without a type it takes that of what it is compared with; a timestamp may be given as microseconds since 1970."""

    value: Any
    type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `functions.FUNCTIONS` and its arguments."""

    name: str
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value in another type."""

    value: Value
    type: DataType


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
    """`left op right`."""

    op: Operator
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if the value is null."""

    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """True if the value equals one of some constants; these take its type."""

    value: Value
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """True if a text begins with `start`, ends with `end` and holds each of `inside`; unless `exact`, that is necessary but not sufficient."""

    value: Value
    start: str = ""
    inside: tuple[str, ...] = ()
    end: str = ""
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition that is not understood: it may be true and may be false.

    part      names it to an interpreter that can evaluate it by other means; () where there are none
    columns   the columns that it reads, where it has a name
    known     a condition that may be true, or false, wherever this one is
    """

    part: tuple[int, ...] | None = None
    columns: tuple[str, ...] = ()
    known: Predicate | None = None


Value: TypeAlias = Column | Literal | Call | Cast
Predicate: TypeAlias = And | Or | Not | Compare | IsNull | In | Like | Unknown
_NODES = frozenset((*get_args(Value), *get_args(Predicate)))

_NEGATED: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def compare(op: Operator, column: ColumnPath, value: Any) -> Compare:
    """The comparison of a column with a constant of its type; None is null."""
    return Compare(op, Column(column), Literal(value))


def normal(p: Predicate, negated: bool = False) -> Predicate:
    """The same condition in three-valued logic, with NOT only before what cannot be turned round: IS NULL, IN, LIKE, <=>, Unknown.

    A negated comparison becomes the opposite one: both are null where a side is null.
    """
    if isinstance(p, Not):
        return normal(p.part, not negated)
    if isinstance(p, (And, Or)):
        parts = tuple(normal(part, negated) for part in p.parts)
        return And(parts) if isinstance(p, And) != negated else Or(parts)
    if not negated:
        return p
    if isinstance(p, Compare) and p.op in _NEGATED:
        return Compare(_NEGATED[p.op], p.left, p.right)
    return Not(p)


def conjuncts(p: Predicate) -> Iterator[Predicate]:
    """The parts of a conjunction; the condition itself where it is none."""
    if isinstance(p, And):
        for part in p.parts:
            yield from conjuncts(part)
    else:
        yield p


def nodes(node: Any) -> Iterator[Any]:
    """A condition or value, and all values and conditions in it."""
    if type(node) in _NODES:
        yield node
        node = tuple(getattr(node, name) for name in node.__slots__)
    if type(node) is tuple:
        for part in node:
            yield from nodes(part)


def columns_of(predicate: Predicate) -> set[ColumnPath]:
    """Every column that the condition reads, as far as it is understood."""
    return {n.path for n in nodes(predicate) if isinstance(n, Column)}
