"""The named phases of a transaction, and the one place where tests and metrics listen.

    begin → staged → (before_rebase → rebased)* → written → before_put → after_put → committed

The default observer does nothing.  An observer may block or run other transactions: that is how a
schedule walks two real transactions through an interleaving.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from rowlock import progress

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
"""What a transaction does after a phase, for the people who wait for it; the other phases are over at once."""


def reached(name: str, txn: Any, observer: Observer) -> None:
    """Tells the observer, and the people who wait, that a transaction has reached a phase.  Called on the transaction's own thread."""
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
    token = _current.set(observer)
    try:
        yield observer
    finally:
        _current.reset(token)
