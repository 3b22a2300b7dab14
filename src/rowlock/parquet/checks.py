"""Checks rows on the driver, without Spark: NOT NULL at any nesting depth, also of data files that were just written, and CHECK constraints.

The latter where every engine decides them alike by `protocol.constraints` (I9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from rowlock.conditions import named
from rowlock.exceptions import ConstraintViolated, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.files import open_parquet
from rowlock.parquet.physical import Doubtful, names_in_files, rows_schema
from rowlock.parquet.reading import read_file
from rowlock.parquet.values import plain_rows
from rowlock.protocol import char_varchar
from rowlock.protocol.actions import AddFile
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR
from rowlock.protocol.constraints import Check, Undecided, checks_of, parsed
from rowlock.protocol.deletion_vector import living_mask
from rowlock.protocol.evaluation import Mask, Places, as_mask, may_hold
from rowlock.protocol.intervals import Interval, of_rows
from rowlock.protocol.predicates import Call, Column, Compare, IsNull, Literal, Or, Predicate
from rowlock.protocol.schema import ArrayType, ColumnPath, DataType, MapType, StructType, has_not_null, lower_case
from rowlock.protocol.statistics import footer_statistics, leaves_of
from rowlock.storage.store import ObjectStore


def check_rows(table: pa.Table, snapshot: Snapshot, root: str) -> pa.Table:
    """Returns the rows as readers will find them: an empty text, or binary value, in a partition column is null.

    Raises ConstraintViolated, which names the first column or nested field that is null against its NOT NULL.
    """
    for at, name in enumerate(table.column_names):
        if name in snapshot.metadata.partition_columns and (pa.types.is_string(table.field(at).type) or pa.types.is_binary(table.field(at).type)):
            empty = pc.equal(pc.binary_length(table.column(at)), 0)
            table = table.set_column(at, name, pc.if_else(empty, None, table.column(at))) if pc.any(empty).as_py() else table
    held = set(table.column_names)  # which pyarrow lists anew each time that it is asked
    for field in snapshot.schema.fields:
        if field.name in held and (not field.nullable or has_not_null(field.type)):
            _check(table.column(field.name), field.type, field.nullable, field.name, root)
    return table


def _check(values: Any, type_: DataType, nullable: bool, name: str, root: str) -> None:
    """Checks one column or nested field.  As in delta-spark, a null struct violates NOT NULL of its fields; a null array or map has no elements."""
    if not nullable and values.null_count:
        raise null_in(name, root)
    if not has_not_null(type_):
        return
    if isinstance(type_, StructType):
        for f in type_.fields:
            _check(pc.struct_field(values, values.type.get_field_index(f.name)), f.type, f.nullable, f"{name}.{f.name}", root)
    elif isinstance(type_, ArrayType):
        _check_elements(pc.list_flatten(values), type_.element, type_.contains_null, f"{name}.element", root)
    elif isinstance(type_, MapType):
        entry = pa.struct([pa.field("key", values.type.key_type), pa.field("value", values.type.item_type)])
        entries = pc.list_flatten(values.cast(pa.list_(entry)))  # MapArray.keys and .items ignore the slice of an array
        _check_elements(pc.struct_field(entries, 0), type_.key, False, f"{name}.key", root)
        _check_elements(pc.struct_field(entries, 1), type_.value, type_.value_contains_null, f"{name}.value", root)


def _check_elements(values: Any, type_: DataType, nullable: bool, name: str, root: str) -> None:
    _check(pc.drop_null(values) if nullable and values.null_count else values, type_, nullable, name, root)


def check_not_null(files: Sequence[AddFile], snapshot: Snapshot, store: ObjectStore, dead: Mapping[str, BitMap64] | None = None) -> None:
    """Checks NOT NULL of columns and nested fields of written files, by the null counts of their footers.  Raises ConstraintViolated.

    A footer may count a null though no row is at fault: an empty array has no element, and the row may be one of the
    `dead`.  So a column of which a footer counts a null is read and checked.
    """
    partitions = snapshot.metadata.partition_columns
    stored = names_in_files(snapshot)
    paths_in_files = ((path, snapshot.schema.physical_path(path)) for path in _demanding_paths((), snapshot.schema))
    required = [(lower_case(in_file), path[0]) for path, in_file in paths_in_files if in_file is not None and path[0] not in partitions]
    valued = [f.name for f in snapshot.schema.fields if f.name in partitions and not f.nullable]
    for file in files:
        if not file.num_records:
            continue
        for name in valued:
            if file.partition_values.get(stored[name]) is None:
                raise null_in(name, store.root)
        if not required:
            continue
        with open_parquet(store, file.path, file.size_bytes) as source:
            metadata = source.metadata
        known = leaves_of(metadata)
        leaves = [(lower_case(leaf.path), leaf.index) for leaf in known or ()]
        doubtful = {
            top for start, top in required if known is None or _may_be_null(metadata, [at for leaf, at in leaves if leaf[: len(start)] == start], start)
        }
        if doubtful:
            columns = [n for n in snapshot.schema.names if n in doubtful]
            table = _as_read(store, file, columns, snapshot)
            if dropped := (dead or {}).get(file.path):
                table = table.filter(pa.array(living_mask(table.num_rows, dropped, file.path, store.root)))
            check_rows(table, snapshot, store.root)


def _as_read(store: ObjectStore, file: AddFile, names: Sequence[str], snapshot: Snapshot) -> pa.Table:
    """Columns of a file under the table's own names; null where the file lacks one, which is older than it or has the type void."""
    try:
        return read_file(store, file, snapshot, pa.schema([f for f in rows_schema(snapshot) if f.name in names]))
    except Doubtful as e:
        text = f"{file.path} cannot be checked for nulls in NOT NULL columns: {e}"
        raise UnsupportedFeature(text, feature=e.feature, access="read", table=store.root) from e


