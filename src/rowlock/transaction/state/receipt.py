"""Receipts: what a transaction did, which commits of others it met, and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rowlock import clock, display
from rowlock.conflict.value import Conflict, SupersededRow, Work

__all__ = ["Conflict", "Receipt", "Reruns", "Rewritten", "Stopwatch", "SupersededRow"]

_NAMED = 20
_SHOWN = 4
"""Winners that the text of a receipt names."""
_ROWS = {
    **dict.fromkeys(("numTargetRowsUpdated", "numUpdatedRows"), "updated"),
    **dict.fromkeys(("numTargetRowsDeleted", "numDeletedRows"), "deleted"),
    **dict.fromkeys(("numTargetRowsInserted",), "inserted"),
    **dict.fromkeys(("numTargetRowsAppended",), "appended"),
}
"""Metrics that count rows, and the words for them."""
_FILES = {
    "added": ("numAddedFiles", "numTargetFilesAdded", "numFiles", "numRestoredFiles"),
    "removed": ("numRemovedFiles", "numTargetFilesRemoved"),
    "deletion vector written": ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded"),
}
_RECORDED = 100
"""Rows that a commit names one by one; a receipt holds them all."""

_PLURALS = {"deletion vector written": "deletion vectors written"}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The files that a committed compaction replaced, and their replacements; bins that it gave up do not count.

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


@dataclass(frozen=True, slots=True, repr=False)
class Receipt:
    """What a transaction did, what it met, and what that cost.

    Printed, it is about four lines for people; in a notebook, a small table.  Amounts are of this transaction alone, also where several share a version.

    Attributes:
        version: The version that was committed; None where nothing was changed, and while a transaction's block is open.
        read_version: The version that the transaction began with; -1 where it created the table.
        txn_id: The id that the commit carries as `txnId`.
        operation: Delta's name of it: WRITE, UPDATE, MERGE, ...
        attempts: How often it tried to put its commit.
        rounds: How often it was rebased over the commits of others.
        rows_rebased: Rows that rebases looked at.
        bytes_rebased: The bytes that they read for that.
        rows_dropped: Staged rows that were dropped, because others had changed what they came from.
        rows_followed: Rows that were carried to where others had only moved them, without being read: a compaction, under `lockless` also copy on write.
        already_committed: Whether the application's step was in the log before; nothing is committed then.
        group_size: How many transactions share the version.
        overwritten: Rows in which a lockless commit met a winner.
        conflicts: The commits of others that mattered to it, a `Conflict` for each.
        metrics: Delta's operation metrics: rows, files and bytes.
        seconds: Seconds by phase: plan, lock (in line for a lease), stage, wait (for other threads, and for another's turn), rebase, write, put.
        rewritten: What a compaction put in place of what; None for all else.
        ways: How UPDATE, DELETE and MERGE found and wrote their rows, in words: on the driver, or by Spark jobs, and the limit that decided.

    Examples:
        >>> print(rowlock.append(path, pa.table({"id": [4, 5]})))
        WRITE: committed as version 1
          rows       2 written
          files      1 added
          conflicts  none
          seconds    ...
          txnId      ...
    """

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
    ways: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return display.aligned(self._title(), self._facts())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html_table(self._title(), self._facts())

    def _title(self) -> str:
        """One line: the operation, and the version that it became or why it became none."""
        if self.version is not None:
            others = f", shared with {display.count(self.group_size - 1, 'other append')}" if self.group_size > 1 else ""
            read = f"; it had read version {self.read_version}" if 0 <= self.read_version < self.version - 1 else ""
            return f"{self.operation}: committed as version {self.version}{others}{read}"
        if self.already_committed:
            return f"{self.operation}: not committed again, this step of the application is in the log already"
        return f"{self.operation}: no version, nothing was committed"

    def _facts(self) -> display.Facts:
        """The lines below the title, by name."""
        rows = [f"{self.metrics[name]:,} {word}" for name, word in _ROWS.items() if self.metrics.get(name)]
        if "numFiles" in self.metrics:  # an append or an overwrite
            rows = [f"{self.metrics.get('numOutputRows', 0):,} written"]
        files = [
            display.count(number, word, _PLURALS.get(word, word)) for word, names in _FILES.items() if (number := sum(self.metrics.get(n, 0) for n in names))
        ]
        spent = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.seconds.items() if seconds >= 0.005)
        return [
            ("rows", [", ".join(rows)] if rows else []),
            ("files", [", ".join(files)] if files else []),
            ("way", list(self.ways)),
            ("conflicts", self._met()),
            ("seconds", [f"{sum(self.seconds.values()):.2f}" + (f" ({spent})" if spent else "")] if self.seconds else []),
            ("txnId", [self.txn_id] if self.txn_id else []),
        ]

    def _met(self) -> list[str]:
        """What others had committed meanwhile, and what that cost; one line."""
        if self.version is None and not self.conflicts:
            return []
        winners = [f"version {c.version} ({c.operation})" if c.operation else f"version {c.version}" for c in self.conflicts[:_SHOWN]]
        if len(self.conflicts) > _SHOWN:
            winners.append(f"{len(self.conflicts) - _SHOWN:,} more")
        cost = [
            f"{display.count(self.rows_rebased, 'row')} rebased ({display.size(self.bytes_rebased)})" if self.rows_rebased else "",
            f"{display.count(self.rows_dropped, 'staged row')} dropped" if self.rows_dropped else "",
            f"{display.count(self.rows_followed, 'row')} found where others had moved them" if self.rows_followed else "",
            f"{display.count(len(self.overwritten), 'row')} in which both changed something" if self.overwritten else "",
            f"{self.attempts} tries" if self.attempts > 1 else "",
        ]
        return ["; ".join([", ".join(winners) or "none", *filter(None, cost)])]

    def record(self) -> dict[str, Any]:
        """The receipt as plain JSON values, as it goes into the commit (commitInfo's field `rowlock`).  Needs no Spark.

        Returns:
            A dict without what commitInfo has fields of its own for; at most 20 conflicts and 100 overwritten rows.

        Examples:
            >>> rowlock.append(path, pa.table({"id": [4, 5]})).record()["rows_dropped"]
            0
        """
        own = ("version", "operation", "txn_id", "metrics", "read_version", "group_size", "rewritten")  # commitInfo has fields for these
        out = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        out["conflicts"] = [c.record() for c in self.conflicts[:20]]
        out["overwritten"] = [{k: v for k, v in asdict(row).items() if v} for row in self.overwritten[:_RECORDED]]
        out["rows_overwritten"] = len(self.overwritten)
        out["seconds"] = {k: round(v, 4) for k, v in self.seconds.items()}
        return out


@dataclass(frozen=True, slots=True)
class Reruns:
    """The failed attempts of a statement that was run again: their txnIds, and the work they had done."""

    of: tuple[str, ...] = ()
    work: Work = field(default_factory=Work)

    def after(self, txn_id: str, more: Work) -> Reruns:
        """The same with one more failed attempt, which had done `work`."""
        work = Work(rows=self.work.rows + more.rows, size_bytes=self.work.size_bytes + more.size_bytes, seconds=round(self.work.seconds + more.seconds, 4))
        return Reruns((*self.of, txn_id), work)

    def record(self) -> dict[str, Any]:
        """Plain values for commitInfo; empty where the first attempt landed."""
        return {"rerun_of": list(self.of[-_NAMED:]), "reruns": len(self.of), "thrown_away": asdict(self.work)} if self.of else {}


class Stopwatch:
    """Sums seconds by phase.  `began_ms`: when it was made, in milliseconds since the epoch."""

    def __init__(self) -> None:
        self.seconds, self.began_ms = dict[str, float](), clock.now_ms()

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def waits(self) -> Callable[[], None]:
        """A function that ends a wait which begins now: adds its seconds, without those that another thread has added meanwhile for work that it did here."""
        start_s, counted = clock.monotonic_s(), sum(self.seconds.values())
        return lambda: self.add("wait", max(0.0, clock.monotonic_s() - start_s - (sum(self.seconds.values()) - counted)))

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Adds the seconds of a block, also of one that raises."""
        start_s = clock.monotonic_s()
        try:
            yield
        finally:
            self.add(phase, clock.monotonic_s() - start_s)
