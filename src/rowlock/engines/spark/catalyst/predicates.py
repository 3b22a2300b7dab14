"""Translates a resolved Catalyst condition into the predicate by which files are skipped (`protocol.skipping`).

Only expressions whose meaning is certain are translated; any other becomes Unknown, which keeps the file.  So a predicate
may keep too many files, never too few (I3).
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pyspark.sql.types import StructType

from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, is_collated
from rowlock.protocol import skipping as ir
from rowlock.protocol.bounds import REPLACEMENT_CHARACTER
from rowlock.protocol.char_varchar import KEY, is_char
from rowlock.protocol.schema import INTEGER_BITS

_COMPARISONS: dict[str, ir.Operator] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
MIRROR = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
"""The comparison that means the same with its sides exchanged."""


def skipping_predicate(condition: Condition | None, columns: Mapping[int, str]) -> ir.Predicate | None:
    """The skipping predicate of a condition, None where every file is kept.  `columns` maps ids of attributes to the table's column names; what it lacks, as it
    lacks text with a collation, is left to Spark.
    """
    predicate = ir.Unknown() if condition is None else _convert(condition.tree, columns)
    return None if isinstance(predicate, ir.Unknown) else predicate


def folded(bridge: Catalyst, condition: JavaObject | None) -> Condition | None:
    """A condition after Catalyst folded constants and unwrapped casts of columns; None for no condition."""
    if condition is None:
        return None
    relation = bridge.filter_node(condition, bridge.one_row())
    expression = bridge.unwrap_casts.apply(bridge.constant_folding.apply(relation)).condition()
    tree, _ = _tree(orjson.loads(expression.toJSON()), 0)
    return Condition(expression, tree)


def column_name(node: Node, columns: Mapping[int, str]) -> str | None:
    """The table's column that an attribute refers to; None for another attribute."""
    return columns.get(int(node.fields["exprId"]["id"]))


class Node:
    """An expression of Catalyst, read from its JSON; `path` leads to it from the whole condition, by the numbers of the children."""

    def __init__(self, fields: dict[str, Any], children: list[Node], path: tuple[int, ...] = ()) -> None:
        self.fields, self.children, self.path = fields, children, path
        self.name = fields["class"].rsplit(".", 1)[-1]

    def subtree(self) -> list[Node]:
        """The node and all that lie below it."""
        return [self, *(n for kid in self.children for n in kid.subtree())]


@dataclass(frozen=True, slots=True)
class Condition:
    """A resolved condition: Catalyst's expression, and the same as a tree of nodes."""

    expression: JavaObject
    tree: Node

    def expression_of(self, node: Node) -> JavaObject:
        """Catalyst's expression of a node of the tree."""
        found = self.expression
        for number in node.path:
            found = found.children().apply(number)
        return found


def inlined(node: Node) -> Node | None:
    """The body of a `With` (Catalyst's BETWEEN) that has one common expression, with this in the place of the references to it; None for another."""
    body, *common = node.children
    if len(common) != 1 or any(n.name == "With" for kid in node.children for n in kid.subtree()):
        return None
    return _replaced(body, common[0].children[0])


def _replaced(node: Node, common: Node) -> Node:
    if node.name == "CommonExpressionRef":
        return common
    return Node(node.fields, [_replaced(kid, common) for kid in node.children], node.path)


def _tree(nodes: list[dict[str, Any]], at: int, path: tuple[int, ...] = ()) -> tuple[Node, int]:
    fields, children, at = nodes[at], [], at + 1
    for number in range(fields["num-children"]):
        child, at = _tree(nodes, at, (*path, number))
        children.append(child)
    return Node(fields, children, path), at


def _convert(node: Node, columns: Mapping[int, str]) -> ir.Predicate:
    kids = node.children
    if node.name == "And":
        return ir.And((_convert(kids[0], columns), _convert(kids[1], columns)))
    if node.name == "Or":
        return ir.Or((_convert(kids[0], columns), _convert(kids[1], columns)))
    if node.name == "Not":
        return ir.Not(_convert(kids[0], columns))
    if node.name in ("IsNull", "IsNotNull"):
        column = _column(kids[0], columns)
        return ir.Unknown() if column is None else ir.IsNull(column) if node.name == "IsNull" else ir.IsNotNull(column)
    if node.name == "With":
        body = inlined(node)
        return ir.Unknown() if body is None else _convert(body, columns)
    if node.name in _COMPARISONS:
        return _comparison(node.name, kids[0], kids[1], columns)
    if node.name == "In":
        return _in(kids, columns)
    if node.name == "StartsWith":
        column, value = _column(kids[0], columns), literal(kids[1])
        return ir.StartsWith(column, value) if column is not None and isinstance(value, str) else ir.Unknown()
    return ir.Unknown()


