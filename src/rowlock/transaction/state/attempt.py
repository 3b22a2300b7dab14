"""The running account of one commit, which becomes its receipt."""

from __future__ import annotations

from collections.abc import Mapping

from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.receipt import Conflict, Receipt, Rewritten, SupersededRow


class AlreadyCommitted(Exception):
    """Raised inside of a commit where another writer has committed this step of the application, or a later one."""


class Attempt:
    """Counts what one commit does: puts, rebases, rows rebased and dropped, conflicts."""

    def __init__(self, txn: Pending, operation: str) -> None:
        self.operation = operation
        self.already_committed = txn.already_committed
        self.attempts = self.rounds = self.rows_rebased = self.bytes_rebased = self.rows_dropped = self.rows_followed = 0
        self.group_size = 1
        self.conflicts: list[Conflict] = []
        self.overwritten: list[SupersededRow] = []

    def receipt(self, txn: Pending, version: int | None, metrics: Mapping[str, int], rewritten: Rewritten | None = None) -> Receipt:
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
            rows_followed=self.rows_followed,
            already_committed=self.already_committed,
            group_size=self.group_size,
            overwritten=tuple(self.overwritten),
            conflicts=tuple(self.conflicts),
            metrics=dict(metrics),
            seconds=dict(txn.watch.seconds),
            rewritten=rewritten,
            ways=txn.ways,
        )
