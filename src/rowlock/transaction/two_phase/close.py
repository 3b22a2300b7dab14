"""Closes what a transaction over several tables has prepared in one of them: rolled forward where its home decided, without data else (I1, I2).

Any process may close a P: the owner right after the decision, and any writer or reader that meets an open P, whether the owner lives or not.
The log of the home has the decision: the first entry about the transaction there counts, its commit (C) or a marker that gives it up.
A process that has waited long enough for a decision puts the marker; waiting itself decides nothing (I7).

The transaction's place in the table is its P.  Where commits of other engines came after it (I3, I5, I6), a row that it replaced or deleted is looked
for at the head: at its address where the file is still live, else by its row id.  With the same row commit version it was only moved, and the
change applies to it there.  Otherwise the other engine has deleted or changed it: the change of that row is dropped, with the row that was
to take its place.  A RESTORE that brings rows back undoes the transaction in its table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from pyroaring import BitMap64

from rowlock import clock
from rowlock.boundary.effects import Effects, StagedFile
from rowlock.boundary.engine import Engine
from rowlock.boundary.provenance import union_by_path
from rowlock.boundary.row_identity import Numbers, columns_of, identities_in
from rowlock.conflict.delta import live_slice
from rowlock.exceptions import ConstraintViolated, CorruptLog, DeltaConcurrentModificationException, InvalidInput, TableNotFound, VersionNotFound
from rowlock.log import replay
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.checks import check_not_null
from rowlock.parquet.rows import MaterializedIds
from rowlock.protocol import prepared as versions
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.commits import parse_commit
from rowlock.protocol.deletion_vector import bitmap_of, bitmap_to_numpy, positions_except
from rowlock.protocol.feature_removal import DELETION_VECTORS, TYPE_WIDENING
from rowlock.protocol.features import reader_features
from rowlock.protocol.prepared import CLOSE, Prepared, open_version
from rowlock.protocol.schema import DataType, StructType, has_not_null, shared_parts
from rowlock.protocol.schema_fit import may_become
from rowlock.storage.open import beside
from rowlock.storage.store import NotFound, ObjectStore, StorageError, discard
from rowlock.transaction.commit import commit
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.publish.file_actions import FileActions, file_actions
from rowlock.transaction.publish.outcome import AbortMarker
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.pending import Staging
from rowlock.transaction.state.proposal import Over, Single
from rowlock.transaction.state.shared import SharedState, Vectors, before_use, state_of

ABORTED, BY_HAND = -1, -2
"""In place of a version of the home: the transaction was given up; or an operator decided that it is committed, since the home's log is gone."""
_AS_PREPARED = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "false"}
"""The properties by which a P is closed, as they were when it was prepared: without an engine no files can be copied, and no change data files written."""
PATIENCE_S = 3.0
"""The wait for the decision of a transaction before it is given up: a courtesy to its owner."""
PATIENCE_PER_TABLE_S = 0.25


def settle(state: SharedState, head: Snapshot) -> None:
    """Closes the P that is open at `head`, after its home has decided; waits for its owner, and gives the transaction up where that takes too long.

    Raises DeltaConcurrentModificationException where the home cannot be read, or its log has lost the decision.
    """
    prepared = open_in(state, head)
    if prepared is None:
        return
    home = home_of(state, prepared)
    start, n = clock.monotonic_s(), 0
    while (word := word_of(home, prepared)) is None:
        if clock.monotonic_s() - start >= PATIENCE_S + PATIENCE_PER_TABLE_S * prepared.tables:
            commit(_Marker(home, prepared))
            continue
        clock.back_off(n, clock.CONFLICT)
        n += 1
        if not is_open(state.look(), prepared):
            return
    close(state, prepared, word)


def laid_over(state: SharedState, head: Snapshot) -> Snapshot:
    """The head with what is open in it closed in memory, for a reader who cannot put the version that closes it; as it was prepared where nothing is decided.

    It keeps the head's version number.  Raises as `settle` does, and StorageError where files would have to be written.
    """
    prepared = open_in(state, head)
    assert prepared is not None
    if (word := word_of(home_of(state, prepared), prepared)) is None:  # and what others committed after it comes after the transaction
        return head if head.version == prepared.version else state.log.at(prepared.version)
    closing = Close(state, prepared, word)
    closing.head = head
    return replace(replay.advance(head, [parse_commit(head.version + 1, closing.commit_file(), state.store.root)]), version=head.version)


