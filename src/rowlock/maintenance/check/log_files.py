"""Checks the file names in `_delta_log`: missing commits, incomplete checkpoints, a `_last_checkpoint` without its checkpoint.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock.log.segment import complete_checkpoints
from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol import names
from rowlock.protocol.names import LogFile


def log_file_findings(files: Sequence[LogFile], hint: int | None) -> list[Finding]:
    """Findings about the files of the whole log; `hint` is the version that `_last_checkpoint` names, None without one."""
    return [*_gaps(files), *_checkpoints(files), *_hint(files, hint)]


def _gaps(files: Sequence[LogFile]) -> Iterable[Finding]:
    versions = sorted(f.version for f in files if f.kind == "commit")
    whole = sorted({c[0].version for c in complete_checkpoints(files)})
    if not versions:
        return
    newest = max([versions[-1], *whole])
    present = set(versions)
    base = whole[-1] if whole else -1
    if needed := [v for v in range(base + 1, newest + 1) if v not in present]:
        yield Finding(
            "damage",
            "gap-in-log",
            f"commits that the newest version needs are missing: {spans(needed)}",
            "Look for the files in a backup or in older object versions of the store. Nothing can be read past the gap until they are back",
            tuple(needed),
            tuple(names.commit_key(v) for v in needed),
        )
    oldest = versions[0]
    if older := [v for v in range(oldest, base + 1) if v not in present]:
        yield Finding(
            "note",
            "gap-in-history",
            f"commits are missing from the history before checkpoint {base}: {spans(older)}. The newest version does not need them; time travel there fails",
            versions=tuple(older),
        )


def _checkpoints(files: Sequence[LogFile]) -> Iterable[Finding]:
    whole = {f.key for c in complete_checkpoints(files) for f in c}
    broken = [f for f in files if f.is_checkpoint and f.key not in whole]
    if broken:
        yield Finding(
            "note",
            "checkpoint-not-whole",
            f"a checkpoint is empty or lacks parts and is not used: {spans(f.version for f in broken)}",
            versions=tuple(sorted({f.version for f in broken})),
            files=tuple(f.key for f in broken),
        )


def _hint(files: Sequence[LogFile], hint: int | None) -> Iterable[Finding]:
    if hint is not None and not any(c[0].version == hint for c in complete_checkpoints(files)):
        yield Finding(
            "note",
            "hint-leads-nowhere",
            f"_last_checkpoint names version {hint}, for which there is no complete checkpoint; the log is listed instead",
            versions=(hint,),
            files=(names.LAST_CHECKPOINT,),
        )
