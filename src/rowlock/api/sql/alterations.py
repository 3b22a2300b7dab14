"""ALTER TABLE, in the forms that Rowlock's API has; each is one commit."""

from __future__ import annotations

from typing import Any

from rowlock.api.definitions import field_of
from rowlock.api.handle import Handle
from rowlock.api.sql.target import Target
from rowlock.engines.spark.catalyst.bridge import class_name
from rowlock.engines.spark.sql.nodes import dotted
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.transaction.definition import alteration


def set_properties(target: Target, plan: Any) -> None:
    """ALTER TABLE ... SET TBLPROPERTIES."""
    target.table().setProperties({k: str(v) for k, v in target.nodes.mapping(plan.properties()).items()})


def unset_properties(target: Target, plan: Any) -> None:
    """ALTER TABLE ... UNSET TBLPROPERTIES [IF EXISTS]."""
    keys = [str(k) for k in target.nodes.items(plan.propertyKeys())]
    there = Handle(target.spark, target.path).state.refresh().metadata.configuration
    if not plan.ifExists() and (missing := [k for k in keys if k not in there]):
        raise InvalidInput(f"The property {missing[0]} is not set; use IF EXISTS", table=target.path)
    target.table().unsetProperties(keys)


def add_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ADD COLUMNS, at the end of the table."""
    nodes, fields = target.nodes, []
    for c in nodes.items(plan.columnsToAdd()):
        for what, said in (("inside of a struct", c.path()), ("FIRST or AFTER", c.position()), ("DEFAULT", c.default())):
            if said.isDefined():
                target.refuse(f"{what} for {c.colName()}", "Add a column at the end of the table, without DEFAULT")
        if not c.nullable():
            target.refuse(f"NOT NULL for {c.colName()}", "Rows that are there have null in it: add it without NOT NULL")
        fields.append(field_of(str(c.colName()), str(c.dataType().sql()), nodes.option(c.comment()), target.path))
    handle = Handle(target.spark, target.path)
    alteration.add_columns(handle.state, handle.table.engine, fields)


def rename_column(target: Target, plan: Any) -> None:
    """ALTER TABLE ... RENAME COLUMN."""
    target.table().renameColumn(_top_level(target, plan.column()), str(plan.newName()))


def drop_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... DROP COLUMNS [IF EXISTS]."""
    table = target.table()
    names = [_top_level(target, c) for c in target.nodes.items(plan.columnsToDrop())]
    if plan.ifExists():
        there = {c.lower() for c in table.toDF().columns}
        names = [n for n in names if n.lower() in there]
    if names:
        table.dropColumns(*names)


def alter_columns(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ALTER COLUMN: a wider type, NOT NULL, a comment, a default."""
    nodes = target.nodes
    specs = nodes.items(plan.specs()) if class_name(plan) == "AlterColumns" else [plan]
    if len(specs) != 1:
        target.refuse("of several columns", "Alter one column in a statement")
    spec = specs[0]
    if spec.newPosition().isDefined():
        target.refuse("FIRST or AFTER", "Leave it out")
    if spec.dropDefault():
        return target.table().dropDefault(_top_level(target, spec.column()))
    if spec.newDefaultExpression().isDefined():
        return target.table().setDefault(_top_level(target, spec.column()), str(spec.newDefaultExpression().get().originalSQL()))
    type_, nullable = nodes.option(spec.newDataType()), nodes.option(spec.newNullability())
    target.table().alterColumn(
        _top_level(target, spec.column()),
        nullable=None if nullable is None else bool(nullable),
        dataType=None if type_ is None else str(type_.sql()),
        comment=nodes.option(spec.newComment()),
    )


def add_constraint(target: Target, plan: Any) -> None:
    """ALTER TABLE ... ADD CONSTRAINT name CHECK (condition)."""
    held = plan.checkConstraint() if class_name(plan) == "AddCheckConstraint" else plan.tableConstraint()
    if class_name(held) != "CheckConstraint":
        target.refuse(f"of a {class_name(held)}", "Only CHECK constraints can be added")
    name = held.userProvidedName()
    if not name:
        target.refuse("without a name", "Write ADD CONSTRAINT name CHECK (condition)")
    target.table().addConstraint(str(name), str(held.condition()))


def drop_constraint(target: Target, plan: Any) -> None:
    """ALTER TABLE ... DROP CONSTRAINT [IF EXISTS] name."""
    if plan.cascade():
        target.refuse("CASCADE", "Leave CASCADE out")
    target.table().dropConstraint(str(plan.name()), ifExists=bool(plan.ifExists()))


def _top_level(target: Target, column: Any) -> str:
    """A column's name.  Raises UnsupportedFeature for a field inside of a struct."""
    parts = [str(p) for p in target.nodes.items(column.name())]
    if len(parts) != 1:
        raise UnsupportedFeature(
            f"{target.statement} of {dotted(parts)} is refused: this version of Rowlock alters whole columns only, no fields of a struct",
            feature=f"{target.statement} of a field",
            access="write",
            table=target.path,
        )
    return parts[0]