before_use(settle, laid_over)


def close(state: SharedState, prepared: Prepared, word: int) -> int | None:
    """Closes a P; the version that does, put here or by another; None where that version was cleaned up since then.  Raises as `commit` does."""
    try:
        return commit(Close(state, prepared, word)).version
    except CorruptLog:  # another has closed it meanwhile, and deleted the post
        head = state.look()
        if is_open(head, prepared):
            raise
        return closed_at(state, prepared, head)


def closed_at(state: SharedState, prepared: Prepared, head: Snapshot) -> int | None:
    """The version up to `head` that closes a P; None where none does, or the log was cleaned up since then."""
    try:
        return closing_version(state, prepared.version, prepared.txn_id, head)
    except VersionNotFound:
        return None


def closing_version(state: SharedState, prepared: int, txn_id: str | None, head: Snapshot) -> int | None:
    """The version up to `head` that closes what a transaction prepared in version `prepared`; None where none does.  Raises VersionNotFound."""
    between = state.log.commits(prepared, head.version) if head.version > prepared else []
    return next((c.version for c in between if versions.closed_in(c) == txn_id), None)


def is_open(head: Snapshot, prepared: Prepared) -> bool:
    """Whether this P is still open at a head."""
    return open_version(head.txns, head.metadata.id) == prepared.version


def is_decided(state: SharedState, shown: Snapshot) -> bool:
    """Whether what is open in a snapshot was decided by now; False where nothing is open."""
    prepared = open_in(state, shown)
    return prepared is not None and word_of(home_of(state, prepared), prepared) is not None


def open_in(state: SharedState, head: Snapshot) -> Prepared | None:
    """The P that is open at a head; None where none is.  Raises CorruptLog where it cannot be read."""
    version = open_version(head.txns, head.metadata.id)
    if version is None:
        return None
    found = state.log.read_commit(version)
    prepared = None if found is None else versions.prepared_in(found)
    if prepared is None:
        raise CorruptLog(
            "a transaction over several tables is open here, and the version that says which cannot be read: it was cleaned up, or written by a newer Rowlock. "
            "Read the table as of the version before it; `rowlock settle PATH --txn ID --as aborted`, with any ID, gives the transaction up",
            table=head.table,
            version=version,
        )
    return prepared


def home_of(state: SharedState, prepared: Prepared) -> SharedState:
    """The state of the table whose log decides.  Raises DeltaConcurrentModificationException where it cannot be read, or is another table."""
    home, here = prepared.home, state.store
    places = [] if home.relative is None else [versions.absolute_place(here.root, home.relative)]
    last: Exception | None = None
    for place in dict.fromkeys([*places, home.table]):  # first where a copy of the lake has its own
        try:
            found = state_of(beside(here, place))
            if found.look().metadata.id == home.id:
                return found
        except (TableNotFound, StorageError, InvalidInput, NotFound) as e:
            last = e
    raise _unsettled(state, prepared, f"that table, {home.table}, is not there or cannot be read" if last is None else f"that table cannot be read: {last}")


def word_of(home: SharedState, prepared: Prepared) -> int | None:
    """The version of the home in which the transaction is decided, ABORTED where it was given up, None where nothing is decided yet."""
    head = home.look()
    if head.metadata.id != prepared.home.id:
        raise _unsettled(home, prepared, "that table was made anew meanwhile")
    try:
        between = home.log.commits(prepared.home.since, head.version)
    except VersionNotFound:
        raise _unsettled(home, prepared, "its log was cleaned up since then") from None
    word = next((c for c in between if prepared.txn_id in (*c.txn_ids, *c.aborted)), None)
    if word is None:
        return None
    home.log.make_durable(word.version)
    return word.version if prepared.txn_id in word.txn_ids else ABORTED


