"""ALTER TABLE: changes of columns and constraints, while others write rows.

A constraint and a NOT NULL are asked of the rows that are there; where others commit first, of the rows
that they brought, and of no other.  A change that has become another's already is computed anew at the
head: changes that commute both land, a name that is taken is refused.  Nothing is refused after it was
published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import display
from rowlock.boundary.engine import AppendEngine
from rowlock.conditions import named
from rowlock.conflict.delta import delta_between, live_slice
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import column_mapping
from rowlock.protocol import schema as schemas
from rowlock.protocol.actions import Metadata
from rowlock.protocol.char_varchar import KEY, bound_in, rebound
from rowlock.protocol.constraints import CONSTRAINT_PREFIX, is_constraint
from rowlock.protocol.defaults import CURRENT_DEFAULT
from rowlock.protocol.defaults import FEATURE as DEFAULTS
from rowlock.protocol.features import writer_features
from rowlock.protocol.generated import GENERATION_EXPRESSION, generated_columns
from rowlock.protocol.identity import is_identity
from rowlock.protocol.schema import StructField, StructType
from rowlock.protocol.widening import may_become, with_type
from rowlock.transaction.definition import creation
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState


def add_constraint(state: SharedState, engine: AppendEngine, name: str, expression: str) -> Receipt:
    """Adds a CHECK constraint.  Raises ConstraintViolated where a row of the table violates it."""
    if not name.strip() or not expression.strip():
        raise InvalidInput("A constraint needs a name and a condition", table=state.store.root)

    def change(head: Snapshot) -> Metadata:
        if (held := _constraint(head, name)) is not None:
            raise InvalidInput(
                f"The table has a constraint {name} already; drop it first, or choose another name",
                table=head.table,
                condition=named("DELTA_CONSTRAINT_ALREADY_EXISTS", constraintName=name, oldConstraint=head.metadata.configuration[held]),
            )
        return replace(head.metadata, configuration={**head.metadata.configuration, f"{CONSTRAINT_PREFIX}{name.lower()}": expression})

    try:
        return alter(state, engine, "ADD CONSTRAINT", {"name": name, "expr": expression}, change, asks_rows=True)
    except ConstraintViolated as e:
        if e.constraint is None:
            raise
        text = f"Constraint {name} ({expression}) is not true of a row of the table: {e.row}; delete or change such rows first"
        condition = named("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", numRows=1, tableName=state.store.root, checkConstraint=expression)
        raise ConstraintViolated(text, table=state.store.root, constraint=e.constraint, expression=e.expression, row=e.row, condition=condition) from e


def drop_constraint(state: SharedState, engine: AppendEngine, name: str, *, if_exists: bool = False) -> Receipt:
    """Drops a CHECK constraint.  Raises InvalidInput where there is none of this name."""

    def change(head: Snapshot) -> Metadata:
        key = _constraint(head, name)
        if key is None and not if_exists:
            setting = "spark.databricks.delta.constraints.assumesDropIfExists.enabled"
            condition = named("DELTA_CONSTRAINT_DOES_NOT_EXIST", constraintName=name, tableName=head.table, config=setting, confValue="true")
            raise InvalidInput(f"The table has no constraint {name}", table=head.table, condition=condition)
        return replace(head.metadata, configuration={k: v for k, v in head.metadata.configuration.items() if k != key})

    return alter(state, engine, "DROP CONSTRAINT", {"name": name}, change)


def add_columns(state: SharedState, engine: AppendEngine, fields: Sequence[StructField]) -> Receipt:
    """Adds columns at the end, null in the rows that exist.  Raises SchemaMismatch for a name that is taken and for NOT NULL."""
    schemas.check_no_collation(fields, state.store.root)
    if strict := next((f.name for f in fields if not f.nullable), None):
        raise SchemaMismatch(
            f"column {strict!r} cannot be added as NOT NULL: the rows that are there have no value for it",
            table=state.store.root,
            condition=named("DELTA_OPERATION_NOT_ALLOWED", operation="NOT NULL in ALTER TABLE ADD COLUMNS"),
        )

    def change(head: Snapshot) -> Metadata:
        if taken := next((f.name for f in fields if head.schema.find(f.name) is not None), None):
            condition = named("FIELD_ALREADY_EXISTS", op="add", fieldNames=f"`{taken}`", struct=schemas.type_name(head.schema, sql=True))
            raise SchemaMismatch(f"columns {taken} and {taken} have the same name", table=head.table, condition=condition)
        return creation.widened(head.metadata, schemas.schema_json(StructType((*head.schema.fields, *fields))), head.table)

    names = [{"column": {"name": f.name, "type": schemas.type_name(f.type), "nullable": True, "metadata": {}}} for f in fields]
    return alter(state, engine, "ADD COLUMNS", {"columns": names}, change)


def rename_column(state: SharedState, engine: AppendEngine, old: str, new: str) -> Receipt:
    """Renames a column; no data file is rewritten.  Raises StatementRefused where the table does not map columns, or a constraint or a generated column names it."""

    def change(head: Snapshot) -> Metadata:
        found = _column(head, old)
        check_mapped(head, "renaming a column", "DELTA_UNSUPPORTED_RENAME_COLUMN")
        fields = tuple(replace(f, name=new) if f is found else f for f in head.schema.fields)
        partitions = tuple(new if p == found.name else p for p in head.metadata.partition_columns)
        return _redefined(head, fields, partitions)

    return alter(state, engine, "RENAME COLUMN", {"oldColumnPath": old, "newColumnPath": new}, change, asks_names=True)


def drop_columns(state: SharedState, engine: AppendEngine, names: Sequence[str]) -> Receipt:
    """Drops columns; data files keep their values.  Raises StatementRefused where a column cannot be dropped."""

    def change(head: Snapshot) -> Metadata:
        gone = [_column(head, n) for n in names]
        check_mapped(head, "dropping a column", "DELTA_UNSUPPORTED_DROP_COLUMN")
        if by := next((f.name for f in gone if f.name in head.metadata.partition_columns), None):
            raise StatementRefused(f"The table is partitioned by {by}, which cannot be dropped", what="dropping a partition column", table=head.table)
        return _redefined(head, tuple(f for f in head.schema.fields if f not in gone), head.metadata.partition_columns)

    return alter(state, engine, "DROP COLUMNS", {"columns": list(names)}, change, asks_names=True)


def alter_column(
    state: SharedState, engine: AppendEngine, name: str, *, nullable: bool | None = None, like: schemas.StructField | None = None, comment: str | None = None
) -> Receipt:
    """Changes whether a column may be null, widens its type to that of the field `like` (its bound, too, of char and varchar), or sets its comment.

    Raises ConstraintViolated where a row has a null, SchemaMismatch for a type that is not wider, StatementRefused for
    another type of a column that others are generated from.
    """

    return alter(
        state,
        engine,
        "CHANGE COLUMN",
        {"column": {"name": name}},
        lambda head: altered(head, name, nullable=nullable, like=like, comment=comment),
        asks_rows=nullable is False,
        asks_names=like is not None,
        retypes=(name,) if like is not None else (),
    )


def altered(head: Snapshot, name: str, *, nullable: bool | None, like: schemas.StructField | None, comment: str | None) -> Metadata:
    """The metadata with a column changed as `alter_column` says."""
    found = _column(head, name)
    made = found if like is None else rebound(retyped(head, found, like.type), bound_in(like.metadata.get(KEY)), head.table)
    if nullable is not None:
        made = replace(made, nullable=nullable)
    if comment is not None:
        made = replace(made, metadata={**made.metadata, "comment": comment})
    return _redefined(head, tuple(made if f is found else f for f in head.schema.fields), head.metadata.partition_columns)


def set_default(state: SharedState, engine: AppendEngine, name: str, expression: str | None) -> Receipt:
    """Sets the default of a column, or drops it where `expression` is None; rows that are there stay as they are.

    Raises SchemaMismatch for an unknown column, StatementRefused where the protocol does not list the feature or the column is generated.
    """

    return alter(state, engine, "CHANGE COLUMN", {"column": {"name": name}}, lambda head: defaulted(head, name, expression))


def defaulted(head: Snapshot, name: str, expression: str | None) -> Metadata:
    """The metadata with a column's default changed as `set_default` says."""
    found = _column(head, name)
    if expression is not None and DEFAULTS not in writer_features(head.protocol):
        raise StatementRefused(
            f"A default for column {found.name} needs the table feature {DEFAULTS}: call DeltaTable.addFeatureSupport({DEFAULTS!r}) first",
            what=DEFAULTS,
            table=head.table,
            condition=named("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", commandType="ALTER TABLE"),
        )
    if expression is not None and (GENERATION_EXPRESSION in found.metadata or is_identity(found)):
        raise StatementRefused(f"Column {found.name} is generated, and has no default", what=DEFAULTS, table=head.table)
    kept = {k: v for k, v in found.metadata.items() if k != CURRENT_DEFAULT}
    made = replace(found, metadata=kept if expression is None else {**kept, CURRENT_DEFAULT: expression})
    return _redefined(head, tuple(made if f is found else f for f in head.schema.fields), head.metadata.partition_columns)