def _demanding_paths(path: tuple[str, ...], type_: DataType) -> Iterator[tuple[str, ...]]:
    """Yields the paths at which null is forbidden: fields of structs, and whole arrays or maps that have such an element."""
    if isinstance(type_, StructType):
        for f in type_.fields:
            if f.nullable:
                yield from _demanding_paths((*path, f.name), f.type)
            else:
                yield (*path, f.name)
    elif has_not_null(type_):
        yield path


def _may_be_null(metadata: pq.FileMetaData, leaves: Sequence[int], path: tuple[str, ...]) -> bool:
    """Whether what lies at a path of the table may be null in a file; all of a column that the file lacks is."""
    return any(_may_hold_null(metadata, at) for at in leaves) or (not leaves and len(path) == 1)


def _may_hold_null(metadata: pq.FileMetaData, column: int) -> bool:
    found = footer_statistics(metadata, column)
    return any(s is None or not s.has_null_count or s.null_count for s in found)


def null_in(name: str, table: str) -> ConstraintViolated:
    """The error for a null in NOT NULL column `name`."""
    text = f"Column {name} is NOT NULL and the statement would write a null into it; filter such rows out or give a value"
    return ConstraintViolated(text, table=table, condition=named("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", columnName=name))


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
        for name, bound in char_varchar.bounds(schema).items():
            if char_varchar.name_of(name, bound) == check.name:
                column = Column((name,))
                return Or((IsNull(column), Compare("<=", Call("length", (column,)), Literal(bound.length))))
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
        kind = "CHECK constraint"
        condition = named("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", constraintName=check.name, expression=check.expression, values=values)
    text = f"{kind} {check.name} ({check.expression}) is not true of a row that the statement would write: {row}; filter such rows out or change them"
    return ConstraintViolated(text, table=root, constraint=check.name, expression=check.expression, row=row, condition=condition)


def holds(condition: Predicate, table: pa.Table, schema: StructType) -> Mask:
    """The rows of which a condition is true; a condition that cannot be evaluated is refused (I9)."""

    def column(path: ColumnPath) -> Interval | None:
        field = schema.find(path[0])
        return None if field is None else of_rows(table.column(field.name), field.type)

    return as_mask(pc.fill_null(may_hold(condition, Places(column)), False), table.num_rows)
