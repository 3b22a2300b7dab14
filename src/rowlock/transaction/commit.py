"""The commit loop: rebase over the winners, publish, put if absent, settle the outcome (I1, I2, I4).

    refresh → (rules, rebase)* → [turn] → write → put → Committed | Lost (again) | Unknown (settle, then again)

Rounds outside the lane carry the bulk of the work; the last one and the put run inside it.  A commit
file is built anew for every put and never used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowlock import clock
from rowlock.locks.turns import Bid
from rowlock.protocol.actions import CommitInfo, SetTransaction
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.in_commit import stamped
from rowlock.transaction import given_up, outcome, row_ids
from rowlock.transaction.catch_up import AlreadyCommitted, Attempt, catch_up, refuse_removal
from rowlock.transaction.group import commit_in_group, may_join
from rowlock.transaction.metrics import operation_metrics, operation_parameters, rewritten_by
from rowlock.transaction.publish import FileActions, file_actions
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.turn import turn_of
from rowlock.version import ENGINE_INFO

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
            return commit_in_group(txn, attempt, parameters) if may_join(txn) else _loop(txn, attempt, parameters)
    except AlreadyCommitted:
        txn.already_committed = True
        return attempt.receipt(txn, None, {})


def _loop(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> Receipt:
    with turn_of(txn) as bid:
        return _rounds(txn, attempt, parameters, bid)


def _rounds(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any], bid: Bid | None) -> Receipt:
    state, files = txn.table.state, FileActions((), ())
    while True:
        just_asked = attempt.attempts == 0 and not txn.touches  # an append's beginning; a put that is lost costs it no more than asking
        version = catch_up(txn, attempt, state.newest() if just_asked else state.refresh())
        with txn.watch.time("wait"):
            if bid is not None:
                bid.before_put(attempt.attempts)
            lane = state.lane if txn.options.lane else nullcontext()
            lane.__enter__()
        try:
            version = version or catch_up(txn, attempt, state.newest())
            if version is None and txn.effects.is_empty and not _always_commits(txn):
                return attempt.receipt(txn, None, operation_metrics(txn, FileActions((), ())))  # what a lost put wrote is in no version
            if version is None:
                version, files = _put(txn, attempt, parameters)
        finally:
            lane.__exit__(None, None, None)
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
        won = outcome.put(state, version, commit_bytes(txn, attempt, files, parameters), txn.txn_id)
    txn.phase("after_put")
    return (version if won else None), files


def commit_bytes(txn: Transaction, attempt: Attempt, files: FileActions, parameters: Mapping[str, Any]) -> bytes:
    """The commit on top of the transaction's base."""
    return commit_of(txn, attempt, files, parameters, operation_metrics(txn, files), () if txn.app is None else (txn.app,), {})


def commit_of(
    txn: Transaction,
    attempt: Attempt,
    files: FileActions,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    steps: Sequence[SetTransaction],
    record: Mapping[str, Any],
) -> bytes:
    """A commit by `txn`, for itself or for a group; `record` is added to what its commitInfo holds of Rowlock's own."""
    only_adds = not files.removes
    info: dict[str, Any] = {
        "timestamp": clock.now_ms(),
        "operation": attempt.operation,
        "operationParameters": operation_parameters(parameters),
        "readVersion": txn.base.version,
        "isolationLevel": "SnapshotIsolation" if not txn.data_change else txn.options.delta_level,
        "isBlindAppend": txn.is_blind and only_adds and txn.metadata is None,
        "operationMetrics": {k: str(v) for k, v in metrics.items()},
        "engineInfo": ENGINE_INFO,
        "txnId": txn.txn_id,
        "rowlock": {**attempt.receipt(txn, None, {}).record(), "read_version": txn.read_version, **txn.reruns.record(), **record},
    }
    info = stamped(info, txn.base.metadata.configuration, txn.base.timestamp_ms)
    rewrites_rows = bool(files.rows_copied) or any(b.kind == "derived" for b in txn.effects.blocks)
    if tags := row_ids.tags(txn.base, rewrites_rows):
        info["tags"] = tags
    stamped_steps = [replace(s, last_updated_ms=info["timestamp"]) for s in steps]
    return serialize_commit(CommitInfo(info), metadata=txn.metadata, removes=files.removes, adds=files.adds, txns=stamped_steps, domains=files.domains, cdc=files.cdc)


def after_commit(txn: Transaction | HeadCommit) -> None:
    """Refreshes the shared snapshot and writes a checkpoint when one is due; neither can fail the commit (I10)."""
    from rowlock.transaction.table_state import logger

    txn.phase("committed")
    try:
        txn.table.state.log.maybe_checkpoint(txn.table.state.newest())
    except Exception as e:  # noqa: BLE001 - the commit has landed; a checkpoint is only a convenience
        logger.warning("the checkpoint after the commit failed and will be tried again: %s", e)


