"""Time, randomness, ids and sleeping: the only module that uses them.

Everything else in Rowlock asks the current `SystemClock`, so that a simulation can replace all four at once and repeat a
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
from typing import NamedTuple


class SystemClock:
    """Time, sleep, random numbers and ids of the operating system, for any thread; documented at the functions of this module.  A simulation overrides them all."""

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
_current = SystemClock()


def current() -> SystemClock:
    """The clock that is in use."""
    return _current


@contextlib.contextmanager
def use(clock: SystemClock) -> Iterator[SystemClock]:
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


class Pauses(NamedTuple):
    """How long is waited before each next try: `first_s`, twice as long after each failed one, at most `most_s`.

    This times a random factor from 0.5 to 1.5, or from 0 to 1 with `from_zero`, which spreads writers that lost the same race further apart.
    """

    first_s: float
    most_s: float = math.inf
    from_zero: bool = False

    def after(self, tries: int) -> float:
        """Seconds to wait after `tries` failed tries, 0 for the first wait."""
        wait_s = min(self.most_s, self.first_s * 2.0 ** min(tries, _MOST_DOUBLINGS))
        return wait_s * jitter() if self.from_zero else jittered_s(wait_s)


CONFLICT = Pauses(0.01, 0.64, from_zero=True)  # a statement that met a conflict
LEASE = Pauses(0.01, 0.25, from_zero=True)  # a change of the leases that another writer was faster to make
STORE = Pauses(0.05, 2.0)  # a request to a store that failed
READ_BACK = Pauses(0.02, 4.0)  # a look into the log for what became of a put
ARBITER = Pauses(0.02)  # a call to DynamoDB that failed or lost


def back_off(tries: int, pauses: Pauses) -> None:
    """Sleeps before the next try, after `tries` failed ones."""
    sleep(pauses.after(tries))


def new_id() -> str:
    """A new random UUID as text."""
    return str(_current.new_id())


def new_uuid() -> uuid.UUID:
    """A new random UUID."""
    return _current.new_id()
