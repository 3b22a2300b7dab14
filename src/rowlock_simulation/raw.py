"""Rows and row ids of every version, folded commit by commit out of the raw log; it shares with the code under test the parsers of the formats alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from pyroaring import BitMap64

from rowlock.protocol import deletion_vector as vectors
from rowlock.protocol.actions import AddFile, Commit, CommitInfo
from rowlock.protocol.commits import parse_commit
from rowlock.protocol.schema import parse_schema
from rowlock_simulation.feed import Bag, Feed
from rowlock_simulation.foreign import NAME
from rowlock_simulation.history import History
from rowlock_simulation.roles import APPENDS, UPSERTS

TOMBSTONES = "Deletion Vector Tombstones"


def commits_of(history: History) -> list[Commit]:
    by_version = {int(key.rpartition("/")[2][:20]): data for key, data in history.commits.items()}
    return [_named(parse_commit(v, by_version[v], "simulated")) for v in sorted(by_version)]


def _named(commit: Commit) -> Commit:
    """The commit with the transaction of another engine that gives its commits no names."""
    by = commit.info.raw.get("operationParameters", {}).get(NAME) if commit.info is not None else None
    return commit if by is None or commit.info is None else replace(commit, info=CommitInfo({**commit.info.raw, "txnId": by}))


class Raw:
    """The rows of the table, folded commit by commit out of the raw actions."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rows: dict[str, tuple[str | None, list[Mapping[str, Any]]]] = {}
        self._ids: dict[str, list[tuple[int, int]]] = {}
        self._id_column: str | None = None
        self._partitions, self._ever = set[str](), set[str]()
        self.went: dict[str, list[Mapping[str, Any]]] = {}
        self.came: dict[str, list[Mapping[str, Any]]] = {}
        """The rows of the files that the last commit removed and added."""
        self._stored_before: tuple[str, ...] = ()
        self.stored_as: dict[str, str] = {}
        """The name in data files of each column."""

    def apply(self, commit: Commit) -> list[str]:
        """Takes a commit in; returns what is wrong with its actions (I4)."""
        wrong, self._stored_before = list[str](), tuple(self.stored_as.values())
        if commit.metadata is not None:
            self.stored_as = {f.name: f.physical_name for f in parse_schema(commit.metadata.schema_string).fields}
            self._partitions = {self.stored_as[c] for c in commit.metadata.partition_columns}
            self._id_column = commit.metadata.configuration.get("delta.rowTracking.materializedRowIdColumnName")
        self.went = {r.path: self._rows[r.path][1] for r in commit.removes if r.data_change and r.path in self._rows}
        removes = Counter(r.path for r in commit.removes)
        adds = Counter(a.path for a in commit.adds)
        if any(n > 1 for n in (*removes.values(), *adds.values())):
            wrong.append(f"I4: version {commit.version} adds or removes a path twice")
        for remove in commit.removes:
            if remove.path not in self._rows:
                if commit.info is None or commit.info.operation != TOMBSTONES:  # which names files of deletion vectors that older versions need
                    wrong.append(f"I4: version {commit.version} removes {remove.path}, which is not there")
            elif self._rows[remove.path][0] != remove.key[1]:
                wrong.append(f"I4: version {commit.version} removes {remove.path} with another vector than lives")
            self._rows.pop(remove.path, None)
            self._ids.pop(remove.path, None)
        for add in commit.adds:
            if add.partition_values.keys() != self._partitions:
                wrong.append(f"protocol: version {commit.version} adds {add.path} with values of the partition columns {[*add.partition_values]}")
            if add.path in self._rows and (add.data_change or self._rows[add.path][0] != add.key[1]):  # else it is given row ids
                wrong.append(f"I4: version {commit.version} adds {add.path}, which lives")
            brings_back = commit.info is not None and commit.info.operation == "RESTORE"  # under another name, with the versions that rows have
            if not brings_back and add.path not in self._ever and add.default_row_commit_version not in (None, commit.version):
                wrong.append(f"I6: version {commit.version} adds {add.path}, whose rows are to be of version {add.default_row_commit_version}")
            self._ever.add(add.path)
            self._rows[add.path] = add.key[1], self._read(add)
        self.came = {a.path: self._rows[a.path][1] for a in commit.adds if a.data_change}
        return wrong

    def _read(self, add: AddFile) -> list[Mapping[str, Any]]:
        """The living rows of a file, by the names in it: a column may be renamed later."""
        partition = {c: None if value is None else int(value) for c, value in add.partition_values.items()}
        stored = orjson.loads(self._history.objects[add.path])
        dead = self._dead(add)
        self._ids.pop(add.path, None)
        if self._id_column is not None and add.base_row_id is not None:
            self._ids[add.path] = [(row.get(self._id_column, add.base_row_id + n), row[self.stored_as["k"]]) for n, row in enumerate(stored) if n not in dead]
        return [{**row, **partition} for n, row in enumerate(stored) if n not in dead]

    def _dead(self, add: AddFile) -> BitMap64:
        descriptor = add.deletion_vector
        if descriptor is None:
            return BitMap64()
        return vectors.read_inline(descriptor) if descriptor.is_inline else vectors.read_from_file(descriptor, self._history.objects[descriptor.path or ""])

    def feed(self, commit: Commit) -> Feed:
        """What the change data feed says of the commit that was taken in last."""
        return Feed(commit, tuple(self.stored_as.values()), self._history.objects.__getitem__, self.went, self.came, before=self._stored_before)

    def ids(self) -> list[tuple[int, int]]:
        """(row id, key) of every row, where the table tracks its rows."""
        return [found for ids in self._ids.values() for found in ids]

    def bag(self) -> Bag:
        return self.bag_of({path: rows for path, (_, rows) in self._rows.items()})

    def bag_of(self, files: Mapping[str, Sequence[Mapping[str, Any]]]) -> Bag:
        """The rows of some files."""
        names = tuple(self.stored_as.values())
        return Counter(tuple(map(row.get, names)) for rows in files.values() for row in rows)


class RowIds:
    """Who the rows of a table are, version by version."""

    def __init__(self, forgotten_at: int = 0) -> None:
        self._key_of: dict[int, int] = {}
        self._id_of: dict[int, int] = {}
        self.forgotten_at = forgotten_at
        """The version at which `forget_rows` was last called."""

    def forget_rows(self, version: int) -> None:
        """Takes in that from a version on other rows have the keys, and other ids."""
        self._id_of.clear()
        self.forgotten_at = version

    def wrong(self, version: int, ids: Sequence[tuple[int, int]]) -> list[str]:
        """What is wrong with the (id, key) of each row: no two rows have one id, now or ever, and a row that is never deleted keeps its own (I6)."""
        if len({row_id for row_id, _ in ids}) != len(ids):
            return [f"I6: two rows of version {version} have one id"]
        for row_id, key in ids:
            lasts = key < UPSERTS or key >= APPENDS
            if self._key_of.setdefault(row_id, key) != key or (lasts and self._id_of.setdefault(key, row_id) != row_id):
                had = f"it had {self._id_of.get(key)}, and that id was of {self._key_of[row_id]}"
                return [f"I6: the row {key} of version {version} has the id {row_id}; {had}"]
        return []


def rows_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Bag:
    """Rows without order."""
    return Counter(tuple(map(row.__getitem__, columns)) for row in rows)


def text_of(bag: Bag) -> str:
    return ", ".join(f"{n} x {row}" if n > 1 else str(row) for row, n in sorted(bag.items(), key=str)[:5]) or "nothing"
