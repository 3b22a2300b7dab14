"""Bounded caches: many of them share one budget of bytes in the process, and what was used longest ago goes first, whosever it is.

A cache never decides anything: what it holds can be made again.  Values must not be changed by who gets them.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from rowlock.limits import limits

V = TypeVar("V")
_owners = itertools.count()


class Budget:
    """What the caches of one kind may hold together, by the limit of this name.  Thread-safe."""

    def __init__(self, limit: str, *, largest_share: int = 8) -> None:
        self.limit, self._largest_share = limit, largest_share
        self._fresh()
        _budgets.append(self)

    def _fresh(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[int, Hashable], tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._closed: deque[int] = deque()

    @property
    def most(self) -> int:
        """The limit as it is now."""
        most: int = getattr(limits(), self.limit)
        return most

    @property
    def size(self) -> int:
        """What is held now, in the limit's unit."""
        with self._lock:
            self._let_go()
            return self._size

    def get(self, owner: int, key: Hashable) -> Any:
        """The value kept for an owner's key, or None."""
        with self._lock:
            found = self._held.get((owner, key))
            if found is None:
                return None
            self._held.move_to_end((owner, key))
            return found[0]

    def put(self, owner: int, key: Hashable, value: Any, size: int) -> None:
        """Keeps a value, unless it alone would take more than a share of 1 / `largest_share` of the budget; others leave until all fits."""
        most = self.most
        with self._lock:
            self._drop((owner, key))
            self._add((owner, key), value, size, most)

    def keep(self, owner: int, key: Hashable, value: Any, size: int) -> Any:
        """The value kept for a key, which is this one where there was none: whoever asks at the same time gets the same."""
        most = self.most
        with self._lock:
            if (found := self._held.get((owner, key))) is not None:
                return found[0]
            self._add((owner, key), value, size, most)
            return value

    def _add(self, key: tuple[int, Hashable], value: Any, size: int, most: int) -> None:
        self._let_go()
        if size * self._largest_share <= most:
            self._held[key] = value, size
            self._size += size
        while self._size > most and self._held:
            self._size -= self._held.popitem(last=False)[1][1]

    def clear(self, owner: int) -> None:
        """Lets go of all that is an owner's."""
        with self._lock:
            self._let_go(owner)

    def close(self, owner: int) -> None:
        """Lets go of all that is an owner's, soon.  Takes no lock: it is called where garbage is collected, in the midst of anything."""
        self._closed.append(owner)

    def _let_go(self, *more: int) -> None:
        gone = set(more)
        while self._closed:
            gone.add(self._closed.popleft())
        if gone:
            for key in [k for k in self._held if k[0] in gone]:
                self._drop(key)

    def _drop(self, key: tuple[int, Hashable]) -> None:
        if (before := self._held.pop(key, None)) is not None:
            self._size -= before[1]


class Cache(Generic[V]):
    """Values by key of one owner, such as a table, out of a budget that all owners share.  Thread-safe."""

    def __init__(self, budget: Budget, size_of: Callable[[V], int]) -> None:
        self._budget, self._size_of, self._owner = budget, size_of, next(_owners)
        weakref.finalize(self, budget.close, self._owner).atexit = False

    def get(self, key: Hashable) -> V | None:
        """The value of a key where it is still kept."""
        found: V | None = self._budget.get(self._owner, key)
        return found

    def put(self, key: Hashable, value: V) -> None:
        """Keeps a value for a key, instead of the one that was kept for it."""
        self._budget.put(self._owner, key, value, self._size_of(value))

    def keep(self, key: Hashable, value: V) -> V:
        """Keeps a value that two threads may have made at once; gives the one that was kept first."""
        kept: V = self._budget.keep(self._owner, key, value, self._size_of(value))
        return kept

    def clear(self) -> None:
        """Lets go of everything that was put here."""
        self._budget.clear(self._owner)


_budgets: list[Budget] = []
ROWS = Budget("row_cache_bytes")
COLUMNS = Budget("column_cache_bytes")
ROW_IDS = Budget("row_id_cache_bytes")
VECTORS = Budget("vector_cache_bytes")
COMMITS = Budget("commit_cache_bytes")
PLANS = Budget("plan_entries")
TABLES = Budget("open_tables", largest_share=1)


def _start_empty() -> None:
    """A forked child has none of its parent's threads, and they may have held any lock."""
    for budget in _budgets:
        budget._fresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_empty)