def _unsettled(state: SharedState, prepared: Prepared, why: str, remedy: str = "") -> DeltaConcurrentModificationException:
    return DeltaConcurrentModificationException(
        f"A transaction over several tables ({prepared.txn_id}) is open at version {prepared.version} of this table, and is decided in the log of "
        f"{prepared.home.table} (metadata id {prepared.home.id}, after version {prepared.home.since}): {why}.",
        table=state.store.root,
        remedy=remedy
        or "Make that table readable from here, with the same storage options, and try again; until then this table can be read as of the version before. "
        f"Where that table is gone for good, decide it yourself: rowlock settle {state.store.root} --txn {prepared.txn_id} --as committed, or --as aborted.",
    )


class _Marker(AbortMarker):
    """The marker, in the home's log, that gives the transaction up; nothing is put where the log has a word about it already."""

    options = Options(turns=False, lane=False)

    def __init__(self, home: SharedState, prepared: Prepared) -> None:
        super().__init__(home, prepared.txn_id, home.look())
        self._prepared = prepared

    def look(self, *, in_lane: bool) -> Snapshot:
        """The newest version, with what is open in it: a marker follows any version, so that no two wait for each other."""
        return self.state.look()

    def move_to(self, head: Snapshot) -> Over | None:
        self.head = self.read = head
        return None if word_of(self.state, self._prepared) is None else Over(None)


class Close(Single):
    """The version that closes a P: with the transaction's data where its home decided in version `word` or it is BY_HAND, without where it is ABORTED."""

    operation = CLOSE
    options = Options(turns=False, lane=False)

    def __init__(self, state: SharedState, prepared: Prepared, word: int) -> None:
        self._prepared, self._word = prepared, word
        self._staged = None if word == ABORTED else _staged_by(state.store, prepared)
        super().__init__(state, prepared.version, None if self._staged is None else prepared.txn_id)
        self.head: Snapshot = state.newest(settled=False)
        self.read = self.head

    def look(self, *, in_lane: bool) -> Snapshot:
        """The newest version, as it is: this is what settles it.  At first what is known of it, which its owner has just put: an old one costs a lost put."""
        return self.state.newest(settled=False) if in_lane or self.attempts == 0 else self.state.look()

    def move_to(self, head: Snapshot) -> Over | None:
        """Returns the version that another has closed it with."""
        self.head = self.read = head
        if is_open(head, self._prepared):
            return None
        return Over(closed_at(self.state, self._prepared, head), by_another=True)

    def commit_file(self) -> bytes:
        prepared, staged, head, txns = self._prepared, self._staged, self.head, [versions.closes(self.head.metadata.id)]
        decided = {ABORTED: None, BY_HAND: "by hand"}.get(self._word, self._word)
        closed: dict[str, Any] = {"txn_id": prepared.txn_id, "prepared": prepared.version, "decided": decided}
        in_home = {"table": prepared.home.table, "id": prepared.home.id, "version": self._word}
        record: dict[str, Any] = {} if staged is None else {"tables": [] if self._word == BY_HAND else [in_home]}
        base = None if staged is None else head if head.version == prepared.version else self.state.log.at(prepared.version)
        if staged is None or base is None or not _fits(staged, base, head, self.state.store) or self._is_restored(base):
            record["closed"] = {**closed, "void": staged is not None}
            info = commit_info(CLOSE, {}, self.txn_id, read_version=head.version, blind=False, metrics={}, record=record)
            return bytes_on(head, info, txns=[*(staged.txns if staged is not None else ()), *txns])  # a step that was undone is not done again
        files, dropped = self._files(staged, base)
        raw = dict(staged.info.raw) if staged.info is not None else {}
        record = {**raw.get("rowlock", {}), **record, "closed": {**closed, "overwritten": dropped}}
        info = {**{k: v for k, v in raw.items() if k not in ("inCommitTimestamp", "tags")}, "timestamp": clock.now_ms(), "rowlock": record}
        return bytes_on(head, info, adds=files.adds, removes=files.removes, domains=files.domains, cdc=files.cdc, txns=[*staged.txns, *txns])

    def _is_restored(self, base: Snapshot) -> bool:
        """Whether rows are back that were gone at the P: another engine's RESTORE came after the transaction, and undoes it.

        A file's vector got smaller; or a file is back, which its rows' commit version tells, and on a table without row tracking what is known of removed files.
        """
        added = [a for c in self.state.log.commits(base.version, self.head.version) for a in c.adds]
        there = base.files.get({a.path for a in added})
        back = [a for a in added if a.path not in there]
        if any(a.dead_rows < there[a.path].dead_rows for a in added if a.path in there):
            return True
        if any(a.default_row_commit_version is not None and a.default_row_commit_version <= base.version for a in back):
            return True
        _, retained, later = self.state.log.removes(base) if back else (0, [], [])
        return not {a.key for a in back}.isdisjoint(r.key for r in (*retained, *(r for _, r in later)))

    def _files(self, staged: Commit, base: Snapshot) -> tuple[FileActions, int]:
        return (_as_staged(staged, base), 0) if self.head.version == base.version else self._followed(staged, base)

    def _followed(self, staged: Commit, base: Snapshot) -> tuple[FileActions, int]:
        """The staged changes after the commits of other engines since then, and of how many rows they are dropped."""
        ids: MaterializedIds = self.state.shared("row ids", lambda: MaterializedIds(self.state.store))
        done, metadata = follow(staged, base, self.head, self.state.vectors, ids), self.head.metadata
        if (done.tombstones or any(f.dead for f in done.files)) and DELETION_VECTORS not in reader_features(self.head.protocol):
            raise _unsettled(
                self.state,
                self._prepared,
                "another engine has dropped the feature deletionVectors from this table meanwhile, without which the rows cannot be deleted",
                "Add the feature again with that engine: ALTER TABLE ... SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true').",
            )
        head = replace(self.head, metadata=replace(metadata, configuration={**metadata.configuration, **_AS_PREPARED}))
        effects, staging = Effects(done.tombstones), Staging(files=done.files)
        return file_actions(effects, head, engine=cast(Engine, ids), vectors=self.state.vectors, staging=staging), done.dropped  # it is asked for counts alone

    def put_ended(self, version: int, outcome: Any) -> Over | None:
        over = super().put_ended(version, outcome)
        if over is not None and self._prepared.post is not None:
            discard(self.state.store, (self._prepared.post,))
        return over


