"""Which data files still hold columns that the table has dropped: REORG ... APPLY (PURGE) writes these anew without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.row_tracking import COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from rowlock.protocol.schema import ArrayType, DataType, MapType, StructType
from rowlock.storage.store import ObjectStore
from rowlock.threads import side_by_side

_OWN = "__rowlock"


def files_with_dropped_columns(store: ObjectStore, files: Iterable[AddFile], snapshot: Snapshot) -> list[AddFile]:
    """Those of the files whose footer names a column that is none of the table's.  Only a table with mapped columns can have dropped any."""
    if not is_mapped(snapshot.metadata.configuration):
        return []
    also = {snapshot.metadata.configuration.get(name) for name in (ROW_ID_COLUMN, COMMIT_VERSION_COLUMN)}

    def holds(file: AddFile) -> bool:
        with open_parquet(store, file.path, file.size_bytes) as source:
            schema = source.schema_arrow
        kept = [f for f in schema if f.name not in also and not f.name.startswith(_OWN)]
        return _holds_others(kept, snapshot.schema)

    held = list(files)
    return [f for f, found in zip(held, side_by_side(holds, held, limits().file_threads), strict=True) if found]


def _holds_others(fields: Sequence[pa.Field], known: StructType) -> bool:
    """Whether fields of a file, or fields inside of them, are none of the table's."""
    types = {f.physical_name: f.type for f in known.fields}
    return any(f.name not in types or _inside(f.type, types[f.name]) for f in fields)


def _inside(stored: pa.DataType, known: DataType) -> bool:
    if isinstance(known, StructType) and pa.types.is_struct(stored):
        return _holds_others([stored.field(n) for n in range(stored.num_fields)], known)
    if isinstance(known, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return _inside(stored.value_type, known.element)
    if isinstance(known, MapType) and pa.types.is_map(stored):
        return _inside(stored.key_type, known.key) or _inside(stored.item_type, known.value)
    return False
