"""Runs calls in a pool of threads, or one after the other where no thread can be started.

A script may end while threads of its own still append or read.  From then on the interpreter starts no thread and no pool takes
work, and what these threads do must not fail because of that: so no other module makes a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(call: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Calls `call` on each item, in at most `threads` threads; returns the answers in the order of the items.

    Raises the error of the first item whose call raised one; calls that have not begun by then are left out, and those that have are waited for.
    """
    if len(items) < 2:
        return [call(i) for i in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="rowlock") as pool:
        taken: list[Future[R]] = []
        try:
            for item in items:
                taken.append(pool.submit(call, item))
        except RuntimeError:  # the interpreter is about to end
            pass
        try:
            return [*(f.result() for f in taken), *(call(i) for i in items[len(taken) :])]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
