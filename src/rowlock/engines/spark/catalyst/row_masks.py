"""Finds the rows that may meet a condition, over columns on the driver and without a Spark job.

Every part of the condition gives two masks: the rows for which it may be true, and those for which it may be false (a row in
neither makes it null).  A part that is not understood may be both for every row, unless its columns have few different values:
then Spark evaluates it once for each of these.  So a mask may keep too many rows, never too few (I3), and Spark evaluates the
whole condition over the rows that it keeps.  An error that one side of an AND would raise for a row stays unseen where the other side is known to
fail for it, as it does in a file that is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.engines.spark.catalyst.exact_values import Compiler, Exact, Mask, Values, both, either, kind_of
from rowlock.engines.spark.catalyst.predicates import Condition, Node, column_name, conjuncts, inlined, literal

Numbers = npt.NDArray[np.int64]
ByValue = Callable[[Node, pa.Table], "Mask | None"]
"""Evaluates a part of a condition over a table of different values of its columns: the rows for which it is true, None where it cannot tell."""


class Truth(NamedTuple):
    """For each row whether a part of a condition may be true, and whether it may be false."""

    may_hold: Mask
    may_fail: Mask


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a file on the driver, and who evaluates what is not understood, for at most how many different values.

    Without such an evaluator a part that is not understood may be true of every row.
    """

    table: pa.Table
    by_value: ByValue | None = None
    most: int = 0

    def unknown(self) -> Truth:
        everywhere = np.ones(self.table.num_rows, dtype=np.bool_)
        return Truth(everywhere, everywhere)


Part = Callable[[Columns], Truth]


@dataclass(frozen=True, slots=True)
class RowMask:
    """An estimate of a condition.

    condition   the condition, for who evaluates parts of it
    columns     the names of the table's columns by their expression ids
    names       the columns that it reads
    part        its masks over these columns
    understood  whether a part of it is computed here, without Spark
    by_value    whether parts of it are left to Spark, for the different values of their columns
    """

    condition: Condition
    columns: Mapping[int, str]
    names: tuple[str, ...]
    part: Part
    understood: bool
    by_value: bool

    def of(self, table: pa.Table, by_value: ByValue | None = None, most: int = 0) -> Mask:
        """The rows of a table of the columns `names` that may meet the condition.

        Where more than `most` rows are left, `by_value` is asked about the parts whose columns have at most so many different values.
        """
        found = self.part(Columns(table)).may_hold if self.understood else np.ones(table.num_rows, dtype=np.bool_)
        if self.by_value and by_value is not None and np.count_nonzero(found) > most:
            at = np.flatnonzero(found)
            kept = self.part(Columns(table if len(at) == table.num_rows else table.take(pa.array(at)), by_value, most)).may_hold
            found = np.zeros(table.num_rows, dtype=np.bool_)
            found[at[kept]] = True
        return found


def row_mask(condition: Condition | None, columns: Mapping[int, str]) -> RowMask | None:
    """The mask of a resolved condition; None where it could exclude no row, or reads no column."""
    return None if condition is None else _mask_of(condition, condition.tree, columns)


def point_mask(whole: RowMask) -> RowMask | None:
    """The mask of the first comparison of a condition's conjunction that says which values something must equal; None where there is none."""
    for node in conjuncts(whole.condition.tree):
        sides = node.children[1:] if node.name == "In" else node.children
        if node.name in ("EqualTo", "In") and any(n.name == "Literal" for n in sides):
            mask = _mask_of(whole.condition, node, whole.columns)
            if mask is not None and mask.understood:
                return mask
    return None


def _mask_of(condition: Condition, node: Node, columns: Mapping[int, str]) -> RowMask | None:
    compiler = _Predicates(condition, columns)
    part = compiler.part(node)
    if part is None or not compiler.values.names:  # a table of no columns would have no rows
        return None
    return RowMask(condition, columns, tuple(sorted(compiler.values.names)), part, compiler.understood, compiler.by_value)


_COMPARED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "EqualTo": (np.equal, pc.equal),
    "EqualNullSafe": (np.equal, pc.equal),
    "LessThan": (np.less, pc.less),
    "LessThanOrEqual": (np.less_equal, pc.less_equal),
    "GreaterThan": (np.greater, pc.greater),
    "GreaterThanOrEqual": (np.greater_equal, pc.greater_equal),
}
"""Comparisons by their Catalyst classes: of numbers with numpy, of all else with Arrow."""


