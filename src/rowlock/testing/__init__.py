"""A test kit for pipelines on Rowlock: stores whose replies are lost, transactions that meet others, schedules that a seed decides.

Nothing of it needs Spark or a server.  `memory_store` is the store behind a `memory://` address, whose puts can be made to fail;
`between` runs something while a transaction is at a phase; `Scheduler` and `simulated` run threads in an order that a seed decides, under
virtual time (docs/simulation.md).
"""

from rowlock.testing.faults import LostPuts, between, memory_store
from rowlock.testing.scheduler import Crashed, Process, Scheduler, Stuck
from rowlock.testing.seams import simulated

__all__ = ["Crashed", "LostPuts", "Process", "Scheduler", "Stuck", "between", "memory_store", "simulated"]
