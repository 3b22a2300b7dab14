"""Turns staged effects into the add, remove and cdc actions of one commit (I4, I5).

A file's new deletion vector is the head's with the transaction's tombstones added, never one that was staged earlier.  Each
path gets at most one remove, which names the (path, vector) that is live at the head, and at most one add.
The removes of a compaction record where in the output the rows of each input are (placement tags).
Where the table does not allow deletion vectors, the remaining rows of a touched file are copied into a new file instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.boundary.effects import Effects, Loss, RowBlock, StagedFile, changes_of, needs_no_change_files
from rowlock.boundary.engine import AppendEngine, Engine
from rowlock.conflict import change_feed as feed
from rowlock.conflict.delta import Slice
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile, DomainMetadata, Placement, RemoveFile
from rowlock.protocol.features import vectors_allowed
from rowlock.protocol.statistics import widened
from rowlock.transaction.state.pending import CopyKey, Staging
from rowlock.transaction.state.shared import Vectors


@dataclass(frozen=True, slots=True)
class FileActions:
    """The file actions of one commit, with what its metrics need: rows copied by copy on write, files that got a new deletion vector, and how many of them had one."""

    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    rows_copied: int = 0
    vectors_added: int = 0
    vectors_updated: int = 0
    domains: tuple[DomainMetadata, ...] = ()
    cdc: tuple[AddCdcFile, ...] = ()


def file_actions(effects: Effects, head: Snapshot, *, engine: Engine, vectors: Vectors, staging: Staging, data_change: bool = True) -> FileActions:
    """Writes the data, deletion vector and change data files that are missing, and returns the file actions for a commit on top of `head`."""
    allowed = vectors_allowed(head.protocol, head.metadata)
    touched = _touched(effects, head, engine, vectors)
    now = clock.now_ms()
    removes = [t.head.removed(deletion_timestamp_ms=now, data_change=data_change) for t in touched]
    survivors = [t for t in touched if len(t.dead) < t.num_rows]
    staged = _written(effects.blocks, head, engine, staging, allowed)
    if not data_change:
        places = placements(effects.blocks, staged, {t.head.path: t.ours for t in touched if len(t.dead) == t.num_rows})
        removes = [replace(r, tags={**(r.tags or {}), **places[r.path].tags()}) if r.path in places else r for r in removes]
    losses = [Loss(t.head, len(t.dead) >= t.num_rows) for t in touched]
    cdc = _changes(effects, losses, staged, head, engine, staging, allowed) if data_change else ()
    copies: list[StagedFile] = []
    if survivors and not allowed:
        copies = _copies(survivors, head, engine, staging)
        survivors = []
    marked = [(t.head, t.dead, t.num_rows) for t in survivors] + [(s.add, s.dead, s.add.num_records) for s in staged if s.dead]
    descriptors = vectors.store_all([dead for _, dead, _ in marked])
    adds = [
        replace(add, deletion_vector=vector, stats=widened(add.stats, num_rows), data_change=data_change)
        for (add, _, num_rows), vector in zip(marked, descriptors, strict=True)
    ]
    adds += [replace(s.add, data_change=data_change) for s in [*staged, *copies] if not s.dead]
    for add, (_, dead, _) in zip(adds, marked, strict=False):
        vectors.remember(add, dead)
    tracked, domains = row_identity.assign_row_ids(adds, head, engine.count)
    updated = sum(t.head.deletion_vector is not None for t in survivors)
    return FileActions(tracked, tuple(removes), sum(s.add.num_records or 0 for s in copies), len(survivors), updated, domains, cdc)


def append_actions(adds: Sequence[AddFile], head: Snapshot, engine: AppendEngine) -> FileActions:
    """The file actions, on top of `head`, of a commit that only adds these files."""
    tracked, domains = row_identity.assign_row_ids(adds, head, engine.count)
    return FileActions(tracked, (), domains=domains)


def staged_adds(effects: Effects, head: Snapshot, *, engine: AppendEngine, staging: Staging) -> tuple[AddFile, ...]:
    """The adds of a transaction that only appends, without row ids yet; files that are written already are reused."""
    return tuple(replace(s.add, data_change=True) for s in _written(effects.blocks, head, engine, staging, True))


def _written(blocks: tuple[RowBlock, ...], head: Snapshot, engine: AppendEngine, staging: Staging, allowed: bool) -> Sequence[StagedFile]:
    """Writes the blocks as data files; the files of a lost put are reused if the rebase changed no block since."""
    rows = tuple(b for b in blocks if b.kind != "matched")
    if len(rows) != len(staging.blocks) or any(a is not b for a, b in zip(rows, staging.blocks, strict=True)):
        staging.blocks, staging.files = rows, engine.write(rows, snapshot=head, vectors_allowed=allowed)
    return staging.files


def _changes(
    effects: Effects, losses: Sequence[Loss], staged: Sequence[StagedFile], head: Snapshot, engine: Engine, staging: Staging, allowed: bool
) -> tuple[AddCdcFile, ...]:
    """Writes the change data files of the commit, again if a rebase changed the effects; none where add and remove actions suffice."""
    if not feed.is_enabled(head.protocol, head.metadata) or needs_no_change_files(effects, losses, staged, vectors_allowed=allowed):
        return ()
    if staging.changes is None or staging.changes[0] is not effects:
        changes = changes_of(effects, {loss.file.path: loss.file for loss in losses}, engine.provenance)
        staging.changes = effects, engine.write_changes(changes, snapshot=head)
    return tuple(staging.changes[1])


@dataclass(frozen=True, slots=True)
class _Touched:
    """A live file that loses rows.  `dead`: all its deleted positions, earlier ones included; `ours`: those that this transaction adds."""

    head: AddFile
    dead: BitMap64
    ours: BitMap64
    num_rows: int


def _touched(effects: Effects, head: Snapshot, engine: Engine, vectors: Vectors) -> list[_Touched]:
    live = head.files.get(effects.tombstones.keys())
    out: list[_Touched] = []
    for path, ours in sorted(effects.tombstones.items()):
        if not ours:
            continue
        add = live[path]
        before = vectors.of(add)
        assert not before & ours, f"tombstones on dead rows of {path}"
        out.append(_Touched(add, before | ours, ours, add.physical_rows(engine.count)))
    return out


def _copies(touched: Sequence[_Touched], head: Snapshot, engine: Engine, staging: Staging) -> list[StagedFile]:
    """Copy on write: the remaining rows of the files, in new files; copies of the same file state from an earlier try are reused."""
    keys: Mapping[str, CopyKey] = {t.head.path: (t.head.path, t.head.key[1], t.dead.serialize()) for t in touched}
    missing = [Slice(t.head, without=t.dead) for t in touched if keys[t.head.path] not in staging.copies]
    if missing:
        for path, files in engine.copy(missing, snapshot=head).items():
            staging.copies[keys[path]] = files
    return [f for key in keys.values() for f in staging.copies[key]]


def placements(blocks: Sequence[RowBlock], staged: Sequence[StagedFile], taken: Mapping[str, BitMap64]) -> dict[str, Placement]:
    """By input path, where its rows are in the output; only for inputs whose live rows (`taken`) lie in the output in one run, in order."""
    out: dict[str, Placement] = {}
    for block in blocks:
        files = [s for s in staged if s.group == block.group]
        same = [b for b in blocks if b.group == block.group]
        if len(files) != 1 or len(same) != 1 or files[0].dead or files[0].add.num_records != block.num_rows or block.provenance is None:
            continue
        for path, (start, rows) in block.provenance.in_order(taken).items():
            out[path] = Placement(files[0].add.path, start, rows)
    return out
