"""Compares the data files of the newest version with the log: existence, size, deletion vectors, and statistics against footers.

Reads the sizes of at most `files` files, also of those of other tables that a shallow clone names, and the footers and deletion vectors of at most `footers`, spread evenly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.exceptions import CorruptLog
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.finding import Finding
from rowlock.maintenance.check.places import Places
from rowlock.protocol import paths
from rowlock.protocol.actions import AddFile
from rowlock.storage.store import NotFound, ObjectStore
from rowlock.threads import side_by_side
from rowlock.transaction.state.vectors import Vectors

_TAIL_BYTES = 64 << 10
_THREADS = 16
_BRING_BACK = "Restore it from a backup or an older object version, or RESTORE the table to a version that does not need it"
_REWRITE = "Rewrite the files (OPTIMIZE, or an overwrite), and find out which writer made them"
_Problem = tuple[str, str]
"""A file, and what is wrong with it."""
T = TypeVar("T")


def data_file_findings(store: ObjectStore, head: Snapshot, *, files: int, footers: int) -> tuple[list[Finding], dict[str, int]]:
    """The findings, and how many files of each kind were examined.  Files of other tables, which shallow clones name, are looked at where they lie."""
    places = Places(store)
    adds = sorted(head.files.adds(), key=lambda a: a.path)
    sizes = _spread(adds, files)
    found = side_by_side(lambda a: places.size(a.path), sizes, _THREADS)
    there = [a for a, size in zip(sizes, found, strict=True) if size == a.size_bytes]
    vectors = sorted({v for a in sizes if (v := _vector_of(head, a)) is not None})
    missing_vectors = [v for v, size in zip(vectors, side_by_side(places.size, vectors, _THREADS), strict=True) if size is None]
    sampled = _spread(there, footers)
    contradicting = [problem for problem in side_by_side(lambda a: _footer_problem(places, a), sampled, _THREADS) if problem]
    unread = {*missing_vectors, *places.closed}
    with_vector = [a for a in _spread([a for a in there if a.deletion_vector], footers) if _vector_of(head, a) not in unread]
    damaged = [problem for problem in side_by_side(lambda a: _vector_problem(store, a), with_vector, _THREADS) if problem]
    seen = sum(size != -1 for size in found)
    counts = {"live files": len(adds), "files": seen, "vector files": len(vectors), "vectors": len(with_vector), "footers": len(sampled)}
    findings = [
        *_size_findings(sizes, found),
        *_listed(
            "vector-missing",
            "deletion vector files are missing, so that deleted rows cannot be told from live ones",
            [(v, "") for v in missing_vectors],
            _BRING_BACK,
        ),
        *_listed("vector-damaged", "deletion vectors of data files cannot be read", damaged, _BRING_BACK),
        *_listed("statistics-lie", "data files contradict what the log says of them, so that queries can miss rows", contradicting, _REWRITE),
        *_not_examined(places),
        *_inline(adds),
    ]
    return findings, counts


def _not_examined(places: Places) -> Iterable[Finding]:
    if places.closed:
        first, why = next(iter(sorted(places.closed.items())))
        yield Finding(
            "suspicion",
            "files-not-examined",
            f"files outside of the table's folder could not be looked at ({len(places.closed):,}), so nothing is known of them; the first, {first}: {why}",
            "Give access to the tables that this shallow clone names files of, and check again",
            files=tuple(sorted(places.closed)),
        )


def _inline(adds: Sequence[AddFile]) -> Iterable[Finding]:
    if found := [a.path for a in adds if a.deletion_vector is not None and a.deletion_vector.is_inline]:
        yield Finding(
            "note",
            "vectors-in-log",
            f"deletion vectors of {len(found):,} data files are stored in the log itself. Every engine reads them, but VACUUM of delta-spark fails on such a table",
            "Where delta-spark's VACUUM is used, run OPTIMIZE or REORG TABLE ... APPLY (PURGE), or vacuum with Rowlock",
            files=tuple(found),
        )


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, evenly spaced."""
    return list(items) if len(items) <= most else [items[n * len(items) // most] for n in range(most)]


def _vector_of(head: Snapshot, add: AddFile) -> str | None:
    """The path of a file's deletion vector file, relative to the table's folder where it is below it; None if it has none, or an inline one."""
    path = add.deletion_vector.path if add.deletion_vector else None
    return None if path is None else paths.relative_to(head.table, path)


def _size_findings(adds: Sequence[AddFile], sizes: Sequence[int | None]) -> Iterable[Finding]:
    seen = list(zip(adds, sizes, strict=True))
    yield from _listed("file-missing", "data files of the newest version are missing", [(a.path, "") for a, size in seen if size is None], _BRING_BACK)
    other = [(a.path, f"{size:,} bytes, the log says {a.size_bytes:,}") for a, size in seen if size not in (None, -1) and size != a.size_bytes]
    yield from _listed("file-of-another-size", "data files do not have the size that the log says", other, _BRING_BACK)


def _listed(code: str, what: str, found: Sequence[_Problem], remedy: str) -> Iterable[Finding]:
    if found:
        named = ", ".join(f"{path} ({how})" if how else path for path, how in found[:3]) + (f" and {len(found) - 3:,} more" if len(found) > 3 else "")
        yield Finding("damage", code, f"{what} ({len(found):,}): {named}", remedy, files=tuple(path for path, _ in found))


def _footer_problem(places: Places, add: AddFile) -> _Problem | None:
    """How the footer contradicts the log; None where they agree, or the log has no statistics."""
    found = places.find(add.path)
    assert found is not None, "its size was asked"
    try:
        rows = _rows_in(*found, add.size_bytes)
    except (pa.ArrowInvalid, OSError, NotFound, struct.error) as e:
        return add.path, f"cannot be read: {(str(e).splitlines() or [''])[0]}"
    if add.num_records is not None and rows != add.num_records:
        return add.path, f"{rows:,} rows, its statistics say {add.num_records:,}"
    if add.deletion_vector and add.deletion_vector.cardinality > rows:
        return add.path, f"{rows:,} rows, its deletion vector marks {add.deletion_vector.cardinality:,}"
    return None


def _rows_in(store: ObjectStore, key: str, size_bytes: int) -> int:
    """The number of rows by the file's footer, usually with one request for its last 64 KiB."""
    start = max(0, size_bytes - _TAIL_BYTES)
    tail = store.get_range(key, start, size_bytes - start)
    (footer,) = struct.unpack("<I", tail[-8:-4])
    if 0 < footer + 8 <= size_bytes and footer + 8 > len(tail):
        tail = store.get_range(key, size_bytes - footer - 8, footer + 8)
    return int(pq.read_metadata(pa.BufferReader(tail)).num_rows)


def _vector_problem(store: ObjectStore, add: AddFile) -> _Problem | None:
    """Why the file's deletion vector cannot be read, or how its number of rows contradicts the log; None if all is well."""
    try:
        vector = Vectors(store).of(add)
    except CorruptLog as e:
        return add.path, str(e)
    expected = add.deletion_vector.cardinality if add.deletion_vector else 0
    return (add.path, f"marks {len(vector):,} rows, the log says {expected:,}") if len(vector) != expected else None
