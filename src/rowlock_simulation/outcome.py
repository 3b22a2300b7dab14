"""The outcome of one action, as its program sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rowlock_simulation.actions import Action, Done

Status = Literal["running", "committed", "nothing", "failed", "unknown", "crashed", "interrupted", "broke"]


@dataclass
class Outcome:
    """One try of one action.  `txn_ids`: the transactions that it began; `read_at`: the version that each of them has read."""

    actor: str
    action: Action
    status: Status = "running"
    on_table: int = 0
    """How many tables had been dropped when it began."""
    begun_on: dict[str, int] = field(default_factory=dict)
    """How many tables had been dropped before the one that each of its transactions has read first."""
    txn_ids: list[str] = field(default_factory=list)
    read_at: dict[str, int] = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    """The phases of its transactions, in their order."""
    done: Done = field(default_factory=Done)
    error: Exception | None = None
    began_at: int = 0
    ended_at: int = 0
    """The scheduling points between which it happened."""
    began_us: int = 0
    until_us: int = 0
    """When it began and ended, in virtual microseconds."""

    @property
    def name(self) -> str:
        return f"{self.actor}.{self.action.number}"

    @property
    def detail(self) -> str:
        """The version that was committed, or the error."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:120]}"
        return f"version {self.done.committed}" if self.done.committed is not None else ""

    def ends(self, status: Status, done: Done, error: Exception | None = None) -> None:
        """Takes the end of the action."""
        self.status, self.done, self.error = status, done, error
        if done.foreign is not None:
            self.txn_ids.append(done.foreign[0])
