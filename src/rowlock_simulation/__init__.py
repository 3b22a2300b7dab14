"""Schedules of the real code in simulated worlds, where a seed decides who runs when and what goes wrong (docs/simulation.md).

Installed by a checkout, not by the wheel: it tests Rowlock itself.  `Scheduler` and `simulated` run threads in an order that a seed decides, under
virtual time; `memory` is a data plane whose rows lie in memory; the other modules draw schedules, run them and judge what they left.
"""

from rowlock_simulation.scheduler import Crashed, Process, Scheduler, Stuck
from rowlock_simulation.seams import simulated

__all__ = ["Crashed", "Process", "Scheduler", "Stuck", "simulated"]
