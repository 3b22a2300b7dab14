"""The abort marker of a posted append whose writer gave up: a proposal to the commit loop, after which no process commits the append (I2)."""

from __future__ import annotations

from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.transaction.publish import outcome
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.proposal import Over, Single
from rowlock.transaction.state.shared import SharedState

ABORT = "ROWLOCK ABORT"


class AbortMarker(Single):
    """A version without file actions whose commitInfo declares that transaction `of`, staged at `since`, must not be committed.

    `found` is the commit that contains the transaction, if another process has committed it first.  The transaction has reported its phases and error itself.
    """

    operation = ABORT
    options = Options(turns=False)  # its writer has failed already and should not make others wait

    def __init__(self, state: SharedState, of: str, since: Snapshot) -> None:
        super().__init__(state, since.version)
        self._of, self._since = of, since
        self.head = self.read = since
        self.found: Commit | None = None

    def move_to(self, head: Snapshot) -> Over | None:
        """Returns the version in which another process committed the transaction; none where no process would commit it any more."""
        self.head = self.read = head
        if head.metadata.id != self._since.metadata.id:
            return Over(None)  # another table was created at this path: what was staged for the old one is not committed to it
        between = self.state.log.commits(min(self._since.version, head.version), head.version)
        self.found = next((c for c in between if self._of in c.txn_ids), None)
        if self.found is not None:
            return Over(outcome.found(self.state.log, head, self.found.version, self._of))
        return Over(None) if any(c.metadata is not None or c.protocol is not None for c in between) else None  # what was staged before is not committed

    def commit_file(self) -> bytes:
        """The bytes of the version after the head: a commitInfo that names the aborted transaction."""
        record, began_ms = {"aborted": [self._of]}, self.watch.began_ms
        info = commit_info(self.operation, {}, self.txn_id, read_version=self.head.version, blind=False, metrics={}, began_ms=began_ms, record=record)
        return bytes_on(self.head, info)
