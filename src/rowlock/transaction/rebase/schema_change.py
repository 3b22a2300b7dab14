"""Decides what becomes of staged work when winners changed the table's metadata: kept, checked and adapted, or staged again.

New constraints are checked on all staged rows, wherever these came from.  If the change may give a statement's plan another
meaning, MetadataChangedException is raised, and the statement is staged again from the head.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rowlock.boundary.effects import Assigned, Effects
from rowlock.boundary.engine import Program
from rowlock.conflict import rules
from rowlock.conflict.table_change import TableChange, table_change
from rowlock.conflict.value import conflict_with
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Commit
from rowlock.protocol.identity import goes_back
from rowlock.transaction.rebase import fail_policy
from rowlock.transaction.state.pending import Pending

APPEND_ONLY = "delta.appendOnly"
OTHER_RULES = tuple(r for r in rules.TABLE_RULES if r is not rules.metadata_changed)
"""The rules about the table that apply in addition to `check_still_fits`."""


def check_still_fits(txn: Pending, winners: list[Commit], head: Snapshot) -> None:
    """Raises MetadataChangedException if the staged work cannot be kept under the head's metadata."""
    defined = [txn.read.metadata, *(w.metadata for w in winners if w.metadata is not None)]
    if any(goes_back(a, b) for a, b in itertools.pairwise(defined)):
        text = "Another commit replaced the table while this transaction was staged: numbers of identity columns in its rows may be given out again."
        raise fail_policy.error_of(txn, conflict_with(winners[-1], "metadata", what=text))
    if head.metadata == txn.read.metadata:
        return
    change = table_change(txn.read.metadata, head.metadata, head.protocol)
    if change.is_empty or _can_be_kept(txn, change):
        return
    winner = next((w for w in reversed(winners) if w.metadata is not None), winners[-1]) if winners else None
    text = f"Another commit changed the table's definition while this transaction was staged: {', '.join(change.names)}."
    raise fail_policy.error_of(txn, conflict_with(winner or Commit(head.version), "metadata", columns=change.names, what=text))


def _can_be_kept(txn: Pending, change: TableChange) -> bool:
    """Whether staged work stays valid after the change, once `adapt` has been applied."""
    if any(key != APPEND_ONLY for key in change.other):  # appendOnly does not concern a transaction that only adds rows; others were refused before
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
    """Whether a later statement may have changed rows that an earlier one wrote: the earlier images are not kept and cannot be checked."""
    makes = [n for n, s in enumerate(program) if s.kind in ("update", "merge", "append")]
    return bool(makes) and any(s.touches for s in program[makes[0] + 1 :])


def adapt(txn: Pending, effects: Effects, head: Snapshot) -> Effects:
    """Converts the effects to the head's columns, and checks every staged row against constraints that winners added.

    Raises ConstraintViolated, as a run at the head would.
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
    """Assigned cells under the present names of their columns, without those of dropped columns."""
    stored = {f.name: f.physical_name for f in before.schema.fields}
    names = {f.physical_name: f.name for f in after.schema.fields}
    return tuple(replace(a, columns=tuple(names[s] for c in a.columns if (s := stored[c]) in names)) for a in assigned)
