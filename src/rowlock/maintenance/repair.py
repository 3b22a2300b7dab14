"""`rowlock repair`: repairs a damaged table as far as possible without losing a row, and reports each damage and its repair.

The commits and the data files are the truth.  Whatever derives from them is written anew if it contradicts them: checkpoints, checksums,
`_last_checkpoint`, and, by a commit that adds files again (dataChange false), their statistics, row counts and the cardinalities of deletion vectors,
and the high-water mark of row ids.  No data file, vector or commit is deleted or overwritten; a file of the log is copied
to `_delta_log/_damaged` before it is replaced (I1, I5, I10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from rowlock import clock, progress
from rowlock.exceptions import CorruptLog, RowlockError, UnsupportedFeature
from rowlock.log import checksums, replay
from rowlock.log.checkpoint_reader import sidecars_of
from rowlock.log.checkpoint_writer import checkpoint_bytes
from rowlock.log.segment import complete_checkpoints, list_log, list_table, segment_of
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.contents import Contents, contents_of, read_contents, row_ids
from rowlock.maintenance.check.finding import KINDS
from rowlock.maintenance.check.log import Versions, steps
from rowlock.parquet.physical import Doubtful, file_schema, relabelled, rows_schema
from rowlock.parquet.reading import read_file
from rowlock.protocol import names, row_tracking, statistics
from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.protocol.features import check_features
from rowlock.protocol.names import LogFile
from rowlock.storage.store import NotFound, ObjectStore
from rowlock.transaction.definition.head_commit import HeadActions, commit_from_head
from rowlock.transaction.state.shared import SharedState

DAMAGED = f"{names.LOG_DIRECTORY}/_damaged"
"""The folder with copies of replaced files of the log."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage: what it is, whether it can be repaired, and its repair (in a dry run: the possible one), or why there is none.

    `version` is that of the repairing commit, if one was needed.
    """

    what: str
    can: bool
    how: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair, or of its dry run."""

    table: str
    done: bool
    damages: tuple[Damage, ...]

    @property
    def is_whole(self) -> bool:
        """Whether no damage remains."""
        return all(d.can for d in self.damages) and (self.done or not self.damages)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values for JSON."""
        return {"table": self.table, "done": self.done, "whole": self.is_whole, "damages": [asdict(d) for d in self.damages]}


def repair(state: SharedState, *, dry_run: bool = True) -> Repair:
    """Finds the damages of a table, and repairs them as far as possible unless `dry_run`.

    Raises TableNotFound, StorageError, UnsupportedFeature if this version cannot write the table, and the errors of a commit.
    """
    with progress.work("repair of", state.store.root):
        return _repaired(state, dry_run)


def _repaired(state: SharedState, dry_run: bool) -> Repair:
    store = state.store
    listed = list_table(store)
    walked, anew, newest = Versions(), dict[int, bytes](), None
    for step in steps(store, listed, 0, walked):
        newest = step.after
        if step.version in walked.checksums and newest is not None:
            anew[step.version] = checksums.checksum(newest)
    if newest is not None:
        check_features(newest.protocol, newest.metadata, store.root)  # a feature that is not known may keep more in a checkpoint than is written anew
    damages = [*_checkpoints(store, listed, walked, dry_run), *_checksums(store, walked, anew, dry_run)]
    damages += _last_checkpoint(store, walked, dry_run)
    try:
        head = newest if dry_run and newest is not None else state.refresh()
    except CorruptLog as e:
        remedy = "look for the file in a backup or in older object versions: it cannot be derived from the rest of the log"
        damages.append(Damage(f"the newest version cannot be read: {e}", False, remedy))
        return Repair(store.root, not dry_run, tuple(damages))
    damages += _files(state, head, dry_run)
    return Repair(store.root, not dry_run, tuple(damages))


def _save_copy(store: ObjectStore, key: str) -> None:
    """Copies a file of the log that is about to be replaced to DAMAGED."""
    with suppress(NotFound):
        store.put(f"{DAMAGED}/{clock.new_id()}-{key.rpartition('/')[2]}", store.get(key))


def _checkpoints(store: ObjectStore, listed: Sequence[LogFile], walked: Versions, dry_run: bool) -> Iterator[Damage]:
    """Writes damaged checkpoints anew, as classic ones, from all commits up to them.

    Not from an older checkpoint: if two of them differ it is unknown which one is right.
    """
    commits = [f for f in listed if not f.is_checkpoint]
    for key, (files, why) in walked.checkpoints.items():
        version, what = files[0].version, f"checkpoint {key}: {why}"
        try:
            snapshot = replay.load(store, segment_of(commits, store.root, version))
            tombstones = TableLog(store).tombstones(snapshot, ())
        except RowlockError as e:
            yield Damage(what, False, f"not all commits before it exist: {e}")
            continue
        yield Damage(what, True, f"written anew from the commits up to version {version}; the old one is in {DAMAGED}")
        if not dry_run:
            _write_anew(store, files, snapshot, tombstones)


def _write_anew(store: ObjectStore, files: Sequence[LogFile], snapshot: Snapshot, tombstones: Sequence[RemoveFile]) -> None:
    """Puts a classic checkpoint, which is complete in one file, and then deletes the damaged one if it has another name."""
    body = checkpoint_bytes(snapshot, tombstones)
    for file in files:
        _save_copy(store, file.key)
    store.put(names.checkpoint_key(snapshot.version), body)
    for file in files:
        if file.key != names.checkpoint_key(snapshot.version):
            store.delete(file.key)


def _checksums(store: ObjectStore, walked: Versions, anew: Mapping[int, bytes], dry_run: bool) -> Iterator[Damage]:
    for version, why in walked.checksums.items():
        key = names.checksum_key(version)
        if version in walked.contested:
            text = "it is proof that two writers committed this version, one of which was overwritten: see rowlock check"
            yield Damage(f"checksum {key}: {why}", False, text)
            continue
        yield Damage(f"checksum {key}: {why}", True, f"written anew from the log; the old one is in {DAMAGED}")
        if not dry_run:
            _save_copy(store, key)
            store.put(key, anew[version])


def _last_checkpoint(store: ObjectStore, walked: Versions, dry_run: bool) -> Iterator[Damage]:
    """Points `_last_checkpoint` to the newest complete checkpoint, if it is wrong."""
    try:
        held = store.get(names.LAST_CHECKPOINT)
    except NotFound:
        return
    whole = complete_checkpoints(list_log(store))
    sound = [c for c in whole if c[0].key not in walked.checkpoints or not dry_run]
    if (why := _fault(held, whole)) is None:
        return
    if not sound:
        yield Damage(f"_last_checkpoint {why}", True, f"moved to {DAMAGED}: there is no whole checkpoint, and readers list the log without it")
    else:
        yield Damage(f"_last_checkpoint {why}", True, f"pointed to the checkpoint of version {sound[-1][0].version}; the old one is in {DAMAGED}")
    if dry_run:
        return
    _save_copy(store, names.LAST_CHECKPOINT)
    if sound:
        store.put(names.LAST_CHECKPOINT, orjson.dumps(_hint(store, sound[-1])))
    else:
        store.delete(names.LAST_CHECKPOINT)


def _fault(held: bytes, whole: Sequence[tuple[LogFile, ...]]) -> str | None:
    """The fault of the bytes of `_last_checkpoint`, as a phrase; None if they name an existing checkpoint."""
    try:
        hint = orjson.loads(held)
    except orjson.JSONDecodeError:
        return "cannot be parsed"
    version = hint.get("version") if isinstance(hint, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        return "names no version"
    if not any(c[0].version == version for c in whole):
        return f"names version {version}, of which there is no whole checkpoint"
    parts = hint.get("parts")
    if parts is not None and not any(c[0].version == version and c[0].parts == parts for c in whole):
        return f"names {parts!r} parts, which the checkpoint of version {version} has not"
    named = hint.get("v2Checkpoint")
    if named is not None and not any(isinstance(named, dict) and c[0].key.endswith(f"/{named.get('path')}") for c in whole if c[0].version == version):
        return f"names a V2 checkpoint of version {version} that is not there"
    return None


def _hint(store: ObjectStore, checkpoint: Sequence[LogFile]) -> dict[str, Any]:
    """The content of `_last_checkpoint` for a complete checkpoint."""
    actions = 0
    for key in [*(f.key for f in checkpoint), *sidecars_of(store, checkpoint)]:
        body = store.get(key)
        actions += len([line for line in body.split(b"\n") if line.strip()]) if key.endswith(".json") else pq.read_metadata(pa.BufferReader(body)).num_rows
    hint: dict[str, Any] = {"version": checkpoint[0].version, "size": actions}
    return hint | ({"parts": len(checkpoint)} if checkpoint[0].kind == "multipart" else {})


def _files(state: SharedState, head: Snapshot, dry_run: bool) -> list[Damage]:
    """Corrects, in one commit, the add actions that contradict their files, and the high-water mark of row ids."""
    every = list(read_contents(state.store, head))
    ids = row_ids(head, every)
    wrong = [c for c in every if c.wrong and not c.unreadable]
    fixes = {c.file.path: c for c in wrong if _is_repairable(c)}
    apart = "its vector marks rows that the file does not have: the two do not belong together; RESTORE to a version before"
    lost = [
        *((f"{c.file.path}: {c.unreadable}", KINDS["file-does-not-read"][1]) for c in every if c.unreadable),
        *((f"{c.file.path}: columns that the log maps to other names: {c.misnamed}", KINDS["columns-by-other-names"][1]) for c in every if c.misnamed),
        *((f"{path}: its row ids are those of other rows, too", KINDS["row-ids-doubled"][1]) for path in ids.doubled),
        *((f"{path}: its rows have no row ids", KINDS["row-ids-missing"][1]) for path in ids.bare),
        *((f"{c.file.path}: {c.wrong[0]}", apart) for c in wrong if not _is_repairable(c)),
    ]
    out = [Damage(what, False, how) for what, how in lost]
    version: int | None = None
    if (fixes or ids.mark_is_low) and not dry_run:
        version = commit_from_head(state, "REPAIR", {"files": len(fixes)}, lambda at: _actions(state.store, at, fixes, ids.highest)).version
    out += [Damage(f"{path}: {'; '.join(c.wrong)}", True, "added again with statistics and counts by its contents", version) for path, c in fixes.items()]
    if ids.mark_is_low:
        out.append(Damage("the high-water mark of row ids is too low", True, f"raised to {ids.highest}", version))
    return out


def _is_repairable(content: Contents) -> bool:
    return not any("marks row " in why for why in content.wrong)


def _actions(store: ObjectStore, head: Snapshot, fixes: dict[str, Contents], highest: int) -> HeadActions | None:
    """The add actions of the files that are still wrong, corrected, and a mark above all ids; None if nothing remains to be done."""
    live = head.files.get(fixes)
    adds = []
    for path, content in fixes.items():
        live_file = live.get(path)
        if live_file is None:
            continue
        now = content if live_file == content.file else contents_of(store, head, live_file)
        if now.wrong and not now.unreadable and _is_repairable(now):
            adds.append(_corrected(store, head, now))
    try:
        low = row_tracking.assigns(head.protocol, head.metadata) and row_tracking.high_water_mark(head.domains, head.table) < highest
    except CorruptLog:
        low = True
    if not adds and not low:
        return None
    return HeadActions(adds=tuple(adds), domains=(row_tracking.mark_domain(highest),) if low else ())


def _corrected(store: ObjectStore, head: Snapshot, content: Contents) -> AddFile:
    """The file's add action with statistics, number of rows and cardinality by the contents of the file and its vector."""
    add = content.file
    vector = None if add.deletion_vector is None else replace(add.deletion_vector, cardinality=content.cardinality)
    stats = recomputed(store, head, add) or orjson.dumps({"numRecords": content.num_rows}).decode()
    return replace(add, stats=stats if vector is None else statistics.widened(stats, content.num_rows), deletion_vector=vector, data_change=False)


def recomputed(store: ObjectStore, head: Snapshot, add: AddFile) -> str | None:
    """The statistics of a file by its physical rows; None if it cannot be read exactly, so that only counts are known."""
    leaves = head.stats_leaves()
    stored = {path[0] for path, _ in leaves}
    logical = [f.name for f in head.schema.fields if f.name not in head.partition_columns and ({f.name, f.physical_name} & stored)]
    every = rows_schema(head)
    try:
        rows = read_file(store, add, head, pa.schema([every.field(n) for n in logical]))
        return statistics.from_arrow(relabelled(rows, file_schema(head, logical)), leaves, text_characters=head.properties.stats_text_characters)
    except (Doubtful, UnsupportedFeature, pa.ArrowException):
        return None
