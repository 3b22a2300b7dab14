"""Values of columns that a statement does not give: defaults, generated columns, which are computed from others, and the numbers of identity columns.

The first two are SQL text in a column's metadata, in use where the protocol lists the feature (`features` refuses one without
the other).  Rows that are there never change by a default.  Each generated column is also a condition on every row: the column equals its
expression, null equal to null.  Any expression is evaluated by the engine; `constant` decides plain defaults without one.

The metadata of an identity column have its start and its step.  Writers give each number once, to new rows; its high-water mark is the
last number that was ever given out, and only ever moves in the direction of the step.  Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from rowlock.conditions import named
from rowlock.exceptions import InvalidInput, StatementRefused
from rowlock.protocol.actions import Metadata
from rowlock.protocol.schema import INTEGER_BITS, DecimalType, PrimitiveType, StructField, StructType, column_name, parse_schema, schema_json

DEFAULTS = "allowColumnDefaults"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
_TEXT = re.compile(r"'[^'\\]*'")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_DATE = re.compile(r"date\s*'(\d{4}-\d{2}-\d{2})'", re.IGNORECASE)
Constant = bool | int | float | Decimal | str | datetime.date | None


class NotConstant(ValueError):
    """A default that only Spark can evaluate."""


def default_of(name: str, defaults: Mapping[str, str], required: Collection[str]) -> str:
    """The expression of DEFAULT in an assignment to a column.  Raises InvalidInput where it would be null and is `required`."""
    if name not in defaults and name in required:
        condition = named("NO_DEFAULT_COLUMN_VALUE_AVAILABLE", colName=f"`{name}`")
        raise InvalidInput(f"Column {name} is NOT NULL and has no default: give a value", condition=condition)
    return defaults.get(name, "null")


def column_defaults(schema: StructType) -> dict[str, str]:
    """The default of each column that has one, as SQL text, by the column's name in schema order."""
    return {f.name: str(text) for f in schema.fields if (text := f.metadata.get(CURRENT_DEFAULT)) is not None}


def inner_fields(schema: StructType, key: str) -> Iterator[str]:
    """Dotted names of nested fields whose metadata claim what only columns can have: a default, or to be generated."""
    return (".".join(path) for path, f in schema.all_fields() if len(path) > 1 and key in f.metadata)


def constant(field: StructField) -> Constant:
    """The value of a column's default where it is a plain literal that every engine reads alike; None where it has none.

    Raises NotConstant for any other default.
    """
    text = str(field.metadata.get(CURRENT_DEFAULT, "null")).strip()
    lowered = text.lower()
    if lowered == "null":
        return None
    if field.type == PrimitiveType("boolean") and lowered in ("true", "false"):
        return lowered == "true"
    if field.type == PrimitiveType("string") and _TEXT.fullmatch(text):
        return text[1:-1]
    if field.type == PrimitiveType("date") and (found := _DATE.fullmatch(text)):
        return _date(found[1])
    if _NUMBER.fullmatch(text):
        return _number(text, field)
    raise NotConstant(text)


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise NotConstant(text) from None


def _number(text: str, field: StructField) -> Constant:
    """A number that is exactly one of the column's type."""
    if isinstance(field.type, DecimalType):
        try:
            value = Decimal(text)
            if value == (rounded := value.quantize(Decimal(1).scaleb(-field.type.scale))) and len(rounded.as_tuple().digits) <= field.type.precision:
                return rounded
        except InvalidOperation:
            pass
    elif isinstance(field.type, PrimitiveType) and "." not in text:
        if (bits := INTEGER_BITS.get(field.type.name)) is not None and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            return int(text)
        if field.type.name == "double" and abs(int(text)) <= 1 << 53:
            return float(text)
    raise NotConstant(text)


GENERATED = "generatedColumns"
GENERATION_EXPRESSION = "delta.generationExpression"
CHECK_NAME = "Generated Column"
"""delta-spark's name of the condition on a generated column."""


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
        name = column_name((self.name,))
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


