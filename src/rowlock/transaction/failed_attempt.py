"""Records failed attempts beside the table: the work that was thrown away, which leaves no trace in the log.

Where a failure leaves this layer it is noted in passing (`advice.attempts`); the error goes on as it is.
A transaction that runs again as a whole carries the sum of its failed tries into the commit that lands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rowlock import clock
from rowlock.advice import attempts
from rowlock.conflict.value import Work
from rowlock.exceptions import CommitUnknown, DeltaConcurrentModificationException, RowlockError, StorageError
from rowlock.transaction.publish.metrics import operation_parameters
from rowlock.transaction.state import phases
from rowlock.transaction.state.call import user_metadata, writer
from rowlock.transaction.state.pending import Attempt, Pending
from rowlock.transaction.state.proposal import Committing
from rowlock.version import ENGINE_INFO


def work_of(txn: Pending) -> Work:
    """The work that a transaction has done so far: rows staged, their bytes, seconds."""
    blocks = [b for b in txn.effects.blocks if b.kind != "matched"]
    rows = sum(b.num_rows for b in blocks) or txn.effects.num_tombstones
    return Work(rows=rows, size_bytes=sum(b.size_bytes for b in blocks), seconds=round(sum(txn.watch.seconds.values()), 4))


def record(txn: Pending, error: BaseException, operation: str, parameters: Mapping[str, Any], attempt: Attempt | None = None) -> None:
    """Records the failure of a transaction, once for each transaction.  Never raises: the original error matters more.

    Not recorded beside the table: errors without a concurrent commit, and errors of the store, which could not take the record either.
    """
    if not txn.fails():
        return
    phases.failed(txn.table.path, operation, error)
    alone = outcome_of(error) == "refused" and "rebase" not in txn.watch.seconds
    if alone or isinstance(error, StorageError):
        return
    with never_in_the_way(txn.table.path):
        account = attempt.receipt(txn, None, {}).record() if attempt is not None else {"seconds": dict(txn.watch.seconds)}
        does = {"appends": txn.is_blind, "moves": not txn.data_change, "staged": asdict(work_of(txn))}
        hand_over(txn, txn.base.version, error, operation, parameters, account, does)


def hand_over(
    of: Committing, head_version: int, error: BaseException, operation: str, parameters: Mapping[str, Any], account: dict[str, Any], does: Mapping[str, Any]
) -> None:
    """Writes the account of a failed attempt beside the table (see `never_in_the_way`)."""
    if (conflict := getattr(error, "conflict", None)) is not None:
        account["conflicts"] = [*account.get("conflicts", ()), conflict.record()]
    met = [c["version"] for c in account.get("conflicts", ())] + ([error.version or 0] if isinstance(error, CommitUnknown) else [])
    attempts.record(
        of.state.store,
        {
            "began_ms": of.watch.began_ms,
            "at_ms": clock.now_ms(),
            "writer": writer(),
            **({} if (text := user_metadata()) is None else {"user_metadata": text}),
            "txn_id": of.txn_id,
            "operation": operation,
            "parameters": operation_parameters(parameters),
            "read_version": of.read_version,
            "head_version": max([head_version, *met]),
            "outcome": outcome_of(error),
            "error": type(error).__name__,
            "on_conflict": of.options.on_conflict,
            "isolation": of.options.isolation,
            "granularity": of.options.granularity,
            "account": account,
            "engine": ENGINE_INFO,
            **does,
        },
    )


@contextmanager
def never_in_the_way(table: str) -> Iterator[None]:
    """Suppresses what the block raises, and logs it: recording a failure must not hide the failure."""
    try:
        yield
    except Exception as e:  # noqa: BLE001 - the error that is on its way matters more
        attempts.logger.debug("a failed attempt on %s could not be described: %s", table, e)


def outcome_of(error: BaseException) -> str:
    """The outcome of an attempt that raised this error, in the words of `advice.history.Outcome`."""
    if isinstance(error, CommitUnknown):
        return "unknown"
    if isinstance(error, DeltaConcurrentModificationException):
        return "conflict"
    return "refused" if isinstance(error, RowlockError) else "abandoned"
