"""Staged work beside a table whose definition winners have changed: kept, checked, or staged again.

What only asks something of rows is asked of the rows that are staged, wherever they came from.  A statement
whose plan might mean something else now is staged again from the head, by raising MetadataChanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowlock.boundary.effects import Assigned, Effects
from rowlock.boundary.statements import Program
from rowlock.conflict import rules
from rowlock.conflict.table_change import TableChange, table_change
from rowlock.conflict.value import conflict_with
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.transaction.rebase import fail_policy
from rowlock.transaction.state.pending import Pending

APPEND_ONLY = "delta.appendOnly"
OTHER_RULES = tuple(r for r in rules.TABLE_RULES if r is not rules.metadata_changed)
"""The rules about the table that hold beside `judge`."""


def check_still_fits(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """Raises MetadataChangedException where the head's definition does not let what is staged stand."""
    if head.metadata == txn.read.metadata:
        return
    change = table_change(txn.read.metadata, head.metadata, head.protocol)
    if change.is_empty or _stands(txn, change):
        return
    winner = next((w for w in reversed(winners) if w.metadata is not None), winners[-1]) if winners else None
    text = f"Another commit changed the table's definition while this transaction was staged: {', '.join(change.names)}."
    raise fail_policy.error_of(txn, conflict_with(winner or Commit(head.version), "metadata", columns=change.names, what=text))


def _stands(txn: Pending, change: TableChange) -> bool:
    if any(key != APPEND_ONLY for key in change.other):  # who only adds rows may go on, and who removes some was refused before
        return False
    if change.checked and _hides_images(txn.program):
        return False
    if change.same_columns or (txn.is_lockless and not change.retyped):
        return True
    if txn.reads_table:
        return False
    if all(s.kind == "append" for s in txn.program):
        return not any(change.affects(s.sets) for s in txn.program)
    return all(s.kind == "move" for s in txn.program) and not change.retyped


def _hides_images(program: Program) -> bool:
    """Whether rows that one statement made may have been changed by a later one: only the last images are there to be checked."""
    makes = [n for n, s in enumerate(program) if s.kind in ("update", "merge", "append")]
    return bool(makes) and any(s.touches for s in program[makes[0] + 1 :])


def adapt(txn: Pending, effects: Effects, head: Snapshot) -> Effects:
    """The effects under the head's columns.  Every staged row is checked against constraints that winners added.

    Raises ConstraintViolated, as the run at the head would.
    """
    if head.metadata == txn.read.metadata or txn.metadata is not None:
        return effects
    change = table_change(txn.read.metadata, head.metadata, head.protocol)
    engine, blocks = txn.table.engine, effects.blocks
    if not change.same_columns:
        blocks = tuple(engine.adopt(b, before=txn.read, after=head) for b in blocks)
        effects = replace(effects, blocks=blocks, assigned=_renamed(effects.assigned, txn.read, head))
    if change.checked and txn.data_change:
        engine.check([b for b in blocks if b.kind != "matched"], snapshot=head)
    return effects


def _renamed(assigned: Sequence[Assigned], before: Snapshot, after: Snapshot) -> tuple[Assigned, ...]:
    """Cells under the names that their columns have now; those of dropped columns are no more."""
    stored = {f.name: f.physical_name for f in before.schema.fields}
    names = {f.physical_name: f.name for f in after.schema.fields}
    return tuple(replace(a, columns=tuple(names[s] for c in a.columns if (s := stored[c]) in names)) for a in assigned)
