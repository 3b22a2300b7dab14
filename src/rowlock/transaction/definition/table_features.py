"""Raises the protocol's versions and adds and drops features; a table that this version could not write any more is never made (I9).

DROP FEATURE takes away what uses a feature, then the feature from the protocol, while others go on writing (I3):

    properties that begin its use → rows and metadata without it → the history truncated, or guarded by checkpoints → the protocol

What takes long is done before the commit that changes the protocol; that one looks at its head again, and is refused where a trace came
back meanwhile.  Each step is a commit of its own and changes no row: where one is refused, the table can be read and written as before.
What needs an engine (rewriting files) is the caller's.

Row tracking is enabled on a table that has rows while others write to it (I6):

    the feature → row ids for every live file, in commits of their own → the property

From the first step on every writer gives ids to the files that it adds, so what is left to do only shrinks.  A file is added again as it lives at
the head, with ids and nothing else changed: to writers in flight that is no change of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count, islice
from typing import Any

from rowlock import clock, progress
from rowlock.boundary import row_identity
from rowlock.boundary.engine import AppendEngine
from rowlock.conditions import named
from rowlock.exceptions import StatementRefused, UnsupportedFeature
from rowlock.limits import limits
from rowlock.log import cleanup
from rowlock.log.replay import read_commit
from rowlock.log.segment import complete_checkpoints, list_log
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import feature_removal, features, names, row_tracking
from rowlock.protocol.actions import Protocol, RemoveFile
from rowlock.protocol.features import check_writable
from rowlock.protocol.properties import PROTECTION, TRUNCATION, is_true
from rowlock.protocol.row_tracking import FEATURE as ROW_TRACKING
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_DROP = "DROP FEATURE"
_BARRIERS = 3
"""Checkpoints that guard the history of a dropped feature: delta-spark tries so many before it gives up on what it cannot read."""


def drop_feature(state: SharedState, name: str, clear: Callable[[str], None], *, truncate_history: bool = False) -> Receipt:
    """Drops a table feature; the receipt is that of the commit that changes the protocol.

    `clear(feature)` rewrites what files and columns hold of it.  Raises StatementRefused where the feature is not there or not to be dropped, where
    its history has to expire first, and where it came back meanwhile.
    """
    table, head = state.store.root, state.refresh()
    feature = feature_removal.feature_to_drop(head.protocol, name, table)
    feature_removal.check_truncation(feature, truncate_history, table)
    feature_removal.check_own_traces(feature, _uses(head), table)
    guarded = feature_removal.REMOVALS[feature].history is not None and not truncate_history and settings().flag("tableFeatures.fastDropFeature.enabled")
    if feature == feature_removal.CHECKPOINT_PROTECTION:
        _truncate_protected(state)
    had_traces = _take_traces(state, feature, clear)
    if guarded:
        for _ in range(_BARRIERS):
            _empty_commit_and_checkpoint(state)
    elif feature_removal.REMOVALS[feature].history is not None:
        _truncate(state, feature, had_traces, truncate_history)
    receipt = commit_from_head(state, _DROP, {"featureName": feature, "truncateHistory": truncate_history}, lambda at: _downgrade(at, feature, guarded=guarded))
    if guarded:
        _checkpoint(state)
    return receipt


def _checkpoint(state: SharedState) -> None:
    """Writes the checkpoint of the newest version; `state.log` is asked for after it, for a table that was made anew has another."""
    head = state.refresh()
    state.log.write_checkpoint(head)


def _uses(head: Snapshot) -> feature_removal.Uses:
    return feature_removal.Uses(head.metadata, head.domains, head.files.adds())


def _take_traces(state: SharedState, feature: str, clear: Callable[[str], None]) -> bool:
    """Takes away what the newest version has of a feature; returns whether there was anything that older versions have, too."""
    removal, head, batches = feature_removal.REMOVALS[feature], state.refresh(), count()
    found = removal.trace(_uses(head)) is not None
    if found:
        if removal.takes:
            unsets = None in removal.takes.values()
            words = {"properties": sorted(removal.takes), "ifExists": True} if unsets else {"properties": dict(removal.takes)}
            operation = "UNSET TBLPROPERTIES" if unsets else "SET TBLPROPERTIES"
            creation.change_metadata(state, operation, words, lambda head: feature_removal.with_properties(head.metadata, removal.takes))
        clear(feature)
    if feature == ROW_TRACKING:
        while commit_from_head(state, "ROW TRACKING UNBACKFILL", {"batchId": next(batches)}, _take_row_ids).version is not None:
            pass
    elif feature == feature_removal.DELETION_VECTORS:
        commit_from_head(state, "Deletion Vector Tombstones", {}, lambda head: _tombstones(state, head))
    elif feature == "domainMetadata":
        commit_from_head(state, "Domain Metadata Cleanup", {}, _without_domains)
    return found and removal.stored(head.metadata)


def _take_row_ids(head: Snapshot) -> HeadActions | None:
    """Re-adds some of the live files that have row ids, without them; none where another writer has begun to track rows again, as RESTORE may."""
    if row_tracking.is_enabled(head.protocol, head.metadata):
        return None
    held = list(islice((f for f in head.files.adds() if f.base_row_id is not None), limits().backfill_files))
    return HeadActions(adds=tuple(replace(f, data_change=False, base_row_id=None, default_row_commit_version=None) for f in held)) if held else None


def _without_domains(head: Snapshot) -> HeadActions | None:
    """Removes all metadata domains.  Raises StatementRefused where another writer has begun to use a feature that keeps its own in one."""
    feature_removal.check_not_needed(head.protocol, "domainMetadata", head.table)
    return HeadActions(domains=tuple(replace(d, removed=True) for d in head.domains.values())) if head.domains else None


def _tombstones(state: SharedState, head: Snapshot) -> HeadActions | None:
    """Removes that name the files of deletion vectors which older versions need, so that a VACUUM that knows of no deletion vectors leaves them."""
    removes = state.log.tombstones(head)
    there = {r.path for r in removes if r.deletion_vector is None}
    found = {r.deletion_vector.path for r in removes if r.deletion_vector is not None and r.deletion_vector.storage_type == "u"}
    now = clock.now_ms()
    missing = sorted(path for path in found if path is not None and path not in there)
    return HeadActions(removes=tuple(RemoveFile(path, deletion_timestamp_ms=now, data_change=False) for path in missing)) if missing else None


def _empty_commit_and_checkpoint(state: SharedState) -> None:
    """A version that changes nothing, and its checkpoint."""
    commit_from_head(state, "Empty Commit", {}, lambda head: HeadActions())
    _checkpoint(state)


def _truncate(state: SharedState, feature: str, had_traces: bool, now: bool) -> None:
    """Deletes what may go of the log.  Raises StatementRefused where a version that is left uses the feature; `now`: only the retention of TRUNCATE HISTORY counts."""
    _empty_commit_and_checkpoint(state)
    head = state.refresh()
    log, short = head.metadata.configuration.get("delta.logRetentionDuration", "30 days").removeprefix("interval "), _truncation(head)
    wait = f"wait until these are older than {short} (property {TRUNCATION}), then run ALTER TABLE ... DROP FEATURE {feature} TRUNCATE HISTORY"
    args = {"feature": feature, "logRetentionPeriodKey": "delta.logRetentionDuration", "logRetentionPeriod": log, "truncateHistoryLogRetentionPeriod": short}
    if had_traces:
        text = f"Feature {feature} is no longer used by the newest version of the table, but by older ones, so the protocol still lists it: {wait}"
        raise StatementRefused(text, what=feature, table=head.table, condition=named("DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD", **args))
    at = state.store.modified_ms(names.LAST_CHECKPOINT) or clock.now_ms()
    cleanup.truncate(state.store, head, None if now else cleanup.horizon_ms(at, head.properties.log_retention_ms))
    if (version := _version_that_uses(state, head, feature, feature_removal.REMOVALS[feature])) is not None:
        text = f"Feature {feature} cannot be dropped yet: version {version} of the table uses it: {wait}"
        raise StatementRefused(text, what=feature, table=head.table, condition=named("DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST", **args))


def _truncation(head: Snapshot) -> str:
    return head.metadata.configuration.get(TRUNCATION, "24 hours").removeprefix("interval ")


def _version_that_uses(state: SharedState, head: Snapshot, feature: str, removal: feature_removal.Removal) -> int | None:
    """The oldest version in the log that uses a feature; of the oldest checkpoint its live files and metadata count, of commits all that they hold."""
    uses = removal.history
    assert uses is not None
    files = [f for f in list_log(state.store) if f.version <= head.version]
    checkpoints = sorted(c[0].version for c in complete_checkpoints(files))
    if checkpoints:
        oldest = state.log.at(checkpoints[0])
        if uses(oldest.metadata) or any(uses(f) for f in oldest.files.adds()):
            return oldest.version
    if feature == features.V2_CHECKPOINTS and (others := [f.version for f in files if f.kind == "v2_checkpoint"]):
        return min(others)
    for version in sorted(f.version for f in files if f.kind == "commit"):
        commit = read_commit(state.store, version, lambda line: any(word in line for word in (b'"metaData"', b'"add"', b'"remove"')))
        if commit is not None and (any(map(uses, commit.adds)) or any(map(uses, commit.removes)) or (commit.metadata is not None and uses(commit.metadata))):
            return version
    return None


def _truncate_protected(state: SharedState) -> None:
    """Deletes the log before the version that checkpoint protection names.  Raises StatementRefused where that is too young."""
    head = state.refresh()
    if _is_truncated(state, head):
        return
    _empty_commit_and_checkpoint(state)
    cleanup.truncate(state.store, head)
    if not _is_truncated(state, head):
        short = _truncation(head)
        raise StatementRefused(
            f"Feature {feature_removal.CHECKPOINT_PROTECTION} cannot be dropped yet: versions before {head.properties.protected_before} use dropped features, "
            f"and must be older than {short} (property {TRUNCATION}); then run the statement again",
            what=feature_removal.CHECKPOINT_PROTECTION,
            table=head.table,
            condition=named("DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD", truncateHistoryLogRetentionPeriod=short),
        )


def _is_truncated(state: SharedState, head: Snapshot) -> bool:
    """Whether nothing is left of the log before the version that checkpoint protection names."""
    before = head.properties.protected_before
    files = list_log(state.store)
    return before <= 0 or (bool(complete_checkpoints(files)) and min(f.version for f in files) >= before)


def _downgrade(head: Snapshot, feature: str, *, guarded: bool) -> HeadActions:
    """The protocol without the feature, where the head has no trace of it; `guarded`: with checkpoint protection up to this version."""
    removal, readers, writers = feature_removal.REMOVALS[feature], features.reader_features(head.protocol), features.writer_features(head.protocol)
    if feature not in readers | writers or (found := removal.trace(_uses(head))):
        text = f"Feature {feature} cannot be dropped: another writer changed the table meanwhile ({'it was dropped' if feature not in readers | writers else found}); run it again"
        condition = named("DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL", concurrentCommit=head.version)
        raise StatementRefused(text, what=feature, table=head.table, condition=condition)
    feature_removal.check_not_needed(head.protocol, feature, head.table)
    protocol, changes = features.lowest_protocol(readers - {feature}, writers - {feature}), dict.fromkeys(removal.loses)
    if guarded:
        protocol = features.with_feature(protocol, feature_removal.CHECKPOINT_PROTECTION)
        changes[PROTECTION] = str(head.version + 1)
    domains = tuple(replace(d, removed=True) for d in head.domains.values() if d.domain in removal.loses)
    return HeadActions(protocol=protocol, metadata=feature_removal.with_properties(head.metadata, changes), domains=domains)


_UPGRADE = "UPGRADE PROTOCOL"


def raise_versions(state: SharedState, reader: int, writer: int) -> Receipt:
    """Raises the versions of the protocol; commits nothing where they are as high already.  Raises InvalidInput, UnsupportedFeature."""
    return _commit(state, _UPGRADE, {"readerVersion": reader, "writerVersion": writer}, lambda head: features.with_versions(head.protocol, reader, writer))


def add_feature(state: SharedState, name: str) -> Receipt:
    """Adds a table feature, by its name in any case.  Raises UnsupportedFeature where this version of Rowlock cannot write a table with it."""
    spelled = next((n for n in features.WRITABLE if n.lower() == name.lower()), None)
    if spelled is None:
        text = f"This version of Rowlock cannot write tables with feature {name!r}, so it is not added; known are {', '.join(sorted(features.WRITABLE))}"
        condition = named("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", configs=f"delta.feature.{name}")
        raise UnsupportedFeature(text, feature=name, access="write", table=state.store.root, condition=condition)

    def change(head: Snapshot) -> Protocol:
        if spelled == "clustering" and head.partition_columns:
            raise StatementRefused("A partitioned table cannot be clustered, so feature clustering is not added", what=spelled, table=head.table)
        return features.with_feature(head.protocol, spelled)

    return _commit(state, _UPGRADE, {"featureName": spelled}, change)


def _commit(state: SharedState, operation: str, parameters: Mapping[str, Any], change: Callable[[Snapshot], Protocol]) -> Receipt:
    def make(head: Snapshot) -> HeadActions | None:
        protocol = change(head)
        return None if protocol == head.protocol else HeadActions(protocol=protocol)

    return commit_from_head(state, operation, parameters, make)


def set_properties(state: SharedState, engine: AppendEngine, properties: Mapping[str, str]) -> Receipt:
    """Sets table properties.  Where they enable row tracking, every existing row gets an id first.

    The receipt is that of the last commit, which sets the properties.  Raises as `creation.set_properties` does.
    """
    creation.check_properties(properties, state.store.root, statement="ALTER")
    head, batches = state.refresh(), count()
    if is_true(properties, row_tracking.ENABLED) and not row_tracking.is_enabled(head.protocol, head.metadata):
        wanted = replace(head.metadata, configuration=row_tracking.with_column_names({**head.metadata.configuration, **properties}, clock.new_id))
        # What cannot be set is refused before anything is done.
        check_writable(creation.upgraded(head.protocol, wanted.configuration), wanted, state.store.root)
        _commit(state, _UPGRADE, {}, lambda at: creation.upgraded(at.protocol, {row_tracking.ENABLED: "true"}))
        with progress.work("ROW TRACKING BACKFILL", state.store.root):
            while commit_from_head(state, "ROW TRACKING BACKFILL", {"batchId": next(batches)}, lambda at: _give_ids(at, engine)).version is not None:
                pass  # as many commits as it takes, whose name delta-spark's writers know that lose to one
    return creation.set_properties(state, properties)


def _give_ids(head: Snapshot, engine: AppendEngine) -> HeadActions | None:
    """Re-adds some of the live files without row ids, with ids; none where another writer is dropping the feature meanwhile."""
    if not row_tracking.assigns(head.protocol, head.metadata):
        return None
    bare = list(islice((replace(f, data_change=False) for f in head.files.adds() if f.base_row_id is None), limits().backfill_files))
    if not bare:
        return None
    if (shown := progress.current()) is not None:  # else the number is not needed
        shown.count(sum(f.base_row_id is not None for f in head.files.adds()), len(head.files), "files")
    adds, domains = row_identity.assign_row_ids(bare, head, engine.count)
    return HeadActions(adds=adds, domains=tuple(domains))
