"""The whitelist: refuses every command of Spark that may change or delete a Delta table without Rowlock (I9).

It sees a command when all of its names are resolved, and looks at each table, path and folder that the command holds.  What
passes names no Delta table and writes no folder on, in or above one.  Direct calls of a file system do not come here.
It reads folders, never a log.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rowlock.conditions import named
from rowlock.engines.spark.catalog import SESSION_CATALOG, delta_tables
from rowlock.engines.spark.catalyst.bridge import JavaObject, catalyst, class_name
from rowlock.engines.spark.sql.commands import CHECKED, HARMLESS, statement_name
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import refuse
from rowlock.protocol.names import LOG_DIRECTORY
from rowlock.protocol.paths import FORMATS, decode, path_of
from rowlock.protocol.schema import dotted

SINK_LOG = "_spark_metadata"
"""The folder that Spark makes below the one that a stream is to write files into, before anything of the stream is looked at."""


def delete_empty(spark: SparkSession, place: str, name: str) -> None:
    """Deletes the folder `name` in `place` where there is one and nothing is in it."""
    path = catalyst(spark).hadoop_path
    made = path(path(place), name)
    files = made.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if files.exists(made) and not files.listStatus(made):
        files.delete(made, False)


def table_at(spark: SparkSession, place: str, *, below: bool, spared: Collection[str] = ()) -> str | None:
    """The Delta table that contains `place`, with `below` also one inside it; None where there is none.

    `below` walks through all folders in `place`: for commands that delete what is there.  Links are followed for `place` itself.
    `spared`: local folders of tables that may lie there.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    given = catalyst(spark).hadoop_path(place)
    files = given.getFileSystem(hadoop)
    full = given.makeQualified(files.getUri(), files.getWorkingDirectory())
    uri = full.toUri()
    if str(uri.getScheme()) == "file":
        return _local(decode(str(uri.getRawPath())), below=below, spared={os.path.realpath(s) for s in spared})
    return _remote(spark, files, full, below=below)


def _local(place: str, *, below: bool, spared: Collection[str]) -> str | None:
    real = Path(os.path.realpath(place))
    for folder in (real, *real.parents):
        if (folder / LOG_DIRECTORY).is_dir():
            return str(folder)
    if below:
        for folder_below, names, _ in os.walk(real):
            if LOG_DIRECTORY in names and folder_below not in spared:
                return folder_below
    return None


def _remote(spark: SparkSession, files: Any, place: Any, *, below: bool) -> str | None:
    path = catalyst(spark).hadoop_path
    folder = place
    while folder is not None:
        if files.exists(path(folder, LOG_DIRECTORY)):
            return str(folder.toString())
        folder = folder.getParent()
    waiting = [place] if below and files.exists(place) else []
    while waiting:
        inside = [s.getPath() for s in files.listStatus(waiting.pop()) if s.isDirectory()]
        if found := next((p for p in inside if str(p.getName()) == LOG_DIRECTORY), None):
            return str(found.getParent().toString())
        waiting += inside
    return None


_OURS = ("rowlock.DefaultSource", "rowlock.Delta", "rowlock.Relation")
_OF_DELTA_SPARK = ("org.apache.spark.sql.delta.", "io.delta.")
_SINK_OF_DELTA_SPARK = "org.apache.spark.sql.delta.sources.DeltaSink"
_PATH_FIELDS = frozenset(("path", "location", "outputPath", "newLocation"))
_QUERY_FIELDS = frozenset(("query", "analyzedQuery", "inputQuery", "plan"))
_DEEPEST = 6
_STREAMS = ("WriteToStream", "WriteToStreamStatement")


@dataclass(frozen=True, slots=True)
class Found:
    """A table or a folder that a command names.  `text` is how it is called; `delta` whether it is a Delta table by its entry or its relation."""

    text: str
    folder: str | None = None
    delta: bool = False


def check(spark: SparkSession, command: JavaObject) -> None:
    """Raises where a command that Spark is about to run may change a Delta table that is Rowlock's."""
    if Session(spark).serves_delta:
        Guard(spark).check(command)


