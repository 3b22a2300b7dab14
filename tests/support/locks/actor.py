"""A process that writes to a table on a disk with the in-memory engine: what tests/processes/test_locks.py and tests/tools/turns.py start and kill.

usage: actor.py TABLE JOB [ARGUMENT]

    hold            begins an UPDATE under `lock = writes`, says HELD once it has staged, and stays there
    turn            loses puts until it has the turn, says TURN, and stays there
    short           one UPDATE after another until the file TABLE/../stop is there; says how many at the end
    long on|off     a MERGE whose every rebase takes REBASE_S, with turns or without; says its puts, rounds and seconds

None takes the commit lane, by which the processes of one machine queue: they are to be like processes of several.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from model.schedules.in_memory import InMemory
from rowlock.locks.turns import AFTER, PATIENCE_S
from rowlock.storage import LocalStore
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock_simulation.memory.sql.script import parse
from rowlock_simulation.memory.statements import run

REBASE_S = 0.7
UPDATE = parse("UPDATE SET v = v + 1 WHERE k = 1")
MERGE = parse("MERGE USING (k, v: (1, 1000), (2, 1000)) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *")


def say(*words: object) -> None:
    print(*words, flush=True)


class Stays(Observer):
    """Says a word at a phase and stays there; before it, another commits whenever a put is due."""

    def __init__(self, at: str, word: str, world: InMemory, loses: int = 0) -> None:
        self._at, self._word, self._world, self._loses = at, word, world, loses

    def phase(self, name: str, txn: Any) -> None:
        if name == "before_put" and self._loses:
            self._loses -= 1
            time.sleep(PATIENCE_S / AFTER)
            with use_observer(Observer()):
                run(self._world.table, UPDATE, Options(turns=False, lane=False))
        elif name == self._at:
            say(self._word)
            time.sleep(600)


class Slow(Observer):
    """The rebases of a big table."""

    def phase(self, name: str, txn: Any) -> None:
        if name in ("staged", "before_rebase"):
            time.sleep(REBASE_S)


def main(path: str, job: str, argument: str = "") -> None:
    world = InMemory(store=LocalStore(path))
    if job == "hold":
        with use_observer(Stays("staged", "HELD", world)):
            run(world.table, UPDATE, Options(lock="writes"))
    elif job == "turn":
        with use_observer(Stays("before_put", "TURN", world, loses=AFTER)):
            run(world.table, UPDATE, Options(turns=True, lane=False))
    elif job == "short":
        say("READY")
        done, stop = 0, Path(path).parent / "stop"
        while not stop.exists():
            run(world.table, UPDATE, Options(lane=False, turns=True))
            done += 1
            time.sleep(0.02)
        say(done)
    else:
        say("READY")
        start = time.perf_counter()
        with use_observer(Slow()):
            receipt = run(world.table, MERGE, Options(lane=False, turns=argument == "on"))
        say(receipt.attempts, receipt.rounds, round(time.perf_counter() - start, 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
