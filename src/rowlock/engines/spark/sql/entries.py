"""Changes of what the session's catalog holds of a Delta table: its name goes, is another, or stands for another folder."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.conditions import named
from rowlock.engines.spark.catalog import Entry, Name
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.exceptions import NameTaken
from rowlock.protocol.schema import dotted


def drop_entry(nodes: Nodes, parts: Sequence[str], *, purge: bool) -> None:
    """Drops the table of this name in the session's catalog, which deletes the folder of a managed table."""
    state = nodes.spark._jsparkSession.sessionState()
    identifier = state.sqlParser().parseTableIdentifier(dotted(parts[-2:]))
    state.catalog().refreshTable(identifier)
    state.catalog().dropTable(identifier, False, purge)


def delta_tables(nodes: Nodes, database: str) -> list[tuple[str, Entry]]:
    """The names of the Delta tables in a schema of the session's catalog, with their entries."""
    found = []
    for identifier in nodes.items(nodes.spark._jsparkSession.sessionState().catalog().listTables(database)):
        if identifier.database().isDefined():  # else it is a temporary view
            table = str(identifier.table())
            entry = Name(nodes.spark, dotted([database, table])).entry()
            if entry is not None and entry.folder is not None:
                found.append((table, entry))
    return found


def drop_schema(nodes: Nodes, database: str) -> None:
    """Drops a schema of the session's catalog: its Delta tables first, so that external ones keep their folders, and then all else in it."""
    for table, _ in delta_tables(nodes, database):
        drop_entry(nodes, [database, table], purge=False)
    nodes.spark._jsparkSession.sessionState().catalog().dropDatabase(database, True, True)


def rename_entry(nodes: Nodes, parts: Sequence[str], new: Sequence[str]) -> None:
    """Gives the folder of a table another name.  Raises NameTaken.

    The folder is not moved, as Spark would do with that of a managed table: a commit that is on its way to the old place would be lost.
    At no moment is the folder without a name, and it is managed by one name only.
    """
    old_name, new_name = Name(nodes.spark, dotted(parts)), Name(nodes.spark, dotted(new if len(new) > 1 else [*parts[:-1], *new]))
    entry = old_name.entry()
    assert entry is not None and entry.folder is not None
    if (taken := new_name.entry()) is not None:
        raise NameTaken(
            f"Table {new_name} cannot be made: there is {taken.kind if taken.folder is None else 'a table'} of this name already",
            table=entry.folder,
            condition=named("TABLE_OR_VIEW_ALREADY_EXISTS", relationName=new_name.quoted),
        )
    new_name.check()
    new_name.register(entry.folder, managed=False)
    old_name.point_to(entry.folder, managed=False)
    drop_entry(nodes, [old_name.database, old_name.table], purge=False)
    new_name.point_to(entry.folder, managed=entry.kind == "managed")


def relocate_entry(nodes: Nodes, parts: Sequence[str], folder: str) -> None:
    """Makes a name stand for another folder, which DROP TABLE will not delete; the former one stays as it is."""
    Name(nodes.spark, dotted(parts)).point_to(folder, managed=False)
