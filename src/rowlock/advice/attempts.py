"""Records of failed attempts, stored with the table for advice: the log has no trace of lost work.

Each record is a small JSON object in `_rowlock/attempts/` of the table's folder, named by time.  Engines and vacuum
ignore names that begin with an underscore.  A writer that failed hands its record to a background thread and goes on;
errors while writing it are only logged.  Every hundredth record that a process writes also deletes old ones.  Records decide
nothing (I7), and may be deleted at any time (I10).
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

from rowlock import clock, threads
from rowlock.limits import limits
from rowlock.storage.store import ObjectStore, json_object
from rowlock.threads import side_by_side

FOLDER = "_rowlock/attempts"
MAX_RECORDS = 1000
RETENTION_MS = 30 * 86_400_000
MAX_PENDING = 64
"""The most records that wait to be written; further ones are only counted, in the next record's `unrecorded`."""
AT_EXIT_S = 5.0
"""The most seconds that a process waits at exit for records to be written, so that a hanging store cannot block it."""
_TIDY_EVERY = 100

logger = logging.getLogger("rowlock")
_Account: TypeAlias = tuple[ObjectStore, int, Mapping[str, Any]]


class _RecordWriter:
    """Writes the records of all tables of the process one after the other, in a thread that runs while there is something to write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: deque[_Account] = deque()
        self._running = False
        self._written: dict[str, int] = {}
        self._unrecorded: dict[str, int] = {}

    def submit(self, store: ObjectStore, at_ms: int, account: Mapping[str, Any]) -> None:
        """Queues a record for writing, and starts the thread if needed; over MAX_PENDING it is only counted."""
        with self._changed:
            if len(self._pending) >= MAX_PENDING:
                self._unrecorded[store.root] = self._unrecorded.get(store.root, 0) + 1
                return
            if unrecorded := self._unrecorded.pop(store.root, 0):
                account = {**account, "unrecorded": unrecorded}
            self._pending.append((store, at_ms, account))
            if not self._running:
                threads.start(self._work, "rowlock-attempts")
                self._running = True

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._pending:
                    self._running = False
                    self._changed.notify_all()
                    return
                account = self._pending[0]
            self._write(*account)
            with self._changed:
                self._pending.popleft()

    def _write(self, store: ObjectStore, at_ms: int, account: Mapping[str, Any]) -> None:
        try:
            store.put(key_of(at_ms, str(account.get("txn_id", ""))), orjson.dumps(account, default=str))
            count = self._written.get(store.root, 0)
            self._written[store.root] = count + 1
            if count % _TIDY_EVERY == 0:
                tidy(store, at_ms)
        except Exception as e:  # noqa: BLE001 - a record is optional: a failure here must not disturb the writer
            logger.debug("a failed attempt on %s could not be recorded: %s", store.root, e)

    def flush(self, timeout_s: float) -> bool:
        """Waits until all submitted records are written; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)


def key_of(at_ms: int, txn_id: str) -> str:
    """The key of a record in the table's store; keys sort by time."""
    name = "".join(c for c in txn_id if c.isalnum() or c == "-")[:64]
    return f"{FOLDER}/{max(0, at_ms):013d}-{name}.json"


def record(store: ObjectStore, account: Mapping[str, Any]) -> None:
    """Writes the record of a failed attempt in the background.

    Returns at once and never raises; at exit the process waits up to AT_EXIT_S for it.
    """
    try:
        threads.of_process(_RecordWriter).submit(store, clock.now_ms(), account)
    except RuntimeError as e:  # no thread can be started: the interpreter is shutting down
        logger.debug("a failed attempt on %s was not recorded: %s", store.root, e)


def flush(timeout_s: float = 10.0) -> bool:
    """Waits until all records handed over are written; returns whether they are."""
    return threads.of_process(_RecordWriter).flush(timeout_s)


atexit.register(flush, AT_EXIT_S)


def read(store: ObjectStore, limit: int = MAX_RECORDS, *, after: str = "") -> tuple[list[dict[str, Any]], str]:
    """(the newest `limit` records with keys after `after`, oldest first; the newest key).  Objects that cannot be parsed are left out."""
    keys = [meta.key for meta in store.list(FOLDER, start_after=after or None) if meta.key.endswith(".json")][-limit:] if limit > 0 else []
    if not keys:
        return [], after
    return [value for value in side_by_side(lambda key: json_object(store, key), keys, limits().request_threads) if value is not None], keys[-1]


def tidy(store: ObjectStore, now_ms: int) -> int:
    """Deletes records older than RETENTION_MS, and all but the newest MAX_RECORDS; returns how many."""
    keys = [meta.key for meta in store.list(FOLDER)]
    oldest = key_of(now_ms - RETENTION_MS, "")
    gone = [key for n, key in enumerate(keys) if key < oldest or n < len(keys) - MAX_RECORDS]
    for key in gone:
        store.delete(key)
    return len(gone)
