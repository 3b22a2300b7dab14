"""The commit lane between processes of one machine: a courtesy that ends, and decides nothing (I7)."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowlock
import rowlock.storage.local as lanes
from rowlock.storage.local import Lane
from support.appends import numbers, rows


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def holder(folder: str) -> Iterator[int]:
    """What another process that holds the lane looks like to the kernel."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def free(folder: str) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def wait_for_waiters() -> None:
    """Waits until the threads that wait for the kernel's lock are done."""
    for waiter in [n for n in threading.enumerate() if n.name == "rowlock lane"]:
        waiter.join(60)
        assert not waiter.is_alive()


def test_it_is_held_until_the_outermost_block_ends(folder: str) -> None:
    lane = Lane(folder)
    with lane:
        with lane:
            assert not free(folder)
        assert not free(folder)
    assert free(folder)


def test_whoever_waits_gets_it_when_the_holder_ends(folder: str, holder: int) -> None:
    lane, inside = Lane(folder), threading.Event()

    def wait() -> None:
        with lane:
            assert not free(folder)
            inside.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not inside.wait(0.05)
    fcntl.flock(holder, fcntl.LOCK_UN)
    assert inside.wait(10)
    waiting.join()
    assert free(folder)


def test_a_holder_that_has_stopped_is_passed_and_not_waited_for_again(folder: str, holder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(lanes, "PATIENCE_S", 0.01)
    real = lanes._FlockWaiter.acquired_within
    monkeypatch.setattr(lanes._FlockWaiter, "acquired_within", lambda turn, seconds: waits.append(seconds) or real(turn, seconds))
    lane = Lane(folder)
    for _ in range(3):
        with lane:
            pass
    assert waits == [0.01]
    fcntl.flock(holder, fcntl.LOCK_UN)
    wait_for_waiters()  # the turn that came too late is given back by its own thread
    assert free(folder)


def test_a_turn_that_comes_too_late_is_given_back_although_a_forked_child_has_its_descriptor(folder: str, holder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_S", 0.01)
    with Lane(folder):
        pass
    end, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        os.close(holder)
        os.read(end, 1)
        os._exit(0)
    try:
        fcntl.flock(holder, fcntl.LOCK_UN)
        wait_for_waiters()
        assert free(folder)
    finally:
        os.close(held)
        os.waitpid(child, 0)
        os.close(end)


def test_appends_go_on_beside_a_holder_that_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_S", 0.01)
    path = str(tmp_path / "table")
    rowlock.append(path, numbers(1))
    descriptor = os.open(f"{path}/_delta_log", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        rowlock.append(path, numbers(2))
    finally:
        os.close(descriptor)
    assert rows(path) == [(1,), (2,)]


def test_no_folder_no_lock(folder: str) -> None:
    with Lane(f"{folder}/not"), Lane(None):
        assert free(folder)


def test_a_forked_child_does_not_keep_it(folder: str) -> None:
    """The child has the parent's descriptor, and with it the kernel's lock."""
    lane = Lane(folder)
    end, held = os.pipe()
    with lane:
        child = os.fork()
        if child == 0:
            os.close(held)
            os.read(end, 1)
            os._exit(0)
    try:
        assert free(folder)
    finally:
        os.close(held)
        os.waitpid(child, 0)
        os.close(end)


def test_a_descriptor_that_is_gone_lets_the_next_thread_in(folder: str) -> None:
    """Who becomes a daemon closes all descriptors."""
    lane, inside = Lane(folder), threading.Event()
    with lane:
        assert lane._held is not None
        os.close(lane._held)

    def enter() -> None:
        with lane:
            inside.set()

    threading.Thread(target=enter, daemon=True).start()
    assert inside.wait(10)


def test_where_no_thread_can_wait_it_goes_without(folder: str, holder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the interpreter's end."""

    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    with (lane := Lane(folder)):
        assert lane._held is None
