"""Finds the rows that may meet a condition, over columns on the driver and without a Spark job.

What is not understood may be true of every row, unless its columns have few different values: then Spark evaluates it once for each of
these.  So a mask may keep too many rows, never too few (I3), and Spark evaluates the whole condition over the rows that it keeps.  An error
that one side of an AND would raise for a row stays unseen where the other side is known to fail for it, as it does in a file that is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.engines.spark.catalyst.predicates import Condition
from rowlock.protocol import predicates as ir
from rowlock.protocol.evaluation import Mask, Places, as_mask, may_hold
from rowlock.protocol.intervals import Interval, of_rows
from rowlock.protocol.schema import ColumnPath

Numbers = npt.NDArray[np.int64]
ByValue = Callable[[Sequence[int], pa.Table], "Mask | None"]
"""Evaluates a part of a condition over a table of different values of its columns: the rows for which it is true, None where it cannot tell."""


@dataclass(frozen=True, slots=True)
class RowMask:
    """An estimate of a condition.

    names       the columns that it reads
    understood  whether a part of it is computed here, without Spark
    by_value    whether parts of it are left to Spark, for the different values of their columns
    """

    condition: Condition
    names: tuple[str, ...]
    understood: bool
    by_value: bool

    def of(self, table: pa.Table, by_value: ByValue | None = None, most: int = 0) -> Mask:
        """The rows of a table of the columns `names` that may meet the condition.

        Where more than `most` rows are left, `by_value` is asked about the parts whose columns have at most so many different values.
        """
        found = self._kept(table) if self.understood else np.ones(table.num_rows, dtype=np.bool_)
        if self.by_value and by_value is not None and np.count_nonzero(found) > most:
            at = np.flatnonzero(found)
            found = np.zeros(table.num_rows, dtype=np.bool_)
            found[at[self._kept(table if len(at) == table.num_rows else table.take(pa.array(at)), by_value, most)]] = True
        return found

    def _kept(self, table: pa.Table, by_value: ByValue | None = None, most: int = 0) -> Mask:
        def column(path: ColumnPath) -> Interval | None:
            top = table.column(path[0])
            return of_rows(pc.struct_field(top, list(path[1:])) if len(path) > 1 else top, self.condition.types[path])

        def ask(part: ir.Unknown) -> Any:
            told = different_values(table.select(list(part.columns)), most) if by_value and table.num_rows else None
            true = by_value(part.part or (), told[0]) if by_value and told else None
            return None if told is None or true is None else pa.array(true[told[1]])

        return as_mask(may_hold(self.condition.predicate, Places(column, ask)), table.num_rows)


def row_mask(condition: Condition | None) -> RowMask | None:
    """The mask of a resolved condition; None where it could exclude no row, or reads no column."""
    if condition is None:
        return None
    parts = list(ir.nodes(condition.predicate))
    asked = [p for p in parts if isinstance(p, ir.Unknown) and p.part is not None]
    read = {path[0] for path in ir.columns_of(condition.predicate)}
    names = read.union(*(p.columns for p in asked))
    return RowMask(condition, tuple(sorted(names)), bool(read), bool(asked)) if names else None  # a table of no columns would have no rows


def point_mask(whole: RowMask) -> RowMask | None:
    """The mask of the first comparison of a condition's conjunction that says which values something must equal; None where there is none."""
    for p in ir.conjuncts(whole.condition.predicate):
        points = isinstance(p, ir.In) or (isinstance(p, ir.Compare) and p.op == "=" and isinstance(p.right, ir.Literal))
        if points and (mask := row_mask(replace(whole.condition, predicate=p))):
            return mask
    return None


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
