"""Opens data files with pyarrow, by name on a local disk, by byte ranges in any other store; and finds those with dropped columns or former types.

Only the footer and the requested columns are fetched; an object small enough for one request is fetched whole.  Dropped columns are left out by
REORG ... APPLY (PURGE); types may have been widened since a file was written.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.display import first_line
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import from_arrow_type, is_list
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.row_tracking import COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from rowlock.protocol.schema import TYPE_CHANGES, ArrayType, DataType, MapType, StructField, StructType, type_name
from rowlock.storage.open import locate, missing_file
from rowlock.storage.store import NotFound, ObjectMeta, ObjectStore, RangeFile, storage_error
from rowlock.threads import side_by_side

_PLAIN: Any = {"arrow_extensions_enabled": False} if "arrow_extensions_enabled" in inspect.signature(pq.ParquetFile).parameters else {}

_OF_A_JOB = re.compile(r"(^|/)rl-[0-9a-f]{8}-[0-9a-f]{4}/")
_OF_ARROW = re.compile(r"(^|/)part-00000-[0-9a-f-]{36}-c000[.\w]*\.parquet\Z")
_LOOKED_AT = 1000
"""How many objects of a folder are looked at for files of others: one page of a store's listing."""


def file_of_others(store: ObjectStore, suffix: str = "") -> str | None:
    """The first file in a folder without a log that no Rowlock has written; None where there are only files that others stage for a new table, or hidden ones."""
    for found in store.list(recursive=True, limit=_LOOKED_AT):
        if found.key.endswith(suffix) and not paths.is_hidden(found.key) and not _OF_A_JOB.search(found.key) and not _is_staged(store, found):
            return found.key
    return None


def _is_staged(store: ObjectStore, found: ObjectMeta) -> bool:
    """Whether a file has a name that Spark's may have, too, and Arrow wrote it, or it is gone again."""
    if not _OF_ARROW.search(found.key):
        return False
    try:
        with open_parquet(store, found.key, found.size_bytes) as source:
            return str(source.metadata.created_by).startswith("parquet-cpp-arrow")
    except CorruptLog:
        return True


@contextmanager
def open_parquet(store: ObjectStore, key: str, size_bytes: int | None = None) -> Iterator[pq.ParquetFile]:
    """Opens a data file; `size_bytes` is its size by the log, and is asked of the store if missing.  INT96 is read as microseconds, JSON as text.

    Raises CorruptLog where the file does not exist or is damaged, also while it is read, StorageError where it may not be read, and whatever `locate` raises.
    What Arrow cannot hold (more than 2 GB of text in one piece) is no damage, and its ArrowInvalid passes.
    """
    where, name = locate(store, key)
    place = paths.join(where.root, name)
    local, is_open = place.startswith("/"), False
    try:
        with pq.ParquetFile(place if local else _source(where, name, size_bytes), coerce_int96_timestamp_unit="us", pre_buffer=not local, **_PLAIN) as source:
            is_open = True
            yield source
    except (FileNotFoundError, NotFound):
        raise missing_file(store.root, key) from None
    except (pa.ArrowInvalid, OSError) as e:
        if isinstance(e, OSError) and e.errno:
            raise storage_error("read", store.root, key, e) from e
        if is_open and not isinstance(e, OSError):
            raise
        raise CorruptLog(f"A data file cannot be read ({first_line(e)}): bring it back from a backup or an older version", table=store.root, file=key) from e


def num_rows(store: ObjectStore, key: str, size_bytes: int) -> int:
    """The physical number of rows of a data file, from its footer."""
    with open_parquet(store, key, size_bytes) as source:
        return int(source.metadata.num_rows)


def _source(store: ObjectStore, key: str, size_bytes: int | None) -> io.BytesIO | RangeFile:
    size = size_bytes or store.head(key)
    if size is None:
        raise NotFound(key, store.root)
    return io.BytesIO(store.get(key)) if size <= limits().whole_object_bytes else RangeFile(store, key, size)


_OWN = "__rowlock"


def files_with_dropped_columns(store: ObjectStore, files: Iterable[AddFile], snapshot: Snapshot) -> list[AddFile]:
    """Those of the files whose footer names a column that is none of the table's.  Only a table with mapped columns can have dropped any."""
    if not is_mapped(snapshot.metadata.configuration):
        return []
    also = {snapshot.metadata.configuration.get(name) for name in (ROW_ID_COLUMN, COMMIT_VERSION_COLUMN)}

    def dropped(name: str, at_top: bool) -> bool:
        return not (at_top and (name in also or name.startswith(_OWN)))

    return _files(store, files, lambda fields: any(f is None and dropped(s.name, at_top) for s, f, at_top in _fields(fields, snapshot.schema)))


def files_with_older_types(store: ObjectStore, files: Iterable[AddFile], snapshot: Snapshot) -> list[AddFile]:
    """Those of the files whose footer has, for a column or inside of one, a type that the column had before it was widened."""
    return _files(store, files, lambda fields: any(f is not None and _is_older(s.type, f) for s, f, _ in _fields(fields, snapshot.schema)))


def _files(store: ObjectStore, files: Iterable[AddFile], holds: Callable[[Iterable[pa.Field]], bool]) -> list[AddFile]:
    """The files whose columns satisfy `holds`."""

    def asked(file: AddFile) -> bool:
        with open_parquet(store, file.path, file.size_bytes) as source:
            return holds(source.schema_arrow)

    held = list(files)
    return [f for f, found in zip(held, side_by_side(asked, held, limits().file_threads), strict=True) if found]


def _fields(stored: Iterable[pa.Field], known: StructType, *, at_top: bool = True) -> Iterator[tuple[pa.Field, StructField | None, bool]]:
    """The fields of a file and those inside of them, each with the table's field for it (None: it has none), and whether it is a column."""
    now = {f.physical_name: f for f in known.fields}
    for field in stored:
        yield field, now.get(field.name), at_top
        if field.name in now:
            for part, of, _ in _parts(field.type, now[field.name].type):
                if isinstance(of, StructType) and pa.types.is_struct(part):
                    yield from _fields(part, of, at_top=False)


def _is_older(stored: pa.DataType, field: StructField) -> bool:
    """Whether a field of a file has, also within its arrays and maps, a type that the table's had before."""
    before = {(c.get("fieldPath", ""), c["fromType"]) for c in field.metadata.get(TYPE_CHANGES, ())}
    for part, of, place in _parts(stored, field.type):
        if not isinstance(of, StructType) and any(at == place for at, _ in before) and (place, type_name(from_arrow_type(part))) in before:
            return True
    return False


def _parts(stored: pa.DataType, known: DataType, place: str = "") -> list[tuple[pa.DataType, DataType, str]]:
    """A type, or what is at the bottom of arrays and maps in it: as it is stored, as the table has it, and its place as `delta.typeChanges` writes it."""
    if isinstance(known, ArrayType) and is_list(stored):
        return _parts(stored.value_type, known.element, f"{place}.element".lstrip("."))
    if isinstance(known, MapType) and pa.types.is_map(stored):
        return _parts(stored.key_type, known.key, f"{place}.key".lstrip(".")) + _parts(stored.item_type, known.value, f"{place}.value".lstrip("."))
    return [(stored, known, place)]
