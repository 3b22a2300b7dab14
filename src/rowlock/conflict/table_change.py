"""How winners changed the table's definition, so that staged work can be checked against it.

Columns are identified by column id on tables with column mapping, else by name.  A change that only constrains rows
(a new constraint, NOT NULL) is handled by checking the staged rows; one that changes what a statement means, by
staging it again.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowlock.conflict.rules import all_features, is_harmless_property
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.constraints import INVARIANTS, checks_of, is_constraint
from rowlock.protocol.identity import HIGH_WATER_MARK
from rowlock.protocol.properties import column_mapping_mode
from rowlock.protocol.schema import COLUMN_ID, PHYSICAL_NAME, DataType, StructField, StructType, nullable_type, parse_schema

_DESCRIPTIVE = frozenset({"comment"})
"""Keys of a column's metadata that only people read."""
_COMPARED_ELSEWHERE = frozenset({COLUMN_ID, PHYSICAL_NAME, INVARIANTS, HIGH_WATER_MARK})
"""Keys of a column's metadata that are compared elsewhere, or that only move: staged rows have numbers of their own."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """The differences between two definitions of a table that matter to staged work.

    added       new nullable columns, as dotted names
    lost        columns that were dropped or renamed, by their old names
    retyped     columns with another type, and new columns that are NOT NULL
    moved       whether the order of columns changed
    checked     new conditions on rows: constraints, and columns that became NOT NULL
    other       everything else, by name: properties, partitioning, column metadata
    """

    added: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    moved: bool = False
    checked: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed that matters to staged work."""
        return self.same_columns and not (self.checked or self.other)

    @property
    def same_columns(self) -> bool:
        """Whether a plan that was resolved against the old columns still means the same."""
        return not (self.added or self.lost or self.retyped or self.moved)

    def affects(self, columns: Iterable[str]) -> bool:
        """Whether any of these columns (by their old names), or a field in one, was dropped, renamed or retyped."""
        given = tuple(columns)
        return any(name == c or name.startswith(f"{c}.") for name in (*self.lost, *self.retyped) for c in given)  # a column's own name may have a dot

    @property
    def names(self) -> tuple[str, ...]:
        """The names of everything that changed, for an error message."""
        order = ("the order of columns",) if self.moved else ()
        return (*self.lost, *self.retyped, *self.added, *self.checked, *self.other) or order


def table_change(before: Metadata, after: Metadata, protocol: Protocol) -> TableChange:
    """The differences between two definitions of a table; `protocol` is that after the change."""
    old, new = parse_schema(before.schema_string), parse_schema(after.schema_string)
    columns = _Columns(mapped=column_mapping_mode(before.configuration) != "none" and column_mapping_mode(after.configuration) != "none")
    columns.compare(old, new, ())
    features = all_features(protocol)
    keys = sorted(before.configuration.keys() | after.configuration.keys())
    pairs = [(k, before.configuration.get(k), after.configuration.get(k)) for k in keys]
    other = [
        k
        for k, a, b in pairs
        if a != b and not is_constraint(k) and not _is_highest_column_id(k, columns.mapped) and not is_harmless_property(k, a, b, features)
    ]
    if _partitions(before, old, columns.mapped) != _partitions(after, new, columns.mapped):
        other.append("partitioning")
    if (before.id, before.format_provider) != (after.id, after.format_provider):
        other.append("identity of the table")
    checks = set(checks_of(after, new)) - set(checks_of(before, old))
    return TableChange(
        added=tuple(columns.added),
        lost=tuple(columns.lost),
        retyped=tuple(columns.retyped),
        moved=columns.moved,
        checked=(*columns.tightened, *sorted(c.name for c in checks)),
        other=(*columns.other, *other),
    )


def _is_highest_column_id(key: str, mapped: bool) -> bool:
    """Whether the property is the highest column id, which grows with every new column."""
    return mapped and key == "delta.columnMapping.maxColumnId"


def _partitions(metadata: Metadata, schema: StructType, mapped: bool) -> list[Any]:
    found = [schema.find(name) for name in metadata.partition_columns]
    return [_identity(f, mapped) for f in found if f is not None]


def _identity(field: StructField, mapped: bool) -> Any:
    return field.column_id if mapped and field.column_id is not None else field.name


class _Columns:
    """Compares two schemas column by column; the attributes are those of `TableChange`."""

    def __init__(self, *, mapped: bool) -> None:
        self.mapped = mapped
        self.added: list[str] = []
        self.lost: list[str] = []
        self.retyped: list[str] = []
        self.tightened: list[str] = []
        self.other: list[str] = []
        self.moved = False

    def compare(self, old: StructType, new: StructType, where: Sequence[str]) -> None:
        """Adds the differences between two structs at the path `where`."""
        known: Mapping[Any, StructField] = {_identity(f, self.mapped): f for f in old.fields}
        there = {_identity(f, self.mapped) for f in new.fields}
        self.lost += [_dotted(where, f) for f in old.fields if _identity(f, self.mapped) not in there]
        self.moved = self.moved or [k for k in known if k in there] != [k for f in new.fields if (k := _identity(f, self.mapped)) in known]
        for field in new.fields:
            before = known.get(_identity(field, self.mapped))
            if before is None:
                (self.added if field.nullable else self.retyped).append(_dotted(where, field))
                self.other += [_dotted(where, field)] if _writer_metadata(field) else []
            elif before.name != field.name or before.physical_name != field.physical_name:
                self.lost.append(_dotted(where, before))
            else:
                self._field(before, field, where)

    def _field(self, before: StructField, field: StructField, where: Sequence[str]) -> None:
        name = _dotted(where, field)
        if isinstance(before.type, StructType) and isinstance(field.type, StructType):
            self.compare(before.type, field.type, (*where, field.name))
        elif nullable_type(before.type) != nullable_type(field.type) or _inner_fields(before.type) != _inner_fields(field.type):
            self.retyped.append(name)
        elif before.type != field.type:
            self.tightened.append(name)
        if before.nullable and not field.nullable:
            self.tightened.append(name)
        if _writer_metadata(before) != _writer_metadata(field):
            self.other.append(name)


def _writer_metadata(field: StructField) -> dict[str, Any]:
    """The column metadata that affects writers: defaults, generation expressions, identity."""
    return {k: v for k, v in field.metadata.items() if k not in _DESCRIPTIVE | _COMPARED_ELSEWHERE}


def _inner_fields(type_: DataType) -> list[Any]:
    """(path, id, physical name) of each field inside an array or map."""
    holder = StructType((StructField("", type_),))
    return [(path, f.column_id, f.physical_name) for path, f in holder.all_fields()][1:]


def _dotted(where: Iterable[str], field: StructField) -> str:
    return ".".join((*where, field.name))
