"""Settles what transactions over several tables have left open in a table, for its operator: `rowlock settle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rowlock.exceptions import CorruptLog, DeltaConcurrentModificationException, InvalidInput, RowlockError
from rowlock.protocol.prepared import POSTS, Home, Prepared, is_needed, open_version, prepared_by
from rowlock.storage.open import beside
from rowlock.storage.store import discard
from rowlock.transaction.state.shared import SharedState, state_of
from rowlock.transaction.two_phase.close import ABORTED, BY_HAND, close, closed_at, home_of, is_open, open_in, settle, word_of

_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Settled:
    """What was open in a table.

    table    the table's path
    txn_id   the transaction's id; None where the table could not be looked at
    version  the version that closes it; None where it is still open
    outcome  "committed" or "given up"; else why it is still open
    """

    table: str
    txn_id: str | None
    version: int | None
    outcome: str


def settle_all(state: SharedState) -> list[Settled]:
    """Settles what is open in a table, and in those for which its log has decided in its last 100 versions; deletes posts of owners that died before they prepared.

    Waits for the owners as every reader does.  What cannot be settled is reported in the result, and raises nothing.
    Raises TableNotFound, CorruptLog.
    """
    done = _settled(state)
    _sweep(state)
    head = state.look()
    prepared = [p for decided in state.log.commits(max(0, head.version - _LOOKED_AT), head.version) for p in prepared_by(decided)]
    for table in dict.fromkeys(table for table, _ in prepared):
        try:
            part = state_of(beside(state.store, table))
            found = open_in(part, part.look())
            if found is not None and (table, found.version) in prepared:
                done += _settled(part)
        except RowlockError as e:
            done.append(Settled(table, None, None, str(e)))
    return done


def settle_by_hand(state: SharedState, txn_id: str, outcome: Literal["committed", "aborted"]) -> Settled:
    """Closes what is open in a table as an operator decided, where the log of its home has lost the decision.

    Raises InvalidInput where this transaction is not open here, and where its home can be asked; CorruptLog where what it does here cannot be read.
    """
    head = state.look()
    try:
        prepared = open_in(state, head)
        if prepared is None or prepared.txn_id != txn_id:
            there = "none is" if prepared is None else f"{prepared.txn_id} is"
            raise InvalidInput(f"transaction {txn_id} is not open in this table: {there}", table=state.store.root, version=head.version)
        word_of(home_of(state, prepared), prepared)
    except DeltaConcurrentModificationException:
        pass
    except CorruptLog:
        version = open_version(head.txns, head.metadata.id)
        if outcome != "aborted" or version is None:
            raise
        prepared = Prepared(version, txn_id, Home("", None, "", version), 0)
    else:
        text = (
            f"the log of {prepared.home.table}, which decides transaction {txn_id}, can be read, and it alone decides: run the command without --txn and --as"
        )
        raise InvalidInput(text, table=state.store.root)
    assert prepared is not None
    close(state, prepared, BY_HAND if outcome == "committed" else ABORTED)
    return settled_as(state, prepared)


def _settled(state: SharedState) -> list[Settled]:
    head = state.look()
    prepared = open_in(state, head)
    if prepared is None:
        return []
    try:
        settle(state, head)
    except DeltaConcurrentModificationException as e:
        return [Settled(state.store.root, prepared.txn_id, None, str(e))]
    return [settled_as(state, prepared)]


def settled_as(state: SharedState, prepared: Prepared) -> Settled:
    """What became of something that was prepared in a table, by its log as it is."""
    head = state.look()
    found = closed_at(state, prepared, head)
    closing = None if found is None else state.log.read_commit(found)
    if closing is None:
        return Settled(state.store.root, prepared.txn_id, None, "still open" if is_open(head, prepared) else "closed, and the log was cleaned up since then")
    return Settled(state.store.root, prepared.txn_id, found, "committed" if closing.txn_id == prepared.txn_id else "given up")


def _sweep(state: SharedState) -> None:
    """Deletes the posts that are no longer needed."""
    head = state.look()
    prepared = open_in(state, head)
    discard(state.store, (m.key for m in state.store.list(POSTS) if not is_needed(m.key, head.version, prepared)))
