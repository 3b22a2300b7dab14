"""Statistics and partition values of files as typed structs: what checkpoints hold where delta.checkpoint.writeStatsAsStruct asks for it.

Readers then need not parse JSON.  A struct says what the JSON says, or there is none: bounds of another form than the column's type leave a
checkpoint with JSON alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from rowlock.exceptions import CorruptLog
from rowlock.log.quick_bounds import json_columns
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import partition_values
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.schema import DataType, DecimalType, PrimitiveType, StructType

_UNBOUNDED = frozenset({"binary", "variant", "void"})


def typed_columns(frames: Sequence[pa.RecordBatch], snapshot: Snapshot) -> list[dict[str, pa.Array]]:
    """For each frame of files `stats_parsed`, and `partitionValues_parsed` of a partitioned table, by name; empty if the table asks for none, or
    if those of some file cannot be typed."""
    if not snapshot.properties.stats_as_struct:
        return [{} for _ in frames]
    out = [_typed(frame, snapshot) for frame in frames]
    return [columns or {} for columns in out] if all(out) else [{} for _ in frames]


def _typed(frame: pa.RecordBatch, snapshot: Snapshot) -> dict[str, pa.Array] | None:
    try:
        stats = _stats(frame.column("stats"), snapshot)
        values = _partition_values(frame.column("partition_values"), snapshot)
    except (pa.ArrowException, CorruptLog, ValueError, OverflowError):
        return None
    return None if stats is None else {"stats_parsed": stats} | ({} if values is None else {"partitionValues_parsed": values})


def _stats(texts: pa.Array, snapshot: Snapshot) -> pa.Array | None:
    data = StructType(tuple(f for f in snapshot.schema.fields if f.name not in snapshot.metadata.partition_columns))
    bounds, counts = _struct(data, _bound), _struct(data, lambda _: pa.int64())
    sides = [("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    fields = [pa.field("numRecords", pa.int64()), *(pa.field(n, t) for n, t in sides if t is not None), pa.field("tightBounds", pa.bool_())]
    table = json_columns(texts, pa.schema([pa.field(f.name, _as_text(f.type)) for f in fields]))
    if table is None:
        return None
    columns = [_cast(pa.concat_arrays(table.column(f.name).chunks), f.type) if len(texts) else pa.nulls(0, f.type) for f in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=texts.is_null())


def _struct(schema: StructType, leaf: Callable[[DataType], pa.DataType | None]) -> pa.StructType | None:
    """The columns by physical name, with the type that `leaf` gives to each that is no struct; None if there are none."""
    types = {f.physical_name: _struct(f.type, leaf) if isinstance(f.type, StructType) else leaf(f.type) for f in schema.fields}
    fields = [pa.field(name, type_) for name, type_ in types.items() if type_ is not None]
    return pa.struct(fields) if fields else None


def _bound(type_: DataType) -> pa.DataType | None:
    bounded = isinstance(type_, DecimalType) or (isinstance(type_, PrimitiveType) and type_.name not in _UNBOUNDED)
    return to_arrow_type(type_) if bounded else None


def _as_text(type_: pa.DataType) -> pa.DataType:
    """The type with text in place of dates, which Arrow does not find in JSON."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _as_text(f.type)) for f in type_])
    return pa.string() if pa.types.is_date(type_) else type_


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(type_):
        return array.cast(type_)
    children = [_cast(array.field(n), f.type) for n, f in enumerate(type_)]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())


def _partition_values(maps: pa.MapArray, snapshot: Snapshot) -> pa.Array | None:
    """The partition values by physical name; None if the table has no partitions.  Raises ValueError for a time that states no zone."""
    fields = [f for name in snapshot.metadata.partition_columns if (f := snapshot.schema.find(name)) is not None]
    if not fields:
        return None
    rows = [dict(pairs or ()) for pairs in maps.to_pylist()]
    columns = []
    for f in fields:
        texts = [row.get(f.physical_name) for row in rows]
        if f.type == PrimitiveType("timestamp") and any(text and not partition_values.states_zone(text) for text in texts):
            raise ValueError("which moment it is depends on the session that reads it")
        parsed = {text: partition_values.parse(text, f.type) for text in set(texts)}
        columns.append(pa.array([parsed[text] for text in texts], to_arrow_type(f.type)))
    return pa.StructArray.from_arrays(columns, fields=[pa.field(f.physical_name, c.type) for f, c in zip(fields, columns, strict=True)])
