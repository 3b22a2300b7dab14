"""Values of char and varchar columns on the driver: spaces at the end that are too many are cut off, and char values are filled up with spaces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.parquet.nested import Parts, with_changed_parts
from rowlock.protocol.char_varchar import Bound, Inner


def fitted_text(values: Any, bound: Bound) -> Any:
    """The values as they are written; one that is too long for the bound stays as it is, for the table's check of it."""
    length = pc.utf8_length(values)
    fits = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(values, " ")), bound.length)
    too_many = pc.fill_null(pc.and_(pc.greater(length, bound.length), fits), False)
    if pc.any(too_many, min_count=0).as_py():
        values = pc.if_else(too_many, pc.utf8_slice_codeunits(values, 0, bound.length), values)
    return padded(values, bound)


def padded(values: Any, bound: Bound) -> Any:
    """The values of a char column filled up with spaces, as Spark reads them; those of a varchar column as they are."""
    return pc.utf8_rpad(values, bound.length, " ") if bound.kind == "char" and not pa.types.is_null(values.type) else values


def padded_within(column: Any, inner: Inner) -> Any:
    """A column of another type with the char values inside of it filled up with spaces, as Spark reads them."""
    return with_changed_parts(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]), _parts(inner))


def _parts(inner: Inner) -> Parts:
    if isinstance(inner, Bound):
        return lambda values: padded(values, inner)
    if isinstance(inner, dict):
        return {name: _parts(of) for name, of in inner.items()}
    return None if inner is None else [_parts(of) for of in inner]
