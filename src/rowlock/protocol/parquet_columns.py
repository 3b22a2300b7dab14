"""The columns of a Parquet file by the parts of their names, and which of them a column of the table is.

A footer names a leaf by its parts with dots between, under which a column `a.b` and a field b of a struct a are
one: here the schema is walked instead.  Names are matched as Spark matches them: without regard to case.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from rowlock.protocol.schema import ArrayType, ColumnPath, MapType, StructType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf by its number in the footer: the names from the column down through structs; `repeated` where an array or map is on the way."""

    index: int
    path: ColumnPath
    repeated: bool


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)


def leaves_of(metadata: pq.FileMetaData) -> list[Leaf] | None:
    """Every leaf of a file, in order; None where the footer and Arrow's view of it do not have the same number, so that nothing is known of any."""
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


def folded(path: ColumnPath) -> ColumnPath:
    """What two paths have in common that differ at most by case."""
    return tuple(part.lower() for part in path)


def same_column(name: str, there: Sequence[str]) -> list[str]:
    """Those of a file's names that are a table's name to Spark: all that differ from it at most by case."""
    low = name.lower()
    return [n for n in there if n == name or n.lower() == low]


def confusable(schema: StructType) -> bool:
    """Whether a column of data files may have the dotted name of another: parquet-mr then takes the dictionary of the one for the other's, and skips by it.

    Files of such tables are written, and read in Spark, without.
    """
    dotted = any("." in f.physical_name or "." in f.name for _, f in schema.all_fields())
    return dotted and any(isinstance(f.type, (StructType, ArrayType, MapType)) for f in schema.fields)
