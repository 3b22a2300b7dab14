"""Chooses the files that may match a predicate: a quick columnar pass, then `skipping.may_match` on each remaining file.

The quick pass drops a file only if `protocol.skipping` would drop it as well, by its partition values or by
coarse bounds (I3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rowlock.exceptions import CorruptLog
from rowlock.lazy_import import pl
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
                    keep &= kept.to_numpy()
        return keep

    def match_partitions(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The files whose partition values may match; each distinct combination of values is tested once."""
        if isinstance(self._on_partitions, Unknown) or not frame.height:
            return frame
        used = {c[0].lower() for c in columns_of(self._on_partitions)}
        fields = [f for f in self._partitions if f.name.lower() in used]
        wide = frame.select("partition_values").with_row_index("row").explode("partition_values").unnest("partition_values")
        kept = frame.with_row_index("row")
        columns: list[str] = []
        for i, f in enumerate(fields):
            name = f"partition {i}"
            values = wide.filter(pl.col("key") == f.physical_name).select("row", pl.col("value").alias(name), pl.lit(True).alias(f"{name} known"))
            kept = kept.join(values.unique("row"), on="row", how="left", maintain_order="left")
            columns += [name, f"{name} known"]
        combinations = kept.select(columns).unique()
        verdicts = [self._combination_may_match(fields, row) for row in combinations.iter_rows()]
        wanted = combinations.filter(pl.Series(verdicts, dtype=pl.Boolean))
        return kept.join(wanted, on=columns, how="semi", nulls_equal=True, maintain_order="left").select(frame.columns)

    def _combination_may_match(self, fields: Sequence[StructField], row: tuple[Any, ...]) -> bool:
        raw = {f.physical_name: row[2 * i] for i, f in enumerate(fields) if row[2 * i + 1]}
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
