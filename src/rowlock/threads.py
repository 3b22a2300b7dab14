"""Work that is done side by side: in a pool of threads, or one after the other where none can be had.

A script may end with threads of its own still at work.  From that moment on no pool takes anything, and what
these threads append or read must not fail for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(call: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The answers in the order of the items.  Raises the first error that a call raises."""
    if len(items) < 2:
        return [call(i) for i in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="rowlock") as pool:
        taken: list[Future[R]] = []
        try:
            for item in items:
                taken.append(pool.submit(call, item))
        except RuntimeError:  # the interpreter is about to end
            pass
        return [*(f.result() for f in taken), *(call(i) for i in items[len(taken) :])]
