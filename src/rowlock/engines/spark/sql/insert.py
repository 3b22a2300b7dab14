"""INSERT: its static partitions, the word DEFAULT by Spark's own rule, and the casts of its rows to a table's columns by the session's store assignment policy.

Under the policy ANSI values of any type that can be cast are stored, too, as delta-spark does: '7' in a column of numbers.  A value that is none raises.
Spark drops the options of `insertInto` for its own tables, as which it sees ours, so that `replaceWhere`, say, would replace all rows.
Its statement has no room for them, so PySpark's own method is wrapped, once for the process, and leaves them to the thread that runs the statement.
What a client of a Connect server asks for never passes there: on a server the client's request is looked up, which has them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession, functions as F
from pyspark.sql.types import ArrayType, BinaryType, BooleanType, DataType, MapType, NullType, StringType, StructField, StructType, VariantType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import DEFAULT
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, analyzed, bare, catalyst, fields_by_name, nullable, with_parts_of
from rowlock.engines.spark.catalyst.types import store_policy
from rowlock.engines.spark.frames.reading import relabelled
from rowlock.engines.spark.read.scan import empty_frame, project, table_schema
from rowlock.engines.spark.session.connect import CONNECT_SERVICE, module
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import ConstraintViolated, SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import schema as protocol_schema
from rowlock.protocol.schema import quote, schema_json


def partition_literal(table: DataFrame, name: str, value: str | None, path: str, *, replaces: bool = False) -> tuple[Column, Column]:
    """(the value as a column of the type that the table's column has, the condition that the table's column is it).  Raises SchemaMismatch.

    The cast is ANSI's under every setting, as Spark has it for static partitions: a text that is no value of the type raises when it is computed, where
    null in its place would overwrite the null partition.  `replaces`: the partition is to be overwritten, and ConstraintViolated is raised for the
    empty text, whose rows would lie in the null partition.
    """
    field = next((f for f in table.schema.fields if f.name.lower() == name.lower()), None)
    if field is None:
        raise SchemaMismatch(f"There is no column {name!r}; the table has {', '.join(table.columns)}", table=path)
    if replaces and value == "" and isinstance(field.dataType, (StringType, BinaryType)):
        text = f"{name} = '' is the null partition in the log, and which rows would be replaced is not certain: write {name} = NULL"
        condition = named("DELTA_REPLACE_WHERE_MISMATCH", replaceWhere=f"({name} = '')", message="the rows would lie in the null partition")
        raise ConstraintViolated(text, table=path, condition=condition)
    literal = catalyst(table.sparkSession).ansi_cast(F.lit(value), bare(field.dataType))
    return literal, F.col(quote(field.name)).eqNullSafe(literal)


def query_of(nodes: Nodes, insert: JavaObject, newest: Callable[[], Snapshot]) -> tuple[JavaObject, dict[str, str]]:
    """The query of an INSERT with the word DEFAULT replaced by the default of the column that it is for, null where it has none; and the options of an `insertInto`."""
    options = _options_of_insert_into(nodes.spark)
    if DEFAULT not in str(insert.query().toString()).upper():
        return insert.query(), options
    relation, state = analyzed(empty_frame(nodes.spark, table_schema(newest()))), nodes.spark._jsparkSession.sessionState()
    insert = insert.withNewChildren(nodes.bridge.seq([state.analyzer().execute(insert.query())]))  # the rule looks at a SELECT whose source is resolved
    parts = [relation if n == 0 else insert.productElement(n) for n in range(insert.productArity())]
    analysis = nodes.bridge.jvm.org.apache.spark.sql.catalyst.analysis
    return analysis.ResolveColumnDefaultInCommandInputQuery(state.catalogManager()).apply(insert.copy(*parts)).query(), options


_NESTED = (StructType, ArrayType, MapType)


def assigned(
    rows: DataFrame,
    columns: Sequence[StructField],
    table: str,
    *,
    by_name: bool = False,
    fills: bool = False,
    placed: protocol_schema.StructType | None = None,
    with_metadata: bool = False,
) -> DataFrame:
    """The rows under these columns and their own alias, by position; with `by_name`, fields within structs by their names, or by those in `placed`.  With `fills` fields that structs lack are null.

    `with_metadata`: the columns keep theirs, which the table gets with a new column.

    Raises Spark's AnalysisException for a type that may not be stored in a column's, SchemaMismatch for structs that lack fields or have more.

    Null is let through, for the table's own check of it; a value that does not fit raises when the rows are computed.
    """
    spark, bridge = rows.sparkSession, catalyst(rows.sparkSession)
    _, alias = Nodes(spark).without_alias(analyzed(rows))
    nulls = {f.name for f, given in zip(columns, rows.schema.fields, strict=True) if isinstance(f.dataType, NullType) and isinstance(given.dataType, NullType)}
    schema = nullable(StructType([StructField(f.name, BooleanType() if f.name in nulls else bare(f.dataType), True) for f in columns]))
    wanted = analyzed(empty_frame(spark, schema)).output()
    conf = spark._jsparkSession.sessionState().conf()
    rows = rows if placed is None else _with_fields_named(rows, placed)
    rows = _filled(rows, schema) if fills else rows
    _check_counts(rows.schema, schema, by_name, table)
    rows = _castable(rows, schema, by_name, ansi=store_policy(spark) == "ANSI")
    if by_name and rows.columns != schema.names:  # spelled otherwise, which Spark heeds where the session does
        rows = rows.toDF(*schema.names)
    resolver: Any = bridge.jvm.org.apache.spark.sql.catalyst.analysis.TableOutputResolver
    default = getattr(resolver, "resolveOutputColumns$default$6")()
    plan = resolver.resolveOutputColumns(table, wanted, analyzed(rows), by_name, conf, default)
    fitted = bridge.dataframe(plan, spark).toDF(*[f.name for f in columns])  # Spark stores no null in a void column under STRICT, so it sees another type
    fitted = project(fitted, {n: F.lit(None).alias(n) if n in nulls else n for n in fitted.columns}) if nulls else fitted
    fitted = relabelled(fitted, {f.name: f.metadata for f in columns}) if with_metadata else fitted
    return fitted.alias(alias) if alias else fitted  # by which a replaceOn calls the rows


def _with_fields_named(rows: DataFrame, columns: protocol_schema.StructType) -> DataFrame:
    """The rows, whose structs have the names of fields that these have in their places."""
    bridge, wanted = catalyst(rows.sparkSession), StructType.fromJson(json.loads(schema_json(columns)))
    given = [(bridge.column(a), n) for a, n in zip(bridge.list(analyzed(rows).output()), rows.columns, strict=True)]
    return rows.select(*(c.cast(f.dataType).alias(n) if isinstance(f.dataType, StructType) else c for (c, n), f in zip(given, wanted.fields, strict=True)))


def _structs(have: DataType, want: DataType, by_name: bool, name: str = "") -> Iterator[tuple[str, StructType, StructType]]:
    """Each struct of one type with the one of the other type whose place it takes, at any depth, outer ones first, and where that is."""
    pairs: list[tuple[str, DataType, DataType]] = []
    if isinstance(have, StructType) and isinstance(want, StructType):
        yield name, have, want
        known = {f.name.lower(): f for f in want.fields}
        into = [known.get(f.name.lower()) for f in have.fields] if by_name else want.fields
        pairs = [(f".{w.name}", h.dataType, w.dataType) for h, w in zip(have.fields, into, strict=False) if w is not None]
    elif isinstance(have, ArrayType) and isinstance(want, ArrayType):
        pairs = [(".element", have.elementType, want.elementType)]
    elif isinstance(have, MapType) and isinstance(want, MapType):
        pairs = [(".key", have.keyType, want.keyType), (".value", have.valueType, want.valueType)]
    for place, h, w in pairs:
        yield from _structs(h, w, by_name, name + place)


def _check_counts(rows: StructType, columns: StructType, by_name: bool, table: str) -> None:
    """Raises SchemaMismatch, with delta-spark's condition, where a struct of the rows has fewer or more fields than the column's."""
    for name, have, want in (found for h, w in zip(rows.fields, columns.fields, strict=True) for found in _structs(h.dataType, w.dataType, by_name, w.name)):
        if (given := len(have.fields)) != (wanted := len(want.fields)):
            text = f"The struct {name} of the INSERT has the fields {', '.join(have.names)}, the column's has {', '.join(want.names)}"
            few = {"columnName": f"not enough nested fields in {name}", "numColumns": wanted, "insertColumns": given}
            arity = named("DELTA_INSERT_COLUMN_ARITY_MISMATCH", tableName=table, **few)
            raise SchemaMismatch(text, table=table, condition=arity if given < wanted else named("DELTA_METADATA_MISMATCH"))


def _filled(rows: DataFrame, wanted: StructType) -> DataFrame:
    """The rows whose structs have all fields of the wanted ones, those that they lack as nulls."""
    bridge, names = catalyst(rows.sparkSession), rows.columns
    given = [bridge.column(a) for a in bridge.list(analyzed(rows).output())]
    columns = [_with_fields(c, have.dataType, want.dataType) for c, have, want in zip(given, rows.schema.fields, wanted.fields, strict=True)]
    changed = any(made is not held for made, held in zip(columns, given, strict=True))
    return rows.select(*(c.alias(n) for c, n in zip(columns, names, strict=True))) if changed else rows


def _with_fields(value: Column, have: DataType, want: DataType) -> Column:
    """A value whose structs, also in arrays and maps, have the fields of `want` that they lack, as nulls; those that only they have stay at the end."""
    if not _lacks(have, want):
        return value
    if not (isinstance(have, StructType) and isinstance(want, StructType)):
        made = with_parts_of(value, have, want, _with_fields)
        return value if made is None else made
    known = {f.name.lower() for f in want.fields}
    extra = [value.getField(f.name).alias(f.name) for f in have.fields if f.name.lower() not in known]
    return F.when(value.isNotNull(), F.struct(*fields_by_name(value, have, want, _with_fields), *extra))


def _lacks(have: DataType, want: DataType) -> bool:
    """Whether a struct of one type lacks a field of the other's, at any depth."""
    return any({f.lower() for f in w.names} - {f.lower() for f in h.names} for _, h, w in _structs(have, want, by_name=True))


