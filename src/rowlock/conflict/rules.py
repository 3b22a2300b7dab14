"""The rules of `on_conflict=fail`, `granularity=file`: open-source Delta's, one pure function each.

A rule judges; it changes nothing.  `RULES` is the order in which they are asked, which is the order
of Delta's own checks; the first that finds something names the conflict.  The rules of metadata and
protocol hold at every policy and stand alone in `TABLE_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowlock import exceptions
from rowlock.protocol.actions import AddFile, Commit, Metadata, Protocol
from rowlock.protocol.schema import StructType
from rowlock.protocol.skipping import Predicate

HARMLESS_PROPERTIES = frozenset(
    {
        "delta.checkpointInterval",
        "delta.logRetentionDuration",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.randomizeFilePrefixes",
        "delta.randomPrefixLength",
        "delta.sampleRetentionDuration",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
    }
)
"""Properties whose change cannot make what a writer has staged wrong."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a transaction has read and writes, as far as file rules need it.

    predicates      one for each scan; None in it means the whole table
    files           paths of files that were read
    removes         paths that the transaction removes
    changes_data    False for transactions that only move rows
    app_ids         application ids that it commits
    """

    predicates: tuple[Predicate | None, ...] = ()
    files: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    changes_data: bool = True
    app_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TableState:
    """The table as the transaction read it."""

    protocol: Protocol
    metadata: Metadata
    schema: StructType
    file_matches: Callable[[Predicate | None, AddFile], bool] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Found:
    """A conflict as a value: which rule, which winner, which files."""

    rule: str
    error: type[exceptions.DeltaConcurrentModificationException]
    winner: Commit
    message: str
    remedy: str
    files: tuple[str, ...] = ()

    def exception(self, table: str, rows: tuple[Mapping[str, Any], ...] = ()) -> exceptions.DeltaConcurrentModificationException:
        info = self.winner.info
        return self.error(
            self.message,
            table=table,
            winner_version=self.winner.version,
            winner_operation=info.operation if info else None,
            winner_timestamp_ms=info.timestamp_ms if info else None,
            files=self.files,
            rows=rows,
            rule=self.rule,
            remedy=self.remedy,
        )


Rule = Callable[[Reads, Commit, TableState], "Found | None"]


def protocol_changed(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """A winner changed the protocol: what was staged may not be what writers must write now."""
    if winner.protocol is None or winner.protocol == state.protocol:
        return None
    remedy = "Run the statement again: it will see the new protocol."
    return Found("protocol", exceptions.ProtocolChangedException, winner, "The table's protocol was changed by a concurrent commit.", remedy)


def metadata_changed(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """A winner changed the schema, the partitioning or a property that tells writers what to write."""
    if winner.metadata is None or is_harmless(state.metadata, winner.metadata):
        return None
    remedy = "Run the statement again: it will see the new schema and properties."
    return Found("metadata", exceptions.MetadataChangedException, winner, "The table's schema or properties were changed by a concurrent commit.", remedy)


def is_harmless(before: Metadata, after: Metadata) -> bool:
    """Whether only properties (or words) changed that cannot make staged work wrong."""
    if (before.id, before.schema_string, before.partition_columns, before.format_provider) != (after.id, after.schema_string, after.partition_columns, after.format_provider):
        return False
    keys = before.configuration.keys() | after.configuration.keys()
    changed = {k for k in keys if before.configuration.get(k) != after.configuration.get(k)}
    return all(k in HARMLESS_PROPERTIES or k.startswith("rowlock.") or not k.startswith("delta.") for k in changed)


def same_application(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """Two commits of one application id."""
    if not (same := reads.app_ids & {t.app_id for t in winner.txns}):
        return None
    remedy = "Only one writer at a time may use an application id."
    return Found("application", exceptions.ConcurrentTransactionException, winner, f"Application id {min(same)!r} was committed concurrently.", remedy)


def added_where_read(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """A winner added rows where this transaction read."""
    if not reads.changes_data or not reads.predicates:
        return None
    hit = tuple(a.path for a in winner.adds if a.data_change and any(state.file_matches(p, a) for p in reads.predicates))
    if not hit:
        return None
    remedy = "Run the statement again, or set rowlock.onConflict=repair to rebase it over these rows."
    return Found("added files", exceptions.ConcurrentAppendException, winner, "Files were added to what this transaction read by a concurrent commit.", remedy, hit)


def removed_what_was_read(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """A winner removed a file that this transaction read (rearranging rows is no conflict)."""
    hit = tuple(r.path for r in winner.removes if r.data_change and r.path in reads.files and r.path not in reads.removes)
    if not hit:
        return None
    remedy = "Run the statement again, or set rowlock.onConflict=repair to rebase it."
    return Found("removed files", exceptions.ConcurrentDeleteReadException, winner, "Files that this transaction read were removed by a concurrent commit.", remedy, hit)


def removed_by_both(reads: Reads, winner: Commit, state: TableState) -> Found | None:
    """A winner removed a file that this transaction removes too (a new vector is a remove and an add)."""
    hit = tuple(r.path for r in winner.removes if r.path in reads.removes)
    if not hit:
        return None
    remedy = "Run the statement again, or set rowlock.onConflict=repair to rebase it."
    return Found("removed by both", exceptions.ConcurrentDeleteDeleteException, winner, "Files that this transaction changes were changed by a concurrent commit.", remedy, hit)


TABLE_RULES: tuple[Rule, ...] = (protocol_changed, metadata_changed)
FILE_RULES: tuple[Rule, ...] = (same_application, added_where_read, removed_what_was_read, removed_by_both)
RULES: tuple[Rule, ...] = TABLE_RULES + FILE_RULES


def first_conflict(rules: tuple[Rule, ...], reads: Reads, winners: list[Commit], state: TableState) -> Found | None:
    """The first conflict that `rules` find, winner by winner in log order."""
    return next((found for winner in winners for rule in rules if (found := rule(reads, winner, state))), None)
