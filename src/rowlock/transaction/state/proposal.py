"""The interface of the commit loop: what wants to become the next version of a table is a `Proposal` (see `commit`).

Each kind of commit is one class: the statements of a transaction (`staged_statements`), the appends that share a version
(`group_commit.lead`), what follows from the head alone, such as RESTORE and every ALTER (`definition.head_commit`), a new table
(`definition.creation`), and the marker of a transaction that gave up (`publish.outcome`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from rowlock import clock
from rowlock.exceptions import CommitUnknown, RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.state.shared import SharedState


class Committing(Protocol):
    """A writer that may wait for leases and turns, and whose failures are recorded."""

    @property
    def state(self) -> SharedState: ...
    @property
    def txn_id(self) -> str: ...
    @property
    def options(self) -> Options: ...
    @property
    def read_version(self) -> int: ...
    @property
    def read(self) -> Snapshot:
        """The snapshot of the log that was read last."""

    @property
    def watch(self) -> Stopwatch: ...


@dataclass(frozen=True, slots=True)
class Over:
    """The end of a proposal: the version that it became; None where nothing was left to commit.

    by_another  whether another thread put the version, and does what follows a commit
    """

    version: int | None
    by_another: bool = False


class Proposal(Committing, Protocol):
    """A commit that wants to become the next version of a table."""

    @property
    def head(self) -> Snapshot:
        """The snapshot that its commit follows, under the metadata that it brings; for a new table a draft of it, of version -1."""

    @property
    def attempts(self) -> int:
        """Puts that were tried so far, as far as they count towards a turn."""

    @property
    def lane(self) -> AbstractContextManager[Any]:
        """What is held from the last move to the end of the put."""

    def look(self, *, in_lane: bool) -> Snapshot | None:
        """The head of the log to be moved to, at the beginning of a round and once more inside of the lane; None where nothing is to be moved there."""

    def move_to(self, head: Snapshot) -> Over | None:
        """Moves the proposal to `head`: by a rebase, by its rules, or by making it anew.  Raises by policy.

        Returns Over where a commit up to `head` is its own already, and where nothing is left to commit.
        """

    def write(self) -> None:
        """Writes the data files that the commit will name, and counts the put that follows.  Called inside of the lane."""

    def commit_file(self) -> bytes:
        """The bytes of the version after its head, built again for each put."""

    def put_ended(self, version: int, outcome: bool | CommitUnknown) -> Over | None:
        """Takes what became of the put of a version: won, lost, or an error where that is not known.  None: another round.  Called inside of the lane."""

    def receipt(self, version: int | None) -> Receipt:
        """The account for the user; `version` is None where nothing was committed."""

    def phase(self, name: str) -> None:
        """Reports a phase to the observer (see `phases`)."""

    def failed(self, error: RowlockError) -> None:
        """Records the failure that is about to be raised; never raises."""


class Single:
    """The usual steps of a proposal of one transaction that has nothing left to write, whose phases and failures are not reported."""

    operation: str

    def __init__(self, state: SharedState, read_version: int, txn_id: str | None = None) -> None:
        self.state, self.read_version, self.txn_id = state, read_version, txn_id or clock.new_id()
        self.watch, self.attempts = Stopwatch(), 0

    def look(self: Proposal, *, in_lane: bool) -> Snapshot | None:
        return self.state.newest() if in_lane else self.state.refresh()

    @property
    def lane(self: Committing) -> AbstractContextManager[Any]:
        return self.state.lane if self.options.lane else nullcontext()

    def write(self) -> None:
        """Nothing is left to write."""
        self.attempts += 1

    def put_ended(self, version: int, outcome: bool | CommitUnknown) -> Over | None:
        if isinstance(outcome, CommitUnknown):
            raise outcome
        return Over(version) if outcome else None

    def receipt(self, version: int | None) -> Receipt:
        return Receipt(version, self.read_version, self.txn_id, self.operation, attempts=self.attempts)

    def phase(self, name: str) -> None:
        pass

    def failed(self, error: RowlockError) -> None:
        pass