def _castable(rows: DataFrame, wanted: StructType, by_name: bool, *, ansi: bool) -> DataFrame:
    """The rows with those columns cast whose type Spark would not store in the wanted one: NULL, which has no type, under every policy; all that can be under ANSI."""
    bridge, names = catalyst(rows.sparkSession), rows.columns
    pairs = enumerate(zip(rows.schema.fields, wanted.fields, strict=True))
    types = {n: t for n, (have, want) in pairs if (t := _stored_type(bridge, have.dataType, want.dataType, by_name, ansi)) != have.dataType}
    if not types:
        return rows
    columns = [bridge.column(a) for a in bridge.list(analyzed(rows).output())]
    return rows.select(*(bridge.ansi_cast(c, types[n]).alias(names[n]) if n in types else c for n, c in enumerate(columns)))


def _stored_type(bridge: Catalyst, actual: DataType, wanted: DataType, by_name: bool, ansi: bool) -> DataType:
    """The type of a value, with that of the wanted type in place of each part that `_castable` casts."""
    if isinstance(actual, NullType):
        return wanted
    if isinstance(actual, StructType) and isinstance(wanted, StructType) and len(actual.fields) == len(wanted.fields):
        known = {f.name.lower(): f for f in wanted.fields}
        into = [known.get(a.name.lower()) for a in actual.fields] if by_name else wanted.fields
        pairs = [
            (a, a.dataType if w is None else _stored_type(bridge, a.dataType, w.dataType, by_name, ansi)) for a, w in zip(actual.fields, into, strict=True)
        ]
        return StructType([StructField(a.name, t, a.nullable, a.metadata) for a, t in pairs])
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return ArrayType(_stored_type(bridge, actual.elementType, wanted.elementType, by_name, ansi), actual.containsNull)
    if isinstance(actual, MapType) and isinstance(wanted, MapType):
        key, value = (_stored_type(bridge, *kinds, by_name, ansi) for kinds in ((actual.keyType, wanted.keyType), (actual.valueType, wanted.valueType)))
        return MapType(key, value, actual.valueContainsNull)
    if not ansi or actual == wanted or (isinstance(wanted, _NESTED) and (type(actual) is type(wanted) or isinstance(actual, VariantType))):
        return actual
    if isinstance(wanted, _NESTED):
        return wanted  # which no cast makes: Spark says so, as delta-spark has it
    types = bridge.data_type
    return actual if bridge.cast.canANSIStoreAssign(types.fromJson(actual.json()), types.fromJson(wanted.json())) else wanted


