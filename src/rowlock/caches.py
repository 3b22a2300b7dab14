"""Bounded LRU caches: the caches of one kind share a budget for the whole process; the least recently used value is evicted first.

A cache never affects a result: every value can be computed again.  Callers must not change cached values.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from rowlock import threads
from rowlock.limits import limits

V = TypeVar("V")
_owners = itertools.count()


class Budget:
    """The values of all caches of one kind, bounded by the limit (see `limits`) of this name.  Thread-safe."""

    def __init__(self, limit: str, *, largest_share: int = 8) -> None:
        self.limit, self._largest_share = limit, largest_share
        self._reset()
        _budgets.append(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[int, Hashable], tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._closed: deque[int] = deque()

    @property
    def max_size(self) -> int:
        """The current value of the limit."""
        return int(getattr(limits(), self.limit))

    @property
    def size(self) -> int:
        """The total size of the values held now, in the limit's unit."""
        with self._lock:
            self._drop_owners()
            return self._size

    def get(self, owner: int, key: Hashable) -> Any:
        """The value of an owner's key; None if it is not held."""
        with self._lock:
            if (found := self._held.get((owner, key))) is None:
                return None
            self._held.move_to_end((owner, key))
            return found[0]

    def put(self, owner: int, key: Hashable, value: Any, size: int) -> None:
        """Stores a value, unless it is larger than 1 / `largest_share` of the budget; evicts others until everything fits."""
        max_size = self.max_size
        with self._lock:
            self._drop((owner, key))
            self._add((owner, key), value, size, max_size)

    def setdefault(self, owner: int, key: Hashable, value: Any, size: int) -> Any:
        """The value of a key, after storing this one if there was none: concurrent callers get the same value."""
        max_size = self.max_size
        with self._lock:
            if (found := self._held.get((owner, key))) is not None:
                return found[0]
            self._add((owner, key), value, size, max_size)
            return value

    def _add(self, key: tuple[int, Hashable], value: Any, size: int, max_size: int) -> None:
        self._drop_owners()
        if size * self._largest_share <= max_size:
            self._held[key] = value, size
            self._size += size
        while self._size > max_size and self._held:
            self._size -= self._held.popitem(last=False)[1][1]

    def clear(self, owner: int) -> None:
        """Drops all values of an owner."""
        with self._lock:
            self._drop_owners(owner)

    def close(self, owner: int) -> None:
        """Drops all values of an owner at the next use.  Takes no lock, since it is called by the garbage collector at any time."""
        self._closed.append(owner)

    def _drop_owners(self, *owners: int) -> None:
        """Drops the values of these owners, and of those that were closed."""
        gone = set(owners)
        while self._closed:
            gone.add(self._closed.popleft())
        if gone:
            for key in [k for k in self._held if k[0] in gone]:
                self._drop(key)

    def _drop(self, key: tuple[int, Hashable]) -> None:
        if (before := self._held.pop(key, None)) is not None:
            self._size -= before[1]


class Cache(Generic[V]):
    """The cached values of one owner, such as a table, by key, within a budget shared by all owners.  Thread-safe."""

    def __init__(self, budget: Budget, size_of: Callable[[V], int]) -> None:
        self._budget, self._size_of, self._owner = budget, size_of, next(_owners)
        weakref.finalize(self, budget.close, self._owner).atexit = False

    def get(self, key: Hashable) -> V | None:
        """The value of a key; None if it is not held (any more)."""
        found: V | None = self._budget.get(self._owner, key)
        return found

    def put(self, key: Hashable, value: V) -> None:
        """Stores a value for a key, replacing the one before."""
        self._budget.put(self._owner, key, value, self._size_of(value))

    def setdefault(self, key: Hashable, value: V) -> V:
        """Stores a value that two threads may have computed at once; returns the one that was stored first."""
        held: V = self._budget.setdefault(self._owner, key, value, self._size_of(value))
        return held

    def clear(self) -> None:
        """Drops everything that was stored here."""
        self._budget.clear(self._owner)


_budgets: list[Budget] = []
ROWS = Budget("row_cache_bytes")
COLUMNS = Budget("column_cache_bytes")
ROW_IDS = Budget("row_id_cache_bytes")
VECTORS = Budget("vector_cache_bytes")
COMMITS = Budget("commit_cache_bytes")
PATHS = Budget("path_cache_bytes")
PLANS = Budget("plan_entries")
TABLES = Budget("open_tables", largest_share=1)


def drop_all() -> None:
    """Empties the caches and renews their locks, as in a forked child: a thread of the parent may have held any lock."""
    for budget in _budgets:
        budget._reset()


threads.after_fork(drop_all)
