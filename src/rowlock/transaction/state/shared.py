"""The state that all handles of one table in one process share: the newest snapshot, deletion vectors, the commit lane.

The lane saves rounds between threads of one process and decides nothing (I7).  A snapshot is only
ever carried forward; where the log turns out to have been rewritten under us (another engine's
commit by a bare rename, a backup that was put back, a table created again), it is thrown away, and the
next one gets another `chain`, by which transactions that began before notice it.

A deletion vector never changes, so what was read or written once serves for good, by its identity; new ones are written inline, or many to one file.

Time travel: a time without a zone is local time, everywhere: text is in the time zone of the Spark session where there is one, else in that of the
Python process (which a session takes by default); a datetime is in that of the Python process, as PySpark gives and takes datetimes.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import threading
import warnings
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from pyroaring import BitMap64

from rowlock import clock, threads
from rowlock.caches import VECTORS, Cache
from rowlock.conditions import named
from rowlock.exceptions import CommitOverwrittenWarning, CommitUnknown, CorruptLog, InvalidInput, WrongType
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import deletion_vector as dv, names
from rowlock.protocol.actions import AddFile
from rowlock.protocol.prepared import open_version
from rowlock.storage.local import lane_of
from rowlock.storage.open import locate, missing_file
from rowlock.storage.store import NotFound, ObjectStore, StorageError


class Vectors:
    """The vectors of one table, with a bounded cache.  Thread-safe; driver only."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._cache: Cache[tuple[BitMap64, int]] = Cache(VECTORS, _size_of)

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
        """The dead positions of a file as they are stored, also where the log has another number of them.  Not cached."""
        return BitMap64() if file.deletion_vector is None else self._read(file, file.deletion_vector, any_cardinality=True)

    def _read(self, file: AddFile, descriptor: dv.DeletionVectorDescriptor, *, any_cardinality: bool = False) -> BitMap64:
        if not descriptor.cardinality and not (any_cardinality and descriptor.size_bytes):
            return BitMap64()  # delta-spark does not look at one that marks nothing: it may have no bytes
        key = None
        try:
            if (key := descriptor.path) is None:
                return dv.read_inline(descriptor, any_cardinality=any_cardinality)
            store, name = locate(self._store, key)  # that of a shallow clone lies in another table's folder
            return dv.read_from_file(descriptor, store.get(name), any_cardinality=any_cardinality)
        except NotFound as e:
            raise missing_file(self._store.root, key or "", f"The deletion vector of data file {file.path}") from e
        except CorruptLog as e:
            raise CorruptLog(f"the deletion vector of data file {file.path} cannot be read: {e}", table=self._store.root, file=key or file.path) from e

    def remember(self, file: AddFile, bitmap: BitMap64) -> None:
        """Caches a vector that was just written, so that it need not be read."""
        if file.deletion_vector is not None:
            self._cache.put(file.deletion_vector, (bitmap, file.deletion_vector.size_bytes))

    def store_all(self, bitmaps: Sequence[BitMap64]) -> list[dv.DeletionVectorDescriptor]:
        """Stores vectors, small ones inline, the others together in one new file.  Returns their descriptors in the order given."""
        out = [dv.inline(bitmap, limit_bytes=limits().inline_vector_bytes) for bitmap in bitmaps]
        if large := [n for n, descriptor in enumerate(out) if descriptor is None]:
            body, places = dv.pack_vectors([bitmaps[n] for n in large])
            name = clock.new_uuid()
            self._store.put(dv.file_path(name), body)
            for n, place in zip(large, places, strict=True):
                out[n] = dv.on_disk(name, place, len(bitmaps[n]))
        return [d for d in out if d is not None]


def _size_of(found: tuple[BitMap64, int]) -> int:
    """About what a vector of so many bytes takes in memory: for each 65,536 rows of the file in which there are some, ten times what that takes in its file."""
    bitmap, size_bytes = found
    return 400 + size_bytes + 16 * max(0, size_bytes - 2 * len(bitmap))


logger = logging.getLogger("rowlock")
_WATCHED_COMMITS = 3
_HELD_OF_MANY = 8
_A_MOMENT_S = 2.0


@runtime_checkable
class Forgets(Protocol):
    """A cache of what was read of a table."""

    def forget(self) -> None:
        """Clears the cache: another table has taken this table's place."""


class SingleFlight:
    """Lets threads share one call: a thread gets the result of a call that started after it asked.

    The lock alone marks a call as under way, and its `with` is the interpreter's own code: an interrupt, wherever it comes, releases it.
    """

    def __init__(self) -> None:
        self._calling = threads.lock()
        self._started = 0
        self._answer: tuple[int, Snapshot] | None = None

    def do(self, call: Callable[[], Snapshot]) -> Snapshot:
        """Runs `call`, or shares the result of another thread's call that started after this one.  Errors are not shared: each waiter retries itself."""
        asked = self._started
        with self._calling:
            held = self._answer
            if held is not None and held[0] > asked:
                return held[1]
            self._started += 1
            mine, self._answer = self._started, None
            answer = call()
            self._answer = mine, answer
            return answer


