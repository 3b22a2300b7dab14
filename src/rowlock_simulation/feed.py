"""The change data feed of a version, read as its readers do: out of the version's change data files or, where it has none, out of its adds and removes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rowlock.conflict.change_feed import CHANGE_TYPE
from rowlock.protocol import paths
from rowlock.protocol.actions import Commit
from rowlock_simulation.roles import COLUMNS

Bag = Counter[tuple[Any, ...]]
Rows = Iterable[Mapping[str, Any]]
ByPath = Mapping[str, Rows]


class Feed:
    """How often each row came or went in a version, by the type of its change."""

    def __init__(self, commit: Commit, stored: Sequence[str], read: Callable[[str], bytes], went: ByPath, came: ByPath, *, before: Sequence[str]) -> None:
        """`stored`: the names in data files of the table's columns; `went` and `came`: the rows of the files that the version removed and added; `before`: the names until then.

        Of a file that it removed and added, with another deletion vector, only the difference counts.
        """
        self.changes: dict[str, Bag] = {}
        for action in commit.cdc:
            partition = {c: None if value is None else int(value) for c, value in action.raw["partitionValues"].items()}
            for row in orjson.loads(read(paths.decode(action.raw["path"]))):
                self._take(row[CHANGE_TYPE], _bag(({**row, **partition},), stored))
        for path in went.keys() | came.keys() if not commit.cdc else ():
            gone, born = _bag(went.get(path, ()), before), _bag(came.get(path, ()), stored)
            self._take("delete", gone - born)
            self._take("insert", born - gone)

    def _take(self, kind: str, rows: Bag) -> None:
        if rows:
            self.changes.setdefault(kind, Counter()).update(rows)

    def net(self) -> Bag:
        """How many of each row came, less those that went."""
        out: Bag = Counter()
        for kind, bag in self.changes.items():
            (out.update if kind in ("insert", "update_postimage") else out.subtract)(bag)
        return out

    def differs_from(self, changes: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]], columns: Sequence[str]) -> str:
        """How it differs from these changes, (old, new) for each, None for a row that is not there; empty where they agree."""
        real: dict[str, Bag] = {}
        for old, new in changes:
            for row, alone, of_two in ((old, "delete", "update_preimage"), (new, "insert", "update_postimage")):
                if row is not None:
                    real.setdefault(alone if old is None or new is None else of_two, Counter())[tuple(row[c] for c in columns)] += 1
        return ", ".join(
            f"{kind} {self.changes.get(kind)} is {real.get(kind)}"
            for kind in sorted(self.changes.keys() | real.keys())
            if self.changes.get(kind) != real.get(kind)
        )


def _bag(rows: Rows, stored: Sequence[str]) -> Bag:
    return Counter(tuple(row.get(name) for name in stored) for row in rows)


@dataclass(frozen=True)
class VersionRows:
    """What a version shows to streams: its rows, the rows of the files that it adds, whether it removes some as well, and its change data feed."""

    rows: Bag
    came: Bag
    changes: bool
    feed: Feed | None


def cut(bag: Bag) -> Bag:
    """The rows in the columns that are always there."""
    out: Bag = Counter()
    for row, n in bag.items():
        out[row[: len(COLUMNS)]] += n
    return out
