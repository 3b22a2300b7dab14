"""The commit loop: rebase over the winners, publish, put if absent, settle the outcome (I1, I2, I4).

    refresh → (rules, rebase)* → write → put → Committed | Lost (again) | Unknown (settle, then again)

Rounds outside the lane carry the bulk of the work; the last one and the put run inside it.  A commit
file is built anew for every put and never used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rowlock import clock
from rowlock.conflict import rules
from rowlock.conflict.delta import Delta, delta_between
from rowlock.exceptions import CommitUnknown, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit, CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.features import check_writable
from rowlock.storage.store import Committed, Unknown
from rowlock.transaction import fail_policy
from rowlock.transaction.compaction import drop_overlapping_bins
from rowlock.transaction.effects import Effects
from rowlock.transaction.metrics import operation_metrics, operation_parameters
from rowlock.transaction.publish import FileActions, file_actions
from rowlock.transaction.rebase import rebase
from rowlock.transaction.receipt import Conflict, Receipt
from rowlock.version import ENGINE_INFO

if TYPE_CHECKING:
    from rowlock.transaction.transaction import Transaction

_SETTLE_TRIES = 8


class Attempt:
    """The running account of one commit."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.attempts = self.rounds = self.rows_rebased = self.bytes_rebased = self.rows_dropped = 0
        self.conflicts: list[Conflict] = []

    def receipt(self, txn: Transaction, version: int | None, metrics: Mapping[str, int]) -> Receipt:
        return Receipt(
            version=version,
            read_version=txn.read_version,
            txn_id=txn.txn_id,
            operation=self.operation,
            attempts=self.attempts,
            rounds=self.rounds,
            rows_rebased=self.rows_rebased,
            bytes_rebased=self.bytes_rebased,
            rows_dropped=self.rows_dropped,
            conflicts=tuple(self.conflicts),
            metrics=dict(metrics),
            seconds=dict(txn.watch.seconds),
        )


def commit(txn: Transaction, operation: str, parameters: Mapping[str, Any]) -> Receipt:
    """Commits what `txn` has staged.  Runs on the driver.

    Raises MultipleMatches or ConstraintViolated where the serial run at the head would, the classes of
    DeltaConcurrentModificationException by policy, CommitUnknown where the log cannot be read back.
    """
    attempt = Attempt(operation)
    state = txn.table.state
    if txn.effects.is_empty and not _always_commits(txn):
        return attempt.receipt(txn, None, operation_metrics(txn, FileActions((), ())))
    _refuse_removal(txn, txn.base)
    files = FileActions((), ())
    while True:
        version = _catch_up(txn, attempt, state.refresh())
        with txn.watch.time("wait"):
            lane = state.lane if txn.options.lane else nullcontext()
            lane.__enter__()
        try:
            version = version or _catch_up(txn, attempt, state.refresh())
            if version is None and txn.effects.is_empty and not _always_commits(txn):
                return attempt.receipt(txn, None, operation_metrics(txn, files))
            if version is None:
                version, files = _put(txn, attempt, parameters)
        finally:
            lane.__exit__(None, None, None)
        if version is not None:
            receipt = attempt.receipt(txn, version, operation_metrics(txn, files))
            _after(txn)
            return receipt


def _always_commits(txn: Transaction) -> bool:
    """An append or an overwrite is a commit even where it brings no rows, as in Delta."""
    return any(s.kind == "append" for s in txn.program) or txn.metadata is not None


def _catch_up(txn: Transaction, attempt: Attempt, head: Snapshot) -> int | None:
    """Brings the staged effects to `head`, if others committed since the base.

    The version of a commit between them that is our own, where a put of unknown outcome landed after all (I2).
    """
    rewritten = txn.epoch != txn.table.state.epoch
    if head.version == txn.base.version and not rewritten:
        return None
    winners = [] if rewritten else txn.table.state.log.commits(txn.base.version, head.version)
    if landed := next((w.version for w in winners if w.txn_id == txn.txn_id), None):
        return landed
    _refuse_removal(txn, head)
    txn.phase("before_rebase")
    with txn.watch.time("rebase"):
        _check_table(txn, winners, head)
        if txn.options.on_conflict == "fail":
            fail_policy.check(txn, winners, head)
        _rebase_to(txn, attempt, winners, head, _touched_paths(txn.base, head, winners, rewritten))
    txn.read = head
    txn.base, txn.epoch = txn.view(head), txn.table.state.epoch
    attempt.rounds += 1
    txn.phase("rebased")
    return None


def _refuse_removal(txn: Transaction, head: Snapshot) -> None:
    """delta.appendOnly: rows may come and be moved, and none may go."""
    if txn.data_change and txn.effects.num_tombstones and head.properties.append_only:
        raise StatementRefused("The table is append-only (delta.appendOnly=true); unset the property to change or delete rows", what="removing rows", table=txn.table.path)


def _check_table(txn: Transaction, winners: list[Commit], head: Snapshot) -> None:
    state = fail_policy.table_state(txn.read)
    if found := rules.first_conflict(rules.TABLE_RULES, fail_policy.reads_of(txn), winners, state):
        raise fail_policy.error_of(txn, found)
    check_writable(head.protocol, head.metadata, txn.table.path)