class SharedState:
    """Shared by the handles of one table in this process.  Thread-safe."""

    def __init__(self, log: TableLog, store: ObjectStore) -> None:
        self.log, self.store, self.vectors = log, store, Vectors(store)
        self.lane = lane_of(store)
        self.overwritten: list[int] = []
        self._lock = threads.reentrant_lock()
        self._flights = SingleFlight()
        self._sharing, self._shared = threads.reentrant_lock(), dict[str, Any]()
        self._held, self._alive = OrderedDict[str, Any](), weakref.WeakValueDictionary[str, Any]()
        self._latest: Snapshot | None = None
        self.laid_over: Snapshot | None = None
        """What was read last of a table that this process could not settle."""
        self._asked_s = 0.0
        self._watched: deque[tuple[int, int]] = deque(maxlen=_WATCHED_COMMITS)

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """The object of this name that all handles of the table share, created by `make` at first use.

        Where it has a method `forget`, that is called when the table turns out to be another.
        """
        with self._sharing:
            if name not in self._shared:
                self._shared[name] = make()
            return self._shared[name]

    def shared_of_many(self, name: str, make: Callable[[], Any]) -> Any:
        """`shared`, for one of many objects of a kind, such as an engine for each session of a server: beside those in use only the last few stay."""
        with self._sharing:
            found = self._alive.get(name)
            if found is None:
                found = self._alive[name] = make()
            self._held[name] = found
            self._held.move_to_end(name)
            if len(self._held) > _HELD_OF_MANY:
                self._held.popitem(last=False)
            return found

    def refresh(self) -> Snapshot:
        """The newest snapshot, after what a transaction over several tables has prepared in the table is settled.  Raises TableNotFound, UnsupportedFeature, CorruptLog."""
        while _is_open(latest := self.look()):
            _settle(self, latest)
        return latest

    def refresh_to_read(self) -> tuple[Snapshot, Snapshot]:
        """(the newest snapshot as the log has it, the one to be read): `refresh` for readers, which may have no right to write.

        Where the store takes no commit, what is open is settled in memory alone.  No commit may follow such a snapshot.
        """
        with contextlib.suppress(StorageError, CommitUnknown):
            return (self.refresh(),) * 2
        while _is_open(latest := self.look()):
            try:
                self.laid_over = _laid_over(self, latest)
            except CorruptLog:  # another has closed it meanwhile, and deleted the post
                if self.look().version == latest.version:
                    raise
            else:
                return latest, self.laid_over
        return latest, latest

    def look(self) -> Snapshot:
        """The newest snapshot as the log has it; for those who settle it.

        Threads that ask at the same time share one look at the log, if it began after they asked.
        """
        return self._flights.do(self._refresh)

    def _refresh(self) -> Snapshot:
        with self._lock:
            before = self._latest
            replaced = None if before is None else self._replaced(before)
            latest = self.log.latest(before if replaced is None else None)
            if before is not None and latest.chain != before.chain:
                self._broken(before, latest, replaced)
            if not self.store.is_remote and (before is None or latest is not before):
                self._watch(latest.version)
            self._latest, self._asked_s = latest, clock.monotonic_s()
            return latest

    def advance(self) -> None:
        """Takes the next version or two in, where they have come: for those who wait for them, and asks nothing else where none has."""
        if not self.store.is_remote or (before := self._latest) is None or (latest := self.log.latest(before, before.version + 2)) is before:
            return
        with self._lock:
            if self._latest is before:
                if latest.chain != before.chain:
                    self._broken(before, latest, None)
                self._latest, self._asked_s = latest, clock.monotonic_s()

    @property
    def known(self) -> Snapshot | None:
        """The newest snapshot that this process has seen, without I/O and without waiting for a refresh that is under way; None before the first."""
        return self._latest

    def newest(self, *, settled: bool = True) -> Snapshot:
        """The newest snapshot; on a remote store the log is not listed again within a moment.  Without `settled` as the log has it, as from `look`.

        For places where an old answer costs a lost put at most.  Elsewhere asking is cheap, and this is `refresh`.
        """
        asked_s, known = self._asked_s, self._latest  # in this order, and without waiting for who asks
        if known is not None and self.store.is_remote and clock.monotonic_s() - asked_s < _A_MOMENT_S and not (settled and _is_open(known)):
            return known
        return self.refresh() if settled else self.look()

    def carry(self, version: int, data: bytes, tag: str | None) -> None:
        """Advances the newest snapshot by a commit that just landed, so that it need not be read back; `tag` is the store's, if known."""
        with self._lock:
            if self._latest is None or self._latest.version != version - 1:
                return
            self._latest, self._asked_s = self.log.advance(self._latest, version, data, tag), clock.monotonic_s()
            if not self.store.is_remote:
                self._watched.append((version, zlib.crc32(data)))

    def ask_again(self) -> None:
        """Makes `newest` read the log at its next call, after a commit that was not taken into the snapshot."""
        with self._lock:
            self._asked_s = -math.inf

    def _broken(self, before: Snapshot, latest: Snapshot, replaced: int | None) -> None:
        """Handles a log other than the one that `before` was read from: clears all caches, and warns where commits were lost."""
        self._start_over()
        if latest.metadata.id != before.metadata.id:
            return
        version = before.version if replaced is None else replaced
        self.overwritten.append(version)
        if version > latest.version:
            text = f"Version {version} of {self.store.root} is gone after it had been committed: the log ends at version {latest.version}, as where a backup was put back. The changes of later commits are lost."
        else:
            text = (
                f"Version {version} of {self.store.root} was overwritten after it had been committed: a writer that renames instead of putting if absent "
                "(delta-spark on a local disk does) shares this table. The overwritten commit's changes are lost. Use a store with an arbiter for such a fleet."
            )
        logger.error(text)
        warnings.warn(text, CommitOverwrittenWarning, stacklevel=4)

    def _start_over(self) -> None:
        self.log = TableLog(self.store)
        self._latest = self.laid_over = None  # whatever is raised before the next one is known: that of before is never carried on
        self._watched.clear()
        self.vectors.forget()
        with self._sharing:
            held = [*self._shared.values(), *self._alive.values()]
        for one in held:
            if isinstance(one, Forgets):
                one.forget()

    def _watch(self, version: int) -> None:
        seen = {v for v, _ in self._watched}
        for v in range(max(0, version - _WATCHED_COMMITS + 1), version + 1):
            if v not in seen and (mark := self._mark(v)) is not None:
                self._watched.append((v, mark))

    def _mark(self, version: int) -> int | None:
        try:
            return zlib.crc32(self.store.get(names.commit_key(version)))
        except NotFound:
            return None

    def _replaced(self, before: Snapshot) -> int | None:
        """The first of the last few versions whose commit file was replaced; versions that were cleaned up do not count."""
        return next((v for v, mark in self._watched if v != before.version and self._mark(v) not in (mark, None)), None)


