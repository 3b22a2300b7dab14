"""The actions of a Delta commit as immutable values.

`commits` parses and serializes them.  Paths are decoded (see `paths`).  A logical file is identified by
(path, deletion vector id), and at most one logical file per path is live (I4).  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from rowlock.protocol.deletion_vector import DeletionVectorDescriptor

__all__ = [
    "Action", "AddCdcFile", "AddFile", "Commit", "CommitInfo", "DeletionVectorDescriptor", "DomainMetadata", "FileKey", "Metadata", "Placement",
    "Protocol", "RemoveFile", "SetTransaction", "placement_of",
]  # fmt: skip

FileKey = tuple[str, str | None]
"""(path, deletion vector id): the identity of a logical file."""

_OF_BOTH = "path", "partition_values", "size_bytes", "deletion_vector", "stats", "tags", "base_row_id", "default_row_commit_version", "log_path"
"""What a remove says of its file as the add did."""
_NUM_RECORDS_FIRST = re.compile(r'^\s*\{\s*"numRecords"\s*:\s*(\d+)\s*[,}]')


@dataclass(frozen=True, slots=True)
class AddFile:
    """An `add` action: a live data file.  Its deletion vector, if any, marks the deleted rows."""

    path: str
    partition_values: Mapping[str, str | None] = field(hash=False)
    size_bytes: int
    modification_time_ms: int
    data_change: bool
    stats: str | None
    deletion_vector: DeletionVectorDescriptor | None = None
    tags: Mapping[str, str] | None = field(default=None, hash=False)
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None
    log_path: str | None = field(default=None, compare=False)
    """The path as spelled in the log, if another writer spelled it differently from `paths.encode`; else None."""

    @property
    def key(self) -> FileKey:
        """The identity of the logical file: (path, deletion vector id)."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def content(self) -> tuple[str, int, int]:
        """Cache key of the file's rows, together with the table's id.

        The path alone is not enough: in a recreated table the same path may name another file.
        """
        return self.path, self.size_bytes, self.modification_time_ms

    @property
    def dead_rows(self) -> int:
        """How many rows the deletion vector marks, as the log says."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    @property
    def num_records(self) -> int | None:
        """The physical number of rows, deleted ones included; None if the statistics lack it."""
        if not self.stats:
            return None
        if first := _NUM_RECORDS_FIRST.match(self.stats):
            return int(first[1])
        value = self.parsed_stats().get("numRecords")
        return value if isinstance(value, int) else None

    def physical_rows(self, count: Callable[[AddFile], int]) -> int:
        """`num_records`, or what `count` counts in a file whose statistics lack it."""
        return count(self) if (known := self.num_records) is None else known

    def parsed_stats(self) -> dict[str, Any]:
        """The statistics as a dict; empty if there are none or they cannot be parsed (statistics are only hints)."""
        try:
            value = orjson.loads(self.stats) if self.stats else {}
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def removed(self, deletion_timestamp_ms: int, data_change: bool) -> RemoveFile:
        """The `remove` action of exactly this logical file: its path and its current deletion vector (I4)."""
        same = {name: getattr(self, name) for name in _OF_BOTH}
        return RemoveFile(deletion_timestamp_ms=deletion_timestamp_ms, data_change=data_change, extended_file_metadata=True, **same)


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A `remove` action: a logical file that was deleted.  Partition values and size are set only with `extended_file_metadata`."""

    path: str
    deletion_timestamp_ms: int | None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = field(default=None, hash=False)
    size_bytes: int | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    stats: str | None = None
    tags: Mapping[str, str] | None = field(default=None, hash=False)
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    log_path: str | None = field(default=None, compare=False)

    @property
    def key(self) -> FileKey:
        """The identity of the logical file: (path, deletion vector id)."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


@dataclass(frozen=True, slots=True)
class Metadata:
    """A `metaData` action: the table's id, schema, partitioning and properties.  `schema_string` is JSON (see `schema`)."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict, hash=False)
    created_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Protocol:
    """A `protocol` action: what readers and writers must support.  Feature lists are None below reader version 3 and writer version 7."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """A `txn` action: the last version that an application (`app_id`) has committed."""

    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """A `domainMetadata` action: a named configuration; `removed` deletes it."""

    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """The `commitInfo` action: who committed and how, as the writer claims.  Only the claims below are used by code."""

    raw: Mapping[str, Any] = field(hash=False)

    @property
    def txn_id(self) -> str | None:
        """The transaction id of the writer; None if it recorded none."""
        return _text(self.raw.get("txnId"))

    @property
    def operation(self) -> str | None:
        """The name of the operation, such as WRITE or MERGE; None if it is not recorded."""
        return _text(self.raw.get("operation"))

    @property
    def timestamp_ms(self) -> int | None:
        """The in-commit timestamp where there is one, else the writer's clock."""
        for name in ("inCommitTimestamp", "timestamp"):
            value = self.raw.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return int(value)
        return None

    @property
    def is_blind_append(self) -> bool:
        """Whether the writer claims so; without a claim the writer may have read the table."""
        return self.raw.get("isBlindAppend") is True

    @property
    def rowlock(self) -> dict[str, Any] | None:
        """Rowlock's own record in the commitInfo; None for commits of other engines."""
        value = self.raw.get("rowlock")
        return value if isinstance(value, dict) else None

    def listed(self, name: str) -> list[dict[str, Any]]:
        """The objects in a list of Rowlock's own record; empty where there is no such list."""
        found = (self.rowlock or {}).get(name)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def versions(self, name: str, key: str) -> list[tuple[str, int]]:
        """(table's path, version under `key`) for each object in a list of Rowlock's own record."""
        return [(r["table"], r[key]) for r in self.listed(name) if isinstance(r.get("table"), str) and isinstance(r.get(key), int)]

    @property
    def together(self) -> list[tuple[str, int]]:
        """The versions of the transaction over several tables that this commit is part of, by the tables' paths; empty for any other commit."""
        return self.versions("tables", "version")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class AddCdcFile:
    """A `cdc` action: a change data file, as raw JSON."""

    raw: Mapping[str, Any] = field(hash=False)


