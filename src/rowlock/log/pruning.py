"""Chooses the files that may match a predicate: a quick columnar pass, then `skipping.may_match` on each remaining file.

The quick pass drops a file only if `protocol.skipping` would drop it as well, by its partition values or by
coarse bounds (I3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log.quick_bounds import QuickBounds, ranges_of
from rowlock.protocol import partition_values
from rowlock.protocol.actions import AddFile
from rowlock.protocol.schema import PrimitiveType, StructField, StructType
from rowlock.protocol.skipping import And, Or, Predicate, Unknown, columns_of, may_match, pushed_down


class FilePruner:
    """Tests the files of one table against one predicate."""

    def __init__(self, predicate: Predicate, schema: StructType, partition_columns: Sequence[str], timezone: str | None = None) -> None:
        self._predicate, self._schema, self._timezone = pushed_down(predicate), schema, timezone
        self._partitions: list[StructField] = [f for name in partition_columns if (f := schema.find(name)) is not None]
        self._on_partitions = _only_on(self._predicate, {f.name.lower() for f in self._partitions})
        self._needs_stats = any(len(c) > 1 or c[0].lower() not in {f.name.lower() for f in self._partitions} for c in columns_of(self._predicate))
        partitions = {f.physical_name for f in self._partitions}
        self._ranges = [r for r in ranges_of(self._predicate, schema) if r[0][0] not in partitions]
        self._cache: dict[tuple[str, str | None], Any] = {}

    def may_match(self, add: AddFile) -> bool:
        """Whether a file may contain a row that satisfies the predicate, by its partition values and statistics."""
        typed = self._typed({f.physical_name: add.partition_values.get(f.physical_name) for f in self._partitions if f.physical_name in add.partition_values})
        return may_match(self._predicate, typed, add.parsed_stats() if self._needs_stats else {}, self._schema)

    def _typed(self, raw: dict[str, str | None]) -> dict[str, Any]:
        """Typed partition values by logical name; a value that cannot be parsed reliably is left out, which keeps the file."""
        out: dict[str, Any] = {}
        for f in self._partitions:
            if f.physical_name not in raw:
                continue
            text = raw[f.physical_name]
            if self._timezone is None and f.type == PrimitiveType("timestamp") and text and not partition_values.states_zone(text):
                continue
            key = f.physical_name, text
            try:
                if key not in self._cache:
                    self._cache[key] = partition_values.parse(text, f.type, self._timezone or "UTC")
                out[f.name] = self._cache[key]
            except CorruptLog:
                continue
        return out

    def match_bounds(self, bounds: QuickBounds, num_files: int) -> npt.NDArray[np.bool_]:
        """Mask of the files whose minima and maxima admit the predicate; all files if there are few (`quick_pass_files`)."""
        keep = np.ones(num_files, dtype=np.bool_)
        if num_files >= limits().quick_pass_files:
            for wanted in self._ranges:
                if (kept := bounds.keeps(wanted)) is not None:
                    keep &= kept
        return keep

    def match_partitions(self, frame: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Mask of the files whose partition values may match; each distinct combination of values is tested once."""
        if isinstance(self._on_partitions, Unknown) or not frame.num_rows:
            return np.ones(frame.num_rows, dtype=np.bool_)
        used = {c[0].lower() for c in columns_of(self._on_partitions)}
        fields = [f for f in self._partitions if f.name.lower() in used]
        columns = [pc.map_lookup(frame.column("partition_values"), pa.scalar(f.physical_name), "all") for f in fields]  # null where the log has no value
        numbers = np.zeros(frame.num_rows, np.int64)
        for column in columns:
            codes = pc.dictionary_encode(pc.list_element(column, 0), null_encoding="encode").indices.to_numpy().astype(np.int64) * 2
            codes += column.is_valid().to_numpy(zero_copy_only=False)
            numbers = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
        _, first, each = np.unique(numbers, return_index=True, return_inverse=True)
        return np.array([self._combination_may_match(fields, [c[int(at)].as_py() for c in columns]) for at in first], dtype=np.bool_)[each]

    def _combination_may_match(self, fields: Sequence[StructField], row: Sequence[Sequence[str | None] | None]) -> bool:
        raw = {f.physical_name: values[0] for f, values in zip(fields, row, strict=True) if values}
        return may_match(self._on_partitions, self._typed(raw), {}, self._schema)


def _only_on(predicate: Predicate, names: set[str]) -> Predicate:
    """A weaker predicate on only these top-level columns, implied by `predicate`; Unknown if there is none."""
    if isinstance(predicate, And):
        parts = tuple(p for part in predicate.parts if not isinstance(p := _only_on(part, names), Unknown))
        return And(parts) if parts else Unknown()
    if isinstance(predicate, Or):
        ors = tuple(_only_on(part, names) for part in predicate.parts)
        return Unknown() if any(isinstance(p, Unknown) for p in ors) else Or(ors)
    if all(len(c) == 1 and c[0].lower() in names for c in columns_of(predicate)):
        return predicate
    return Unknown()