Settle = Callable[[SharedState, Snapshot], None]
LayOver = Callable[[SharedState, Snapshot], Snapshot]


def before_use(settle: Settle, lay_over: LayOver) -> None:
    """Registers the functions that settle what is open in a table before it is used, in its log or in memory (`two_phase.close` imports this module)."""
    global _settle, _laid_over
    _settle, _laid_over = settle, lay_over


def _cannot_settle(state: SharedState, head: Snapshot) -> Any:
    raise RuntimeError("rowlock.transaction.two_phase.close was not imported")


_settle: Settle = _cannot_settle
_laid_over: LayOver = _cannot_settle


def _is_open(head: Snapshot) -> bool:
    return open_version(head.txns, head.metadata.id) is not None


_states: weakref.WeakValueDictionary[str, SharedState] = weakref.WeakValueDictionary()
_states_lock = threading.Lock()


def state_of(store: ObjectStore) -> SharedState:
    """The shared state of the table at a store's root."""
    with _states_lock:
        state = _states.get(store.identity)
        if state is None:
            state = SharedState(TableLog(store), store)
            _states[store.identity] = state
        return state


def _fresh_states() -> None:
    """Drops all shared states in a forked child: threads of the parent may have held any of their locks."""
    global _states, _states_lock
    _states, _states_lock = weakref.WeakValueDictionary(), threading.Lock()


threads.after_fork(_fresh_states)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
WRITE_IT_LIKE = "write it like 2026-11-21 08:00:00 or 2026-11-21T08:00:00+01:00"


def snapshot_of(state: SharedState, version: int | None = None, timestamp_ms: int | None = None, zone: datetime.tzinfo | None = None) -> Snapshot:
    """The snapshot of a version, of the newest version at a time (milliseconds since the epoch), or by default of the newest of all.

    Errors name times in `zone`, by default that of this process.
    Raises TableNotFound, VersionNotFound, and InvalidInput where both are given.
    """
    if version is not None and timestamp_ms is not None:
        raise InvalidInput("Give a version or a timestamp, not both", table=state.store.root, condition=named("DELTA_ONEOF_IN_TIMETRAVEL"))
    if version is not None:
        return state.log.at(version)
    if timestamp_ms is not None:
        return state.log.at_timestamp(timestamp_ms, zone)
    return state.refresh_to_read()[1]


def local_milliseconds(timestamp: Any, table: str) -> int:
    """Milliseconds since the epoch of a datetime or of ISO text; without a zone both are in the zone of this process.  Parts of a millisecond are cut off.

    Raises InvalidInput for text that is no time and for a time out of range, WrongType for anything else.
    """
    if not isinstance(timestamp, (str, datetime.datetime)):
        raise WrongType(f"timestamp needs to be a string or a datetime but got {type(timestamp).__name__}", table=table)
    try:
        given = datetime.datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
        return (given.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)
    except (ValueError, OverflowError, OSError) as e:
        raise InvalidInput(f"{str(timestamp)!r} is not a time that can be used: {WRITE_IT_LIKE}", table=table) from e
