"""Opens data files with pyarrow: by name on a local disk, by byte ranges in any other store.

Only the footer and the requested columns are fetched; an object small enough for one request is fetched whole.
"""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from rowlock.limits import limits
from rowlock.protocol import paths
from rowlock.storage.local import storage_error
from rowlock.storage.open import locate
from rowlock.storage.store import NotFound, ObjectStore


def open_parquet(store: ObjectStore, key: str, size_bytes: int | None = None) -> pq.ParquetFile:
    """Opens a data file; `size_bytes` is its size by the log, and is asked of the store if missing.  INT96 is read as microseconds.

    Raises NotFound where the file does not exist, StorageError where it may not be read, and whatever `locate` raises.
    """
    where, name = locate(store, key)
    place = paths.join(where.root, name)
    local = place.startswith("/")
    source = place if local else _source(where, name, size_bytes)
    try:
        return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=not local)
    except FileNotFoundError:
        raise NotFound(key, store.root) from None
    except PermissionError as e:
        raise storage_error("read", store.root, key, e) from e


def _source(store: ObjectStore, key: str, size_bytes: int | None) -> io.BytesIO | RangeFile:
    size = size_bytes or store.head(key)
    if size is None:
        raise NotFound(key, store.root)
    return io.BytesIO(store.get(key)) if size <= limits().whole_object_bytes else RangeFile(store, key, size)


class RangeFile(io.RawIOBase):
    """A file object that reads an object by byte ranges.  Not thread-safe: pyarrow reads one range after the other."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store, self._key, self._size, self._at = store, key, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._store.get_range(self._key, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()
