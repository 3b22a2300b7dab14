"""What has been written for a transaction, so that a lost put does not write it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rowlock.boundary.effects import Effects, RowBlock, StagedFile
from rowlock.protocol.actions import AddCdcFile

CopyKey = tuple[str, str | None, bytes]


@dataclass(slots=True)
class Staging:
    """What has been written for a transaction and can serve again in its next round."""

    copies: dict[CopyKey, Sequence[StagedFile]] = field(default_factory=dict)
    blocks: tuple[RowBlock, ...] = ()
    files: Sequence[StagedFile] = ()
    bytes_written: int = 0
    changes: tuple[Effects, Sequence[AddCdcFile]] | None = None
