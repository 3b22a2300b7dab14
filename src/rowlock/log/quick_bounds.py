"""Minima and maxima of many files as columns, parsed from the statistics once and cached with their frame.

For a first, coarse pass over large tables: whole numbers, days and strings, never closer than the bounds of `protocol.bounds` for one file (I3).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rowlock.protocol.bounds import ABOVE_ALL_STRINGS, REPLACEMENT_CHARACTER, TRUNCATION_MARKS
from rowlock.protocol.intervals import TRUE, Interval
from rowlock.protocol.schema import INTEGER_BITS, ColumnPath, PrimitiveType, StructType


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
        decoded = _json_columns(self._stats, pa.schema([("minValues", inner), ("maxValues", inner)]))
        if decoded is None:
            return None
        low, high = (pc.struct_field(decoded.column(side), list(path)).combine_chunks() for side in ("minValues", "maxValues"))
        if name == "date":
            return _days(low), _days(high)
        if name == "string":
            low, high = (pc.list_element(pc.split_pattern(side, REPLACEMENT_CHARACTER, max_splits=1), 0) for side in (low, high))
            high = pc.max_element_wise(*(pc.binary_join_element_wise(h, ABOVE_ALL_STRINGS, "") for h in (pc.utf8_rtrim(high, TRUNCATION_MARKS), high)))
        return low, high


def _json_columns(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """These columns of JSON objects, one a row; None if some text is blank or holds a line break.  Raises ArrowException if one has another form."""
    wide = pa.large_string()  # line breaks may take the texts beyond 2 GiB
    lines = pc.binary_join_element_wise(pc.fill_null(texts, "{}").cast(wide), pa.scalar("", wide), pa.scalar("\n", wide))
    body = lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py() or 0)
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    table = arrow_json.read_json(pa.BufferReader(body), arrow_json.ReadOptions(block_size=max(1 << 20, 2 * longest)), options)
    return table if table.num_rows == len(texts) else None


def _days(texts: pa.Array) -> pa.Array:
    """Days in ISO's form as numbers; null for others."""
    plain = pc.match_substring_regex(texts, r"^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])$")
    return pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