IDENTITY = "identityColumns"
PREFIX = "delta.identity."
START, STEP = f"{PREFIX}start", f"{PREFIX}step"
HIGH_WATER_MARK, EXPLICIT = f"{PREFIX}highWaterMark", f"{PREFIX}allowExplicitInsert"
MARKS_ONLY_TAG = "delta.identity.schemaUpdate"
"""The tag of a commit whose metadata differ in high-water marks alone; delta-spark's writers go on over it."""
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity column: `mark` is the last number given out, None before the first; `by_default` allows statements to set the column."""

    name: str
    start: int
    step: int
    by_default: bool
    mark: int | None = None

    def first_of_next(self) -> int:
        """The next number to give out."""
        return self.start if self.mark is None else self.mark + self.step

    def further(self, number: int) -> bool:
        """Whether a number lies beyond the mark, in the direction of the step."""
        return self.mark is None or (number > self.mark if self.step > 0 else number < self.mark)

    def past(self, number: int | None, table: str) -> Identity:
        """The column as it is with `number` in its rows: with a mark at it or beyond, unless it lies behind the mark or the start.  Raises StatementRefused."""
        if number is None or not self.further(number) or (number - self.start) * self.step < 0:
            return self
        return replace(self, mark=rounded_to_step(self, number, table))


def identity_metadata(start: int, step: int, *, by_default: bool) -> dict[str, Any]:
    """The metadata of a new identity column."""
    return {START: start, STEP: step, EXPLICIT: by_default}


def identity_columns(schema: StructType) -> tuple[Identity, ...]:
    """The identity columns of a table, in schema order."""
    return tuple(_identity(f) for f in schema.fields if is_identity(f))


def is_identity(field: StructField) -> bool:
    """Whether a column is an identity column."""
    return any(key.startswith(PREFIX) for key in field.metadata)


def _identity(field: StructField) -> Identity:
    found = field.metadata
    mark = found.get(HIGH_WATER_MARK)
    return Identity(field.name, int(found[START]), int(found[STEP]), bool(found.get(EXPLICIT, False)), None if mark is None else int(mark))


def problem_of(schema: StructType, partition_columns: Collection[str]) -> str | None:
    """Why the identity columns of a schema cannot be written; None if they can."""
    for path, field in schema.all_fields():
        if not is_identity(field):
            continue
        name = ".".join(path)
        if len(path) > 1:
            return f"of {name}, which is inside a column"
        if field.type != PrimitiveType("long"):
            return f"of {name}, which is no bigint"
        if not all(type(field.metadata.get(key)) is int for key in (START, STEP)) or not field.metadata[STEP]:
            return f"of {name}, whose start and step are not both numbers, or whose step is 0"
        if not isinstance(field.metadata.get(HIGH_WATER_MARK, 0), int):
            return f"of {name}, whose high-water mark is no number"
        if field.name in partition_columns:
            return f"of {name}, by which the table is partitioned"
    return None


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with these high-water marks, by column; a mark that lies behind the present one is left out."""
    schema = parse_schema(metadata.schema_string)
    further = {i.name: marks[i.name] for i in identity_columns(schema) if i.name in marks and i.further(marks[i.name])}
    if not further:
        return metadata
    fields = tuple(replace(f, metadata={**f.metadata, HIGH_WATER_MARK: further[f.name]}) if f.name in further else f for f in schema.fields)
    return replace(metadata, schema_string=schema_json(StructType(fields)))


def with_marks_of(metadata: Metadata, other: Metadata, table: str) -> Metadata:
    """The metadata with marks at or beyond those of `other`, but for marks behind a column's start: no number is given twice.  Columns are known by physical name."""
    marks = {f.physical_name: _identity(f).mark for f in parse_schema(other.schema_string).fields if is_identity(f)}
    past = [_identity(f).past(marks.get(f.physical_name), table) for f in parse_schema(metadata.schema_string).fields if is_identity(f)]
    return with_marks(metadata, {i.name: i.mark for i in past if i.mark is not None})


def differ_in_marks_only(before: Metadata, after: Metadata) -> bool:
    """Whether two schemas are one but for high-water marks that moved on."""
    if before.schema_string == after.schema_string:
        return True
    return HIGH_WATER_MARK in before.schema_string + after.schema_string and _unmarked(before) == _unmarked(after) and not goes_back(before, after)


def goes_back(before: Metadata, after: Metadata) -> bool:
    """Whether numbers that were given out may be given out again: a mark lies behind the one before, or its identity column is gone, as where a table is replaced."""
    if HIGH_WATER_MARK not in before.schema_string:
        return False
    now = {f.physical_name: _identity(f).mark for f in parse_schema(after.schema_string).fields if is_identity(f)}
    then = ((f.physical_name, _identity(f)) for f in parse_schema(before.schema_string).fields if is_identity(f))
    return any(i.mark is not None and ((mark := now.get(name)) is None or (mark != i.mark and not i.further(mark))) for name, i in then)


def _unmarked(metadata: Metadata) -> StructType:
    schema = parse_schema(metadata.schema_string)
    return StructType(tuple(replace(f, metadata={k: v for k, v in f.metadata.items() if k != HIGH_WATER_MARK}) for f in schema.fields))


def last_of(identity: Identity, count: int, table: str) -> int:
    """The mark after `count` numbers more.  Raises StatementRefused where the numbers of a bigint are used up."""
    last = identity.first_of_next() + identity.step * (count - 1)
    if not _LOWEST <= last <= _HIGHEST:
        raise StatementRefused(f"The identity column {identity.name} has no numbers left for {count} rows", what="identity", table=table)
    return last


def rounded_to_step(identity: Identity, number: int, table: str) -> int:
    """The first number of the column at or beyond `number`.  Raises StatementRefused where no bigint is."""
    behind = (number - identity.start) % identity.step
    found = number if behind == 0 else number - behind + identity.step
    if not _LOWEST <= found <= _HIGHEST:
        raise StatementRefused(f"The identity column {identity.name} has no number at or beyond {number}, which is in its rows", what="identity", table=table)
    return found


def refuse_explicit(schema: StructType, given: set[str], table: str) -> None:
    """Raises StatementRefused where rows give an identity column that is generated always; names in lower case."""
    if found := next((i.name for i in identity_columns(schema) if not i.by_default and i.name.lower() in given), None):
        raise StatementRefused(
            f"Column {found} is GENERATED ALWAYS AS IDENTITY: leave it out of the rows",
            what="an identity column in the rows",
            table=table,
            condition=named("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", colName=found),
        )


def refuse_update(schema: StructType, names: set[str], table: str) -> None:
    """Raises StatementRefused where an update sets an identity column."""
    if found := next((i.name for i in identity_columns(schema) if i.name in names), None):
        raise StatementRefused(
            f"The identity column {found} cannot be updated",
            what="an update of an identity column",
            table=table,
            condition=named("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", colName=found),
        )
