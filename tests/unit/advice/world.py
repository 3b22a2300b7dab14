"""Writers in virtual time: real transactions on the in-memory engine, in an order that is the same in every run.

A writer begins, works for so long, commits, rests, and begins again; where a commit raises, it begins again at
once.  Each writer's step is carried out with the clock put to that writer's time, so that what one does while
another works takes no time from it.  Seconds in the records are therefore those of writers that really overlap.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock import clock
from rowlock.advice import attempts
from rowlock.advice.history import History
from rowlock.advice.read_history import read_history
from rowlock.boundary.effects import Propagated
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.storage.memory import MemoryStore
from rowlock.storage.store import ObjectStore, PutOutcome
from rowlock.transaction.failed_attempt import work_of
from rowlock.transaction.state.receipt import Reruns
from rowlock.transaction.transaction import Options, Transaction
from rowlock_simulation.memory import statements
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import parse

START_MS = 1_790_000_000_000
STAGE_S, ROW_S, PUT_S = 0.4, 0.001, 0.02


class VirtualClock:
    """A clock that is put where it is wanted; sleeping moves it."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self._ids = 0

    def now_ms(self) -> int:
        return START_MS + int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def random(self) -> float:
        return 0.5

    def new_id(self) -> uuid.UUID:
        self._ids += 1
        return uuid.UUID(int=self._ids)


class SlowEngine(MemoryEngine):
    """Staging takes `stage_s`, as a scan would; a rebase ROW_S for each row that it looks at."""

    stage_s = STAGE_S

    def propagate(self, *args: Any, first: int | None = None, **more: Any) -> Propagated:
        done = super().propagate(*args, first=first, **more)
        clock.sleep(self.stage_s if first is not None else ROW_S * done.rows_read)
        return done


class SlowStore(MemoryStore):
    """A put takes PUT_S."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        clock.sleep(PUT_S)
        return super().put_if_absent(key, data)


@dataclass
class Writer:
    """`text(n)` is its n-th statement; staging it takes `work_s`."""

    text: Callable[[int], str]
    commits: int
    rest_s: float = 0.1
    work_s: float = STAGE_S
    options: Options = field(default_factory=lambda: Options(lane=False))
    done: int = 0
    reruns: Reruns = field(default_factory=Reruns)


def play(
    writers: Sequence[Writer],
    *,
    columns: str = "k long, v long",
    rows: int = 100,
    partition: tuple[str, ...] = (),
    store: ObjectStore | None = None,
    **properties: str,
) -> History:
    """Runs the writers to their end and gives the table's history.  Rows at the start: (k, 0), or (k, k % 4, 0) where there are three columns."""
    world_clock = VirtualClock()
    with clock.use(world_clock):
        world = InMemory(engine=SlowEngine, store=store or SlowStore())
        names = [tuple(c.split()) for c in columns.split(", ")]
        world.create(
            schema_string([(name, kind, True) for name, kind in names]),
            partition,
            {"delta.enableDeletionVectors": "true", **{k.replace("__", "."): v for k, v in properties.items()}},
        )
        middle = ", k % 4" if len(names) == 3 else ""
        values = ", ".join(f"({k}{f', {k % 4}' if middle else ''}, 0)" for k in range(rows))
        statements.run(world.table, parse(f"APPEND {values}"), Options(lane=False))
        queue: list[tuple[float, int, Writer, Transaction | None]] = [(1.0 + 0.03 * n, n, w, None) for n, w in enumerate(writers)]
        while queue:
            at_s, n, writer, txn = heapq.heappop(queue)
            world_clock.at_s = at_s
            script = parse(writer.text(writer.done))
            if txn is None:
                world.engine.stage_s = writer.work_s  # type: ignore[attr-defined]
                txn = statements.stage(world.table, script, writer.options)
                txn.reruns = writer.reruns
                heapq.heappush(queue, (world_clock.at_s, n, writer, txn))
                continue
            try:
                statements.commit(txn, script)
                writer.done, writer.reruns = writer.done + 1, Reruns()
                world_clock.at_s += writer.rest_s
            except DeltaConcurrentModificationException:
                writer.reruns = writer.reruns.after(txn.txn_id, work_of(txn))
            if writer.done < writer.commits:
                heapq.heappush(queue, (world_clock.at_s, n, writer, None))
        assert attempts.flush()
        return read_history(world.state.store)
