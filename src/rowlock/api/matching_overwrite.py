"""An overwrite of the rows that a new row matches: `replace_using` and `replace_on` of `rowlock.write` (delta-spark's replaceUsing and replaceOn)."""

from __future__ import annotations

from collections.abc import Callable

from rowlock.api.handle import Handle
from rowlock.api.overwrites import Matching
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements.overwrites import matching_statements
from rowlock.engines.spark.statements.sources import Source
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import Metadata, SetTransaction
from rowlock.transaction.run import Planned
from rowlock.transaction.state.receipt import Receipt


def overwrite_matching(
    handle: Handle,
    df: DataFrame,
    what: Matching,
    *,
    metadata: Callable[[Snapshot], Metadata] | None = None,
    app: SetTransaction | None = None,
    max_records: int | None = None,
) -> Receipt:
    """Deletes the rows of a table that a row of `df` matches, and adds all rows of `df`, in one commit.  Raises what a MERGE and an append raise."""
    pinned: list[Source] = []

    def plan(evaluator: Evaluator, snapshot: Snapshot) -> Planned:
        statements = matching_statements(evaluator, snapshot, df, what.on, what.using, what.alias, pinned[-1] if pinned else None, max_records)
        read_once: Source = statements[0].payload.source
        if not any(read_once is p for p in pinned):
            pinned.append(read_once)
        said = {"replaceOn": str(what.on)} if what.on is not None else {"replaceUsing": list(what.using)}
        return statements, {"mode": "Overwrite", "partitionBy": list(snapshot.partition_columns), **said}

    with handle.holding(pinned):
        return handle.run("WRITE", plan, metadata=metadata, app=app)
