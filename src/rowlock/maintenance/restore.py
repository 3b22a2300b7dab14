"""RESTORE: one commit on top of the head that brings back an old version's files, metadata and clustering (I3, I4, I5).

The commit is computed from two snapshots alone, so it is computed anew for every head.  A file that is live in both with
the same deletion vector is not touched.  Otherwise the remove names the vector that is live at the head, and the add has
the old one: a deletion vector may shrink.  The protocol is never lowered, column ids and row ids are never reused, and
the `txn` versions of applications remain.  Where row tracking was dropped since, rows get new ids: the old ones may be those of other rows by now.

Files that a VACUUM may be deleting right now are copied and come back under new names (I10): it deletes files that were removed longer ago than
the table's retention, and it may have listed them before RESTORE commits, so that an existing file may be gone a moment later.  A copy is young,
and VACUUM deletes no young files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary.effects import Change
from rowlock.boundary.engine import refuse_on_append_only
from rowlock.conflict import change_feed
from rowlock.conflict.delta import delta_between
from rowlock.exceptions import CorruptLog, InvalidInput, StatementRefused
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.vacuum import SKEW_MS, needed_paths, removed_since
from rowlock.protocol import clustering, paths, row_tracking
from rowlock.protocol.actions import AddCdcFile, AddFile, FileKey, Metadata, Protocol, RemoveFile
from rowlock.protocol.column_mapping import MAX_ID, is_mapped
from rowlock.protocol.column_values import with_marks_of
from rowlock.protocol.properties import PROTECTION
from rowlock.storage.open import locate
from rowlock.storage.store import NotFound, ObjectStore, time_ms
from rowlock.threads import side_by_side
from rowlock.transaction.definition.creation import widest
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.definition.replacement import clustering_from, with_row_ids
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.transaction import Table


class RestoredFiles:
    """The files of one RESTORE.  Each is copied once, however often the commit is computed anew."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._copies: dict[FileKey, AddFile] = {}

    def safe(self, files: Sequence[AddFile], head: Snapshot) -> tuple[AddFile, ...]:
        """The files with those that a VACUUM may delete replaced by copies, of a data file, of its deletion vector or of both.

        Files go through the driver, a large one in pieces.  Raises NotFound, CorruptLog if a file or its vector is gone already.
        """
        if not files:
            return ()
        retained = self._retained(head)
        return tuple(self._copy_of(f, retained) or f for f in files)

    def _retained(self, head: Snapshot) -> set[str]:
        """The files, as keys below the root, that no VACUUM deletes: live ones, and those that were removed within the retention."""
        try:
            retention_ms = head.properties.deleted_file_retention_ms
        except InvalidInput:  # then VACUUM refuses; another engine may take another retention
            retention_ms = 0
        store = self._state.store
        horizon = max(clock.now_ms(), time_ms(store) or 0) - retention_ms + SKEW_MS
        removed = removed_since(self._state.log, head, horizon)
        return needed_paths(head, [r for r in removed.entries if (r.deletion_timestamp_ms or 0) >= horizon])

    def _copy_of(self, file: AddFile, retained: set[str]) -> AddFile | None:
        key, vector = paths.relative_to(self._state.store.root, file.path), file.deletion_vector
        of_data = not paths.is_absolute(key) and key not in retained  # those of another table's folder are not this table's to vacuum
        in_file = vector.path if vector is not None else None
        of_vector = in_file is not None and not paths.is_absolute(name := paths.relative_to(self._state.store.root, in_file)) and name not in retained
        if not of_data and not of_vector:
            return None
        if file.key not in self._copies:
            self._copies[file.key] = self._copied(file, key if of_data else None, of_vector=of_vector)
        return replace(self._copies[file.key], base_row_id=file.base_row_id, default_row_commit_version=file.default_row_commit_version)

    def _copied(self, file: AddFile, key: str | None, *, of_vector: bool) -> AddFile:
        """The file under a new name, if a `key` is given, and with a new vector."""
        changes = dict[str, object]()
        if of_vector:
            (changes["deletion_vector"],) = self._state.vectors.store_all([self._state.vectors.of(file)])
        if key is not None:
            name = posixpath.join(posixpath.dirname(key), f"restored-{clock.new_id()}.parquet")
            store, most = self._state.store, limits().copied_piece_bytes
            store.put_parts(name, lambda: (store.get_range(key, at, most) for at in range(0, file.size_bytes, most)))
            changes |= {"path": name, "log_path": None, "modification_time_ms": clock.now_ms()}
        return replace(file, **changes)  # type: ignore[arg-type]


