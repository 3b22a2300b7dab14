"""Registers: named cells with compare-and-swap, which hold leases and turns outside the log."""

from rowlock.storage.registers.open import PROVIDER_VARIABLE, create_lock_table, open_registers
from rowlock.storage.registers.register import Cell, ObjectRegisters, Registers

__all__ = ["PROVIDER_VARIABLE", "Cell", "ObjectRegisters", "Registers", "create_lock_table", "open_registers"]
