"""A store whose commits are arbitrated by a DynamoDB table, with the procedure of Delta's S3DynamoDBLogStore.

For each `_delta_log/<version>.json` an entry in the DynamoDB table decides who commits it (I1); the entry is created
by a conditional put before the file exists.

    absent?  the file must not exist, and the previous version must (if it is unfinished, it is finished first)
    temp     the bytes are put to _delta_log/.tmp/<version>.json.<id>
    claim    the incomplete entry is created if there is none: from here on the commit is decided
    copy     the bytes are put to <version>.json
    complete the entry is marked complete, with its expiry time

A writer that dies after `claim` has committed.  Its commit is finished by the next writer
(of the next version), listing of the log, or read of the version.  Spark does the same, so each finishes the other's
commits.
Existing files are read without the arbiter; it is read, by one consistent read of one row, only if a
version is absent.  All other keys pass through to the inner store.

If a writer bypassed the arbiter and its file has the name of a claimed version, every reader sees that file:
the claim is Lost, and an error is logged.

For the next versions of several tables one TransactWriteItems claims all of them, or none (I1, I2): `absent?` for each table, and the version after
the head of each table that was only read must be absent; `temp` side by side; `claim` is one request that creates all entries, if each of them
and the next entry of each table only read is absent; `copy` and `complete` side by side, which any process finishes, Spark's S3DynamoDBLogStore too.
A process that asks the arbiter sees all of the versions or none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rowlock import clock, threads
from rowlock.exceptions import ConcurrentWriteException, CorruptLog, InvalidInput
from rowlock.limits import limits
from rowlock.protocol import names
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Entry, EntryTable, spellings
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, ObjectStore, PutOutcome, StorageError, Unknown

DEFAULT_TTL_S = 86_400
COPY_TRIES = 4
logger = logging.getLogger("rowlock")
T = TypeVar("T")


class ArbitratedStore:
    """The store `inner`, with `entries` as the arbiter of its commits.

    scheme            the scheme of tablePath (s3a or s3); None: that of existing entries, or s3a if there are none
    ttl_s             seconds until a complete entry expires; must exceed the pause of any writer between `absent?` and `claim`
    conditional_copy  False if `inner` has no put-if-absent: then the copy is an ordinary put, as in Delta
    """

    def __init__(
        self, inner: ObjectStore, entries: EntryTable, *, scheme: str | None = None, ttl_s: int = DEFAULT_TTL_S, conditional_copy: bool = True
    ) -> None:
        if ttl_s < 0:
            raise InvalidInput(f"entries cannot expire after {ttl_s} seconds; give 0 or more", table=inner.root)
        self.inner, self.entries = inner, entries
        self.root, self.identity, self.is_remote = inner.root, f"{inner.identity} {entries.name}", inner.is_remote
        self._candidates = spellings(inner.root, scheme)
        self._ttl_s, self._conditional_copy = ttl_s, conditional_copy
        self._lock = threads.lock()
        self._table_path: str | None = self._candidates[0] if len(self._candidates) == 1 else None

    @property
    def settings(self) -> object:
        """The settings of the inner store, for other readers of its files (Spark's session); None where it has none."""
        return getattr(self.inner, "settings", None)

    def __repr__(self) -> str:
        return f"ArbitratedStore({self.inner!r}, {self.entries.name!r})"

    @property
    def table_path(self) -> str:
        """This table's tablePath in the entries.  Raises InvalidInput if there are entries under two: each would arbitrate by itself."""
        with self._lock:
            if self._table_path is None:
                by_path = {path: entry for path in self._candidates if (entry := self.entries.latest(path)) is not None}
                if len(by_path) > 1:
                    newest = ", ".join(f"{path} up to {entry.file_name}" for path, entry in by_path.items())
                    raise InvalidInput(
                        f"the DynamoDB table {self.entries.name} knows this table under two names ({newest}), and each decides for itself. "
                        "Stop the writers of one, then say which one holds: DELTA_DYNAMO_SCHEME=s3a or s3",
                        table=self.root,
                    )
                self._table_path = next(iter(by_path), self._candidates[0])
            return self._table_path

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """As `ObjectStore.put_if_absent`.

        For a commit, raises ConcurrentWriteException if the previous version is gone, and InvalidInput for a version 0
        while there are entries of an earlier table.
        """
        version = _version_of(key)
        if version is None:
            return self.inner.put_if_absent(key, data)
        try:
            entry = self.prepared(version, data)
            if entry is None:
                return Lost()
            held = self.entries.claim(entry)
        except ArbiterUnreachable as e:
            return Unknown(str(e))
        if held.temp_path != entry.temp_path:
            self.discard(entry)
            return Lost()
        return self.publish(entry, data)

    def new_entry(self, version: int) -> Entry:
        """A new entry for a commit of this table."""
        file_name = f"{version:020d}.json"
        return Entry(self.table_path, file_name, f".tmp/{file_name}.{clock.new_id()}")

    def prepared(self, version: int, data: bytes) -> Entry | None:
        """Puts the bytes of a commit to their temporary place; returns the entry that claims the version, None where its file is there already.

        Raises as `put_if_absent` does.
        """
        if self.inner.head(names.commit_key(version)) is not None:
            return None
        self._check_previous_version(version)
        entry = self.new_entry(version)
        self.inner.put(entry.temp_key, data)
        return entry

    def _check_previous_version(self, version: int) -> None:
        """Finishes the previous version if needed, and raises if it is gone; for version 0, raises if entries of an earlier table exist."""
        if version == 0:
            old = self.entries.get(self.table_path, f"{0:020d}.json")
            if old is not None and old.complete and self.inner.head(old.key) is None:
                text = f"the DynamoDB table {self.entries.name} still has entries of an earlier table at {self.table_path}. If that table is gone for good, delete them with `rowlock arbiter forget` and its path"
                raise InvalidInput(text, table=self.root)
            return
        before = self.entries.get(self.table_path, f"{version - 1:020d}.json")
        if before is not None and not before.complete:
            self._finish(before)
        elif self.inner.head(names.commit_key(version - 1)) is None:
            text = f"Version {version} cannot be committed: version {version - 1} is not in the log, which was cleaned up or recreated while this transaction waited. Nothing was committed."
            raise ConcurrentWriteException(text, table=self.root, remedy="Run the statement again.")

    def publish(self, entry: Entry, data: bytes) -> PutOutcome:
        """Copies a claimed commit to its place, and marks its entry complete; Unknown where its file could not be written, which others will finish."""
        try:
            there, tag = self._copy(entry.key, data)
        except StorageError as e:
            return Unknown(f"{entry.file_name} was claimed, but its file could not be written: {e}")
        self._complete(entry)
        if there != data:
            logger.error(
                "%s of %s was claimed in the DynamoDB table %s, but a writer that does not use it had put its own file there, which counts. All writers of a table must use one arbiter.",
                entry.file_name, self.root, self.entries.name,
            )  # fmt: skip
            return Lost()  # the bytes in .tmp remain as evidence
        self.discard(entry)
        return Committed(tag)

    def _copy(self, key: str, data: bytes) -> tuple[bytes, str | None]:
        """Puts the commit file if absent; returns (the bytes that are there now, their tag if known).

        Raises StorageError if that cannot be determined, NotFound if the file was there and has been deleted, as with its table: it is not put again.
        """
        reason = "its file was not there after the put"
        for n in range(COPY_TRIES):
            if not self._conditional_copy and self.inner.head(key) is None:
                self.inner.put(key, data)
                return data, None
            outcome: PutOutcome = self.inner.put_if_absent(key, data) if self._conditional_copy else Lost()
            if isinstance(outcome, Committed):
                return data, outcome.tag
            reason = outcome.reason if isinstance(outcome, Unknown) else reason
            try:
                return self.inner.get_tagged(key)
            except NotFound:
                if isinstance(outcome, Lost):
                    raise
                clock.back_off(n, clock.ARBITER)
        raise StorageError(reason)

    def _complete(self, entry: Entry) -> None:
        """Marks the entry of an existing commit file as complete; a failure is only logged, since it just costs others a check."""
        try:
            self.entries.complete(entry, self._ttl_s)
        except (StorageError, InvalidInput) as e:
            logger.info("the entry of %s of %s could not be marked complete; the next writer will do it: %s", entry.file_name, self.root, e)

    def discard(self, entry: Entry) -> None:
        """Deletes the temporary file of a commit that was not claimed, or is in its place."""
        try:
            self.inner.delete(entry.temp_key)
        except StorageError as e:
            logger.info("%s could not be deleted: %s", entry.temp_key, e)

    def _finish(self, entry: Entry) -> None:
        """Finishes a claimed commit whose writer stopped half-way or is still at work: copies its file, and completes its entry."""
        if self.inner.head(entry.key) is None:
            try:
                data = self.inner.get(entry.temp_key)
            except NotFound:  # its writer has finished meanwhile and deleted the temporary file
                if self.inner.head(entry.key) is None:
                    raise CorruptLog(
                        f"the DynamoDB table {self.entries.name} has an unfinished commit whose bytes are gone: {entry.temp_key} does not exist; "
                        "if another table was here, deleted while a writer was at work: delete all that is here, and run `rowlock arbiter forget`",
                        table=self.root,
                        version=_version_of(entry.key),
                        file=entry.key,
                    ) from None
            else:
                try:
                    self._copy(entry.key, data)
                except NotFound:  # it was in its place already, and has been deleted since
                    return
        self._complete(entry)

    def _recover(self, key: str) -> bool:
        """Whether an absent key may exist now, because its commit was claimed and has been finished."""
        if _version_of(key) is None:
            return False
        entry = self.entries.get(self.table_path, key.rpartition("/")[2])
        if entry is not None and not entry.complete:
            self._finish(entry)
        return entry is not None

    def get(self, key: str) -> bytes:
        return self._read_or_recover(key, lambda: self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read_or_recover(key, lambda: self.inner.get_range(key, start, length))

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        return self._read_or_recover(key, lambda: self.inner.get_tagged(key))

    def _read_or_recover(self, key: str, read: Callable[[], T]) -> T:
        """Runs `read`; if the object is missing but its commit was claimed, finishes the commit and reads again."""
        try:
            return read()
        except NotFound:
            if not self._recover(key):
                raise
        return read()

    def head(self, key: str) -> int | None:
        size = self.inner.head(key)
        return self.inner.head(key) if size is None and self._recover(key) else size

    def tag(self, key: str) -> str | None:
        tag = self.inner.tag(key)
        return self.inner.tag(key) if tag is None and self._recover(key) else tag

    def modified_ms(self, key: str) -> int | None:
        return self.inner.modified_ms(key)

    def sync(self, key: str) -> None:
        self.inner.sync(key)

    def exists(self, key: str = "") -> bool:
        return self.inner.exists(key) or (self._recover(key) and self.inner.exists(key))

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        """As `ObjectStore.list`; before listing the log, finishes its newest commit."""
        if prefix == names.LOG_DIRECTORY:
            newest = self.entries.latest(self.table_path)
            if newest is not None and not newest.complete:
                self._finish(newest)
        return self.inner.list(prefix, start_after=start_after, recursive=recursive, limit=limit)

    def forget(self) -> int:
        """Deletes the entries of a deleted table, so that another can be created at its path; returns their number.

        Raises InvalidInput if the log still exists, or an entry is incomplete and its commit's bytes are there, which may still be put in its place.
        """
        if any(_version_of(meta.key) is not None for meta in self.inner.list(names.LOG_DIRECTORY)):
            raise InvalidInput("the table still exists, and its entries arbitrate its commits: delete the table first", table=self.root)
        entries = list(self.entries.all(self.table_path))
        for e in entries:
            if not e.complete and self.inner.head(e.temp_key) is not None:
                raise InvalidInput(f"the entry of {e.file_name} is incomplete: its commit may still be finished, with {e.temp_key}", table=self.root)
        return sum(self.entries.forget(e) for e in entries)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)

    def put_briefly(self, key: str, data: bytes) -> None:
        self.inner.put_briefly(key, data)

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        self.inner.put_parts(key, parts)

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        return self.inner.replace_if(key, data, tag)

    def delete(self, key: str) -> None:
        self.inner.delete(key)


def _version_of(key: str) -> int | None:
    """The version whose commit file has this key; None for every other key."""
    if not key.startswith(f"{names.LOG_DIRECTORY}/") or key.count("/") != 1:
        return None
    file = names.parse(key)
    return file.version if file is not None and file.kind == "commit" else None


MOST_TABLES = 100
"""Items that one TransactWriteItems may have."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table that is to be created, or (`data` None) that must not exist: the one after the head of a table that was only read."""

    store: ArbitratedStore
    number: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Taken:
    """Nothing was written: these versions (their positions) exist already, or others were at work on them."""

    versions: frozenset[int]


def common_arbiter(stores: Sequence[ObjectStore]) -> list[ArbitratedStore] | None:
    """The stores, if one DynamoDB table in one account arbitrates the commits of all of them; else None."""
    arbitrated = [s for s in stores if isinstance(s, ArbitratedStore)]
    if len(arbitrated) < len(stores) or len({(id(s.entries.client), s.entries.name) for s in arbitrated}) != 1:
        return None
    return arbitrated


def put_all(versions: Sequence[Version]) -> list[PutOutcome | None] | Taken | Unknown:
    """Creates all versions that have bytes, or none, and only if those without are absent.

    Returns an outcome for each version (None where there was nothing to write): Committed; Unknown where the version is decided, and its file
    could not be written yet; Lost where a writer that passed the arbiter by had put its own file there.
    Returns Taken where nothing was written, Unknown where that could not be found out.
    Raises as `ArbitratedStore.put_if_absent` does.
    """
    entries: list[Entry | None] = []
    try:
        entries = threads.side_by_side(_prepared, versions, limits().request_threads)
        found = frozenset(n for n, entry in enumerate(entries) if entry is None)
        if not found:
            taken = _claimed(versions, [e for e in entries if e is not None])
    except ArbiterUnreachable as e:
        return Unknown(str(e))
    if found or taken:
        for version, entry in zip(versions, entries, strict=True):
            if entry is not None and version.data is not None:
                version.store.discard(entry)
        return Taken(found or taken)
    return threads.side_by_side(_published, list(zip(versions, entries, strict=True)), limits().request_threads)


def _prepared(version: Version) -> Entry | None:
    """The entry of a version, its bytes in their temporary place; None where the version's file exists."""
    if version.data is not None:
        return version.store.prepared(version.number, version.data)
    return None if version.store.inner.head(names.commit_key(version.number)) is not None else version.store.new_entry(version.number)


def _claimed(versions: Sequence[Version], entries: Sequence[Entry]) -> frozenset[int]:
    """Claims the entries of all versions; the positions of those that are taken."""
    order = sorted(range(len(versions)), key=lambda n: versions[n].data is None)
    written = [entries[n] for n in order if versions[n].data is not None]
    taken = versions[0].store.entries.claim_all(written, [entries[n] for n in order if versions[n].data is None])
    return frozenset(order[n] for n in taken)


def _published(of: tuple[Version, Entry | None]) -> PutOutcome | None:
    version, entry = of
    return None if entry is None or version.data is None else version.store.publish(entry, version.data)
