"""ALTER TABLE, in the forms that Rowlock's API has; each is one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rowlock.api.definitions import check_new_default, field_of
from rowlock.api.handle import Handle
from rowlock.api.sql.own_syntax import OwnStatement
from rowlock.api.sql.target import Target
from rowlock.conditions import named
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst import column_rules
from rowlock.engines.spark.catalyst.types import new_column
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.protocol import schema as schemas, schema_edit
from rowlock.protocol.char_varchar import KEY, not_rebound
from rowlock.protocol.paths import path_of, strip_scheme
from rowlock.protocol.schema import StructField, StructType, dotted, nullable, nullable_type, schema_json, type_name
from rowlock.protocol.schema_edit import Position
from rowlock.transaction.definition import alteration, creation
from rowlock.transaction.definition.alteration import ColumnEdit
from rowlock.transaction.state.call import settings


def set_properties(target: Target, plan: Any) -> None:
    """ALTER TABLE ... SET TBLPROPERTIES."""
    target.table().setProperties({k: str(v) for k, v in target.nodes.mapping(plan.properties()).items()})


def unset_properties(target: Target, plan: Any) -> None:
    """ALTER TABLE ... UNSET TBLPROPERTIES [IF EXISTS]; a property that is not set is passed over, as delta-spark does with and without IF EXISTS."""
    target.table().unsetProperties([str(k) for k in target.nodes.items(plan.propertyKeys())])


def add_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ADD COLUMNS, in structs too, at the end or where FIRST and AFTER say."""
    nodes, new = target.nodes, []
    for c in nodes.items(plan.columnsToAdd()):
        if c.default().isDefined():
            given = new_column(str(c.colName()), nodes.type_of(c.dataType()))
            column_rules.check_default(target.spark, given, str(c.default().get().originalSQL()), target.path, "ALTER TABLE ADD COLUMNS")
            refused = named("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED")
            target.refuse(f"DEFAULT for {c.colName()}", "Add the column without DEFAULT, and then say ALTER COLUMN ... SET DEFAULT", refused)
        parent = nodes.option(c.path())
        path = () if parent is None else tuple(str(p) for p in nodes.items(parent.name()))
        field = field_of(str(c.colName()), nodes.type_of(c.dataType()), nodes.option(c.comment()), target.path)
        new.append((path, replace(field, nullable=bool(c.nullable())), _position(target, c.position())))
    target.table()._alter(alteration.add_fields, new)


def replace_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... REPLACE COLUMNS: the order and the comments of the columns, and more of them."""
    new = target.nodes.items(plan.columnsToAdd())
    columns = (field_of(str(c.colName()), target.nodes.type_of(c.dataType()), target.nodes.option(c.comment()), target.path) for c in new)
    target.table()._alter(alteration.replace_columns, StructType(tuple(columns)))


def rename_column(target: Target, plan: Any) -> None:
    """ALTER TABLE ... RENAME COLUMN, also of a field in a struct."""
    target.table()._alter(alteration.rename_column, _path(target, plan.column()), str(plan.newName()))


def drop_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... DROP COLUMNS [IF EXISTS], also of fields in structs."""
    paths = [_path(target, c) for c in target.nodes.items(plan.columnsToDrop())]
    there = target.head.schema if plan.ifExists() else None
    if paths := [p for p in paths if there is None or there.resolve(p) is not None]:
        target.table()._alter(alteration.drop_columns, paths)


