"""Decides whether rows fit the columns of a table: the rules of every append, stated once for all engines; and which type widens into which.  Pure.

An engine translates the types of its rows into `rowlock.protocol.schema`, asks here, and then only casts.  The rules:

- Columns and struct fields are matched by name without regard to case; names must differ by more than case.
- A column that the table lacks is refused; `merged_schema` adds it where the caller asked for that.
- A column or field that the rows lack is null, and is refused where it or a field of its structs is NOT NULL.
- A type fits where every value of it is exactly a value of the column's type (`is_wider`), also within structs, arrays and maps.
- Nulls of the rows are no matter of types: the rows themselves are checked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rowlock.conditions import Condition, named
from rowlock.display import did_you_mean
from rowlock.exceptions import SchemaMismatch
from rowlock.protocol.schema import (
    INTEGER_BITS,
    TYPE_CHANGES,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    nullable,
    nullable_type,
    quote,
    shared_parts,
    type_name,
    with_parts,
)

Widening = Callable[[DataType, DataType], bool]
"""Whether a column of one type may be widened to another."""

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def is_wider(actual: DataType, wanted: DataType) -> bool:
    """Whether every value of type `actual` converts to type `wanted` without loss."""
    if actual == PrimitiveType("void"):
        return True
    if isinstance(actual, DecimalType):
        return isinstance(wanted, DecimalType) and wanted.scale >= actual.scale and wanted.precision - wanted.scale >= actual.precision - actual.scale
    if isinstance(actual, ArrayType) and isinstance(wanted, ArrayType):
        return is_wider(actual.element, wanted.element) or same_shape(actual.element, wanted.element)
    if actual == PrimitiveType("date"):
        return wanted == PrimitiveType("timestamp_ntz")
    return isinstance(actual, PrimitiveType) and _is_wider_number(actual.name, wanted)


def _is_wider_number(actual: str, wanted: DataType) -> bool:
    if actual == "float":
        return wanted == PrimitiveType("double")
    bits = INTEGER_BITS.get(actual)
    if bits is None:
        return False
    if isinstance(wanted, DecimalType):
        return wanted.precision - wanted.scale >= _DIGITS[actual]
    return isinstance(wanted, PrimitiveType) and bits <= {**INTEGER_BITS, "double": 32, "float": 16}.get(wanted.name, 0)


def same_shape(a: DataType, b: DataType) -> bool:
    """Whether two types are equal apart from nullability and metadata; struct field names must match exactly."""
    if isinstance(a, StructType) and isinstance(b, StructType):
        return len(a.fields) == len(b.fields) and all(x.name == y.name and same_shape(x.type, y.type) for x, y in zip(a.fields, b.fields, strict=True))
    inner = shared_parts(a, b).values()
    return all(same_shape(x, y) for x, y in inner) if inner else a == b


def may_become(old: DataType, new: DataType) -> bool:
    """Whether ALTER COLUMN may widen a column of one type to another: whole numbers, decimals, byte, short or int to double or a decimal of 10 digits, and date
    to timestamp_ntz."""
    if isinstance(new, DecimalType) and isinstance(old, PrimitiveType):
        # The decimals as which Parquet's readers take these types.
        return old.name in _DIGITS and new.precision - new.scale >= (20 if old.name == "long" else 10)
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType) and new.name in ("double", "float"):
        return new.name == "double" and old.name in ("byte", "short", "integer", "float")
    return old != new and not isinstance(old, ArrayType) and old != PrimitiveType("void") and is_wider(old, new)


def stays_in_family(old: DataType, new: DataType) -> bool:
    """Whether a column may be widened to a type of the same kind: no whole number to a decimal or a double."""
    return (
        may_become(old, new)
        and (isinstance(old, DecimalType) == isinstance(new, DecimalType))
        and (old == PrimitiveType("float") or new != PrimitiveType("double"))
    )


def with_type(field: StructField, wanted: DataType, may: Widening) -> StructField:
    """The field with the wanted type wherever in it `may` lets the present type become that, and with these changes in its metadata.

    Fields of structs record their own changes; those of the elements, keys and values of arrays and maps stand at the field, by their place in it.
    """
    changes: list[dict[str, str]] = []

    def at(old: DataType, new: DataType, *place: str) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return StructType(tuple(f if (found := new.find(f.name)) is None else with_type(f, found.type, may) for f in old.fields))
        if inner := shared_parts(old, new):
            return with_parts(old, {name: at(a, b, *place, name) for name, (a, b) in inner.items()})
        if not may(old, new):
            return old
        changes.append({"toType": type_name(new), "fromType": type_name(old)} | ({"fieldPath": ".".join(place)} if place else {}))
        return new

    widened = replace(field, type=at(field.type, wanted))
    return replace(widened, metadata={**field.metadata, TYPE_CHANGES: [*field.metadata.get(TYPE_CHANGES, ()), *changes]}) if changes else widened


MERGE_SCHEMA = "merge_schema=True, by format name the option mergeSchema, in SQL INSERT WITH SCHEMA EVOLUTION"
"""How each entrance spells it."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Which column of the rows fills each column of the table: `given` maps the table's names, in order, to those of the rows, or to None."""

    given: Mapping[str, str | None]

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns for which the rows have values."""
        return tuple(name for name, given in self.given.items() if given is not None)


def fit(rows: StructType, columns: StructType, table: str, *, computed: Collection[str] = (), widening: Widening | None = None) -> Fit:
    """How rows with the schema `rows` fill the columns of `table`; `computed` are columns whose values the engine makes where the rows lack them.

    `widening`: what a write that evolves the schema could widen, which is told in the error of one that does not.
    Raises SchemaMismatch for an unknown column, an absent NOT NULL column, and a type that does not fit.
    """
    have = _by_name(rows, table)
    if unknown := [f.name for f in rows.fields if columns.find(f.name) is None]:
        raise SchemaMismatch(
            f"The table has no column {unknown[0]!r}; it has {', '.join(columns.names) or 'none'}{did_you_mean(unknown[0], columns.names)}. "
            f"Drop the column, or let the write add it: {MERGE_SCHEMA}",
            table=table,
            condition=named("DELTA_METADATA_MISMATCH"),
        )
    given: dict[str, str | None] = {}
    for f in columns.fields:
        found = have.get(f.name.lower())
        given[f.name] = None if found is None else found.name
        if found is not None:
            _check_type(found.type, f.type, f.name, table, widening)
        elif f.name not in computed and (must := required_in(f)) is not None:
            absent = named("DELTA_INSERT_COLUMN_MISMATCH", columnName=must)
            raise SchemaMismatch(f"Column {must} is NOT NULL and the rows do not have it", table=table, condition=absent)
    return Fit(given)


def check_names(names: Iterable[str], table: str, *, of_table: bool = False) -> None:
    """Raises SchemaMismatch where two columns of the rows have names that differ only by case, or not at all; `of_table`: the table is to get them."""
    seen: dict[str, tuple[int, str]] = {}
    for n, name in enumerate(names):
        if (before := seen.setdefault(name.lower(), (n, name)))[0] != n:
            twice = named("DELTA_DUPLICATE_COLUMNS_FOUND.DATA", duplicateCols=name.lower())
            condition = named("COLUMN_ALREADY_EXISTS", columnName=quote(name.lower())) if of_table else twice
            text = f"The rows have two columns that differ at most by case, {before[1]!r} and {name!r}; rename or drop one"
            raise SchemaMismatch(text, table=table, condition=condition)


def type_changes(before: DataType, after: DataType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataType, DataType]]:
    """The places in `before`, such as (`m`, `value`, `x`), that have another type in `after`, with both; not those that were of type void."""
    if isinstance(before, StructType) and isinstance(after, StructType):
        for field in before.fields:
            if (found := after.find(field.name)) is not None:
                yield from type_changes(field.type, found.type, (*path, field.name))
    elif inner := shared_parts(before, after):
        for name, (old, new) in inner.items():
            yield from type_changes(old, new, (*path, name))
    elif before not in (after, PrimitiveType(VOID)):
        yield path, before, after


def merged_schema(table: StructType, rows: StructType, *, widening: Widening | None = None) -> StructType:
    """The table's schema with the columns of the rows that it lacks, and the fields of its structs, added at the end, nullable with all that is in them.

    With `widening` a column takes the type of the rows where that lets its own become it.
    """
    have, given = {f.name.lower() for f in table.fields}, {f.name.lower(): f for f in rows.fields}

    def merged(field: StructField) -> StructField:
        found = given.get(field.name.lower())
        if found is None:
            return field
        longer = replace(field, type=_merged_type(field.type, found.type))
        return with_type(longer, found.type, widening) if widening else longer

    return StructType((*map(merged, table.fields), *(f for f in nullable(rows).fields if f.name.lower() not in have)))


def goes_by_name(rows: StructType, names: Sequence[str], table: StructType, widening: Widening | None) -> bool:
    """Whether an INSERT of rows into the columns `names`, by position, matches the fields of structs by their names, as delta-spark does: where the rows have
    the columns' names, and no value is cast, but columns that are too narrow are widened."""

    def holds(have: DataType, want: DataType) -> bool:
        """Whether a value has all fields that are wanted, in any order, and each the wanted type."""
        if isinstance(have, StructType) and isinstance(want, StructType):
            given = {f.name: f.type for f in have.fields}
            return all(f.name in given and holds(given[f.name], f.type) for f in want.fields)
        inner = shared_parts(have, want)
        return all(holds(*both) for both in inner.values()) if inner else have == want or (widening is not None and widening(want, have))

    columns = [table.find(n) or replace(r, name=n) for r, n in zip(rows.fields, names, strict=True)]
    return all(r.name == c.name and holds(r.type, c.type) for r, c in zip(rows.fields, columns, strict=True))


