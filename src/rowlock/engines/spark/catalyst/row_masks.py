"""Finds the rows that may meet a condition with numpy, where the condition compares integer columns with numbers.

Comparisons that are not understood keep every row, so a mask may keep too many rows, never too few (I3).  Spark evaluates
the whole condition over the rows that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.engines.spark.catalyst.predicates import INTEGERS, MIRROR, Node, column_name, literal

Mask = npt.NDArray[np.bool_]
_COMPARE: dict[str, Callable[..., Mask]] = {
    "EqualTo": np.equal,
    "LessThan": np.less,
    "LessThanOrEqual": np.less_equal,
    "GreaterThan": np.greater,
    "GreaterThanOrEqual": np.greater_equal,
}
_WIDTH = {"byte": 1, "short": 2, "integer": 4, "long": 8}


@dataclass(frozen=True, slots=True)
class RowMask:
    """`of` returns, for a table of the columns `names`, a mask of the rows that may meet the condition."""

    names: tuple[str, ...]
    of: Callable[[pa.Table], Mask]


@dataclass(frozen=True, slots=True)
class _Operand:
    """An integer column, or its remainder modulo a positive number."""

    name: str
    divisor: int | None = None

    def values(self, table: pa.Table) -> tuple[npt.NDArray[np.int64], Mask | None]:
        """(the values, a mask of those that are not null; None where none is null)."""
        column = table.column(self.name)
        valid = np.asarray(column.is_valid().to_numpy(), dtype=np.bool_) if column.null_count else None
        numbers = np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)
        return (np.fmod(numbers, self.divisor) if self.divisor else numbers), valid


def row_mask(tree: Node | None, columns: Mapping[int, str]) -> RowMask | None:
    """The mask of a resolved condition; None where it has no comparison that is understood."""
    names: set[str] = set()
    of = None if tree is None else _mask(tree, columns, names)
    return None if of is None else RowMask(tuple(sorted(names)), of)


def _mask(node: Node, columns: Mapping[int, str], names: set[str]) -> Callable[[pa.Table], Mask] | None:
    if node.name in ("And", "Or"):
        sides = [_mask(kid, columns, names) for kid in node.children]
        known = [s for s in sides if s is not None]
        if node.name == "And":
            return (lambda t: np.logical_and(known[0](t), known[1](t))) if len(known) == 2 else next(iter(known), None)
        return (lambda t: np.logical_or(known[0](t), known[1](t))) if len(known) == 2 else None
    if node.name == "In":
        among, numbers = _operand(node.children[0], columns), [n for k in node.children[1:] if (n := _number(k)) is not None]
        if among is None or len(numbers) < len(node.children) - 1:
            return None
        names.add(among.name)
        return lambda t: _compared(among, t, lambda values: np.isin(values, np.array(numbers, np.int64)))
    if node.name not in _COMPARE:
        return None
    left, right, name = *node.children, node.name
    operand, number = _operand(left, columns), _number(right)
    if operand is None:
        operand, number, name = _operand(right, columns), _number(left), MIRROR[node.name]
    if operand is None or number is None:
        return None
    names.add(operand.name)
    chosen, compare, bound = operand, _COMPARE[name], number
    return lambda t: _compared(chosen, t, lambda values: compare(values, bound))


def _compared(operand: _Operand, table: pa.Table, test: Callable[[npt.NDArray[np.int64]], Mask]) -> Mask:
    """The mask of the values for which `test` is True; a comparison with null is not."""
    values, valid = operand.values(table)
    found = test(values)
    return found if valid is None else np.logical_and(found, valid)


def _operand(node: Node, columns: Mapping[int, str]) -> _Operand | None:
    if node.name == "Remainder":
        inner, divisor = _operand(node.children[0], columns), _number(node.children[1])
        return _Operand(inner.name, divisor) if inner is not None and inner.divisor is None and divisor is not None and divisor > 0 else None
    if node.name == "Cast" and _WIDTH.get(str(node.children[0].fields.get("dataType")), 9) <= _WIDTH.get(str(node.fields.get("dataType")), 0):
        node = node.children[0]  # a cast to a wider integer changes no value
    if node.name != "AttributeReference" or node.fields.get("dataType") not in INTEGERS:
        return None
    name = column_name(node, columns)
    return None if name is None else _Operand(name)


def _number(node: Node) -> int | None:
    value = literal(node)
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None
