"""Compares the data files of the newest version with the log: existence, size, deletion vectors, and statistics against footers.

Reads the sizes of at most `files` files, also of those of other tables that a shallow clone names, and the footers and deletion vectors of at most `footers`, spread evenly.
A deep check also lists the files in the folder that the log does not name: staged by active writers, or left by killed ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rowlock.display import first_line
from rowlock.exceptions import CorruptLog, InvalidInput, StorageError
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.finding import Finding, finding, of_files
from rowlock.maintenance.check.log import Step
from rowlock.maintenance.vacuum import folders_of_tables, paths_of
from rowlock.parquet.files import num_rows
from rowlock.protocol import names, paths
from rowlock.protocol.actions import AddFile
from rowlock.storage.open import locate
from rowlock.storage.store import ObjectStore
from rowlock.threads import side_by_side
from rowlock.transaction.state.shared import Vectors

_Problem = tuple[str, str]
"""A file, and what is wrong with it."""
T = TypeVar("T")


def data_file_findings(store: ObjectStore, head: Snapshot, *, files: int, footers: int) -> tuple[list[Finding], dict[str, int]]:
    """The findings, and how many files of each kind were examined.  Files of other tables, which shallow clones name, are read in their own folders."""
    places = Places(store)
    adds = sorted(head.files.adds(), key=lambda a: a.path)
    examined = _spread(adds, files)
    sizes = side_by_side(lambda a: places.size(a.path), examined, limits().request_threads)
    intact = [a for a, size in zip(examined, sizes, strict=True) if size == a.size_bytes]
    vectors = sorted({v for a in examined if (v := _vector_of(head, a)) is not None})
    missing_vectors = [v for v, size in zip(vectors, side_by_side(places.size, vectors, limits().request_threads), strict=True) if size is None]
    sampled = _spread(intact, footers)
    contradicting = [problem for problem in side_by_side(lambda a: _footer_problem(store, a), sampled, limits().request_threads) if problem]
    unread = {*missing_vectors, *places.closed}
    with_vector = [a for a in _spread([a for a in intact if a.deletion_vector], footers) if _vector_of(head, a) not in unread]
    damaged = [problem for problem in side_by_side(lambda a: _vector_problem(store, a), with_vector, limits().request_threads) if problem]
    seen = sum(size != -1 for size in sizes)
    counts = {"live files": len(adds), "files": seen, "vector files": len(vectors), "vectors": len(with_vector), "footers": len(sampled)}
    missing = [a.path for a, size in zip(examined, sizes, strict=True) if size is None]
    wrong = [(a, size) for a, size in zip(examined, sizes, strict=True) if size not in (None, -1, a.size_bytes)]
    other = [(a.path, f"{size:,} bytes, the log says {a.size_bytes:,}") for a, size in wrong]
    findings = [
        *of_files("file-missing", "data files of the newest version are missing", [(path, "") for path in missing]),
        *of_files("file-of-another-size", "data files differ in size from the log", other),
        *of_files(
            "vector-missing",
            "deletion vector files are missing, so that deleted rows cannot be distinguished from live ones",
            [(v, "") for v in missing_vectors],
        ),
        *of_files("vector-damaged", "deletion vectors of data files cannot be read", damaged),
        *of_files("statistics-lie", "data files contradict the log's statistics, so that queries can miss rows", contradicting),
    ]
    if places.closed:
        first, why = min(places.closed.items())
        text = f"files outside of the table's folder could not be read ({len(places.closed):,}), so their state is unknown; the first, {first}: {why}"
        findings.append(finding("files-not-examined", text, files=sorted(places.closed)))
    if inline := [a.path for a in adds if a.deletion_vector is not None and a.deletion_vector.is_inline]:
        text = f"deletion vectors of {len(inline):,} data files are stored in the log itself. Every engine reads them, but VACUUM of delta-spark fails on such a table"
        findings.append(finding("vectors-in-log", text, files=inline))
    return findings, counts


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, evenly spaced."""
    return list(items) if len(items) <= most else [items[n * len(items) // most] for n in range(most)]


def _vector_of(head: Snapshot, add: AddFile) -> str | None:
    """The path of a file's deletion vector file, relative to the table's folder if it is below it; None if it has none, or an inline one."""
    path = add.deletion_vector.path if add.deletion_vector else None
    return None if path is None else paths.relative_to(head.table, path)


def _footer_problem(store: ObjectStore, add: AddFile) -> _Problem | None:
    """How the footer contradicts the log; None if they agree, or the log has no statistics."""
    try:
        rows = num_rows(store, add.path, add.size_bytes)
    except CorruptLog as e:
        return add.path, f"cannot be read: {first_line(e)}"
    if add.num_records is not None and rows != add.num_records:
        return add.path, f"{rows:,} rows, its statistics say {add.num_records:,}"
    if add.deletion_vector and add.deletion_vector.cardinality > rows:
        return add.path, f"{rows:,} rows, its deletion vector marks {add.deletion_vector.cardinality:,}"
    return None


def _vector_problem(store: ObjectStore, add: AddFile) -> _Problem | None:
    """Why the file's deletion vector cannot be read, or how its number of rows contradicts the log; None if all is well."""
    try:
        vector = Vectors(store).of(add)
    except CorruptLog as e:
        return add.path, str(e)
    return (add.path, f"marks {len(vector):,} rows, the log says {add.dead_rows:,}") if len(vector) != add.dead_rows else None


class Places:
    """Looks for files in their tables' folders; those outside of this one's that cannot be opened or read are named in `closed`.  Thread-safe."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.closed: dict[str, str] = {}
        """Why files could not be read, by their paths."""

    def size(self, path: str) -> int | None:
        """A file's size in bytes; None if it does not exist, -1 if it may not be looked for.  Raises StorageError for one in the table's own folder."""
        try:
            store, key = locate(self._store, path)
            return store.head(key)
        except (InvalidInput, StorageError) as e:
            if not paths.is_absolute(paths.relative_to(self._store.root, path)):
                raise
            self.closed[path] = str(e)
            return -1


class NamedFiles:
    """Collects every path that the log names."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._begun = False

    def take(self, step: Step) -> None:
        """Adds the paths of the next version; of the first that can be built all of its live files."""
        if step.after is not None and (step.commit is None or not self._begun):
            self._named |= paths_of(step.after, step.after.files.adds())
            self._begun = True
        if step.commit is not None and (at := step.after or step.before) is not None:
            self._named |= paths_of(at, [*step.commit.adds, *step.commit.removes])
            self._named |= {paths.decode(c.raw["path"], at.table) for c in step.commit.cdc if isinstance(c.raw.get("path"), str)}

    def findings(self, store: ObjectStore, head: Snapshot) -> Iterator[Finding]:
        """One note about all files that the log does not name, if there are any."""
        own = (f"{names.LOG_DIRECTORY}/", f"{names.ROWLOCK_DIRECTORY}/")
        listed = [m for m in store.list(recursive=True) if not m.key.startswith(own)]
        nested = folders_of_tables(listed)
        unnamed = [m for m in listed if m.key not in self._named and not m.key.startswith(nested) and m.key.endswith((".parquet", ".bin"))]
        if unnamed:
            text = (
                f"{len(unnamed):,} files of {sum(m.size_bytes for m in unnamed):,} bytes are not named in the log of {head.table}: staged by an active writer, "
                "or left by one that was killed or by versions that the log no longer holds"
            )
            yield finding("files-not-in-log", text, files=(m.key for m in unnamed))
