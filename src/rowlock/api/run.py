"""`rowlock.run`: a function as a transaction, run again as a whole where a rebase cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack, overload

from rowlock import arguments
from rowlock.api.connect import check_classic
from rowlock.api.delta_table import DeltaTable
from rowlock.api.multi_table import MultiTableTransaction, Tables, handles_of, waited
from rowlock.api.transaction import DeltaTransaction
from rowlock.exceptions import InvalidInput, WrongType
from rowlock.transaction.multi_table import MultiTableReceipt
from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict, asked
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.transaction import run_again
from rowlock.transaction.two_phase.prepare import Wait


class _Options(TypedDict, total=False):
    """The arguments of `DeltaTable.transaction` and of `rowlock.transaction`."""

    isolation: Isolation | None
    on_conflict: OnConflict | None
    granularity: Granularity | None
    app_id: str | None
    app_version: int | None
    lock: Lock | None
    lock_timeout: float | None
    user_metadata: str | None


@overload
def run(table: DeltaTable, fn: Callable[[DeltaTransaction], Any], retries: int = 10, **options: Unpack[_Options]) -> Receipt: ...
@overload
def run(
    table: Tables, fn: Callable[[MultiTableTransaction], Any], retries: int = 10, *, wait: Wait = "everywhere", **options: Unpack[_Options]
) -> MultiTableReceipt: ...
def run(
    table: DeltaTable | Tables,
    fn: Callable[[Any], Any],
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
    wait: Wait = "everywhere",
) -> Receipt | MultiTableReceipt:
    """Runs a function in a transaction and commits; where a rebase cannot keep its work, runs it again as a whole.

    The function runs on the driver and may start Spark jobs.  It must have no effect elsewhere, for it may run several times; under `on_conflict='fail'`
    it runs once.

    Args:
        table: The table, or a list of several: then the function gets a transaction over all of them (see `rowlock.transaction`).
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
        wait: Of several tables, as in `rowlock.transaction`: "everywhere" or "decided".

    Returns:
        The receipt of the commit; of several tables a `MultiTableReceipt`.

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

    arguments.function(fn, "fn")
    most = max(0, arguments.number(retries, "retries"))
    how = (isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout, user_metadata)
    until = waited(wait)
    if isinstance(table, (list, tuple)):
        handles = handles_of(table, "rowlock.run")
        together: MultiTableReceipt = _run(lambda: MultiTableTransaction(handles, *asked(*how), until), fn, most)
        return together
    if not isinstance(table, DeltaTable):
        raise WrongType(f"table must be a DeltaTable, not {type(table).__name__}")
    if until != "everywhere":
        raise InvalidInput("wait is for a transaction over several tables: a commit to one table is there when it is decided", table=table._handle.path)
    check_classic(table._handle.spark, "rowlock.run")
    receipt: Receipt = _run(lambda: table.transaction(*how), fn, most)
    return receipt


def _run(made: Callable[[], DeltaTransaction | MultiTableTransaction], fn: Callable[[Any], Any], most: int) -> Any:
    """Runs `fn` in the transaction that `made` makes, at most `most` times more; the receipt."""

    def begin(reruns: Reruns) -> DeltaTransaction | MultiTableTransaction:
        txn = made()
        txn._reruns = reruns
        return txn

    def carry_out(txn: DeltaTransaction | MultiTableTransaction) -> Any:
        with txn:
            fn(txn)
        assert txn.receipt is not None
        return txn.receipt

    return run_again(begin, carry_out, lambda txn: txn._transaction, most=most, again=lambda options, _: options.on_conflict != "fail")
