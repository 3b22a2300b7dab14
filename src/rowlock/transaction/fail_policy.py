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
from rowlock.conflict.delta import Delta, Slice
from rowlock.log.pruning import Judge
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.skipping import Predicate
from rowlock.transaction.effects import Propagated
from rowlock.transaction.notes import Notes, survivors

if TYPE_CHECKING:
    from rowlock.transaction.transaction import Transaction

_SAMPLES = 5


def table_state(base: Snapshot) -> rules.TableState:
    """What the pure rules must know of the table as it was read."""
    return rules.TableState(base.protocol, base.metadata, base.schema, lambda predicate, file: may_match(base, predicate, file))


def may_match(base: Snapshot, predicate: Predicate | None, file: AddFile) -> bool:
    """Whether a file may hold a row that a statement with this predicate reads."""
    return predicate is None or Judge(predicate, base.schema, base.partition_columns).may_match(file)


def check_files(txn: Transaction, winners: list[Commit]) -> None:
    """Raises the conflict that `winners` are to `txn` by Delta's rules, if they are one."""
    if found := rules.first_conflict(rules.FILE_RULES, reads_of(txn), winners, table_state(txn.base)):
        raise found.exception(txn.table.path)


def reads_of(txn: Transaction) -> rules.Reads:
    reading = [s for s in txn.program if s.touches]
    return rules.Reads(
        predicates=tuple(s.reads for s in reading),
        files=frozenset(txn.files_read),
        removes=frozenset(p for p, t in txn.effects.tombstones.items() if t),
        changes_data=txn.data_change,
    )


def check_rows(txn: Transaction, winners: list[Commit], delta: Delta, head: Snapshot) -> None:
    """Raises a conflict if a rebase over `delta` would change something other than places.

    Under `snapshot` only rows that the transaction changes itself count.
    """
    engine = txn.table.engine
    lost = [Slice(s.file, only=both) for s in delta.gone if (both := s.covers(txn.effects.tombstones[s.path]) if s.path in txn.effects.tombstones else None)]
    fresh = engine.propagate(txn.program, txn.effects, delta.gone, delta.born, snapshot=head, notes=Notes(txn.effects, delta.gone_by_path(), engine.provenance))
    files = {s.path: s.file for s in delta.born}
    won = [Slice(files[p], only=t) for p, t in fresh.tombstones.items() if t]
    old = engine.sample(lost, None, snapshot=txn.base) if lost else []
    new = engine.sample(won, None, snapshot=head) if won else []
    if txn.options.isolation == "snapshot":
        if _bag(old) - _bag(new):
            raise _conflict(txn, winners, delta, old, new)
        return
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
    masks = [survivors(b, {}, fresh.counts, txn.table.engine.provenance) for b in txn.effects.blocks if b.kind == "inserted"]
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
