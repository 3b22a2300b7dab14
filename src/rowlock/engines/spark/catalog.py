"""Names of tables in the session's catalog: finds the folder of a table by its name, and registers new tables.

A catalog entry says that the table is a Delta table, where it is, and whether the catalog owns its folder; everything else
is in the table's log.  Works on Spark's session catalog, whether or not delta-spark's catalog is configured over it.
Never writes into a table's folder; only `point_to`, `drop` and `rename` change an existing entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rowlock.conditions import Condition, named
from rowlock.engines.spark.catalyst.bridge import catalyst, entries
from rowlock.engines.spark.catalyst.types import delta_schema
from rowlock.exceptions import InvalidInput, NameNotFound, NameTaken
from rowlock.protocol import schema
from rowlock.protocol.paths import canonical, decode, join
from rowlock.protocol.schema import dotted

SESSION_CATALOG = "spark_catalog"
_NAME = re.compile(r"\s*(`([^`]|``)+`|\w+)(\s*\.\s*(`([^`]|``)+`|\w+)){0,2}\s*\Z")
_PLAIN = re.compile(r"\w+\Z", re.ASCII)


def folder_at_server(spark: SparkSession, name: str) -> str:
    """The folder of the Delta table with this name in the catalog of a Spark Connect session's server.  Raises NameNotFound, InvalidInput."""
    if not _NAME.match(name):
        raise InvalidInput(f"{name!r} is not the name of a table")
    try:
        row = spark.sql(f"DESCRIBE DETAIL {name}").first()
    except AnalysisException as error:
        raise NameNotFound(f"The server knows no Delta table {name}; DeltaTable.forPath opens a table by its path", condition=_missing(name)) from error
    assert row is not None
    return _path_of_uri(str(row["location"]))


@dataclass(frozen=True, slots=True)
class Entry:
    """The catalog's entry of a name.  `folder` is None where it is not a Delta table; `kind` says what it is then, else 'managed' or 'external'."""

    folder: str | None
    kind: str


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """What the catalog holds of a table of format parquet.  `partitions`: the folders of its partitions, None where they are those below its own."""

    folder: str
    managed: bool
    columns: StructType
    partition_columns: StructType
    properties: Mapping[str, str]
    comment: str | None
    partitions: frozenset[str] | None


