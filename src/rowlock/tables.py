"""The face: DeltaTable and its builders under the names of `delta.tables`, and reading and writing DataFrames."""

from rowlock.api.delta_table import DeltaTable
from rowlock.api.frames import read, write
from rowlock.api.merge_builder import (
    DeltaMergeBuilder,
    DeltaMergeMatchedActionBuilder,
    DeltaMergeNotMatchedActionBuilder,
    DeltaMergeNotMatchedBySourceActionBuilder,
)
from rowlock.api.multi_table import MultiTableTransaction, read_together, run, transaction
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.api.table_builder import DeltaTableBuilder, IdentityGenerator
from rowlock.api.transaction import DeltaTransaction

__all__ = [
    "DeltaMergeBuilder", "DeltaMergeMatchedActionBuilder", "DeltaMergeNotMatchedActionBuilder", "DeltaMergeNotMatchedBySourceActionBuilder",
    "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "DeltaTransaction", "IdentityGenerator", "MultiTableTransaction", "read",
    "read_together", "run", "transaction", "write",
]  # fmt: skip
