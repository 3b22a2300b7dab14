"""A store whose commits a DynamoDB table arbitrates, by the procedure of Delta's S3DynamoDBLogStore.

Of each `_delta_log/<version>.json` the entry decides who has it (I1): it is made by a conditional put,
before the file is in its place.

    absent?  the file must not be there, the version before it must be (finished first, where it is half done)
    temp     the bytes go to _delta_log/.tmp/<version>.json.<id>
    claim    the entry, incomplete, if there is none: from here on the commit is decided
    copy     the bytes go to <version>.json
    complete the entry says so, and when it may expire

A writer that dies after `claim` has committed.  Whoever comes next finishes its work: a writer of the next
version, a listing of the log, a read of the version.  Spark does the same, so either finishes what the other
left.  Files that are there are read without asking; asking costs one consistent read of one row, and only
where a version is absent.  All other keys pass through.

Where a writer went past the arbiter and its file is in the place of a claimed version, the file is the truth
for every reader: the claim is Lost, and said loudly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from rowlock import clock
from rowlock.exceptions import ConcurrentWriteException, CorruptLog, InvalidInput
from rowlock.protocol import names
from rowlock.storage.dynamodb.entries import ArbiterUnreachable, Entry, EntryTable
from rowlock.storage.dynamodb.spelling import spellings
from rowlock.storage.store import Committed, Lost, NotFound, ObjectMeta, ObjectStore, PutOutcome, StorageError, Unknown

DEFAULT_TTL_S = 86_400
COPY_TRIES = 4
logger = logging.getLogger("rowlock")
T = TypeVar("T")


class ArbitratedStore:
    """`inner`, with `entries` as the arbiter of its commits.

    scheme            how tablePath begins (s3a, s3); None: as the entries that are there have it, s3a where there are none
    ttl_s             how long a complete entry is kept: longer than any writer may sleep between looking and claiming
    conditional_copy  False where `inner` cannot put if absent: then the copy is an ordinary put, as Delta's is
    """

    def __init__(
        self, inner: ObjectStore, entries: EntryTable, *, scheme: str | None = None, ttl_s: int = DEFAULT_TTL_S, conditional_copy: bool = True
    ) -> None:
        if ttl_s < 0:
            raise InvalidInput(f"entries cannot be kept for {ttl_s} seconds: 0 or more", table=inner.root)
        self.inner, self.entries = inner, entries
        self._candidates = spellings(inner.root, scheme)
        self._ttl_s, self._conditional_copy = ttl_s, conditional_copy
        self._lock = threading.Lock()
        self._table_path: str | None = self._candidates[0] if len(self._candidates) == 1 else None

    @property
    def root(self) -> str:
        return self.inner.root

    @property
    def identity(self) -> str:
        return f"{self.inner.identity} {self.entries.name}"

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    def __repr__(self) -> str:
        return f"ArbitratedStore({self.inner!r}, {self.entries.name!r})"

    @property
    def table_path(self) -> str:
        """This table's tablePath in the entries.  Raises InvalidInput where it has entries under two: each would be an arbiter."""
        with self._lock:
            if self._table_path is None:
                found = {path: entry for path in self._candidates if (entry := self.entries.latest(path)) is not None}
                if len(found) > 1:
                    newest = ", ".join(f"{path} up to {entry.file_name}" for path, entry in found.items())
                    raise InvalidInput(
                        f"the DynamoDB table {self.entries.name} knows this table under two names ({newest}), and each decides for itself. "
                        "Stop the writers of one, then say which one holds: DELTA_DYNAMO_SCHEME=s3a or s3",
                        table=self.root,
                    )
                self._table_path = next(iter(found), self._candidates[0])
            return self._table_path

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """As of any store; for a commit also raises ConcurrentWriteException where the version before it is gone, and InvalidInput for a version 0 over old entries."""
        version = _version_of(key)
        if version is None:
            return self.inner.put_if_absent(key, data)
        try:
            if self.inner.head(key) is not None:
                return Lost()
            self._check_before(version)
            entry = Entry(self.table_path, key.rpartition("/")[2], f".tmp/{key.rpartition('/')[2]}.{clock.new_id()}")
            self.inner.put(entry.temp_key, data)
            held = self.entries.claim(entry)
        except ArbiterUnreachable as e:
            return Unknown(str(e))
        if held.temp_path != entry.temp_path:
            self._discard(entry)
            return Lost()
        return self._publish(entry, data)

    def _check_before(self, version: int) -> None:
        """The version before must be there, or is finished now; before version 0 there must be no trace of another table."""
        if version == 0:
            old = self.entries.get(self.table_path, f"{0:020d}.json")
            if old is not None and old.complete and self.inner.head(old.key) is None:
                raise InvalidInput(
                    f"the DynamoDB table {self.entries.name} still has entries of a table that was at {self.table_path} before. Where that table is gone for good: `rowlock arbiter forget` with its path",
                    table=self.root,
                )
            return
        before = self.entries.get(self.table_path, f"{version - 1:020d}.json")
        if before is not None and not before.complete:
            self._finish(before)
        elif self.inner.head(names.commit_key(version - 1)) is None:
            raise ConcurrentWriteException(
                f"Version {version} cannot be committed: version {version - 1} is not in the log, which was cleaned up or made anew while this transaction waited. Nothing was committed.",
                table=self.root,
                remedy="Run the statement again.",
            )

    def _publish(self, entry: Entry, data: bytes) -> PutOutcome:
        try:
            there, tag = self._copy(entry.key, data)
        except StorageError as e:
            return Unknown(f"{entry.file_name} is ours, but its file could not be put in its place: {e}")
        self._complete(entry)
        if there != data:
            logger.error(
                "%s of %s was claimed in the DynamoDB table %s, but a writer that does not ask it had put its own file there: that one holds. All writers of a table need one arbiter.",
                entry.file_name, self.root, self.entries.name,
            )  # fmt: skip
            return Lost()  # the bytes below .tmp stay: they are the evidence
        self._discard(entry)
        return Committed(tag)

    def _copy(self, key: str, data: bytes) -> tuple[bytes, str | None]:
        """Puts the bytes in their place unless something is there; gives what is there then, and its tag if that was told.

        Raises StorageError where that cannot be known.
        """
        reason = "it comes and goes"
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
                clock.back_off(n, 0.02)
        raise StorageError(reason)

    def _complete(self, entry: Entry) -> None:
        """The file is in its place: that the entry says so only saves others a look, so this may fail."""
        try:
            self.entries.complete(entry, self._ttl_s)
        except (StorageError, InvalidInput) as e:
            logger.info("the entry of %s of %s could not be completed, which the next writer will do: %s", entry.file_name, self.root, e)

    def _discard(self, entry: Entry) -> None:
        try:
            self.inner.delete(entry.temp_key)
        except StorageError as e:
            logger.info("%s could not be deleted: %s", entry.temp_key, e)

    def _finish(self, entry: Entry) -> None:
        """Does what is left of a commit whose writer stopped half-way, or has not come to it yet."""
        if self.inner.head(entry.key) is None:
            try:
                self._copy(entry.key, self.inner.get(entry.temp_key))
            except NotFound:  # its writer has finished, and taken its temporary file away
                if self.inner.head(entry.key) is None:
                    raise CorruptLog(
                        f"the DynamoDB table {self.entries.name} has an unfinished commit whose bytes are gone: {entry.temp_key} is not there",
                        table=self.root,
                        version=_version_of(entry.key),
                        file=entry.key,
                    ) from None
        self._complete(entry)

    def _recover(self, key: str) -> bool:
        """Whether an absent key may be there now: its commit had been claimed, and is finished."""
        if _version_of(key) is None:
            return False
        entry = self.entries.get(self.table_path, key.rpartition("/")[2])
        if entry is not None and not entry.complete:
            self._finish(entry)
        return entry is not None

    def get(self, key: str) -> bytes:
        return self._recovering(key, lambda: self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._recovering(key, lambda: self.inner.get_range(key, start, length))

    def get_tagged(self, key: str) -> tuple[bytes, str]:
        return self._recovering(key, lambda: self.inner.get_tagged(key))

    def _recovering(self, key: str, read: Callable[[], T]) -> T:
        """What `read` gives, a second time where the object was missing and its claim could be finished."""
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

    def exists(self, key: str = "") -> bool:
        return self.inner.exists(key) or (self._recover(key) and self.inner.exists(key))

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False) -> Iterator[ObjectMeta]:
        """As of any store; before the log's folder is listed its newest commit is finished."""
        if prefix == names.LOG_DIRECTORY:
            newest = self.entries.latest(self.table_path)
            if newest is not None and not newest.complete:
                self._finish(newest)
        return self.inner.list(prefix, start_after=start_after, recursive=recursive)

    def forget(self) -> int:
        """Deletes the entries of a table that is gone, so that another can be made in its place; how many they were.

        Raises InvalidInput where the log is still there, or an entry is not complete: its commit may yet be finished.
        """
        if any(_version_of(meta.key) is not None for meta in self.inner.list(names.LOG_DIRECTORY)):
            raise InvalidInput("the table is still there: its entries keep its commits apart", table=self.root)
        entries = list(self.entries.all(self.table_path))
        if unfinished := [e for e in entries if not e.complete]:
            raise InvalidInput(f"the entry of {unfinished[0].file_name} is not complete: its commit may yet be finished", table=self.root)
        return sum(self.entries.forget(e) for e in entries)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        return self.inner.replace_if(key, data, tag)

    def delete(self, key: str) -> None:
        self.inner.delete(key)


def _version_of(key: str) -> int | None:
    """The version whose commit the key is; None for every other key."""
    if not key.startswith(f"{names.LOG_DIRECTORY}/") or key.count("/") != 1:
        return None
    file = names.parse(key)
    return file.version if file is not None and file.kind == "commit" else None