def alter(
    state: SharedState,
    engine: AppendEngine,
    operation: str,
    parameters: Mapping[str, Any],
    change: Callable[[Snapshot], Metadata],
    *,
    asks_rows: bool = False,
    asks_names: bool = False,
    retypes: Sequence[str] = (),
) -> Receipt:
    """Commits a change of the metadata, computed from the head that it lands on; each row is checked once against what the change demands."""
    asked: Snapshot | None = None

    def checked(head: Snapshot) -> Metadata:
        nonlocal asked
        metadata = change(head)
        after = under(head, metadata)
        if retypes and generated_columns(head.schema) and metadata != head.metadata:
            for name in retypes:
                _check_generates_none(engine, head, name)
        if asks_rows and metadata != head.metadata:
            born = _born(state, asked, head)
            engine.check_slices(born, snapshot=after)
            asked = head
        elif asks_names:
            engine.check_slices((), snapshot=after)
        return metadata

    return creation.change_metadata(state, operation, parameters, checked, reads_rows=asks_rows)


def under(head: Snapshot, metadata: Metadata) -> Snapshot:
    """The snapshot with other metadata: what the table is, with the same files."""
    return replace(head, metadata=metadata, schema=schemas.parse_schema(metadata.schema_string, head.table))


def _check_generates_none(engine: AppendEngine, head: Snapshot, name: str) -> None:
    """Raises StatementRefused where a generated column or a constraint names the column: stored values were computed from its present type."""
    kept = tuple(f for f in head.schema.fields if f is not _column(head, name))
    conditions = {k: v for k, v in head.metadata.configuration.items() if not is_constraint(k)}
    without = under(head, replace(head.metadata, schema_string=schemas.schema_json(StructType(kept)), configuration=conditions))
    try:
        engine.check_slices((), snapshot=without)
    except StatementRefused as e:
        raise StatementRefused(
            f"Another type of column {name!r} would change what is generated from it, and is refused: {e}",
            what="changing the type of a column that others are generated from",
            table=head.table,
        ) from e


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


