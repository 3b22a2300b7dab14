"""The scheduler: order and time are functions of the seed; locks, events, crashes and ends (nothing here sleeps)."""

from __future__ import annotations

import threading

import pytest

from rowlock import clock, threads
from rowlock_simulation import Crashed, Process, Scheduler, Stuck, simulated


def order_of(seed: int) -> tuple[list[str], str]:
    s, said = Scheduler(seed), list[str]()

    def work(name: str) -> None:
        for n in range(5):
            clock.sleep(clock.jitter())
            s.note(f"step {n}")
            said.append(name)

    with simulated(s):
        for name in "abcd":
            s.spawn(name, lambda name=name: work(name), Process(name))
        s.run()
    assert s.errors == []
    return said, s.trace.digest()


def test_a_seed_decides_the_order() -> None:
    assert order_of(1) == order_of(1)
    assert len({order_of(seed)[1] for seed in range(20)}) == 20


def test_one_actor_at_a_time_holds_a_lock() -> None:
    s, inside, most = Scheduler(3), list[str](), list[int]()

    def work(name: str) -> None:
        for _ in range(4):
            with lock:
                inside.append(name)
                most.append(len(inside))
                clock.sleep(clock.jitter())
                inside.remove(name)

    with simulated(s):
        lock = threads.reentrant_lock()
        for name in "abc":
            s.spawn(name, lambda name=name: work(name), Process(name))
        s.run()
    assert s.errors == [] and len(most) == 12 and set(most) == {1}


def test_an_event_is_waited_for_and_times_out() -> None:
    s, seen = Scheduler(0), list[tuple[bool, float]]()

    def waits(timeout_s: float) -> None:
        seen.append((event.wait(timeout_s), clock.monotonic_s()))

    with simulated(s):
        event = threads.event()
        s.spawn("early", lambda: waits(1.0), Process("p"))
        s.spawn("late", lambda: waits(10.0), Process("p"))
        s.spawn("sets", lambda: (clock.sleep(2.0), event.set()), Process("p"))
        s.run()
    assert sorted(seen) == [(False, 1.0), (True, 2.0)]


def test_a_crash_ends_all_actors_of_a_process_and_frees_nothing_in_another() -> None:
    s, said = Scheduler(5), list[str]()
    doomed, other = Process("doomed"), Process("other")

    def work(name: str) -> None:
        try:
            clock.sleep(10.0)
            said.append(name)
        except Crashed:
            said.append(f"{name} crashed")
            with pytest.raises(Crashed):
                clock.sleep(0.0)  # whatever a dead process asks for
            raise

    with simulated(s):
        for name, process in (("a", doomed), ("b", doomed), ("c", other)):
            s.spawn(name, lambda name=name: work(name), process)
        s.spawn("killer", lambda: (clock.sleep(1.0), s.crash(doomed)), other)
        s.run()
    assert sorted(said) == ["a crashed", "b crashed", "c"] and s.errors == []


def test_daemons_end_with_the_last_of_the_others() -> None:
    s, beats = Scheduler(0), list[float]()

    def renews() -> None:
        while True:
            clock.sleep(1.0)
            beats.append(clock.monotonic_s())

    def main() -> None:
        threads.start(renews, "renewer")
        clock.sleep(3.5)

    with simulated(s):
        s.spawn("main", main, Process("p"))
        s.run()
    assert beats == [1.0, 2.0, 3.0] and s.errors == []


def test_a_deadlock_is_told() -> None:
    s = Scheduler(0)
    with simulated(s):
        one, two = threads.lock(), threads.lock()

        def takes(first: threads.Lock, second: threads.Lock) -> None:
            with first:
                clock.sleep(1.0)
                with second:
                    pass

        s.spawn("a", lambda: takes(one, two), Process("p"))
        s.spawn("b", lambda: takes(two, one), Process("p"))
        s.run()
    assert [(type(e), "every actor waits" in str(e)) for _, e in s.errors] == [(Stuck, True)]


def test_a_schedule_without_end_is_told() -> None:
    s = Scheduler(0, most_points=100)

    def forever() -> None:
        while True:
            s.pause()

    s.spawn("a", forever, Process("p"))
    s.run()
    assert [type(e) for _, e in s.errors] == [Stuck]


def test_clocks_are_skewed_and_drift_by_process() -> None:
    s, read = Scheduler(0), dict[str, tuple[int, float]]()

    def reads(name: str) -> None:
        clock.sleep(0.0)
        s.pause(100.0)
        read[name] = clock.now_ms(), clock.monotonic_s()

    with simulated(s):
        for name, process in (("true", Process("true")), ("ahead", Process("ahead", skew_ms=5000)), ("fast", Process("fast", drift=0.1))):
            s.spawn(name, lambda name=name: reads(name), process)
        s.run()
    assert read["ahead"][0] - read["true"][0] == 5000
    assert read["fast"][0] - read["true"][0] == 10_000 and read["fast"][1] == pytest.approx(110.0)


def test_a_pool_runs_in_the_schedule_and_raises_the_first_error() -> None:
    s, said = Scheduler(0), list[object]()

    def main() -> None:
        said.append(threads.side_by_side(lambda n: n * n, [1, 2, 3], 4))
        with pytest.raises(ValueError, match="2"):
            threads.side_by_side(lambda n: int("x") if n == 0 else _fails(n), [1, 2, 3], 4)

    def _fails(n: int) -> int:
        if n > 1:
            raise ValueError(str(n))
        return n

    with simulated(s):
        s.spawn("main", main, Process("p"))
        s.run()
    assert said == [[1, 4, 9]] and s.errors == []


def test_no_thread_is_left_when_a_schedule_has_ended() -> None:
    """A program that ends beside one is aborted."""
    before = set(threading.enumerate())
    for seed in range(20):
        scheduler, process = Scheduler(seed), Process("p")
        with simulated(scheduler):
            for n in range(3):
                scheduler.spawn(f"a{n}", lambda s=scheduler: s.pause(1.0), process, daemon=n == 0)  # type: ignore[misc]
            scheduler.run()
        assert set(threading.enumerate()) <= before
