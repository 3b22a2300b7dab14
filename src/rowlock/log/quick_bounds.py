"""Minima and maxima of many files as columns, parsed from the statistics once and kept with their frame.

For a first, coarse pass over large tables: integers, dates and strings, compared so that a file is dropped
only if `protocol.skipping` would drop it as well (I3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowlock.lazy_import import pl
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

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._cache: dict[ColumnPath, tuple[pl.Series, pl.Series] | None] = {}

    def keeps(self, wanted: Range) -> pl.Series | None:
        """Mask of the files that may hold a value in the range; None if the bounds cannot tell."""
        path, type_, low, high = wanted
        bounds = self._bounds(path, type_)
        if bounds is None or (low is None and high is None):
            return None
        low_admits: pl.Series | None = None if high is None else (bounds[0] <= high).fill_null(True)
        high_admits: pl.Series | None = None if low is None else (bounds[1] >= low).fill_null(True)
        if low_admits is None or high_admits is None:
            return high_admits if low_admits is None else low_admits
        return low_admits & high_admits

    def _bounds(self, path: ColumnPath, type_: DataType) -> tuple[pl.Series, pl.Series] | None:
        if path not in self._cache:
            try:
                self._cache[path] = self._parse(path, type_)
            except pl.exceptions.PolarsError:
                self._cache[path] = None  # some file's statistics have another form: leave all files to `skipping`
        return self._cache[path]

    def _parse(self, path: ColumnPath, type_: DataType) -> tuple[pl.Series, pl.Series]:
        """The minima and the maxima of a column, one per file; null if a file has none."""
        name = type_.name if isinstance(type_, PrimitiveType) else ""
        inner: Any = pl.Int64 if name in INTEGER_BITS else pl.String
        for part in reversed(path):
            inner = pl.Struct({part: inner})
        decoded = self._frame.select(pl.col("stats").str.json_decode(pl.Struct({"minValues": inner, "maxValues": inner})).struct.unnest())
        low, high = pl.col("minValues"), pl.col("maxValues")
        for part in path:
            low, high = low.struct.field(part), high.struct.field(part)
        if name == "date":
            low, high = (side.str.to_date("%Y-%m-%d", strict=False) for side in (low, high))
        elif name == "string":
            low, high = (side.str.splitn(REPLACEMENT_CHARACTER, 2).struct.field("field_0") for side in (low, high))
            high = pl.max_horizontal(high.str.strip_chars_end(TRUNCATION_MARKS) + pl.lit(ABOVE_ALL_STRINGS), high + pl.lit(ABOVE_ALL_STRINGS))
        bounds = decoded.select(low.alias("low"), high.alias("high"))
        return bounds["low"], bounds["high"]
