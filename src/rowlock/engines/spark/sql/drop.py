"""Takes the name of a Delta table from the session's catalog, which deletes the folder of a managed table."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock.engines.spark.sql.nodes import Nodes, dotted


def drop_entry(nodes: Nodes, parts: Sequence[str], *, purge: bool) -> None:
    """Drops the table of this name in the session's catalog."""
    state = nodes.spark._jsparkSession.sessionState()
    identifier = state.sqlParser().parseTableIdentifier(dotted(parts[-2:]))
    state.catalog().refreshTable(identifier)
    state.catalog().dropTable(identifier, False, purge)