def listed_by_name(rows: StructType, names: Sequence[str], table: StructType, widening: Widening | None) -> StructType | None:
    """The columns of an INSERT that lists them where structs in arrays and maps go by the names of their fields, as delta-spark has it: where it names them
    as the table does, and no value is cast.

    A column that is a struct goes by position all the same where its fields have other names or another order, and has the table's names here.  None where all go by position.
    """
    given: list[StructField] = []
    for r, name in zip(rows.fields, names, strict=True):
        c = table.find(name) or replace(r, name=name)
        moved = isinstance(r.type, StructType) and isinstance(c.type, StructType) and r.type.names != c.type.names
        given.append(replace(c, name=name, type=named_by_place(r.type, c.type) if moved else r.type))
    placed, wanted = StructType(tuple(given)), StructType(tuple(table.find(f.name) or f for f in given))
    return placed if named_by_place(placed, wanted) != placed and goes_by_name(placed, names, table, widening) else None


def named_by_place(rows: DataType, table: DataType) -> DataType:
    """The type of rows that go by position: the fields of structs have the names of the table's in the same places, those beyond them their own."""
    if not (isinstance(rows, StructType) and isinstance(table, StructType)):
        return with_parts(rows, {name: named_by_place(*both) for name, both in shared_parts(rows, table).items()})
    known = [replace(r, name=t.name, type=named_by_place(r.type, t.type)) for r, t in zip(rows.fields, table.fields, strict=False)]
    return StructType((*known, *rows.fields[len(known) :]))


