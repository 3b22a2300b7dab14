"""Registers that misbehave."""

from __future__ import annotations

import random

from rowlock.storage import Committed, Lost, MemoryStore, PutOutcome, StorageError, Unknown
from rowlock.storage.registers import Cell, ObjectRegisters, Registers


class Unreliable:
    """Registers of which every call may fail, lie, lose its reply, or answer with what is old; by a seed."""

    def __init__(self, inner: Registers, seed: int, chance: float) -> None:
        self._inner, self._random, self._chance = inner, random.Random(seed), chance
        self._old: list[Cell | None] = [None]
        self.faults = 0
        self.kept: set[str] = set()
        """Cells that were there when they were read."""

    def _strikes(self) -> bool:
        struck = self._random.random() < self._chance
        self.faults += struck
        return struck

    def read(self, name: str) -> Cell | None:
        found = self._inner.read(name)
        self._old.append(found)
        if found is not None:
            self.kept.add(name)
        if not self._strikes():
            return found
        fault = self._random.choice(["raises", "old", "garbage", "absent"])
        if fault == "raises":
            raise StorageError("the provider is away")
        if fault == "garbage":
            return Cell(b"\xff{" if found is None else found.value[::-1], "1" if found is None else found.tag)
        return None if fault == "absent" else self._random.choice(self._old)

    def create(self, name: str, value: bytes) -> PutOutcome:
        return self._answer(lambda: self._inner.create(name, value))

    def swap(self, name: str, value: bytes, tag: str) -> PutOutcome:
        return self._answer(lambda: self._inner.swap(name, value, tag))

    def _answer(self, call) -> PutOutcome:  # type: ignore[no-untyped-def]
        if not self._strikes():
            return call()
        fault = self._random.choice(["before", "after", "raises", "lost", "lie", "garbage"])
        if fault in ("after", "lost", "raises"):
            call()
        if fault == "raises":
            raise RuntimeError("what no contract knows")
        return {"lost": Lost(), "lie": Committed()}.get(fault, Unknown("no reply"))


def in_memory() -> ObjectRegisters:
    return ObjectRegisters(MemoryStore())
