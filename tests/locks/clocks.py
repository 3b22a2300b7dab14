"""A clock that a test moves: sleeping takes no time, and moves it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable


class TestClock:
    """Sleepers of all threads move one time on; the jitter is always the middle."""

    __test__ = False

    def __init__(self) -> None:
        self._now, self._lock = 0.0, threading.Lock()
        self.on_sleep: list[Callable[[], object]] = []
        """What others do meanwhile: each is done once, by one sleeper after the other."""

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self._now * 1000)

    def monotonic_s(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
            meanwhile = self.on_sleep.pop(0) if self.on_sleep else None
        if meanwhile is not None:
            meanwhile()

    def random(self) -> float:
        return 0.5

    def new_id(self) -> uuid.UUID:
        return uuid.uuid4()
