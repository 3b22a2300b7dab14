"""The table's schema as immutable values, converted from and to the log's JSON.

Owns the data types that this version knows; others are refused by name (I9).  Column names are compared
ignoring case.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson

from rowlock.conditions import Condition, named
from rowlock.exceptions import CorruptLog, SchemaMismatch, UnsupportedFeature

PRIMITIVES = frozenset(
    ("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp", "timestamp_ntz", "variant", "void")
)
VOID = "void"
"""The type of a column that holds nothing but nulls: no data file has it."""
_OTHER_NAMES = {"null": VOID, "timestamp_ltz": "timestamp"}
"""Names that Spark knows beside those that it writes: Spark before 3.1 wrote `null`."""
ColumnPath = tuple[str, ...]
PHYSICAL_NAME = "delta.columnMapping.physicalName"
COLUMN_ID = "delta.columnMapping.id"
TYPE_CHANGES = "delta.typeChanges"
"""Key in a column's metadata that lists the types that the column had before type widening."""

COLLATIONS = "__COLLATIONS"
"""Key in a column's metadata that lists the collations of the text in it."""
RESERVED_PREFIX = "__rowlock_"
"""Begins the names of the columns that Rowlock adds to rows and data files for its own use; no table's column may begin so."""
ROW_INDEX = "_tmp_metadata_row_index"
"""The column under which Spark's reader of Parquet gives the number of a row in its file, a bigint, when it is asked for it; no table's column either."""

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
"""The types of whole numbers, by the log's names, and their widths."""

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^.`]*?))\s*(\.|$)")
_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_DECIMAL = re.compile(r"^decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)$")
REMOVING_MAPPING = "DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING"
_INVALID_CHARACTERS = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A primitive type, by the log's name for it; decimals have their own class."""

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal type."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        """The log's name of the type, such as `decimal(10,2)`."""
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array type."""

    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """A map type."""

    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class StructField:
    """A column, or a field of a struct."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        """The name in data files, statistics and partition values."""
        value = self.metadata.get(PHYSICAL_NAME)
        return value if isinstance(value, str) else self.name

    @property
    def column_id(self) -> int | None:
        """The column mapping id; None if the table does not map columns."""
        value = self.metadata.get(COLUMN_ID)
        return value if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct type; also the schema of a table."""

    fields: tuple[StructField, ...]
    _named: Mapping[str, StructField] = field(init=False, repr=False, compare=False)
    _folded: Mapping[str, StructField] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Lists the fields by name: a search of all for each of a thousand takes longer than the statement."""
        object.__setattr__(self, "_named", {f.name: f for f in reversed(self.fields)})
        object.__setattr__(self, "_folded", {f.name.lower(): f for f in reversed(self.fields)})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> StructField | None:
        """The field with this name ignoring case, preferring an exact match; None if there is none."""
        return self._named.get(name) or self._folded.get(name.lower())

    def trace(self, path: Sequence[str]) -> tuple[StructField, ...] | None:
        """The fields on a path of names through structs, ignoring case; None if there is no such column."""
        struct: DataType = self
        out: list[StructField] = []
        for name in path:
            found = struct.find(name) if isinstance(struct, StructType) else None
            if found is None:
                return None
            out.append(found)
            struct = found.type
        return tuple(out)

    def resolve(self, path: Sequence[str]) -> StructField | None:
        """The field at a path of names through structs, ignoring case; None if there is none."""
        return found[-1] if (found := self.trace(path)) else None

    def physical_path(self, path: Sequence[str]) -> ColumnPath | None:
        """The physical names on the path to a column, as used in data files and statistics; None if there is no such column."""
        found = self.trace(path)
        return None if found is None else tuple(f.physical_name for f in found)

    def spelled(self, *paths: Sequence[str]) -> ColumnPath | None:
        """The first of these paths that leads to a column, with its names as the schema spells them; None if none does."""
        found = next(filter(None, map(self.trace, paths)), None)
        return None if found is None else tuple(f.name for f in found)

    def leaves(self) -> Iterator[tuple[ColumnPath, StructField]]:
        """Every column or nested field that is not a struct, with its path of logical names, in schema order."""
        for f in self.fields:
            if isinstance(f.type, StructType):
                for path, leaf in f.type.leaves():
                    yield (f.name, *path), leaf
            else:
                yield (f.name,), f

    def all_fields(self) -> Iterator[tuple[ColumnPath, StructField]]:
        """Every field at any depth with its path, including those inside arrays and maps."""
        for f in self.fields:
            yield (f.name,), f
            for path, inner in _inner_fields(f.type):
                yield (f.name, *path), inner


DataType: TypeAlias = PrimitiveType | DecimalType | ArrayType | MapType | StructType


def lower_case(path: ColumnPath) -> ColumnPath:
    """The path in lower case, to compare paths ignoring case."""
    return tuple(part.lower() for part in path)


def column_path(name: str) -> ColumnPath:
    """The path that a column's SQL name denotes: a dot outside of back quotes separates a struct from its field, and space around a part does not count.

    A text that is no name, such as one with a single back quote, is one part, unchanged: it is looked up and not found.
    """
    parts: list[str] = []
    at, dot = 0, "."
    while dot:
        if (found := _PART.match(name, at)) is None:
            return (name,)
        quoted, plain, dot = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = found.end()
    return tuple(parts)


def column_name(path: ColumnPath) -> str:
    """A column's SQL name, as delta-spark writes it, too: parts that are no plain identifiers in back quotes."""
    return ".".join(p if _PLAIN.fullmatch(p) else quote(p) for p in path)


def quote(name: str) -> str:
    """A name of a column or a table in back quotes, for SQL and `F.col`."""
    return "`" + name.replace("`", "``") + "`"