class _Predicates:
    """Compiles a condition into its masks; a part is None where it could exclude no row, whatever the columns hold."""

    def __init__(self, condition: Condition, columns: Mapping[int, str]) -> None:
        self.values, self.columns = Compiler(condition, columns), columns
        self.understood = self.by_value = False

    def part(self, node: Node, alone: bool = True) -> Part | None:
        """The masks of a part; `alone` says that Spark can evaluate it by itself, unlike what lies inside of a `With` and refers to what is outside."""
        if node.name in ("And", "Or"):
            return self._of_two(node.name, *(self.part(kid, alone) for kid in node.children))
        if node.name == "Not":
            inner = self.part(node.children[0], alone)
            return None if inner is None else lambda columns: Truth(*reversed(inner(columns)))
        if node.name == "With":
            return self._with(node, alone)
        names = set(self.values.names)
        made = self._leaf(node)
        if made is not None:
            self.understood = True
            return made
        self.values.names = names  # those of a part that turned out not to be understood are not read for it
        return self._left_to_spark(node) if alone else None

    def _with(self, node: Node, alone: bool) -> Part | None:
        """BETWEEN and the like: what is understood of it, and what Spark says of the whole."""
        body = inlined(node)
        known = None if body is None else self.part(body, alone=False)
        whole = self._left_to_spark(node) if alone else None
        if known is None or whole is None:
            return known or whole

        def of(columns: Columns) -> Truth:
            a, b = known(columns), whole(columns)
            return Truth(a.may_hold & b.may_hold, a.may_fail & b.may_fail)

        return of

    def _of_two(self, name: str, left: Part | None, right: Part | None) -> Part | None:
        if left is None and right is None:
            return None

        def of(columns: Columns) -> Truth:
            a, b = (columns.unknown() if side is None else side(columns) for side in (left, right))
            if name == "And":
                return Truth(a.may_hold & b.may_hold, a.may_fail | b.may_fail)
            return Truth(a.may_hold | b.may_hold, a.may_fail & b.may_fail)

        return of

    def _leaf(self, node: Node) -> Part | None:
        if node.name in _COMPARED:
            return self._comparison(node)
        if node.name == "In":
            return self._in(node)
        if node.name in ("IsNull", "IsNotNull"):
            inner = self.values.value(node.children[0])
            return None if inner is None else _null_test(inner, node.name == "IsNull")
        if node.name in ("StartsWith", "EndsWith", "Contains"):
            return self._text_test(node)
        if node.name == "Like":
            return self._like(node)
        value = self.values.value(node)
        if value is None or value.kind != "boolean":
            return None
        return lambda columns: _truth(columns, v := value.of(columns.table), v.data)

    def _comparison(self, node: Node) -> Part | None:
        left, right = (self.values.value(kid) for kid in node.children)
        if left is None or right is None or left.kind != right.kind:
            return None
        numbers, others = _COMPARED[node.name]
        compare = others if left.kind in ("string", "binary", "decimal") else numbers
        null_safe = node.name == "EqualNullSafe"

        def of(columns: Columns) -> Truth:
            a, b = left.of(columns.table), right.of(columns.table)
            doubtful = either(_not_a_number(a), _not_a_number(b))
            try:
                found = compare(a.data, b.data)
            except pa.ArrowInvalid:  # decimals that have no common type
                return columns.unknown()
            joined = Values(found, both(a.valid, b.valid), either(a.unsure, b.unsure, doubtful))
            if not null_safe or joined.valid is None:
                return _truth(columns, joined, found)
            equal = _spread(columns, found) & joined.valid | ~_spread(columns, a.valid) & ~_spread(columns, b.valid)
            return _truth(columns, joined._replace(valid=None), equal)

        return of

    def _in(self, node: Node) -> Part | None:
        inner, among = self.values.value(node.children[0]), [self.values.value(kid) for kid in node.children[1:]]
        if inner is None or inner.kind in ("double", "float"):
            return None
        if any(k.name != "Literal" for k in node.children[1:]) or any(v is None or v.kind != inner.kind for v in among):
            return None
        wanted = [v.of(pa.table({})).data for v in among if v is not None]
        arrow = inner.kind in ("string", "binary", "decimal")

        def of(columns: Columns) -> Truth:
            value = inner.of(columns.table)
            if arrow:
                try:
                    found = pc.is_in(value.data, value_set=pa.array([w.as_py() for w in wanted], value.data.type))
                except (pa.ArrowInvalid, pa.ArrowTypeError):
                    return columns.unknown()
            else:
                found = np.isin(value.data, np.array(wanted))
            return _truth(columns, value, found)

        return of

    def _text_test(self, node: Node) -> Part | None:
        inner, wanted = self.values.value(node.children[0]), literal(node.children[1])
        if inner is None or inner.kind != "string" or not isinstance(wanted, str):
            return None
        test = {"StartsWith": pc.starts_with, "EndsWith": pc.ends_with, "Contains": pc.match_substring}[node.name]
        return lambda columns: _truth(columns, v := inner.of(columns.table), test(v.data, wanted))

    def _like(self, node: Node) -> Part | None:
        """LIKE with a constant pattern of text and % alone."""
        inner, pattern = self.values.value(node.children[0]), literal(node.children[1])
        escape = str(self.values.condition.expression_of(node).escapeChar())
        if inner is None or inner.kind != "string" or not isinstance(pattern, str) or "_" in pattern or escape in pattern:
            return None
        first, *pieces = pattern.split("%")
        if not pieces:
            return lambda columns: _truth(columns, v := inner.of(columns.table), pc.equal(v.data, first))
        *inside, last = pieces
        tests = [(pc.starts_with, first), (pc.ends_with, last), *((pc.match_substring, piece) for piece in inside)]
        tests = [(test, text) for test, text in tests if text]

        def of(columns: Columns) -> Truth:
            value = inner.of(columns.table)
            found = np.ones(columns.table.num_rows, dtype=np.bool_)
            for test, text in tests:
                found = found & _spread(columns, test(value.data, text))
            doubtful = found if len(tests) > 1 else None  # the pieces may overlap, or lie in another order
            return _truth(columns, value._replace(unsure=either(value.unsure, doubtful)), found)

        return of

    def _left_to_spark(self, node: Node) -> Part | None:
        """A part that Spark evaluates for the different values of its columns; None where these cannot be told."""
        nodes = node.subtree()
        names = {column_name(n, self.columns) for n in nodes if n.name == "AttributeReference"}
        kinds = {kind_of(n.fields.get("dataType")) for n in nodes if n.name == "AttributeReference"}
        if not names or None in names or len(names) > _COLUMNS_BY_VALUE or not kinds <= _BY_VALUE or any("UDF" in n.name for n in nodes):
            return None
        chosen = sorted(n for n in names if n is not None)
        self.by_value = True
        self.values.names.update(chosen)
        return lambda columns: _by_value(columns, node, chosen)


