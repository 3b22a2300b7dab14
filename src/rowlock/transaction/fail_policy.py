"""`on_conflict=fail`: what counts as a conflict, by file (open-source Delta's rules) or by row.

By row, a conflict is a rebase that would change something other than places: the old images of our
rows that are gone are not those of the born rows that the program now changes, or an insert flips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rowlock import exceptions
from rowlock.conflict import rules
from rowlock.conflict.delta import Delta, Slice, delta_between
from rowlock.log.pruning import Judge
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.skipping import Predicate
from rowlock.transaction.effects import Propagated
from rowlock.transaction.rebase import lost_matches, survivors

if TYPE_CHECKING:
    from rowlock.transaction.transaction import Transaction

_SAMPLES = 5


def table_state(base: Snapshot) -> rules.TableState:
    """What the pure rules must know of the table as it was read."""
    return rules.TableState(base.protocol, base.metadata, base.schema, lambda predicate, file: may_match(base, predicate, file))


def may_match(base: Snapshot, predicate: Predicate | None, file: AddFile) -> bool:
    """Whether a file may hold a row that a statement with this predicate reads."""
    return predicate is None or Judge(predicate, base.schema, base.partition_columns).may_match(file)


def check(txn: Transaction, winners: list[Commit], head: Snapshot) -> None:
    """Raises the conflict that `winners` are to `txn` under its granularity, if they are one."""
    if txn.options.granularity == "file":
        if found := rules.first_conflict(rules.FILE_RULES, reads_of(txn), winners, table_state(txn.base)):
            raise found.exception(txn.table.path)
    elif not txn.is_blind and txn.data_change:
        _check_rows(txn, winners, head)


def reads_of(txn: Transaction) -> rules.Reads:
    reading = [s for s in txn.program if s.touches]
    return rules.Reads(
        predicates=tuple(s.reads for s in reading),
        files=frozenset(f.path for f in txn.files_read),
        removes=frozenset(p for p, t in txn.effects.tombstones.items() if t),
        changes_data=txn.data_change,
    )


def _check_rows(txn: Transaction, winners: list[Commit], head: Snapshot) -> None:
    paths = {p for w in winners for p in w.paths}
    delta = delta_between(paths, txn.base.files.get(paths), head.files.get(paths), txn.table.state.vectors.of)
    if delta.is_empty:
        return
    engine = txn.table.engine
    lost = [Slice(s.file, only=both) for s in delta.gone if (both := s.covers(txn.effects.tombstones[s.path]) if s.path in txn.effects.tombstones else None)]
    fresh = engine.propagate(txn.program, txn.effects.counts, delta.gone, delta.born, snapshot=head, staging=False, lost=lost_matches(txn.effects, delta.gone_by_path(), engine))
    files = {s.path: s.file for s in delta.born}
    won = [Slice(files[p], only=t) for p, t in fresh.tombstones.items() if t]
    old = engine.sample(lost, None, snapshot=txn.base) if lost else []
    new = engine.sample(won, None, snapshot=head) if won else []
    if _bag(old) != _bag(new):
        raise _conflict(txn, winners, delta, old, new)
    if _flipped(txn, fresh):
        raise _conflict(txn, winners, delta, [], new)


def _bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(r.items(), key=lambda kv: kv[0])) for r in rows)


def _flipped(txn: Transaction, fresh: Propagated) -> bool:
    """Whether an insert of a MERGE comes to life or dies."""
    if any(b.kind == "inserted" and b.num_rows for b in fresh.blocks):
        return True
    masks = [survivors(b, {}, fresh.counts, txn.table.engine) for b in txn.effects.blocks if b.kind == "inserted"]
    return any(m is not None and not m.all() for m in masks)


def _conflict(txn: Transaction, winners: list[Commit], delta: Delta, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> exceptions.DeltaConcurrentModificationException:
    kept = _bag(new)
    changed = [r for r in old if not kept[repr(sorted(r.items(), key=lambda kv: kv[0]))]]
    slices = delta.gone if changed else delta.born
    paths = {s.path for s in slices}
    winner = next((w for w in reversed(winners) if paths & w.paths), winners[-1])
    files = tuple(sorted(paths & winner.paths))
    remedy = "Run the statement again, or set rowlock.onConflict=repair to rebase it over these rows."
    if changed:
        found = rules.Found("rows changed by both", exceptions.ConcurrentDeleteDeleteException, winner, "Rows that this transaction changes were changed by a concurrent commit.", remedy, files)
    else:
        found = rules.Found("rows added where read", exceptions.ConcurrentAppendException, winner, "Rows that this transaction's statement meets were added by a concurrent commit.", remedy, files)
    return found.exception(txn.table.path, tuple((changed or new)[:_SAMPLES]))