def dotted(parts: Iterable[str]) -> str:
    """The parts of a name as one text of SQL, each in back quotes."""
    return ".".join(map(quote, parts))


def parts(type_: DataType) -> dict[str, DataType]:
    """What an array or a map holds, by the names of its parts: `element`, or `key` and `value`; empty for other types."""
    return {"element": type_.element} if isinstance(type_, ArrayType) else {"key": type_.key, "value": type_.value} if isinstance(type_, MapType) else {}


def shared_parts(one: DataType, other: DataType) -> dict[str, tuple[DataType, DataType]]:
    """The parts of two arrays, or of two maps, side by side; empty for all else."""
    return {name: (part, parts(other)[name]) for name, part in parts(one).items()} if type(one) is type(other) else {}


def with_parts(type_: DataType, changed: Mapping[str, DataType]) -> DataType:
    """An array or a map with other parts; another type, which has none, as it is."""
    return replace(type_, **changed) if changed else type_  # type: ignore[arg-type]


def map_fields(type_: DataType, change: Callable[[StructField], StructField]) -> DataType:
    """The type with every field of its structs, at any depth, changed; outer fields before inner ones."""
    if isinstance(type_, StructType):
        return StructType(tuple(replace(changed, type=map_fields(f.type, change)) for f in type_.fields for changed in [change(f)]))
    return with_parts(type_, {name: map_fields(part, change) for name, part in parts(type_).items()})


def nullable(schema: StructType) -> StructType:
    """The same columns, where all of them and all that is in them may be null."""
    return StructType(tuple(replace(f, type=nullable_type(f.type, metadata=True), nullable=True) for f in schema.fields))


def nullable_type(type_: DataType, *, metadata: bool = False) -> DataType:
    """The same type where all that is in it may be null; the metadata of fields is dropped unless `metadata`."""
    if isinstance(type_, StructType):
        return nullable(type_) if metadata else StructType(tuple(StructField(f.name, nullable_type(f.type)) for f in type_.fields))
    inner = {name: nullable_type(part, metadata=metadata) for name, part in parts(type_).items()}
    return type(type_)(**inner) if inner else type_  # type: ignore[arg-type]


def _inner_fields(type_: DataType) -> Iterator[tuple[ColumnPath, StructField]]:
    if isinstance(type_, StructType):
        yield from type_.all_fields()
    for name, part in parts(type_).items():
        yield from (((name, *path), f) for path, f in _inner_fields(part))


def parse_schema(schema_string: str, table: str | None = None) -> StructType:
    """The schema that a `schemaString` holds (Spark's `df.schema.json()` has the same format).

    Raises UnsupportedFeature for a type that this version does not know, CorruptLog if the text is not a schema.
    """
    try:
        parsed = type_from_json(orjson.loads(schema_string), table)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as e:
        raise CorruptLog(f"the table's schema cannot be read: {e}", table=table) from e
    if not isinstance(parsed, StructType):
        raise CorruptLog("the table's schema is not a struct", table=table)
    return parsed


def type_from_json(raw: Any, table: str | None = None) -> DataType:
    """The type that a part of a schema's JSON describes.  Raises UnsupportedFeature."""
    if isinstance(raw, str):
        return _primitive_from(raw, table)
    kind = raw["type"]
    if kind == "struct":
        return StructType(tuple(_field_from(f, table) for f in raw["fields"]))
    if kind == "array":
        return ArrayType(type_from_json(raw["elementType"], table), bool(raw.get("containsNull", True)))
    if kind == "map":
        return MapType(type_from_json(raw["keyType"], table), type_from_json(raw["valueType"], table), bool(raw.get("valueContainsNull", True)))
    raise unsupported_type(str(kind), table)


