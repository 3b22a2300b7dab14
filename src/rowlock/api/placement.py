"""Where a table that is made or replaced is to be: at a path, or under a name in the catalog.

A name that cannot be given is refused here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rowlock.api.handle import Handle
from rowlock.conditions import named
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.types import SparkSession
from rowlock.engines.spark.session.clouds import spark_root
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, NameNotFound, NameTaken, TableExists, TableNotFound
from rowlock.parquet.files import file_of_others
from rowlock.protocol.paths import path_in_name, path_of
from rowlock.protocol.schema import column_path, dotted, quote
from rowlock.storage.open import check_is_folder, open_store

CreateMode = Literal["create", "createIfNotExists", "replace", "createOrReplace"]
_INSTEAD = "use createIfNotExists or createOrReplace (in SQL: CREATE TABLE IF NOT EXISTS, CREATE OR REPLACE TABLE)"


@dataclass(frozen=True, slots=True)
class Place:
    """A table's folder, and what the catalog has to do with it."""

    handle: Handle
    name: catalog.Name | None = None
    listed: bool = False
    """Whether the catalog holds the name already, with this folder."""
    managed: bool = False
    """Whether the catalog owns the folder, and deletes it with the name."""
    elsewhere: str | None = None
    """Another location, which the statement says of a name that the catalog has."""

    @property
    def has_log(self) -> bool:
        """Whether the folder holds a Delta log."""
        return self.handle.state.log.exists()

    def register(self) -> None:
        """Gives the table that is there its name.  Raises NameTaken."""
        if self.name is not None and not self.listed:
            self.name.register(spark_root(self.handle.state.store), managed=self.managed)

    def check(self, mode: CreateMode) -> None:
        """Raises TableExists, TableNotFound or InvalidInput where no table is made here in this mode."""
        if mode != "replace":
            check_is_folder(self.handle.state.store)
        if mode == "create" and self.listed:
            text = f"Table {self.name} already exists; open it with DeltaTable.forName, or {_INSTEAD}"
            raise NameTaken(text, table=self.handle.path, condition=named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=self.name.quoted if self.name else ""))
        if mode in ("replace", "createOrReplace") and self.elsewhere is not None:
            raise other_location(str(self.name), self.handle.path, self.elsewhere)
        if mode == "replace" and self.name is not None and not self.listed:
            text = f"Table {self.name} cannot be found, so it cannot be replaced; use createOrReplace"
            raise NameNotFound(text, condition=catalog.not_found(self.name.quoted, self.name.database))
        if mode == "replace" and self.name is None and not self.has_log:
            raise TableNotFound("There is no table to replace; use createOrReplace", table=self.handle.path)
        if mode == "create" and self.has_log:
            if self.name is None:
                text = f"There is a table already; open it with DeltaTable.forPath, or {_INSTEAD}"
                raise TableExists(text, table=self.handle.path, condition=named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=f"`delta`.`{self.handle.path}`"))
            if self.managed:
                text = f"There is a table in the folder that {self.name} would have already; {_INSTEAD}, or say another location()"
                raise NameTaken(text, table=self.handle.path)
        if self.managed and not self.listed and self.has_log and self.name is not None and (others := self.name.others_of(self.handle.path)):
            raise NameTaken(f"The folder that {self.name} would have is that of {others[0]}, which was renamed: say another location()", table=self.handle.path)
        if self.managed:
            self.check_empty()

    def check_empty(self, *, described: bool = True) -> None:
        """Raises NameTaken where no table is in the folder but something that others do not stage for a new one; `described`: the statement says the columns."""
        store, name = self.handle.state.store, str(self.name or "the table")
        if not self.has_log and (held := file_of_others(store)) is not None and not self.has_log:  # again: another may have made it meanwhile
            text = f"The folder that {name} would have is not empty: it holds {held}; say another location(), or CONVERT TO DELTA"
            condition = named("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", tableId=name, tableLocation=store.root)
            if not described and not self.managed:
                log = {"path": store.root, "logPath": f"{store.root}/_delta_log"}
                condition = named("DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_TXN_LOG", tableName=name, docLink="docs.delta.io", **log)
            raise NameTaken(text, table=self.handle.path, condition=condition)


def place_of(spark: SparkSession, identifier: str | None, location: str | None, storage_options: Mapping[str, str] | None = None) -> Place:
    """The place that a name, a path or both say.

    Raises InvalidInput where neither is given, InvalidInput where two paths contradict each other, NameTaken where the name is that of
    something else, and what Spark raises for a name that it does not take.
    """
    path = path_in_name(identifier) if identifier is not None else location
    if identifier is None or path is not None:
        if path is None:
            text = "Say where the table is to be: tableName('sales') or location('/path/of/table')"
            raise InvalidInput(text, condition=named("DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION"))
        if location is not None and _root(path) != _root(location):
            text = f"The name says that the table is at {path}, and the location {location}: leave one of them out"
            raise InvalidInput(text, condition=named("DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH"))
        return Place(Handle(spark, path, storage_options=storage_options))
    name = catalog.Name(spark, identifier)
    entry = name.entry()
    if entry is None:
        folder = name.default_folder()
        return Place(_local(spark, location or folder, name), name, managed=location is None)
    if entry.folder is None:
        taken = named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=name.quoted)
        raise NameTaken(f"{name} already exists and is {entry.kind}, not a Delta table: choose another name", condition=taken)
    elsewhere = location if location is not None and is_elsewhere(location, entry.folder) else None
    return Place(_local(spark, entry.folder, name), name, listed=True, managed=entry.kind == "managed", elsewhere=elsewhere)


def place_named(spark: SparkSession, parts: Sequence[str], location: str | None) -> Place:
    """The place that the parts of a name in a statement say, and the location beside it.  Raises as `place_of`."""
    path = path_of(parts)
    if path is None:
        return place_of(spark, dotted(parts), location)
    return place_of(spark, None, path) if location is None else place_of(spark, f"delta.{quote(path)}", location)


def is_elsewhere(location: str, folder: str) -> bool:
    """Whether a location is another than the folder of a table."""
    return _root(location) != _root(folder)


def other_location(name: str, folder: str, location: str) -> InvalidInput:
    """The error for a statement that says another location of a table than the catalog."""
    text = f"The location of table {name} is {folder}, not {location}: leave location() (the option path) out"
    parameters = {"tableName": name, "existingTableLocation": folder, "tableLocation": location}
    return InvalidInput(text, table=folder, condition=named("DELTA_TABLE_LOCATION_MISMATCH", **parameters))


def open_by_name(spark: SparkSession, name: str) -> Handle:
    """The table of a name in the catalog, or of delta.`/path`.  Raises TableNotFound, which Spark's AnalysisException catches for names in the catalog."""
    if (path := path_in_name(name)) is not None:
        return Handle(spark, path)
    if Session(spark).is_connect:
        return Handle(spark, catalog.folder_at_server(spark, name), name=column_path(name))
    found = catalog.Name(spark, name)
    return Handle(spark, found.folder(), name=found.parts)


def _local(spark: SparkSession, folder: str, name: catalog.Name) -> Handle:
    handle = Handle(spark, folder, name=name.parts)
    if handle.path.startswith("memory:"):
        raise InvalidInput(f"A table in the catalog lies where Spark finds it, not at {handle.path}")
    return handle


def _root(path: str) -> str:
    return open_store(path).root