class Guard:
    """Judges the commands of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.nodes = spark, Nodes(spark)
        self._catalog: Any = spark._jsparkSession.sessionState().catalog()

    def check(self, command: JavaObject) -> None:
        """Raises UnsupportedFeature for a command that may change a Delta table, or that no list has."""
        name = str(command.getClass().getName())
        if name in HARMLESS:
            return
        statement = statement_name(name)
        if name.startswith(_OF_DELTA_SPARK):
            why = "it is delta-spark's own, and spark.rowlock.delta gives Delta tables to Rowlock"
            refuse(statement, None, why, "Use rowlock.DeltaTable, or the statement in SQL")
        if name not in CHECKED:
            refuse(statement, None, f"Rowlock does not know what the command {name} does to tables", "Run it on a session without Rowlock")
        short = class_name(command)
        if short == "SaveIntoDataSourceCommand" and str(command.dataSource().getClass().getName()) in _OURS:
            return  # Rowlock itself writes this one
        if short in _STREAMS and str(command.sink().getClass().getName()) == "rowlock.StreamSink":
            return  # and the batches of this one
        if short in _STREAMS and str(command.sink().getClass().getName()) == _SINK_OF_DELTA_SPARK:
            refuse("a stream into a Delta table by delta-spark", None, "its commits would not be Rowlock's", 'Use format("rowlock"), or rowlock.streaming.sink')
        if short in ("DropDatabaseCommand", "DropNamespace"):
            self._check_database(command, statement)
            return
        if short == "DropTableCommand" and command.isView():
            return  # DROP VIEW: Spark refuses it for a table
        if short == "InsertIntoDataSourceDirCommand" and _is_delta(command.provider()):
            why = "a Delta table is more than the files of a folder"
            refuse(statement, None, why, _INSTEAD, named("DELTA_OPERATION_NOT_ALLOWED", operation=statement))
        keeps = short == "InsertIntoHadoopFsRelationCommand" and str(command.mode().name()) == "Append"
        for found in self._found(command):
            if found.delta:
                refuse(statement, found.folder or found.text, f"{found.text} is a Delta table, which this statement would change without Rowlock", _INSTEAD)
            if found.folder is not None:
                self._check_folder(found.folder, statement, below=not keeps)

    def _check_folder(self, folder: str, statement: str, *, below: bool, spared: Collection[str] = ()) -> None:
        table = table_at(self.spark, folder, below=below, spared=spared)
        if table is not None:
            delete_empty(self.spark, folder, SINK_LOG)
            refuse(statement, table, f"it would write or delete files in {folder}, where the Delta table {table} is", _INSTEAD)

    def _check_database(self, command: JavaObject, statement: str) -> None:
        """Raises where the folder of a schema, which is deleted with it, holds Delta tables.  A schema with tables in it Spark drops only with CASCADE."""
        if class_name(command) == "DropDatabaseCommand":
            database = str(command.databaseName())
        else:
            child = command.child()
            if class_name(child) != "ResolvedNamespace" or str(child.catalog().name()) != SESSION_CATALOG:
                return  # another catalog's schema
            database = str(self.nodes.items(child.namespace())[-1])
        if self._catalog.databaseExists(database) and (command.cascade() or not delta_tables(self.nodes.spark, database)):
            self.check_schema(database, statement)

    def check_schema(self, database: str, statement: str) -> None:
        """Raises where the folder of a schema holds a Delta table that is not one of the schema's own managed tables."""
        own = [entry.folder for _, entry in delta_tables(self.nodes.spark, database) if entry.folder is not None and entry.kind == "managed"]
        self._check_folder(self._place(self._catalog.getDatabaseMetadata(database).locationUri()), statement, below=True, spared=own)

    # ---- what a command names --------------------------------------------------------------

    def _found(self, command: JavaObject) -> Iterator[Found]:
        """Each table and folder that is a field of a command, however deep; its queries are not looked into."""
        for n in range(command.productArity()):
            if (name := str(command.productElementName(n))) not in _QUERY_FIELDS:
                yield from self._in(command.productElement(n), name, 0)
        if class_name(command) in _STREAMS:
            yield from self._sink(command.sink())
        if class_name(command) == "CreateTableLikeCommand" or class_name(command).startswith("Create"):
            yield from self._default_folder(command)

    def _in(self, value: Any, name: str, depth: int) -> Iterator[Found]:
        if isinstance(value, str):
            if name in _PATH_FIELDS and value:
                yield Found(value, value)
            return
        if depth > _DEEPEST or not hasattr(value, "getClass"):
            return
        kind, inside = class_name(value), depth + 1
        if kind == "TableIdentifier":
            yield from self._named(value)
        elif kind == "CatalogTable":
            yield from self._entry(value)
        elif kind == "CatalogStorageFormat":
            yield from self._in(value.locationUri(), "location", inside)
        elif kind in ("Path", "URI", "CachingPath"):
            place = self._place(value)
            yield Found(place, place)
        elif kind in ("UnresolvedTableSpec", "TableSpec"):
            yield from self._in(value.location(), "location", inside)
            if _is_delta(self.nodes.option(value.provider())):
                yield Found("a table of format delta", delta=True)
        elif kind in _LEAVES:
            yield from self._leaf(value, kind, inside)
        elif self.nodes.bridge.is_a(value, "scala.Option"):
            if value.isDefined():
                yield from self._in(value.get(), name, inside)
        elif self.nodes.bridge.is_a(value, "scala.collection.Map"):
            for key, held in self.nodes.mapping(value).items():
                yield from self._in(held, key.lower(), inside)
        elif self.nodes.bridge.is_a(value, "scala.collection.Seq"):
            for held in self.nodes.items(value):
                yield from self._in(held, name, inside)
        elif kind == "Tuple2":  # a partition and its location
            yield from self._in(value._2(), "location", inside)

    def _leaf(self, node: JavaObject, kind: str, depth: int) -> Iterator[Found]:
        """What a resolved table, relation or name stands for."""
        if kind == "SubqueryAlias":
            yield from self._in(node.child(), "", depth)
        elif kind == "HiveTableRelation":
            yield from self._entry(node.tableMeta())
        elif kind == "LogicalRelation":
            relation = node.relation()
            if str(relation.getClass().getName()) in _OURS:
                yield Found(str(relation.options().toString()), delta=True)
            if self.nodes.bridge.is_a(relation, "org.apache.spark.sql.execution.datasources.HadoopFsRelation"):
                for place in self.nodes.items(relation.location().rootPaths()):
                    yield from self._in(place, "", depth)
            yield from self._in(node.catalogTable(), "", depth)
        elif kind in ("UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier"):
            parts = self.nodes.parts(node)
            if (folder := self.nodes.folder(parts)) is not None:
                yield Found(".".join(parts or ()), folder, delta=True)
        else:
            yield from self._of_catalog(node, kind, depth)

    def _of_catalog(self, node: JavaObject, kind: str, depth: int) -> Iterator[Found]:
        """A table or a name that is resolved in a catalog: in the session's by its entry, in another by what it says of itself."""
        if kind == "DataSourceV2Relation":
            option = node.options().get("path")
            if option is not None:
                yield Found(str(option), str(option))
            catalog, identifier, table = self.nodes.option(node.catalog()), self.nodes.option(node.identifier()), node.table()
        else:
            catalog, identifier, table = node.catalog(), node.identifier(), node.table() if kind == "ResolvedTable" else None
        if table is not None:
            if class_name(table) == "V1Table":
                yield from self._entry(table.v1Table())
            elif _is_delta(table.properties().get("provider")):
                yield Found(str(table.name()), delta=True)
        if catalog is not None and identifier is not None and str(catalog.name()) == SESSION_CATALOG:
            parts = [*identifier.namespace(), identifier.name()]
            if len(parts) == 2:
                if (path := path_of([str(p) for p in parts])) is not None:
                    yield Found(path, path, delta=True)
                yield from self._by_name(str(parts[1]), str(parts[0]))

    def _named(self, identifier: JavaObject) -> Iterator[Found]:
        """The table that a TableIdentifier names; one such as delta.`/path` names a folder."""
        database = self.nodes.option(identifier.database())
        table = str(identifier.table())
        if database is not None and path_of((str(database), table)) is not None:
            yield Found(table, table, delta=True)
            return
        if database is None and self._catalog.isTempView(identifier):
            return
        yield from self._by_name(table, None if database is None else str(database))

    def _by_name(self, table: str, database: str | None) -> Iterator[Found]:
        try:
            identifier = self.spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier(dotted((*([database] if database else []), table)))
            if self._catalog.tableExists(identifier):
                yield from self._entry(self._catalog.getTableMetadata(identifier))
        except PySparkException:  # an unknown schema: Spark says so itself
            return

    def _entry(self, entry: JavaObject) -> Iterator[Found]:
        """A table's entry, in the catalog or about to be."""
        text = str(entry.identifier().unquotedString())
        delta = _is_delta(self.nodes.option(entry.provider()))
        place = self.nodes.option(entry.storage().locationUri())
        folder = None if place is None else self._place(place)
        yield Found(text, folder, delta=delta)
        if not delta and str(entry.tableType().name()) != "VIEW":
            identifier = entry.identifier()
            if self._catalog.tableExists(identifier):
                there = self._catalog.getTableMetadata(identifier)
                place = self.nodes.option(there.storage().locationUri())
                yield Found(text, None if place is None else self._place(place), delta=_is_delta(self.nodes.option(there.provider())))

    def _place(self, place: JavaObject) -> str:
        """A path or a URI as the text of a path: a URI's own text escapes blanks and percent signs, and would name another folder."""
        return str(self.nodes.bridge.hadoop_path(place).toString()) if class_name(place) == "URI" else str(place.toString())

    def _default_folder(self, command: JavaObject) -> Iterator[Found]:
        """The folder that the catalog gives a table which is made without a location."""
        for name in ("table", "targetTable", "tableDesc"):
            if hasattr(command, name) and name in [str(command.productElementName(n)) for n in range(command.productArity())]:
                held = getattr(command, name)()
                identifier = held.identifier() if class_name(held) == "CatalogTable" else held
                place = self._place(self._catalog.defaultTablePath(identifier))
                yield Found(place, place)

    def _sink(self, sink: JavaObject) -> Iterator[Found]:
        """The folder of a stream that writes files."""
        text = str(sink.toString())
        if class_name(sink) == "FileStreamSink" and text.startswith("FileSink["):
            place = text.removeprefix("FileSink[").removesuffix("]")
            yield Found(place, place)


def _is_delta(provider: object) -> bool:
    """Whether a table's provider is that of Delta tables."""
    return provider is not None and str(provider).lower() in FORMATS


_LEAVES = frozenset({
    "SubqueryAlias", "HiveTableRelation", "LogicalRelation", "UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier",
    "DataSourceV2Relation", "ResolvedTable", "ResolvedIdentifier",
})  # fmt: skip
_INSTEAD = "Use the statements that docs/sql.md lists, the methods of rowlock.DeltaTable, or rowlock.write"