_NAMED_FILES = 10
"""How many missing files an error message names."""


def restore(table: Table, target: Snapshot, parameters: Mapping[str, Any], *, ignore_missing: bool = False, options: Options | None = None) -> Receipt:
    """Commits the state of `target` on top of the head.  The receipt's metrics have delta-spark's names; it has no version if `target` is the newest one.

    Raises StatementRefused if the table is append-only or (unless
    `ignore_missing`) files of that version no longer exist, and under `fail` DeltaConcurrentModificationException.
    """
    seen: set[str] = set()
    written: dict[tuple[Any, ...], tuple[AddCdcFile, ...]] = {}
    files = RestoredFiles(table.state)

    def actions_on(head: Snapshot) -> HeadActions | None:
        restored = restoration(target, head, clock.now_ms())
        if restored is None:
            return None
        if not ignore_missing:
            _check_files(table.state.store, [a for a in restored.adds if a.path not in seen], target)
            seen.update(a.path for a in restored.adds)
        restored = with_row_ids(restored, head, table.engine.count)
        key = (*(r.key for r in restored.removes), None, *(a.key for a in restored.adds))
        try:
            if key not in written:
                written[key] = _change_files(table, target, head, restored)
            return replace(restored, adds=restored.adds if ignore_missing else files.safe(restored.adds, head), cdc=written[key])
        except (NotFound, CorruptLog):
            _check_files(table.state.store, restored.adds, target)  # a VACUUM may have deleted them since the check
            raise

    return commit_from_head(table.state, "RESTORE", parameters, actions_on, options=options, removes_rows=True, observer=table.observer)


def restoration(target: Snapshot, head: Snapshot, now_ms: int) -> HeadActions | None:
    """The actions that restore `target` on top of `head`, without change data files and new row ids; None if it is the newest version.

    Raises StatementRefused if the table is append-only and files would be removed.
    """
    if target.version >= head.version:
        return None
    same_ids = row_tracking.have_same_ids(target.metadata, head.protocol, head.metadata)
    before, now = {f.path: f for f in target.files.adds()}, {f.path: f for f in head.files.adds()}
    removes = tuple(f.removed(now_ms, data_change=True) for p, f in now.items() if p not in before or before[p].key != f.key)
    adds = tuple(_restored_file(f, now.get(p), same_ids=same_ids) for p, f in before.items() if p not in now or now[p].key != f.key)
    protocol = widest(head.protocol, target.protocol)
    metadata = _restored_metadata(target, head, protocol, same_ids=same_ids)
    bare = [f for p, f in before.items() if p in now and now[p].key == f.key and now[p].base_row_id is None and row_tracking.assigns(protocol, metadata)]
    if removes:
        refuse_on_append_only(head, "restore an older version", "RESTORE")
    return HeadActions(
        adds=adds + tuple(replace(_restored_file(f, None, same_ids=same_ids), data_change=False) for f in bare),
        removes=removes,
        protocol=protocol,
        metadata=metadata,
        domains=clustering_from(head, target.domains.get(clustering.DOMAIN)),
        metrics=_metrics(target, adds, removes),
    )


