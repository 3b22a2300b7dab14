"""The account of a transaction: what it did, what it met, what that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rowlock.conflict.value import Conflict, SupersededRow, Work

__all__ = ["Conflict", "Receipt", "Reruns", "Rewritten", "Stopwatch", "SupersededRow"]

_NAMED = 20
_RECORDED = 100
"""Rows that a commit names one by one; a receipt holds them all."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a compaction that was committed put in place of what; bins that it gave up do not count.

    added, removed  sizes in bytes, one for each file
    partitions      in which files were removed
    bins            groups of files that were rewritten together
    vectors         deletion vectors of removed files, and `vector_rows` the rows that they had marked
    """

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    partitions: int = 0
    bins: int = 0
    vectors: int = 0
    vector_rows: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """`rows_followed` were carried to where a compaction had put them, without being read.  version is None when nothing was changed;
    `group_size` transactions share the version;
    `already_committed` says that the application's step was in the log before; `overwritten` are rows in which a lockless commit met a winner.
    `rewritten` is a compaction's, None for all else.

    seconds has the phases plan, lock (in line for a lease), stage, wait (for other threads, and for another's turn), rebase, write, put."""

    version: int | None
    read_version: int
    txn_id: str
    operation: str
    attempts: int = 0
    rounds: int = 0
    rows_rebased: int = 0
    bytes_rebased: int = 0
    rows_dropped: int = 0
    rows_followed: int = 0
    already_committed: bool = False
    group_size: int = 1
    overwritten: tuple[SupersededRow, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    rewritten: Rewritten | None = None

    def record(self) -> dict[str, Any]:
        """What goes into the commit, in commitInfo's field `rowlock`; plain JSON values."""
        out = asdict(self)
        for name in ("version", "operation", "txn_id", "metrics", "read_version", "group_size", "rewritten"):  # these are commitInfo's own fields
            out.pop(name)
        out["conflicts"] = [c.record() for c in self.conflicts[:20]]
        out["overwritten"] = [{k: v for k, v in row.items() if v} for row in out["overwritten"][:_RECORDED]]
        out["rows_overwritten"] = len(self.overwritten)
        out["seconds"] = {k: round(v, 4) for k, v in self.seconds.items()}
        return out


@dataclass(frozen=True, slots=True)
class Reruns:
    """Failed tries of one piece of work: their txnIds, and what they had done."""

    of: tuple[str, ...] = ()
    work: Work = field(default_factory=Work)

    def after(self, txn_id: str, more: Work) -> Reruns:
        """With one more, which had done this."""
        work = Work(rows=self.work.rows + more.rows, size_bytes=self.work.size_bytes + more.size_bytes, seconds=round(self.work.seconds + more.seconds, 4))
        return Reruns((*self.of, txn_id), work)

    def record(self) -> dict[str, Any]:
        """For a commit's account; nothing where it landed at the first try."""
        return {"rerun_of": list(self.of[-_NAMED:]), "reruns": len(self.of), "thrown_away": asdict(self.work)} if self.of else {}


class Stopwatch:
    """Sums seconds by phase."""

    def __init__(self, now: Any) -> None:
        self._now, self.seconds = now, dict[str, float]()

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def time(self, phase: str) -> _Lap:
        return _Lap(self, phase)


class _Lap:
    def __init__(self, watch: Stopwatch, phase: str) -> None:
        self._watch, self._phase = watch, phase

    def __enter__(self) -> None:
        self._start = self._watch._now()

    def __exit__(self, *_: object) -> None:
        self._watch.add(self._phase, self._watch._now() - self._start)
