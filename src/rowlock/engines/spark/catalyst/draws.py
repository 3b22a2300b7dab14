"""Values that differ each time they are computed (uuid(), rand()) in what a MERGE assigns: each is drawn once for a row, below everything that reads it.

A projection under the statement's outputs computes them.  The outputs see attributes, so that a generated column, every field of a struct
and the change data feed get the same value.  A statement is evaluated several times (rows on the driver, rows in a job, each rebase): every
evaluation draws with seeds of its own, since the same seed would give other rows the same values again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame

from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, analyzed, class_name, unaliased
from rowlock.exceptions import StatementRefused

_SEEDED = "org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed"
_NUMBERED = "MonotonicallyIncreasingID"
_OF_FILES = ("InputFileName", "InputFileBlockStart", "InputFileBlockLength")
_APART = 0x9E3779B97F4A7C15
"""Between the seeds of two evaluations: far more than there are partitions, which Spark adds to a seed."""
_NUMBERS_FROM, _MOST_NUMBERED = 53, 1 << 10
"""monotonically_increasing_id() counts from the partition's number << 33; evaluations differ in the bits above those of a million partitions."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Aliased expressions that are not deterministic, over the attributes of a statement's relation."""

    values: tuple[JavaObject, ...]
    table: str
    evaluations: Iterator[int] = field(default_factory=itertools.count, compare=False)

    def below(self, bridge: Catalyst, child: JavaObject) -> JavaObject:
        """The plan of `child` with these values as further columns, drawn anew for every plan."""
        number = next(self.evaluations)
        values = [v.withNewChildren(bridge.seq([self._anew(bridge, v.child(), number)])) for v in self.values]
        return bridge.project(bridge.seq([*bridge.list(child.output()), *values]), child)

    def _anew(self, bridge: Catalyst, expression: JavaObject, number: int) -> JavaObject:
        """The expression with seeds that belong to evaluation `number` alone; the first one keeps those of the user."""
        if number == 0 or expression.deterministic():
            return expression
        children = bridge.list(expression.children())
        if children:
            expression = expression.withNewChildren(bridge.seq(self._anew(bridge, c, number) for c in children))
        if bridge.is_a(expression, _SEEDED):
            return expression.withShiftedSeed(_signed(number * _APART))
        if class_name(expression) != _NUMBERED:
            return expression
        if number >= _MOST_NUMBERED:
            text = "monotonically_increasing_id() has no more numbers for a statement that was rebased a thousand times: use uuid()"
            raise StatementRefused(text, what="monotonically_increasing_id()", table=self.table)
        return bridge.bitwise_or(expression, bridge.literal.apply(number << _NUMBERS_FROM))


def _signed(number: int) -> int:
    """The lowest 64 bits as Java's long has them."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def with_draws(bridge: Catalyst, frame: DataFrame, values: Sequence[Column]) -> tuple[DataFrame, list[Column], list[JavaObject]]:
    """(the frame with what is not deterministic in `values` as further columns, the values over it, these columns' aliased expressions).

    Values that are not computed from one row alone are left as they are, to be refused where the statement is resolved.
    """
    below = analyzed(frame)
    selected = frame.select(*[v.alias(f"c{n}") for n, v in enumerate(values)])
    plan = bridge.replace_expressions.apply(analyzed(selected))
    found: list[JavaObject] = []
    if not values or class_name(plan) != "Project" or class_name(plan.child()) != class_name(below):
        return frame, list(values), found
    outputs = [(v, output, _taken_out(bridge, output, found)) for v, output in zip(values, bridge.list(plan.projectList()), strict=True)]
    if not found:
        return frame, list(values), found
    drawn = bridge.project(bridge.seq([*bridge.list(below.output()), *found]), below)
    over = [value if output.deterministic() else bridge.column(unaliased(taken)) for value, output, taken in outputs]
    return bridge.dataframe(drawn, frame.sparkSession, frame._jdf.sparkSession()), over, found


def of_a_file(bridge: Catalyst, expression: JavaObject) -> str | None:
    """The name of the first function in an expression that asks which file a row is read from; None where there is none."""
    if class_name(expression) in _OF_FILES:
        return str(expression.prettyName())
    return next((found for child in bridge.list(expression.children()) if (found := of_a_file(bridge, child)) is not None), None)


def _taken_out(bridge: Catalyst, expression: JavaObject, found: list[JavaObject]) -> JavaObject:
    """The expression with attributes in place of its smallest parts that are not deterministic; these are added to `found`, aliased.

    A lambda's body is drawn for each element, so that the function that calls it stays whole.
    """
    if expression.deterministic():
        return expression
    children: Sequence[JavaObject] = bridge.list(expression.children())
    if children and not any(class_name(c) == "LambdaFunction" for c in children):
        before = len(found)
        outer = expression.withNewChildren(bridge.seq([_taken_out(bridge, c, found) for c in children]))
        if outer.deterministic():
            return outer
        del found[before:]
    alias = bridge.named(expression, "__rowlock_drawn")
    found.append(alias)
    return alias.toAttribute()