def _merged_type(table: DataType, rows: DataType) -> DataType:
    """The table's type with the fields that the structs of the rows' type have beyond those of its own, also in arrays and maps; of void the rows' type."""
    if table == PrimitiveType(VOID):
        return nullable_type(rows)
    if isinstance(table, StructType) and isinstance(rows, StructType):
        return merged_schema(table, rows)
    return with_parts(table, {name: _merged_type(*both) for name, both in shared_parts(table, rows).items()})


def required_in(field: StructField) -> str | None:
    """The dotted name of what must not be null in a field that the rows lack: the field itself, or a field in its structs; None where all may be null."""
    if not field.nullable:
        return field.name
    inner = field.type.fields if isinstance(field.type, StructType) else ()
    return next((f"{field.name}.{found}" for f in inner if (found := required_in(f)) is not None), None)


def _by_name(struct: StructType, table: str) -> dict[str, StructField]:
    """The fields by their names in lower case.  Raises SchemaMismatch where two have the same."""
    check_names(struct.names, table)
    return {f.name.lower(): f for f in struct.fields}


def _check_type(actual: DataType, wanted: DataType, name: str, table: str, widening: Widening | None) -> None:
    """Raises SchemaMismatch unless every value of the rows' type is one of the column's."""
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        _check_fields(actual, wanted, name, table, widening)
    elif inner := shared_parts(actual, wanted):
        for part, (have, want) in inner.items():
            _check_type(have, want, f"{name}.{part}", table, widening)
    elif not (actual == wanted or is_wider(actual, wanted)):
        merges = wanted == PrimitiveType(VOID) or (actual in _WITHIN_AN_INT and wanted in _WITHIN_AN_INT) or (widening and widening(wanted, actual))
        raise _not_merged(actual, wanted, name, table, named("DELTA_METADATA_MISMATCH") if merges else None)  # mergeSchema would take it


