"""DESCRIBE and SHOW of a Delta table, answered from its log: the catalog's entry knows neither its columns nor its properties."""

from __future__ import annotations

from typing import Any

from rowlock.api.sql.target import Target
from rowlock.conditions import Condition, named
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.types import DataFrame, StructField, StructType, type_text
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.sql.insert import partition_literal
from rowlock.exceptions import InvalidInput, SchemaMismatch, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.column_mapping import MAX_ID
from rowlock.protocol.column_values import CURRENT_DEFAULT, EXPLICIT, GENERATION_EXPRESSION, START, STEP
from rowlock.protocol.constraints import is_constraint
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.paths import path_of
from rowlock.protocol.properties import validate_properties
from rowlock.protocol.schema import column_name, dotted, lower_case, unresolved_column


def no_partitions(target: Target) -> Condition:
    """The condition of a statement on one partition, of which the catalog knows none."""
    return named("INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED", name=dotted(target.whole_name))


def describe(target: Target, plan: Any) -> DataFrame:
    """DESCRIBE [EXTENDED] TABLE: the columns, by which of them it is partitioned, and with EXTENDED what else is known."""
    if target.nodes.has_method(plan, "partitionSpec") and not plan.partitionSpec().isEmpty():  # a command of its own since Spark 4.2
        target.refuse("of a partition", "Use DESCRIBE TABLE, or SHOW PARTITIONS", no_partitions(target))
    snapshot = target.head
    fields = table_schema(snapshot).fields
    columns = {f.name: (f.name, type_text(f), f.metadata.get("comment")) for f in fields}
    rows: list[tuple[str, str, str | None]] = list(columns.values())
    clusters = [".".join(path) for path in snapshot.clustering_columns] if plan.isExtended() else []  # as delta-spark has it
    for title, names in (("# Partition Information", snapshot.partition_columns), ("# Clustering Information", clusters)):
        if names:
            rows += [(title, "", ""), ("# col_name", "data_type", "comment"), *((column_name((n,)), *columns.get(n, (n, "", None))[1:]) for n in names)]
    if plan.isExtended():
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), *((k, v, "") for k, v in _details(target, snapshot))]
        if defaults := [(f.name, type_text(f), f.metadata[CURRENT_DEFAULT]) for f in fields if CURRENT_DEFAULT in f.metadata]:
            rows += [("", "", ""), ("# Column Default Values", "", ""), *defaults]
    return target.results.of("DescribeRelation", rows)


def _details(target: Target, snapshot: Snapshot) -> list[tuple[str, str]]:
    """What DESCRIBE EXTENDED shows beside the columns."""
    entry = catalog.Name(target.spark, dotted(target.parts)).entry() if path_of(target.parts) is None else None
    of_catalog, schema, table = target.whole_name
    managed = entry is not None and entry.kind == "managed"
    properties = ",".join(f"{k}={v}" for k, v in sorted(target.nodes.redacted(properties_of(snapshot)).items()))
    return [
        ("Catalog", of_catalog),
        ("Namespace", schema),
        ("Database", schema),
        ("Table", table),
        ("Type", "MANAGED" if managed else "EXTERNAL"),
        *([("Comment", snapshot.metadata.description)] if snapshot.metadata.description else []),
        ("Location", f"file:{target.path}" if target.path.startswith("/") else target.path),
        ("Provider", "delta"),
        *([("Is_managed_location", "true")] if managed else []),
        ("Table Properties", f"[{properties}]"),
    ]


def _name(target: Target) -> str:
    """The table's whole name as errors have it."""
    return ".".join(target.whole_name) if path_of(target.parts) is None else f"delta.`{target.path}`"


def describe_column(target: Target, plan: Any) -> DataFrame:
    """DESCRIBE TABLE name column: the column's type and comment."""
    parts = [str(p) for p in target.nodes.items(plan.column().nameParts())]
    found: StructField | None = None
    if len(parts) == 1:
        found = next((f for f in table_schema(target.head).fields if f.name.lower() == parts[0].lower()), None)
    if found is None:
        text = f"There is no column {'.'.join(parts)} to describe; nested fields have no description of their own"
        raise SchemaMismatch(text, table=target.path, condition=unresolved_column(parts, target.head.schema.names))
    rows = [("col_name", found.name), ("data_type", type_text(found)), ("comment", found.metadata.get("comment") or "NULL")]
    return target.results.of("DescribeColumn", rows)


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """The table's properties as SHOW TBLPROPERTIES has them: those that were set, the protocol's versions and its features."""
    protocol = snapshot.protocol
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} & {*reader_features(protocol), *writer_features(protocol)}
    return {
        **snapshot.metadata.configuration,
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
        **{f"delta.feature.{name}": "supported" for name in listed},
    }


def show_properties(target: Target, plan: Any) -> DataFrame:
    """SHOW TBLPROPERTIES [(key)]."""
    properties = target.nodes.redacted(properties_of(target.head))
    key = target.nodes.option(plan.propertyKey())
    missing = f"Table {_name(target)} does not have property: {key}"
    return target.results.of("ShowTableProperties", sorted(properties.items()) if key is None else [(key, properties.get(key, missing))])


