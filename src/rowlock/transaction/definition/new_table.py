"""The creation of a table, as a proposal to the commit loop: of several creators one wins (I1)."""

from __future__ import annotations

from typing import Any

from rowlock import clock
from rowlock.exceptions import RowlockError, TableExists
from rowlock.protocol.actions import CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import current_observer, reached
from rowlock.transaction.state.proposal import Single
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.state.shared import SharedState


class NewTable(Single):
    """Version 0 of a table; `actions` are those of `serialize_commit`, `info` is its commitInfo."""

    options = Options(lane=False)  # there is no table yet that others could wait for
    read, head, read_version = None, None, -1

    def __init__(self, state: SharedState, info: dict[str, Any], actions: dict[str, Any], metrics: dict[str, int]) -> None:
        self.state, self._info, self._actions, self._metrics = state, info, actions, metrics
        self.txn_id: str = info["txnId"]
        self.watch, self.attempts = Stopwatch(clock.monotonic_s), 0

    def look(self, *, in_lane: bool) -> None:
        """Raises TableExists where another writer took version 0."""
        if self.attempts:
            raise TableExists("Another writer created the table first; open it with DeltaTable.forPath, or use createIfNotExists", table=self.state.store.root)

    def move_to(self, head: Any) -> None:
        """Nothing: it follows no version."""

    def commit_file(self) -> bytes:
        return serialize_commit(CommitInfo(self._info), **self._actions)

    def receipt(self, version: int | None) -> Receipt:
        return Receipt(version, -1, self.txn_id, self._info["operation"], attempts=self.attempts, metrics=self._metrics, seconds=dict(self.watch.seconds))

    def phase(self, name: str) -> None:
        reached(name, self, current_observer())

    def failed(self, error: RowlockError) -> None:
        """Nothing: failed attempts are recorded beside a table, and there is none."""