_WITHIN_AN_INT = tuple(map(PrimitiveType, ("byte", "short", "integer")))


def _not_merged(actual: DataType, wanted: DataType, name: str, table: str, condition: Condition | None = None) -> SchemaMismatch:
    text = f"Column {name} is {type_name(wanted, sql=True)} in the table and {type_name(actual, sql=True)} in the rows; cast it"
    return SchemaMismatch(text, table=table, condition=condition or named("DELTA_FAILED_TO_MERGE_FIELDS", currentField=name, updateField=name))


def check_merged(rows: StructType, columns: StructType, table: str) -> None:
    """Raises SchemaMismatch for a column whose values in the rows Spark does not cast to the column's type without being asked (TypeCoercion.implicitCast)."""
    for f in columns.fields:
        if (given := rows.find(f.name)) is not None and not _is_cast(given.type, f.type):
            raise _not_merged(given.type, f.type, f.name, table)


def _is_cast(actual: DataType, wanted: DataType) -> bool:
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        return all(_is_cast(given.type, f.type) for f in wanted.fields if (given := actual.find(f.name)) is not None)
    if inner := shared_parts(actual, wanted).values():
        return all(_is_cast(*both) for both in inner)
    one, other = _kind(actual), _kind(wanted)
    return actual == wanted or VOID in (one, other) or (one == other and one in _CASTS) or other in _CASTS.get(one, "").split()


_CASTS = {"number": "string", "time": "string", "string": "number time binary", "boolean": "string", "binary": "string"}


def _kind(type_: DataType) -> str:
    """What of its kind Spark casts into each other: number, time, or the name of the type."""
    if isinstance(type_, DecimalType):
        return "number"
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    return "number" if name in (*INTEGER_BITS, "float", "double") else "time" if name in ("date", "timestamp", "timestamp_ntz") else name


def _check_fields(actual: StructType, wanted: StructType, name: str, table: str, widening: Widening | None) -> None:
    have = _by_name(actual, table)
    if extra := set(have) - {f.name.lower() for f in wanted.fields}:
        text = f"Column {name} has no field {min(extra)!r} in the table; leave it out of the rows, or let the write add it: {MERGE_SCHEMA}"
        raise SchemaMismatch(text, table=table, condition=named("DELTA_METADATA_MISMATCH"))
    for f in wanted.fields:
        given = have.get(f.name.lower())
        if given is not None:
            _check_type(given.type, f.type, f"{name}.{f.name}", table, widening)
        elif (must := required_in(f)) is not None:
            raise SchemaMismatch(f"Field {name}.{must} is NOT NULL and the rows do not have it", table=table)