_COLUMNS_BY_VALUE = 3
_BY_VALUE = {"integer", "decimal", "string", "binary", "date", "timestamp", "timestamp_ntz", "boolean"}
"""The kinds of columns whose different values are told by Arrow just as Spark's functions tell them: 0.0 and -0.0 are one number with two texts."""


def _by_value(columns: Columns, node: Node, names: Sequence[str]) -> Truth:
    """The truth of a part that is asked of Spark once for all different values of its columns."""
    if columns.by_value is None or not columns.table.num_rows:
        return columns.unknown()
    told = different_values(columns.table.select(list(names)), columns.most)
    if told is None:
        return columns.unknown()
    values, which = told
    true = columns.by_value(node, values)
    if true is None:
        return columns.unknown()
    return Truth(true[which], ~true[which])


def different_values(table: pa.Table, most: int) -> tuple[pa.Table, Numbers] | None:
    """(the different rows of a table, for each row of the table its number among them); None where there are more than `most`."""
    if table.num_rows > 2 * most and different_values(table.slice(0, 2 * most), most) is None:
        return None  # told from the first rows, which is quick
    codes, chosen = np.zeros(table.num_rows, dtype=np.int64), [np.zeros(1, dtype=np.int64)]
    dictionaries = []
    for column in table.columns:
        indices, dictionary = _encoded(column)
        dictionaries.append(dictionary)
        codes, different = _encoded(pa.array(codes * len(dictionary) + indices))
        before, last = np.divmod(np.asarray(different), len(dictionary))
        chosen = [*(c[before] for c in chosen), last]
    values = [d.take(pa.array(at)) for d, at in zip(dictionaries, chosen[1:], strict=True)]
    return None if len(chosen[0]) > most else (pa.table(values, names=table.column_names), codes)


def _encoded(column: pa.Array | pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """(for each row the number of its value, the different values), where null is a value too."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    together = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column  # several dictionaries with nulls cannot become one
    encoded = pc.dictionary_encode(together, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64), encoded.dictionary


def _null_test(inner: Exact, null: bool) -> Part:
    def of(columns: Columns) -> Truth:
        value = inner.of(columns.table)
        there = np.ones((), dtype=np.bool_) if value.valid is None else value.valid
        return _truth(columns, Values(None, None, value.unsure), ~there if null else there)

    return of


def _truth(columns: Columns, value: Values, found: Any) -> Truth:
    """The masks of a test that is `found` where `value` is not null, and may be anything where it is unsure."""
    holds = _spread(columns, found)
    fails = ~holds
    if value.valid is not None:
        holds, fails = holds & value.valid, fails & value.valid
    if value.unsure is not None:
        holds, fails = holds | value.unsure, fails | value.unsure
    return Truth(holds, fails)


def _spread(columns: Columns, found: Any) -> Mask:
    """The outcome of a test as a mask of every row; a null, and no mask for validity, are taken for what they stand for: False and True."""
    if found is None:
        return np.ones(columns.table.num_rows, dtype=np.bool_)
    if isinstance(found, pa.Scalar):
        found = np.bool_(bool(found.as_py()))
    elif not isinstance(found, np.ndarray | np.bool_):
        found = np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return np.broadcast_to(found, (columns.table.num_rows,))


def _not_a_number(value: Values) -> Mask | None:
    """The rows that hold NaN, which Spark takes for equal to itself and greater than all else."""
    kind = getattr(value.data, "dtype", None)
    if kind not in (np.float64, np.float32):
        return None
    found = np.asarray(np.isnan(value.data))
    return found if found.any() else None