def _field_from(raw: Any, table: str | None) -> StructField:
    name, metadata = raw["name"], raw.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(metadata, dict):
        raise TypeError(f"a column has the name {name!r} and the metadata {metadata!r}")
    return StructField(name, type_from_json(raw["type"], table), bool(raw.get("nullable", True)), metadata)


def _primitive_from(name: str, table: str | None) -> DataType:
    name = _OTHER_NAMES.get(name, name)
    if name in PRIMITIVES:
        return PrimitiveType(name)
    if name == "decimal":
        return DecimalType(10, 0)
    if (decimal := _DECIMAL.match(name)) and 0 < int(decimal[1]) <= 38 and 0 <= int(decimal[2]) <= int(decimal[1]):
        return DecimalType(int(decimal[1]), int(decimal[2]))
    if name.startswith(("varchar(", "char(")):
        return PrimitiveType("string")
    raise unsupported_type(name, table)


def unsupported_type(name: str, table: str | None = None) -> UnsupportedFeature:
    """The error for a column type that this version cannot read."""
    condition = named("DELTA_UNSUPPORTED_DATA_TYPES", dataTypeList=name, config="spark.databricks.delta.schema.typeCheck.enabled")
    return UnsupportedFeature(f"columns of type {name} are not supported", feature=f"type {name}", access="read", table=table, condition=condition)


def check_no_collation(fields: Iterable[StructField], table: str | None = None) -> None:
    """Raises UnsupportedFeature for a new column of text with a collation, which needs a table feature that this version does not write."""
    for f in fields:
        if collation := next((inner.metadata[COLLATIONS] for _, inner in StructType((f,)).all_fields() if inner.metadata.get(COLLATIONS)), None):
            names = ", ".join(sorted(map(str, collation.values()))) if isinstance(collation, Mapping) else str(collation)
            what = f"column {f.name!r} has the collation {names}, and this version of Rowlock makes no columns with one"
            raise UnsupportedFeature(f"{what}: leave it out and compare with COLLATE in queries", feature="collations", access="write", table=table)


def reserved_names(names: Iterable[str]) -> list[str]:
    """The names that Rowlock uses for columns of its own; upper and lower case are the same, as in Spark."""
    return [name for name in names if name.lower().startswith((RESERVED_PREFIX, ROW_INDEX))]


def type_names(type_: DataType) -> frozenset[str]:
    """The names of the primitive and decimal types in a type, at any depth."""
    if isinstance(type_, (PrimitiveType, DecimalType)):
        return frozenset({type_.name})
    inner = [f.type for f in type_.fields] if isinstance(type_, StructType) else parts(type_).values()
    return frozenset(name for part in inner for name in type_names(part))


def void_within(schema: StructType) -> str | None:
    """The name of the first column that no file could hold for the type void in it: inside of an array or a map, or as all that a struct has; None if there is none."""
    return next((f.name for f in schema.fields if _no_file_holds(f.type)), None)


