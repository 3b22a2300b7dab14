"""Leases and turns, by which writers wait for each other.  They save work and decide nothing (I7)."""
