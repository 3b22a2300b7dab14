"""Deletion vectors of a table: cached by identity when read; written inline, or many to one file.

A vector never changes, so what was read or written once serves for good.  Reads and writes go
through the table's store; nothing here decides what is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap64

from rowlock import clock
from rowlock.caches import VECTORS, Cache
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.protocol import deletion_vector as dv
from rowlock.protocol.actions import AddFile
from rowlock.storage.open import locate, missing_file
from rowlock.storage.store import NotFound, ObjectStore


class Vectors:
    """The vectors of one table, with a bounded cache.  Thread-safe; driver only."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._cache: Cache[tuple[BitMap64, int]] = Cache(VECTORS, lambda found: 256 + found[1])

    def forget(self) -> None:
        """Clears the cache: another table has taken this table's place."""
        self._cache.clear()

    def of(self, file: AddFile) -> BitMap64:
        """The dead positions of a file; empty where it has no vector.  Not to be changed by the caller."""
        descriptor = file.deletion_vector
        if descriptor is None:
            return BitMap64()
        if (cached := self._cache.get(descriptor)) is not None:
            return cached[0]
        bitmap = self._read(file, descriptor)
        if (rows := file.num_records) is not None and len(bitmap) > rows:  # a few bytes can name billions of rows, which no file holds
            raise CorruptLog(f"the deletion vector marks {len(bitmap):,} rows of a file of {rows:,}", table=self._store.root, file=file.path)
        self._cache.put(descriptor, (bitmap, descriptor.size_bytes))
        return bitmap

    def stored(self, file: AddFile) -> BitMap64:
        """The dead positions of a file as they are stored, also where the log says another number of them.  Not cached."""
        return BitMap64() if file.deletion_vector is None else self._read(file, file.deletion_vector, any_cardinality=True)

    def _read(self, file: AddFile, descriptor: dv.DeletionVectorDescriptor, *, any_cardinality: bool = False) -> BitMap64:
        if descriptor.is_inline:
            bitmap = dv.read_inline(descriptor, any_cardinality=any_cardinality)
        else:
            key = descriptor.path or ""
            try:
                store, name = locate(self._store, key)  # that of a shallow clone lies in another table's folder
                body = store.get(name)
            except NotFound as e:
                raise missing_file(self._store.root, key, f"The deletion vector of data file {file.path}") from e
            bitmap = dv.read_from_file(descriptor, body, any_cardinality=any_cardinality)
        return bitmap

    def remember(self, file: AddFile, bitmap: BitMap64) -> None:
        """Caches a vector that was just written, so that it need not be read."""
        if file.deletion_vector is not None:
            self._cache.put(file.deletion_vector, (bitmap, file.deletion_vector.size_bytes))

    def store_all(self, bitmaps: Sequence[BitMap64]) -> list[dv.DeletionVectorDescriptor]:
        """Stores vectors, small ones inline, the others together in one new file.  Returns their descriptors in the order given."""
        out: list[dv.DeletionVectorDescriptor | None] = []
        large: list[tuple[int, BitMap64]] = []
        for n, bitmap in enumerate(bitmaps):
            out.append(dv.inline(bitmap, limit_bytes=limits().inline_vector_bytes))
            if out[-1] is None:
                large.append((n, bitmap))
        if large:
            body, places = dv.pack_vectors([b for _, b in large])
            name = clock.new_uuid()
            self._store.put(dv.file_path(name), body)
            for (n, bitmap), place in zip(large, places, strict=True):
                out[n] = dv.on_disk(name, place, len(bitmap))
        return [d for d in out if d is not None]
