"""An interrupt (Ctrl-C, an exception that another thread sets) at any line gives the commit lane back: the next writer is let in (I7, I8)."""

from __future__ import annotations

import itertools
import linecache
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.storage.local import Lane
from rowlock.transaction.state.shared import SingleFlight
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run

PLACES = {
    ("local.py", "__enter__"),
    ("local.py", "_acquire_flock"),
    ("commit.py", "_rounds"),
    ("lead.py", "commit_append"),
    ("lead.py", "__enter__"),
    ("lead.py", "move_to"),
    ("lead.py", "_gathered"),
    ("lead.py", "put_ended"),
    ("receipt.py", "add"),
    ("shared.py", "do"),
}


CALLED = {("threading.py", "__enter__"), ("threading.py", "__exit__"), ("threading.py", "notify_all"), ("threading.py", "notify")}
"""Functions of the standard library that locks are made of: an interrupt comes in as one begins, before its first line."""


def interrupted(call: Callable[[], Any], nth: int) -> bool:
    """`_interrupted` in a thread of its own: what is raised from a trace function inside of `except` stays a thread's exception of the moment."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_interrupted, call, nth).result()


def _interrupted(call: Callable[[], Any], nth: int) -> bool:
    """Runs a call, and raises KeyboardInterrupt in it at the nth line in PLACES; whether it got so far.

    Not at the lines of `with` (which are met again at its end) and `try`, whose instructions let no interrupt in.
    """
    steps = itertools.count(1)

    def step(frame: FrameType, event: str, _: Any) -> Any:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not line.startswith(("with ", "try:")) and next(steps) == nth:
            raise KeyboardInterrupt(f"{frame.f_code.co_name}:{frame.f_lineno}: {line}")
        return step

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        place = Path(frame.f_code.co_filename).name, frame.f_code.co_name
        if place in CALLED and next(steps) == nth:
            raise KeyboardInterrupt(f"{frame.f_code.co_name} begins")
        return step if place in PLACES else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


def is_free(lane: Lane) -> bool:
    found: list[bool] = []

    def enter() -> None:
        if got := lane._threads.acquire(timeout=5):
            lane._threads.release()
        found.append(got)

    (thread := threading.Thread(target=enter)).start()
    thread.join()
    return found[0]


def test_an_interrupt_while_entering(tmp_path: Path) -> None:
    lane = Lane(str(tmp_path))

    def use() -> None:
        with lane:
            pass

    for nth in itertools.count(1):
        got_there = interrupted(use, nth)
        assert is_free(lane) and lane._held is None, f"step {nth}"
        if not got_there:
            break
    assert nth > 6


def test_an_interrupt_right_after_the_lock_is_had(tmp_path: Path) -> None:
    """Before the line after it: a signal's handler runs when the call of `acquire` has come back."""
    lane = Lane(str(tmp_path))
    real = lane._threads

    class Interrupting:
        def acquire(self) -> bool:
            real.acquire()
            raise KeyboardInterrupt

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    lane._threads = Interrupting()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt), lane:
        pass
    lane._threads = real
    assert is_free(lane)


@pytest.mark.parametrize("statement", ["UPDATE SET k = k + 1 WHERE k = 1", "APPEND (7)"])
def test_an_interrupt_at_any_line_of_a_commit(statement: str) -> None:
    """I2 too: what was interrupted is in the table once or not at all."""
    world = InMemory()
    world.create(schema_string([("k", "long", True)]), (), {})
    run(world.table, parse("APPEND (1)"))
    for nth in itertools.count(1):
        got_there = interrupted(lambda: run(world.table, parse(statement)), nth)
        assert is_free(world.state.lane), f"step {nth}"
        if not got_there:
            break
    assert nth > 10


def test_an_interrupt_while_threads_share_a_look_at_the_log() -> None:
    """Every later refresh of the table waited for a call that nobody was in any more."""
    for nth in itertools.count(1):
        flights = SingleFlight()
        done = interrupted(lambda flights=flights: flights.do(lambda: "first"), nth)  # type: ignore[misc]
        later = threading.Thread(target=flights.do, args=(lambda: "second",), daemon=True)
        later.start()
        later.join(10)
        assert not later.is_alive(), f"step {nth}"
        if not done:
            break
    assert nth > 5
