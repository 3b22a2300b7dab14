"""A test kit for pipelines on Rowlock: puts that are lost, doubted or refused, and others that commit while a transaction is under way.

Nothing of it needs Spark or a server.  `memory_store` is the store behind a `memory://` address, whose puts can be made to fail;
`between` runs something while a transaction is at a phase.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

from rowlock import arguments
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import scheme_of
from rowlock.storage.memory import MemoryStore, Moment
from rowlock.storage.open import open_store
from rowlock.storage.store import Lost, PutOutcome, Unknown
from rowlock.transaction.state.phases import PHASES, Observer, use_observer

__all__ = ["LostPuts", "between", "memory_store"]

Kind = Literal["lost reply", "lost request", "told lost"]
_KINDS = ("lost reply", "lost request", "told lost")


def memory_store(path: str) -> MemoryStore:
    """The store of the table at a `memory://` address, the same for every caller in this process.

    Args:
        path: The address, such as `memory://orders`.

    Returns:
        The store.  Its `faults` may be set to a `LostPuts`, or to any function of the same form.

    Raises:
        InvalidInput: The address is another one.
        WrongType: It is no text.

    Examples:
        >>> from rowlock.testing import LostPuts, memory_store
        >>> rowlock.append("memory://kit", pa.table({"id": [1]})).version
        0
        >>> memory_store("memory://kit").faults = LostPuts("lost reply", times=1)
        >>> rowlock.append("memory://kit", pa.table({"id": [2]})).version
        1
        >>> rowlock.to_arrow("memory://kit").num_rows
        2
    """
    if scheme_of(arguments.text(path, "path")) != "memory":
        raise InvalidInput("only stores in memory can be made to fail: give an address such as memory://orders", table=path)
    store = open_store(path)
    assert isinstance(store, MemoryStore)
    return store


class LostPuts:
    """Makes the next conditional puts of a store go wrong.

    lost reply    the put is done, and its writer is not told
    lost request  the put is not done, and its writer is not told
    told lost     the put is done, and its writer is told that another was first, as after a retry by a proxy

    Examples:
        >>> from rowlock.testing import LostPuts
        >>> faults = LostPuts("lost request", times=2)
        >>> faults.left
        2
    """

    def __init__(self, kind: Kind, *, times: int = 1, key_contains: str = "_delta_log/") -> None:
        """Makes `times` puts of keys that contain `key_contains` go wrong.  Raises InvalidInput for another kind."""
        if kind not in _KINDS:
            raise InvalidInput(f"there is no fault {kind!r}: choose {', '.join(_KINDS)}")
        self.kind, self.left, self._part = kind, times, key_contains

    def __call__(self, moment: Moment, key: str, data: bytes) -> PutOutcome | None:
        """What is answered instead of the truth; None: the truth."""
        if self.left <= 0 or self._part not in key or (moment == "before") != (self.kind == "lost request"):
            return None
        self.left -= 1
        return Lost() if self.kind == "told lost" else Unknown(f"{self.kind}, on purpose")


class _Between(Observer):
    def __init__(self, phase: str, call: Callable[[], object], times: int) -> None:
        self._phase, self._call, self._left = phase, call, times

    def phase(self, name: str, txn: Any) -> None:
        if name == self._phase and self._left > 0:
            self._left -= 1
            with use_observer(Observer()):
                self._call()


@contextlib.contextmanager
def between(phase: str, call: Callable[[], object], *, times: int = 1) -> Iterator[None]:
    """Calls `call` when a transaction of this thread, by DeltaTable or rowlock.append, not by `spark.sql`, reaches a phase: others commit in its midst.

    Args:
        phase: begin, staged, before_rebase, rebased, written, before_put, after_put or committed.
        call: What to do then; it may run transactions, but none of `spark.sql` at before_put and after_put: this thread holds the table's commit lane there.
        times: How often at most.

    Yields:
        Nothing: it is in force until the block ends.

    Raises:
        InvalidInput: There is no such phase.

    Examples:
        >>> from rowlock.testing import between
        >>> rowlock.append("memory://two", pa.table({"id": [1]})).version
        0
        >>> with between("staged", lambda: rowlock.append("memory://two", pa.table({"id": [2]}))):
        ...     receipt = rowlock.append("memory://two", pa.table({"id": [3]}))
        >>> receipt.read_version, receipt.version
        (0, 2)
    """
    if phase not in PHASES:
        raise InvalidInput(f"there is no phase {phase!r}: choose {', '.join(PHASES)}")
    with use_observer(_Between(phase, call, times)):
        yield
