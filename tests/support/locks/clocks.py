"""Clocks that a test moves: sleeping takes no time."""

from __future__ import annotations

import heapq
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


class Stage(TestClock):
    """Several parties, of which one plays at a time: who sleeps hands on to whoever wakes first.  The same play, every time."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Condition()
        self._asleep: list[tuple[float, int, int]] = []
        self._playing, self._count = -1, 0
        self._parties: dict[int, int] = {}
        self._errors: list[BaseException] = []

    def play(self, *parties: Callable[[], None]) -> None:
        """Runs all to their ends.  Raises what a party raised."""
        threads = [threading.Thread(target=self._party, args=(n, party), daemon=True) for n, party in enumerate(parties)]
        self._asleep = [(0.0, n, n) for n in range(len(parties))]
        self._count = len(parties)
        for thread in threads:
            thread.start()
        self._hand_on()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "the play does not end"
        if self._errors:
            raise self._errors[0]

    def sleep(self, seconds: float) -> None:
        me = self._parties[threading.get_ident()]
        with self._turn:
            self._count += 1
            heapq.heappush(self._asleep, (self._now + seconds, self._count, me))
        self._hand_on()
        self._await(me)

    def _party(self, me: int, party: Callable[[], None]) -> None:
        self._parties[threading.get_ident()] = me
        self._await(me)
        try:
            party()
        except BaseException as e:
            self._errors.append(e)
        self._hand_on()

    def _await(self, me: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._playing == me)

    def _hand_on(self) -> None:
        with self._turn:
            if self._asleep:
                wakes, _, self._playing = heapq.heappop(self._asleep)
                self._now = max(self._now, wakes)
            self._turn.notify_all()
