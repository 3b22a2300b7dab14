"""The statements of a transaction, as a proposal to the commit loop: rebased over winners, then published (I3, I4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.exceptions import RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile
from rowlock.transaction import commit as loop, failed_attempt
from rowlock.transaction.group_commit.lead import commit_append, may_join
from rowlock.transaction.publish.commit_bytes import commit_of
from rowlock.transaction.publish.file_actions import FileActions, append_actions, file_actions, staged_adds
from rowlock.transaction.publish.metrics import operation_metrics, rewritten_by, times
from rowlock.transaction.rebase.onto_head import rebase_onto_head, refuse_removal
from rowlock.transaction.state.pending import AlreadyCommitted, Attempt, Pending
from rowlock.transaction.state.proposal import Over, Single
from rowlock.transaction.state.receipt import Receipt

_NOTHING = FileActions((), ())


def commit(txn: Pending, operation: str, parameters: Mapping[str, Any]) -> Receipt:
    """Commits what `txn` has staged.  Runs on the driver.

    Raises MultipleMatches or ConstraintViolated where the serial run at the head would, the classes of
    DeltaConcurrentModificationException by policy, CommitUnknown where the log cannot be read back.
    """
    what = StagedStatements(txn, Attempt(txn, operation), parameters)
    if what.has_nothing:
        return what.receipt(None)
    refuse_removal(txn, txn.base)
    return commit_append(txn, operation, parameters) if may_join(txn) else loop.commit(what)


class StagedStatements(Single):
    """The staged statements of one transaction."""

    def __init__(self, txn: Pending, attempt: Attempt, parameters: Mapping[str, Any]) -> None:
        self.txn, self.attempt, self.parameters = txn, attempt, parameters
        self.state, self.txn_id, self.options, self.read_version, self.watch = txn.state, txn.txn_id, txn.options, txn.read_version, txn.watch
        self._files = _NOTHING
        self.record: Mapping[str, Any] = {}

    @property
    def read(self) -> Snapshot:
        return self.txn.read

    @property
    def head(self) -> Snapshot:
        return self.txn.base

    @property
    def attempts(self) -> int:  # type: ignore[override]
        return self.attempt.attempts

    def look(self, *, in_lane: bool) -> Snapshot:
        """The newest snapshot.  For an append that has not lost yet a stale one costs one lost put, the same as a refresh: the refresh is skipped."""
        self.txn.in_lane = in_lane
        return self.state.newest() if in_lane or (self.attempts == 0 and not self.txn.touches) else self.state.refresh()

    def move_to(self, head: Snapshot) -> Over | None:
        """Rebases the staged effects over the commits since their base.  Raises as `rebase_onto_head` does."""
        try:
            done = rebase_onto_head(self.txn, self.attempt, head)
        except AlreadyCommitted:
            self.attempt.already_committed = True
            return Over(None)
        if isinstance(done, int):
            return Over(done)
        self.txn.rebased(done)
        return Over(None) if self.has_nothing else None

    @property
    def has_nothing(self) -> bool:
        """Whether there is nothing to commit.  An append or overwrite without rows, of which delta-spark makes no version, and a step are commits, but for a DELETE."""
        txn = self.txn
        is_step = txn.app is not None and self.attempt.operation != "DELETE"
        always = any(s.kind == "append" for s in txn.program) or txn.metadata is not None or is_step
        return self.attempt.already_committed or (txn.effects.is_empty and not always)

    def write(self) -> None:
        txn, head = self.txn, self.txn.base
        if txn.is_blind:
            self._files = append_actions(staged_adds(txn.effects, head, engine=txn.table.engine, staging=txn.staging), head, txn.table.engine)
        else:
            engine, vectors = txn.table.statement_engine, self.state.vectors
            self._files = file_actions(txn.effects, head, engine=engine, vectors=vectors, staging=txn.staging, data_change=txn.data_change)
        txn.check_files()
        self.attempt.attempts += 1

    @property
    def cdc(self) -> tuple[AddCdcFile, ...]:
        """The change data files that were written for it."""
        return self._files.cdc

    def commit_file(self) -> bytes:
        txn, metrics = self.txn, {**operation_metrics(self.txn, self._files), **times(self.txn)}
        return commit_of(txn, self.attempt, self._files, self.parameters, metrics, () if txn.app is None else (txn.app,), self.record)

    def receipt(self, version: int | None) -> Receipt:
        """The account of the commit.  Metrics count the files that the version names; files of lost puts are in no version."""
        if version is None:
            metrics = {} if self.attempt.already_committed else operation_metrics(self.txn, _NOTHING)
            return self.attempt.receipt(self.txn, None, metrics)
        return self.attempt.receipt(self.txn, version, operation_metrics(self.txn, self._files), rewritten_by(self.txn, self._files))

    def phase(self, name: str) -> None:
        self.txn.phase(name)

    def failed(self, error: RowlockError) -> None:
        failed_attempt.record(self.txn, error, self.attempt.operation, self.parameters, self.attempt)
