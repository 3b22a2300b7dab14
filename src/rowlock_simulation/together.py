"""What actors do to several tables at once, by the calls below `rowlock.transaction` and `rowlock.read_together`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowlock import clock
from rowlock.protocol.actions import SetTransaction
from rowlock.transaction.multi_table import MultiTableReceipt, check_tables, commit, heads_at, heads_together
from rowlock.transaction.state.options import Options
from rowlock.transaction.transaction import RERUNS, Table, Transaction, run_again, runs_again
from rowlock.transaction.two_phase.prepare import Part
from rowlock_simulation.actions import Action, Done, read
from rowlock_simulation.memory.sql.script import Script, Update
from rowlock_simulation.memory.statements import operation, parameters, statements_of
from rowlock_simulation.roles import COUNTERS, UPSERTS
from rowlock_simulation.scheduler import Scheduler

MOST = 1000
"""Above what counters come to: what is added to it tells copies apart, so that each of them changes its row."""
Rows = Sequence[dict[str, int]]


def counted_up(rows: Rows) -> int:
    """The sum of a table's counters."""
    return sum(row["v"] for row in rows if COUNTERS <= row["k"] < UPSERTS)


def copied(action: Action, rows: Rows) -> tuple[int, Script]:
    """The table that an action with `copies` writes to, and what it does there when these are the rows of the table that it reads."""
    assert action.copies is not None
    _, target, key, mark = action.copies
    return target, Update((("v", str(counted_up(rows) % MOST + mark)),), f"k = {key}")


def perform(action: Action, table: Callable[[int], Table], scheduler: Scheduler, done: Done) -> None:
    """Carries out an action on several tables, and fills `done`.  Raises what the code under test raises."""
    if action.kind == "together":
        done.together = _transaction(action, table, scheduler, done)
        return
    numbers = [n for n, _ in action.parts]
    states = [table(n).state for n in numbers]
    if action.kind == "read together":
        heads = heads_together(states, to_read=True)
    else:
        times = states[0].log.commit_times()
        if not times:
            return  # a listing from before the table was made
        heads = heads_at(states, [times[max(0, len(times) - 1 - action.back)][1]] * len(states))
    for n, head in zip(numbers, heads, strict=True):
        done.reads[n] = Done()
        read(table(n), head, scheduler, done.reads[n])


def _transaction(action: Action, table: Callable[[int], Table], scheduler: Scheduler, done: Done) -> MultiTableReceipt:
    numbers = sorted([n for n, _ in action.parts] if action.wrong else {n for n, _ in action.parts} | set((action.copies or ())[:2]))
    options, app = Options(**action.options), None if action.app is None else SetTransaction(*action.app)
    states = [table(n).state for n in numbers]
    check_tables(states)

    def begin() -> dict[int, Transaction]:
        heads = dict(zip(numbers, heads_together(states), strict=True))
        done.bases = {n: head.version for n, head in heads.items()}
        return {n: table(n).begin(options, snapshot=heads[n], app=app) for n in numbers}

    def carry_out(txns: dict[int, Transaction]) -> MultiTableReceipt:
        scripts = dict(action.parts)
        if action.copies is not None:
            source, seen = action.copies[0], Done()
            txns[source].note_read()
            done.reader = txns[source]
            read(table(source), txns[source].base, scheduler, seen)
            target, script = copied(action, seen.rows or [])
            scripts[target] = (*scripts.get(target, ()), script)
        txn_id = clock.new_id()
        for n, txn in txns.items():
            if n not in scripts:
                txn.app = None
            for script in scripts.get(n, ()):
                if not txn.already_committed:
                    txn.execute(*statements_of(script, txn.base))
        recorded = {n: (operation(scripts[n][0]), parameters(scripts[n][0])) if n in scripts else ("READ", {}) for n in txns}
        return commit([Part(txn, *recorded[n], txn_id) for n, txn in txns.items()], action.wait)

    again = runs_again if action.copies is None else lambda *_: True
    return run_again(lambda _: begin(), carry_out, lambda txns: next(iter(txns.values())), most=RERUNS, again=again)
