"""`rowlock.run`: a function as a transaction, run again as a whole where a rebase cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlock import clock
from rowlock.api.delta_table import DeltaTable
from rowlock.api.transaction import DeltaTransaction
from rowlock.exceptions import ConcurrentTransactionException, DeltaConcurrentModificationException
from rowlock.transaction.failed_attempt import work_of
from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict
from rowlock.transaction.state.receipt import Receipt, Reruns


def run(
    table: DeltaTable,
    fn: Callable[[DeltaTransaction], Any],
    retries: int = 10,
    *,
    isolation: Isolation | None = None,
    on_conflict: OnConflict | None = None,
    granularity: Granularity | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    lock: Lock | None = None,
    lock_timeout: float | None = None,
) -> Receipt:
    """Runs `fn(txn)` in a transaction and commits; where a rebase cannot do, runs it again as a whole, up to `retries` times.

    `fn` must be free of effects elsewhere.  Under `on_conflict='fail'` it runs once.  Returns the receipt of the commit; raises what
    `fn` raises, and the last DeltaConcurrentModificationException.
    """
    reruns = Reruns()
    for attempt in range(max(0, retries) + 1):
        txn = table.transaction(isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout)
        try:
            with txn:
                txn._runner.txn.reruns = reruns
                fn(txn)
            receipt = txn.receipt
            assert receipt is not None
            return receipt
        except DeltaConcurrentModificationException as conflict:
            policy = txn._runner.txn.options.on_conflict
            if attempt >= retries or policy == "fail" or isinstance(conflict, ConcurrentTransactionException):
                raise
            reruns = reruns.after(txn._runner.txn.txn_id, work_of(txn._runner.txn))
        clock.back_off(attempt, 0.01, most_s=0.64, from_zero=True)
    raise AssertionError("unreachable")