class Name:
    """A table's name in the catalog of one session.  Classic sessions only; driver only, no job."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        """Raises Spark's ParseException for text that is not a name, InvalidInput for a name in another catalog."""
        self._bridge, self._spark = catalyst(spark), spark
        state = spark._jsparkSession.sessionState()
        self._catalog, parser = state.catalog(), state.sqlParser()
        parts = self._bridge.list(parser.parseMultipartIdentifier(text))
        here = parts.pop(0) if len(parts) == 3 else spark.catalog.currentCatalog() if parts else ""
        if here.lower() != SESSION_CATALOG or len(parts) > 2:
            raise InvalidInput(
                f"{text} is not a name in the session's catalog, {SESSION_CATALOG}; this version of Rowlock knows no other: use DeltaTable.forPath"
            )
        self.alone = len(parts) == 1
        self._text = text
        self.table = parts[-1]
        self.database = self._catalog.getCurrentDatabase() if self.alone else parts[0]
        self._identifier = parser.parseTableIdentifier(dotted((self.database, self.table)))

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The whole name: catalog, schema, table."""
        return SESSION_CATALOG, self.database, self.table

    @property
    def quoted(self) -> str:
        """The name with its schema, each in backquotes."""
        return dotted((self.database, self.table))

    def entry(self) -> Entry | None:
        """The catalog's entry of the name at this moment; None where it has none."""
        if not self._catalog.tableExists(self._identifier):
            return None
        held = self._catalog.getTableMetadata(self._identifier)
        provider = str(self._bridge.option(held.provider()) or "")
        kind = str(held.tableType().name())
        if kind == "VIEW":
            return Entry(None, "a view")
        if provider.lower() != "delta":
            return Entry(None, f"a table of format {provider or 'hive'}")
        return Entry(_path_of_uri(str(held.location().toString())), "managed" if kind == "MANAGED" else "external")

    def folder(self) -> str:
        """The folder of the Delta table with this name.  Raises NameNotFound."""
        if self.alone and self._catalog.isTempView(self._bridge.seq([self.table])):
            raise NameNotFound(f"{self.table} is a temporary view, not a Delta table", condition=_missing(self._text))
        entry = self.entry()
        if entry is None:
            raise NameNotFound(f"The table {self} cannot be found in the catalog; DeltaTable.forPath opens a table by its path", condition=_missing(self._text))
        if entry.folder is None:
            raise NameNotFound(f"{self} is {entry.kind}, not a Delta table", condition=_missing(self._text))
        return entry.folder

    @property
    def is_parquet(self) -> bool:
        """Whether the catalog holds a Parquet table under the name, and no temporary view hides it."""
        hidden = self.alone and self._catalog.isTempView(self._bridge.seq([self.table]))
        return not hidden and (entry := self.entry()) is not None and entry.kind.lower() == "a table of format parquet"

    def parquet(self) -> ParquetTable:
        """The Parquet table with this name.  Raises NameNotFound where there is no table, InvalidInput for one of another format."""
        entry = None if self.alone and self._catalog.isTempView(self._bridge.seq([self.table])) else self.entry()
        if entry is None:
            raise NameNotFound(f"The table {self} cannot be found in the catalog", condition=not_found(self.quoted, self.database))
        held = self._catalog.getTableMetadata(self._identifier)
        provider = str(self._bridge.option(held.provider()) or "")
        if provider.lower() != "parquet":
            text = f"CONVERT TO DELTA takes Parquet tables, and {self} is {entry.kind}: make a Delta table of its rows by CREATE TABLE ... AS SELECT"
            raise InvalidInput(text, condition=named("DELTA_CONVERT_NON_PARQUET_TABLE", sourceName=provider, tableId=self.quoted))
        listed = self._bridge.list(self._catalog.listPartitions(self._identifier, self._bridge.none)) if held.tracksPartitionsInCatalog() else None
        comment = self._bridge.option(held.comment())
        return ParquetTable(
            _path_of_uri(str(held.location().toString())),
            str(held.tableType().name()) == "MANAGED",
            StructType.fromJson(json.loads(str(held.schema().json()))),
            StructType.fromJson(json.loads(str(held.partitionSchema().json()))),
            {k: str(v) for k, v in entries(self._bridge.converters.asJava(held.properties())).items()},
            None if comment is None else str(comment),
            None if listed is None else frozenset(_path_of_uri(str(p.location().toString())).rstrip("/") for p in listed),
        )

    def default_folder(self) -> str:
        """The folder that the catalog gives a new table of this name.  Raises InvalidInput for a name that it would refuse, Spark's AnalysisException for an unknown schema."""
        self.check()
        return _path_of_uri(str(self._catalog.defaultTablePath(self._identifier).toString()))

    def others_of(self, folder: str) -> list[str]:
        """The other names in the catalog that stand for this folder.  Looks at every table of it."""
        found = []
        for database in self._bridge.list(self._catalog.listDatabases()):
            for identifier in self._bridge.list(self._catalog.listTables(database)):
                if self._catalog.isTempView(identifier):
                    continue
                held = self._catalog.getTableMetadata(identifier)
                place = self._bridge.option(held.storage().locationUri())
                if place is not None and _path_of_uri(str(place.toString())).rstrip("/") == folder.rstrip("/"):
                    found.append(str(identifier.unquotedString()))
        return found

    def check(self) -> None:
        """Raises what the catalog would raise for a new table of this name, before anything is written."""
        if not _PLAIN.match(self.table):
            raise InvalidInput(f"{self.table!r} is no name for a table: letters of ASCII, digits and _ may be in it")
        self._catalog.getDatabaseMetadata(self.database)

    def register(self, folder: str, *, managed: bool) -> None:
        """Registers the table in `folder`, whose log exists.  Raises NameTaken where the name was given to something else meanwhile."""
        self._catalog.createTable(self._new_entry(folder, managed), True, False)
        entry = self.entry()
        if entry is None or entry.folder is None or entry.folder.rstrip("/") != canonical(folder).rstrip("/"):
            text = f"The table was made, but its name {self} was given to {entry.folder or entry.kind if entry else 'another table'} meanwhile: it is at its path only"
            raise NameTaken(text, table=folder)

    def point_to(self, folder: str, *, managed: bool) -> None:
        """Makes the entry that is there stand for this folder."""
        self._catalog.refreshTable(self._identifier)
        self._catalog.alterTable(self._new_entry(folder, managed))

    def drop(self, *, purge: bool) -> None:
        """Drops the entry, which deletes the folder of a managed table."""
        self._catalog.refreshTable(self._identifier)
        self._catalog.dropTable(self._identifier, False, purge)

    def rename(self, new: Name) -> None:
        """Gives the folder of the Delta table another name.  Raises NameTaken.

        The folder is not moved, as Spark would do with that of a managed table: a commit that is on its way to the old place would be lost.
        At no moment is the folder without a name, and it is managed by one name only.
        """
        entry = self.entry()
        assert entry is not None and entry.folder is not None
        if (taken := new.entry()) is not None:
            text = f"Table {new} cannot be made: there is {taken.kind if taken.folder is None else 'a table'} of this name already"
            raise NameTaken(text, table=entry.folder, condition=named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=new.quoted))
        new.check()
        new.register(entry.folder, managed=False)
        self.point_to(entry.folder, managed=False)
        self.drop(purge=False)
        new.point_to(entry.folder, managed=entry.kind == "managed")

    def _new_entry(self, folder: str, managed: bool) -> Any:
        """A CatalogTable without a schema, which readers take from the table's log."""
        held = self._bridge.jvm.org.apache.spark.sql.catalyst.catalog
        kinds, storage = getattr(held, "CatalogTableType$"), getattr(held, "CatalogStorageFormat$")
        place = self._bridge.hadoop_path(f"file:{folder}" if folder.startswith("/") else join("/", folder)).toUri()
        stored = getattr(storage, "MODULE$").empty()
        stored = stored.copy(self._bridge.some(place), *(getattr(stored, f"copy$default${n}")() for n in range(2, _arity(stored, "copy") + 1)))
        kind = getattr(kinds, "MODULE$").MANAGED() if managed else getattr(kinds, "MODULE$").EXTERNAL()
        maker = getattr(getattr(held, "CatalogTable$"), "MODULE$")  # the number of its arguments differs between versions of Spark
        rest = [getattr(maker, f"apply$default${n}")() for n in range(6, _arity(maker, "apply") + 1)]
        return maker.apply(self._identifier, kind, stored, self._bridge.data_type.fromJson('{"type":"struct","fields":[]}'), self._bridge.some("delta"), *rest)


