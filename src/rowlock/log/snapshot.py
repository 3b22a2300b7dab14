"""One version of a table as an immutable value, shared freely between readers and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowlock.log.live_files import LiveFiles
from rowlock.protocol import clustering
from rowlock.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from rowlock.protocol.properties import TableProperties
from rowlock.protocol.schema import ColumnPath, DataType, StructType
from rowlock.protocol.statistics import indexed_leaves


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The state of the table at a version.

    timestamp_ms              when the version was committed: in-commit timestamp, else the writer's clock, else the file's time
    txn_id                    commitInfo.txnId of the version's commit
    commits_since_checkpoint  how many commits were replayed onto the checkpoint that this snapshot started from
    last_commit_tag           the store's tag of the version's commit file (see `ObjectStore.tag`); None if it is not known
    chain                     id of the log as this process has followed it: two snapshots with the same chain are states of one
                              table, and the commits between their versions lead from one to the other.  A log that was rewritten,
                              or that now belongs to another table, gets another chain
    domains                   metadata domains that are not removed
    stored                    the metadata as the log has it, where it says of columns what the protocol lists no feature for; None where it is `metadata`
    """

    table: str
    version: int
    protocol: Protocol
    metadata: Metadata
    schema: StructType
    files: LiveFiles
    txns: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    timestamp_ms: int
    txn_id: str | None
    commits_since_checkpoint: int
    last_commit_tag: str | None
    chain: str
    stored: Metadata | None = None

    def __repr__(self) -> str:
        return f"Snapshot({self.table!r}, version={self.version}, {len(self.files)} files)"

    @property
    def logged(self) -> Metadata:
        """The metadata as the log has it."""
        return self.stored or self.metadata

    @property
    def properties(self) -> TableProperties:
        """The table's properties, typed."""
        return TableProperties(self.metadata.configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The table's partition columns, by logical name."""
        return self.metadata.partition_columns

    @property
    def clustering_columns(self) -> tuple[ColumnPath, ...]:
        """The columns by whose values OPTIMIZE orders the rows, by logical name."""
        return clustering.logical_columns(self.domains, self.schema, self.table)

    def has_step(self, step: SetTransaction) -> bool:
        """Whether the application has committed this step, or a later one."""
        newest = self.txns.get(step.app_id)
        return newest is not None and newest.version >= step.version

    def stats_leaves(self) -> list[tuple[ColumnPath, DataType]]:
        """The leaf columns for which statistics are collected, as (physical path, type)."""
        p = self.properties
        return indexed_leaves(self.schema, num_indexed=p.num_indexed_columns, stats_columns=p.stats_columns, partition_columns=self.partition_columns)