def _no_file_holds(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return type_names(type_) == {VOID} or any(map(_no_file_holds, (f.type for f in type_.fields)))
    return any(VOID in type_names(part) for part in parts(type_).values())


def schema_json(schema: StructType) -> str:
    """The `schemaString` of a schema."""
    return orjson.dumps(_type_json(schema)).decode()


def _type_json(type_: DataType) -> Any:
    if isinstance(type_, StructType):
        fields = [{"name": f.name, "type": _type_json(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)} for f in type_.fields]
        return {"type": "struct", "fields": fields}
    if isinstance(type_, ArrayType):
        return {"type": "array", "elementType": _type_json(type_.element), "containsNull": type_.contains_null}
    if isinstance(type_, MapType):
        return {"type": "map", "keyType": _type_json(type_.key), "valueType": _type_json(type_.value), "valueContainsNull": type_.value_contains_null}
    return type_.name


def type_name(type_: DataType, *, sql: bool = False) -> str:
    """The name of a type for people, such as `array<struct<a:long>>`; with `sql` in the words of SQL, `array<struct<a:bigint>>`."""
    if isinstance(type_, StructType):
        return "struct<" + ",".join(f"{f.name}:{type_name(f.type, sql=sql)}" for f in type_.fields) + ">"
    if isinstance(type_, ArrayType):
        return f"array<{type_name(type_.element, sql=sql)}>"
    if isinstance(type_, MapType):
        return f"map<{type_name(type_.key, sql=sql)},{type_name(type_.value, sql=sql)}>"
    return _SQL_NAMES.get(type_.name, type_.name) if sql else type_.name


def check_characters(schema: StructType, table: str | None, condition: str = "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES") -> None:
    """Raises SchemaMismatch, with this condition, for a name that only a table with column mapping may have."""
    for path, _ in schema.all_fields():
        if bad := sorted(set(path[-1]) & _INVALID_CHARACTERS):
            text = f"column {'.'.join(path)!r} holds {''.join(bad)!r}; without column mapping a name may contain none of ' ,;{{}}()\\n\\t='"
            raise SchemaMismatch(text, table=table, condition=named(condition, invalidColumnNames=path[-1]))


def validate_new_schema(schema: StructType, partition_columns: Sequence[str] = (), *, column_mapping: bool = False, table: str | None = None) -> None:
    """Raises SchemaMismatch for a schema that no Delta table may have, UnsupportedFeature for a type that cannot be written."""
    check_duplicates(schema, "", table)
    if reserved := reserved_names(schema.names):
        raise SchemaMismatch(f"a column cannot be named {reserved[0]!r}: {RESERVED_PREFIX}... and {ROW_INDEX} are Rowlock's own; rename it", table=table)
    if inner := void_within(schema):
        text = f"column {inner} has the type {VOID} inside of an array or a map, or nothing else in a struct"
        condition = named("DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE")
        raise UnsupportedFeature(text, feature=f"type {VOID} within a column", access="write", table=table, condition=condition)
    stored = tuple(f for f in schema.fields if f.name.lower() not in {p.lower() for p in partition_columns})
    if stored and all(f.type == PrimitiveType(VOID) for f in stored):
        text = f"every column has the type {VOID}, and no data file could hold a row: give the table another column"
        raise SchemaMismatch(text, table=table, condition=named("DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS"))
    if not column_mapping:
        check_characters(StructType(stored), table)
        check_characters(schema, table, "DELTA_INVALID_PARTITION_COLUMN_NAME")
    seen: set[str] = set()
    for name in partition_columns:
        if name.lower() in seen:
            raise SchemaMismatch(f"partition column {name!r} is named twice; name it once", table=table)
        seen.add(name.lower())
        found = schema.find(name)
        if found is None:
            condition = named("DELTA_PARTITION_COLUMN_NOT_FOUND", columnName=quote(name), schemaMap=", ".join(schema.names))
            raise SchemaMismatch(f"partition column {name!r} is not in the schema", table=table, condition=condition)
        if isinstance(found.type, (StructType, ArrayType, MapType)) or found.type.name in ("variant", VOID):
            text = f"column {name!r} of type {type_name(found.type)} cannot partition a table"
            raise SchemaMismatch(text, table=table, condition=named("INVALID_PARTITION_COLUMN_DATA_TYPE", type=type_name(found.type, sql=True).upper()))
    if partition_columns and len({p.lower() for p in partition_columns}) == len(schema.fields):
        text = "a table needs a column that is not a partition column"
        raise SchemaMismatch(text, table=table, condition=named("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"))


def check_enforceable(schema: StructType, table: str | None = None) -> None:
    """Raises SchemaMismatch for NOT NULL inside array elements, map keys or map values, where Delta's writers do not enforce it."""
    for path, f in schema.all_fields():
        for part, type_ in parts(f.type).items():
            if has_not_null(type_):
                text = f"the {part} type of {'.'.join(path)} has a NOT NULL, which Delta does not enforce within arrays and maps; leave it out"
                raise SchemaMismatch(text, table=table, condition=named("DELTA_NESTED_NOT_NULL_CONSTRAINT"))


def has_not_null(type_: DataType) -> bool:
    """Whether anything inside a type is NOT NULL."""
    if isinstance(type_, StructType):
        return any(not f.nullable or has_not_null(f.type) for f in type_.fields)
    strict = not type_.contains_null if isinstance(type_, ArrayType) else isinstance(type_, MapType) and not type_.value_contains_null
    return strict or any(map(has_not_null, parts(type_).values()))


def check_duplicates(type_: DataType, where: str, table: str | None) -> None:
    """Raises SchemaMismatch where two fields of one struct have the same name; `where` is the path to the type, with a dot at its end."""
    if isinstance(type_, StructType):
        seen: dict[str, str] = {}
        for f in type_.fields:
            if (other := seen.get(f.name.lower())) is not None:
                text = f"columns {where}{other} and {where}{f.name} have the same name"
                raise SchemaMismatch(text, table=table, condition=named("COLUMN_ALREADY_EXISTS", columnName=quote(f.name)))
            seen[f.name.lower()] = f.name
            check_duplicates(f.type, f"{where}{f.name}.", table)
    for name, part in parts(type_).items():
        check_duplicates(part, f"{where}{name}.", table)


def unresolved_column(path: Sequence[str], names: Sequence[str]) -> Condition:
    """The condition for a column that is not among `names`."""
    return named("UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName=dotted(path), proposal=", ".join(map(quote, names)))
