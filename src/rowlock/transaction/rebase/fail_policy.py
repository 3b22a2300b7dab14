"""`on_conflict=fail`: decides what is a conflict, by file (the rules of open-source Delta) or by row.

By row, there is a conflict if a rebase would change more than the places of rows: the gone rows that the transaction
changes have other values than the born rows that its program now changes, or a MERGE inserts other rows than before.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from rowlock import exceptions
from rowlock.boundary.effects import Effects, LostMatches, Propagated, survivors
from rowlock.conflict import rules
from rowlock.conflict.delta import Delta, Slice
from rowlock.conflict.value import Conflict, conflict_with
from rowlock.log.pruning import FilePruner
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.predicates import Predicate
from rowlock.protocol.properties import Isolation
from rowlock.transaction.failed_attempt import work_of
from rowlock.transaction.state.pending import Pending

_Row = tuple[str, dict[str, Any]]
_T = TypeVar("_T")
_COMPARED_VALUES = 20_000_000
"""How many pairs of values are compared at most to find the columns that both sides changed: about 0.1 s."""


def table_state(base: Snapshot) -> rules.TableState:
    """The table's state at the transaction's base, as the conflict rules need it."""
    return rules.TableState(base.protocol, base.metadata, base.schema, lambda predicate, files: may_match(base, predicate, files))


def may_match(base: Snapshot, predicate: Predicate | None, files: Sequence[AddFile]) -> Sequence[AddFile]:
    """The files that may hold rows that match the predicate, by their partition values and statistics."""
    return files if predicate is None else FilePruner(predicate, base.schema, base.partition_columns).matching(files)


def check_files(txn: Pending, winners: list[Commit]) -> None:
    """Raises a DeltaConcurrentModificationException if `winners` conflict with `txn` by Delta's file rules."""
    if found := rules.first_conflict(rules.FILE_RULES, reads_of(txn), winners, table_state(txn.base)):
        raise error_of(txn, found)


def reads_of(txn: Pending) -> rules.Reads:
    """What the transaction read and removes, as the conflict rules need it."""
    reading = [s for s in txn.program if s.touches]
    return rules.Reads(
        predicates=(*(s.reads for s in reading if s.kind != "move"), *((None,) if txn.reads_table else ())),
        files=frozenset(txn.files_read),
        removes=frozenset(p for p, t in txn.effects.tombstones.items() if t),
        changes_data=txn.data_change,
        isolation=cast(Isolation, txn.options.isolation),
        changes_metadata=txn.metadata is not None,
    )


def error_of(txn: Pending, conflict: Conflict) -> exceptions.DeltaConcurrentModificationException:
    """The exception for a conflict, with an account of the staged work that is lost by it."""
    return conflict.with_work(work_of(txn)).exception(txn.table.path)


def check_rows(txn: Pending, effects: Effects, winners: Sequence[Commit], delta: Delta, head: Snapshot) -> None:
    """Raises a DeltaConcurrentModificationException if a rebase over `delta` would change more than the places of rows.

    Under isolation `snapshot` only rows that the transaction itself changes count.
    """
    engine = txn.table.statement_engine
    lost = [Slice(s.file, only=both) for s in delta.gone if (both := s.covers(effects.tombstones[s.path]) if s.path in effects.tombstones else None)]
    matches = LostMatches(effects, delta.gone_by_path(), engine.provenance)
    fresh = engine.propagate(txn.program, effects, delta.gone, delta.born, snapshot=head, lost_matches=matches)
    files = {s.path: s.file for s in delta.born}
    won = [Slice(files[p], only=t) for p, t in fresh.tombstones.items() if t]
    old = _with_keys(engine.sample(lost, None, snapshot=txn.base) if lost else [])
    new = _with_keys(engine.sample(won, None, snapshot=head) if won else [])
    before, after = Counter(t for t, _ in old), Counter(t for t, _ in new)
    of_own_rows = txn.options.isolation == "snapshot"
    if before - after if of_own_rows else before != after:
        raise _conflict(txn, winners, delta, old, new)
    if not of_own_rows and _inserts_change(txn, effects, fresh):
        raise _conflict(txn, winners, delta, [], new)


def _with_keys(rows: Sequence[dict[str, Any]]) -> list[_Row]:
    """Each row with a string that is equal for equal rows; all rows have the same columns."""
    names = sorted(rows[0]) if rows else []
    head = repr(names)
    return [(head + repr([row[n] for n in names]), row) for row in rows]


def _inserts_change(txn: Pending, effects: Effects, fresh: Propagated) -> bool:
    """Whether a MERGE would insert a row that it did not insert before, or no longer insert one that it did."""
    if any(b.kind == "inserted" and b.num_rows for b in fresh.blocks):
        return True
    masks = [survivors(b, {}, fresh.counts, txn.table.statement_engine.provenance) for b in effects.blocks if b.kind == "inserted"]
    return any(m is not None and not m.all() for m in masks)


def _conflict(
    txn: Pending, winners: Sequence[Commit], delta: Delta, old: Sequence[_Row], new: Sequence[_Row]
) -> exceptions.DeltaConcurrentModificationException:
    there, was_there = {t for t, _ in new}, {t for t, _ in old}
    changed, came = [r for t, r in old if t not in there], [r for t, r in new if t not in was_there]
    slices = delta.gone if changed else delta.born
    paths = {s.path for s in slices}
    winner = next((w for w in reversed(winners) if paths & w.paths), winners[-1])
    files = tuple(sorted(paths & winner.paths))
    sets = {c for s in txn.program if s.touches for c in s.sets}
    columns = sorted(sets & columns_changed(changed, came)) if changed else ()
    rule = "rows changed by both" if changed else "rows added"
    return error_of(txn, conflict_with(winner, rule, files=files, rows=changed or [r for _, r in new], columns=columns))


def sampled(rows: Sequence[_T], values_a_row: int) -> Sequence[_T]:
    """Evenly spaced rows, so few that comparing each with `values_a_row` values stays within the limit; at least one."""
    return rows[:: -(-len(rows) // max(1, _COMPARED_VALUES // max(1, values_a_row)))]


def columns_changed(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> set[str]:
    """Columns that differ between rows and their later images; the image of a row is the one that has most values in common with it.

    Of very many rows only a sample is compared, since this only explains an error, and other writers may be waiting.
    """
    if not before or not after:
        return set()
    columns = list(before[0])
    some = sampled(before, len(after) * len(columns))
    codes: list[dict[str, int]] = [{} for _ in columns]
    rows, images = (
        np.array([[known.setdefault(repr(r.get(c)), len(known)) for r in side] for c, known in zip(columns, codes, strict=True)], np.int32)
        for side in (some, after)
    )
    changed = np.zeros(len(columns), np.bool_)
    for row in rows.T:
        differing = images != row[:, None]
        counts = differing.view(np.uint8).sum(axis=0, dtype=np.int32)
        nearest = int(counts.argmin())
        if counts[nearest] < len(columns) and np.count_nonzero(counts == counts[nearest]) == 1:
            changed |= differing[:, nearest]
    return set(itertools.compress(columns, changed))
