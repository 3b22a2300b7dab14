"""What an overwrite deletes: the partitions that staged rows fall into (dynamic partition overwrite), or the rows that a new row matches.

The second is a MERGE that deletes what matches, and an append of all new rows, over one reading of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.engine import Statement, refuse_on_append_only
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import Expression
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.append import append_statement
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, merge_statement
from rowlock.engines.spark.statements.sources import Source
from rowlock.exceptions import SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.parquet.physical import names_in_files
from rowlock.parquet.writing import split_by_partition
from rowlock.protocol.schema import quote

Partition = tuple[str | None, ...]
"""The values of a partition's columns, as the log spells them."""


def partitions_of(blocks: Sequence[RowBlock], snapshot: Snapshot) -> list[Partition]:
    """The partitions in which staged rows of an append lie, each once."""
    stored = names_in_files(snapshot)
    keys = [stored[c] for c in snapshot.metadata.partition_columns]
    found: dict[Partition, None] = {}
    for block in blocks:
        values = [f.partition_values for f in block.payload.files]
        values += [v for table in block.payload.tables for v, _ in split_by_partition(logical(table, snapshot), snapshot)]
        found.update(dict.fromkeys(tuple(v.get(k) or None for k in keys) for v in values))
    return list(found)


def condition_of(partitions: Sequence[Partition], snapshot: Snapshot) -> Column:
    """The condition that is true for the rows of these partitions and for no others."""
    types = {f.name: f.dataType for f in table_schema(snapshot).fields}
    names = list(snapshot.metadata.partition_columns)

    def is_one_of(number: int) -> Column:
        """Whether a column has a value that occurs: of one column this says all, of several it lets files be skipped."""
        column, values = F.col(quote(names[number])), list(dict.fromkeys(p[number] for p in partitions))
        some = column.isin(*[F.lit(v).cast(types[names[number]]) for v in values if v is not None])
        return some if None not in values else column.isNull() if values == [None] else some | column.isNull()

    def exactly(partition: Partition) -> Column:
        return _joined([F.col(quote(n)).eqNullSafe(F.lit(v).cast(types[n])) for n, v in zip(names, partition, strict=True)], any_of=False)

    if not partitions:
        return F.lit(False)
    columns = _joined([is_one_of(n) for n in range(len(names))], any_of=False)
    return columns if len(names) == 1 else columns & _joined([exactly(p) for p in partitions], any_of=True)


def _joined(parts: Sequence[Column], *, any_of: bool) -> Column:
    """The parts joined by OR or by AND, as a tree that is no deeper than it must be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(parts[:half], any_of=any_of), _joined(parts[half:], any_of=any_of)
    return left | right if any_of else left & right


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
