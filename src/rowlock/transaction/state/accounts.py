"""Hands the account of each commit, and of each failure, to those who registered for it, such as `rowlock.telemetry`.

Listeners are called on the thread that commits, outside of the commit lane.  What one raises is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from rowlock.transaction.state.receipt import Receipt

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
    """Tells the listeners of a transaction that committed, or found nothing to commit."""
    _tell(lambda listener: listener.committed(table, receipt))


def failed(table: str, operation: str, error: BaseException) -> None:
    """Tells the listeners of a transaction that failed."""
    _tell(lambda listener: listener.failed(table, operation, error))


def _tell(call: Callable[[Listener], None]) -> None:
    for listener in _listeners:
        try:
            call(listener)
        except Exception as e:  # noqa: BLE001 - the transaction has ended; its account is for people
            logger.warning("the account of a transaction could not be handed to %s: %s", type(listener).__name__, e)
