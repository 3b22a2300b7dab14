"""Opens data files with pyarrow: by name on a local disk, by byte ranges in any other store.

Only the footer and the requested columns are fetched; an object small enough for one request is fetched whole.
"""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from rowlock.limits import limits
from rowlock.protocol import paths
from rowlock.storage.local import storage_error
from rowlock.storage.open import locate, missing_file
from rowlock.storage.ranges import RangeFile
from rowlock.storage.store import NotFound, ObjectStore


def open_parquet(store: ObjectStore, key: str, size_bytes: int | None = None) -> pq.ParquetFile:
    """Opens a data file; `size_bytes` is its size by the log, and is asked of the store if missing.  INT96 is read as microseconds.

    Raises CorruptLog where the file does not exist, StorageError where it may not be read, and whatever `locate` raises.
    """
    where, name = locate(store, key)
    place = paths.join(where.root, name)
    local = place.startswith("/")
    try:
        return pq.ParquetFile(place if local else _source(where, name, size_bytes), coerce_int96_timestamp_unit="us", pre_buffer=not local)
    except (FileNotFoundError, NotFound):
        raise missing_file(store.root, key) from None
    except PermissionError as e:
        raise storage_error("read", store.root, key, e) from e


def _source(store: ObjectStore, key: str, size_bytes: int | None) -> io.BytesIO | RangeFile:
    size = size_bytes or store.head(key)
    if size is None:
        raise NotFound(key, store.root)
    return io.BytesIO(store.get(key)) if size <= limits().whole_object_bytes else RangeFile(store, key, size)
