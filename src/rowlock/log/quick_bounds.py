"""Minima and maxima of many files as columns, parsed from the statistics once and kept with their frame.

For a first, coarse pass over large tables: integers, dates and strings, compared so that a file is dropped
only if `protocol.skipping` would drop it as well (I3).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rowlock.protocol.bounds import ABOVE_ALL_STRINGS, REPLACEMENT_CHARACTER, TRUNCATION_MARKS, comparable
from rowlock.protocol.schema import INTEGER_BITS, ColumnPath, DataType, PrimitiveType, StructType
from rowlock.protocol.skipping import And, Compare, In, Predicate, StartsWith

Range = tuple[ColumnPath, DataType, Any, Any]
"""(physical path, type, lowest, highest) of a range that a column's value must lie in, ends included; None leaves that side open."""


def ranges_of(predicate: Predicate, schema: StructType) -> Iterator[Range]:
    """The ranges that every row satisfying the predicate lies in.  `predicate` must not contain Not."""
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from ranges_of(part, schema)
        return
    if isinstance(predicate, StartsWith):
        found, at = schema.resolve(predicate.column), schema.physical_path(predicate.column)
        if found is not None and at is not None and found.type == PrimitiveType("string") and predicate.prefix:
            yield at, found.type, predicate.prefix, _above_prefix(predicate.prefix)
        return
    if not isinstance(predicate, (Compare, In)) or (isinstance(predicate, Compare) and predicate.op in ("!=", "<=>")):
        return
    field, path = schema.resolve(predicate.column), schema.physical_path(predicate.column)
    if field is None or path is None or not isinstance(field.type, PrimitiveType) or field.type.name not in {*INTEGER_BITS, "date", "string"}:
        return
    wanted = [comparable(v, field.type) for v in ((predicate.value,) if isinstance(predicate, Compare) else predicate.values) if v is not None]
    if not wanted or any(v is None or (field.type.name in INTEGER_BITS and not isinstance(v, int)) for v in wanted):
        return
    low, high = min(wanted), max(wanted)
    op = predicate.op if isinstance(predicate, Compare) else "="
    yield path, field.type, None if op in ("<", "<=") else low, None if op in (">", ">=") else high


def _above_prefix(prefix: str) -> str | None:
    """A string greater than every string that begins with `prefix`; None if there is no simple one."""
    code = ord(prefix[-1])
    return None if 0xD7FF <= code <= 0xDFFF or code == 0x10FFFF else prefix[:-1] + chr(code + 1)


class QuickBounds:
    """The bounds of the files in one frame.  A column's bounds are parsed on first use."""

    def __init__(self, frame: pa.RecordBatch) -> None:
        self._stats = frame.column("stats")
        self._cache: dict[ColumnPath, tuple[pa.ChunkedArray, pa.ChunkedArray] | None] = {}

    def keeps(self, wanted: Range) -> npt.NDArray[np.bool_] | None:
        """Mask of the files that may hold a value in the range; None if the bounds cannot tell."""
        path, type_, low, high = wanted
        bounds = self._bounds(path, type_)
        if bounds is None or (low is None and high is None):
            return None
        keep = np.ones(len(self._stats), dtype=np.bool_)
        if high is not None:
            keep &= _admits(pc.less_equal(bounds[0], _scalar(high)))
        if low is not None:
            keep &= _admits(pc.greater_equal(bounds[1], _scalar(low)))
        return keep

    def _bounds(self, path: ColumnPath, type_: DataType) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
        if path not in self._cache:
            try:
                self._cache[path] = self._parse(path, type_)
            except pa.ArrowException:
                self._cache[path] = None  # some file's statistics have another form: leave all files to `skipping`
        return self._cache[path]

    def _parse(self, path: ColumnPath, type_: DataType) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
        """The minima and the maxima of a column, one per file; null if a file has none.  None if that cannot be told."""
        name = type_.name if isinstance(type_, PrimitiveType) else ""
        inner: pa.DataType = pa.int64() if name in INTEGER_BITS else pa.string()
        for part in reversed(path):
            inner = pa.struct([(part, inner)])
        decoded = _json_columns(self._stats, pa.schema([("minValues", inner), ("maxValues", inner)]))
        if decoded is None:
            return None
        low, high = (pc.struct_field(decoded.column(side), list(path)) for side in ("minValues", "maxValues"))
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


def _days(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days in ISO's form, which are ordered as texts are; null for others."""
    return pc.if_else(pc.match_substring_regex(texts, r"^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])$"), texts, pa.scalar(None, pa.string()))


def _scalar(value: Any) -> pa.Scalar:
    return pa.scalar(value.isoformat() if isinstance(value, dt.date) else value)


def _admits(verdict: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """A comparison as a mask, in which an unknown bound admits everything."""
    mask: npt.NDArray[np.bool_] = pc.fill_null(verdict, True).to_numpy()
    return mask
