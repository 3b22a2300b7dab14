"""Reads nodes of Spark's plans from Python: name parts, options, expressions as Columns, queries as DataFrames; and which names are Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalog.names import SESSION_CATALOG, Name, not_found
from rowlock.engines.spark.catalyst.bridge import JavaObject, catalyst, class_name
from rowlock.exceptions import InvalidInput, NameNotFound, TableNotFound
from rowlock.protocol.schema import dotted

FORMATS = ("delta", "rowlock")
"""Format names, and the first parts of names such as delta.`/path`, that stand for a Delta table."""
_NAMED = ("UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier", "UnresolvedNamespace")


class Nodes:
    """The plan nodes of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.bridge = spark, catalyst(spark)

    def items(self, seq: JavaObject) -> list[Any]:
        """A Scala Seq as a list."""
        return self.bridge.list(seq)

    def option(self, held: JavaObject) -> Any:
        """What a Scala Option holds; None where it is empty."""
        return held.get() if held.isDefined() else None

    def mapping(self, held: JavaObject) -> dict[str, Any]:
        """A Scala Map with texts as keys."""
        found = self.bridge.converters.asJava(held)
        return {str(k): found[k] for k in found}

    def redacted(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties as Spark shows them: masked where the session's patterns take the name for a secret's."""
        held = self.bridge.jvm.java.util.HashMap()
        for name, value in properties.items():
            held.put(name, value)
        conf = self.spark._jsparkSession.sessionState().conf()
        return self.mapping(conf.redactOptions(self.bridge.jvm.PythonUtils.toScalaMap(held)))

    def column(self, expression: JavaObject) -> Column:
        """An expression, resolved or not, as a Column."""
        return self.bridge.column(expression)

    def optional_column(self, held: JavaObject) -> Column | None:
        """The expression that an Option holds, as a Column."""
        found = self.option(held)
        return None if found is None else self.column(found)

    def query(self, plan: JavaObject) -> JavaObject | None:
        """The query of a statement, which in some versions of Spark an Option holds."""
        held = plan.query()
        return self.option(held) if self.bridge.is_a(held, "scala.Option") else held

    def frame(self, plan: JavaObject) -> DataFrame:
        """A query's plan as a DataFrame of the session; Spark's analyzer resolves it now."""
        return self.bridge.dataframe(plan, self.spark)

    def jvm_type(self, columns: StructType) -> JavaObject:
        """A type of pyspark's as the JVM's."""
        return self.bridge.data_type.fromJson(columns.json())

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
        elif self.spark.catalog.tableExists(name):
            condition = named("DELTA_TABLE_ONLY_OPERATION", tableName=name, operation=operation)
        else:
            condition = not_found(name, self.spark.catalog.currentDatabase())
        return NameNotFound(f"{'.'.join(parts)} is no Delta table: {operation} works on these only", condition=condition)

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


def has_method(node: JavaObject, method: str) -> bool:
    """Whether a JVM object has a method: what a statement can say differs between versions of Spark."""
    return any(str(m.getName()) == method for m in node.getClass().getMethods())


def path_of(parts: Sequence[str]) -> str | None:
    """The path in a name such as delta.`/path`."""
    return parts[1] if len(parts) == 2 and parts[0].lower() in FORMATS else None
