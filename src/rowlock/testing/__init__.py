"""A test kit for pipelines on Rowlock: stores whose replies are lost, transactions that meet others.

Nothing of it needs Spark or a server.  `memory_store` is the store behind a `memory://` address, whose puts can be made to fail;
`between` runs something while a transaction is at a phase.
"""

from rowlock.testing.faults import LostPuts, between, memory_store

__all__ = ["LostPuts", "between", "memory_store"]
