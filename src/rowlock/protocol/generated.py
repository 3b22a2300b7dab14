"""Generated columns: which columns of a schema are computed from others, and by which expressions.

A column is generated if its metadata says so and the protocol lists the feature (`features` refuses one without
the other).  Each generated column is also a condition on every row: the column equals its expression, null
equal to null.  Evaluating expressions is up to the engine.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rowlock.protocol.schema import PrimitiveType, StructType

FEATURE = "generatedColumns"
GENERATION_EXPRESSION = "delta.generationExpression"
CHECK_NAME = "Generated Column"
"""delta-spark's name of the condition on a generated column."""
_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated column and the SQL expression over the row's other columns that computes it.

    `empty_is_null`: an empty string counts as null, as in partition columns, where every reader sees null.
    """

    name: str
    expression: str
    empty_is_null: bool = False

    @property
    def condition(self) -> str:
        """SQL that is true for rows whose column has the value of the expression."""
        name = self.name if _PLAIN.match(self.name) else f"`{self.name.replace('`', '``')}`"
        end = "\n" if "--" in self.expression else ""  # ends a SQL comment, which would hide the closing bracket
        if self.empty_is_null:
            return f"nullif({name}, '') <=> nullif({self.expression}{end}, '')"
        return f"{name} <=> ({self.expression}{end})"


def generated_columns(schema: StructType, partition_columns: Collection[str] = ()) -> tuple[Generated, ...]:
    """The generated columns of a table, in schema order.  Only top-level columns can be generated."""
    return tuple(
        Generated(f.name, str(text), f.name in partition_columns and f.type == PrimitiveType("string"))
        for f in schema.fields
        if (text := f.metadata.get(GENERATION_EXPRESSION)) is not None
    )


def inner_generated(schema: StructType) -> Iterator[str]:
    """Dotted names of nested fields that claim to be generated; no writer computes such fields."""
    return (".".join(path) for path, f in schema.all_fields() if len(path) > 1 and GENERATION_EXPRESSION in f.metadata)
