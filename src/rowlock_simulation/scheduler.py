"""Decides which thread runs, and what time it is: a schedule is a function of the seed.

Each actor is a greenlet, which has a stack and context variables of its own and runs until it comes to a scheduling point: a store's call, a
sleep, a lock that is taken, an event that is waited for.  All of them share one thread of the interpreter.  Time is virtual and moves to whatever is
due next.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet

START_MS = 1_750_000_000_000
"""The virtual time at which every schedule begins, in milliseconds since the epoch."""
_MICROSECONDS = 1_000_000


class Crashed(BaseException):
    """Raised in every actor of a simulated process that was killed; no `except Exception` holds it up."""


class Interrupted(KeyboardInterrupt):
    """Raised in an actor whose user has pressed Ctrl-C; its process goes on."""


class Stuck(Exception):
    """No actor can go on, or the schedule does not end."""


@dataclass(eq=False)
class Process:
    """A simulated process: actors that share memory, a clock, and their end.

    skew_ms  how far its wall clock is ahead of the true time; `drift` how much faster both its clocks run (0.01: one per cent)
    """

    name: str
    skew_ms: int = 0
    drift: float = 0.0
    alive: bool = True
    made: dict[Any, Any] = field(default_factory=dict)
    """What `threads.of_process` made in it."""
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """Called when the process ends, as the kernel closes what it had open."""


class Task:
    """One actor, as the scheduler sees it.  `made`: what `threads.of_thread` made in it."""

    def __init__(self, name: str, process: Process, *, daemon: bool, rng: random.Random) -> None:
        self.name, self.process, self.daemon, self.rng = name, process, daemon, rng
        self.made: dict[Any, Any] = {}
        self.body: Any = None
        """The greenlet that runs it."""
        self.token = 0
        """Changes whenever the task goes on: what was to wake it before is void then."""
        self.woken = self.restarts = False
        self.may_be_interrupted = self.is_interrupted = False

    def __repr__(self) -> str:
        return f"Task({self.name})"


class Trace(list[tuple[int, str, str]]):
    """What happened: the virtual time in microseconds, the actor, and what it did."""

    def lines(self) -> list[str]:
        """The trace as text."""
        return [f"{now_us / _MICROSECONDS:>11.6f}  {name:<16} {what}" for now_us, name, what in self]

    def digest(self) -> str:
        """Equal for equal schedules."""
        columns = ("\n".join(map(str, column)) for column in zip(*self, strict=True))
        return hashlib.blake2b("\0".join(columns).encode(), digest_size=16).hexdigest()


class Scheduler:
    """Runs actors one at a time, in an order that the seed decides.

    Examples:
        >>> from rowlock_simulation import Process, Scheduler
        >>> s, greeted = Scheduler(seed=7), []
        >>> def greet(name: str) -> None:
        ...     s.pause(s.random.random())
        ...     greeted.append(name)
        >>> for name in "abc":
        ...     _ = s.spawn(name, lambda name=name: greet(name), Process(name))
        >>> s.run()
        >>> sorted(greeted)
        ['a', 'b', 'c']
    """

    def __init__(self, seed: object, *, most_points: int = 100_000) -> None:
        """`most_points`: a schedule that has not ended after so many scheduling points is stuck."""
        self._seed, self._most_points = seed, most_points
        self.random = random.Random(f"{seed} scheduler")
        self.now_us = 0
        self.points = 0
        self.errors: list[tuple[str, BaseException]] = []
        self.met: list[tuple[str, str]] = []
        """The actor who met a fault, and its kind, for each fault that came."""
        self.unanswered = set[str]()
        """The actors to whom a request got no answer, in a partition that another of their process had met."""
        self.trace = Trace()
        self._due: list[tuple[int, float, int, Task | Callable[[], None], int]] = []
        self._order = 0
        self._tasks: set[Task] = set()
        self.current: Task | None = None
        """The actor that runs; None where a schedule is set up, or judged."""
        self._runner = getcurrent()
        self.ended = False
        self.outside = Process("-")
        """The process of the runner, which sets a schedule up and judges it."""

    # ---- what happens -----------------------------------------------------------------------------

    def note(self, what: str, fault: str | None = None) -> None:
        """Adds a line to the trace: the time, the actor that runs, and what it does, or the fault that it meets."""
        name = self.current.name if self.current is not None else "-"
        self.trace.append((self.now_us, name, what))
        if fault is not None:
            self.met.append((name, fault))

    # ---- actors -----------------------------------------------------------------------------------

    def spawn(self, name: str, call: Callable[[], object], process: Process, *, daemon: bool = False, restarts: bool = False, after_s: float = 0.0) -> Task:
        """Adds an actor that begins `after_s` from now.  Daemons end with the last of the others.

        `restarts`: it begins even where its process was killed before; then it has to give itself another (`Task.process`) first.
        """
        task = Task(name, process, daemon=daemon, rng=random.Random(f"{self._seed} {name}"))
        task.restarts = restarts
        task.body = greenlet(lambda: self._live(task, call), self._runner)
        self._tasks.add(task)
        self._push(after_s, task, task.token)
        return task

    def _live(self, task: Task, call: Callable[[], object]) -> None:
        try:
            if (task.process.alive or task.restarts) and not self.ended:
                call()
        except Crashed:
            pass
        except (KeyboardInterrupt, SystemExit):
            raise  # to the caller of `run`
        except BaseException as e:  # noqa: BLE001 - handed to the caller of `run`
            self.errors.append((task.name, e))
        finally:
            self.current = None
            self._tasks.discard(task)
            if not self.ended and all(t.daemon for t in self._tasks):
                self._end()

    def run(self) -> None:
        """Runs all actors to their end.  Errors of actors are in `errors`, with Stuck where no actor could go on."""
        try:
            while (following := self._following()) is not None:
                self.current = following
                following.body.switch()  # comes back when an actor has ended
        finally:
            self.current = None

    def _end(self) -> None:
        self.ended = True
        for process in {t.process.name: t.process for t in self._tasks}.values():
            self.crash(process, why="")

    # ---- scheduling points ------------------------------------------------------------------------

    def pause(self, seconds: float = 0.0) -> None:
        """A scheduling point: others run until so much time has passed.  Raises Crashed where the process was killed."""
        task = self.current
        if task is None:
            self.now_us += round(seconds * _MICROSECONDS)
            return
        self._check(task)
        self._push(seconds, task, task.token)
        self._switch(task)

    def block(self, timeout_s: float | None = None) -> bool:
        """Waits until `wake` is called with this task; returns False where the time was over first."""
        task = self.current
        assert task is not None, "only an actor waits for others"
        self._check(task)
        task.woken = False
        if timeout_s is not None:
            self._push(timeout_s, task, task.token)
        self._switch(task)
        return task.woken

    def wake(self, task: Task) -> None:
        """Lets a task that blocks go on."""
        task.woken = True
        self._push(0.0, task, task.token)

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls `call` so many seconds from now, on whichever thread is there; it must not be a scheduling point itself."""
        self._push(seconds, call, 0)

    def crash(self, process: Process, *, why: str = "is killed") -> None:
        """Kills a process: its actors raise Crashed at the point where they are, and whatever they ask for after that."""
        if not process.alive:
            return
        process.alive = False
        if why:
            self.note(f"process {process.name} {why}")
        for ended in process.on_end:
            ended()
        for task in sorted((t for t in self._tasks if t.process is process), key=lambda t: t.name):
            self._push(0.0, task, task.token)

    def interrupt(self, task: Task) -> None:
        """Raises Interrupted in an actor, where it waits or at its next scheduling point, unless it is between two actions."""
        if task.may_be_interrupted and task in self._tasks and not self.ended:
            task.is_interrupted = True
            self._push(0.0, task, task.token)

    def _check(self, task: Task) -> None:
        if not task.process.alive:
            raise Crashed
        self.points += 1
        if self.points > self._most_points and not self.ended:
            self._stuck(f"the schedule has not ended after {self._most_points} scheduling points")
            raise Crashed

    def _stuck(self, why: str) -> None:
        self.errors.append(("-", Stuck(f"{why}; there are still {', '.join(sorted(t.name for t in self._tasks if not t.daemon))}")))
        self._end()

    def _push(self, seconds: float, what: Task | Callable[[], None], token: int) -> None:
        self._order += 1
        heapq.heappush(self._due, (self.now_us + round(seconds * _MICROSECONDS), self.random.random(), self._order, what, token))

    def _following(self) -> Task | None:
        while self._tasks:
            while self._due:
                at_us, _, _, what, token = heapq.heappop(self._due)
                if isinstance(what, Task) and (what.token != token or what not in self._tasks):
                    continue
                if at_us > self.now_us:
                    self.now_us = at_us
                if isinstance(what, Task):
                    what.token += 1
                    return what
                if not self.ended:
                    what()
            if self.ended:
                return None  # unreachable unless a task was lost
            self._stuck("every actor waits for another")
        return None

    def _switch(self, task: Task) -> None:
        following = self._following()
        if following is not task:
            assert following is not None, "an actor that waits was lost"
            self.current = following
            following.body.switch()
        if not task.process.alive:
            raise Crashed
        if task.is_interrupted:
            task.is_interrupted = False
            raise Interrupted
