"""ALTER TABLE of fields at any depth and of their order; the rows that are there stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rowlock.boundary.engine import AppendEngine
from rowlock.conditions import named
from rowlock.exceptions import SchemaMismatch, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import schema as schemas
from rowlock.protocol import schema_edit
from rowlock.protocol.actions import Metadata
from rowlock.protocol.identity import is_identity
from rowlock.protocol.schema import StructField, StructType
from rowlock.protocol.schema_edit import Position
from rowlock.transaction.definition import creation
from rowlock.transaction.definition.alteration import alter, check_mapped
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

NewField = tuple[tuple[str, ...], StructField, Position | None]
"""(the path of the struct that gets it, the field, where in the struct)."""


def add_fields(state: SharedState, engine: AppendEngine, fields: Sequence[NewField]) -> Receipt:
    """Adds nullable fields to structs or to the table, null in the rows that exist.  Raises SchemaMismatch for a name that is taken and for NOT NULL."""
    schemas.check_no_collation([f for _, f, _ in fields], state.store.root)
    if strict := next((f.name for _, f, _ in fields if not f.nullable), None):
        raise SchemaMismatch(f"column {strict!r} cannot be added as NOT NULL: the rows that are there have no value for it", table=state.store.root)

    def change(schema: StructType) -> StructType:
        for parent, field, position in fields:
            schema = schema_edit.added(schema, parent, field, position)
        return schema

    return _changed(state, engine, "ADD COLUMNS", {"columns": [{"column": _described(f, p)} for p, f, _ in fields]}, change)


def replace_columns(state: SharedState, engine: AppendEngine, columns: StructType) -> Receipt:
    """Gives the columns the order and the comments of `columns`, and adds those that are new; rows stay as they are.

    Raises SchemaMismatch where a column of the table is missing or of another type, StatementRefused on a table with identity columns.
    """
    schemas.check_no_collation(columns.fields, state.store.root)

    def change(schema: StructType) -> StructType:
        if any(is_identity(f) for f in schema.fields):
            text = "The columns of a table with identity columns cannot be replaced"
            raise StatementRefused(
                text, what="replacing columns", table=state.store.root, condition=named("DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED")
            )
        return schema_edit.with_columns(schema, columns)

    return _changed(state, engine, "REPLACE COLUMNS", {"columns": [_described(f, ()) for f in columns.fields]}, change)


def rename_field(state: SharedState, engine: AppendEngine, path: Sequence[str], new: str) -> Receipt:
    """Renames a field of a struct.  Raises StatementRefused where the table does not map columns, or something names the field."""

    def change(schema: StructType) -> StructType:
        return schema_edit.with_field(schema, path, lambda f: replace(f, name=new))

    parameters = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join([*path[:-1], new])}
    return _changed(state, engine, "RENAME COLUMN", parameters, change, needs_mapping="renaming a column")


def drop_fields(state: SharedState, engine: AppendEngine, paths: Sequence[Sequence[str]]) -> Receipt:
    """Drops fields of structs.  Raises StatementRefused where the table does not map columns, or something names a field."""

    def change(schema: StructType) -> StructType:
        for path in paths:
            schema = schema_edit.with_field(schema, path, lambda f: None)
        return schema

    return _changed(state, engine, "DROP COLUMNS", {"columns": [".".join(p) for p in paths]}, change, needs_mapping="dropping a column")


def _described(field: StructField, parent: Sequence[str]) -> dict[str, Any]:
    """A new field as operationParameters tell it."""
    return {"name": ".".join([*parent, field.name]), "type": schemas.type_name(field.type), "nullable": True, "metadata": {}}


def _changed(
    state: SharedState,
    engine: AppendEngine,
    operation: str,
    parameters: dict[str, Any],
    change: Callable[[StructType], StructType],
    *,
    needs_mapping: str | None = None,
) -> Receipt:
    """Commits a change of the schema, computed from the head that it lands on."""

    def make(head: Snapshot) -> Metadata:
        if needs_mapping is not None:
            check_mapped(head, needs_mapping, "DELTA_UNSUPPORTED_RENAME_COLUMN" if operation == "RENAME COLUMN" else "DELTA_UNSUPPORTED_DROP_COLUMN")
        return creation.widened(head.metadata, schemas.schema_json(change(head.schema)), head.table)

    return alter(state, engine, operation, parameters, make, asks_names=needs_mapping is not None)
