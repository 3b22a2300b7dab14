"""Live files as polars frames, one row per file, converted from and to `AddFile` values.

Owns the frame's schema and the conversions from add actions and from a checkpoint's Arrow struct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.lazy_import import pl
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile, DeletionVectorDescriptor
from rowlock.protocol.deletion_vector import StorageType

_ARROW_MAP = pa.map_(pa.string(), pa.string())
_FROM_ADD: tuple[tuple[str, str, pa.DataType], ...] = (
    ("path", "path", pa.string()),
    ("partitionValues", "partition_values", _ARROW_MAP),
    ("size", "size", pa.int64()),
    ("modificationTime", "modification_time", pa.int64()),
    ("dataChange", "data_change", pa.bool_()),
    ("stats", "stats", pa.string()),
    ("tags", "tags", _ARROW_MAP),
    ("baseRowId", "base_row_id", pa.int64()),
    ("defaultRowCommitVersion", "commit_version", pa.int64()),
    ("clusteringProvider", "clustering", pa.string()),
)
ADD_FIELDS = (*(field for field, _, _ in _FROM_ADD), "deletionVector")
"""The fields of a checkpoint's `add` struct that a frame is made from."""
_FROM_VECTOR: tuple[tuple[str, str, pa.DataType], ...] = (
    ("storageType", "dv_type", pa.string()),
    ("pathOrInlineDv", "dv_path", pa.string()),
    ("offset", "dv_offset", pa.int64()),
    ("sizeInBytes", "dv_size", pa.int64()),
    ("cardinality", "dv_cardinality", pa.int64()),
)


@cache
def _schema() -> dict[str, Any]:
    """The columns of a frame of files, and their types."""
    a_map = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
    return {
        "path": pl.String,
        "partition_values": a_map,
        "size": pl.Int64,
        "modification_time": pl.Int64,
        "data_change": pl.Boolean,
        "stats": pl.String,
        "dv_type": pl.String,
        "dv_path": pl.String,
        "dv_offset": pl.Int64,
        "dv_size": pl.Int64,
        "dv_cardinality": pl.Int64,
        "tags": a_map,
        "base_row_id": pl.Int64,
        "commit_version": pl.Int64,
        "clustering": pl.String,
        "log_path": pl.String,
    }


def empty() -> pl.DataFrame:
    """A frame without files."""
    return pl.DataFrame(schema=_schema())


def from_adds(adds: Iterable[AddFile]) -> pl.DataFrame:
    """A frame of add actions."""
    return pl.DataFrame([_row_of(add) for add in adds], schema=_schema(), orient="row")


def _row_of(add: AddFile) -> tuple[Any, ...]:
    dv = add.deletion_vector
    vector = (dv.storage_type, dv.path_or_inline_dv, dv.offset, dv.size_bytes, dv.cardinality) if dv else (None,) * 5
    tags = None if add.tags is None else [{"key": k, "value": v} for k, v in add.tags.items()]
    return (
        add.path,
        [{"key": k, "value": v} for k, v in add.partition_values.items()],
        add.size_bytes,
        add.modification_time_ms,
        add.data_change,
        add.stats,
        *vector,
        tags,
        add.base_row_id,
        add.default_row_commit_version,
        add.clustering_provider,
        add.log_path,
    )


def to_adds(frame: pl.DataFrame) -> Iterator[AddFile]:
    """The rows as `AddFile` values, created lazily in chunks."""
    for start in range(0, frame.height, 10_000):
        for row in frame[start : start + 10_000].iter_rows():
            yield _add_of(row)


def _add_of(row: tuple[Any, ...]) -> AddFile:
    (
        path,
        values,
        size,
        modified,
        data_change,
        stats,
        dv_type,
        dv_path,
        dv_offset,
        dv_size,
        dv_cardinality,
        tags,
        base_row_id,
        commit_version,
        clustering,
        spelling,
    ) = row
    dv = None if dv_type is None else DeletionVectorDescriptor(cast(StorageType, dv_type), dv_path, dv_offset, dv_size, dv_cardinality)
    return AddFile(
        path,
        {v["key"]: v["value"] for v in values or ()},
        size,
        modified,
        bool(data_change),
        stats,
        dv,
        None if tags is None else {t["key"]: t["value"] for t in tags},
        base_row_id,
        commit_version,
        clustering,
        spelling,
    )


def from_checkpoint(adds: pa.StructArray, root: str) -> pl.DataFrame:
    """A frame of the `add` column of a checkpoint of the table at `root`; rows without a path are left out."""
    adds = adds.filter(pc.is_valid(pc.struct_field(adds, ["path"])))
    columns = _pick(adds, _FROM_ADD)
    vectors = _field(adds, "deletionVector")
    columns |= _pick(vectors, _FROM_VECTOR) if vectors is not None else {}
    frame = cast(pl.DataFrame, pl.from_arrow(pa.table(columns)))
    missing = [pl.lit(None, dtype=type_).alias(name) for name, type_ in _schema().items() if name not in frame.columns]
    frame = frame.with_columns(missing).select([pl.col(name).cast(type_) for name, type_ in _schema().items()])
    odd = ~frame["path"].str.contains(paths.UNESCAPED) | frame["path"].str.contains(paths.NOT_CANONICAL)
    if odd.any():
        decoded, others = zip(*(paths.decode_with_spelling(p, root) if o else (p, None) for p, o in zip(frame["path"], odd, strict=True)), strict=True)
        frame = frame.with_columns(pl.Series("path", decoded, dtype=pl.String), pl.Series("log_path", others, dtype=pl.String))
    return frame


def _pick(struct: pa.StructArray, fields: Sequence[tuple[str, str, pa.DataType]]) -> dict[str, pa.Array]:
    return {ours: column.cast(type_) for theirs, ours, type_ in fields if (column := _field(struct, theirs)) is not None}


def _field(struct: pa.StructArray, name: str) -> pa.Array | None:
    return pc.struct_field(struct, [name]) if struct.type.get_field_index(name) >= 0 else None