def _comparison(name: str, left: Node, right: Node, columns: Mapping[int, str]) -> ir.Predicate:
    column, value = _column(left, columns), literal(right)
    if column is None:
        column, value, name = _column(right, columns), literal(left), MIRROR[name]
    if column is None or value is None:
        return ir.Unknown()
    return ir.Compare(_COMPARISONS[name], column, value)


def _in(kids: list[Node], columns: Mapping[int, str]) -> ir.Predicate:
    column, values = _column(kids[0], columns), [literal(k) for k in kids[1:]]
    if column is None or any(v is None for v in values):
        return ir.Unknown()
    return ir.In(column, tuple(values))


def _column(node: Node, columns: Mapping[int, str]) -> tuple[str, ...] | None:
    if node.name == "AttributeReference":
        name = columns.get(int(node.fields["exprId"]["id"]))
        return None if name is None else (name,)
    if node.name == "Cast" and node.fields.get("dataType") == node.children[0].fields.get("dataType") != "string":  # which is its name under any collation
        return _column(node.children[0], columns)
    if node.name == "GetStructField" and node.fields.get("name"):
        outer = _column(node.children[0], columns)
        return None if outer is None else (*outer, node.fields["name"])
    return None


def literal(node: Node) -> Any:
    """A literal as a Python value; None for what is no literal, is null, or has no certain meaning in Python."""
    if node.name != "Literal" or node.fields.get("value") is None:
        return None
    kind, text = node.fields["dataType"], node.fields["value"]
    if not isinstance(kind, str):
        return None
    if kind in INTEGER_BITS:
        return int(text)
    if kind in ("double", "float"):
        number = float(text)
        return number if kind == "double" and math.isfinite(number) else None
    if kind == "string":
        return None if REPLACEMENT_CHARACTER in text else str(text)  # it also stands for bytes that are not UTF-8
    if kind == "boolean":
        return str(text) == "true"
    if kind == "date":
        return _date(str(text))
    if kind.startswith("decimal"):
        return decimal.Decimal(str(text))
    return None


def _date(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


_KEY_TYPES = INTEGER_BITS.keys() | {"string", "date", "boolean", "timestamp"}


def key_columns(
    condition: JavaObject, left: Sequence[JavaObject], right: Sequence[JavaObject], types: tuple[StructType, StructType]
) -> tuple[tuple[int, int], ...]:
    """(target column, source column) by position for each plain equality in the conjunction `condition`.

    `types` are the columns of both sides, to which `left` and `right` may have more attributes at their ends.  Only for types whose equality is
    the same in Arrow and Spark, which text with a collation, or filled up with spaces, is not; integers of different widths count as one type.
    """
    targets, sources = (
        {
            int(a.exprId().id()): n
            for n, (a, f) in enumerate(zip(side, columns.fields, strict=False))
            if not is_collated(f.dataType) and not is_char(f.metadata.get(KEY))
        }
        for side, columns in zip((left, right), types, strict=True)
    )
    tree, _ = _tree(orjson.loads(condition.toJSON()), 0)
    out: list[tuple[int, int]] = []
    for node in conjuncts(tree):
        if node.name != "EqualTo":
            continue
        sides = [_key(kid) for kid in node.children]
        for a, b in (sides, sides[::-1]):
            if a is not None and b is not None and a[0] in targets and b[0] in sources and a[1] == b[1]:
                out.append((targets[a[0]], sources[b[0]]))
                break
    return tuple(out)


def conjuncts(node: Node) -> list[Node]:
    """The parts of a conjunction; the node itself where it is none."""
    return [c for kid in node.children for c in conjuncts(kid)] if node.name == "And" else [node]


def _key(node: Node) -> tuple[int, str] | None:
    """(attribute id, type) of one side of an equality that is a column, or an integer column cast to a wider integer; else None."""
    if (
        node.name == "Cast"
        and node.children[0].name == "AttributeReference"
        and _type_name(node) in INTEGER_BITS
        and _type_name(node.children[0]) in INTEGER_BITS
    ):
        node = node.children[0]
    if node.name != "AttributeReference" or (kind := _type_name(node)) not in _KEY_TYPES:
        return None
    return int(node.fields["exprId"]["id"]), "integer" if kind in INTEGER_BITS else kind


def _type_name(node: Node) -> str:
    """The name of a node's type; of a nested one, which Spark gives as an object, text that names no type."""
    return str(node.fields.get("dataType"))
