"""Translates a resolved Catalyst condition into the algebra of conditions (`protocol.predicates`).

Only expressions whose meaning is certain are translated; any other becomes Unknown, with its place in the condition where Spark can be
asked about it alone.  So files and rows that are kept may be too many, never too few (I3).
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql.types import StructType

from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, is_collated
from rowlock.exceptions import UnsupportedFeature
from rowlock.protocol import predicates as ir, schema as types
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.bounds import REPLACEMENT_CHARACTER
from rowlock.protocol.char_varchar import KEY, is_char
from rowlock.protocol.evaluation import Places, is_understood
from rowlock.protocol.intervals import Interval, kind_of, of_rows
from rowlock.protocol.schema import INTEGER_BITS, ColumnPath, DataType, PrimitiveType

_COMPARISONS: dict[str, ir.Operator] = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=",
}  # fmt: skip
_FUNCTIONS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Remainder": "%", "Coalesce": "coalesce",
    "Upper": "upper", "Lower": "lower", "Length": "length", "Substring": "substring", "StringTrim": "trim", "Concat": "concat",
    "Year": "year", "Month": "month", "DayOfMonth": "day", "DateAdd": "date_add", "DateSub": "date_sub", "DateDiff": "datediff",
}  # fmt: skip
"""The functions of the algebra by the names of their Catalyst classes."""
_BOOLEAN = PrimitiveType("boolean")
_COLUMNS_BY_VALUE = 3
_BY_VALUE = {"integer", "decimal", "string", "binary", "date", "timestamp", "timestamp_ntz", "boolean"}
"""The kinds of columns whose values Arrow distinguishes just as Spark's functions do: 0.0 and -0.0 are one number with two texts."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A resolved condition: Catalyst's expression, the same in the algebra, and the types of the columns in that."""

    expression: JavaObject
    predicate: ir.Predicate
    types: Mapping[ColumnPath, DataType] = field(default_factory=dict)

    @property
    def reads(self) -> ir.Predicate | None:
        """The predicate by which files are skipped; None where every file is kept."""
        return self.predicate if ir.columns_of(self.predicate) else None

    def part(self, path: Sequence[int]) -> JavaObject:
        """Catalyst's expression of an Unknown's `part`."""
        found = self.expression
        for number in path:
            found = found.children().apply(number)
        return found


def translated(bridge: Catalyst, condition: JavaObject | None, columns: Mapping[int, str]) -> Condition | None:
    """A condition in the algebra, after Catalyst folded constants and unwrapped casts of columns; None for no condition.

    `columns` maps ids of attributes to the table's column names; what it lacks, as it lacks text with a collation, is left to Spark.
    """
    if condition is None:
        return None
    relation = bridge.filter_node(condition, bridge.one_row())
    expression = bridge.sets_of_in.apply(bridge.unwrap_casts.apply(bridge.constant_folding.apply(relation))).condition()
    tree, _ = _tree(orjson.loads(expression.toJSON()), 0)
    translator = _Translator(expression, columns)
    return Condition(expression, translator.predicate(tree), translator.types)


class _Node:
    """An expression of Catalyst, read from its JSON; `path` leads to it from the whole condition, by the numbers of the children."""

    def __init__(self, fields: dict[str, Any], children: list[_Node], path: tuple[int, ...] = ()) -> None:
        self.fields, self.children, self.path = fields, children, path
        self.name = fields["class"].rsplit(".", 1)[-1]

    def subtree(self) -> list[_Node]:
        """The node and all that lie below it."""
        return [self, *(n for kid in self.children for n in kid.subtree())]


def _tree(nodes: list[dict[str, Any]], at: int, path: tuple[int, ...] = ()) -> tuple[_Node, int]:
    fields, children, at = nodes[at], [], at + 1
    for number in range(fields["num-children"]):
        child, at = _tree(nodes, at, (*path, number))
        children.append(child)
    return _Node(fields, children, path), at


def _operands(node: _Node) -> list[_Node]:
    """The operands of a chain of ANDs, or of ORs, in their order; a chain of the Column API is as deep as it is long."""
    found, left = [], [node]
    while left:
        here = left.pop()
        if here.name == node.name:
            left += reversed(here.children)
        else:
            found.append(here)
    return found


@dataclass
class _Translator:
    """Translates the parts of one condition; `types` are those of the columns that they read."""

    expression: JavaObject
    columns: Mapping[int, str]
    types: dict[ColumnPath, DataType] = field(default_factory=dict)

    def predicate(self, node: _Node, alone: bool = True) -> ir.Predicate:
        """A part of the condition; `alone` says that Spark can evaluate it by itself, unlike what lies inside of a `With` and refers to what is outside."""
        if node.name in ("And", "Or"):
            parts = tuple(self.predicate(kid, alone) for kid in _operands(node))
            return ir.And(parts) if node.name == "And" else ir.Or(parts)
        if node.name == "Not":
            return ir.Not(self.predicate(node.children[0], alone))
        found = self._with(node) if node.name == "With" else self._leaf(node)
        whole = found is not None and not any(isinstance(n, ir.Unknown) or (isinstance(n, ir.Like) and not n.exact) for n in ir.nodes(found))
        return found if found is not None and whole else self._left_to_spark(node, found, alone)

    def _with(self, node: _Node) -> ir.Predicate | None:
        """BETWEEN and the like: the body, with the one common expression in the place of the references to it."""
        body, *common = node.children
        if len(common) != 1 or any(n.name == "With" for kid in node.children for n in kid.subtree()):
            return None
        return self.predicate(_replaced(body, common[0].children[0]), alone=False)

    def _left_to_spark(self, node: _Node, known: ir.Predicate | None, alone: bool) -> ir.Unknown:
        """A part that Spark may be asked about, for the different values of its columns where Arrow can distinguish these."""
        nodes = node.subtree()
        read = [n for n in nodes if n.name == "AttributeReference"]
        names = {self.columns.get(_id(n)) for n in read}
        kinds = {kind_of(_type(n.fields.get("dataType")) or types.StructType(())) for n in read}
        if not alone or not 0 < len(names) <= _COLUMNS_BY_VALUE or None in names or not kinds <= _BY_VALUE or any("UDF" in n.name for n in nodes):
            return ir.Unknown(known=known)
        return ir.Unknown(node.path, tuple(sorted(n for n in names if n is not None)), known)

    def _leaf(self, node: _Node) -> ir.Predicate | None:
        """A test of values; None for one that is not understood of columns of these types."""
        found = self._test(node)
        return found if found is not None and is_understood(found, Places(self._no_rows)) else None

    def _no_rows(self, path: ColumnPath) -> Interval | None:
        return of_rows(pa.array([], to_arrow_type(self.types[path])), self.types[path])

    def _test(self, node: _Node) -> ir.Predicate | None:
        kids = node.children
        if node.name in _COMPARISONS:
            left, right = (self.value(kid) for kid in kids)
            if isinstance(left, ir.Literal) and not isinstance(right, ir.Literal):
                return None if right is None else ir.Compare(_MIRRORED[_COMPARISONS[node.name]], right, left)
            return None if left is None or right is None else ir.Compare(_COMPARISONS[node.name], left, right)
        value = self.value(kids[0]) if kids else self.value(node)
        if node.name in ("IsNull", "IsNotNull"):
            return None if value is None else ir.IsNull(value) if node.name == "IsNull" else ir.Not(ir.IsNull(value))
        if node.name == "In":
            among = [self.value(kid) for kid in kids[1:]]
            literals = tuple(v.value for v in among if isinstance(v, ir.Literal))
            return None if value is None or len(literals) < len(among) else ir.In(value, literals)
        if node.name == "InSet":
            members = self._members(node)
            return None if value is None or members is None else ir.In(value, members)
        if node.name in ("StartsWith", "EndsWith", "Contains", "Like"):
            pattern = self.value(kids[1])
            return (
                None if value is None or not isinstance(pattern, ir.Literal) or not isinstance(pattern.value, str) else self._like(node, value, pattern.value)
            )
        whole = self.value(node)
        return None if whole is None else ir.Compare("=", whole, ir.Literal(True, _BOOLEAN))

    def _like(self, node: _Node, value: ir.Value, text: str) -> ir.Predicate:
        """LIKE, and what Catalyst or a user has made of it; of a pattern with another sign than % what precedes that."""
        if node.name != "Like":
            return ir.Like(value, **{"StartsWith": {"start": text}, "EndsWith": {"end": text}}.get(node.name, {"inside": (text,)}))
        first = min((at for sign in ("_", str(self._java(node).escapeChar())) if (at := text.find(sign)) >= 0), default=len(text))
        if "%" not in text and first == len(text):
            return ir.Compare("=", value, ir.Literal(text, PrimitiveType("string")))
        start, *pieces = text.split("%")
        if first < len(text):
            return ir.Like(value, text[: min(first, len(start))], exact=False)
        pieces = [p for p in pieces[:-1] if p] + pieces[-1:]
        return ir.Like(value, start, tuple(pieces[:-1]), pieces[-1], exact=len([p for p in (start, *pieces) if p]) <= 1)

    def value(self, node: _Node) -> ir.Value | None:
        """An expression that gives a value; None for one that is not known here."""
        if node.name == "Literal":
            return self._literal(node)
        if node.name in ("AttributeReference", "GetStructField"):
            return self._column(node)
        if node.name not in _FUNCTIONS and node.name != "Cast":
            return None
        args = [self.value(kid) for kid in node.children]
        known = tuple(a for a in args if a is not None)
        if len(known) < len(args):
            return None
        if node.name != "Cast":
            return ir.Call(_FUNCTIONS[node.name], known)
        type_ = _type(node.fields.get("dataType"))
        if type_ is None or (type_ == PrimitiveType("string") and str(self._java(node).dataType().catalogString()) != "string"):
            return None  # a cast of text to text changes its collation, which Catalyst's JSON does not say
        return ir.Cast(known[0], type_)

    def _members(self, node: _Node) -> tuple[Any, ...] | None:
        """The values of a long IN, of which Catalyst makes a set: all by a few calls, since they may be many thousands.  None where one is not certain."""
        java = self._java(node)
        type_, held = _type(orjson.loads(java.child().dataType().json())), java.hset()
        kind = "" if type_ is None else kind_of(type_)
        if kind == "binary":
            texts = re.findall("X'([0-9A-F]*)'", str(java.sql())[len(str(java.child().sql())) :])
        else:
            texts = str(held.mkString(_BETWEEN)).split(_BETWEEN)  # more than there are where the text of one holds this
        if not kind or held.contains(None) or len(texts) != held.size():
            return None
        try:
            read = _single if type_ == PrimitiveType("float") else _MEMBER[kind]
            return tuple(map(read, texts))
        except (ValueError, OverflowError):
            return None

    def _java(self, node: _Node) -> JavaObject:
        return Condition(self.expression, ir.Unknown()).part(node.path)

    def _column(self, node: _Node) -> ir.Column | None:
        if node.name == "AttributeReference":
            name, type_ = self.columns.get(_id(node)), _type(node.fields.get("dataType"))
            if name is None or type_ is None:
                return None
            self.types[(name,)] = type_
            return ir.Column((name,))
        outer = self._column(node.children[0]) if node.fields.get("name") and node.children[0].name in ("AttributeReference", "GetStructField") else None
        struct = None if outer is None else self.types[outer.path]
        inner = struct.find(node.fields["name"]) if isinstance(struct, types.StructType) else None
        if outer is None or inner is None:
            return None
        path = (*outer.path, inner.name)
        self.types[path] = inner.type
        return ir.Column(path)

    def _literal(self, node: _Node) -> ir.Literal | None:
        type_ = _type(node.fields.get("dataType"))
        kind, text = "" if type_ is None else kind_of(type_), node.fields.get("value")
        if not kind or text is None or type_ is None:
            return None
        if kind in ("timestamp", "timestamp_ntz", "binary"):  # as Catalyst has it: the JSON has a text of the session's zone, which may stand for two instants
            inner = self._java(node).value()
            return ir.Literal(bytes(inner) if kind == "binary" else int(inner), type_)
        if type_ == PrimitiveType("float"):
            return ir.Literal(_single(text), type_)
        try:
            return ir.Literal(_READ[kind](str(text)), type_)
        except ValueError:  # text that is not certain, a date out of Python's range
            return None


def _single(text: Any) -> float:
    return float(np.float32(text))


def _string(text: str) -> str:
    if REPLACEMENT_CHARACTER in text:  # it also stands for bytes that are not UTF-8
        raise ValueError(text)
    return text


_READ: dict[str, Any] = {
    "integer": int,
    "real": float,
    "string": _string,
    "boolean": lambda text: text == "true",
    "date": datetime.date.fromisoformat,
    "decimal": decimal.Decimal,
}
_EPOCH = datetime.date(1970, 1, 1)
_BETWEEN = "\0, \0"
_MEMBER = _READ | {"date": lambda days: _EPOCH + datetime.timedelta(int(days)), "timestamp": int, "timestamp_ntz": int, "binary": bytes.fromhex}
"""How the members of Catalyst's sets are read."""
_MIRRORED: dict[ir.Operator, ir.Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}


