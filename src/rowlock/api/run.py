"""`rowlock.run`: a function as a transaction, run again as a whole where a rebase cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlock import arguments
from rowlock.api.connect import check_classic
from rowlock.api.delta_table import DeltaTable
from rowlock.api.transaction import DeltaTransaction
from rowlock.exceptions import WrongType
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
    user_metadata: str | None = None,
) -> Receipt:
    """Runs a function in a transaction and commits; where a rebase cannot keep its work, runs it again as a whole.

    The function runs on the driver and may start Spark jobs.  It must have no effect elsewhere, for it may run several times; under `on_conflict='fail'`
    it runs once.

    Args:
        table: The table.
        fn: Called with the transaction.
        retries: How many more times it may run, 0 or more.
        isolation: As in `DeltaTable.transaction`, and so are the arguments below.
        on_conflict: What is done where others committed first.
        granularity: What counts as a conflict: a row or a file.
        app_id: The name of an application, whose step this is.
        app_version: The step's number, 0 or more.
        lock: Who waits in line before they work.
        lock_timeout: For how many seconds to wait in line, 0 or more.
        user_metadata: A text of your own, which the commit carries as `userMetadata`.

    Returns:
        The receipt of the commit.

    Raises:
        InvalidInput: A value is not allowed, or two do not go together.
        WrongType: An argument is of another type.
        DeltaConcurrentModificationException: The conflict of the last run, where none landed.
        Exception: What `fn` raises; nothing is committed then.

    Examples:
        >>> def double(txn):
        ...     total = txn.toDF().agg({"amount": "sum"}).first()[0]
        ...     txn.update("region = 'us'", {"amount": f"{total}"})
        >>> rowlock.run(t, double).version
        1
    """

    if not isinstance(table, DeltaTable):
        raise WrongType(f"table must be a DeltaTable, not {type(table).__name__}")
    arguments.function(fn, "fn")
    check_classic(table._handle.spark, "rowlock.run")
    most = max(0, arguments.number(retries, "retries"))

    def begin(reruns: Reruns) -> DeltaTransaction:
        txn = table.transaction(isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout, user_metadata)
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
        most=most,
        again=lambda options, _: options.on_conflict != "fail",
    )