def alter_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ALTER COLUMN, of one column or of several in one commit: a wider type, NOT NULL, a comment, a default, FIRST and AFTER."""
    specs = target.nodes.items(plan.specs()) if target.nodes.class_name(plan) == "AlterColumns" else [plan]
    edits = [_edit(target, spec, target.head.schema) for spec in specs]
    for edit in edits:
        if edit.default is not None and len(edit.path) == 1:
            check_new_default(target.handle, edit.path[0], edit.default)
    target.table()._alter(alteration.edit_columns, edits)


def _edit(target: Target, spec: Any, schema: StructType) -> ColumnEdit:
    """What an ALTER COLUMN says of one column.  Raises SchemaMismatch where there is none of its name."""
    nodes, path = target.nodes, _path(target, spec.column())
    found = schema_edit.owner(schema, path)
    if found is None:
        text = f"There is no column {dotted(path)} to alter; the table has {', '.join(schema.names)}"
        raise SchemaMismatch(text, table=target.path, condition=schema_edit.no_field(schema, path))
    known, path, place = found[0], path[: found[1]], path[found[1] :]
    type_, nullable, comment = nodes.option(spec.newDataType()), nodes.option(spec.newNullability()), nodes.option(spec.newComment())
    if place and (type_ is None or nullable is not None or comment is not None or spec.newPosition().isDefined()):
        _check_part(target, (*path, *place), known.type, place, nullable, comment)
        nullable = None  # as it is
    wanted = None if type_ is None else field_of(path[-1], nodes.type_of(type_), None, target.path)
    at = None if wanted is None else wanted.type
    if wanted is not None and place:
        wanted = replace(wanted, type=schema_edit.with_part(known.type, place, wanted.type), metadata={**known.metadata, **wanted.metadata})
    if wanted is not None and wanted.metadata.get(schemas.COLLATIONS) != known.metadata.get(schemas.COLLATIONS):
        old = type_name(known.type, sql=True).upper()
        condition = named("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", fieldPath=dotted(path), oldField=old, newField=str(type_.sql()))
        raise SchemaMismatch(f"The collation of {dotted(path)} cannot be changed: compare with COLLATE in queries", table=target.path, condition=condition)
    if wanted is not None and len(path) > 1 and KEY in wanted.metadata:
        raise not_rebound(dotted(path), type_name(known.type, sql=True), wanted.metadata[KEY], target.path)
    if wanted is not None and (wanted.type, wanted.metadata.get(KEY)) == (known.type, known.metadata.get(KEY)):
        wanted = None  # as CHANGE COLUMN says it again
    if wanted is not None:
        _check_type(target, (*path, *place), known, wanted, at)
    default, drops_default = nodes.new_default(spec)
    return ColumnEdit(
        path,
        nullable=None if nullable is None else bool(nullable),
        like=wanted,
        comment=None if comment is None else str(comment),
        default=default,
        drops_default=drops_default,
        position=_position(target, spec.newPosition()),
    )


def _check_part(target: Target, path: tuple[str, ...], type_: schemas.DataType, place: tuple[str, ...], nullable: Any, comment: Any) -> None:
    """Raises SchemaMismatch for what cannot be said of the elements of an array, or of a map's keys or values: all but their type and whether they may be null now."""
    for name in place[:-1]:
        type_ = schemas.parts(type_)[name.lower()]
    of_map = isinstance(type_, schemas.MapType) and type_.value_contains_null and place[-1].lower() == "value"
    may_be_null = type_.contains_null if isinstance(type_, schemas.ArrayType) else of_map
    if nullable is not None and bool(nullable) == may_be_null and comment is None:
        return
    condition = named("DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY", fieldPath=".".join(path))
    if comment is None:
        old = type_name(schemas.parts(type_)[place[-1].lower()], sql=True).upper()
        fields = {"oldField": old + " NOT NULL" * (not may_be_null), "newField": old + " NOT NULL" * may_be_null}
        condition = named("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", fieldPath=".".join(path), **fields)
    raise SchemaMismatch(f"Only TYPE can be altered of {dotted(path)}, which is part of an array or a map", table=target.path, condition=condition)


def _check_type(target: Target, path: tuple[str, ...], known: StructField, wanted: StructField, at: schemas.DataType | None) -> None:
    """Raises SchemaMismatch for a type that Spark alters no column to, whatever the table is; `at` is the one that the statement says."""
    table = dotted(target.whole_name)
    if isinstance(at, StructType | schemas.ArrayType | schemas.MapType) and known.type != schemas.PrimitiveType(schemas.VOID):
        text = f"Column {dotted(path)} becomes no {type_name(at, sql=True)} as a whole: ALTER COLUMN names what of it gets another type, by `element`, `key`, `value` and fields"
        condition = named(f"CANNOT_UPDATE_FIELD.{type(at).__name__.removesuffix('Type').upper()}_TYPE", table=table, fieldName=dotted(path))
        raise SchemaMismatch(text, table=target.path, condition=condition)
    before, after = (schema_json(nullable(StructType((f,)))) for f in (known, wanted))
    if known.type == wanted.type or target.nodes.bridge.can_up_cast(before, after):
        return
    old, new = type_name(known.type, sql=True), type_name(wanted.type, sql=True)
    name, parameters = dotted(path), {"originType": f'"{old.upper()}"', "newType": f'"{new.upper()}"', "table": table}
    text = f"Column {name} is {old} and cannot become {new}: no cast keeps every value"
    raise SchemaMismatch(text, table=target.path, condition=named("NOT_SUPPORTED_CHANGE_COLUMN", originName=name, newName=name, **parameters))


