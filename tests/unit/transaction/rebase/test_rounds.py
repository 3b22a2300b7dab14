"""What one round costs follows the winners since the last round, not since the start; OPTIMIZE gets on beside writers that never rest (I8's share of the loop)."""

from __future__ import annotations

from typing import Any

import pytest

from model.schedules.in_memory import NO_LANE, InMemory
from model.schedules.play import schema_string
from rowlock.boundary.effects import Propagated
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock_simulation.memory.engine import MemoryEngine
from rowlock_simulation.memory.sql.script import Append, Script, parse
from rowlock_simulation.memory.statements import stage

ROWS, WINNERS = 400, 50


class Counting(MemoryEngine):
    """LostMatches how many rows each rebase reads."""

    reads: list[int]

    def propagate(self, *args: Any, **more: Any) -> Propagated:
        out = super().propagate(*args, **more)
        if more.get("first") is None:
            self.reads = [*getattr(self, "reads", []), out.rows_read]
        return out


def _winner(n: int) -> Script:
    """One row changed, or one row added."""
    return parse(f"UPDATE SET v = v + 1 WHERE k = {n - 1}") if n % 2 else Append(((ROWS + n, 0),))


def test_fifty_winners_during_one_long_merge() -> None:
    world = InMemory(engine=Counting, notes_matches=True)
    world.create(schema_string([("k", "long", True), ("v", "long", True)]), (), {"delta.enableDeletionVectors": "true"})
    world.run(Append(tuple((k, 0) for k in range(ROWS))))
    source = ", ".join(f"({k}, 100)" for k in range(0, ROWS + WINNERS, 2))
    script = parse(f"MERGE USING (k, v: {source}) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *")

    class OneForEachPut(Observer):
        left = WINNERS

        def phase(self, name: str, txn: Any) -> None:
            if name == "before_put" and self.left:
                self.left -= 1
                with use_observer(Observer()):
                    world.run(_winner(self.left))

    with use_observer(OneForEachPut()):
        txn = stage(world.table, script, NO_LANE)
        engine = world.table.engine
        assert isinstance(engine, Counting)
        engine.reads = []
        receipt = txn.commit("MERGE", {})
    assert receipt.rounds == WINNERS
    assert receipt.rows_rebased == WINNERS, "each winner brought one row, and each was looked at once"
    assert max(engine.reads) == 1
    rows = {r["k"]: r["v"] for r in world.rows()}
    assert len(rows) == ROWS + WINNERS // 2
    assert all(v == ((101 if k < WINNERS else 100) if k % 2 == 0 else 0) for k, v in rows.items())


@pytest.mark.parametrize("partition", [(), ("p",)], ids=["", "partitioned"])
@pytest.mark.parametrize("vectors", ["true", "false"], ids=["vectors", "no vectors"])
def test_a_table_does_not_gather_files_where_all_optimize_beside_writers(vectors: str, partition: tuple[str, ...]) -> None:
    """Whenever an OPTIMIZE has staged, rows come and two of those that are there are changed: one in the newest file, one of the oldest."""
    world, last = InMemory(spill_rows=1), 0
    world.create(schema_string([("k", "long", True), ("v", "long", True), ("p", "long", True)]), partition, {"delta.enableDeletionVectors": vectors})

    def write() -> None:
        nonlocal last
        for _ in range(3):
            last += 1
            world.run(Append(((last, 0, 0),)))
        world.run(parse(f"UPDATE SET v = v + 1 WHERE k IN (1, {last})"))

    class Writing(Observer):
        def phase(self, name: str, txn: Any) -> None:
            if name in ("staged", "before_put") and txn.read_version not in met:
                met.append(txn.read_version)
                with use_observer(Observer()):
                    write()

    write()
    for _ in range(12):
        write()
        met: list[int] = []
        with use_observer(Writing()):
            assert world.run(parse("OPTIMIZE")).version is not None
        assert len(world.state.refresh().files) <= 8
    assert sorted(r["v"] for r in world.rows()) == sorted([*[0] * (last - last // 3 - 1), *[1] * (last // 3), last // 3])
