"""NOT NULL at any depth of structs: of rows on the driver, and of files that Spark has just written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowlock.exceptions import ConstraintViolated
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.schema import StructField, StructType
from rowlock.storage.store import ObjectStore


def check_rows(table: pa.Table, snapshot: Snapshot, root: str) -> None:
    """Raises ConstraintViolated naming the first column that holds a null it may not hold."""
    for field in snapshot.schema.fields:
        if field.name in table.column_names:
            _check(table.column(field.name), field, field.name, root)


def _check(column: Any, field: StructField, name: str, root: str) -> None:
    if not field.nullable and column.null_count:
        raise null_in(name, root)
    if isinstance(field.type, StructType) and any(not f.nullable or isinstance(f.type, StructType) for f in field.type.fields):
        present = pc.drop_null(column) if column.null_count else column
        for inner in field.type.fields:
            _check(pc.struct_field(present, inner.name), inner, f"{name}.{inner.name}", root)


def check_not_null(files: Sequence[AddFile], snapshot: Snapshot, store: ObjectStore) -> None:
    """NOT NULL of columns and of fields in structs, by the footers' null counts.  Raises ConstraintViolated."""
    _check_fields_in_structs(files, snapshot, store)
    required = [f.name for f in snapshot.schema.fields if not f.nullable and f.name not in snapshot.metadata.partition_columns]
    for file in files:
        if not file.num_records:
            continue
        for name in snapshot.metadata.partition_columns:
            field = snapshot.schema.find(name)
            if field is not None and not field.nullable and file.partition_values.get(name) is None:
                raise null_in(name, store.root)
        if not required:
            continue
        metadata = pq.read_metadata(paths.join(store.root, file.path))
        index = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        for name in required:
            at = index.get(name)
            if at is None:
                continue
            found = [metadata.row_group(g).column(at).statistics for g in range(metadata.num_row_groups)]
            if any(s is not None and s.has_null_count and s.null_count for s in found):
                raise null_in(name, store.root)


def _check_fields_in_structs(files: Sequence[AddFile], snapshot: Snapshot, store: ObjectStore) -> None:
    """A null in such a field may be that of the struct around it: where the footer counts one, the column is looked at."""
    required = {f".{'.'.join(path)}": path[0] for path, f in snapshot.schema.all_fields() if len(path) > 1 and not f.nullable}
    for file in files if required else ():
        metadata = pq.read_metadata(paths.join(store.root, file.path))
        doubtful = {top for name, top in required.items() for at in range(metadata.num_columns) if f".{metadata.schema.column(at).path}.".startswith(f"{name}.") and _may_hold_null(metadata, at)}
        if doubtful:
            check_rows(pq.read_table(paths.join(store.root, file.path), columns=sorted(doubtful), partitioning=None), snapshot, store.root)


def _may_hold_null(metadata: pq.FileMetaData, column: int) -> bool:
    found = [metadata.row_group(g).column(column).statistics for g in range(metadata.num_row_groups)]
    return any(s is None or not s.has_null_count or s.null_count for s in found)


def null_in(name: str, table: str) -> ConstraintViolated:
    return ConstraintViolated(f"Column {name} is NOT NULL and the statement would write a null into it; filter such rows out or give a value", table=table)
