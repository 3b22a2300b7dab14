"""Whether a condition may be true in each of many places: of rows on the driver, or of all rows of a file.

One interpreter for both (see `intervals`): it may answer that it cannot tell, never wrongly that a condition is not true (I3).
Null counts as not true.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.protocol import arrays
from rowlock.protocol.functions import FUNCTIONS, cast
from rowlock.protocol.intervals import LONG, MAYBE, TRUE, Interval, all_of, any_of, constant, literal, may_be_in, may_be_like, may_compare
from rowlock.protocol.predicates import And, Call, Column, Compare, In, IsNull, Like, Literal, Not, Or, Predicate, Unknown, Value, normal
from rowlock.protocol.schema import ColumnPath

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Places:
    """Rows or files, and what is known of them.

    column  what is known of a column in each place; None where nothing is
    ask     the places where a condition that is not understood is true, of those that can be asked about it; None where that is unknown
    """

    column: Callable[[ColumnPath], Interval | None]
    ask: Callable[[Unknown], Any] = lambda _: None
    _known: dict[ColumnPath, Interval | None] = field(default_factory=dict)

    def of(self, path: ColumnPath) -> Interval | None:
        """What is known of a column, looked up once."""
        if path not in self._known:
            self._known[path] = self.column(path)
        return self._known[path]


def may_hold(predicate: Predicate, places: Places) -> Any:
    """Where a condition may be true, as Arrow booleans or one for all places; null where that is unknown.

    Of rows, whose values are known, True is certain too.
    """
    return _may(normal(predicate), places)


def as_mask(found: Any, size: int) -> Mask:
    """An answer of `may_hold` as a mask of so many places; what is unknown may be true."""
    if isinstance(found, pa.Scalar):
        return np.full(size, found.as_py() is not False)
    return arrays.to_numpy(pc.fill_null(found, TRUE) if found.null_count else found)


def is_understood(leaf: Predicate, places: Places) -> bool:
    """Whether a comparison or test can be computed of columns of these types."""
    return _leaf(leaf.part if isinstance(leaf, Not) else leaf, True, places) is not None


def _may(p: Predicate, places: Places) -> Any:
    if isinstance(p, And):
        return all_of([_may(part, places) for part in p.parts])
    if isinstance(p, Or):
        return any_of([_may(part, places) for part in p.parts])
    found = _leaf(p.part, False, places) if isinstance(p, Not) else _leaf(p, True, places)
    return MAYBE if found is None else found


def _leaf(p: Predicate, outcome: bool, places: Places) -> Any:
    """Where a test may have an outcome, True or False; None where nothing is known of it."""
    if isinstance(p, Unknown):
        known = MAYBE if p.known is None else _may(normal(p.known, not outcome), places)
        answer = None if p.part is None else places.ask(p)
        return known if answer is None else all_of((known, answer if outcome else pc.invert(answer)))
    if isinstance(p, Compare):
        a, b = _operands(p.left, p.right, places)
        if a is None or b is None:
            return None
        if outcome:
            return may_compare(p.op, a, b)
        differs = may_compare("!=", a, b)  # p.op is <=>
        return None if differs is None else any_of((all_of((a.null, b.some)), all_of((a.some, b.null)), differs))
    assert isinstance(p, (IsNull, In, Like))
    value = value_of(p.value, places)
    if value is None:
        return None
    if isinstance(p, IsNull):
        return value.null if outcome else value.some
    if isinstance(p, In):
        return may_be_in(value, p.values, outcome=outcome)
    return may_be_like(value, p.start, p.inside, p.end, outcome=outcome, exact=p.exact)


def _operands(left: Value, right: Value, places: Places) -> tuple[Interval | None, Interval | None]:
    if isinstance(left, Literal) and left.type is None:
        b, a = _operands(right, left, places)
        return a, b
    a = value_of(left, places)
    if isinstance(right, Literal) and right.type is None:
        return a, None if a is None else literal(right.value, a.type)
    return a, value_of(right, places)


def value_of(value: Value, places: Places) -> Interval | None:
    """What is known of a value in each place; None where nothing is."""
    if isinstance(value, Column):
        return places.of(value.path)
    if isinstance(value, Literal):
        return constant(value.value, value.type or LONG)
    if isinstance(value, Call):
        args = [value_of(a, places) for a in value.args]
        known = [a for a in args if a is not None]
        return FUNCTIONS[value.name](known) if len(known) == len(args) else None
    inner = value_of(value.value, places)
    return None if inner is None else cast(inner, value.type)
