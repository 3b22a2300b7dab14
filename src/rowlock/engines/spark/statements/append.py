"""Rows from outside: made to fit the table's schema, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.statements import Statement
from rowlock.engines.spark.catalyst.bridge import nullable_type, to_arrow
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.statements import row_statements
from rowlock.engines.spark.statements.constraint_checks import check_files, check_table
from rowlock.engines.spark.statements.generated_columns import with_generated_values
from rowlock.engines.spark.statements.passage import Group
from rowlock.engines.spark.statements.source_versions import versions_read
from rowlock.engines.spark.write.writer import write_native
from rowlock.exceptions import ConstraintViolated, SchemaMismatch
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import driver_block, file_block
from rowlock.protocol.generated import Generated, generated_columns

_WIDTH: dict[type[DataType], int] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}


def merged_schema(table: StructType, frame: StructType) -> StructType:
    """The table's schema with the columns that it lacks added at the end, nullable with all that is in them."""
    have = {f.name.lower() for f in table.fields}
    return StructType([*table.fields, *(StructField(f.name, nullable_type(f.dataType), True) for f in frame.fields if f.name.lower() not in have)])


def check_names(frame: DataFrame, table: str) -> None:
    """Raises SchemaMismatch where two columns differ only by case, or not at all."""
    seen: dict[str, str] = {}
    for name in frame.columns:
        if (before := seen.setdefault(name.lower(), name)) is not name:
            raise SchemaMismatch(f"The rows have two columns that differ at most by case, {before!r} and {name!r}; rename or drop one", table=table)


def conform(frame: DataFrame, schema: StructType, table: str, generated: Sequence[Generated] = ()) -> DataFrame:
    """The frame's columns under the table's names, order and types; absent nullable columns are null, absent `generated` ones computed.

    Raises SchemaMismatch for an unknown column, an absent NOT NULL column, or a type that does not fit.
    """
    check_names(frame, table)
    have = {f.name.lower(): f for f in frame.schema.fields}
    known = {f.name.lower() for f in schema.fields}
    if unknown := [f.name for f in frame.schema.fields if f.name.lower() not in known]:
        raise SchemaMismatch(
            f"The table has no column {unknown[0]!r}; it has {', '.join(f.name for f in schema.fields)}. Drop the column, or pass merge_schema=True to add it",
            table=table,
        )
    columns: list[Column] = []
    computed = [g for g in generated if g.name.lower() not in have]
    later = {g.name for g in computed}
    for f in schema.fields:
        given = have.get(f.name.lower())
        if given is None:
            if f.name not in later and (must := required_in(f)) is not None:
                raise SchemaMismatch(f"Column {must} is NOT NULL and the rows do not have it", table=table)
            columns.append(F.lit(None).cast(f.dataType).alias(f.name))
        else:
            columns.append(fitted(F.col(f"`{given.name.replace('`', '``')}`"), given.dataType, f.dataType, f.name, table).alias(f.name))
    return with_generated_values(frame.select(*columns), schema, computed)


def required_in(field: StructField) -> str | None:
    """What must not be null in a field that is absent: itself, or a field in its structs."""
    if not field.nullable:
        return field.name
    inner = field.dataType.fields if isinstance(field.dataType, StructType) else []
    return next((f"{field.name}.{found}" for f in inner if (found := required_in(f)) is not None), None)


def fitted(value: Column, actual: DataType, wanted: DataType, name: str, table: str) -> Column:
    """A value of one type for a column of another: the same, or wider without a loss.  Raises SchemaMismatch."""
    if same_shape(actual, wanted):
        return value
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        have = {f.name.lower(): f for f in actual.fields}
        if extra := set(have) - {f.name.lower() for f in wanted.fields}:
            raise SchemaMismatch(f"Column {name} has no field {min(extra)!r}", table=table)
        fields = []
        for f in wanted.fields:
            given = have.get(f.name.lower())
            if given is None and (must := required_in(f)) is not None:
                raise SchemaMismatch(f"Field {name}.{must} is NOT NULL and the rows do not have it", table=table)
            inner = F.lit(None).cast(f.dataType) if given is None else fitted(value.getField(given.name), given.dataType, f.dataType, f"{name}.{f.name}", table)
            fields.append(inner.alias(f.name))
        return F.when(value.isNull(), F.lit(None)).otherwise(F.struct(*fields))
    if not is_wider(actual, wanted):
        raise SchemaMismatch(f"Column {name} is {wanted.simpleString()} in the table and {actual.simpleString()} in the rows; cast it", table=table)
    return value.cast(nullable_type(wanted))  # whether a null is there is seen in the rows


