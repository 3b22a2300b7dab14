"""Leases and turns: who waits for whom.  They save work and decide nothing (I7)."""
