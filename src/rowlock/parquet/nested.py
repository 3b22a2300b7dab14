"""Changes values inside of nested Arrow columns: fields of structs, elements of lists, keys and values of maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Parts = Callable[[Any], Any] | Mapping[str, Any] | Sequence[Any] | None
"""What is changed in a type: by a function, or by field of a struct, by the one part of a list or both of a map; None is left as it is."""


def with_changed_parts(column: pa.ChunkedArray, parts: Parts) -> pa.ChunkedArray:
    """The column with the functions of `parts` applied to the arrays there."""
    chunks = column.chunks or [pa.array([], column.type)]
    changed = [_changed(chunk, parts) for chunk in chunks]
    return pa.chunked_array(changed, changed[0].type)


def _changed(array: Any, parts: Parts) -> Any:
    if parts is None:
        return array
    if callable(parts):
        return parts(array)
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if isinstance(parts, Mapping):
        inner = [_changed(array.field(n), parts.get(f.name)) for n, f in enumerate(array.type)]
        fields = [pa.field(f.name, values.type) for f, values in zip(array.type, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=array.is_null())
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(array.offsets, _changed(array.keys, parts[0]), _changed(array.items, parts[1]), mask=mask)
    values = _changed(array.values, parts[0])
    return pa.ListArray.from_arrays(array.offsets, values, type=pa.list_(pa.field("element", values.type)), mask=mask)
