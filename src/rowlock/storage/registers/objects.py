"""Registers in the table's own folder: one object per cell, in `_rowlock/locks/`.

Other engines and vacuum ignore that folder.  This is the default provider, since it needs nothing besides the
table's own store.
"""

from __future__ import annotations

from rowlock.storage.registers.register import Cell
from rowlock.storage.store import NotFound, ObjectStore, PutOutcome

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