def _replaced(node: _Node, common: _Node) -> _Node:
    if node.name == "CommonExpressionRef":
        return common
    return _Node(node.fields, [_replaced(kid, common) for kid in node.children], node.path)


def _id(node: _Node) -> int:
    return int(node.fields["exprId"]["id"])


def _type(json: Any) -> DataType | None:
    """The type that Catalyst's JSON names; None for one that is none of Delta's."""
    try:
        return None if json is None else types.type_from_json(json)
    except (UnsupportedFeature, KeyError, TypeError):
        return None


_KEY_KINDS = {"integer", "string", "date", "boolean", "timestamp"}


def key_columns(
    bridge: Catalyst, condition: JavaObject, left: Sequence[JavaObject], right: Sequence[JavaObject], types: tuple[StructType, StructType]
) -> tuple[tuple[int, int], ...]:
    """(target column, source column) by position for each plain equality in the conjunction `condition`.

    `types` are the columns of both sides, to which `left` and `right` may have more attributes at their ends.  Only for types whose equality is
    the same in Arrow and Spark, which text with a collation, or filled up with spaces, is not; integers of different widths count as one type.
    """
    names = {
        int(a.exprId().id()): f"{side}{n}"
        for side, attributes, columns in zip("ts", (left, right), types, strict=True)
        for n, (a, f) in enumerate(zip(attributes, columns.fields, strict=False))
        if not is_collated(f.dataType) and not is_char(f.metadata.get(KEY))
    }
    condition = bridge.sets_of_in.apply(bridge.filter_node(condition, bridge.one_row())).condition()
    tree, _ = _tree(orjson.loads(condition.toJSON()), 0)
    translator = _Translator(condition, names)
    out: list[tuple[int, int]] = []
    for p in ir.conjuncts(translator.predicate(tree)):
        if isinstance(p, ir.Compare) and p.op == "=":
            (target, of_target), (source, of_source) = sorted((_key(v, translator.types) for v in (p.left, p.right)), reverse=True)
            if target[:1] + source[:1] == "ts" and of_target == of_source:
                out.append((int(target[1:]), int(source[1:])))
    return tuple(out)


def _key(value: ir.Value, types: Mapping[ColumnPath, DataType]) -> tuple[str, str]:
    """(column, kind of its values) of one side of an equality that is a column, or an integer column cast to a wider integer; else ("", "")."""
    column = value.value if isinstance(value, ir.Cast) else value
    if not isinstance(column, ir.Column) or len(column.path) > 1 or (kind := kind_of(types[column.path])) not in _KEY_KINDS:
        return "", ""
    if isinstance(value, ir.Cast) and not (kind == kind_of(value.type) == "integer" and _bits(types[column.path]) <= _bits(value.type)):
        return "", ""
    return column.path[0], kind


def _bits(type_: DataType) -> int:
    return INTEGER_BITS[type_.name] if isinstance(type_, PrimitiveType) else 0
