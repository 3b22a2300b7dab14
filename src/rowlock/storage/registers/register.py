"""What registers must do: small named cells of one table, each changed by compare-and-swap.

Leases and turns live in them.  They decide nothing about the data (I7), so a provider may fail, lose
a reply or be away; it must only come back, and better soon.  A cell is never deleted: what is in it
counts upwards for ever.  Every provider passes the same contract tests.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rowlock.storage.store import PutOutcome


class Cell(NamedTuple):
    """What a cell holds, and the tag of just this state of it."""

    value: bytes
    tag: str


class Registers(Protocol):
    """The cells of one table.  All methods are safe to call from any thread; any may raise StorageError."""

    def read(self, name: str) -> Cell | None:
        """The cell; None where there is none yet."""
        ...

    def create(self, name: str, value: bytes) -> PutOutcome:
        """Makes the cell unless there is one: of many callers exactly one gets Committed."""
        ...

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        """Changes the cell if it is still in the state of `tag`: of many callers with one tag exactly one gets Committed.

        Lost and Unknown alike mean: read it back, for a client's own retry may call the winner a loser.
        """
        ...
