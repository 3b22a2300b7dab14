"""The interface of the commit loop: what wants to become the next version of a table is a `Proposal` (see `commit`).

Each kind of commit is one class: the statements of a transaction (`staged_statements`), the appends that share a version
(`group_commit.lead`), what follows from the head alone, such as RESTORE and every ALTER (`definition.head_commit`), a new table
(`definition.new_table`), and the marker of a transaction that gave up (`publish.abort_marker`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

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
    def read(self) -> Snapshot | None:
        """The snapshot of the log that was read last; None where there is no table yet."""

    @property
    def watch(self) -> Stopwatch: ...


class Proposal(Committing, Protocol):
    """A commit that wants to become the next version of a table."""

    @property
    def head(self) -> Snapshot | None:
        """The snapshot that its commit follows, under the metadata that it brings; None for the first version of a table."""

    @property
    def is_void(self) -> bool:
        """Whether nothing is left to commit at the head that it was moved to."""

    def look(self) -> Snapshot | None:
        """The head of the log at the beginning of a round, to be moved to outside of the lane; None where nothing is moved there."""

    def move_to(self, head: Snapshot) -> int | None:
        """Moves the proposal to `head`: by a rebase, by its rules, or by making it anew.

        Returns the version of a commit up to `head` that is its own already, else None.  Raises by policy.
        """

    def commit_file(self) -> bytes:
        """The bytes of the version after its head, made anew for each put."""

    def receipt(self, version: int | None) -> Receipt:
        """The account for the user; `version` is None where nothing was committed."""

    def phase(self, name: str) -> None:
        """Tells the observer of a phase (see `phases`)."""

    def failed(self, error: RowlockError) -> None:
        """Keeps an account of the failure that is about to be raised; never raises."""

    # What follows is the same for most kinds: see Single.

    def look_again(self) -> Snapshot | None:
        """The head of the log inside of the lane, to be moved to; None where there is no table yet."""

    @property
    def is_carried(self) -> bool:
        """Whether the version was put by another thread, which did what follows a commit."""

    @property
    def lane(self) -> AbstractContextManager[Any]:
        """What is held from the last move to the end of the put."""

    @property
    def lost_puts(self) -> int:
        """Lost puts so far that count towards a turn."""

    def write(self) -> None:
        """Writes the data files that the commit will name."""

    def count_put(self) -> None:
        """Counts a put that is about to begin, inside of the lane."""

    def put_ended(self, version: int, *, won: bool) -> int | None:
        """The version if it is now its own; None for another round.  Called inside of the lane."""

    def put_unknown(self, error: CommitUnknown) -> None:
        """Raises `error`, the put of a version that may have landed or not; returns where the version was not its own.  Called inside of the lane."""


class Single:
    """The usual steps of a proposal of one transaction that has nothing left to write."""

    is_carried = False
    attempts: int
    """Puts that were tried so far."""

    def look_again(self: Proposal) -> Snapshot | None:
        return self.state.newest() if self.head is not None else None

    @property
    def lane(self: Committing) -> AbstractContextManager[Any]:
        return self.state.lane if self.options.lane else nullcontext()

    @property
    def lost_puts(self) -> int:
        return self.attempts

    def write(self) -> None:
        """Nothing is left to write."""

    def count_put(self) -> None:
        self.attempts += 1

    def put_ended(self, version: int, *, won: bool) -> int | None:
        return version if won else None

    def put_unknown(self, error: CommitUnknown) -> None:
        raise error
