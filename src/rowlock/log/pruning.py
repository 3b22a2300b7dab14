"""Chooses the files that may match a condition, by their partition values and statistics (I3).

The statistics of many files are first read coarsely as columns (`QuickBounds`: whole numbers, days and strings, parsed once and cached with their frame),
then those of each remaining file exactly.  Coarse bounds are never closer than those of `protocol.bounds` for one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.exceptions import CorruptLog
from rowlock.log.struct_stats import days, json_columns
from rowlock.protocol import arrays, partition_values
from rowlock.protocol.actions import AddFile
from rowlock.protocol.bounds import ABOVE_ALL_STRINGS, REPLACEMENT_CHARACTER, TRUNCATION_MARKS, bounds_in_files
from rowlock.protocol.evaluation import Mask, Places, as_mask, may_hold
from rowlock.protocol.intervals import TRUE, Interval, of_bounds
from rowlock.protocol.predicates import Predicate, columns_of
from rowlock.protocol.schema import INTEGER_BITS, ColumnPath, PrimitiveType, StructField, StructType

_FIRST = arrays.scalar(0, pa.int64())


class QuickBounds:
    """The bounds of the files in one frame.  A column's bounds are parsed on first use."""

    def __init__(self, frame: pa.RecordBatch) -> None:
        self._stats = frame.column("stats")
        self._cache: dict[tuple[ColumnPath, str], tuple[pa.Array, pa.Array] | None] = {}

    def of(self, column: ColumnPath, schema: StructType) -> Interval | None:
        """The interval of a column in each file; None if nothing is known, as when the statistics of some file have another form."""
        field, path = schema.resolve(column), schema.physical_path(column)
        if field is None or path is None or not isinstance(field.type, PrimitiveType):
            return None
        key = path, "long" if field.type.name in INTEGER_BITS else field.type.name
        if key[1] not in ("long", "date", "string"):
            return None
        if key not in self._cache:
            try:
                self._cache[key] = self._parse(*key)
            except pa.ArrowException:
                self._cache[key] = None
        bounds = self._cache[key]
        return None if bounds is None else Interval(field.type, *bounds, null=TRUE, some=TRUE)

    def _parse(self, path: ColumnPath, name: str) -> tuple[pa.Array, pa.Array] | None:
        """The minima and the maxima of a column, one per file; null if a file has none.  None if the statistics cannot be parsed."""
        inner: pa.DataType = pa.int64() if name == "long" else pa.string()
        for part in reversed(path):
            inner = pa.struct([(part, inner)])
        decoded = json_columns(self._stats, pa.schema([("minValues", inner), ("maxValues", inner)]))
        if decoded is None:
            return None
        low, high = (pc.struct_field(decoded.column(side), list(path)).combine_chunks() for side in ("minValues", "maxValues"))
        if name == "date":
            return days(low), days(high)
        if name == "string":
            low, high = (pc.list_element(pc.split_pattern(side, REPLACEMENT_CHARACTER, max_splits=1), _FIRST) for side in (low, high))
            above = arrays.scalar(ABOVE_ALL_STRINGS), arrays.scalar("")
            high = pc.max_element_wise(*(pc.binary_join_element_wise(h, *above) for h in (pc.utf8_rtrim(high, TRUNCATION_MARKS), high)))
        return low, high


_AT_ONCE = 10_000
"""The most files whose parsed statistics are in memory at once."""


def files_that_may_match(predicate: Predicate, values: Sequence[Mapping[str, Any]], stats: Sequence[Mapping[str, Any]], schema: StructType) -> Mask:
    """For which files some live row may satisfy the condition.

    values  of each file typed values of every partition column by logical name; other columns are data columns
    stats   of each file its parsed statistics by physical name; empty if there are none
    """
    places = Places(lambda path: None if (found := bounds_in_files(path, values, stats, schema)) is None else of_bounds(found))
    return as_mask(may_hold(predicate, places), len(values))


class FilePruner:
    """Tests the files of one table against one condition."""

    def __init__(self, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> None:
        self._predicate, self._schema = predicate, schema
        self._partitions: list[StructField] = [f for name in partition_columns if (f := schema.find(name)) is not None]
        read = {c[0].lower() for c in columns_of(predicate)}
        self._read_partitions = [f for f in self._partitions if f.name.lower() in read]
        self._needs_stats = bool(read - {f.name.lower() for f in self._partitions})
        self._cache: dict[tuple[str, str | None], Any] = {}

    def matching(self, adds: Sequence[AddFile]) -> list[AddFile]:
        """The files that may contain a row that satisfies the condition."""
        if len(adds) > _AT_ONCE:
            return [a for at in range(0, len(adds), _AT_ONCE) for a in self.matching(adds[at : at + _AT_ONCE])]
        if not adds:
            return []
        parts = self._read_partitions
        typed = [self._typed({f.physical_name: a.partition_values[f.physical_name] for f in parts if f.physical_name in a.partition_values}) for a in adds]
        stats = [a.parsed_stats() if self._needs_stats else {} for a in adds]
        mask = files_that_may_match(self._predicate, typed, stats, self._schema)
        return [a for a, keep in zip(adds, mask, strict=True) if keep]

    def _typed(self, raw: dict[str, str | None]) -> dict[str, Any]:
        """Typed partition values by logical name; a value that cannot be parsed reliably is left out, which keeps the file."""
        out: dict[str, Any] = {}
        for f in self._read_partitions:
            if f.physical_name not in raw:
                continue
            text = raw[f.physical_name]
            if f.type == PrimitiveType("timestamp") and text and not partition_values.states_zone(text):
                continue
            key = f.physical_name, text
            try:
                if key not in self._cache:
                    self._cache[key] = partition_values.parse(text, f.type)
                out[f.name] = self._cache[key]
            except CorruptLog:
                continue
        return out

    def match_bounds(self, bounds: QuickBounds, num_files: int) -> Mask:
        """Mask of the files whose minima and maxima admit the condition."""
        partitions = {f.name.lower() for f in self._partitions}
        places = Places(lambda path: None if path[0].lower() in partitions else bounds.of(path, self._schema))
        return as_mask(may_hold(self._predicate, places), num_files)

    def match_partitions(self, frame: pa.RecordBatch) -> Mask:
        """Mask of the files whose partition values may match; each distinct combination of values is tested once."""
        fields = self._read_partitions
        if not fields or not frame.num_rows:
            return np.ones(frame.num_rows, dtype=np.bool_)
        columns = [pc.map_lookup(frame.column("partition_values"), arrays.scalar(f.physical_name), "all") for f in fields]  # null where the log has no value
        numbers = np.zeros(frame.num_rows, np.int64)
        for column in columns:
            codes = arrays.to_numpy(pc.dictionary_encode(pc.list_element(column, _FIRST), null_encoding="encode").indices).astype(np.int64) * 2
            codes += arrays.to_numpy(column.is_valid())
            numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
        _, first, each = np.unique(numbers, return_index=True, return_inverse=True)
        rows = [[c[int(at)].as_py() for c in columns] for at in first]
        typed = [self._typed({f.physical_name: values[0] for f, values in zip(fields, row, strict=True) if values}) for row in rows]
        return files_that_may_match(self._predicate, typed, [{}] * len(typed), self._schema)[each]
