"""Asks CHECK constraints of rows on the driver, without Spark, where `protocol.conditions` says that every engine decides them alike (I9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowlock.conditions import named
from rowlock.exceptions import ConstraintViolated
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.values import plain_rows
from rowlock.protocol import char_varchar
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR
from rowlock.protocol.conditions import Undecided, parsed
from rowlock.protocol.constraints import Check, checks_of
from rowlock.protocol.evaluation import Mask, Places, as_mask, may_hold
from rowlock.protocol.intervals import Interval, of_rows
from rowlock.protocol.predicates import Call, Column, Compare, IsNull, Literal, Or, Predicate
from rowlock.protocol.schema import ColumnPath, StructType


def undecided(snapshot: Snapshot) -> Check | None:
    """The first condition on the table's rows that only Spark can evaluate."""
    for check in checks_of(snapshot.metadata, snapshot.schema, snapshot.table):
        try:
            _condition(check, snapshot.schema)
        except Undecided:
            return check
    return None


def conditions_of(snapshot: Snapshot) -> list[tuple[Check, Predicate]]:
    """All conditions on the table's rows, none of which is `undecided`."""
    return [(check, _condition(check, snapshot.schema)) for check in checks_of(snapshot.metadata, snapshot.schema, snapshot.table)]


def _condition(check: Check, schema: StructType) -> Predicate:
    """The condition that a check asks.  Raises Undecided for one that only Spark can evaluate."""
    if check.feature == CHAR_VARCHAR:
        for (name, _), bound in zip(char_varchar.conditions(schema), char_varchar.bounds(schema).items(), strict=True):
            if name == check.name and (field := schema.find(bound[0])) is not None:
                column = Column((field.name,))
                return Or((IsNull(column), Compare("<=", Call("length", (column,)), Literal(bound[1].length))))
    return parsed(check.expression, schema)


def check_conditions(table: pa.Table, conditions: Sequence[tuple[Check, Predicate]], schema: StructType, root: str) -> None:
    """Raises ConstraintViolated for the first row of which a condition is not true; null is not true."""
    for check, condition in conditions:
        failed = np.flatnonzero(~holds(condition, table, schema))
        if len(failed):
            (row,) = plain_rows(table.slice(int(failed[0]), 1))
            raise violation(check, row, root)


def violation(check: Check, row: Mapping[str, Any], root: str) -> ConstraintViolated:
    """The error for a row of which a condition is not true."""
    if check.feature == CHAR_VARCHAR:
        kind, condition = "Bound", named("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", value=row.get(check.name), expr=check.expression)
    else:
        values = "\n".join(f" - {name} : {'null' if value is None else value}" for name, value in row.items())
        kind, condition = (
            "CHECK constraint",
            named("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", constraintName=check.name, expression=check.expression, values=values),
        )
    return ConstraintViolated(
        f"{kind} {check.name} ({check.expression}) is not true of a row that the statement would write: {row}; filter such rows out or change them",
        table=root,
        constraint=check.name,
        expression=check.expression,
        row=row,
        condition=condition,
    )


def holds(condition: Predicate, table: pa.Table, schema: StructType) -> Mask:
    """The rows of which a condition is true; a condition that cannot be evaluated is refused (I9)."""

    def column(path: ColumnPath) -> Interval | None:
        field = schema.find(path[0])
        return None if field is None else of_rows(table.column(field.name), field.type)

    return as_mask(pc.fill_null(may_hold(condition, Places(column)), False), table.num_rows)
