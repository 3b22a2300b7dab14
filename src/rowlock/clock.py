"""Time, randomness, ids and sleeping: the only module that uses them.

Everything else in Rowlock asks the current `Clock`, so that a simulation can replace all four at once and repeat a
run from its seed.  The linter bans `time`, `random`, `uuid.uuid4` and `datetime.now` elsewhere.  Safety never depends
on a clock: times are for people to read.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
import uuid
from collections.abc import Iterator
from typing import Protocol


class Clock(Protocol):
    """A source of time, randomness and ids.  All methods run on the driver and are safe to call from any thread."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch (UTC)."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None:
        """Pauses the calling thread."""
        ...

    def random(self) -> float:
        """A float in [0, 1), for jitter."""
        ...

    def new_id(self) -> uuid.UUID:
        """A fresh random UUID (version 4)."""
        ...


class SystemClock:
    """The clock, sleep and random numbers of the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def random(self) -> float:
        return random.random()

    def new_id(self) -> uuid.UUID:
        return uuid.uuid4()


_MOST_DOUBLINGS = 64
"""After this many tries a wait no longer grows: 2.0 ** 1024 would overflow."""
_current: Clock = SystemClock()


def current() -> Clock:
    """The clock that is in use."""
    return _current


@contextlib.contextmanager
def use(clock: Clock) -> Iterator[Clock]:
    """Uses another clock for the whole process until the block ends."""
    global _current
    before, _current = _current, clock
    try:
        yield clock
    finally:
        _current = before


def now_ms() -> int:
    """Wall-clock time in milliseconds since the epoch (UTC)."""
    return _current.now_ms()


def monotonic_s() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return _current.monotonic_s()


def sleep(seconds: float) -> None:
    """Pauses the calling thread."""
    _current.sleep(seconds)


def jitter() -> float:
    """A random float in [0, 1)."""
    return _current.random()


def jittered_s(seconds: float) -> float:
    """`seconds` times a random factor from 0.5 to 1.5, so that writers that poll at the same pace do not stay in step."""
    return seconds * (0.5 + jitter())


def backoff_s(tries: int, first_s: float, *, factor: float = 2.0, most_s: float = math.inf, from_zero: bool = False) -> float:
    """Seconds to wait before the next try, after `tries` failed ones (0 for the first wait).

    `first_s` times `factor` for each failed try, at most `most_s`; this times a random factor from 0.5 to 1.5, or from 0 to 1 with
    `from_zero`, which spreads writers that lost the same race further apart.
    """
    wait_s = min(most_s, first_s * factor ** min(tries, _MOST_DOUBLINGS))
    return wait_s * jitter() if from_zero else jittered_s(wait_s)


def back_off(tries: int, first_s: float, *, factor: float = 2.0, most_s: float = math.inf, from_zero: bool = False) -> None:
    """Sleeps for `backoff_s`."""
    sleep(backoff_s(tries, first_s, factor=factor, most_s=most_s, from_zero=from_zero))


def new_id() -> str:
    """A new random UUID as text."""
    return str(_current.new_id())


def new_uuid() -> uuid.UUID:
    """A new random UUID."""
    return _current.new_id()
