"""Real processes, real time: holders that die, and a long writer among short ones (I7, I8)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from model.schedules.in_memory import InMemory
from rowlock.locks.lease import Leases
from rowlock.locks.turns import AFTER, CELL, parse
from rowlock.storage import LocalStore
from rowlock.storage.registers import ObjectRegisters
from rowlock.transaction.state.options import Options
from rowlock_simulation.memory.statements import run
from support.locks.actor import UPDATE
from support.locks.actors import Actor, long_among_short, make, values


def timed(world: InMemory, **options: Any) -> tuple[float, float]:
    """Seconds of one more UPDATE: in all, and for its lease."""
    start = time.perf_counter()
    receipt = run(world.table, UPDATE, Options(**options))
    assert receipt.version is not None and receipt.attempts == 1
    return time.perf_counter() - start, receipt.seconds.get("lock", 0.0)


def test_kill_9_of_a_lease_holder(tmp_path: Path) -> None:
    """While it lives its lease outlives its term; dead, it is stolen from after one term, and what it had staged was never there."""
    world = make(tmp_path / "table", lock="writes", lockTerm="interval 1 second", lockTimeout="interval 30 seconds")
    holder = Actor(tmp_path / "table", "hold")
    try:
        assert holder.says() == "HELD"
        leases = Leases(ObjectRegisters(world.state.store))
        first = leases.holders().grants[0]
        assert timed(world, lock_timeout=2.0)[1] >= 2, "two terms of waiting, and nothing was stolen"
        assert [(g.id, g.renewals > 0) for g in leases.holders().grants] == [(first.id, True)]
    finally:
        holder.kill()
    _, waited = timed(world)
    assert 0.3 < waited < 10, "the rest of a term, and not 30 s"
    assert timed(world)[1] < 1, "and the next finds nobody"
    assert not leases.holders().grants and leases.holders().epoch == first.epoch + 2
    assert values(world) == {1: 3, 2: 0}


@pytest.mark.soak("11 s; a killed lease holder stays", ci=True)
def test_kill_9_of_a_turn_holder(tmp_path: Path) -> None:
    """A process honours the dead one's turn once, for its term; then it goes on, and the table holds what was committed."""
    world = make(tmp_path / "table")
    holder = Actor(tmp_path / "table", "turn")
    try:
        assert holder.says() == "TURN"
    finally:
        holder.kill()
    cell = ObjectRegisters(world.state.store).read(CELL)
    assert cell is not None
    turn = parse(cell.value)
    assert turn.holder is not None and turn.epoch == 1
    timed(world)
    time.sleep(1.1)  # from then on it looks
    assert turn.term_s - 0.1 <= timed(world)[0] < turn.term_s + 5
    time.sleep(1.1)
    assert timed(world)[0] < turn.term_s / 2, "it is not honoured twice"
    assert values(world) == {1: AFTER + 3, 2: 0}, "the winners' and ours; nothing of the dead one's"


@pytest.mark.soak("12 s; turns between threads stay")
def test_a_long_writer_among_four_short_ones(tmp_path: Path) -> None:
    """5 processes on one table; every rebase of the long one takes 0.7 s, the short ones commit as fast as they can."""
    for n in range(3):
        folder = tmp_path / f"table{n}"
        (puts, _, _), short = long_among_short(folder, "on")
        world = InMemory(store=LocalStore(folder))
        assert int(puts) <= 2 * (AFTER + 1 + 4), "a second turn is allowed to a machine that was busy with other things"
        assert short > 0 and values(world) == {1: 1000 + short, 2: 1000}
        if int(puts) > AFTER:
            return
    pytest.skip("the machine is too busy: three times the short writers did not win often enough for a turn to be due")
