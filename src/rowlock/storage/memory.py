"""The store of a table in memory, with the same contract as every other, for simulations and tests.

A hook can fail a put before it is done or lose its reply afterwards, to test I2.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from rowlock import clock
from rowlock.protocol.paths import check_key
from rowlock.storage.store import Committed, Digested, Lost, NotFound, ObjectMeta, PutOutcome, Unknown, tag_of

Moment = Literal["before", "after"]
Fault = Callable[[Moment, str, bytes], PutOutcome | None]
"""Called around each put_if_absent and replace_if as (moment, key, data).

`before`: if it returns an outcome, that is the outcome and nothing is written.  `after`: the put is done; an outcome
that it returns replaces the true one (Unknown: the reply was lost).  It may also raise.
"""


class MemoryStore(Digested):
    """A store in memory that exists as long as this object.  Its methods are documented in `ObjectStore`."""

    is_remote = False

    def __init__(self, root: str = "memory://table", *, faults: Fault | None = None) -> None:
        self.root = self.identity = root
        self._lock = threading.RLock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._keys: list[str] = []
        self.faults = faults

    def __repr__(self) -> str:
        return f"MemoryStore({self.root!r}, {len(self._objects)} objects)"

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self._conditional(key, data, lambda current: current is None)

    def replace_if(self, key: str, data: bytes, tag: str) -> PutOutcome:
        return self._conditional(key, data, lambda current: current is not None and tag_of(current) == tag)

    def _conditional(self, key: str, data: bytes, may: Callable[[bytes | None], bool]) -> PutOutcome:
        """Puts the object if what is there now permits it, between the two faults."""
        check_key(key)
        if self.faults and (outcome := self.faults("before", key, data)) is not None:
            return outcome
        with self._lock:
            won = may(self._objects.get(key, (None,))[0])
            if won:
                self._set(key, data)
        if self.faults and (outcome := self.faults("after", key, data)) is not None:
            return outcome
        return Committed(tag_of(data)) if won else Lost()

    def _set(self, key: str, data: bytes) -> None:
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = (bytes(data), clock.now_ms())

    def put(self, key: str, data: bytes) -> None:
        check_key(key)
        with self._lock:
            self._set(key, data)

    def put_briefly(self, key: str, data: bytes) -> None:
        self.put(key, data)

    def put_parts(self, key: str, parts: Callable[[], Iterable[bytes]]) -> None:
        self.put(key, b"".join(parts()))

    def get(self, key: str) -> bytes:
        try:
            return self._objects[check_key(key)][0]
        except KeyError:
            raise NotFound(key, self.root) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def head(self, key: str) -> int | None:
        current = self._objects.get(check_key(key))
        return None if current is None else len(current[0])

    def tag(self, key: str) -> str | None:
        current = self._objects.get(check_key(key))
        return None if current is None else tag_of(current[0])

    def modified_ms(self, key: str) -> int | None:
        current = self._objects.get(check_key(key))
        return None if current is None else current[1]

    def sync(self, key: str) -> None:
        """Nothing: in memory nothing outlives the process."""

    def list(self, prefix: str = "", *, start_after: str | None = None, recursive: bool = False, limit: int | None = None) -> Iterator[ObjectMeta]:
        folder = f"{check_key(prefix)}/" if prefix else ""
        with self._lock:
            listed = []
            for key in self._keys[bisect_left(self._keys, max(folder, start_after or "")) :]:
                if not key.startswith(folder):
                    break
                if (recursive or "/" not in key[len(folder) :]) and (start_after is None or key > start_after):
                    data, modified_ms = self._objects[key]
                    listed.append(ObjectMeta(key, len(data), modified_ms))
                    if len(listed) == limit:
                        break
        return iter(listed)

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def exists(self, key: str = "") -> bool:
        with self._lock:
            return bool(self._keys) if not key else check_key(key) in self._objects or any(k.startswith(f"{key}/") for k in self._keys)


__all__ = ["Fault", "MemoryStore", "Moment", "Unknown"]