def _touched_paths(base: Snapshot, head: Snapshot, winners: list[Commit], rewritten: bool) -> set[str]:
    if rewritten:
        return {f.path for s in (base, head) for f in s.files.adds()}
    return {p for w in winners for p in w.paths}


def _rebase_to(txn: Transaction, attempt: Attempt, winners: list[Commit], head: Snapshot, paths: set[str]) -> None:
    before, after = txn.base.files.get(paths), head.files.get(paths)
    delta = delta_between(paths, before, after, txn.table.state.vectors.of)
    head = txn.view(head)
    if txn.is_blind or delta.is_empty:
        return
    txn.effects = drop_overlapping_bins(txn.program, txn.effects, paths, after)
    relevant = _relevant(txn, delta)
    done = rebase(txn.effects, txn.program, relevant, engine=txn.table.engine, snapshot=head)
    attempt.conflicts += _conflicts(winners, relevant, txn.effects)
    txn.effects = done.effects
    attempt.rows_rebased += done.rows_rebased
    attempt.bytes_rebased += done.bytes_rebased
    attempt.rows_dropped += done.rows_dropped


def _relevant(txn: Transaction, delta: Delta) -> Delta:
    """Without the born files that every statement's skipping predicate rules out: no statement can change their rows."""
    reading = [s for s in txn.program if s.touches]
    if not reading or any(s.kind == "move" for s in reading):
        return delta
    born = tuple(s for s in delta.born if any(fail_policy.may_match(txn.base, p.reads, s.file) for p in reading))
    return Delta(delta.gone, born)


def _conflicts(winners: Iterable[Commit], delta: Delta, effects: Effects) -> list[Conflict]:
    """One value for each winner whose change touched ours or brought rows to look at."""
    gone, born = {s.path: s for s in delta.gone}, {s.path: s for s in delta.born}
    out: list[Conflict] = []
    for w in winners:
        took = {r.path for r in w.removes if r.path in gone and r.path in effects.tombstones}
        brought = {a.path for a in w.adds if a.path in born}
        if took or brought:
            rows_gone = sum(len(gone[p].covers(effects.tombstones[p])) for p in took)
            rows_born = sum(born[p].num_rows or 0 for p in brought)
            info = w.info
            out.append(
                Conflict(w.version, info.operation if info else None, info.timestamp_ms if info else None, info.txn_id if info else None, tuple(sorted(took | brought))[:20], rows_gone, rows_born)
            )
    return out


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
        data = _commit_bytes(txn, attempt, files, parameters)
        outcome = state.log.put(version, data)
        # also after Lost: a store's own retry may call the winner a loser
        won = isinstance(outcome, Committed) or _settle(txn, version, data, isinstance(outcome, Unknown))
    txn.phase("after_put")
    return (version if won else None), files


def _settle(txn: Transaction, version: int, data: bytes, unknown: bool) -> bool:
    """Reads the version back: ours, another's, or (after Unknown) absent, then the put is tried again."""
    log = txn.table.state.log
    for n in range(_SETTLE_TRIES):
        there = log.read_commit(version)
        if there is not None:
            return there.info is not None and there.info.txn_id == txn.txn_id
        if unknown and isinstance(log.put(version, data), Committed):
            return True
        clock.sleep(min(1.0, 0.02 * 2**n) * (0.5 + clock.jitter()))
    raise CommitUnknown(
        "Whether the commit landed could not be found out; what was staged has been kept. Look for the transaction id in the log before running the statement again.",
        txn_id=txn.txn_id,
        table=txn.table.path,
        version=version,
    )


def _commit_bytes(txn: Transaction, attempt: Attempt, files: FileActions, parameters: Mapping[str, Any]) -> bytes:
    metrics = operation_metrics(txn, files)
    only_adds = not files.removes
    info: dict[str, Any] = {
        "timestamp": clock.now_ms(),
        "operation": attempt.operation,
        "operationParameters": operation_parameters(parameters),
        "readVersion": txn.base.version,
        "isolationLevel": "SnapshotIsolation" if not txn.data_change else "Serializable",
        "isBlindAppend": txn.is_blind and only_adds and txn.metadata is None,
        "operationMetrics": {k: str(v) for k, v in metrics.items()},
        "engineInfo": ENGINE_INFO,
        "txnId": txn.txn_id,
        "rowlock": {**attempt.receipt(txn, None, {}).record(), "read_version": txn.read_version},
    }
    return serialize_commit(CommitInfo(info), metadata=txn.metadata, removes=files.removes, adds=files.adds)


def _after(txn: Transaction) -> None:
    """Refreshes the shared snapshot and writes a checkpoint when one is due; neither can fail the commit (I10)."""
    from rowlock.transaction.table_state import logger

    txn.phase("committed")
    try:
        snapshot = txn.table.state.refresh()
        txn.table.state.log.maybe_checkpoint(snapshot)
    except Exception as e:  # noqa: BLE001 - the commit has landed; a checkpoint is only a convenience
        logger.warning("the checkpoint after the commit failed and will be tried again: %s", e)


