"""What the code under test asks instead of the system: the simulated clock, threads and locks, all in a scheduler's hand."""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rowlock import caches, clock, threads
from rowlock_simulation.scheduler import START_MS, Crashed, Process, Scheduler, Task

T = TypeVar("T")
R = TypeVar("R")
_SWITCH_AT_LOCK = 0.25
"""How often a lock that is free lets others run before it is taken."""


class SimulatedClock(clock.SystemClock):
    """A clock for each simulated process, by virtual time: with the skew and drift of the process whose actor asks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._own = random.Random(f"{scheduler.random.random()} outside")

    def _asking(self) -> tuple[Process, random.Random]:
        task = self._scheduler.current
        return (self._scheduler.outside, self._own) if task is None else (task.process, task.rng)

    def now_ms(self) -> int:
        process, _ = self._asking()
        return START_MS + process.skew_ms + int(self._scheduler.now_us * (1 + process.drift)) // 1000

    def monotonic_s(self) -> float:
        process, _ = self._asking()
        return self._scheduler.now_us * (1 + process.drift) / 1_000_000

    def sleep(self, seconds: float) -> None:
        process, _ = self._asking()
        self._scheduler.pause(max(0.0, seconds) / (1 + process.drift))

    def random(self) -> float:
        return self._asking()[1].random()

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._asking()[1].getrandbits(128), version=4)


class SimulatedLock:
    """A lock between the actors of a scheduler; which of those that wait gets it, the seed decides."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool) -> None:
        self._scheduler, self._reentrant = scheduler, reentrant
        self._owner: Task | None = None
        self._depth = 0
        self._waiting: list[Task] = []

    def _is_owned(self) -> bool:
        return self._depth > 0 and self._owner is self._scheduler.current

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        s = self._scheduler
        task = s.current
        if self._reentrant and self._is_owned():
            self._depth += 1
            return True
        if task is not None and not task.process.alive:
            raise Crashed
        if task is not None and blocking and s.random.random() < _SWITCH_AT_LOCK:
            s.pause()
        while self._depth:
            if not blocking:
                return False
            assert task is not None, "a lock of an actor is held while no actor runs"
            self._waiting.append(task)
            try:
                if not s.block(None if timeout < 0 else timeout):
                    return False
            except BaseException:
                if task not in self._waiting and not self._depth and self._waiting:  # it was woken to take the lock: another does
                    s.wake(self._waiting.pop(0))
                raise
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        self._owner, self._depth = task, 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            if self._waiting:
                s = self._scheduler
                s.wake(self._waiting.pop(s.random.randrange(len(self._waiting))))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *raised: Any) -> None:
        self.release()


class SimulatedEvent:
    """A flag that actors wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._set = scheduler, False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._scheduler.wake(task)

    def wait(self, timeout: float | None = None) -> bool:
        task = self._scheduler.current
        if not self._set:
            assert task is not None, "only an actor waits for others"
            self._waiting.append(task)
            try:
                self._scheduler.block(timeout)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        return self._set


class SimulatedThreads(threads.SystemThreads):
    """Threads as actors of a scheduler, in the process of the actor that starts them.  Pools run their calls one after another, in a drawn order."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._started = scheduler, 0

    def lock(self) -> SimulatedLock:
        return SimulatedLock(self._scheduler, reentrant=False)

    def reentrant_lock(self) -> SimulatedLock:
        return SimulatedLock(self._scheduler, reentrant=True)

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self._scheduler)

    def start(self, call: Callable[[], object], name: str) -> None:
        task = self._scheduler.current
        self._started += 1
        self._scheduler.spawn(
            f"{name.removeprefix('rowlock').strip(' -')} #{self._started}", call, self._scheduler.outside if task is None else task.process, daemon=True
        )

    def side_by_side(self, call: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
        order = list(range(len(items)))
        self._scheduler.random.shuffle(order)
        answers: dict[int, R] = {}
        errors: dict[int, Exception] = {}
        for n in order:
            try:
                answers[n] = call(items[n])
            except Exception as e:  # noqa: BLE001 - the first item's error is raised, as a pool does
                errors[n] = e
        if errors:
            raise errors[min(errors)]
        return [answers[n] for n in range(len(items))]

    def of_process(self, make: Callable[[], T]) -> T:
        task = self._scheduler.current
        return self._once((self._scheduler.outside if task is None else task.process).made, make)

    def of_thread(self, make: Callable[[], T]) -> T:
        return self._once((self._scheduler.current or self._scheduler.outside).made, make)

    def _once(self, made: dict[Any, Any], make: Callable[[], T]) -> T:
        if make not in made:
            made[make] = make()
        found: T = made[make]
        return found


@contextlib.contextmanager
def simulated(scheduler: Scheduler) -> Iterator[Scheduler]:
    """Puts the scheduler in charge of time, randomness, threads and locks for the whole process, until the block ends."""
    with clock.use(SimulatedClock(scheduler)), threads.use(SimulatedThreads(scheduler)):
        try:
            yield scheduler
        finally:
            caches.drop_all()
