"""Rebases a transaction's staged effects onto the head of the log, over the commits of others since its base (I3).

The winners are judged by the rules about the table, by the transaction's policy and isolation level, and by what it read.
Then its effects are rebased over exactly those rows of the delta that can matter to it:

    D' = (D - G) + { born rows that the program changes }
    R' = { x in R : provenance(x) not in G } + { their new images }
    F' = { inserts whose count is 0 } + appended rows as staged

D tombstones, R images of derived rows, F rows that are inserted or appended; G the rows that are gone.  Staging is a rebase from empty effects,
statement after statement.  The delta is read, and never the whole table.

Where a winner changed the table's metadata, new
constraints are checked on all staged rows, wherever these came from; if the change may give a statement's plan another meaning,
MetadataChangedException is raised, and the statement is staged again from the head.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rowlock.boundary.effects import Assigned, Effects, LostMatches, RowBlock, survivors
from rowlock.boundary.engine import Engine, Program, refuse_on_append_only
from rowlock.boundary.provenance import union_by_path
from rowlock.conflict import rules
from rowlock.conflict.delta import Delta, Slice, delta_between, live_slice
from rowlock.conflict.rules import TableChange, table_change
from rowlock.conflict.value import conflict_with
from rowlock.exceptions import VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.column_mapping import is_mapped
from rowlock.protocol.column_values import goes_back
from rowlock.protocol.features import check_writable, vectors_allowed
from rowlock.transaction.publish import outcome
from rowlock.transaction.rebase import cell_merge, fail_policy, log_chain
from rowlock.transaction.rebase.follow_moves import drop_overlapping_bins, follow_moves
from rowlock.transaction.state.pending import AlreadyCommitted, Attempt, Pending, Staged
from rowlock.transaction.state.receipt import Conflict

_SAMPLES = 5


def rebase_onto_head(txn: Pending, attempt: Attempt, head: Snapshot, *, posted: bool = False) -> Staged | int:
    """Rebases what the transaction has staged over the commits between its base and `head`; the same value if there are none.

    Returns instead the version of the transaction's own commit if one is found among them, because a put whose outcome was
    unknown has landed (I2).  `posted`: another process may commit the transaction (posted append).

    Raises AlreadyCommitted where the application's transaction version is in the log already, what `outcome.found` raises,
    and DeltaConcurrentModificationException where a rule, the policy, the isolation level or a read forbids the rebase.
    """
    rewritten, log = head.chain != txn.base.chain, txn.table.state.log
    if head.version == txn.base.version and not rewritten:
        return txn.staged
    log_chain.check_table(txn, head)
    try:
        winners = log.commits(txn.base.version, head.version)
    except VersionNotFound:  # cleaned up: their net effect is known from the snapshots. None is our own commit, unless this append was posted
        if posted and not rewritten:
            raise
        rewritten = True
        winners = log_chain.remaining_commits(log, txn.base.version, head.version)
    if landed := next((w.version for w in winners if txn.txn_id in w.txn_ids), None):
        return outcome.found(log, head, landed, txn.txn_id)
    if rewritten:
        winners = log_chain.winners_of(txn, head)
    refuse_removal(txn, head)
    txn.phase("before_rebase")
    with txn.watch.time("rebase"):
        _check_table(txn, winners, head)
        _check_application(txn, winners, head)
        if txn.options.raises_by_file:
            fail_policy.check_files(txn, winners)
        if txn.is_lockless:
            staged = _merge_cells(txn, attempt, replace(txn.staged, effects=adapt(txn, txn.effects, head)), winners, head, rewritten)
        else:
            staged = _rebase_rows(txn, attempt, winners, head, rewritten)
            staged = replace(staged, effects=adapt(txn, staged.effects, head))
        _check_rows(txn, staged.effects, head)
    attempt.rounds += 1
    return replace(staged, read=head, base=txn.view(head), passed=(*txn.staged.passed, *winners) if staged.unseen else ())


def refuse_removal(txn: Pending, head: Snapshot) -> None:
    """Raises StatementRefused where the table is append-only (delta.appendOnly) and the transaction deletes or replaces rows; moves are allowed."""
    if txn.data_change and txn.effects.num_tombstones:
        refuse_on_append_only(head)


def _check_table(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """Raises where a winner changed the table's protocol or metadata in a way that staged work cannot be carried over."""
    state = fail_policy.table_state(txn.read)
    asked = rules.TABLE_RULES if txn.options.raises_by_file or txn.metadata is not None else OTHER_RULES
    if found := rules.first_conflict(asked, fail_policy.reads_of(txn), winners, state):
        raise fail_policy.error_of(txn, found)
    if asked is OTHER_RULES:
        check_still_fits(txn, winners, head)
    check_writable(head.protocol, head.metadata, txn.table.path)