_HARMLESS = frozenset(("path", "header", "inferschema"))
_GIVEN = "rowlock.insertInto"
"""The local property of a thread in the JVM that holds the options of the `insertInto` that it runs."""
_TAGS, _OF_CONNECT = "spark.job.tags", "SparkConnect_OperationTag"
"""A thread that runs what a client asked for has a tag that names the request."""
_watched = False


def pass_on_options(is_delta: Callable[[SparkSession, str], bool]) -> None:
    """Wraps `DataFrameWriter.insertInto`, unless it is wrapped; `is_delta` says whether a name of the catalog is a Delta table's."""
    global _watched
    if _watched:
        return
    plain = DataFrameWriter.insertInto

    @functools.wraps(plain)
    def insert_into(self: DataFrameWriter, tableName: str, overwrite: bool | None = None) -> None:
        spark: SparkSession = self._spark
        if not (Session(spark).is_enabled and (given := _options(self, spark)) and is_delta(spark, tableName)):
            return plain(self, tableName, overwrite)
        spark.sparkContext.setLocalProperty(_GIVEN, json.dumps(given))
        try:
            plain(self, tableName, overwrite)
        finally:
            spark._jsc.setLocalProperty(_GIVEN, None)

    DataFrameWriter.insertInto = insert_into  # type: ignore[method-assign]
    _watched = True


