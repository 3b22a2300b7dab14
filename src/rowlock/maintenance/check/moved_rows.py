"""Rows that a commit moved into another partition while it said that no data changed.  Pure.

Compaction leaves every row in its partition: partition values that only its new files have were false, and
so were rows that are fewer in one partition and more in another.  Seen are the commits given.  A wrong value that
was written with the row leaves no such trace.
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
"""The partition of a file as the log spells it, and how many rows live in it; None where that is not said."""


class MovedRows:
    """Takes commits; says which of them moved rows to other partitions."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[list[_Counted], list[_Counted]]] = {}
        self._rows: dict[str, int] = {}

    def take(self, commit: Commit) -> None:
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
        types = {f.physical_name: f.type for f in schema.fields}
        moved = {v: wrong for v, (before, after) in self._seen.items() if (wrong := _differing(_by_partition(before, types), _by_partition(after, types)))}
        if moved:
            named = min(next(iter(moved.values())))
            yield Finding(
                "damage",
                "rows-in-another-partition",
                f"{spans(moved)} says that no data changed, and has other rows in a partition than before: {named}",
                "Compare this partition at the version before (time travel), and have its rows written again",
                tuple(moved),
            )


def _by_partition(files: Iterable[_Counted], types: Mapping[str, DataType]) -> dict[str, int | None] | None:
    """Rows by partition, in the one spelling of its values, None for a number that is not known; None where a value cannot be told."""
    out: dict[str, int | None] = {}
    for partition, rows in files:
        name = None if partition is None else _spelled(partition, types)
        if name is None:
            return None
        so_far = out.get(name, 0)
        out[name] = None if rows is None or so_far is None else so_far + rows
    return out


def _spelled(partition: _Partition, types: Mapping[str, DataType]) -> str | None:
    try:
        return partition_directory({name: serialize(parse_stored(text, types[name]), types[name]) for name, text in partition})
    except (CorruptLog, InvalidInput, KeyError):
        return None  # a time without a zone, or a column of an older schema


def _differing(before: Mapping[str, int | None] | None, after: Mapping[str, int | None] | None) -> list[str]:
    """Partitions that certainly have other rows than before."""
    if before is None or after is None:
        return []
    known = (name for name in {*before, *after} if (a := before.get(name, 0)) is not None and (b := after.get(name, 0)) is not None and a != b)
    return sorted({*known, *(name for name in after if name not in before)})
