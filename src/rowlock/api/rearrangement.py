"""An overwrite that says that it changes no row (delta-spark's option dataChange=false): a compaction, once the rows were compared.

delta-spark takes the writer's word: a row that another commit added meanwhile would be lost, and streams would never hear of it.  Here the rows that are given
must be those that the table holds, and its files are rewritten by OPTIMIZE, which no other writer can be harmed by.
"""

from __future__ import annotations

from rowlock.api.handle import Handle, Receipts
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.frames.reading import read_frame
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.statements.append import conform
from rowlock.engines.spark.statements.compaction import WITHOUT_CHANGE, check_partition_condition
from rowlock.engines.spark.statements.row_comparison import have_same_rows
from rowlock.exceptions import InvalidInput
from rowlock.transaction.state.receipt import Receipt


def rearrange(handle: Handle, df: DataFrame, where: str | None) -> Receipt:
    """Compacts the files of a table, or those of the partitions that `where` names.

    Raises InvalidInput where the rows of `df` are others than the table has there, StatementRefused for a condition on other columns than partition columns.
    """
    snapshot = handle.state.refresh()
    if where is not None:
        check_partition_condition(handle.evaluator, snapshot, where, WITHOUT_CHANGE)
    held = read_frame(handle.evaluator, snapshot)
    if not have_same_rows(held if where is None else held.where(where), conform(df, table_schema(snapshot), handle.path)):
        raise InvalidInput(
            "data_change=False (dataChange=false) says that the rows stay the same, but those that are given are not the table's: leave it out to replace rows",
            table=handle.path,
            version=snapshot.version,
        )
    receipts = Receipts()
    DeltaOptimizeBuilder(handle, receipts, where).executeCompaction()
    assert receipts.last is not None
    return receipts.last


def no_table_yet(path: str) -> InvalidInput:
    """The error for a new table whose rows are said to be no change."""
    return InvalidInput(
        "data_change=False (dataChange=false) says that the rows stay the same, but there is no table yet: leave it out to make one",
        table=path,
        condition=named("DELTA_DATA_CHANGE_FALSE", op="Create a Delta table"),
    )
