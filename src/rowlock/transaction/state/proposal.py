"""What may become the next version of a table, as the commit loop sees it (see `commit`).

Each kind of commit is one class: the statements of a transaction (`staged_statements`), what follows from the head alone, such
as RESTORE and every ALTER (`head_commit`), a new table (`new_table`), and the marker of a transaction that gave up (`abort_marker`).
"""

from __future__ import annotations

from typing import Protocol

from rowlock.exceptions import RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.state.shared import SharedState


class Committing(Protocol):
    """Who waits for leases and turns, and whose failures are accounted for."""

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
    """Something that wants to be the next version."""

    attempts: int
    """Puts that were tried so far."""

    @property
    def head(self) -> Snapshot | None:
        """The snapshot that its commit follows, under the metadata that it brings; None for the first version of a table."""

    def look(self) -> Snapshot | None:
        """The head of the log at the beginning of a round, outside the lane; None where there is to be none."""

    def move_to(self, head: Snapshot) -> int | None:
        """Brings it to `head`, by a rebase, by its rules, or by making it anew.

        Returns the version of a commit up to `head` that is its own already.  Raises by policy.
        """

    @property
    def is_void(self) -> bool:
        """Whether nothing is left to commit at the head that it was brought to."""

    def write(self) -> None:
        """Writes the data files that the commit will name."""

    def commit_file(self) -> bytes:
        """The bytes of the version after its head, made anew for each put."""

    def receipt(self, version: int | None) -> Receipt:
        """The account; `version` is None where nothing was committed."""

    def phase(self, name: str) -> None:
        """Tells the observer of a phase (see `phases`)."""

    def failed(self, error: RowlockError) -> None:
        """Keeps an account of the work that was thrown away.  Never raises."""
