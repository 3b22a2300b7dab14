"""Reads nodes of Spark's plans from Python: name parts, options, expressions as Columns, queries as DataFrames; which names are Delta tables, and which
temporary views show all of one; and what CREATE TABLE says of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, _parse_datatype_json_string

from rowlock.conditions import Condition, named
from rowlock.engines.spark.catalog import SESSION_CATALOG, Name, delta_tables, not_found
from rowlock.engines.spark.catalyst.analysis import DEFAULT
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, catalyst, class_name, entries
from rowlock.engines.spark.catalyst.types import Like, NewColumn, Spec, char_is_varchar, parse_type
from rowlock.engines.spark.sql.commands import HARMLESS, NOT_ANSWERED, kind_of, statement_name
from rowlock.exceptions import InvalidInput, NameNotFound, TableNotFound
from rowlock.protocol.char_varchar import KEY, as_varchar, bound_in
from rowlock.protocol.paths import FORMATS, path_of
from rowlock.protocol.schema import ColumnPath, dotted

_ON_TABLE = ("InsertIntoStatement", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "UpdateTable", "DeleteFromTable")
_NAMED = ("UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier", "UnresolvedNamespace")


_METHODS: dict[str, set[str]] = {}
"""The methods of a class of the JVM by its name: to ask for them takes a call for each."""


def has_method(node: JavaObject, method: str) -> bool:
    """Whether a JVM object has a method: what a statement can say differs between versions of Spark."""
    kind = node.getClass()
    if (name := str(kind.getName())) not in _METHODS:
        _METHODS[name] = {str(m.getName()) for m in kind.getMethods()}
    return method in _METHODS[name]


class Nodes:
    """The plan nodes of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.bridge = spark, catalyst(spark)
        self.items, self.option, self.column = self.bridge.list, self.bridge.option, self.bridge.column

    def mapping(self, held: JavaObject) -> dict[str, Any]:
        """A Scala Map with texts as keys."""
        return entries(self.bridge.converters.asJava(held))

    def redacted(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties as Spark shows them: masked where the session's patterns take the name for a secret's."""
        conf = self.spark._jsparkSession.sessionState().conf()
        return self.mapping(conf.redactOptions(self.bridge.jvm.PythonUtils.toScalaMap(self.bridge.hash_map(properties.items()))))

    def query(self, plan: JavaObject) -> JavaObject | None:
        """The query of a statement, which in some versions of Spark an Option holds."""
        held = plan.query()
        return self.option(held) if self.bridge.is_a(held, "scala.Option") else held

    def frame(self, plan: JavaObject) -> DataFrame:
        """A query's plan as a DataFrame of the session; Spark's analyzer resolves it now."""
        return self.bridge.dataframe(plan, self.spark)

    def rows(self, query: str) -> DataFrame:
        """The rows of a query's text."""
        return self.spark.sql(query)

    # ---- names -----------------------------------------------------------------------------

    def parts(self, node: JavaObject) -> list[str] | None:
        """The parts of the name that a node stands for, below aliases; None where it is no name."""
        node, _ = self.without_alias(node)
        kind = class_name(node)
        if kind == "DataSourceV2Relation":
            return self._listed(node)
        if kind not in _NAMED:
            return None
        return [str(p) for p in self.items(node.nameParts() if kind == "UnresolvedIdentifier" else node.multipartIdentifier())]

    def _listed(self, relation: JavaObject) -> list[str] | None:
        """The name of a table that was looked up in the session's catalog already, as `saveAsTable` does beside delta-spark's catalog; None in another catalog."""
        catalog, identifier = self.option(relation.catalog()), self.option(relation.identifier())
        if catalog is None or identifier is None or str(catalog.name()) != SESSION_CATALOG:
            return None
        return [*(str(n) for n in identifier.namespace()), str(identifier.name())]

    def identifier(self, held: JavaObject) -> list[str]:
        """The parts of a TableIdentifier."""
        found = [self.option(part) for part in (held.catalog(), held.database())]
        return [*(str(part) for part in found if part is not None), str(held.table())]

    def without_alias(self, node: JavaObject) -> tuple[JavaObject, str | None]:
        """The node below aliases, and the outermost alias."""
        alias = None
        while class_name(node) == "SubqueryAlias":
            alias, node = alias or str(node.identifier().name()), node.child()
        return node, alias

    def folder(self, parts: Sequence[str] | None) -> str | None:
        """The folder of the Delta table with this name as a statement finds it (a temporary view hides a table); None where it is something else."""
        if parts is None:
            return None
        if (path := path_of(parts)) is not None:
            return path
        try:
            return Name(self.spark, dotted(parts)).folder()
        except (NameNotFound, InvalidInput, PySparkException):
            return None

    def not_found(self, parts: Sequence[str], operation: str) -> TableNotFound:
        """The error of a statement of Delta's own on a name that is no Delta table: that of a view, of another table, or of nothing."""
        operation = {"HISTORY": "DESCRIBE HISTORY", "DETAIL": "DESCRIBE DETAIL"}.get(operation, operation)
        name = dotted(parts)
        if self.is_view(parts):
            condition = named("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", viewName=name, operation=operation)
            condition = named("DELTA_CLONE_UNSUPPORTED_SOURCE", name=name, format="View") if operation == "CLONE" else condition
            condition = named("DELTA_ONLY_OPERATION", operation=operation) if operation == "RESTORE" else condition
        elif operation != "RESTORE" and self.spark.catalog.tableExists(name):
            condition = named("DELTA_ONLY_OPERATION", operation=operation)
        else:
            condition = not_found(name, self.spark.catalog.currentDatabase())
        return NameNotFound(f"{'.'.join(parts)} is no Delta table: {operation} works on these only; correct the name or use delta.`path`", condition=condition)

    def is_view(self, parts: Sequence[str] | None) -> bool:
        """Whether a name is that of a view, a temporary one too."""
        if parts is None or path_of(parts) is not None:
            return False
        catalog = self.spark._jsparkSession.sessionState().catalog()
        if len(parts) <= 2 and catalog.isTempView(self.bridge.seq(parts)):
            return True
        try:
            entry = Name(self.spark, dotted(parts)).entry()
        except (InvalidInput, PySparkException):
            return False
        return entry is not None and entry.kind == "a view"

    # ---- which statement it is, and on what -------------------------------------------------

    class_name, has_method = staticmethod(class_name), staticmethod(has_method)

    def kind(self, plan: JavaObject) -> str:
        """The class of a statement's plan, as the newest version of Spark calls it."""
        return kind_of(str(plan.getClass().getName()))

    def statement_name(self, plan: JavaObject) -> str:
        """What a statement is called in SQL or in PySpark."""
        return statement_name(str(plan.getClass().getName()))

    def is_harmless(self, plan: JavaObject, *, on_delta: bool) -> bool:
        """Whether a command changes no table; `on_delta`: and what it answers of a Delta table is right."""
        name = str(plan.getClass().getName())
        return name in HARMLESS and not (on_delta and name in NOT_ANSWERED)

    def is_command(self, plan: JavaObject) -> bool:
        """Whether a plan is a statement and no query."""
        return self.bridge.is_a(plan, "org.apache.spark.sql.catalyst.plans.logical.Command") or class_name(plan) in ("InsertIntoStatement", "InsertIntoDir")

    def has_commands(self, plan: JavaObject) -> bool:
        """Whether statements lie within a plan."""
        return any(self.is_command(c) or self.has_commands(c) for c in self.items(plan.children()))

    def targets(self, plan: JavaObject, *, makes: bool) -> list[tuple[list[str], str | None]]:
        """The names (their parts, and an alias) of what a command changes, never those in its query; `makes`: it makes a table."""
        kind = self.kind(plan)
        if kind == "SaveAsV1TableCommand":
            return [(self.saved_name(plan), None)] if self.query(plan) is not None else []
        if kind == "CreateTableLike":
            name = self.like_of(plan).name
            return [] if name is None else [(name, None)]
        if kind == "MergeIntoTable":
            found = [plan.targetTable()]
        elif kind == "AddCheckConstraint":
            found = [plan.child().child()]
        elif makes:
            found = [plan.name()]
        elif kind in _ON_TABLE:
            found = [plan.table()]
        else:
            found = [c for c in self.items(plan.children()) if class_name(c) in ("UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier")]
        return [(parts, self.without_alias(node)[1]) for node in found if (parts := self.parts(node)) is not None]

    def format_of(self, plan: JavaObject) -> str:
        """The format of the table that a statement makes, in small letters, as far as it or the session says one."""
        kind = self.kind(plan)
        if kind == "CreateTableLike":
            found = self.option(plan.provider())
        else:
            found = self.option(plan.tableDesc().provider()) if kind == "SaveAsV1TableCommand" else self.provider_of(plan)
        return str(found or "").lower()

    def makes_delta(self, plan: JavaObject) -> bool:
        """Whether a statement that makes a table makes a Delta table, or one like a Delta table."""
        return self.format_of(plan) in FORMATS or (self.kind(plan) == "CreateTableLike" and self.folder(self.like_of(plan).source) is not None)

    def dropped_schema(self, plan: JavaObject) -> str | None:
        """The schema that DROP SCHEMA ... CASCADE is on; None where it holds no Delta table, or Spark will not drop it."""
        parts = self.parts(plan.namespace())
        if parts is None or not plan.cascade() or parts[-1].lower() == "default":
            return None
        catalog = parts[0] if len(parts) > 1 else self.spark.catalog.currentCatalog()
        if len(parts) > 2 or catalog.lower() != SESSION_CATALOG or not self.spark._jsparkSession.sessionState().catalog().databaseExists(parts[-1]):
            return None
        return parts[-1] if delta_tables(self.spark, parts[-1]) else None

    def default(self, expression: JavaObject) -> str | None:
        """The word DEFAULT where an expression is that, which may be a column's name, too."""
        is_word = class_name(expression) == "UnresolvedAttribute" and [str(p).upper() for p in expression.nameParts().mkString("\n").split("\n")] == [DEFAULT]
        return DEFAULT if is_word else None

    def is_true(self, expression: JavaObject) -> bool:
        """Whether an expression is the word TRUE; a text or a column's name is not, which may read the same."""
        return class_name(expression) == "Literal" and str(expression.sql()) == "true"

    # ---- what statements say ------------------------------------------------------------------

    def like_of(self, plan: JavaObject) -> Like:
        """What a CREATE TABLE ... LIKE says, whichever class this Spark has for it."""
        provider, place = self.option(plan.provider()), None
        if class_name(plan) == "CreateTableLike":
            name, source, serde, location = self.parts(plan.name()), self.parts(plan.source()), plan.serdeInfo(), self.option(plan.location())
        else:
            name, source, serde = self.identifier(plan.targetTable()), self.identifier(plan.sourceTable()), plan.fileFormat().serde()
            place = self.option(plan.fileFormat().locationUri())
            location = None if place is None else str(self.bridge.hadoop_path(place).toString())
        if provider is None and serde.isDefined():
            provider = "hive"
        return Like(name, source, provider, location, bool(plan.ifNotExists()), {k: str(v) for k, v in self.mapping(plan.properties()).items()})

    def new_default(self, spec: JavaObject) -> tuple[str | None, bool]:
        """The default that an ALTER COLUMN gives, and whether it takes the default away; before Spark 4.1 an empty text of a default means that."""
        held = self.option(spec.newDefaultExpression())
        if isinstance(held, str):
            return held or None, not held
        return None if held is None else str(held.originalSQL()), has_method(spec, "dropDefault") and bool(spec.dropDefault())

    def saved_name(self, plan: JavaObject) -> list[str]:
        """The parts of the name that `saveAsTable` was given, with its schema and without the mark of saved.java.

        It names a table, also where a temporary view has the name; Spark 4.0 hands it over as it was given.
        """
        catalog = self.spark._jsparkSession.sessionState().catalog()
        *schema, table = self.identifier(catalog.qualifyIdentifier(plan.tableDesc().identifier()))
        schema = schema[-1:] if path_of((schema[-1], table)) else schema
        return [*schema, table.removesuffix(" saved by rowlock")]

    def provider_of(self, plan: JavaObject) -> str:
        """The format that a CREATE or REPLACE names, else the session's own."""
        given = plan.tableSpec()
        if given.serde().isDefined():
            return "hive"
        return str(self.option(given.provider()) or self.spark.conf.get("spark.sql.sources.default", "parquet"))

    def type_of(self, said: JavaObject) -> DataType:
        """A type of a statement.  Its SQL would not do: what TIMESTAMP is, spark.sql.timestampType says.  The JSON of Spark 4.0 lacks collations."""
        if " COLLATE " in (text := str(said.sql())).upper():
            return parse_type(text)
        held = str(said.json())
        return _parse_datatype_json_string(as_varchar(held) if char_is_varchar(self.spark) else held)

    def type_sql(self, column: StructField) -> str:
        """The type of a table's column as CREATE TABLE says it, its bound in it."""
        if KEY not in column.metadata:
            return str(self.bridge.data_type.fromJson(column.dataType.json()).sql())
        bound = bound_in(column.metadata[KEY])
        return str(column.metadata[KEY]) if bound is None else str(bound).upper()

    def spec_of(self, plan: JavaObject) -> Spec:
        """What a CreateTable, CreateTableAsSelect, ReplaceTable or ReplaceTableAsSelect says.  OPTIONS become properties (in REPLACE those of Delta), and with a query options of its write, as delta-spark has it."""
        given = plan.tableSpec()
        missing: list[str] = []
        has_query = class_name(plan).endswith("AsSelect")
        options = _options(self, given)
        location = next((options.pop(k) for k in list(options) if k.lower() == "path"), self.option(given.location()))  # of spark.catalog.createTable(path=...)
        said = {} if has_query else options | {f"option.{k}": v for k, v in options.items()}
        partitions: list[str] = []
        clusters: list[ColumnPath] = []
        for transform in self.items(plan.partitioning()):
            paths = [tuple(str(p) for p in reference.fieldNames()) for reference in transform.references()]
            if class_name(transform) == "IdentityTransform":
                partitions += [".".join(p) for p in paths]
            elif class_name(transform) == "ClusterByTransform":
                clusters += paths
            else:
                missing.append(f"PARTITIONED BY {transform}")
        for what, present in (
            ("ROW FORMAT or STORED AS", given.serde().isDefined()),
            ("DEFAULT COLLATION", has_method(given, "collation") and given.collation().isDefined()),
            ("a constraint (use ALTER TABLE ... ADD CONSTRAINT)", has_method(given, "constraints") and given.constraints().size() > 0),
            ("EXTERNAL, but no LOCATION", bool(given.external()) and location is None),
        ):
            if present:
                missing.append(what)
        return Spec(
            provider=self.provider_of(plan),
            location=location,
            comment=self.option(given.comment()),
            columns=[] if has_query else [_column(self, c) for c in self.items(plan.columns())],
            partitions=partitions,
            clusters=clusters,
            properties={k: str(v) for k, v in self.mapping(given.properties()).items()}
            | {k: v for k, v in said.items() if class_name(plan) == "CreateTable" or k.lower().startswith("delta.")},
            options=options if has_query else {},
            missing=missing[0] if missing else None,
        )

    def folder_behind(self, parts: Sequence[str]) -> tuple[str, list[str]] | None:
        """The folder of the Delta table that a temporary view shows whole, and the view's columns; None for any other view."""
        view = _temporary_view(self, parts) if len(parts) <= 2 else None
        folder = None if view is None else _folder_of_view(self, view, _DEPTH)
        return None if folder is None else (folder, _columns(self, view))

    def is_source(self, parts: Sequence[str]) -> bool:
        """Whether a name is that of a temporary view of a Delta table's scan alone: one that CREATE VIEW ... USING delta made, or that of a reader's DataFrame."""
        view = _temporary_view(self, parts) if len(parts) <= 2 else None
        plan = None if view is None else self.option(view.plan())
        below = None if plan is None else self.without_alias(plan)[0]
        return below is not None and class_name(below) == "LogicalRelation" and _scan(below) is not None

    @staticmethod
    def marked(frame: DataFrame, path: str) -> DataFrame:
        """The DataFrame, with a mark in its plan that it is the whole table at `path`, by which a view of it is known."""
        analyzed(frame).setTagValue(catalyst(frame.sparkSession).mark(_TAG), path)
        return frame

    def not_whole(self, parts: Sequence[str], statement: str) -> Condition:
        """delta-spark's condition for a statement on a view that is no whole table."""
        plan, name = analyzed(self.spark.table(dotted(parts))), dotted(parts)
        while class_name(plan) in ("SubqueryAlias", "Project") or (class_name(plan) == "View" and plan.isTempView()):
            plan = plan.child()
        if class_name(plan) == "LogicalRelation":
            return named("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS") if statement == "MERGE" else named("DELTA_CANNOT_RESOLVE_COLUMN", columnName=name, schema="")
        if class_name(plan) == "Filter":
            return named("DELTA_UNEXPECTED_PARTIAL_SCAN", path=name)
        return named("DELTA_UNSUPPORTED_SOURCE", operation=statement, plan="")


_TAG = "rowlock.table"
_DEPTH = 20
"""Views in views that are looked through; Spark itself stops at a hundred."""


def _temporary_view(nodes: Nodes, parts: Sequence[str]) -> JavaObject | None:
    return nodes.option(nodes.spark._jsparkSession.sessionState().catalog().getRawLocalOrGlobalTempView(nodes.bridge.seq(parts)))


def _columns(nodes: Nodes, view: JavaObject) -> list[str]:
    return [str(name) for name in nodes.items(nodes.bridge.seq(view.tableMeta().schema().fieldNames()))]


def _folder_of_view(nodes: Nodes, view: JavaObject, depth: int) -> str | None:
    plan = nodes.option(view.plan())
    if plan is not None:
        return _folder_of_plan(nodes, plan)
    meta = view.tableMeta()
    text, given = nodes.option(meta.viewText()), [str(n).lower() for n in nodes.items(meta.viewQueryColumnNames())]
    if text is None or given != [name.lower() for name in _columns(nodes, view)]:
        return None  # the view gives the query's columns other names: a name of the one may be that of another of the table
    return _folder_of_query(nodes, nodes.spark._jsparkSession.sessionState().sqlParser().parsePlan(str(text)), meta, depth)


def _folder_of_plan(nodes: Nodes, plan: JavaObject) -> str | None:
    """The folder of the table that an analyzed plan shows whole, under names only."""
    tag = nodes.bridge.mark(_TAG)
    while (found := nodes.option(plan.getTagValue(tag))) is None:
        if class_name(plan) == "LogicalRelation":
            return _scanned(plan)
        passed = class_name(plan) in ("SubqueryAlias", "Project") or (class_name(plan) == "View" and plan.isTempView())
        if not passed or not all(map(_keeps_name, nodes.items(plan.expressions()))):
            return None
        plan = plan.child()
    return str(found)


def _keeps_name(column: JavaObject) -> bool:
    """Whether a column of an analyzed plan is one of the plan below, under its name; a view has casts, also to the same type."""
    below = column.child() if class_name(column) == "Alias" else column
    below = below.child() if class_name(below) == "Cast" and below.dataType().equals(below.child().dataType()) else below
    return class_name(below) == "AttributeReference" and bool(below.name() == column.name())


def _scanned(relation: JavaObject) -> str | None:
    """The folder of the table that a scan reads at its newest version."""
    files = _scan(relation)
    return None if files is None or files.version() is not None else str(files.table())


def _scan(relation: JavaObject) -> JavaObject | None:
    """What lists the files of a Delta table's scan; None where the relation is another."""
    files = relation.relation().location() if class_name(relation.relation()) == "HadoopFsRelation" else None
    return None if files is None or str(files.getClass().getName()) != "rowlock.Scan" else files


def _folder_of_query(nodes: Nodes, plan: JavaObject, meta: JavaObject, depth: int) -> str | None:
    """The folder of the table that the query of a view, such as `SELECT * FROM table`, shows whole.

    `meta` says where the view looks names up: in temporary views only those that it referred to when it was made, since a later one does not change it.
    """
    while class_name(plan) in ("SubqueryAlias", "Project"):
        if class_name(plan) == "Project" and not all(_is_plain(nodes, c) for c in nodes.items(plan.projectList())):
            return None
        plan = plan.child()
    if class_name(plan) != "UnresolvedRelation" or not plan.options().isEmpty() or plan.isStreaming():
        return None
    parts, schema = nodes.parts(plan) or [], [str(p) for p in nodes.items(meta.viewCatalogAndNamespace())]
    referred = [[str(p).lower() for p in nodes.items(name)] for name in nodes.items(meta.viewReferredTempViewNames())]
    if [p.lower() for p in parts] in referred:
        view = _temporary_view(nodes, parts)
        return _folder_of_view(nodes, view, depth - 1) if depth and view is not None else None
    return nodes.folder([*schema, *parts] if schema and len(parts) == 1 else parts)


def _is_plain(nodes: Nodes, column: JavaObject) -> bool:
    """Whether a column of a query is `*`, or one of the table's columns under its own name."""
    kind = class_name(column)
    if kind == "UnresolvedStar":
        return not column.target().isDefined()
    return kind == "UnresolvedAttribute" and int(column.nameParts().size()) == 1


def _options(nodes: Nodes, given: JavaObject) -> dict[str, str]:
    """The values of OPTIONS as texts; those that are no literals as they were written."""
    if not has_method(given, "optionExpression"):
        return {}
    return {str(pair._1()): str(pair._2().toString()) for pair in nodes.items(given.optionExpression().options())}


def _column(nodes: Nodes, c: Any) -> NewColumn:
    default = nodes.option(c.defaultValue())
    numbers = nodes.option(c.identityColumnSpec()) if has_method(c, "identityColumnSpec") else None
    identity = None if numbers is None else (int(numbers.getStart()), int(numbers.getStep()), bool(numbers.isAllowExplicitInsert()))
    text = str(c.metadata().getString(KEY)) if has_method(c, "metadata") and c.metadata().contains(KEY) else ""  # a stream's table has bounds there alone
    type_ = parse_type(as_varchar(text) if char_is_varchar(nodes.spark) else text) if text else nodes.type_of(c.dataType())
    computed = nodes.option(c.generationExpression())
    written, generated = (v if v is None or isinstance(v, str) else str(v.originalSQL()) for v in (default, computed))  # before Spark 4.3 the latter is a text
    return NewColumn(str(c.name()), type_, bool(c.nullable()), nodes.option(c.comment()), generated, written, identity)
