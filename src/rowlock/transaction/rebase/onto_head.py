"""Bringing what a transaction has staged to the head of the log, over what others committed since (I3).

The winners are judged by the table rules, by the transaction's policy, by its isolation level and
by what it read; then its effects are rebased over exactly the rows that it has to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rowlock.boundary.effects import Effects
from rowlock.conflict import isolation, rules
from rowlock.conflict.delta import Delta, delta_between
from rowlock.conflict.value import conflict_with
from rowlock.exceptions import StatementRefused, VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.features import check_writable
from rowlock.transaction.publish import outcome
from rowlock.transaction.rebase import cell_merge, fail_policy, log_chain, schema_change
from rowlock.transaction.rebase.follow_moves import follow_moves
from rowlock.transaction.rebase.lost_bins import drop_overlapping_bins
from rowlock.transaction.rebase.propagate import rebase
from rowlock.transaction.state.attempt import AlreadyCommitted, Attempt
from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.receipt import Conflict
from rowlock.transaction.state.staging import Staged

_SAMPLES = 5


def rebase_onto_head(txn: Pending, attempt: Attempt, head: Snapshot, *, posted: bool = False) -> Staged | int:
    """What the transaction has staged, rebased over the commits between its base and `head`; the same value where there are none.

    Instead the version of a commit between them that is the transaction's own, where a put of unknown outcome landed after all (I2).
    `posted`: others may commit the transaction.  Raises AlreadyCommitted, as `outcome.found` does, and by rule, policy, isolation and reads DeltaConcurrentModificationException.
    """
    rewritten, log = head.chain != txn.base.chain, txn.table.state.log
    if head.version == txn.base.version and not rewritten:
        return txn.staged
    log_chain.check_table(txn, head)
    try:
        winners = log.commits(txn.base.version, head.version)
    except VersionNotFound:  # they were cleaned up: what they did together is known, and so is that none of them is our own, unless we have posted it
        if posted and not rewritten:
            raise
        rewritten = True
        winners = log_chain.still_there(log, txn.base.version, head.version)
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
            staged = _merged(txn, attempt, replace(txn.staged, effects=schema_change.adapt(txn, txn.effects, head)), winners, head, rewritten)
        else:
            staged = _rebased(txn, attempt, winners, head, rewritten)
            staged = replace(staged, effects=schema_change.adapt(txn, staged.effects, head))
    attempt.rounds += 1
    return replace(staged, read=head, base=txn.view(head), passed=(*txn.staged.passed, *winners) if staged.unseen else ())


def refuse_removal(txn: Pending, head: Snapshot) -> None:
    """delta.appendOnly: rows may come and be moved, and none may go."""
    if txn.data_change and txn.effects.num_tombstones and head.properties.append_only:
        raise StatementRefused(
            "The table is append-only (delta.appendOnly=true); unset the property to change or delete rows", what="removing rows", table=txn.table.path
        )


def _check_table(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    state = fail_policy.table_state(txn.read)
    asked = rules.TABLE_RULES if txn.options.raises_by_file or txn.metadata is not None else schema_change.OTHER_RULES
    if found := rules.first_conflict(asked, fail_policy.reads_of(txn), winners, state):
        raise fail_policy.error_of(txn, found)
    if asked is schema_change.OTHER_RULES:
        schema_change.check_still_fits(txn, winners, head)
    check_writable(head.protocol, head.metadata, txn.table.path)


def _check_application(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """The same application: what it has committed already is not committed again, and its steps come in order."""
    app = txn.app
    rival = next((w for w in reversed(winners) if app is not None and any(t.app_id == app.app_id for t in w.txns)), None)
    if app is None or rival is None:
        return
    if txn.options.on_conflict != "fail" and head.txns[app.app_id].version >= app.version:
        raise AlreadyCommitted
    text = f"Application {app.app_id!r} was committed by another writer, up to version {head.txns[app.app_id].version}, while version {app.version} was staged."
    remedy = "Only one writer at a time may use an application id; give each its own."
    raise fail_policy.error_of(txn, conflict_with(rival, "application", what=text, remedy=remedy))


def _merged(txn: Pending, attempt: Attempt, staged: Staged, winners: list[Commit], head: Snapshot, rewritten: bool) -> Staged:
    """Lockless: nothing is evaluated again; what is staged is merged, by row id, with what winners made of the same rows."""
    paths = isolation.paths_of(winners)
    delta = delta_between(paths, txn.base.files.get(paths), head.files.get(paths), txn.table.state.vectors.of)
    if rewritten and any(s.path in staged.effects.tombstones for s in delta.gone):  # ids of the lost commits may have been given to other rows
        raise fail_policy.error_of(txn, log_chain.rewritten_log(txn.read, head))
    try:
        done = cell_merge.merge(staged.effects, delta, winners, engine=txn.table.engine, base=txn.base, head=head, vector_of=txn.table.state.vectors.of)
    except cell_merge.RewrittenWithoutIds as e:
        raise fail_policy.error_of(txn, e.conflict) from None
    if done.hit is not None:
        attempt.conflicts += _conflicts(winners, Delta(tuple(s for s in delta.gone if s.path in done.hit), ()), staged.effects)
    attempt.overwritten += done.overwritten
    attempt.rows_rebased += done.rows_merged
    attempt.rows_followed += done.rows_followed
    attempt.rows_dropped += done.rows_dropped
    return replace(staged, effects=done.effects)


def _rebased(txn: Pending, attempt: Attempt, winners: list[Commit], head: Snapshot, rewritten: bool) -> Staged:
    staged, passed = txn.staged, (*txn.staged.passed, *winners)
    level = "serializable" if txn.metadata is not None or txn.options.isolation is None else txn.options.isolation
    seen = isolation.paths_to_check(level, winners, staged.unseen)
    paths = seen.paths
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
    staged = replace(staged, unseen=seen.unseen)
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
        moved = _moves(txn, staged.effects, passed, delta, head)
        staged = replace(staged, unseen={p: known.get(p) for p in paths - {s.path for s in (*moved.gone, *moved.born)} if known.get(p) != after.get(p)})
        if moved.is_empty:
            return staged
        if txn.reads_table and moved is delta:
            _check_reads(txn, passed, delta, head)
        delta = moved
    effects = drop_overlapping_bins(txn.program, staged.effects, paths, after)
    relevant = _relevant(txn, delta)
    done = rebase(effects, txn.program, relevant, engine=txn.table.engine, snapshot=head)
    attempt.conflicts += _conflicts(passed, relevant, effects)
    attempt.rows_rebased += done.rows_rebased
    attempt.bytes_rebased += done.bytes_rebased
    attempt.rows_dropped += done.rows_dropped
    return replace(staged, effects=done.effects)


def known_files(txn: Pending, paths: Iterable[str]) -> dict[str, AddFile]:
    """The files among `paths` as the transaction has seen them last."""
    files = {**txn.base.files.get(paths), **txn.staged.unseen}
    return {p: f for p, f in files.items() if f is not None}


def _check_reads(txn: Pending, passed: Sequence[Commit], delta: Delta, head: Snapshot) -> None:
    """What the transaction read as a whole (toDF, a source that reads the table) may have been moved, and not changed."""
    differing = txn.table.engine.differ(delta.gone, txn.base, delta.born, head, _SAMPLES)
    if not differing:
        return
    slices = delta.gone or delta.born
    paths = {s.path for s in slices}
    winner = next((w for w in reversed(passed) if paths & w.paths), passed[-1])
    rule = "rows read" if delta.gone else "rows added to a read"
    text = (
        f"This transaction read the table at version {txn.read_version}, by toDF() or in the rows that it writes, and a concurrent commit changed what it read."
    )
    remedy = "Run it again; given as a function to rowlock.run(table, fn) it runs again by itself."
    raise fail_policy.error_of(txn, conflict_with(winner, rule, files=sorted(paths & winner.paths), rows=differing, what=text, remedy=remedy))


def check_source(txn: Pending, version: int) -> None:
    """Rows that were read from the table at another version than the transaction reads: fine while both hold the same rows."""
    first, last = sorted((version, txn.base.version))
    log = txn.table.state.log
    between = log.commits(first, last)
    old, new = (txn.base if v == txn.base.version else log.at(v) for v in (first, last))
    paths = isolation.paths_of(between)
    delta = delta_between(paths, old.files.get(paths), new.files.get(paths), txn.table.state.vectors.of)
    if delta.is_empty or not (differing := txn.table.engine.differ(delta.gone, old, delta.born, new, _SAMPLES)):
        return
    rule = "rows read" if delta.gone else "rows added to a read"
    text = f"The rows to write were read from this table at version {version}, and the table has changed up to version {txn.base.version}, which the statement reads."
    remedy = "Make the DataFrame anew right before the statement, or read it by txn.toDF() inside a function that rowlock.run(table, fn) can run again."
    raise fail_policy.error_of(txn, conflict_with(between[-1], rule, files=sorted(paths), rows=differing, what=text, remedy=remedy))


def _moves(txn: Pending, effects: Effects, passed: Sequence[Commit], delta: Delta, head: Snapshot) -> Delta:
    """Under `snapshot`: nothing, where no row that the transaction changes was touched; the moves of these rows, where
    they were only moved; else the whole delta, for a full rebase.
    """
    hit = frozenset(s.path for s in delta.gone if s.path in effects.tombstones and s.covers(effects.tombstones[s.path]))
    if not hit:
        return Delta((), ())
    tied = isolation.linked_paths(hit, passed)
    part = Delta(tuple(s for s in delta.gone if s.path in tied), tuple(s for s in delta.born if s.path in tied))
    return delta if txn.table.engine.differ(part.gone, txn.base, part.born, head, 1) else part


def _relevant(txn: Pending, delta: Delta) -> Delta:
    """Without the born files that every statement's skipping predicate rules out: no statement can change their rows."""
    reading = [s for s in txn.program if s.touches]
    if not reading or any(s.kind == "move" for s in reading):
        return delta
    born = tuple(s for s in delta.born if any(fail_policy.may_match(txn.base, p.reads, s.file) for p in reading))
    return Delta(delta.gone, born)


def _conflicts(winners: Sequence[Commit], delta: Delta, effects: Effects) -> list[Conflict]:
    """One value for each winner whose change touched ours or brought rows to look at."""
    gone, born = {s.path: s for s in delta.gone}, {s.path: s for s in delta.born}
    out: list[Conflict] = []
    for w in winners:
        took = {r.path for r in w.removes if r.path in gone and r.path in effects.tombstones}
        brought = {a.path for a in w.adds if a.path in born}
        if took or brought:
            rows_gone = sum(len(gone[p].covers(effects.tombstones[p])) for p in took)
            rows_born = sum(born[p].num_rows or 0 for p in brought)
            info = w.info
            out.append(
                Conflict(
                    w.version,
                    info.operation if info else None,
                    info.timestamp_ms if info else None,
                    info.txn_id if info else None,
                    tuple(sorted(took | brought))[:20],
                    rows_gone,
                    rows_born,
                )
            )
    return out