def _staged_by(store: ObjectStore, prepared: Prepared) -> Commit | None:
    """The commit that was staged for a table; None where the transaction only read it.  Raises CorruptLog where its post is not there."""
    if prepared.post is not None:
        try:
            data = store.get(prepared.post)
        except NotFound as e:
            text = "what a transaction over several tables does here was posted beside the table, and the post is gone although the transaction is open"
            raise CorruptLog(text, table=store.root, version=prepared.version, file=prepared.post) from e
    elif prepared.staged is not None:
        data = prepared.staged.encode()
    else:
        return None
    return parse_commit(prepared.version, data, store.root)


def _as_staged(staged: Commit, head: Snapshot) -> FileActions:
    """The file actions of a commit that was staged for the version that became the P: nothing came between, so they hold for the next one."""
    adds = [replace(a, default_row_commit_version=head.version + 1) if a.default_row_commit_version == head.version else a for a in staged.adds]
    return FileActions(tuple(adds), staged.removes, domains=staged.domains)


def _fits(staged: Commit, base: Snapshot, head: Snapshot, store: ObjectStore) -> bool:
    """Whether what was staged for `base` can be in `head`: not where another engine replaced the table's columns meanwhile, or forbade a null that is staged."""
    if base.partition_columns != head.partition_columns or not reads_as(base.schema, head.schema, widens=TYPE_WIDENING in reader_features(head.protocol)):
        return False
    if base.schema == head.schema or not has_not_null(head.schema):
        return True
    replaced = {r.path for r in staged.removes}
    try:
        check_not_null([a for a in staged.adds if a.path not in replaced], head, store)
    except ConstraintViolated:
        return False
    return True


