"""Checks that the sidecar files of checkpoints are there: those of every V2 checkpoint, not only of the newest, which is all that a read opens."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.exceptions import CorruptLog
from rowlock.log.checkpoint_reader import sidecars_of
from rowlock.log.segment import complete_checkpoints
from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol.names import LogFile
from rowlock.storage.store import ObjectStore
from rowlock.threads import side_by_side

_THREADS = 16


def checkpoint_findings(store: ObjectStore, files: Sequence[LogFile], most: int) -> tuple[list[Finding], int]:
    """Findings about the newest `most` complete checkpoints among the log's files, and how many were opened.  Raises StorageError."""
    opened = complete_checkpoints(files)[-most:] if most else []
    named = side_by_side(lambda c: _sidecars(store, c), opened, _THREADS)
    wanted = sorted({key for sidecars in named if isinstance(sidecars, set) for key in sidecars})
    gone = {key for key, size in zip(wanted, side_by_side(store.head, wanted, _THREADS), strict=True) if size is None}
    findings = []
    if broken := [(c, said) for c, said in zip(opened, named, strict=True) if isinstance(said, CorruptLog)]:
        findings.append(
            Finding(
                "damage",
                "checkpoint-does-not-read",
                f"checkpoints cannot be read, and so the versions from each to the next cannot: {spans(c[0].version for c, _ in broken)}. The first: {broken[0][1]}",
                "rowlock repair writes it anew where the commits before it are still there; else look for it in a backup or in older object versions",
                tuple(c[0].version for c, _ in broken),
                tuple(said.file or c[0].key for c, said in broken),
            )
        )
    if lacking := [c[0].version for c, said in zip(opened, named, strict=True) if isinstance(said, set) and said & gone]:
        findings.append(
            Finding(
                "damage",
                "sidecar-missing",
                f"sidecar files of checkpoints are missing, and so the versions from each checkpoint to the next cannot be read: {spans(lacking)}",
                "rowlock repair writes the checkpoint anew where the commits before it are still there; else look for the files in a backup or in older object versions",
                tuple(lacking),
                tuple(sorted(gone)),
            )
        )
    return findings, len(opened)


def _sidecars(store: ObjectStore, checkpoint: Sequence[LogFile]) -> set[str] | CorruptLog:
    try:
        return sidecars_of(store, checkpoint)
    except CorruptLog as e:
        return e