def delta_tables(spark: SparkSession, database: str) -> list[tuple[str, Entry]]:
    """The names of the Delta tables in a schema of the session's catalog, with their entries."""
    found = []
    for identifier in catalyst(spark).list(spark._jsparkSession.sessionState().catalog().listTables(database)):
        if identifier.database().isDefined():  # else it is a temporary view
            table = str(identifier.table())
            if (entry := Name(spark, dotted([database, table])).entry()) is not None and entry.folder is not None:
                found.append((table, entry))
    return found


def drop_schema(spark: SparkSession, database: str) -> None:
    """Drops a schema of the session's catalog: its Delta tables first, so that external ones keep their folders, and then all else in it."""
    for table, _ in delta_tables(spark, database):
        Name(spark, dotted([database, table])).drop(purge=False)
    spark._jsparkSession.sessionState().catalog().dropDatabase(database, True, True)


def _missing(name: str) -> Condition:
    return named("DELTA_MISSING_DELTA_TABLE", tableName=dotted(part.strip("`") for part in name.split(".")))


def not_found(quoted: str, database: str) -> Condition:
    """The condition of a name that the catalog does not hold, where Spark itself looks for it."""
    return named("TABLE_OR_VIEW_NOT_FOUND", relationName=quoted, searchPath=f"[{dotted((SESSION_CATALOG, database))}]")


def _arity(instance: Any, method: str) -> int:
    """The largest number of arguments that a JVM object's method takes."""
    return max(int(m.getParameterCount()) for m in instance.getClass().getMethods() if m.getName() == method)


def _path_of_uri(uri: str) -> str:
    """A URI of the catalog in the form that `storage.open` takes: decoded, file: URIs as local paths."""
    return "/" + decode(uri[5:]).lstrip("/") if uri.startswith("file:") else decode(uri)


def described(spark: SparkSession, parts: Sequence[str]) -> tuple[schema.StructType, list[str], str | None, dict[str, str]]:
    """The columns, partition columns, comment and properties of a table of any format, or of a view.  Raises AnalysisException where there is none."""
    state, bridge = spark._jsparkSession.sessionState(), catalyst(spark)
    found = state.catalog().getTempViewOrPermanentTableMetadata(state.sqlParser().parseTableIdentifier(dotted(parts[-2:])))
    columns = delta_schema(StructType.fromJson(json.loads(str(found.schema().json()))))
    held = entries(bridge.converters.asJava(found.properties()))
    properties = {name: str(value) for name, value in held.items() if not name.startswith("view.")}  # of which Spark keeps what a view is made of
    return columns, [str(c) for c in bridge.list(found.partitionColumnNames())], bridge.option(found.comment()), properties
