"""What a transaction has staged against one snapshot, and which files it has written so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.boundary.effects import Effects, RowBlock, StagedFile
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit


@dataclass(frozen=True, slots=True)
class Staged:
    """What a transaction has staged against one snapshot.  A rebase and a further statement each make another value.

    read     the newest snapshot of the log that the transaction was brought to
    base     the same under the metadata that the transaction itself brings: what the effects fit
    unseen   files that winners changed and that the isolation level lets the transaction not see, as it knows them (None: not at all)
    passed   the winners whose changes are still in `unseen`, with those of the last rebase
    """

    read: Snapshot
    base: Snapshot
    effects: Effects = field(default_factory=Effects)
    unseen: Mapping[str, AddFile | None] = field(default_factory=dict)
    passed: tuple[Commit, ...] = ()


CopyKey = tuple[str, str | None, bytes]


@dataclass(slots=True)
class Staging:
    """Files that were written for a transaction: after a lost put they serve again."""

    copies: dict[CopyKey, Sequence[StagedFile]] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    files: Sequence[StagedFile] = ()
    bytes_written: int = 0
    changes: tuple[Effects, Sequence[AddCdcFile]] | None = None