def reads_as(old: DataType, new: DataType, *, widens: bool) -> bool:
    """Whether a file with columns of one type can be read by another: fields that it lacks are null, `widens` says whether a type may have become wider."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        there = {f.physical_name: f.type for f in old.fields}
        return all(reads_as(there[f.physical_name], f.type, widens=widens) if f.physical_name in there else f.nullable for f in new.fields)
    if inner := shared_parts(old, new):
        return all(reads_as(a, b, widens=widens) for a, b in inner.values())
    return old == new or (widens and may_become(old, new))


@dataclass(frozen=True, slots=True)
class Followed:
    """The rows to delete, by their files at the head; the new files, with the positions of those of their rows that are dropped; how many were dropped."""

    tombstones: Mapping[str, BitMap64]
    files: tuple[StagedFile, ...]
    dropped: int = 0


def follow(staged: Commit, base: Snapshot, head: Snapshot, vectors: Vectors, ids: MaterializedIds) -> Followed:
    """The effects of a staged commit, which was made on top of `base`, on top of `head`."""
    written = {add.path: add for add in staged.adds}
    tombstones: dict[str, BitMap64] = {}
    lost: dict[str, BitMap64] = {}
    live = head.files.get([r.path for r in staged.removes])
    for path, before in base.files.get([r.path for r in staged.removes]).items():
        dead = vectors.of(before)
        ours = (vectors.of(written[path]) if path in written else positions_except(before.physical_rows(ids.count))) - dead
        file = live.get(path)
        gone = ours if file is None else ours & vectors.of(file)
        if ours - gone:
            tombstones[path] = ours - gone
        if gone:
            lost[path] = gone
    removed = {r.path for r in staged.removes}
    new = [replace(a, base_row_id=None, default_row_commit_version=None) for a in staged.adds if a.path not in removed]
    if not lost:
        return Followed(tombstones, tuple(StagedFile(a) for a in new))
    moved, dropped = _found(lost, base, head, vectors, ids)
    files = [_without(a, dropped, head, vectors, ids) for a in new]
    return Followed(union_by_path(tombstones, moved), tuple(f for f in files if f is not None), len(dropped))


def _found(lost: Mapping[str, BitMap64], base: Snapshot, head: Snapshot, vectors: Vectors, ids: MaterializedIds) -> tuple[dict[str, BitMap64], Numbers]:
    """(where the lost rows that were only moved are at the head, the ids of the others)."""
    columns = columns_of(base)
    assert columns is not None, "rows of a prepared table are only changed where they are tracked"
    of = ids.at(columns)
    files = base.files.get(lost)
    wanted = [identities_in(files[path], bitmap_to_numpy(at), of) for path, at in lost.items()]
    row_ids, versions = np.concatenate([w.ids for w in wanted]), np.concatenate([w.commit_versions for w in wanted])
    order = np.argsort(row_ids)
    row_ids, versions = row_ids[order], versions[order]
    is_found = np.zeros(len(row_ids), bool)
    moved: dict[str, BitMap64] = {}
    for file in head.files.adds():
        if file.path in base.files:
            continue
        positions = bitmap_to_numpy(live_slice(file, vectors.of).positions(ids.count))
        there = identities_in(file, positions, of)
        at = np.minimum(np.searchsorted(row_ids, there.ids), len(row_ids) - 1)
        same = (row_ids[at] == there.ids) & (versions[at] == there.commit_versions)
        if same.any():
            is_found[at[same]] = True
            moved[file.path] = bitmap_of(positions[same])
    return moved, row_ids[~is_found]


def _without(file: AddFile, dropped: Numbers, head: Snapshot, vectors: Vectors, ids: MaterializedIds) -> StagedFile | None:
    """A new file without the rows that took the place of dropped ones; None where no row is left."""
    columns, num_rows = columns_of(head), file.physical_rows(ids.count)
    if columns is None:  # row tracking was switched off meanwhile: the origin of the file's rows is lost
        return StagedFile(file)
    row_ids, _ = ids.at(columns)(file, np.arange(num_rows, dtype=np.int64))
    dead = bitmap_of(np.flatnonzero(np.isin(row_ids, dropped))) | vectors.of(file)
    if len(dead) >= num_rows:
        return None
    return StagedFile(replace(file, deletion_vector=None), dead) if dead else StagedFile(file)