def show_columns(target: Target, plan: Any) -> DataFrame:
    """SHOW COLUMNS.  Raises InvalidInput where a schema beside the name is another than the table's."""
    given, own = target.nodes.option(plan.namespace()), target.whole_name[:-1]
    beside = own if given is None else tuple(str(p) for p in target.nodes.items(given))
    if lower_case(beside) != lower_case(own[-len(beside) :]):
        said = {"namespaceA": dotted(beside), "namespaceB": dotted(own)}
        text = f"The table is in the schema {said['namespaceB']}, and not in {said['namespaceA']}: say one of them"
        raise InvalidInput(text, table=target.path, condition=named("SHOW_COLUMNS_WITH_CONFLICT_NAMESPACE", **said))
    return target.results.of("ShowColumns", [(n,) for n in target.head.schema.names])


def partition_columns(target: Target) -> StructType:
    """The columns of what SHOW PARTITIONS returns.  Raises InvalidInput where the table is not partitioned."""
    snapshot = target.head
    if not snapshot.partition_columns:
        text = "The table is not partitioned, so there is no partition to show"
        raise InvalidInput(text, table=target.path, condition=named("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE", tableName=".".join(target.parts)))
    known = {f.name: f.dataType for f in table_schema(snapshot).fields}
    return StructType([StructField(n, known[n], True) for n in snapshot.partition_columns])


def show_partitions(target: Target, plan: Any) -> DataFrame:
    """SHOW PARTITIONS [PARTITION (column = value)]: the values that the rows of the table have, in their order."""
    nodes, table = target.nodes, target.table().toDF()
    names = partition_columns(target).names
    known = {n.lower() for n in names}
    frame = table
    pattern = nodes.option(plan.pattern())
    for name, value in (nodes.mapping(pattern.spec()) if pattern is not None else {}).items():
        if name.lower() not in known:
            condition = named("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN", badCols=f"[{name}]")
            raise InvalidInput(f"PARTITION names {name}, by which the table is not partitioned", table=target.path, condition=condition)
        frame = frame.where(partition_literal(table, name, value, target.path)[1])
    columns = [dotted([n]) for n in names]
    return frame.select(*columns).distinct().orderBy(*columns)


def show_create(target: Target, plan: Any) -> DataFrame:
    """SHOW CREATE TABLE: a statement that makes an empty table like this one."""
    if plan.asSerde():
        target.refuse("AS SERDE", "Leave AS SERDE out")
    snapshot = target.head
    detail = dict(_details(target, snapshot))
    columns = ",\n  ".join(_column(target, f) for f in table_schema(snapshot).fields)
    text = f"CREATE TABLE {_name(target).removeprefix('spark_catalog.')} (\n  {columns})\nUSING delta\n"
    for words, names in (("PARTITIONED BY", [(n,) for n in snapshot.partition_columns]), ("CLUSTER BY", snapshot.clustering_columns)):
        text += f"{words} ({', '.join(column_name(path) for path in names)})\n" if names else ""
    text += f"COMMENT {quoted(snapshot.metadata.description)}\n" if snapshot.metadata.description else ""
    text += f"LOCATION {quoted(detail['Location'])}\n" if detail["Type"] == "EXTERNAL" else ""
    properties = {k: v for k, v in snapshot.metadata.configuration.items() if _may_be_set(k, v)}
    listed = ",\n  ".join(f"{quoted(k)} = {quoted(v)}" for k, v in sorted(target.nodes.redacted(properties).items()))
    return target.results.of("ShowCreateTable", [(f"{text}TBLPROPERTIES (\n  {listed})\n" if listed else text,)])


def _may_be_set(name: str, value: str) -> bool:
    """Whether a statement may say this property; others are the table's own notes, or follow from its columns."""
    try:
        validate_properties({name: value})
    except (InvalidInput, UnsupportedFeature):
        return False
    return not (is_constraint(name) or name == MAX_ID or name.startswith("delta.rowTracking."))


def _column(target: Target, field: StructField) -> str:
    kind, metadata = target.nodes.type_sql(field), field.metadata
    generated = f" GENERATED ALWAYS AS ({metadata[GENERATION_EXPRESSION]})" if metadata.get(GENERATION_EXPRESSION) else ""
    if START in metadata:
        generated = (
            f" GENERATED {'BY DEFAULT' if metadata.get(EXPLICIT) else 'ALWAYS'} AS IDENTITY (START WITH {metadata[START]} INCREMENT BY {metadata[STEP]})"
        )
    return (
        f"{column_name((field.name,))} {kind}{generated}"
        + ("" if field.nullable else " NOT NULL")
        + (f" DEFAULT {metadata[CURRENT_DEFAULT]}" if CURRENT_DEFAULT in metadata else "")
        + (f" COMMENT {quoted(metadata['comment'])}" if metadata.get("comment") else "")
    )


def quoted(text: str) -> str:
    """A text of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
