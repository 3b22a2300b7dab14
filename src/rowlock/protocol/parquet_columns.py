"""The leaf columns of a Parquet file by their full paths, and how they match the table's columns.

A footer names a leaf by its path with dots in between, so that a column `a.b` and the field b of a struct a
look the same; here the file's schema is walked instead.  Names are matched as in Spark, ignoring case.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.protocol.schema import ArrayType, ColumnPath, MapType, StructType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column: its index in the footer, its path through structs, and whether it is inside an array or map (`repeated`)."""

    index: int
    path: ColumnPath
    repeated: bool


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)


def leaves_of(metadata: pq.FileMetaData) -> list[Leaf] | None:
    """Every leaf of a file, in footer order; None if the footer and Arrow's schema disagree on their number, so that no leaf can be identified."""
    found = [
        Leaf(n, path, repeated)
        for n, (path, repeated) in enumerate(leaf for f in metadata.schema.to_arrow_schema() for leaf in _leaves((f.name,), f.type, False))
    ]
    return found if len(found) == metadata.num_columns else None


def _leaves(path: ColumnPath, type_: pa.DataType, repeated: bool) -> Iterator[tuple[ColumnPath, bool]]:
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_struct(type_):
        for f in type_:
            yield from _leaves(path if repeated else (*path, f.name), f.type, repeated)
    elif pa.types.is_map(type_):
        yield from _leaves(path, type_.key_type, True)
        yield from _leaves(path, type_.item_type, True)
    elif any(is_list(type_) for is_list in _LISTS):
        yield from _leaves(path, type_.value_type, True)
    else:
        yield path, repeated


def lower_case(path: ColumnPath) -> ColumnPath:
    """The path in lower case, to compare paths ignoring case."""
    return tuple(part.lower() for part in path)


def names_ignoring_case(name: str, there: Sequence[str]) -> list[str]:
    """The names in a file that equal `name` ignoring case, as Spark matches columns."""
    low = name.lower()
    return [n for n in there if n == name or n.lower() == low]


def has_ambiguous_names(schema: StructType) -> bool:
    """Whether two columns in data files may have the same dotted name.

    parquet-mr then mistakes the dictionary of one column for the other's and skips row groups by it, so files of
    such tables are written without dictionaries, and Spark reads them without dictionary filters.
    """
    dotted = any("." in f.physical_name or "." in f.name for _, f in schema.all_fields())
    return dotted and any(isinstance(f.type, (StructType, ArrayType, MapType)) for f in schema.fields)