def same_shape(a: DataType, b: DataType) -> bool:
    """Equal types, whatever they say of nulls and metadata; struct fields by exact name."""
    if isinstance(a, StructType) and isinstance(b, StructType):
        return len(a) == len(b) and all(x.name == y.name and same_shape(x.dataType, y.dataType) for x, y in zip(a.fields, b.fields, strict=True))
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return same_shape(a.elementType, b.elementType)
    if isinstance(a, MapType) and isinstance(b, MapType):
        return same_shape(a.keyType, b.keyType) and same_shape(a.valueType, b.valueType)
    return a == b


def is_wider(actual: DataType, wanted: DataType) -> bool:
    """Whether every value of `actual` is exactly one of `wanted`."""
    if isinstance(actual, NullType):
        return True
    a, w = _WIDTH.get(type(actual)), _WIDTH.get(type(wanted))
    if a is not None:
        if w is not None:
            return a <= w
        if isinstance(wanted, DoubleType):
            return a <= 4
        if isinstance(wanted, FloatType):
            return a <= 2
        return isinstance(wanted, DecimalType) and wanted.precision - wanted.scale >= {1: 3, 2: 5, 4: 10, 8: 20}[a]
    if isinstance(actual, FloatType):
        return isinstance(wanted, DoubleType)
    if isinstance(actual, DecimalType) and isinstance(wanted, DecimalType):
        return wanted.scale >= actual.scale and wanted.precision - wanted.scale >= actual.precision - actual.scale
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return is_wider(actual.elementType, wanted.elementType) or same_shape(actual.elementType, wanted.elementType)
    return False


def append_statement(evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame, must_meet: Statement | None = None) -> Statement:
    """Stages rows: few come to the driver, many are written by Spark.  Raises SchemaMismatch, ConstraintViolated.

    `must_meet` is the DELETE of a replaceWhere, under whose condition every row must fall.
    """
    read = versions_read(evaluator, frame, snapshot.version)
    given, generated = {name.lower() for name in frame.columns}, generated_columns(snapshot.schema)
    rows = conform(frame, table_schema(snapshot), evaluator.store.root, generated)
    blocks = append_blocks(evaluator, snapshot, rows, gives_generated=any(g.name.lower() in given for g in generated))
    read += versions_read(evaluator, frame, snapshot.version) if read else ()
    if must_meet is not None and (outside := sum(b.num_rows for b in blocks) - met(evaluator, must_meet, blocks, snapshot)):
        raise ConstraintViolated(
            f"{outside} of the rows do not fall under replace_where, {must_meet.parameters['predicate'][0]}: filter them out, or widen it",
            table=evaluator.store.root,
        )
    sets = tuple(name for name in snapshot.schema.names if name.lower() in given)
    return Statement("append", blocks, source_versions=read, sets=sets)


def met(evaluator: Evaluator, delete: Statement, blocks: Sequence[RowBlock], snapshot: Snapshot) -> int:
    """How many rows of staged blocks a DELETE would take."""
    group = Group("appended", 0)
    for number, block in enumerate(blocks):
        group.add(number, block, snapshot)
    found, _ = row_statements.run(evaluator, delete.payload, group.slices, snapshot, 0, group.local)
    return sum(len(positions) for positions in found.values())


def append_blocks(evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame, *, gives_generated: bool = False) -> Sequence[RowBlock]:
    """The blocks of rows that fit the schema already; staging numbers them by their statement.

    `gives_generated`: whether generated columns came with the rows, and were not all just computed.
    """
    optimized = frame._jdf.queryExecution().optimizedPlan()
    most = optimized.maxRows()
    if most.isDefined() and int(most.get()) <= limits().driver_rows and int(str(optimized.stats().sizeInBytes())) <= limits().append_driver_bytes:
        table = to_arrow(frame)
        check_table(evaluator, table, snapshot)
        return [driver_block("appended", 0, table, None)] if table.num_rows else []
    own = evaluator.bridge.dataframe(frame._jdf.queryExecution().analyzed(), evaluator.spark, evaluator.session())
    files = [f for _, f in write_native(own, evaluator.store, snapshot)]
    for empty in [f for f in files if not f.num_records]:
        evaluator.store.delete(empty.path)
    files = [f for f in files if f.num_records]
    check_files(evaluator, files, snapshot, generated=gives_generated)
    return [file_block("appended", 0, files)] if files else []
