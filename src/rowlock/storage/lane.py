"""The commit lane of a table: its writers on one machine put one after the other instead of losing to each other.

Between threads it is a lock, between processes that share a local folder the kernel's lock on the log's
folder, which ends with its holder.  A courtesy that saves rounds and decides nothing (I7): whoever has
waited long enough goes on without it, and put-if-absent alone says who commits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from types import TracebackType

from rowlock import clock
from rowlock.storage.local import LocalStore
from rowlock.storage.store import ObjectStore

PATIENCE_S = 1.0
"""So long a writer waits for the writers of other processes."""
PAUSE_S = 10.0
"""So long it does without the lane after it waited in vain: its holder has stopped, or works on something long."""
_FOLDER = "_delta_log"


class Lane:
    """Held by one thread at a time; may be entered again by the thread that holds it."""

    def __init__(self, folder: str | None = None) -> None:
        self._threads = threading.RLock()
        self._folder, self._depth, self._without_until = folder, 0, float("-inf")
        self._held: int | None = None

    def __enter__(self) -> Lane:
        depth = self._depth if self._threads._is_owned() else 0  # type: ignore[attr-defined]
        try:
            self._threads.acquire()
            if not depth and self._folder is not None:
                self._held = self._queued(self._folder)
            self._depth = depth + 1
            return self
        except BaseException:  # an interrupt, which may come as soon as the lock is had, before anybody could say so
            if not depth and self._threads._is_owned():  # type: ignore[attr-defined]
                self._depth = 0
                self._let_go()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth:
            self._threads.release()
        else:
            self._let_go()

    def _let_go(self) -> None:
        try:
            if self._held is not None:
                held, self._held = self._held, None
                with contextlib.suppress(OSError):
                    fcntl.flock(held, fcntl.LOCK_UN)  # a forked child may hold the descriptor too: closing it here would not be enough
                    os.close(held)
        finally:
            self._threads.release()

    def _queued(self, folder: str) -> int | None:
        """The descriptor that holds the kernel's lock; None where it cannot be had in time."""
        if clock.monotonic_s() < self._without_until:
            return None
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            try:
                turn = _Turn(descriptor)
            except RuntimeError:  # no more threads, at the interpreter's end for one
                os.close(descriptor)
                return None
            if turn.came_within(PATIENCE_S):
                return descriptor
            self._without_until = clock.monotonic_s() + PAUSE_S
            return None
        except OSError:  # a file system without such locks
            os.close(descriptor)
            return None


class _Turn:
    """Waits for the kernel's lock in a thread of its own, since such a wait has no end of its own; a turn that comes too late is passed on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._came, self._given_up = descriptor, threading.Event(), False
        self._lock = threading.Lock()
        threading.Thread(target=self._wait, name="rowlock lane", daemon=True).start()

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._lock:
            if self._given_up:
                os.close(self._descriptor)
            else:
                self._came.set()

    def came_within(self, seconds: float) -> bool:
        """Whether the lock is had in time; where not, and where the wait is interrupted, it is passed on when it comes."""
        try:
            self._came.wait(seconds)
        finally:
            with self._lock:
                self._given_up = not self._came.is_set()
        return not self._given_up


def lane_of(store: ObjectStore) -> Lane:
    """The lane of the table at a store's root."""
    return Lane(f"{store.root}/{_FOLDER}" if isinstance(store, LocalStore) else None)
