"""ALTER TABLE: changes of columns, of fields within them and of constraints, while others write rows.

A constraint and a NOT NULL are asked of the rows that are there; where others commit first, of the rows
that they brought, and of no other.  A change that has become another's already is computed anew at the
head: changes that commute both land, a name that is taken is refused.  Nothing is refused after it was
published.  A column is a field whose path has one part; all fields are changed by the same edits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rowlock.boundary.engine import AppendEngine
from rowlock.conditions import named
from rowlock.conflict.delta import delta_between, live_slice
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, StatementRefused, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import column_mapping, schema as schemas, schema_edit
from rowlock.protocol.actions import Metadata
from rowlock.protocol.char_varchar import KEY, rebound, respelled
from rowlock.protocol.column_values import CURRENT_DEFAULT, DEFAULTS, GENERATION_EXPRESSION, is_identity
from rowlock.protocol.constraints import CONSTRAINT_PREFIX, check_retyped, is_constraint
from rowlock.protocol.features import writer_features
from rowlock.protocol.schema import TYPE_CHANGES, ColumnPath, StructField, StructType
from rowlock.protocol.schema_edit import Position
from rowlock.protocol.schema_fit import may_become, merged_schema, type_changes, with_type
from rowlock.protocol.statistics import with_stats_columns
from rowlock.transaction.definition import creation
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_OF_CHAR_AND_VARCHAR = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"

NewField = tuple[ColumnPath, StructField, Position | None]
"""(the path of the struct that gets it, empty for a column; the field; where among the others, None for the end)."""


@dataclass(frozen=True, slots=True)
class ColumnEdit:
    """What becomes of one column, or of one field of structs.

    like      a field whose type, and whose bound of char and varchar, it takes
    default   the text of its new default; `drops_default` where it loses the one that it has
    position  its new place among its neighbours
    """

    path: ColumnPath
    nullable: bool | None = None
    like: StructField | None = None
    comment: str | None = None
    default: str | None = None
    drops_default: bool = False
    position: Position | None = None


def add_constraint(state: SharedState, engine: AppendEngine, name: str, expression: str) -> Receipt:
    """Adds a CHECK constraint.  Raises ConstraintViolated where a row of the table violates it."""
    if not name.strip() or not expression.strip():
        raise InvalidInput("A constraint needs a name and a condition", table=state.store.root)
    if name.upper() == _OF_CHAR_AND_VARCHAR:
        condition = named("DELTA_INVALID_CONSTRAINT_NAME", name=name)
        text = f"{name} names what Delta itself checks of char and varchar columns: choose another name"
        raise InvalidInput(text, table=state.store.root, condition=condition)

    def change(head: Snapshot) -> Metadata:
        if (held := _constraint(head, name)) is not None:
            condition = named("DELTA_CONSTRAINT_ALREADY_EXISTS", constraintName=name, oldConstraint=head.metadata.configuration[held])
            raise InvalidInput(f"The table has a constraint {name} already; drop it first, or choose another name", table=head.table, condition=condition)
        return replace(head.metadata, configuration={**head.metadata.configuration, f"{CONSTRAINT_PREFIX}{name.lower()}": expression})

    try:
        return _alter(state, engine, "ADD CONSTRAINT", {"name": name, "expr": expression}, change, asks_rows=True)
    except ConstraintViolated as e:
        if e.constraint is None:
            raise
        text = f"Constraint {name} ({expression}) is not true of a row of the table: {e.row}; delete or change such rows first"
        condition = named("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", numRows=1, tableName=state.store.root, checkConstraint=expression)
        raise ConstraintViolated(text, table=state.store.root, constraint=e.constraint, expression=e.expression, row=e.row, condition=condition) from e


def drop_constraint(state: SharedState, engine: AppendEngine, name: str, *, if_exists: bool = False) -> Receipt:
    """Drops a CHECK constraint.  Raises InvalidInput where there is none of this name."""
    told = {"name": name, "existed": "true"}

    def change(head: Snapshot) -> Metadata:
        key = _constraint(head, name)
        told["expr"] = head.metadata.configuration.get(key or "", "")
        if key is None and not if_exists:
            setting = "spark.databricks.delta.constraints.assumesDropIfExists.enabled"
            condition = named("DELTA_CONSTRAINT_DOES_NOT_EXIST", constraintName=name, tableName=head.table, config=setting, confValue="true")
            raise InvalidInput(f"The table has no constraint {name}", table=head.table, condition=condition)
        return replace(head.metadata, configuration={k: v for k, v in head.metadata.configuration.items() if k != key})

    return _alter(state, engine, "DROP CONSTRAINT", told, change)


def add_columns(state: SharedState, engine: AppendEngine, columns: Sequence[StructField]) -> Receipt:
    """Adds columns at the end (see `add_fields`)."""
    return add_fields(state, engine, [((), c, None) for c in columns])


def add_fields(state: SharedState, engine: AppendEngine, fields: Sequence[NewField]) -> Receipt:
    """Adds columns and fields, null in the rows that exist.  Raises SchemaMismatch for a name that is taken and for NOT NULL."""
    schemas.check_no_collation([f for _, f, _ in fields], state.store.root)
    schemas.check_duplicates(StructType(tuple(f for parent, f, _ in fields if not parent)), "", state.store.root)
    if strict := next((".".join([*parent, *path]) for parent, f, _ in fields for path, part in StructType((f,)).all_fields() if not part.nullable), None):
        text = f"column {strict!r} cannot be added as NOT NULL: the rows that are there have no value for it"
        raise SchemaMismatch(text, table=state.store.root, condition=named("DELTA_OPERATION_NOT_ALLOWED", operation="NOT NULL in ALTER TABLE ADD COLUMNS"))

    def change(head: Snapshot) -> Metadata:
        schema = head.schema
        for parent, field, position in fields:
            schema = schema_edit.added(schema, parent, field, position, head.table)
        return creation.widened(head.metadata, schema, head.table)

    return _alter(state, engine, "ADD COLUMNS", {"columns": [{"column": _added(f, parent), **_placed(at)} for parent, f, at in fields]}, change)


def replace_columns(state: SharedState, engine: AppendEngine, columns: StructType) -> Receipt:
    """Gives the columns the order, the comments and the wider types of `columns`, and adds those that are new; where columns are mapped, drops the others.

    Rows stay as they are.  Raises SchemaMismatch where a column is missing from a table that does not map columns, or of a type that its own does not widen
    to, StatementRefused on a table with identity columns, and for a column that cannot be dropped.
    """
    schemas.check_no_collation(columns.fields, state.store.root)
    schemas.check_duplicates(columns, "", state.store.root)
    gone: list[ColumnPath] = []

    def change(head: Snapshot) -> Metadata:
        if any(is_identity(f) for f in head.schema.fields):
            text, condition = "The columns of a table with identity columns cannot be replaced", named("DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED")
            raise StatementRefused(text, what="replacing columns", table=head.table, condition=condition)
        wider = merged_schema(head.schema, columns, widening=may_become) if head.properties.type_widening else head.schema
        mapped = column_mapping.is_mapped(head.metadata.configuration)
        schema, metadata = schema_edit.with_columns(wider, columns, head.table, drops=mapped), head.metadata
        gone[:] = [path for path, _ in head.schema.all_fields() if schema_edit.owner(schema, path) is None]
        _check_not_keys(head, gone)
        for path in gone:
            metadata = with_stats_columns(metadata, path, None)
        return creation.widened(metadata, schema, head.table)

    parameters = {"columns": [_added(f, ()) for f in columns.fields]}
    return _alter(state, engine, "REPLACE COLUMNS", parameters, change, asks_names=lambda: ", ".join(map(".".join, gone)), retypes=True)


def rename_column(state: SharedState, engine: AppendEngine, path: Sequence[str], new: str) -> Receipt:
    """Renames a column or field; no data file is rewritten.

    Raises StatementRefused where the table does not map columns, or a constraint or a generated column names it.
    """

    def change(head: Snapshot) -> Metadata:
        old = schema_edit.field_at(head.schema, path, head.table)
        _check_mapped(head, "renaming a column", "DELTA_UNSUPPORTED_RENAME_COLUMN")
        schema = respelled(schema_edit.with_field(head.schema, path, lambda f: replace(f, name=new), head.table))
        partitions = tuple(new if len(path) == 1 and p == old.name else p for p in head.metadata.partition_columns)
        return creation.widened(with_stats_columns(replace(head.metadata, partition_columns=partitions), tuple(path), new), schema, head.table)

    parameters = {"oldColumnPath": _said(path), "newColumnPath": _said([*path[:-1], new])}
    return _alter(state, engine, "RENAME COLUMN", parameters, change, asks_names=lambda: ".".join(path))


def drop_columns(state: SharedState, engine: AppendEngine, paths: Sequence[ColumnPath]) -> Receipt:
    """Drops columns or fields; data files keep their values.  Raises StatementRefused where one cannot be dropped."""

    def change(head: Snapshot) -> Metadata:
        gone = [schema_edit.field_at(head.schema, p, head.table) for p in paths]
        _check_mapped(head, "dropping a column", "DELTA_UNSUPPORTED_DROP_COLUMN")
        _check_not_keys(head, paths)
        schema, metadata = head.schema, head.metadata
        if {f.name for f, p in zip(gone, paths, strict=True) if len(p) == 1} == set(schema.names):
            condition = named("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", schema=", ".join(schema.names))
            raise SchemaMismatch("all columns of the table cannot be dropped; leave one", table=head.table, condition=condition)
        for path in {schemas.lower_case(p): p for p in paths}.values():
            schema, metadata = schema_edit.with_field(schema, path, lambda f: None, head.table), with_stats_columns(metadata, path, None)
        return creation.widened(metadata, schema, head.table)

    names = [_said(p) for p in paths]
    return _alter(state, engine, "DROP COLUMNS", {"columns": names}, change, asks_names=lambda: ", ".join(names))


def _check_not_keys(head: Snapshot, paths: Sequence[ColumnPath]) -> None:
    """Raises StatementRefused where the table is partitioned or clustered by a column that is to be dropped."""
    dropped = {p[0].lower() for p in paths if len(p) == 1}
    if by := next((c for c in head.metadata.partition_columns if c.lower() in dropped), None):
        condition = named("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", columnList=by)
        text = f"The table is partitioned by {by}, which cannot be dropped"
        raise StatementRefused(text, what="dropping a partition column", table=head.table, condition=condition)
    if clustered := [k for k in head.clustering_columns if any(schemas.lower_case(k[: len(p)]) == schemas.lower_case(p) for p in paths)]:
        text = f"The table is clustered by {'.'.join(clustered[0])}, which cannot be dropped: ALTER TABLE ... CLUSTER BY other columns, or NONE, first"
        condition = named("DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN", columnList=".".join(clustered[0]))
        raise StatementRefused(text, what="dropping a clustering column", table=head.table, condition=condition)


def edit_columns(state: SharedState, engine: AppendEngine, edits: Sequence[ColumnEdit]) -> Receipt:
    """Makes all the changes in one commit, in order; where one cannot be made, none is.  Rows that are there stay as they are.

    Raises ConstraintViolated where a row has a null that is to be forbidden, SchemaMismatch for an unknown column and a type that is not wider,
    StatementRefused for another type of a column that a constraint or a generated column names and for a default where the protocol does not list the feature,
    InvalidInput where a column is named twice, UnsupportedFeature for NOT NULL or a default of a field in a struct.
    """
    names = [schemas.lower_case(e.path) for e in edits]
    if twice := next((e.path for n, e in enumerate(edits) if names[n] in names[:n]), None):
        raise InvalidInput(f"The statement changes column {'.'.join(twice)} twice", table=state.store.root, condition=named("NOT_SUPPORTED_CHANGE_SAME_COLUMN"))
    for e in edits:
        if len(e.path) > 1 and (e.nullable is False or e.default is not None or e.drops_default):
            what = f"NOT NULL or DEFAULT of the field {'.'.join(e.path)}"
            text = f"ALTER TABLE {what} is refused: whole columns can be altered so, fields of a struct cannot"
            raise UnsupportedFeature(text, feature=what, access="write", table=state.store.root)

    told: dict[str, Any] = {}

    def change(head: Snapshot) -> Metadata:
        schema = head.schema
        for edit in edits:
            schema = schema_edit.with_field(schema, edit.path, lambda field, edit=edit: _edited(head, field, edit), head.table)  # type: ignore[misc]
            if edit.position is not None:
                schema = schema_edit.moved(schema, edit.path, edit.position, head.table)
        both = ([schema_edit.field_at(s, e.path, head.table) for e in edits] for s in (head.schema, schema))
        columns = [_altered(before, after, e.path[:-1]) for e, before, after in zip(edits, *both, strict=True)]
        placed = [_placed(e.position) for e in edits]
        told.update({"column": columns[0], **placed[0]} if len(edits) == 1 else {"columns": [{**c, **p} for c, p in zip(columns, placed, strict=True)]})
        return creation.widened(head.metadata, schema, head.table)

    operation = "CHANGE COLUMN" if len(edits) == 1 else "CHANGE COLUMNS"
    return _alter(state, engine, operation, told, change, asks_rows=any(e.nullable is False for e in edits), retypes=True)


def _edited(head: Snapshot, field: StructField, edit: ColumnEdit) -> StructField:
    """The field as an edit leaves it."""
    if edit.like is not None and is_identity(field) and edit.like.type != field.type:
        numbered = named("DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED")
        raise StatementRefused(f"Column {field.name} numbers rows, and keeps its type", what="changing a column's type", table=head.table, condition=numbered)
    if edit.like is not None:
        field = rebound(_retyped(head, field, edit.like.type), edit.like.metadata.get(KEY), head.table)
    if edit.nullable is not None:
        field = replace(field, nullable=edit.nullable)
    if edit.comment is not None:
        field = replace(field, metadata={**field.metadata, "comment": edit.comment})
    if edit.default is not None and (GENERATION_EXPRESSION in field.metadata or is_identity(field)):
        condition = named("DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED") if is_identity(field) else None
        raise StatementRefused(f"Column {field.name} is generated, and has no default", what=DEFAULTS, table=head.table, condition=condition)
    if edit.default is not None and DEFAULTS not in writer_features(head.protocol):
        text = f"A default for column {field.name} needs the table feature {DEFAULTS}: call DeltaTable.addFeatureSupport({DEFAULTS!r}) first"
        condition = named("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", commandType="ALTER TABLE")
        raise StatementRefused(text, what=DEFAULTS, table=head.table, condition=condition)
    if edit.default is not None or edit.drops_default:
        others = {k: v for k, v in field.metadata.items() if k != CURRENT_DEFAULT}
        field = replace(field, metadata=others if edit.default is None else {**others, CURRENT_DEFAULT: edit.default})
    return field


def _retyped(head: Snapshot, field: StructField, type_: schemas.DataType) -> StructField:
    """The column, or field of a struct, with a wider type, and with the history of its types in its metadata.  Raises StatementRefused, SchemaMismatch."""
    if schemas.nullable_type(type_) == schemas.nullable_type(field.type):
        return field
    if field.type == schemas.PrimitiveType(schemas.VOID):
        if isinstance(type_, StructType | schemas.ArrayType | schemas.MapType):
            text = f"Column {field.name} of type void cannot become {schemas.type_name(type_)}, as in delta-spark: drop it and add one, or let a write with mergeSchema give it the type"
            kind = type(type_).__name__.removesuffix("Type").upper()
            raise SchemaMismatch(text, table=head.table, condition=named(f"CANNOT_UPDATE_FIELD.{kind}_TYPE", table=head.table, fieldName=field.name))
        return replace(field, type=type_)
    old, new = schemas.type_name(field.type, sql=True), schemas.type_name(type_, sql=True)
    condition = named("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", fieldPath=field.name, oldField=old.upper(), newField=new.upper())
    widened = with_type(field, type_, may_become)
    if schemas.nullable_type(widened.type) != schemas.nullable_type(type_):
        text = (
            f"column {field.name!r} of type {old} cannot become {new}: a whole number can be widened to a longer one, tinyint, smallint and int to double or a decimal with "
            "10 digits before the point, bigint to one with 20, float to double, date to timestamp_ntz, a decimal to one with no fewer digits on either side"
        )
        raise SchemaMismatch(text, table=head.table, condition=condition)
    if not head.properties.type_widening:
        text = "A column's type can be widened on tables with delta.enableTypeWidening=true"
        raise StatementRefused(text, what="changing a column's type", table=head.table, condition=condition)
    return widened


def described(field: StructField, parent: Sequence[str]) -> dict[str, Any]:
    """A field as operationParameters show it."""
    kind = schemas.type_name(field.type).partition("<")[0]
    return {"name": _said([*parent, field.name]), "type": kind, "nullable": field.nullable, "metadata": dict(field.metadata)}


def _added(field: StructField, parent: Sequence[str]) -> dict[str, Any]:
    """A new field as operationParameters show it, CHAR and VARCHAR as its type."""
    bound = {"type": field.metadata[KEY], "metadata": {k: v for k, v in field.metadata.items() if k != KEY}} if KEY in field.metadata else {}
    return described(field, parent) | bound


def _altered(before: StructField, after: StructField, parent: Sequence[str]) -> dict[str, Any]:
    """A changed field as operationParameters show it, without its earlier types; of an array or a map the part whose type has changed."""
    if after.type != before.type and not isinstance(after.type, StructType) and (places := list(type_changes(before.type, after.type))) and places[0][0]:
        path, _, type_ = places[0]
        return described(StructField(path[-1], type_, path[-1] != "key"), [*parent, after.name, *path[:-1]])
    had = {TYPE_CHANGES: before.metadata[TYPE_CHANGES]} if TYPE_CHANGES in before.metadata else {}
    return described(replace(after, metadata={k: v for k, v in after.metadata.items() if k != TYPE_CHANGES} | had), parent)


def _said(path: Sequence[str]) -> str:
    """A path as operationParameters show it: names with a dot in back quotes."""
    return ".".join(schemas.quote(name) if "." in name else name for name in path)


def _placed(position: Position | None) -> dict[str, str]:
    return {} if position is None else {"position": "FIRST" if position.after is None else f"AFTER {position.after}"}


def _alter(
    state: SharedState,
    engine: AppendEngine,
    operation: str,
    parameters: Mapping[str, Any],
    change: Callable[[Snapshot], Metadata],
    *,
    asks_rows: bool = False,
    asks_names: Callable[[], str] | None = None,
    retypes: bool = False,
) -> Receipt:
    """Commits a change of the metadata, computed from the head that it lands on; each row is checked once against what the change demands."""
    asked: Snapshot | None = None

    def checked(head: Snapshot) -> Metadata:
        nonlocal asked
        metadata = change(head)
        after = _under(head, metadata)
        if retypes:
            check_retyped(head.metadata, head.schema, after.schema, head.table, altered=True)
        if asks_rows and metadata != head.metadata:
            engine.check_slices(_born(state, asked, head), snapshot=after)
            asked = head
        elif asks_names is not None and (column := asks_names()):
            _check_names(engine, after, column)
        return metadata

    return creation.change_metadata(state, operation, parameters, checked, reads_rows=asks_rows)


def _under(head: Snapshot, metadata: Metadata) -> Snapshot:
    """The snapshot with other metadata: what the table is, with the same files."""
    return replace(head, metadata=metadata, schema=schemas.parse_schema(metadata.schema_string, head.table))


def _check_names(engine: AppendEngine, after: Snapshot, column: str) -> None:
    """Raises StatementRefused where a constraint or a generated column names a column that `after` lacks: `column` cannot be altered then."""
    try:
        engine.check_slices((), snapshot=after)
    except StatementRefused as e:
        if not e.getCondition().startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")):
            raise
        text = f"Column {column} stays as it is: {str(e).partition('] ')[2]}"
        condition = (
            named("DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE", columnName=column, generatedColumns=text)
            if e.what == "generated column"
            else named("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", columnName=column, constraints=text)
        )
        raise StatementRefused(text, what=e.what, table=None, condition=condition) from e


def _born(state: SharedState, asked: Snapshot | None, head: Snapshot) -> Sequence[Any]:
    """The rows of `head` that were not checked yet."""
    files = {f.path: f for f in head.files.adds()}
    if asked is None or asked.metadata.schema_string != head.metadata.schema_string:  # a name may mean another column now
        return [live_slice(f, state.vectors.of) for f in files.values()]
    before = {f.path: f for f in asked.files.adds()}
    return delta_between({*before, *files}, before, files, state.vectors.of).born


def _constraint(head: Snapshot, name: str) -> str | None:
    """The table property that holds a constraint; its name is compared without case."""
    return next((k for k in head.metadata.configuration if is_constraint(k) and k[len(CONSTRAINT_PREFIX) :].lower() == name.lower()), None)


def _check_mapped(head: Snapshot, what: str, condition: str) -> None:
    """Raises StatementRefused where data files know columns by their names, which rules a change out."""
    if not column_mapping.is_mapped(head.metadata.configuration):
        text = f"Files know this table's columns by their names, which rules out {what}: set {column_mapping.MODE}=name first"
        raise StatementRefused(text, what=what, table=head.table, condition=named(condition, advice=""))
