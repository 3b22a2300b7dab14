"""Failed attempts, kept beside the table: what was thrown away leaves no trace in the log, and advice needs it.

One small JSON object for each, in `_rowlock/attempts/` of the table's folder, named by time.  Engines and
vacuums leave names with an underscore alone.  A writer that failed hands its account over and goes on: a
thread of its own writes it, and whatever goes wrong there stays there.  Old ones are cleaned up by whoever
writes new ones.  Nothing is decided by them (I7), and they may be deleted at any time (I10).
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

from rowlock import clock
from rowlock.storage.store import NotFound, ObjectStore
from rowlock.threads import side_by_side

FOLDER = "_rowlock/attempts"
KEPT = 1000
KEPT_MS = 30 * 86_400_000
MAX_PENDING = 64
"""Accounts that wait to be written; what comes on top is counted, and said by the next one."""
AT_EXIT_S = 5.0
"""How long a process that ends waits for them at the most: a store that hangs keeps nobody."""
_TIDY_EVERY = 100
_READERS = 16

logger = logging.getLogger("rowlock")
_Account: TypeAlias = tuple[ObjectStore, int, Mapping[str, Any]]


class _Desk:
    """Takes accounts and writes them one after the other, for all tables of the process, on a thread that lives while there is something to write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: deque[_Account] = deque()
        self._at_work = False
        self._written: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def take(self, store: ObjectStore, at_ms: int, account: Mapping[str, Any]) -> None:
        with self._changed:
            if len(self._pending) >= MAX_PENDING:
                self._left_out[store.root] = self._left_out.get(store.root, 0) + 1
                return
            if unrecorded := self._left_out.pop(store.root, 0):
                account = {**account, "unrecorded": unrecorded}
            self._pending.append((store, at_ms, account))
            if not self._at_work:
                threading.Thread(target=self._work, name="rowlock-attempts", daemon=True).start()
                self._at_work = True

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._pending:
                    self._at_work = False
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
        except Exception as e:  # noqa: BLE001 - an account is a convenience, and its writer has other worries
            logger.debug("a failed attempt on %s could not be recorded: %s", store.root, e)

    def flush(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout_s)


_desk = _Desk()


def _fresh_desk() -> None:
    """A forked child has no threads; what its parent had not written yet is the parent's to write."""
    global _desk
    _desk = _Desk()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_desk)


def key_of(at_ms: int, txn_id: str) -> str:
    """Keys sort by time."""
    name = "".join(c for c in txn_id if c.isalnum() or c == "-")[:64]
    return f"{FOLDER}/{max(0, at_ms):013d}-{name}.json"


def keep(store: ObjectStore, account: Mapping[str, Any]) -> None:
    """Has the account of a failed attempt written, soon.  Returns at once and never raises; a process that ends waits for it, up to AT_EXIT_S."""
    try:
        _desk.take(store, clock.now_ms(), account)
    except RuntimeError as e:  # no thread can be started: the interpreter is shutting down
        logger.debug("a failed attempt on %s was not recorded: %s", store.root, e)


def flush(timeout_s: float = 10.0) -> bool:
    """Waits until what was handed over is written; whether it is."""
    return _desk.flush(timeout_s)


atexit.register(flush, AT_EXIT_S)


def read(store: ObjectStore, limit: int = KEPT, *, after: str = "") -> tuple[list[dict[str, Any]], str]:
    """The newest accounts whose keys sort after `after`, oldest first, and the newest key.  Whatever does not read as one is left out."""
    keys = [meta.key for meta in store.list(FOLDER, start_after=after or None) if meta.key.endswith(".json")][-limit:] if limit > 0 else []
    if not keys:
        return [], after
    return [found for found in side_by_side(lambda key: _read(store, key), keys, _READERS) if found is not None], keys[-1]


def _read(store: ObjectStore, key: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(store.get(key))
    except (NotFound, orjson.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


def tidy(store: ObjectStore, now_ms: int) -> int:
    """Deletes accounts that are older than KEPT_MS, and all but the newest KEPT.  How many."""
    keys = [meta.key for meta in store.list(FOLDER)]
    oldest = key_of(now_ms - KEPT_MS, "")
    gone = [key for n, key in enumerate(keys) if key < oldest or n < len(keys) - KEPT]
    for key in gone:
        store.delete(key)
    return len(gone)
