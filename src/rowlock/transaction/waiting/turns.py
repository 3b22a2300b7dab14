"""A transaction's part in the turns of its table, and where these live (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowlock.locks.turns import TurnRequest, Turns
from rowlock.log.snapshot import Snapshot
from rowlock.storage.registers import Registers, open_registers
from rowlock.transaction.state.proposal import Committing
from rowlock.transaction.state.shared import SharedState


def registers_of(state: SharedState, snapshot: Snapshot) -> Registers:
    """Where the table's leases and turns live.  Raises InvalidInput where its provider cannot be had here."""
    provider = snapshot.properties.lock_provider
    registers: Registers = state.shared(f"registers {provider}", lambda: open_registers(state.store, provider))
    return registers


@contextmanager
def turn_of(what: Committing) -> Iterator[TurnRequest | None]:
    """To be asked before each put; a turn that it took is over when the block ends.  None where the transaction takes no turns."""
    state, snapshot = what.state, what.read
    if snapshot is None or not what.options.takes_turns:
        yield None
        return
    turns: Turns = state.shared(f"turns {snapshot.properties.lock_provider}", lambda: Turns(lambda: registers_of(state, snapshot)))
    bid = turns.request(what.txn_id)
    try:
        yield bid
    finally:
        bid.end()
