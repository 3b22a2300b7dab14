"""What CREATE TABLE says of a table: columns, partitions, place and properties, read from Spark's plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import DataType, _parse_datatype_json_string

from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name
from rowlock.engines.spark.sql.nodes import Nodes, has_method
from rowlock.protocol.char_varchar import KEY, bound_in
from rowlock.protocol.schema import ColumnPath


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column of a table that is made.  `generated` is the expression of GENERATED ALWAYS AS, `default` that of DEFAULT, `identity` the start and
    the step of AS IDENTITY and whether it is BY DEFAULT."""

    name: str
    type_: DataType
    nullable: bool = True
    comment: str | None = None
    generated: str | None = None
    default: str | None = None
    identity: tuple[int, int, bool] | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A table that is to be made.  `missing` names the first thing that was said of it and that Rowlock has not."""

    provider: str
    location: str | None = None
    comment: str | None = None
    columns: Sequence[NewColumn] = ()
    partitions: Sequence[str] = ()
    clusters: Sequence[ColumnPath] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Like:
    """What CREATE TABLE ... LIKE says; `name` and `source` are parts of names, and `provider` is the format where it names one."""

    name: list[str] | None
    source: list[str] | None
    provider: str | None
    location: str | None
    if_not_exists: bool
    properties: Mapping[str, str]


def like_of(nodes: Nodes, plan: JavaObject) -> Like:
    """What a CREATE TABLE ... LIKE says, whichever class this Spark has for it."""
    provider, place = nodes.option(plan.provider()), None
    if class_name(plan) == "CreateTableLike":
        name, source, serde, location = nodes.parts(plan.name()), nodes.parts(plan.source()), plan.serdeInfo(), nodes.option(plan.location())
    else:
        name, source, serde = nodes.identifier(plan.targetTable()), nodes.identifier(plan.sourceTable()), plan.fileFormat().serde()
        place = nodes.option(plan.fileFormat().locationUri())
        location = None if place is None else str(nodes.bridge.hadoop_path(place).toString())
    if provider is None and serde.isDefined():
        provider = "hive"
    return Like(name, source, provider, location, bool(plan.ifNotExists()), {k: str(v) for k, v in nodes.mapping(plan.properties()).items()})


def new_default(nodes: Nodes, spec: JavaObject) -> tuple[str | None, bool]:
    """The default that an ALTER COLUMN gives, and whether it takes the default away; before Spark 4.1 an empty text of a default means that."""
    held = nodes.option(spec.newDefaultExpression())
    if isinstance(held, str):
        return held or None, not held
    return None if held is None else str(held.originalSQL()), has_method(spec, "dropDefault") and bool(spec.dropDefault())


def saved_name(nodes: Nodes, plan: JavaObject) -> list[str]:
    """The parts of the name that `saveAsTable` was given, with its schema and without the mark of saved.java.

    It names a table, also where a temporary view has the name; Spark 4.0 hands it over as it was given.
    """
    catalog = nodes.spark._jsparkSession.sessionState().catalog()
    *schema, table = nodes.identifier(catalog.qualifyIdentifier(plan.tableDesc().identifier()))
    return [*schema, table.removesuffix(" saved by rowlock")]


def provider_of(nodes: Nodes, plan: JavaObject) -> str:
    """The format that a CREATE or REPLACE names, else the session's own."""
    said = plan.tableSpec()
    if said.serde().isDefined():
        return "hive"
    return str(nodes.option(said.provider()) or nodes.spark.conf.get("spark.sql.sources.default", "parquet"))


def spec_of(nodes: Nodes, plan: JavaObject) -> Spec:
    """What a CreateTable, CreateTableAsSelect, ReplaceTable or ReplaceTableAsSelect says.  OPTIONS become properties, as delta-spark has it."""
    said = plan.tableSpec()
    missing: list[str] = []
    has_query = class_name(plan).endswith("AsSelect")
    options = _options(nodes, said)
    location = next((options.pop(k) for k in list(options) if k.lower() == "path"), nodes.option(said.location()))  # of spark.catalog.createTable(path=...)
    partitions: list[str] = []
    clusters: list[ColumnPath] = []
    for transform in nodes.items(plan.partitioning()):
        paths = [tuple(str(p) for p in reference.fieldNames()) for reference in transform.references()]
        if class_name(transform) == "IdentityTransform":
            partitions += [".".join(p) for p in paths]
        elif class_name(transform) == "ClusterByTransform":
            clusters += paths
        else:
            missing.append(f"PARTITIONED BY {transform.describe()}")
    for what, present in (
        ("ROW FORMAT or STORED AS", said.serde().isDefined()),
        ("DEFAULT COLLATION", has_method(said, "collation") and said.collation().isDefined()),
        ("a constraint (use ALTER TABLE ... ADD CONSTRAINT)", has_method(said, "constraints") and said.constraints().size() > 0),
        ("OPTIONS", has_query and bool(options)),
        ("EXTERNAL, but no LOCATION", bool(said.external()) and location is None),
    ):
        if present:
            missing.append(what)
    return Spec(
        provider=provider_of(nodes, plan),
        location=location,
        comment=nodes.option(said.comment()),
        columns=[] if has_query else [_column(nodes, c, partitions) for c in nodes.items(plan.columns())],
        partitions=partitions,
        clusters=clusters,
        properties={k: str(v) for k, v in nodes.mapping(said.properties()).items()} | options | {f"option.{k}": v for k, v in options.items()},
        missing=missing[0] if missing else None,
    )


def _options(nodes: Nodes, said: JavaObject) -> dict[str, str]:
    """The values of OPTIONS as texts; those that are no literals as they were written."""
    if not has_method(said, "optionExpression"):
        return {}
    return {str(pair._1()): str(pair._2().toString()) for pair in nodes.items(said.optionExpression().options())}


def _column(nodes: Nodes, c: Any, partitions: Sequence[str]) -> NewColumn:
    default = str(c.defaultValue().get().originalSQL()) if c.defaultValue().isDefined() else None
    said = nodes.option(c.identityColumnSpec()) if has_method(c, "identityColumnSpec") else None
    identity = None if said is None else (int(said.getStart()), int(said.getStep()), bool(said.isAllowExplicitInsert()))
    marked = c.metadata().contains(KEY) if has_method(c, "metadata") else False  # of a stream's table: Spark says its columns by their types alone
    bound = bound_in(c.metadata().getString(KEY)) if marked else None
    plain = bound is None or (bound.kind == "char" and str(c.name()) in partitions)  # as a new table of a DataFrame has it
    type_ = _parse_datatype_json_string(str(c.dataType().json()) if plain else f'"{bound}"')
    return NewColumn(str(c.name()), type_, bool(c.nullable()), nodes.option(c.comment()), nodes.option(c.generationExpression()), default, identity)
