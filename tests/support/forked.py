"""A fork at a moment at which another thread of the parent holds locks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack


def status_of_a_child(work: Callable[[], object], *held: AbstractContextManager[object]) -> int:
    """Forks while a thread of this process is inside of all of `held`, and does `work` in the child; how the child ended, 0 where `work` returned."""
    inside, done = threading.Event(), threading.Event()

    def at_work() -> None:
        with ExitStack() as stack:
            for each in held:
                stack.enter_context(each)
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=at_work)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        failed = True
        try:
            work()
            failed = False
        finally:
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    return status
