"""Generated columns: which columns of a schema are computed from others, and by what.

A column is one where its metadata says so and the protocol lists the feature (see `features`, which refuses
the one without the other).  Each is a condition on every row as well: the column is what its expression
gives, null for null.  Evaluating expressions is the engine's affair.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rowlock.protocol.schema import PrimitiveType, StructType

FEATURE = "generatedColumns"
GENERATION_EXPRESSION = "delta.generationExpression"
CHECK_NAME = "Generated Column"
"""What delta-spark calls the condition that it makes of every generated column."""
_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class Generated:
    """A column and the SQL that gives its values, over the row's other columns."""

    name: str
    expression: str
    loses_empty_text: bool = False

    @property
    def condition(self) -> str:
        """True of the rows that are in order, as SQL."""
        name = self.name if _PLAIN.match(self.name) else f"`{self.name.replace('`', '``')}`"
        end = "\n" if "--" in self.expression else ""  # a comment would take the bracket with it
        if self.loses_empty_text:
            return f"nullif({name}, '') <=> nullif({self.expression}{end}, '')"
        return f"{name} <=> ({self.expression}{end})"


def generated_columns(schema: StructType, partition_columns: Collection[str] = ()) -> tuple[Generated, ...]:
    """The generated columns of a table, in its order; only whole columns are.  An empty text in a partition column is a null to every reader."""
    return tuple(
        Generated(f.name, str(text), f.name in partition_columns and f.type == PrimitiveType("string"))
        for f in schema.fields
        if (text := f.metadata.get(GENERATION_EXPRESSION)) is not None
    )


def inner_generated(schema: StructType) -> Iterator[str]:
    """Fields inside of columns that say they are generated, by dotted name: no writer computes them."""
    return (".".join(path) for path, f in schema.all_fields() if len(path) > 1 and GENERATION_EXPRESSION in f.metadata)
