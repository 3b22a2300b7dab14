"""One statement, or a few that belong together, as one transaction: planned against the head, staged, committed, and run again where that is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowlock import clock
from rowlock.boundary.statements import Statement
from rowlock.exceptions import ConcurrentTransactionException, DeltaConcurrentModificationException, MetadataChangedException, ProtocolChangedException
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.transaction.failed_attempt import work_of
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.transaction import Table, Transaction
from rowlock.transaction.waiting.lease_line import LeaseLine

Planned = tuple[Sequence[Statement], Mapping[str, Any]]
"""The statements of a transaction and its operation's parameters."""
RERUNS = 20
"""How often a statement is planned and staged anew before its conflict is raised after all."""


def run(
    table: Table,
    operation: str,
    plan: Callable[[Snapshot], Planned],
    *,
    metadata: Callable[[Snapshot], Metadata] | None = None,
    app: SetTransaction | None = None,
    snapshot: Snapshot | None = None,
) -> Receipt:
    """Plans against the newest snapshot (`snapshot`, where the caller has just asked for it), stages, commits.  What is raised leaves the table as it is.

    A statement is planned and staged again from the head where the policy is `rerun` and it met a conflict, or
    where (under `repair` too) the schema or the protocol changed under it.
    """
    asked = [snapshot] if snapshot is not None else []

    def begin() -> Transaction:
        head = asked.pop() if asked else table.refresh()
        return table.begin(snapshot=head, metadata=metadata(head) if metadata else None, app=app, reruns=reruns)

    reruns = Reruns()
    with LeaseLine(table.state) as line:
        for attempt in range(RERUNS + 1):
            txn, statements, parameters = _planned(line, begin, plan)
            try:
                if not txn.already_committed:
                    txn.execute(*statements)
                return txn.commit(operation, parameters)
            except DeltaConcurrentModificationException as conflict:
                if attempt == RERUNS or not runs_again(txn.options, conflict):
                    raise
                reruns = reruns.after(txn.txn_id, work_of(txn))
            clock.back_off(attempt, 0.01, most_s=0.64, from_zero=True)
    raise AssertionError("unreachable")


def _planned(
    line: LeaseLine, begin: Callable[[], Transaction], plan: Callable[[Snapshot], Planned]
) -> tuple[Transaction, Sequence[Statement], Mapping[str, Any]]:
    """A transaction that reads the head, and what is to be staged in it; again where the head moved while it waited in line."""
    while True:
        txn = begin()
        if txn.already_committed:
            return txn, (), {}
        if line.join_unplanned(txn):
            continue
        start = clock.monotonic_s()
        statements, parameters = plan(txn.base)
        planned_s = clock.monotonic_s() - start
        if not line.join(txn, statements):
            txn.watch.add("plan", planned_s)
            line.account(txn)
            return txn, statements, parameters


def runs_again(options: Options, conflict: DeltaConcurrentModificationException) -> bool:
    """Whether a statement that met this conflict is run again by itself."""
    if isinstance(conflict, ConcurrentTransactionException):
        return False
    return options.on_conflict == "rerun" or (options.on_conflict == "repair" and isinstance(conflict, (MetadataChangedException, ProtocolChangedException)))