def _check_application(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """Enforces `txn` versions (appId, version): what the application has committed already is not committed again, and not out of order.

    Raises AlreadyCommitted, or DeltaConcurrentModificationException where another writer used the same application id.
    """
    app = txn.app
    rival = next((w for w in reversed(winners) if app is not None and any(t.app_id == app.app_id for t in w.txns)), None)
    if app is None or rival is None:
        return
    if txn.options.on_conflict != "fail" and head.txns[app.app_id].version >= app.version:
        txn.table.state.log.make_durable(rival.version)
        raise AlreadyCommitted
    text = f"Application {app.app_id!r} was committed by another writer, up to version {head.txns[app.app_id].version}, while version {app.version} was staged."
    remedy = "Only one writer at a time may use an application id; give each its own."
    raise fail_policy.error_of(txn, conflict_with(rival, "application", what=text, remedy=remedy))


def _merge_cells(txn: Pending, attempt: Attempt, staged: Staged, winners: list[Commit], head: Snapshot, rewritten: bool) -> Staged:
    """`on_conflict=lockless`: merges staged cells, by row id, with the winners' versions of the same rows; evaluates no statement again."""
    if not txn.touches:
        return staged
    paths = rules.paths_of(winners)
    delta = delta_between(paths, txn.base.files.get(paths), head.files.get(paths), txn.table.state.vectors.of)
    if rewritten and any(s.path in staged.effects.tombstones for s in delta.gone):  # row ids of the lost commits may have been assigned to other rows
        raise fail_policy.error_of(txn, log_chain.rewritten_log(txn.read, head))
    engine, vector_of = txn.table.statement_engine, txn.table.state.vectors.of
    try:
        done = cell_merge.merge(staged.effects, delta, winners, engine=engine, base=txn.base, head=head, vector_of=vector_of)
    except cell_merge.RewrittenWithoutIds as e:
        raise fail_policy.error_of(txn, e.conflict) from None
    if done.hit is not None:
        attempt.conflicts += _conflicts_by_winner(winners, Delta(tuple(s for s in delta.gone if s.path in done.hit), ()), staged.effects)
    attempt.overwritten += done.overwritten
    attempt.rows_rebased += done.rows_merged
    attempt.rows_followed += done.rows_followed
    attempt.rows_dropped += done.rows_dropped
    return replace(staged, effects=done.effects)


def _rebase_rows(txn: Pending, attempt: Attempt, winners: list[Commit], head: Snapshot, rewritten: bool) -> Staged:
    """Every other policy: rebases the effects over the winners that the isolation level shows, following compactions where it can."""
    staged, passed = txn.staged, (*txn.staged.passed, *winners)
    level = "serializable" if txn.metadata is not None or txn.options.isolation is None else txn.options.isolation
    to_check = rules.paths_to_check(level, winners, staged.unseen)
    paths = to_check.paths
    known, after = known_files(txn, paths), head.files.get(paths)
    moving = any(s.kind == "move" for s in txn.program)
    followed = (
        None
        if rewritten or staged.unseen or moving or level == "snapshot"
        else follow_moves(staged.effects, winners, paths, known, after, txn.table.state.vectors.of)
    )
    if followed is not None:
        staged, delta = replace(staged, effects=followed.effects), followed.delta
        attempt.rows_followed += followed.rows
    else:
        delta = delta_between(paths, known, after, txn.table.state.vectors.of)
    staged = replace(staged, unseen=to_check.unseen)
    head = txn.view(head)
    if delta.is_empty:
        return staged
    if txn.reads_table and level != "snapshot":
        _check_reads(txn, passed, delta, head)
    if not txn.touches:
        return staged
    if txn.options.raises_by_row and txn.data_change:
        fail_policy.check_rows(txn, staged.effects, passed, delta, head)
    if level == "snapshot" and not rewritten:
        needed = _delta_of_own_rows(txn, staged.effects, passed, delta, head)
        staged = replace(staged, unseen={p: known.get(p) for p in paths - {s.path for s in (*needed.gone, *needed.born)} if known.get(p) != after.get(p)})
        if needed.is_empty:
            return staged
        if txn.reads_table and needed is delta:
            _check_reads(txn, passed, delta, head)
        delta = needed
    effects, vectors = staged.effects, vectors_allowed(head.protocol, head.metadata)
    if moving:
        effects = drop_overlapping_bins(txn.program, effects, winners, after, vectors=vectors, in_lane=txn.in_lane)
    relevant = _without_skipped_files(txn, delta)
    done = rebase(effects, txn.program, relevant, engine=txn.table.statement_engine, snapshot=head)
    attempt.conflicts += _conflicts_by_winner(passed, relevant, effects)
    attempt.rows_rebased += done.rows_rebased
    attempt.bytes_rebased += done.bytes_rebased
    attempt.rows_dropped += done.rows_dropped
    return replace(staged, effects=done.effects if vectors or not moving else _moved_anew(txn, effects, done.effects, head))


def _moved_anew(txn: Pending, before: Effects, after: Effects, head: Snapshot) -> Effects:
    """The effects `after` a rebase, on a table without deletion vectors: the bins that lost rows are moved once more, without these, in their order.

    Publishing would copy their outputs, in any order, and the removes could not say where the rows are.
    """
    same = set(map(id, before.blocks))
    stay, cut = tuple(b for b in after.blocks if id(b) in same), [b.group for b in after.blocks if id(b) not in same]
    if not cut:
        return after
    (move,) = txn.program
    groups = tuple(tuple(p for p in move.only[n] if p in after.tombstones) for n in cut)
    files = head.files.get([p for group in groups for p in group])
    slices = [live_slice(f, txn.table.state.vectors.of) for f in files.values()]
    done, _, _ = stage([replace(move, only=groups)], 0, Effects(), slices, engine=txn.table.statement_engine, snapshot=head)
    return replace(after, blocks=(*stay, *(replace(b, group=cut[b.group]) for b in done.blocks)))


def known_files(txn: Pending, paths: Iterable[str]) -> dict[str, AddFile]:
    """The files among `paths` in the state in which the transaction last saw them."""
    files = {**txn.base.files.get(paths), **txn.staged.unseen}
    return {p: f for p, f in files.items() if f is not None}


def _check_reads(txn: Pending, passed: Sequence[Commit], delta: Delta, head: Snapshot) -> None:
    """Raises if the delta changes rows that the transaction read: those of the table (toDF), or those that the condition of a source lets through."""
    text = (
        f"This transaction read the table at version {txn.read_version}, by toDF() or in the rows that it writes, and a concurrent commit changed what it read."
    )
    files = [s.file for s in (*delta.gone, *delta.born)]
    if any(fail_policy.may_match(txn.base, read.where, files) for read in txn.reads):  # then all of them, or rows that moved would be missed on one side
        where = [read.rows for read in txn.reads] if all(read.rows is not None for read in txn.reads) else []
        _refuse_changes(txn, passed, delta, txn.base, head, text, where=where)


def _refuse_changes(
    txn: Pending,
    passed: Sequence[Commit],
    delta: Delta,
    before: Snapshot,
    after: Snapshot,
    what: str,
    remedy: str | None = None,
    where: Sequence[Any] = (),
) -> None:
    """Raises if the delta between two versions changes rows (`where`: that meet one of these conditions), and does not just move them."""
    if differing := txn.table.statement_engine.differ(delta.gone, before, delta.born, after, _SAMPLES, where):
        paths = {s.path for s in delta.gone or delta.born}
        winner = next((w for w in reversed(passed) if paths & w.paths), passed[-1])
        rule = "rows read" if delta.gone else "rows added to a read"
        raise fail_policy.error_of(txn, conflict_with(winner, rule, files=sorted(paths & winner.paths), rows=differing, what=what, remedy=remedy))


def check_source(txn: Pending, version: int) -> None:
    """Raises if source rows were read from this table at `version` and the table has other rows at the transaction's version."""
    first, last = sorted((version, txn.base.version))
    log = txn.table.state.log
    between = log.commits(first, last)
    old, new = (txn.base if v == txn.base.version else log.at(v) for v in (first, last))
    paths = rules.paths_of(between)
    delta = delta_between(paths, old.files.get(paths), new.files.get(paths), txn.table.state.vectors.of)
    text = f"The rows to write were read from this table at version {version}, and the table has changed up to version {txn.base.version}, which the statement reads."
    remedy = "Create the DataFrame again right before the statement, or read it by txn.toDF() inside a function that rowlock.run(table, fn) can run again."
    if not delta.is_empty:
        _refuse_changes(txn, between, delta, old, new, text, remedy)


def _delta_of_own_rows(txn: Pending, effects: Effects, passed: Sequence[Commit], delta: Delta, head: Snapshot) -> Delta:
    """Under isolation `snapshot`: the part of a delta over which the effects must be rebased.

    Empty if no row that the transaction changes was touched.  If such rows were only moved, the files of these moves.
    Otherwise the whole delta, for a full rebase.
    """
    hit = frozenset(s.path for s in delta.gone if s.path in effects.tombstones and s.covers(effects.tombstones[s.path]))
    if not hit:
        return Delta((), ())
    tied = rules.linked_paths(hit, passed)
    part = Delta(tuple(s for s in delta.gone if s.path in tied), tuple(s for s in delta.born if s.path in tied))
    return delta if txn.table.statement_engine.differ(part.gone, txn.base, part.born, head, 1) else part


def _without_skipped_files(txn: Pending, delta: Delta) -> Delta:
    """The delta without born files that the skipping predicates of all statements rule out: no statement can change their rows."""
    reading = [s for s in txn.program if s.touches]
    if not reading or any(s.kind == "move" for s in reading):
        return delta
    files = [s.file for s in delta.born]
    left = {f.path for p in reading for f in fail_policy.may_match(txn.base, p.reads, files)}
    return Delta(delta.gone, tuple(s for s in delta.born if s.path in left))


def _conflicts_by_winner(winners: Sequence[Commit], delta: Delta, effects: Effects) -> list[Conflict]:
    """One conflict for each winner that removed rows which the transaction changes, or added rows which it had to evaluate."""
    gone, born = {s.path: s for s in delta.gone}, {s.path: s for s in delta.born}
    out: list[Conflict] = []
    for w in winners:
        took = {r.path for r in w.removes if r.path in gone and r.path in effects.tombstones}
        brought = {a.path for a in w.adds if a.path in born}
        if took or brought:
            rows_gone = sum(len(gone[p].covers(effects.tombstones[p])) for p in took)
            rows_born = sum(born[p].num_rows or 0 for p in brought)
            out.append(conflict_with(w, files=sorted(took | brought), rows_gone=rows_gone, rows_born=rows_born))
    return out


APPEND_ONLY = "delta.appendOnly"
OTHER_RULES = tuple(r for r in rules.TABLE_RULES if r is not rules.metadata_changed)
"""The rules about the table that apply in addition to `check_still_fits`."""


def check_still_fits(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """Raises MetadataChangedException if the staged work is not valid under the head's metadata."""
    defined = [txn.read.metadata, *(w.metadata for w in winners if w.metadata is not None)]
    if any(goes_back(a, b) for a, b in itertools.pairwise(defined)):
        text = "Another commit replaced the table while this transaction was staged: numbers of identity columns in its rows may be given out again."
        raise fail_policy.error_of(txn, conflict_with(winners[-1], "metadata", what=text))
    if head.metadata == txn.read.metadata:
        return
    change = table_change(txn.read.metadata, head.metadata, head.protocol)
    if change.is_empty or _can_be_kept(txn, change, head):
        return
    winner = next((w for w in reversed(winners) if w.metadata is not None), winners[-1]) if winners else None
    text = f"Another commit changed the table's definition while this transaction was staged: {', '.join(change.names)}."
    raise fail_policy.error_of(txn, conflict_with(winner or Commit(head.version), "metadata", columns=change.names, what=text))


def _can_be_kept(txn: Pending, change: TableChange, head: Snapshot) -> bool:
    """Whether staged work stays valid after the change, once `adapt` and `_check_rows` have been applied."""
    if any(key != APPEND_ONLY for key in change.other):  # appendOnly does not concern a transaction that only adds rows; others were refused before
        return False
    if change.checked and _hides_images(txn.program):
        return False
    if change.same_columns or (txn.is_lockless and not change.retyped):
        return True
    # Files of appends have the columns that their rows lack, too: of the former type, also where one of the name comes again with another.
    if txn.reads_table or change.retyped or (change.lost and not is_mapped(head.metadata.configuration)):
        return False
    return all(s.kind == "move" or (s.kind == "append" and not change.affects(s.sets)) for s in txn.program)


def _hides_images(program: Program) -> bool:
    """Whether a later statement may have changed rows that an earlier one wrote: the earlier images are gone and cannot be checked."""
    makes = [n for n, s in enumerate(program) if s.kind in ("update", "merge", "append")]
    return bool(makes) and any(s.touches for s in program[makes[0] + 1 :])


def adapt(txn: Pending, effects: Effects, head: Snapshot) -> Effects:
    """Converts the effects to the head's columns."""
    if head.metadata == txn.read.metadata or txn.metadata is not None or table_change(txn.read.metadata, head.metadata, head.protocol).same_columns:
        return effects
    blocks = tuple(txn.table.engine.adopt(b, before=txn.read, after=head) for b in effects.blocks)
    return replace(effects, blocks=blocks, assigned=_renamed(effects.assigned, txn.read, head))


def _check_rows(txn: Pending, effects: Effects, head: Snapshot) -> None:
    """Raises ConstraintViolated, as a run at the head would, where a staged row breaks a constraint that winners added."""
    added = txn.metadata is None and txn.data_change and head.metadata != txn.read.metadata
    if added and table_change(txn.read.metadata, head.metadata, head.protocol).checked:
        txn.table.engine.check([b for b in effects.blocks if b.kind != "matched"], snapshot=head)


def _renamed(assigned: Sequence[Assigned], before: Snapshot, after: Snapshot) -> tuple[Assigned, ...]:
    """Assigned cells under the present names of their columns, without those of dropped columns."""
    stored = {f.name: f.physical_name for f in before.schema.fields}
    names = {f.physical_name: f.name for f in after.schema.fields}
    return tuple(replace(a, columns=tuple(names[s] for c in a.columns if (s := stored[c]) in names)) for a in assigned)


@dataclass(frozen=True, slots=True)
class Rebased:
    """Effects after a rebase; how many rows and bytes the engine read for it, and how many staged rows were dropped."""

    effects: Effects
    rows_rebased: int = 0
    bytes_rebased: int = 0
    rows_dropped: int = 0


def stage(
    program: Program, first: int, effects: Effects, candidates: Sequence[Slice], *, engine: Engine, snapshot: Snapshot
) -> tuple[Effects, Mapping[str, int], tuple[str, ...]]:
    """Stages the statements from number `first` on, over the effects so far and over the candidate rows of the table.

    Returns the new effects, the engine's counts of the rows that these statements updated, deleted and inserted, and its words for how it did that.
    """
    lost_matches = LostMatches(effects, {}, engine.provenance)
    done = engine.propagate(program, effects, (), candidates, snapshot=snapshot, lost_matches=lost_matches, first=first)
    matches = [b for b in effects.blocks if b.kind == "matched"]
    blocks = (*matches, *(b for b in done.blocks if b.num_rows))
    tombstones = union_by_path(effects.tombstones, done.tombstones)
    return Effects(tombstones, blocks, {**effects.counts, **done.counts}, (*effects.assigned, *done.assigned)), done.metrics, done.ways


def stage_appends(program: Program, first: int, effects: Effects) -> Effects:
    """The effects with the rows of the statements from number `first` on, which are appends of blocks that are written already."""
    entered = [replace(b, statement=n) for n, s in enumerate(program) if n >= first for b in s.payload if b.num_rows]
    return replace(effects, blocks=(*effects.blocks, *entered))


def rebase(effects: Effects, program: Program, delta: Delta, *, engine: Engine, snapshot: Snapshot) -> Rebased:
    """Rebases the effects over `delta`, whose born rows are in `snapshot`.

    Raises what a run after the winners would raise: MultipleMatches, ConstraintViolated.
    """
    gone = delta.gone_by_path()
    lost_matches = LostMatches(effects, gone, engine.provenance)
    fresh = engine.propagate(program, effects, delta.gone, delta.born, snapshot=snapshot, lost_matches=lost_matches)
    left = {path: positions - gone[path].covers(positions) if path in gone else positions for path, positions in effects.tombstones.items()}
    tombstones = union_by_path(left, fresh.tombstones)
    surviving: list[RowBlock] = []
    dropped = 0
    for block in effects.blocks:
        mask = survivors(block, gone, fresh.counts, engine.provenance)
        if mask is not None and not mask.all():
            dropped += int(len(mask) - mask.sum()) if block.kind != "matched" else 0
            if not mask.any():
                continue
            block = engine.keep(block, mask)
        surviving.append(block)
    blocks = (*surviving, *(b for b in fresh.blocks if b.num_rows))
    merged = Effects({p: t for p, t in tombstones.items() if t}, blocks, {**effects.counts, **fresh.counts})
    return Rebased(merged, fresh.rows_read, fresh.bytes_read, dropped)
