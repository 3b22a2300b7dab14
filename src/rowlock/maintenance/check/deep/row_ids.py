"""Compares the row ids that files begin at with each other and with the table's high-water mark.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rowlock.exceptions import CorruptLog
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.deep.contents import Contents
from rowlock.maintenance.check.finding import Finding
from rowlock.protocol import row_tracking


@dataclass(frozen=True, slots=True)
class RowIds:
    """What is wrong with the row ids of a version; `highest` is the highest id of a live file's rows, -1 where there is none."""

    bare: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    mark: int | None = None
    highest: int = row_tracking.NO_MARK

    @property
    def mark_is_low(self) -> bool:
        """Whether rows that are there have ids above the mark, so that new rows would get the same ones."""
        return self.mark is None or self.mark < self.highest

    def findings(self) -> Iterator[Finding]:
        """At most one finding of each kind."""
        if self.bare:
            yield Finding(
                "damage",
                "row-ids-missing",
                f"data files have no row ids though the table gives every row one ({len(self.bare):,}): {self.bare[0]}",
                files=self.bare,
            )
        if self.doubled:
            yield Finding(
                "damage",
                "row-ids-doubled",
                f"data files have the same row ids for different rows ({len(self.doubled):,}): {', '.join(self.doubled[:3])}",
                "RESTORE the table to a version before, or rewrite its rows into a new table: which row had an id first is not known",
                files=self.doubled,
            )
        if self.mark_is_low:
            said = "cannot be read" if self.mark is None else f"is {self.mark:,}"
            yield Finding(
                "damage",
                "row-id-mark-low",
                f"the table's row id high-water mark {said}, and there are row ids up to {self.highest:,}: new rows would get them again",
                "rowlock repair raises it",
            )


def row_ids(head: Snapshot, contents: Iterable[Contents]) -> RowIds:
    """What is wrong with the row ids of the newest version, by the number of rows that its files really hold."""
    if not row_tracking.assigns(head.protocol, head.metadata):
        return RowIds(mark=row_tracking.NO_MARK)
    bare, paths, starts, counts = list[str](), [], [], []
    enabled = row_tracking.is_enabled(head.protocol, head.metadata)
    for found in contents:
        if found.file.base_row_id is None:
            bare += [found.file.path] if enabled else []  # before it is enabled, files of old have none
        elif not found.unreadable and found.num_rows:
            paths.append(found.file.path)
            starts.append(found.file.base_row_id)
            counts.append(found.num_rows)
    order = np.argsort(np.array(starts, np.int64), kind="stable")
    first, after = np.array(starts, np.int64)[order], (np.array(starts, np.int64) + np.array(counts, np.int64))[order]
    reached = np.maximum.accumulate(after) if len(after) else after
    clash = np.flatnonzero(first[1:] < reached[:-1]) + 1
    try:
        mark: int | None = row_tracking.high_water_mark(head.domains, head.table)
    except CorruptLog:
        mark = None
    return RowIds(tuple(bare), tuple(paths[order[n]] for n in clash), mark, int(reached[-1]) - 1 if len(reached) else row_tracking.NO_MARK)
