"""Carries out the transactions of one table one after the other: its rows in every version, also while a transaction over several tables is open in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.protocol.actions import Commit, FileKey
from rowlock_simulation.feed import Bag
from rowlock_simulation.memory.sql.script import Script
from rowlock_simulation.raw import rows_of
from rowlock_simulation.responses import Folded
from rowlock_simulation.roles import COLUMNS
from rowlock_simulation.serial import Row, SerialTable


@dataclass
class Log:
    """One table: its commits, its rows in each version, and what was prepared in it.

    prepared  for each transaction that was decided the version that prepared it and the one that closed it
    """

    number: int
    root: str
    commits: list[Commit]
    bags: list[Bag] = field(default_factory=list)
    folded: Folded = field(default_factory=Folded)
    prepared: dict[str, tuple[int, int]] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)

    def window(self, version: int) -> str | None:
        """The transaction that is prepared in a version and not closed yet."""
        return next((t for t, (p, r) in self.prepared.items() if p <= version < r), None)

    def brings_back(self, version: int, before: int) -> bool:
        """Whether a version adds a file, or the rows of one, that versions up to `before` have added and removed, also under another name."""
        gone, live = set[FileKey](), dict[str, int]()
        for commit in self.commits[: before + 1]:
            gone = (gone | {r.key for r in commit.removes}) - {a.key for a in commit.adds}
            removed = {r.path for r in commit.removes}
            live = {path: dead for path, dead in live.items() if path not in removed} | {a.path: a.dead_rows for a in commit.adds}
        added = self.commits[version].adds
        copied = any(a.path not in live and a.default_row_commit_version is not None and a.default_row_commit_version <= before for a in added)
        return copied or any(a.dead_rows < live.get(a.path, 0) for a in added) or not gone.isdisjoint(a.key for a in added)


class Replayed:
    """One table, transaction by transaction: its rows, and those that are visible while a transaction is open in it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.table = SerialTable(COLUMNS)
        self._written: dict[int, int] = {}
        """For each key the version that wrote its row."""
        self._visible, self._visibly_written = SerialTable(COLUMNS), dict[int, int]()
        self._base, self._alone, self._alone_written = dict[int, int](), list[Row](), dict[int, int]()
        """While a transaction is open: `_written` before it, the rows after it alone, and the versions that wrote these."""
        self._after: dict[int, tuple[Bag, dict[int, int]]] = {}

    def take(self, txn_id: str, version: int, scripts: Sequence[Script], *, restored: int | None = None) -> None:
        """Does what a transaction does here, at its place; `restored`: the version that it brings back."""
        window, open_ = self._log.prepared.get(txn_id), self._log.window(version)
        if window is not None:
            self._visible.rows, self._visibly_written, self._base = list(self.table.rows), self._written, self._written
            self._written = self._do(self.table, self._written, window[1], scripts, restored)
            self._alone, self._alone_written = list(self.table.rows), self._written
            self._note(window[1], self.table, self._written)
        elif open_ is None:
            self._written = self._do(self.table, self._written, version, scripts, restored)
            self._note(version, self.table, self._written)
        else:
            self._visibly_written = self._do(self._visible, self._visibly_written, version, scripts, restored)
            self._note(version, self._visible, self._visibly_written)
            if restored is not None and self._log.brings_back(version, self._log.prepared[open_][0]):  # it undoes the transaction before it
                self._base, self._alone, self._alone_written = self._visibly_written, list(self._visible.rows), self._visibly_written
            changed = {k for k in self._base.keys() | self._visibly_written.keys() if self._base.get(k) != self._visibly_written.get(k)}
            kept: list[Row] = [row for row in self._alone if row["k"] not in changed]
            self.table.rows = kept + [row for row in self._visible.rows if row["k"] in changed]
            self._written = {row["k"]: (self._visibly_written if row["k"] in changed else self._alone_written)[row["k"]] for row in self.table.rows}
            self._note(self._log.prepared[open_][1], self.table, self._written)

    def _do(self, table: SerialTable, written: Mapping[int, int], version: int, scripts: Sequence[Script], restored: int | None) -> dict[int, int]:
        """Does it; returns which version wrote each row that is there then."""
        if restored is not None:
            rows, there = self._after[max(v for v in self._after if v <= restored)]
            table.rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows.elements()]
            return there
        before = {row["k"]: row for row in table.rows}
        table.run(*scripts)
        return {k: written[k] if before.get(k) == row else version for row in table.rows for k in [row["k"]]}

    def _note(self, version: int, table: SerialTable, written: dict[int, int]) -> None:
        self._after[version] = rows_of(table.rows, COLUMNS), written

    def bags(self) -> list[Bag]:
        """The rows of each version of the log."""
        out: list[Bag] = []
        for version in range(len(self._log.commits)):
            out.append(self._after[version][0] if version in self._after else out[-1] if out else Counter())
        return out
