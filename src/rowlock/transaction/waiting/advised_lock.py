"""Decides what `rowlock.lock=auto` means for a table at present, by applying `advice.advice.lock_for` to its recent history.

The history (the newest commits and the recorded failed tries) is read by the transaction that asks: once in each process,
and again after enough new commits.  A wrong or outdated answer costs time and nothing else (I7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowlock import clock, threads
from rowlock.boundary.statements import Statement
from rowlock.transaction.state.shared import SharedState, logger

if TYPE_CHECKING:
    from rowlock.advice.advice import Lock
    from rowlock.advice.history import History

COMMITS = 100
"""How many of the newest commits the history covers."""
REREAD_COMMITS = 10
REREAD_S = 5.0
"""The history is read again after at least this many new commits, and at least this many seconds after the last time."""


class AdvisedLock:
    """The advised lock of one table, shared by its handles in this process.  Thread-safe: while one thread renews it, others get the old one."""

    def __init__(self) -> None:
        self._lock = threads.lock()
        self._history: History | None = None
        self._answer: Lock | None = None
        self._version, self._at_s = -1, 0.0
        self._table: str | None = None

    def answer(self, state: SharedState) -> Lock:
        """The advised lock, renewed first if it is due; `none` where the history cannot be read.  Never raises."""
        if not self._lock.acquire(blocking=self._answer is None):
            return self._answer or "none"
        try:
            if self._answer is None or clock.monotonic_s() - self._at_s >= REREAD_S:
                self._ask(state)
        except Exception as e:  # noqa: BLE001 - a lock is a courtesy, and so is advice on it
            logger.warning("no advice on a lock, for the history of %s could not be read: %s", state.store.root, e)
            self._answer = self._answer or "none"
        finally:
            self._lock.release()
        return self._answer or "none"

    def _ask(self, state: SharedState) -> None:
        from rowlock.advice.advice import lock_for  # with a parser of SQL that other writers need not load
        from rowlock.advice.read_history import read_history

        self._at_s = clock.monotonic_s()
        head = state.refresh()
        if head.metadata.id != self._table:  # another table was created at this path: its history is a new one
            self._history, self._answer, self._table = None, None, head.metadata.id
        if self._answer is not None and head.version < self._version + REREAD_COMMITS:
            return
        self._history = read_history(state.store, COMMITS, previous=self._history, snapshot=head)
        self._answer, self._version = lock_for(self._history, current=self._answer), head.version


def advised_lock(state: SharedState, statements: Sequence[Statement] = ()) -> Lock:
    """The lock that the table's history advises: none, writes or partition.  Never raises."""
    advised: AdvisedLock = state.shared("advised lock", AdvisedLock)
    return advised.answer(state)