def _position(target: Target, held: Any) -> Position | None:
    """FIRST, AFTER a column, or neither."""
    found = target.nodes.option(held)
    if found is None:
        return None
    position = found.position()
    return Position(str(position.column())) if target.nodes.class_name(position) == "After" else Position()


def cluster_by(target: Target, plan: Any) -> None:
    """ALTER TABLE ... CLUSTER BY (columns), or NONE."""
    given = target.nodes.option(plan.clusterBySpec())
    columns = [] if given is None else [tuple(str(p) for p in c.fieldNames()) for c in target.nodes.items(given.columnNames())]
    creation.cluster_by(target.handle.state, columns)


def add_constraint(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ADD CONSTRAINT name CHECK (condition)."""
    held = plan.checkConstraint() if target.nodes.class_name(plan) == "AddCheckConstraint" else plan.tableConstraint()
    if target.nodes.class_name(held) != "CheckConstraint":
        target.refuse(f"of a {target.nodes.class_name(held)}", "Only CHECK constraints can be added")
    name = held.userProvidedName()
    if not name:
        target.refuse("without a name", "Write ADD CONSTRAINT name CHECK (condition)")
    target.table().addConstraint(str(name), str(held.condition()))


def drop_constraint(target: Target, plan: Any) -> None:
    """ALTER TABLE ... DROP CONSTRAINT [IF EXISTS] name."""
    if plan.cascade():
        target.refuse("CASCADE", "Leave CASCADE out")
    _drop_constraint(target, str(plan.name()), bool(plan.ifExists()))


def _drop_constraint(target: Target, name: str, if_exists: bool) -> None:
    target.table().dropConstraint(name, ifExists=if_exists or settings().flag("constraints.assumesDropIfExists.enabled"))


def own_constraint(target: Target, statement: OwnStatement) -> None:
    """The same two statements, where Spark's grammar has them not."""
    if statement.kind == "ADD CONSTRAINT":
        target.table().addConstraint(str(statement.values["name"]), str(statement.values["condition"]))
    else:
        _drop_constraint(target, str(statement.values["name"]), bool(statement.values["if_exists"]))


def _path(target: Target, column: Any) -> tuple[str, ...]:
    """The path of a column, or of a field in a struct."""
    return tuple(str(p) for p in target.nodes.items(column.name()))


def comment(target: Target, plan: Any) -> None:
    """COMMENT ON TABLE ... IS text, or NULL."""
    text = str(plan.comment()) or None
    parameters = {"properties": {"comment": text or ""}}
    creation.change_metadata(target.handle.state, "SET TBLPROPERTIES", parameters, lambda head: replace(head.metadata, description=text))


def rename_table(target: Target, plan: Any) -> None:
    """ALTER TABLE ... RENAME TO: the name alone; the folder stays where it is, so that no commit on its way is lost."""
    if path_of(target.parts) is not None:
        target.refuse("of a path", "A table without a name cannot be renamed")
    new = [str(p) for p in target.nodes.items(plan.newName())]
    catalog.Name(target.spark, dotted(target.parts)).rename(catalog.Name(target.spark, dotted(new if len(new) > 1 else [*target.parts[:-1], *new])))


def set_location(target: Target, plan: Any) -> None:
    """ALTER TABLE ... SET LOCATION: the name stands for another Delta table from now on, which must have the same columns."""
    if path_of(target.parts) is not None or plan.partitionSpec().isDefined():
        target.refuse("of a path or a partition", "Give the table's name")
    place = strip_scheme(str(plan.location()))
    if not (place.startswith("/") or ":" in place):
        raise InvalidInput(f"LOCATION {place!r} is relative, and it is not certain to what: write the whole path")
    there, here = Handle(target.spark, place), target.handle
    new, old = there.state.refresh(), here.state.refresh()
    if [(f.name.lower(), nullable_type(f.type)) for f in new.schema.fields] != [(f.name.lower(), nullable_type(f.type)) for f in old.schema.fields]:
        text = f"The table at {there.path} has other columns ({', '.join(new.schema.names)}) than this one ({', '.join(old.schema.names)}) "
        condition = named("DELTA_SET_LOCATION_SCHEMA_MISMATCH", original=old.metadata.schema_string, destination=new.metadata.schema_string, config="")
        raise SchemaMismatch(text, table=target.path, condition=condition)
    catalog.Name(target.spark, dotted(target.parts)).point_to(there.path, managed=False)  # the former folder stays as it is
