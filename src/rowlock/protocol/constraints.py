"""Conditions on every row besides NOT NULL: CHECK constraints, column invariants and generated columns.

Each is a SQL expression over the table's columns.  A row satisfies it only if it is true: null violates it, as
in delta-spark.  Evaluating expressions is up to the engine.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from rowlock.exceptions import UnsupportedFeature
from rowlock.protocol.actions import Metadata
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR
from rowlock.protocol.char_varchar import conditions
from rowlock.protocol.generated import CHECK_NAME, FEATURE, generated_columns
from rowlock.protocol.schema import StructType

CONSTRAINT_PREFIX = "delta.constraints."
INVARIANTS = "delta.invariants"


@dataclass(frozen=True, slots=True)
class Check:
    """A named condition on a row, and the table feature that it comes from."""

    name: str
    expression: str
    feature: str = "checkConstraints"


def checks_of(metadata: Metadata, schema: StructType, table: str | None = None) -> tuple[Check, ...]:
    """All conditions on a table's rows, sorted by name.  Raises UnsupportedFeature for an invariant that cannot be parsed."""
    named = [Check(key[len(CONSTRAINT_PREFIX) :], text) for key, text in metadata.configuration.items() if is_constraint(key)]
    generated = [Check(CHECK_NAME, g.condition, FEATURE) for g in generated_columns(schema, metadata.partition_columns)]
    bounded = [Check(name, expression, CHAR_VARCHAR) for name, expression in conditions(schema)]
    return tuple(sorted((*named, *_invariants(schema, table), *generated, *bounded), key=lambda c: (c.name, c.expression)))


def is_constraint(key: str) -> bool:
    """Whether a table property is a CHECK constraint."""
    return key.lower().startswith(CONSTRAINT_PREFIX)


def has_constraints(configuration: Mapping[str, str]) -> bool:
    """Whether any table property is a CHECK constraint."""
    return any(map(is_constraint, configuration))


def _invariants(schema: StructType, table: str | None) -> list[Check]:
    out = []
    for path, field in schema.all_fields():
        if (text := field.metadata.get(INVARIANTS)) is None:
            continue
        try:
            expression = orjson.loads(text)["expression"]["expression"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as e:
            raise UnsupportedFeature(
                f"the invariant of column {'.'.join(path)} has an unknown form: {text}", feature="invariants", access="write", table=table
            ) from e
        out.append(Check(f"EXPRESSION({expression})", str(expression)))
    return out
