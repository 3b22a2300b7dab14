"""Reads an object as a file, by byte ranges: of a large object only the requested ranges are fetched."""

from __future__ import annotations

import io

from rowlock.storage.store import ObjectStore


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