def _options(writer: DataFrameWriter, spark: SparkSession) -> dict[str, str]:
    """The options that a writer was given, but for those that mean nothing for any table."""
    jwriter: Any = writer._jwrite
    pairs = [(str(pair._1()), str(pair._2())) for pair in catalyst(spark).list(jwriter.extraOptions().originalMap().toSeq())]
    return {name: value for name, value in pairs if name.lower() not in _HARMLESS}


def _options_of_insert_into(spark: SparkSession) -> dict[str, str]:
    """The options of the `insertInto` whose INSERT this thread runs, its own or that of a client of a Connect server; none for an INSERT of SQL."""
    if (given := spark.sparkContext.getLocalProperty(_GIVEN)) is not None:
        return json.loads(given)  # type: ignore[no-any-return]
    tags = str(spark.sparkContext.getLocalProperty(_TAGS) or "").split(",")
    if not any(tag.startswith(_OF_CONNECT) for tag in tags):
        return {}
    bridge = catalyst(spark)
    running = module(bridge.jvm, CONNECT_SERVICE).executionManager().listExecuteHolders()
    for holder in bridge.list(running):
        if str(holder.jobTag()) not in tags:
            continue  # another's request
        write = holder.request().getPlan().getCommand().getWriteOperation()
        if str(write.getTable().getSaveMethod().name()).endswith("INSERT_INTO"):
            return {str(n): str(v) for n, v in dict(write.getOptionsMap()).items() if str(n).lower() not in _HARMLESS}
    return {}
