"""Finds commits with dataChange=false that moved rows into another partition.  Pure.

A compaction leaves every row in its partition.  So a commit is wrong if its new files have a partition value that its
removed files did not have, or if a partition has fewer or more rows than before.  Only the given commits are examined;
a partition value that was wrong when its row was written leaves no such trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol.actions import AddFile, Commit, RemoveFile
from rowlock.protocol.partition_values import parse_stored, serialize
from rowlock.protocol.paths import partition_directory
from rowlock.protocol.schema import DataType, StructType

_Partition = tuple[tuple[str, str | None], ...]
_Counted = tuple[_Partition | None, int | None]
"""A file's partition as the log spells it, and its number of live rows; None for what the log does not say."""


class MovedRows:
    """Collects commits, oldest first, and finds those that moved rows to other partitions."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[list[_Counted], list[_Counted]]] = {}
        self._rows: dict[str, int] = {}

    def take(self, commit: Commit) -> None:
        """Adds the next commit."""
        changes = [a.data_change for a in commit.adds] + [r.data_change for r in commit.removes]
        if commit.adds and commit.removes and not any(changes) and any(a.partition_values for a in commit.adds):
            self._seen[commit.version] = [self._counted(r) for r in commit.removes], [self._counted(a) for a in commit.adds]
        for add in commit.adds:
            if add.num_records is not None:
                self._rows[add.path] = add.num_records

    def _counted(self, file: AddFile | RemoveFile) -> _Counted:
        rows = file.num_records if isinstance(file, AddFile) else self._rows.get(file.path)
        dead = file.deletion_vector.cardinality if file.deletion_vector else 0
        return None if file.partition_values is None else tuple(sorted(file.partition_values.items())), None if rows is None else rows - dead

    def findings(self, schema: StructType) -> Iterable[Finding]:
        """At most one finding, which names all such commits; `schema` gives the types of the partition columns."""
        types = {f.physical_name: f.type for f in schema.fields}
        moved = {
            v: wrong for v, (before, after) in self._seen.items() if (wrong := _changed_partitions(_by_partition(before, types), _by_partition(after, types)))
        }
        if moved:
            named = min(next(iter(moved.values())))
            yield Finding(
                "damage",
                "rows-in-another-partition",
                f"{spans(moved)} says that no data changed (dataChange=false), yet a partition has other rows than before: {named}",
                "Compare this partition with the version before (time travel), and rewrite its rows",
                tuple(moved),
            )


def _by_partition(files: Iterable[_Counted], types: Mapping[str, DataType]) -> dict[str, int | None] | None:
    """Live rows by partition, with normalized partition values; a number is None if not known, the result if a value cannot be parsed."""
    out: dict[str, int | None] = {}
    for partition, rows in files:
        name = None if partition is None else _normalized(partition, types)
        if name is None:
            return None
        so_far = out.get(name, 0)
        out[name] = None if rows is None or so_far is None else so_far + rows
    return out


def _normalized(partition: _Partition, types: Mapping[str, DataType]) -> str | None:
    try:
        return partition_directory({name: serialize(parse_stored(text, types[name]), types[name]) for name, text in partition})
    except (CorruptLog, InvalidInput, KeyError):
        return None  # a time without a zone, or a column of an older schema


def _changed_partitions(before: Mapping[str, int | None] | None, after: Mapping[str, int | None] | None) -> list[str]:
    """Partitions whose number of rows certainly changed, and new ones."""
    if before is None or after is None:
        return []
    known = (name for name in {*before, *after} if (a := before.get(name, 0)) is not None and (b := after.get(name, 0)) is not None and a != b)
    return sorted({*known, *(name for name in after if name not in before)})
