"""Append-only tables (`delta.appendOnly`), which no row leaves."""

from __future__ import annotations

from rowlock.conditions import named
from rowlock.exceptions import StatementRefused
from rowlock.log.snapshot import Snapshot


def refuse_on_append_only(snapshot: Snapshot, wanted: str = "change or delete rows", what: str = "removing rows") -> None:
    """Raises StatementRefused on an append-only table, even if no row would change, as delta-spark does; a MERGE is judged by what it did, at its commit."""
    if snapshot.properties.append_only:
        raise StatementRefused(
            f"The table is append-only (delta.appendOnly=true); unset the property to {wanted}",
            what=what,
            table=snapshot.table,
            condition=named("DELTA_CANNOT_MODIFY_APPEND_ONLY", table_name=snapshot.table, config="delta.appendOnly"),
        )
