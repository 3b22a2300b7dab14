"""Checks the demo's final table against a serial replay of the same statements in log order.

The replay is a dictionary from key to row and shares no code with the engine: a merge looks up keys, a delete
compares values.  If the table has exactly these rows, the commits are serializable in the order of the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rowlock.cli.demo.load import Load

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the check; `problems` is empty if the table is right."""

    rows: int
    commits: int
    problems: tuple[str, ...]


class Replay:
    """The table's rows in memory, changed by one statement after the other."""

    def __init__(self, load: Load, initial: pl.DataFrame) -> None:
        self.load, self.columns = load, initial.columns
        self._key = [initial.columns.index(name) for name in load.key]
        self._sums = [initial.columns.index(name) for name in load.sums]
        self.rows = {self.key_of(row): row for row in initial.iter_rows()}

    def key_of(self, row: Row) -> Row:
        """The values of the key columns."""
        return tuple(row[place] for place in self._key)

    def apply(self, record: Mapping[str, Any]) -> None:
        """Applies one committed statement."""
        if record["kind"] == "merge":
            for row in self.load.batch(record["stream"], record["number"]).select(self.columns).iter_rows():
                key = self.key_of(row)
                self.rows[key] = self._matched(self.rows[key], row) if key in self.rows else row
        elif record["kind"] == "delete":
            values = [(self.columns.index(name), value) for name, value in self.load.erasure(record["number"]).values]
            for key in [key for key, row in self.rows.items() if all(row[place] == value for place, value in values)]:
                del self.rows[key]

    def _matched(self, old: Row, new: Row) -> Row:
        if not self._sums:
            return new
        out = list(new)
        for place in self._sums:
            out[place] = old[place] + new[place]
        return tuple(out)

    def differences(self, table: pl.DataFrame) -> list[str]:
        """How the table's rows differ from these, with one example of each kind of difference."""
        left = dict.fromkeys(self.rows)
        examples: dict[str, list[str]] = {"are doubled": [], "should not be there": [], "are wrong": [], "are missing": []}
        for row in table.select(self.columns).iter_rows():
            key = self.key_of(row)
            if key not in self.rows:
                examples["should not be there"].append(str(row))
            elif key not in left:
                examples["are doubled"].append(str(row))
            else:
                del left[key]
                if row != self.rows[key] and not same(row, self.rows[key]):
                    examples["are wrong"].append(f"{row} in place of {self.rows[key]}")
        examples["are missing"] = [str(self.rows[key]) for key in left]
        return [f"{len(rows):,} rows {what}, such as {rows[0]}" for what, rows in examples.items() if rows]


def check(load: Load, *, initial: pl.DataFrame, final: pl.DataFrame, records: Iterable[Mapping[str, Any]], versions: Sequence[int]) -> Verdict:
    """Compares the rows `final` with a replay of the writers' `records` on the rows `initial`.

    `versions` are the versions in the log since the table was created; each record has the version that its statement became.
    """
    by_version: dict[int, list[Mapping[str, Any]]] = {}
    for record in records:
        by_version.setdefault(record["version"], []).append(record)
    problems = [f"version {v} was reported as theirs by {len(r)} writers" for v, r in sorted(by_version.items()) if len(r) > 1]
    problems += [f"version {v} is in the log, but no writer reported it" for v in sorted(set(versions) - set(by_version))]
    problems += [f"version {v} was acknowledged and is not in the log" for v in sorted(set(by_version) - set(versions))]
    replay = Replay(load, initial)
    for version in sorted(by_version):
        replay.apply(by_version[version][0])
    return Verdict(rows=len(final), commits=len(versions), problems=(*problems, *replay.differences(final)))


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, also inside of lists and structs; NaN equals NaN."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)
