"""Asks CHECK constraints of rows on the driver, without Spark, where `protocol.conditions` says that every engine decides them alike (I9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.conditions import named
from rowlock.exceptions import ConstraintViolated
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.values import plain_rows
from rowlock.protocol import char_varchar
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR
from rowlock.protocol.conditions import AtMost, Both, Condition, IsNull, Not, Undecided, parsed
from rowlock.protocol.constraints import Check, checks_of
from rowlock.protocol.schema import StructType

_COMPARED = {"=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def undecided(snapshot: Snapshot) -> Check | None:
    """The first condition on the table's rows that only Spark can evaluate."""
    for check in checks_of(snapshot.metadata, snapshot.schema, snapshot.table):
        try:
            _condition(check, snapshot.schema)
        except Undecided:
            return check
    return None


def conditions_of(snapshot: Snapshot) -> list[tuple[Check, Condition]]:
    """All conditions on the table's rows, none of which is `undecided`."""
    return [(check, _condition(check, snapshot.schema)) for check in checks_of(snapshot.metadata, snapshot.schema, snapshot.table)]


def _condition(check: Check, schema: StructType) -> Condition:
    """The condition that a check asks.  Raises Undecided for one that only Spark can evaluate."""
    if check.feature == CHAR_VARCHAR:
        for (name, _), bound in zip(char_varchar.conditions(schema), char_varchar.bounds(schema).items(), strict=True):
            if name == check.name and (field := schema.find(bound[0])) is not None:
                return AtMost(field, bound[1].length)
    return parsed(check.expression, schema)


def check_conditions(table: pa.Table, conditions: Sequence[tuple[Check, Condition]], root: str) -> None:
    """Raises ConstraintViolated for the first row of which a condition is not true; null is not true."""
    for check, condition in conditions:
        passed = pc.fill_null(holds(condition, table), False)
        if pc.all(passed, min_count=0).as_py():
            continue
        (row,) = plain_rows(table.slice(pc.index(passed, False).as_py(), 1))
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


def holds(condition: Condition, table: pa.Table) -> Any:
    """Whether a condition is true of each row; null where SQL says null.  As in Spark NaN is equal to itself and greater than every other number."""
    if isinstance(condition, Both):
        combine = pc.and_kleene if condition.op == "AND" else pc.or_kleene
        return combine(holds(condition.left, table), holds(condition.right, table))
    if isinstance(condition, Not):
        return pc.invert(holds(condition.of, table))
    values = table.column(condition.column.name)
    if isinstance(condition, AtMost):
        return pc.fill_null(pc.less_equal(pc.utf8_length(values), condition.length), True)
    if isinstance(condition, IsNull):
        return pc.is_null(values)
    if isinstance(condition.value, int):
        values = values.cast(pa.int64())
    found = _COMPARED[condition.op](values, pa.scalar(condition.value, values.type))
    return pc.or_kleene(found, pc.is_nan(values)) if isinstance(condition.value, float) and condition.op in (">", ">=") else found