Action: TypeAlias = AddFile | RemoveFile | Metadata | Protocol | SetTransaction | DomainMetadata | AddCdcFile
"""Every action of a commit except commitInfo."""


@dataclass(frozen=True, slots=True)
class Commit:
    """All actions of one version.

    `size_bytes` is the size of the commit file; `tag` is the store's tag of it (see `ObjectStore.tag`), which
    distinguishes the file from another one that may later be in its place.
    """

    version: int
    info: CommitInfo | None = None
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    txns: tuple[SetTransaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    cdc: tuple[AddCdcFile, ...] = ()
    size_bytes: int = 0
    tag: str | None = field(default=None, compare=False, repr=False)

    @property
    def txn_id(self) -> str | None:
        """The transaction id of the writer; None if it recorded none."""
        return self.info.txn_id if self.info else None

    @property
    def txn_ids(self) -> frozenset[str]:
        """The txnIds that this version committed: its writer's, and those of the members of a group commit."""
        members = [m.get("txn_id") for m in self.info.listed("members")] if self.info else []
        return frozenset(t for t in (self.txn_id, *members) if isinstance(t, str))

    @property
    def aborted(self) -> frozenset[str]:
        """The txnIds that an abort marker in this version declares as given up: no later version may commit them."""
        listed = ((self.info.rowlock if self.info else None) or {}).get("aborted")
        return frozenset(t for t in listed if isinstance(t, str)) if isinstance(listed, list) else frozenset()

    @property
    def paths(self) -> set[str]:
        """Every path that the commit adds or removes."""
        return {a.path for a in self.adds} | {r.path for r in self.removes}


_INTO, _INFO, _WRITER, _FORMAT = "compactedInto", "compactionInfo", "rowlock", 2
"""The tags of a remove that hold a placement."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a compaction put the rows of a removed file: `rows` of them are in the file `into`, from position `offset`.

    The rows that are live under the remove's deletion vector stand there contiguously, in their old order.  Only placements written by Rowlock in the
    current format are trusted: the first format assumed the row order of large outputs, which was wrong in partitioned tables.  Rows without a
    trusted placement are rebased, which only costs time.
    """

    into: str
    offset: int
    rows: int

    def tags(self) -> dict[str, str]:
        """The placement as tags of a remove action."""
        info = {"writer": _WRITER, "format": _FORMAT, "offset": self.offset, "rows": self.rows}
        return {_INTO: self.into, _INFO: orjson.dumps(info).decode()}


def placement_of(remove: RemoveFile) -> Placement | None:
    """The placement that a remove's tags describe; None if there is none that can be trusted."""
    tags: Mapping[str, str] = remove.tags or {}
    if _INTO not in tags or _INFO not in tags:
        return None
    try:
        info = orjson.loads(tags[_INFO])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(info, dict) or info.get("writer") != _WRITER or info.get("format") != _FORMAT:
        return None
    offset, rows = info.get("offset"), info.get("rows")
    return Placement(tags[_INTO], offset, rows) if isinstance(offset, int) and isinstance(rows, int) else None
