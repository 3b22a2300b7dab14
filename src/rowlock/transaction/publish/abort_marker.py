"""The marker of a posted transaction that gave up, as a proposal to the commit loop: once it is in the log nobody commits the transaction any more (I2)."""

from __future__ import annotations

from rowlock import clock
from rowlock.exceptions import RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.transaction.publish import outcome
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.proposal import Single
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.state.shared import SharedState

ABORT = "ROWLOCK ABORT"


class AbortMarker(Single):
    """A version that changes nothing and says that transaction `of`, staged at `since`, is not to be committed.

    `found` is the commit that has the transaction in it, where somebody was faster.
    """

    options = Options(turns=False)  # its writer has failed already, and keeps nobody waiting

    def __init__(self, state: SharedState, of: str, since: Snapshot) -> None:
        self.state, self._of, self._since = state, of, since
        self.head = self.read = since
        self.read_version = since.version
        self.txn_id, self.watch, self.attempts = clock.new_id(), Stopwatch(clock.monotonic_s), 0
        self.found: Commit | None = None
        self.is_void = False

    def look(self) -> Snapshot:
        return self.state.refresh()

    def move_to(self, head: Snapshot) -> int | None:
        """The version in which the transaction was committed by another.  Void where nobody would commit it any more."""
        self.head = self.read = head
        if head.metadata.id != self._since.metadata.id:
            self.is_void = True  # a table that was made anew: what was staged for the other one is in nobody's way
            return None
        between = self.state.log.commits(min(self._since.version, head.version), head.version)
        self.found = next((c for c in between if self._of in c.txn_ids), None)
        if self.found is not None:
            return outcome.found(self.state.log, head, self.found.version, self._of)
        self.is_void = any(c.metadata is not None or c.protocol is not None for c in between)  # nobody commits what was staged before that
        return None

    def commit_file(self) -> bytes:
        info = commit_info(ABORT, {}, self.txn_id, read_version=self.head.version, blind=False, metrics={})
        return bytes_on(self.head, {**info, "rowlock": {"aborted": [self._of]}})

    def receipt(self, version: int | None) -> Receipt:
        return Receipt(version, self.read_version, self.txn_id, ABORT, attempts=self.attempts)

    def phase(self, name: str) -> None:
        """Nothing: its transaction has told of its end."""

    def failed(self, error: RowlockError) -> None:
        """Nothing: the error of its transaction is accounted for."""