def _restored_file(file: AddFile, live: AddFile | None, *, same_ids: bool) -> AddFile:
    """The file as it was in the old version, with the row ids that it has at the head if it had none then, or if those are no longer the table's."""
    if not same_ids:
        file = replace(file, base_row_id=None, default_row_commit_version=None)
    base = file.base_row_id if file.base_row_id is not None or live is None else live.base_row_id
    version = file.default_row_commit_version if file.default_row_commit_version is not None or live is None else live.default_row_commit_version
    return replace(file, data_change=True, base_row_id=base, default_row_commit_version=version)


def _restored_metadata(target: Snapshot, head: Snapshot, protocol: Protocol, *, same_ids: bool) -> Metadata:
    """The old metadata with the table's id at the head, and with the highest column id and numbers of identity columns ever given, so that none is reused.

    The checkpoints that hide dropped features stay protected: the log is the same.
    """
    old, now = target.metadata.configuration, head.metadata.configuration
    old = {**old, **{k: v for k, v in now.items() if k == PROTECTION}}
    if is_mapped(old) and MAX_ID in now:
        old = {**old, MAX_ID: str(max(int(old.get(MAX_ID, "0")), int(now[MAX_ID])))}
    back = replace(target.metadata, id=head.metadata.id, configuration=old)
    return with_marks_of(back if same_ids else row_tracking.with_column_names_of(back, head.metadata, protocol, clock.new_id), head.metadata, head.table)


def _metrics(target: Snapshot, adds: Sequence[AddFile], removes: Sequence[RemoveFile]) -> dict[str, int]:
    return {
        "tableSizeAfterRestore": target.files.total_size_bytes,
        "numOfFilesAfterRestore": len(target.files),
        "numRemovedFiles": len(removes),
        "numRestoredFiles": len(adds),
        "removedFilesSize": sum(r.size_bytes or 0 for r in removes),
        "restoredFilesSize": sum(a.size_bytes for a in adds),
    }


def _change_files(table: Table, target: Snapshot, head: Snapshot, restored: HeadActions) -> tuple[AddCdcFile, ...]:
    """Writes change data files of the deleted and inserted rows, if the change feed is on and add and remove actions alone would not show them."""
    if not change_feed.is_enabled(restored.protocol or head.protocol, restored.metadata or head.metadata):
        return ()
    if all(a.deletion_vector is None for a in restored.adds) and all(r.deletion_vector is None for r in restored.removes):
        return ()
    touched = {*(a.path for a in restored.adds), *(r.path for r in restored.removes)}
    delta = delta_between(touched, head.files.get(touched), target.files.get(touched), table.state.vectors.of)
    out: list[AddCdcFile] = []
    if delta.gone:
        out += table.statement_engine.write_changes([Change("delete", slices=delta.gone)], snapshot=head)
    if delta.born:
        out += table.statement_engine.write_changes([Change("insert", slices=delta.born)], snapshot=target)
    return tuple(out)


def _check_files(store: ObjectStore, adds: Sequence[AddFile], target: Snapshot) -> None:
    """Raises StatementRefused, naming the files, if a file to be restored or its deletion vector file no longer exists."""
    needed = dict.fromkeys(a.path for a in adds)
    needed |= dict.fromkeys(v.path for a in adds if (v := a.deletion_vector) is not None and v.path is not None)
    there = side_by_side(lambda path: _is_there(store, path), list(needed), limits().request_threads)
    if missing := [path for path, found in zip(needed, there, strict=True) if not found]:
        more = f" and {len(missing) - _NAMED_FILES} more" if len(missing) > _NAMED_FILES else ""
        text = f"Version {target.version} cannot be restored: {', '.join(missing[:_NAMED_FILES])}{more} are missing, most likely vacuumed"
        remedy = "With spark.sql.files.ignoreMissingFiles=true it is restored without them"
        raise StatementRefused(f"{text}. {remedy}", what="missing files", table=target.table)


def _is_there(store: ObjectStore, path: str) -> bool:
    where, key = locate(store, path)
    return where.head(key) is not None
