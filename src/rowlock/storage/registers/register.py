"""The contract of registers: small named cells of one table, each changed by compare-and-swap.

They hold leases and turns, which decide nothing about the data (I7), so a provider may fail, lose a reply or be
unavailable; its calls must only return soon.  A cell is never deleted, and its content has a counter that only
grows.  Every provider passes the same contract tests.  The default one keeps them in the table's own folder, one object per cell in
`_rowlock/locks/`, which other engines and vacuum ignore: it needs nothing besides the table's own store.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rowlock.storage.store import NotFound, ObjectStore, PutOutcome


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


FOLDER = "_rowlock/locks"


class ObjectRegisters:
    """The registers of the table at a store's root."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"ObjectRegisters({self._store.root!r})"

    def read(self, name: str) -> Cell | None:
        try:
            return Cell(*self._store.get_tagged(_key(name)))
        except NotFound:
            return None

    def create(self, name: str, value: bytes) -> PutOutcome:
        return self._store.put_if_absent(_key(name), value)

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        return self._store.replace_if(_key(name), value, tag)


def _key(name: str) -> str:
    return f"{FOLDER}/{name}.json"