def _column(head: Snapshot, name: str) -> StructField:
    found = head.schema.find(name)
    if found is None:
        raise SchemaMismatch(
            f"there is no column {name!r}; the table has {', '.join(head.schema.names)}{display.did_you_mean(name, head.schema.names)}",
            table=head.table,
            condition=schemas.unresolved_column((name,), head.schema.names),
        )
    return found


def check_mapped(head: Snapshot, what: str, condition: str) -> None:
    """Raises StatementRefused where data files know columns by their names, which rules a change out."""
    if not column_mapping.is_mapped(head.metadata.configuration):
        raise StatementRefused(
            f"Files know this table's columns by their names, which rules out {what}: set {column_mapping.MODE}=name first",
            what=what,
            table=head.table,
            condition=named(condition, advice=""),
        )


def _redefined(head: Snapshot, fields: tuple[StructField, ...], partitions: tuple[str, ...]) -> Metadata:
    schema = StructType(fields)
    if not fields:
        text = "the only column of a table cannot be dropped"
        raise SchemaMismatch(text, table=head.table, condition=named("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", schema=", ".join(head.schema.names)))
    schemas.validate_new_schema(schema, partitions, column_mapping=column_mapping.is_mapped(head.metadata.configuration), table=head.table)
    return replace(head.metadata, schema_string=schemas.schema_json(schema), partition_columns=partitions)


def retyped(head: Snapshot, field: StructField, type_: schemas.DataType) -> StructField:
    """The column, or field of a struct, with a wider type, and with the history of its types in its metadata.  Raises StatementRefused, SchemaMismatch."""
    if schemas.nullable_type(type_) == schemas.nullable_type(field.type):
        return field
    if field.type == schemas.PrimitiveType(schemas.VOID):
        return replace(field, type=type_)
    old, new = schemas.type_name(field.type), schemas.type_name(type_)
    condition = named("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", fieldPath=field.name, oldField=old.upper(), newField=new.upper())
    made = with_type(field, type_, may_become)
    if schemas.nullable_type(made.type) != schemas.nullable_type(type_):
        text = (
            f"column {field.name!r} of type {old} cannot become {new}: a type can be widened from tinyint, smallint or int to a longer whole number, to double or to "
            "a decimal with 10 digits before the point, from bigint to one with 20, from float to double, and from a decimal to one with no fewer digits on either side"
        )
        raise SchemaMismatch(text, table=head.table, condition=condition)
    if not head.properties.type_widening:
        text = "A column's type can be widened on tables with delta.enableTypeWidening=true"
        raise StatementRefused(text, what="changing a column's type", table=head.table, condition=condition)
    return made
