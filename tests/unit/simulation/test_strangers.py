"""What servers, other engines and users may do is in the worlds: code that does not reckon with it is found."""

from __future__ import annotations

from typing import Any

import pytest

from rowlock.boundary import row_identity
from rowlock.log import cleanup, replay
from rowlock.log.table_log import TableLog
from rowlock.storage import remote
from rowlock.storage.local import Lane
from rowlock.transaction import multi_table
from rowlock.transaction.group_commit import group, lead
from rowlock_simulation.plan import World
from rowlock_simulation.plans import plan_of
from rowlock_simulation.run import run
from rowlock_simulation.scheduler import Interrupted, Process, Scheduler
from rowlock_simulation.seams import SimulatedLock
from rowlock_simulation.servers.disk import Name

_assigned, _described = row_identity.assign_row_ids_under, remote.RemoteStore._describe


def _of_the_version_before(*given: Any, version: int, **more: Any) -> Any:
    return _assigned(*given, version=version - 1, **more)


def _remains_pending(part: Any, *_: Any) -> None:
    part.is_pending = True
    part.state.ask_again()


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "world", "first"),
    [
        (Lane, "_release", lambda lane: lane._threads.release(), "the kernel's lock on", "local", 0),
        (Name, "is_symlink", lambda _: False, "which lies behind a link", "local", 0),
        (cleanup, "_delete_sidecars", lambda *_: 0, "and no checkpoint names it", "s3", 19),
        (TableLog, "at", lambda log, version: log.latest(), "which no version allows", "s3", 149),
        (remote.RemoteStore, "_describe", lambda *given: _described(*given).replace("check the", ""), "failed without a reason", "s3", 22),
        (remote, "_is_refusal", lambda *_: False, "was refused, and is asked for again", "s3", 69),
        (row_identity, "assign_row_ids_under", _of_the_version_before, "whose rows are to be of version", "s3", 0),
        (replay, "check_readable", lambda *_: None, "I9: reader", "s3", 193),
        (group.Queue, "is_to_look", lambda _: False, "nobody looked for posts of others", "s3", 0),
        (lead, "HAND_OVER_AFTER", 0, "was posted for others after 0 lost puts", "s3", 98),
        (multi_table, "_take", _remains_pending, "are pending", "tables", 0),
    ],
)
def test_what_does_not_reckon_with_others_is_found(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, world: World, first: int
) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for seed in range(first, first + 400) for text in run(plan_of(world, seed)).violations)


def test_who_is_interrupted_leaves_a_lock_to_those_who_wait_for_it() -> None:
    """Woken to take the lock, and interrupted at that moment: the next one takes it, and nobody waits for ever."""
    s = Scheduler(seed=1)
    lock, process, ends = SimulatedLock(s, reentrant=False), Process("p"), list[str]()

    def hold() -> None:
        with lock:
            s.pause(1)
            s.interrupt(waiting[0])
        s.interrupt(waiting[0])

    def wait(name: str) -> None:
        s.current.may_be_interrupted = True  # type: ignore[union-attr]
        try:
            with lock:
                ends.append(name)
        except Interrupted:
            ends.append(f"{name} interrupted")

    s.spawn("holder", hold, process)
    waiting = [s.spawn(name, lambda name=name: wait(name), process, after_s=0.1) for name in ("a", "b")]  # type: ignore[misc]
    s.run()
    assert s.errors == []
    assert sorted(ends) == ["a interrupted", "b"]
