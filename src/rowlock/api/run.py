"""`rowlock.run`: a function as a transaction, run again as a whole where a rebase cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlock.api.delta_table import DeltaTable
from rowlock.api.transaction import DeltaTransaction
from rowlock.transaction.run import run_again
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

    def begin(reruns: Reruns) -> DeltaTransaction:
        txn = table.transaction(isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout)
        txn._reruns = reruns
        return txn

    def carry_out(txn: DeltaTransaction) -> Receipt:
        with txn:
            fn(txn)
        receipt = txn.receipt
        assert receipt is not None
        return receipt

    return run_again(
        begin,
        carry_out,
        lambda txn: txn._runner.txn,
        most=max(0, retries),
        again=lambda options, _: options.on_conflict != "fail",
    )
