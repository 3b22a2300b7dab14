"""A transaction's request for a turn, which lets a writer that keeps losing its puts go first, and the store of turns and leases (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowlock.locks.turns import TurnRequest, Turns
from rowlock.log.snapshot import Snapshot
from rowlock.storage.registers import Registers, open_registers
from rowlock.transaction.state.proposal import Committing
from rowlock.transaction.state.shared import SharedState


def registers_of(state: SharedState, snapshot: Snapshot) -> Registers:
    """The store of the table's leases and turns (rowlock.lockProvider).  Raises InvalidInput where that provider is not available here."""
    provider = snapshot.properties.lock_provider
    registers: Registers = state.shared(f"registers {provider}", lambda: open_registers(state.store, provider))
    return registers


@contextmanager
def turn_of(what: Committing) -> Iterator[TurnRequest | None]:
    """A context manager for the commit's turn request, which the commit loop asks before each put; it ends with the block.  None without turns."""
    state, snapshot = what.state, what.read
    if snapshot is None or not what.options.takes_turns:
        yield None
        return
    turns: Turns = state.shared(f"turns {snapshot.properties.lock_provider}", lambda: Turns(lambda: registers_of(state, snapshot)))
    request = turns.request(what.txn_id)
    try:
        yield request
    finally:
        request.end()
