"""Pools and waits of the whole package: `threads.side_by_side` and `clock.back_off`."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from rowlock import clock
from rowlock.threads import side_by_side


class Fixed(clock.SystemClock):
    """A clock whose sleeps are noted and whose randomness is one number."""

    def __init__(self, number: float) -> None:
        self.number, self.slept = number, list[float]()

    def random(self) -> float:
        return self.number

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.parametrize(("number", "factors"), [(0.0, (0.5, 0.0)), (0.5, (1.0, 0.5)), (0.75, (1.25, 0.75))])
def test_a_wait_grows_up_to_its_most(number: float, factors: tuple[float, float]) -> None:
    world = Fixed(number)
    with clock.use(world):
        for tries in range(5):
            clock.back_off(tries, clock.Pauses(0.5, 4.0))
            clock.back_off(tries, clock.Pauses(0.5, 4.0, from_zero=True))
    assert world.slept == [base * factor for base in (0.5, 1.0, 2.0, 4.0, 4.0) for factor in factors]


def test_a_wait_after_very_many_tries_is_a_number() -> None:
    assert clock.Pauses(0.01, 2.0).after(1_000_000) <= 3.0
    assert clock.Pauses(0.01).after(1_000_000) > 0


def test_answers_are_in_the_order_of_the_items() -> None:
    assert side_by_side(lambda n: n * n, range(50), 8) == [n * n for n in range(50)]
    assert side_by_side(lambda n: n, [], 8) == []


def test_each_call_has_the_context_of_the_caller_and_changes_its_own_copy() -> None:
    variable: ContextVar[int] = ContextVar("number", default=0)
    together = threading.Barrier(4)

    def call(n: int) -> int:
        found = variable.get()
        variable.set(n)
        together.wait(10)
        return found

    variable.set(7)
    assert side_by_side(call, range(4), 4) == [7] * 4 and variable.get() == 7


def test_calls_that_have_not_begun_are_left_out_after_an_error() -> None:
    ran, release = list[int](), threading.Event()

    def call(n: int) -> None:
        if n == 0:
            raise ValueError("the first")
        ran.append(n)
        release.wait(0.05)

    with pytest.raises(ValueError, match="the first"):
        side_by_side(call, range(500), 2)
    assert len(ran) < 250


def test_a_thread_works_on_while_the_interpreter_ends() -> None:
    """Where no pool takes work any more the calls run one after the other."""
    code = """
import threading, time
from rowlock.threads import side_by_side
def late():
    threading.main_thread().join()
    time.sleep(0.2)
    print(side_by_side(lambda n: n + 1, [1, 2, 3], 3))
threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[2, 3, 4]", 0), done.stderr
