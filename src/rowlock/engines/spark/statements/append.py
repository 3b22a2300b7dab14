"""Stages the rows of a DataFrame as an append: cast to the table's columns by the rules of `protocol.schema_fit`, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import DataType, StructType

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.engine import Statement, TableRead
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import analyzed, nullable_type, with_parts_of
from rowlock.engines.spark.catalyst.column_rules import default_value
from rowlock.engines.spark.catalyst.types import delta_schema, delta_type, fitted_text
from rowlock.engines.spark.driver_rows import Ways, first_if_small
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import project, table_schema
from rowlock.engines.spark.statements import row_statements
from rowlock.engines.spark.statements.computed_columns import numbered_rows, with_generated_values
from rowlock.engines.spark.statements.constraint_checks import check_table, written_block
from rowlock.engines.spark.statements.passage import Group
from rowlock.engines.spark.statements.sources import frame_of_now, read_meanwhile, table_reads
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import ConstraintViolated
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, file_block, logical
from rowlock.parquet.writing import write_files
from rowlock.protocol import schema_fit
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.column_values import Generated, column_defaults, generated_columns, is_identity
from rowlock.protocol.schema import quote
from rowlock.protocol.schema_fit import same_shape
from rowlock.storage.store import discard
from rowlock.transaction.state.call import most_records, settings

_OPTIMIZED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
"""How Spark rebalances rows before it writes them."""


def conform(
    frame: DataFrame, schema: StructType, table: str, generated: Sequence[Generated] = (), defaults: Mapping[str, str] = MappingProxyType({}),
    widening: schema_fit.Widening | None = None,
) -> DataFrame:  # fmt: skip
    """The frame's columns under the table's names, order and types; absent columns have their default or are null, absent `generated` ones are computed.

    Raises SchemaMismatch by the rules of `protocol.schema_fit`.  Nothing is evaluated.
    """
    given = {name.lower() for name in frame.columns}
    computed = [g for g in generated if g.name.lower() not in given]
    fit = schema_fit.fit(delta_schema(frame.schema), delta_schema(schema), table, computed={g.name for g in computed} | defaults.keys(), widening=widening)
    types = dict(zip(frame.columns, (f.dataType for f in frame.schema.fields), strict=True))
    columns: dict[str, str | Column] = {}
    for f in schema.fields:
        if (name := fit.given[f.name]) is not None and KEY not in f.metadata and same_shape(delta_type(types[name]), delta_type(f.dataType)):
            columns[f.name] = name
            continue
        value = default_value(defaults.get(f.name), f.dataType) if name is None else _cast(F.col(quote(name)), types[name], f.dataType)
        columns[f.name] = fitted_text(value, f).alias(f.name)
    return with_generated_values(project(frame, columns), schema, computed)


def _cast(value: Column, actual: DataType, wanted: DataType) -> Column:
    """A value of a type that fits, as the wanted type; struct fields are matched without regard to case."""
    if same_shape(delta_type(actual), delta_type(wanted)):
        return value
    made = with_parts_of(value, actual, wanted, _cast)
    return value.cast(nullable_type(wanted)) if made is None else made  # whether a null is there is seen in the rows


def append_statement(
    evaluator: Evaluator,
    snapshot: Snapshot,
    frame: DataFrame,
    must_meet: Statement | None = None,
    max_records: int | None = None,
    read: tuple[TableRead, ...] | None = None,
) -> Statement:
    """Stages rows: few come to the driver, many are written by Spark.  Raises SchemaMismatch, ConstraintViolated.

    `must_meet` is the DELETE of a replaceWhere, under whose condition every row must fall; `max_records`: how many rows a file holds at most; `read`: what
    the rows were read from of the table, where they are pinned and the caller knows.
    """
    is_pinned, frame = read is not None, frame_of_now(frame)
    read = table_reads(evaluator, frame, snapshot) if read is None else read
    given, generated = {name.lower() for name in frame.columns}, generated_columns(snapshot.schema)
    with numbered_rows(evaluator, snapshot, frame) as whole:
        widening = schema_fit.may_become if snapshot.properties.type_widening else None
        rows = conform(whole, table_schema(snapshot), evaluator.store.root, generated, column_defaults(snapshot.schema), widening)
        blocks = append_blocks(evaluator, snapshot, rows, gives_generated=any(g.name.lower() in given for g in generated), max_records=max_records)
    read += () if is_pinned else read_meanwhile(evaluator, frame, snapshot.version, read)
    if must_meet is not None and (outside := sum(b.num_rows for b in blocks) - met(evaluator, must_meet, blocks, snapshot)):
        discard(evaluator.store, (f.path for b in blocks for f in b.payload.files))
        text = f"{outside} of the rows do not fall under replace_where, {must_meet.parameters['predicate'][0]}: filter them out, or widen it"
        condition = named("DELTA_REPLACE_WHERE_MISMATCH", replaceWhere=must_meet.parameters["predicate"][0], message=f"{outside} rows")
        raise ConstraintViolated(text, table=evaluator.store.root, condition=condition)
    sets = tuple(f.name for f in snapshot.schema.fields if f.name.lower() in given or is_identity(f))
    return Statement("append", blocks, source_reads=read, sets=sets)


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

    `gives_generated`: whether generated columns came with the rows, and were not all just computed; `max_records`: as a write has it, 0 for no limit.
    """
    optimized = frame._jdf.queryExecution().optimizedPlan()
    most = evaluator.bridge.option(optimized.maxRows())
    few = most is not None and int(most) <= limits().driver_rows and int(str(optimized.stats().sizeInBytes())) <= limits().append_driver_bytes
    if few and (rows := first_if_small(frame)) is not None:
        table = check_table(evaluator, rows, snapshot, generated=gives_generated)
        if (bound := most_records(max_records)) is not None and table.num_rows > bound:
            return [file_block("appended", 0, write_files(evaluator.store, logical(table, snapshot), snapshot, bound))]
        return [driver_block("appended", 0, table, None)] if table.num_rows else []
    session = evaluator.session()
    own = evaluator.bridge.dataframe(analyzed(frame), evaluator.spark, session)
    if settings().flag("optimizeWrite.enabled", snapshot.properties.optimizes_writes):
        for name, value in _OPTIMIZED.items():
            session.conf().set(name, value)
        size = (settings().text("optimizeWrite.binSize") or "").strip()
        session.conf().set("spark.sql.adaptive.advisoryPartitionSizeInBytes", f"{size}m" if size.isdecimal() else size)
        own = own.hint("rebalance", *[F.col(quote(c)) for c in snapshot.partition_columns])
    files = [f for _, f in write_native(own, evaluator.store, snapshot, max_records=max_records)]
    return [written_block(evaluator, "appended", 0, files, snapshot, generated=gives_generated)] if files else []
