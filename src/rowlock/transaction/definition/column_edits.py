"""ALTER TABLE ... ALTER COLUMN: several changes of columns, and of fields of structs, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowlock.boundary.engine import AppendEngine
from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import schema as schemas
from rowlock.protocol import schema_edit
from rowlock.protocol.actions import Metadata
from rowlock.protocol.schema import StructField
from rowlock.protocol.schema_edit import Position
from rowlock.transaction.definition import alteration, creation
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState


@dataclass(frozen=True, slots=True)
class ColumnEdit:
    """What becomes of one column, or of one field of structs.

    like      a field whose type, and whose bound of char and varchar, it takes
    default   the text of its new default; `drops_default` where it loses the one that it has
    position  its new place among its neighbours
    """

    path: tuple[str, ...]
    nullable: bool | None = None
    like: StructField | None = None
    comment: str | None = None
    default: str | None = None
    drops_default: bool = False
    position: Position | None = None


def edit_columns(state: SharedState, engine: AppendEngine, edits: Sequence[ColumnEdit]) -> Receipt:
    """Makes all the changes in one commit, in order; where one cannot be made, none is.

    Raises what `alteration.alter_column`, `alteration.set_default` and `schema_edit.moved` raise, InvalidInput where a column is named twice,
    UnsupportedFeature for NOT NULL or a default of a field in a struct.
    """
    names = [tuple(p.lower() for p in e.path) for e in edits]
    if twice := next((e.path for n, e in enumerate(edits) if names[n] in names[:n]), None):
        raise InvalidInput(f"The statement changes column {'.'.join(twice)} twice", table=state.store.root, condition=named("NOT_SUPPORTED_CHANGE_SAME_COLUMN"))
    for e in edits:
        if len(e.path) > 1 and (e.nullable is False or e.default is not None or e.drops_default):
            what = f"NOT NULL or DEFAULT of the field {'.'.join(e.path)}"
            text = f"ALTER TABLE {what} is refused: whole columns can be altered so, fields of a struct cannot"
            raise UnsupportedFeature(text, feature=what, access="write", table=state.store.root)

    def change(head: Snapshot) -> Metadata:
        at = head
        for edit in edits:
            at = alteration.under(at, _edited(at, edit))
        return at.metadata

    return alteration.alter(
        state,
        engine,
        "CHANGE COLUMN" if len(edits) == 1 else "CHANGE COLUMNS",
        {"column": {"name": ".".join(edits[0].path)}} if len(edits) == 1 else {"columns": [{"name": ".".join(e.path)} for e in edits]},
        change,
        asks_rows=any(e.nullable is False for e in edits),
        asks_names=any(e.like is not None for e in edits),
        retypes=tuple(e.path[0] for e in edits if e.like is not None),
    )


def _edited(head: Snapshot, edit: ColumnEdit) -> Metadata:
    """The metadata with one change made."""
    metadata = head.metadata
    if len(edit.path) == 1:
        metadata = alteration.altered(head, edit.path[0], nullable=edit.nullable, like=edit.like, comment=edit.comment)
        if edit.default is not None or edit.drops_default:
            metadata = alteration.defaulted(alteration.under(head, metadata), edit.path[0], edit.default)
    elif edit.nullable is not None or edit.comment is not None or edit.like is not None:
        schema = schema_edit.with_field(head.schema, edit.path, lambda f: _field(head, f, edit))
        metadata = creation.widened(metadata, schemas.schema_json(schema), head.table)
    if edit.position is None:
        return metadata
    moved = schema_edit.moved(alteration.under(head, metadata).schema, edit.path, edit.position)
    return creation.widened(metadata, schemas.schema_json(moved), head.table)


def _field(head: Snapshot, field: StructField, edit: ColumnEdit) -> StructField:
    if edit.like is not None:
        field = alteration.retyped(head, field, edit.like.type)
    kept = field if edit.comment is None else replace(field, metadata={**field.metadata, "comment": edit.comment})
    return kept if edit.nullable is None else replace(kept, nullable=edit.nullable)
