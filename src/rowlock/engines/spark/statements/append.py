"""Stages the rows of a DataFrame as an append: cast to the table's columns by the rules of `protocol.schema_fit`, or refused before anything is written.

And plans an overwrite: a DELETE (of all rows, of those of a condition or of the partitions that new rows fall into) and the append; or a MERGE that deletes
the rows that a new row matches, and the append, over one reading of the new rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import DataType, StructType

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.engine import Statement, refuse_on_append_only
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import analyzed, fields_by_name, nullable_type, to_arrow
from rowlock.engines.spark.catalyst.column_rules import default_value
from rowlock.engines.spark.catalyst.types import delta_schema, delta_type, fitted_text
from rowlock.engines.spark.driver_rows import Ways
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.frames.reading import read_frame
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements import row_statements
from rowlock.engines.spark.statements.compaction import WITHOUT_CHANGE, check_partition_condition
from rowlock.engines.spark.statements.computed_columns import numbered_rows, with_generated_values
from rowlock.engines.spark.statements.constraint_checks import check_table, check_written
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, merge_statement
from rowlock.engines.spark.statements.passage import Group
from rowlock.engines.spark.statements.row_comparison import have_same_rows
from rowlock.engines.spark.statements.sources import Source, frame_of_now, versions_read
from rowlock.engines.spark.write.writer import most_records, write_native
from rowlock.exceptions import ConstraintViolated, SchemaMismatch
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, file_block, logical
from rowlock.parquet.physical import names_in_files
from rowlock.parquet.writing import split_by_partition, write_files
from rowlock.protocol import schema_fit
from rowlock.protocol.column_values import Generated, column_defaults, generated_columns, is_identity
from rowlock.protocol.schema import quote
from rowlock.protocol.schema_fit import same_shape
from rowlock.storage.store import discard
from rowlock.transaction.state.call import settings
from rowlock.transaction.transaction import Planned

_OPTIMIZED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
"""How Spark rebalances rows before it writes them."""


def conform(
    frame: DataFrame, schema: StructType, table: str, generated: Sequence[Generated] = (), defaults: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """The frame's columns under the table's names, order and types; absent columns have their default or are null, absent `generated` ones are computed.

    Raises SchemaMismatch by the rules of `protocol.schema_fit`.  Nothing is evaluated.
    """
    given = {name.lower() for name in frame.columns}
    computed = [g for g in generated if g.name.lower() not in given]
    fit = schema_fit.fit(delta_schema(frame.schema), delta_schema(schema), table, computed={g.name for g in computed} | defaults.keys())
    types = dict(zip(frame.columns, (f.dataType for f in frame.schema.fields), strict=True))
    columns = []
    for f in schema.fields:
        name = fit.given[f.name]
        value = default_value(defaults.get(f.name), f.dataType) if name is None else _cast(F.col(quote(name)), types[name], f.dataType)
        columns.append(fitted_text(value, f).alias(f.name))
    return with_generated_values(frame.select(*columns), schema, computed)


def _cast(value: Column, actual: DataType, wanted: DataType) -> Column:
    """A value of a type that fits, as the wanted type; struct fields are matched without regard to case."""
    if same_shape(delta_type(actual), delta_type(wanted)):
        return value
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        return F.when(value.isNotNull(), F.struct(*fields_by_name(value, actual, wanted, _cast)))
    return value.cast(nullable_type(wanted))  # whether a null is there is seen in the rows


def append_statement(
    evaluator: Evaluator,
    snapshot: Snapshot,
    frame: DataFrame,
    must_meet: Statement | None = None,
    max_records: int | None = None,
    read: tuple[int, ...] | None = None,
) -> Statement:
    """Stages rows: few come to the driver, many are written by Spark.  Raises SchemaMismatch, ConstraintViolated.

    `must_meet` is the DELETE of a replaceWhere, under whose condition every row must fall; `max_records`: how many rows a file holds at most; `read`: the
    versions of the table that the rows were read from, where they are pinned and the caller knows.
    """
    is_pinned, frame = read is not None, frame_of_now(frame)
    read = versions_read(evaluator, frame, snapshot.version) if read is None else read
    given, generated = {name.lower() for name in frame.columns}, generated_columns(snapshot.schema)
    with numbered_rows(evaluator, snapshot, frame) as whole:
        rows = conform(whole, table_schema(snapshot), evaluator.store.root, generated, column_defaults(snapshot.schema))
        blocks = append_blocks(evaluator, snapshot, rows, gives_generated=any(g.name.lower() in given for g in generated), max_records=max_records)
    read += versions_read(evaluator, frame, snapshot.version) if read and not is_pinned else ()
    if must_meet is not None and (outside := sum(b.num_rows for b in blocks) - met(evaluator, must_meet, blocks, snapshot)):
        discard(evaluator.store, (f.path for b in blocks for f in b.payload.files))
        raise ConstraintViolated(
            f"{outside} of the rows do not fall under replace_where, {must_meet.parameters['predicate'][0]}: filter them out, or widen it",
            table=evaluator.store.root,
            condition=named("DELTA_REPLACE_WHERE_MISMATCH", replaceWhere=must_meet.parameters["predicate"][0], message=f"{outside} rows"),
        )
    sets = tuple(f.name for f in snapshot.schema.fields if f.name.lower() in given or is_identity(f))
    return Statement("append", blocks, source_versions=read, sets=sets)


def append_statements(evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame, max_records: int | None = None) -> Planned:
    """An append, and its parameters."""
    return [append_statement(evaluator, snapshot, frame, max_records=max_records)], {"mode": "Append", "partitionBy": list(snapshot.partition_columns)}


def met(evaluator: Evaluator, delete: Statement, blocks: Sequence[RowBlock], snapshot: Snapshot) -> int:
    """How many rows of staged blocks a DELETE would take."""
    group = Group("appended", 0)
    for number, block in enumerate(blocks):
        group.add(number, block, snapshot)
    found, _ = row_statements.run(evaluator, delete.payload, group.slices, snapshot, 0, group.local, ways=Ways(evaluator))
    return sum(len(positions) for positions in found.values())


def append_blocks(
    evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame, *, gives_generated: bool = False, max_records: int | None = None
) -> Sequence[RowBlock]:
    """The blocks of rows that fit the schema already; staging numbers them by their statement.

    `gives_generated`: whether generated columns came with the rows, and were not all just computed.
    """
    max_records = max_records or most_records()
    optimized = frame._jdf.queryExecution().optimizedPlan()
    most = evaluator.bridge.option(optimized.maxRows())
    if most is not None and int(most) <= limits().driver_rows and int(str(optimized.stats().sizeInBytes())) <= limits().append_driver_bytes:
        table = to_arrow(frame)
        check_table(evaluator, table, snapshot)
        if max_records is not None and table.num_rows > max_records:
            return [file_block("appended", 0, write_files(evaluator.store, logical(table, snapshot), snapshot, max_records))]
        return [driver_block("appended", 0, table, None)] if table.num_rows else []
    session = evaluator.session()
    own = evaluator.bridge.dataframe(analyzed(frame), evaluator.spark, session)
    if settings().flag("optimizeWrite.enabled", snapshot.properties.optimizes_writes):
        for name, value in _OPTIMIZED.items():
            session.conf().set(name, value)
        megabytes = settings().text("optimizeWrite.binSize")
        session.conf().set("spark.sql.adaptive.advisoryPartitionSizeInBytes", f"{megabytes}m")
        own = own.hint("rebalance", *[F.col(quote(c)) for c in snapshot.partition_columns])
    files = [f for _, f in write_native(own, evaluator.store, snapshot, max_records=max_records)]
    check_written(evaluator, files, snapshot, generated=gives_generated)
    return [file_block("appended", 0, files)] if files else []


@dataclass(frozen=True, slots=True)
class Overwrite:
    """What an overwrite replaces.

    where     the condition of the rows; None for all
    matching  which rows a new row matches
    same      no row changes: the new rows are those that are there, and only their files are others
    dynamic   the partitions that the new rows fall into, of a table that has partitions
    schema    the columns and the partitioning, too
    """

    where: str | Column | None = None
    dynamic: bool = False
    schema: bool = False
    matching: Matching | None = None
    same: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """Which rows of a table a new row matches: `on`, a condition over both, or equal values of the columns `using`.

    alias  the name that `on` has for the table
    """

    on: str | Column | None = None
    using: Sequence[str] = ()
    alias: str | None = None


def overwrite_statements(
    evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame, what: Overwrite, alias: str | None = None, max_records: int | None = None
) -> Planned:
    """A delete and an append that belong together, and their parameters."""
    parameters = {"mode": "Overwrite", "partitionBy": list(snapshot.partition_columns)}
    if what.dynamic and snapshot.partition_columns:
        refuse_on_append_only(snapshot)  # before rows are staged
        append = append_statement(evaluator, snapshot, frame, max_records=max_records)
        partitions = condition_of(partitions_of(append.payload, snapshot), snapshot)
        return [row_statements.delete_statement(evaluator, snapshot, partitions, alias), append], parameters | {"isDynamicPartitionOverwrite": True}
    by_partitions = what.where is not None and not settings().flag("replaceWhere.dataColumns.enabled")
    if what.where is not None and by_partitions:
        check_partition_condition(evaluator, snapshot, what.where)
    delete = row_statements.delete_statement(evaluator, snapshot, what.where, alias)
    checks = what.where is not None and (by_partitions or settings().flag("replaceWhere.constraintCheck.enabled"))
    append = append_statement(evaluator, snapshot, frame, must_meet=delete if checks else None, max_records=max_records)
    return [delete, append], parameters | ({} if what.where is None else {"predicate": str(what.where)})


def holds_rows(evaluator: Evaluator, snapshot: Snapshot, df: DataFrame, where: str | None) -> bool:
    """Whether the rows of `df` are those of a table, or of the partitions that `where` names.  One Spark job.  Raises StatementRefused for another condition."""
    if where is not None:
        check_partition_condition(evaluator, snapshot, where, WITHOUT_CHANGE)
    held = read_frame(evaluator, snapshot)
    return have_same_rows(held if where is None else held.where(where), conform(df, table_schema(snapshot), snapshot.table))


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


def matching_statements(evaluator: Evaluator, snapshot: Snapshot, df: DataFrame, what: Matching, pinned: list[Source], max_records: int | None) -> Planned:
    """A MERGE that deletes the rows that a new row matches, an append of all new rows over the same reading of them, and their parameters.

    `pinned`: the source of the MERGE, which the first try adds and later ones find.  Raises SchemaMismatch, StatementRefused on an append-only table, and what
    a MERGE and an append raise.
    """
    refuse_on_append_only(snapshot)
    parameters = {"replaceOn": str(what.on)} if what.on is not None else {"replaceUsing": list(what.using)}
    on, alias = what.on, what.alias
    if on is None:
        df, on, alias = df.alias(_ROWS), _equal(what.using, df, snapshot), _TABLE
    merge = merge_statement(evaluator, snapshot, df, on, _DELETED, alias, pinned)
    rows = merge.payload.source.numbered_frame(evaluator).drop(SOURCE_ROW)
    append = append_statement(evaluator, snapshot, rows, max_records=max_records, read=merge.source_versions)
    return [merge, append], {"mode": "Overwrite", "partitionBy": list(snapshot.partition_columns), **parameters}


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
