"""The face: DeltaTable and its builders under the names of `delta.tables`, and reading and writing DataFrames."""

from rowlock.tables.delta_table import DeltaTable
from rowlock.tables.frames import read, write
from rowlock.tables.function import run
from rowlock.tables.merge_builder import (
    DeltaMergeBuilder,
    DeltaMergeMatchedActionBuilder,
    DeltaMergeNotMatchedActionBuilder,
    DeltaMergeNotMatchedBySourceActionBuilder,
)
from rowlock.tables.optimize_builder import DeltaOptimizeBuilder
from rowlock.tables.table_builder import DeltaTableBuilder, IdentityGenerator
from rowlock.tables.transaction import DeltaTransaction

__all__ = [
    "DeltaMergeBuilder",
    "DeltaMergeMatchedActionBuilder",
    "DeltaMergeNotMatchedActionBuilder",
    "DeltaMergeNotMatchedBySourceActionBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "DeltaTransaction",
    "IdentityGenerator",
    "read",
    "run",
    "write",
]
