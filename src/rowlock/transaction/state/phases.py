"""The named phases of a transaction, and their listeners: tests observe phases, metrics such as `rowlock.telemetry` the account of each end.

    begin → staged → (before_rebase → rebased)* → written → before_put → after_put → committed

The default observer does nothing.  An observer may block or run other transactions: that is how a
schedule walks two real transactions through an interleaving.  Listeners to accounts are called on the thread that commits, outside of the commit
lane; what one raises is logged and changes nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rowlock import progress, threads
from rowlock.transaction.state.receipt import Receipt

PHASES = ("begin", "staged", "before_rebase", "rebased", "written", "before_put", "after_put", "committed")


class Observer:
    """Does nothing.  Subclass and override `phase`."""

    def phase(self, name: str, txn: Any) -> None:
        """Called on the transaction's own thread when it reaches a phase of `PHASES`."""


_STEPS = {
    "begin": "staging",
    "staged": "committing",
    "before_rebase": "rebasing over what others committed",
    "rebased": "committing",
    "committed": "tidying up the log",
}
"""The step of the progress display after a phase; the other phases are over at once."""


def reached(name: str, txn: Any, observer: Observer) -> None:
    """Reports to the observer, and to the progress display, that a transaction has reached a phase.  Called on the transaction's own thread."""
    if name in _STEPS:
        progress.step(_STEPS[name])
    observer.phase(name, txn)


_SILENT = Observer()
_current: contextvars.ContextVar[Observer] = contextvars.ContextVar("rowlock_observer", default=_SILENT)


def current_observer() -> Observer:
    """The observer in force in this context."""
    return _current.get()


@contextlib.contextmanager
def use_observer(observer: Observer) -> Iterator[Observer]:
    """Puts an observer in force for the transactions that begin in this context (thread or task)."""
    with threads.holding(_current, observer):
        yield observer


logger = logging.getLogger("rowlock")


class Listener(Protocol):
    """The callbacks for every transaction of this process that committed, found nothing to commit, or failed."""

    def committed(self, table: str, receipt: Receipt) -> None:
        """A transaction ended; `receipt.version` is None where it changed nothing."""

    def failed(self, table: str, operation: str, error: BaseException) -> None:
        """A transaction failed: by a conflict, a constraint, an outcome that is not known."""


_listeners: tuple[Listener, ...] = ()


def listen(listener: Listener) -> Callable[[], None]:
    """Registers a listener for the whole process; returns a function that takes it out again."""
    global _listeners
    _listeners = (*_listeners, listener)

    def stop() -> None:
        global _listeners
        _listeners = tuple(one for one in _listeners if one is not listener)

    return stop


def committed(table: str, receipt: Receipt) -> None:
    """Reports to the listeners a transaction that committed, or found nothing to commit."""
    _report(lambda listener: listener.committed(table, receipt))


def failed(table: str, operation: str, error: BaseException) -> None:
    """Reports to the listeners a transaction that failed."""
    _report(lambda listener: listener.failed(table, operation, error))


def _report(call: Callable[[Listener], None]) -> None:
    for listener in _listeners:
        try:
            call(listener)
        except Exception as e:  # noqa: BLE001 - the transaction has ended; its account is for people
            logger.warning("the account of a transaction could not be handed to %s: %s", type(listener).__name__, e)
