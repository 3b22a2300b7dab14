"""The contract of registers: small named cells of one table, each changed by compare-and-swap.

They hold leases and turns, which decide nothing about the data (I7), so a provider may fail, lose a reply or be
unavailable; its calls must only return soon.  A cell is never deleted, and its content has a counter that only
grows.  Every provider passes the same contract tests.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rowlock.storage.store import PutOutcome


class Cell(NamedTuple):
    """The value of a cell, and the tag of exactly this state."""

    value: bytes
    tag: str


class Registers(Protocol):
    """The cells of one table.  All methods are safe to call from any thread; any may raise StorageError."""

    def read(self, name: str) -> Cell | None:
        """The cell's value and tag; None if it does not exist yet."""
        ...

    def create(self, name: str, value: bytes) -> PutOutcome:
        """Creates the cell unless it exists: of many callers exactly one gets Committed."""
        ...

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        """Changes the cell if it still has this tag: of many callers with the same tag exactly one gets Committed.

        After Lost and Unknown alike, read the cell back: after a client's own retry even the winner may get Lost.
        """
        ...
