"""The commit lane of a table: writers on one machine put one after the other, instead of losing puts to each other.

Between threads the lane is a lock; between processes that share a local folder it is the kernel's lock on the
log's folder, which ends with its holder.  It only saves rounds and decides nothing (I7): a writer that has waited
long enough goes on without it, and put-if-absent alone decides who commits.
"""

from __future__ import annotations

import contextlib
import fcntl
from types import TracebackType

from rowlock import clock, threads
from rowlock.storage.local import SYSTEM, LocalStore, SystemCalls
from rowlock.storage.store import ObjectStore

PATIENCE_S = 1.0
"""How long a writer waits for writers of other processes."""
PAUSE_S = 10.0
"""How long a writer commits without the other processes' lock after it waited in vain, since the holder hangs or is busy."""
_FOLDER = "_delta_log"


class Lane:
    """A commit lane: a context manager that one thread holds at a time, and may enter again (re-entrant)."""

    def __init__(self, folder: str | None = None, system: SystemCalls = SYSTEM) -> None:
        self._threads = threads.reentrant_lock()
        self._folder, self._depth, self._without_until = folder, 0, float("-inf")
        self._held: int | None = None
        self._system = system

    def __enter__(self) -> Lane:
        depth = self._depth if self._threads._is_owned() else 0
        try:
            self._threads.acquire()
            if not depth and self._folder is not None:
                self._held = self._acquire_flock(self._folder)
            self._depth = depth + 1
            return self
        except BaseException:  # an interrupt may come right after a lock was acquired and before that is recorded
            if not depth and self._threads._is_owned():
                self._depth = 0
                self._release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth:
            self._threads.release()
        else:
            self._release()

    def _release(self) -> None:
        try:
            if self._held is not None:
                held, self._held = self._held, None
                _let_go(held, self._system)
        finally:
            self._threads.release()

    def _acquire_flock(self, folder: str) -> int | None:
        """Acquires the kernel's lock: returns the descriptor that holds it, None if it is not acquired in time."""
        if clock.monotonic_s() < self._without_until:
            return None
        try:
            descriptor = self._system.open(folder)
        except OSError:
            return None
        try:
            self._system.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            try:
                waiter = _FlockWaiter(descriptor, self._system)
            except RuntimeError:  # no thread can be started, for example at interpreter exit
                self._system.close(descriptor)
                return None
            if waiter.acquired_within(PATIENCE_S):
                return descriptor
            self._without_until = clock.monotonic_s() + PAUSE_S
            return None
        except OSError:  # a file system without such locks
            self._system.close(descriptor)
            return None


def _let_go(descriptor: int, system: SystemCalls) -> None:
    """Releases the kernel's lock and closes its descriptor."""
    with contextlib.suppress(OSError):
        system.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a forked child may have the descriptor too
        system.close(descriptor)


class _FlockWaiter:
    """Waits for the kernel's lock in a separate thread, since flock has no timeout; a lock that is acquired too late is released at once."""

    def __init__(self, descriptor: int, system: SystemCalls) -> None:
        self._descriptor, self._acquired, self._given_up = descriptor, threads.event(), False
        self._lock, self._system = threads.lock(), system
        threads.start(self._wait, "rowlock lane")

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            self._system.flock(self._descriptor, fcntl.LOCK_EX)
        with self._lock:
            if self._given_up:
                _let_go(self._descriptor, self._system)
            else:
                self._acquired.set()

    def acquired_within(self, seconds: float) -> bool:
        """Whether the lock was acquired in time; if not, or if the wait is interrupted, it is released as soon as it is acquired."""
        try:
            self._acquired.wait(seconds)
        finally:
            with self._lock:
                self._given_up = not self._acquired.is_set()
        return not self._given_up


def lane_of(store: ObjectStore) -> Lane:
    """A new commit lane for the table at a store's root; on a local disk it also orders the processes of this machine."""
    return Lane(f"{store.root}/{_FOLDER}", store.system) if isinstance(store, LocalStore) else Lane()
