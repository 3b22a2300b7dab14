"""Threads, locks and pools: what lets another thread run is asked for here, as time is in `clock`.

Everything else in Rowlock asks the current `SystemThreads` for a thread, and for each lock that is held while a store is called, so that a
simulation can decide who runs.  Locks that guard a few lines of memory are `threading.Lock` where they are used.

A script may end while threads of its own still append or read.  From then on the interpreter starts no thread and no pool takes
work, and what these threads do must not fail because of that: so no other module makes a pool.

A forked child has none of its parent's threads, and locks that they held are never released: what outlives no fork is renewed by `after_fork`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Lock(Protocol):
    """A lock, as `threading.Lock` and `threading.RLock` are."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(self, *raised: Any) -> None: ...


class ReentrantLock(Lock, Protocol):
    """A lock that its thread may acquire again, as `threading.RLock` is."""

    def _is_owned(self) -> bool: ...


class Event(Protocol):
    """A flag that threads wait for, as `threading.Event` is."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class SystemThreads:
    """The threads and locks of the interpreter; documented at the functions of this module.  A simulation overrides them all."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drops the objects of the process and of its threads: a forked child is another one."""
        self._making = threading.Lock()
        self._made: dict[Any, Any] = {}
        self._local = threading.local()

    def lock(self) -> Lock:
        return threading.Lock()

    def reentrant_lock(self) -> ReentrantLock:
        return threading.RLock()  # type: ignore[return-value]  # the stubs leave out `_is_owned`

    def event(self) -> Event:
        return threading.Event()

    def start(self, call: Callable[[], object], name: str) -> None:
        threading.Thread(target=call, name=name, daemon=True).start()

    def side_by_side(self, call: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
        with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="rowlock") as pool:
            taken: list[Future[R]] = []
            try:
                for item in items:
                    taken.append(pool.submit(copy_context().run, call, item))  # the codec of the caller's block, its observer, its progress
            except RuntimeError:  # the interpreter is about to end
                pass
            try:
                return [*(f.result() for f in taken), *(call(i) for i in items[len(taken) :])]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def of_process(self, make: Callable[[], T]) -> T:
        with self._making:
            if make not in self._made:
                self._made[make] = make()
            found: T = self._made[make]
            return found

    def of_thread(self, make: Callable[[], T]) -> T:
        made: dict[Any, Any] = self._local.__dict__
        if make not in made:
            made[make] = make()
        found: T = made[make]
        return found


_SYSTEM = SystemThreads()
_current = _SYSTEM


def after_fork(call: Callable[[], None]) -> None:
    """Calls `call` in each child process that is forked from this one, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def module_lock() -> threading.Lock:
    """A new lock for a few lines of a module's memory; a forked child finds it free, even if a thread of its parent held it."""
    made: Any = threading.Lock()
    after_fork(made._at_fork_reinit)
    return made  # type: ignore[no-any-return]


after_fork(_SYSTEM.forget)


@contextlib.contextmanager
def use(threads: SystemThreads) -> Iterator[None]:
    """Uses another source of threads for the whole process until the block ends."""
    global _current
    before, _current = _current, threads
    try:
        yield
    finally:
        _current = before


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """A block in whose context the variable has the value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def are_replaced() -> bool:
    """Whether another source than the interpreter is in use, as in a simulation."""
    return _current is not _SYSTEM


def lock() -> Lock:
    """A new lock that may be held while a store is called."""
    return _current.lock()


def reentrant_lock() -> ReentrantLock:
    """A new lock that may be held while a store is called, and that its thread may acquire again."""
    return _current.reentrant_lock()


def event() -> Event:
    """A new flag that threads wait for."""
    return _current.event()


def start(call: Callable[[], object], name: str) -> None:
    """Runs `call` in a thread that does not keep the program alive.  Raises RuntimeError where no thread can be started."""
    _current.start(call, name)


def of_process(make: Callable[[], T]) -> T:
    """The one object of this process that `make` made at first use; a forked child makes its own."""
    return _current.of_process(make)


def of_thread(make: Callable[[], T]) -> T:
    """The one object of the calling thread that `make` made at first use; a forked child makes its own."""
    return _current.of_thread(make)


def side_by_side(call: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Calls `call` on each item, in at most `threads` threads and copies of the caller's context; returns the answers in the order of the items.

    Raises the error of the first item whose call raised one; calls that have not begun by then are left out, and those that have are waited for.
    """
    if len(items) < 2:
        return [call(i) for i in items]
    return _current.side_by_side(call, items, threads)
