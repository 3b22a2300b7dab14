"""An overwrite of the rows that a new row matches: a MERGE that deletes what matches, and an append of all new rows, over one reading of these."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rowlock.boundary.append_only import refuse_on_append_only
from rowlock.boundary.statements import Statement
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import Expression
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.append import append_statement
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, merge_statement
from rowlock.engines.spark.statements.merge_source import Source
from rowlock.exceptions import SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.schema import quote

_TABLE, _ROWS = "__rowlock_table", "__rowlock_rows"
_DELETED = Clauses(matched=(Clause("delete", None),))


def matching_statements(
    evaluator: Evaluator,
    snapshot: Snapshot,
    df: DataFrame,
    on: Expression | None,
    using: Sequence[str],
    alias: str | None,
    held: Source | None,
    max_records: int | None,
) -> list[Statement]:
    """The MERGE and the append; `on` is a condition over both, else the columns `using` are compared.  `held`: the rows as an earlier try pinned them.

    Raises SchemaMismatch, StatementRefused on an append-only table, and what a MERGE and an append raise.
    """
    refuse_on_append_only(snapshot)
    if on is None:
        df, on, alias = df.alias(_ROWS), _equal(using, df, snapshot), _TABLE
    merge = merge_statement(evaluator, snapshot, df, on, _DELETED, alias, held)
    rows = merge.payload.source.numbered_frame(evaluator).drop(SOURCE_ROW)
    return [merge, append_statement(evaluator, snapshot, rows, max_records=max_records, read=merge.source_versions)]


def _equal(columns: Sequence[str], df: DataFrame, snapshot: Snapshot) -> Column:
    """That a table's row and a new row have the same values, no null among them, in these columns.  Raises SchemaMismatch."""
    for has, names in (("the table has", snapshot.schema.names), ("the new rows have", df.columns)):
        if missing := [c for c in columns if c.lower() not in {n.lower() for n in names}]:
            text = f"replace_using names {missing[0]!r}, and {has} no such column, only {', '.join(names)}"
            condition = named("UNRESOLVED_INSERT_REPLACE_USING_COLUMN", colName=missing[0], relationType=has.split(" has")[0], suggestion=", ".join(names))
            raise SchemaMismatch(text, table=snapshot.table, condition=condition)
    both = [F.col(f"{_TABLE}.{quote(c)}") == F.col(f"{_ROWS}.{quote(c)}") for c in columns]
    out = both[0]
    for one in both[1:]:
        out = out & one
    return out
