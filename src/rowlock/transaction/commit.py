"""The commit loop: rebase over the winners, publish, put if absent, settle the outcome (I1, I2, I4).

    refresh → (rules, rebase)* → [turn] → write → put → Committed | Lost (again) | Unknown (settle, then again)

Rounds outside the lane carry the bulk of the work; the last one and the put run inside it.  A commit
file is built anew for every put and never used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rowlock import clock
from rowlock.locks.turns import Bid
from rowlock.transaction import given_up, outcome
from rowlock.transaction.appends import commit_append, may_join
from rowlock.transaction.catch_up import AlreadyCommitted, Attempt, catch_up, refuse_removal
from rowlock.transaction.commit_file import commit_bytes
from rowlock.transaction.metrics import operation_metrics, rewritten_by
from rowlock.transaction.publish import FileActions, file_actions
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.turn import turn_of

if TYPE_CHECKING:
    from rowlock.transaction.head_commit import HeadCommit
    from rowlock.transaction.transaction import Transaction


def commit(txn: Transaction, operation: str, parameters: Mapping[str, Any]) -> Receipt:
    """Commits what `txn` has staged.  Runs on the driver.

    Raises MultipleMatches or ConstraintViolated where the serial run at the head would, the classes of
    DeltaConcurrentModificationException by policy, CommitUnknown where the log cannot be read back.
    """
    attempt = Attempt(operation)
    if txn.already_committed or (txn.effects.is_empty and not _always_commits(txn)):
        return attempt.receipt(txn, None, operation_metrics(txn, FileActions((), ())))
    refuse_removal(txn, txn.base)
    try:
        with given_up.kept(txn, operation, parameters, attempt):
            return _in_company(txn, attempt, parameters) if may_join(txn) else _loop(txn, attempt, parameters)
    except AlreadyCommitted:
        txn.already_committed = True
        return attempt.receipt(txn, None, {})


def _in_company(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> Receipt:
    receipt, led = commit_append(txn, attempt, parameters)
    if led:
        after_commit(txn)
    return receipt


def _loop(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> Receipt:
    with turn_of(txn) as bid:
        return _rounds(txn, attempt, parameters, bid)


def _rounds(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any], bid: Bid | None) -> Receipt:
    state, files = txn.table.state, FileActions((), ())
    while True:
        just_asked = attempt.attempts == 0 and not txn.touches  # an append's beginning; a put that is lost costs it no more than asking
        version = catch_up(txn, attempt, state.newest() if just_asked else state.refresh())
        start = clock.monotonic_s()
        if bid is not None:
            bid.before_put(attempt.attempts)
        with state.lane if txn.options.lane else nullcontext():  # nothing between: an interrupt there would keep the lane for good
            txn.watch.add("wait", clock.monotonic_s() - start)
            version = version or catch_up(txn, attempt, state.newest())
            if version is None and txn.effects.is_empty and not _always_commits(txn):
                return attempt.receipt(txn, None, operation_metrics(txn, FileActions((), ())))  # what a lost put wrote is in no version
            if version is None:
                version, files = _put(txn, attempt, parameters)
        if version is not None:
            receipt = attempt.receipt(txn, version, operation_metrics(txn, files), rewritten_by(txn, files))
            after_commit(txn)
            return receipt


def _always_commits(txn: Transaction) -> bool:
    """An append or an overwrite is a commit even where it brings no rows, as in Delta; so is the step of an application."""
    return any(s.kind == "append" for s in txn.program) or txn.metadata is not None or txn.app is not None


def _put(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> tuple[int | None, FileActions]:
    """Writes the files and tries one put. The version, or None where another writer took it."""
    state, head = txn.table.state, txn.base
    with txn.watch.time("write"):
        files = file_actions(txn.effects, head, engine=txn.table.engine, vectors=state.vectors, staging=txn.staging, data_change=txn.data_change)
    txn.phase("written")
    version = head.version + 1
    attempt.attempts += 1
    txn.phase("before_put")
    with txn.watch.time("put"):
        won = outcome.put(state, head, commit_bytes(txn, attempt, files, parameters), txn.txn_id)
    txn.phase("after_put")
    return (version if won else None), files


def after_commit(txn: Transaction | HeadCommit) -> None:
    """Refreshes the shared snapshot and writes a checkpoint when one is due; neither can fail the commit (I10)."""
    from rowlock.transaction.table_state import logger

    txn.phase("committed")
    try:
        txn.table.state.log.maybe_checkpoint(txn.table.state.newest())
    except Exception as e:  # noqa: BLE001 - the commit has landed; a checkpoint is only a convenience
        logger.warning("the checkpoint after the commit failed and will be tried again: %s", e)


