"""Variant columns of data files as pairs of binaries, `value` and `metadata`, also where they are shredded into typed columns.

What is unshredded is passed on byte by byte.  Shredded values are put together anew, row by row, as Parquet's specification of shredding
says and in Spark's way: whole numbers and decimals in their shortest form, with a metadata dictionary of the keys in order of appearance.
What no writer may write raises Doubtful.  Pure.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowlock.parquet.physical import Doubtful
from rowlock.parquet.values import Parts, bare_type, with_changed_parts
from rowlock.protocol.arrow_types import VARIANT, is_variant

_BROKEN = (IndexError, KeyError, ValueError, struct.error, RecursionError, TypeError)
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DOUBLE, _DECIMAL4, _DECIMAL8, _DECIMAL16, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _STRING = (
    range(17)
)
_SIZES = {
    _NULL: 0, _TRUE: 0, _FALSE: 0, _INT8: 1, _INT16: 2, _INT32: 4, _INT64: 8, _DOUBLE: 8, _DECIMAL4: 5, _DECIMAL8: 9, _DECIMAL16: 17,
    _DATE: 4, _TIMESTAMP: 8, _TIMESTAMP_NTZ: 8, _FLOAT: 4, 17: 8, 18: 8, 19: 8, 20: 16,
}  # fmt: skip
"""The bytes after the header of each primitive type but binary and string, whose length comes first."""


def is_variant_group(type_: pa.DataType) -> bool:
    """Whether a column of a file has the form of a variant: binary `metadata`, and binary `value` or `typed_value`."""
    if not pa.types.is_struct(type_):
        return False
    known = {f.name: f.type for f in type_}
    return (
        len(known) == type_.num_fields
        and known.keys() <= {"metadata", "value", "typed_value"}
        and pa.types.is_binary(known.get("metadata", pa.null()))
        and pa.types.is_binary(known.get("value", pa.binary()))
        and len(known) > 1
    )


def has_variant(type_: pa.DataType) -> bool:
    """Whether a type of the table is or holds a variant."""
    return is_variant(type_) or any(has_variant(type_.field(n).type) for n in range(type_.num_fields))


def with_whole_variants(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """A column as it was read, under the table's names, with every variant of `wanted` as value and metadata.  Raises Doubtful."""
    return with_changed_parts(column, _parts(wanted, _value_and_metadata))


def with_required_binaries(rows: pa.Table) -> pa.Table:
    """The rows with value and metadata of each variant required, as Parquet has those of a variant that is not shredded; Spark 4.0 reads no others."""
    for n, f in enumerate(rows.schema):
        if has_variant(f.type):
            rows = rows.set_column(n, f.name, with_changed_parts(rows.column(n), _parts(f.type, _required)))
    return rows


def _parts(wanted: pa.DataType, change: Callable[[pa.StructArray], pa.Array]) -> Parts:
    """Where the variants are, which `change` changes, in a type of the table."""
    if not has_variant(wanted):
        return None
    if is_variant(wanted):
        return change
    if pa.types.is_struct(wanted):
        return {f.name: _parts(f.type, change) for f in wanted}
    return [_parts(t, change) for t in ((wanted.key_type, wanted.item_type) if pa.types.is_map(wanted) else (wanted.value_type,))]


def _required(array: pa.StructArray) -> pa.Array:
    binaries = [pc.fill_null(array.field(f.name), b"") for f in VARIANT]
    return pa.StructArray.from_arrays(binaries, fields=[f.with_nullable(False) for f in VARIANT], mask=array.is_null())


def _value_and_metadata(array: pa.StructArray) -> pa.Array:
    if array.type.get_field_index("typed_value") < 0:
        values, metadata = array.field("value"), array.field("metadata")
    else:
        rows = array.cast(bare_type(array.type)).to_pylist()
        rebuilt = [(None, None) if row is None else _rebuilt(row, array.type) for row in rows]
        values, metadata = (pa.array([pair[n] for pair in rebuilt], pa.binary()) for n in (0, 1))
    return pa.StructArray.from_arrays([values, metadata], fields=list(VARIANT), mask=array.is_null())


def _rebuilt(row: Mapping[str, Any], type_: pa.DataType) -> tuple[bytes, bytes]:
    try:
        builder = _Builder(row["metadata"])
        return builder.shredded(row, type_), builder.new_metadata()
    except _BROKEN as e:
        raise Doubtful(f"a shredded variant is not as Parquet defines it ({type(e).__name__}: {e})", "a malformed variant") from e


class _Builder:
    """Puts one variant together: `keys` is the dictionary of the new value."""

    def __init__(self, metadata: bytes) -> None:
        size = (metadata[0] >> 6) + 1
        if metadata[0] & 15 != 1:
            raise ValueError(f"version {metadata[0] & 15} of the metadata")
        count = _number(metadata, 1, size)
        at = [_number(metadata, 1 + size * (1 + n), size) for n in range(count + 1)]
        text = metadata[1 + size * (count + 2) :]
        self._names = [text[a:b] for a, b in pairwise(at)]
        self._keys: dict[bytes, int] = {}
        self._left = 0

    def new_metadata(self) -> bytes:
        texts = list(self._keys)
        ends = [*accumulate(map(len, texts), initial=0)]
        size = _width(max(ends[-1], len(texts)))
        return bytes([1 | (size - 1) << 6]) + b"".join(n.to_bytes(size, "little") for n in (len(texts), *ends)) + b"".join(texts)

    def shredded(self, row: Mapping[str, Any] | None, type_: pa.DataType) -> bytes:
        """The value of a group of `value` and `typed_value`."""
        value, typed = (None, None) if row is None else (row.get("value"), row.get("typed_value"))
        if typed is None:
            if value is None:
                raise ValueError("neither value nor typed_value")
            return self._copied(self._given(value))
        of = type_.field("typed_value").type
        if pa.types.is_list(of) or pa.types.is_large_list(of):
            return _array([self.shredded(e, of.value_type) for e in typed])
        if not pa.types.is_struct(of):
            return _scalar(typed, of)
        fields = []
        for f in of:
            inner = typed[f.name]
            if inner is not None and (inner.get("value") is not None or inner.get("typed_value") is not None):
                fields.append((self._key(f.name.encode()), self.shredded(inner, f.type)))
        if value is not None:
            if value[0] & 3 != _OBJECT:
                raise ValueError("an object whose other fields are no object")
            fields += self._fields(self._given(value))
        return self._object(fields)

    def _key(self, name: bytes) -> bytes:
        self._keys.setdefault(name, len(self._keys))
        return name

    def _given(self, value: bytes) -> memoryview:
        self._left = len(value)
        return memoryview(value)

    def _counted(self, encoded: bytes) -> bytes:
        """The bytes, of which a value has no more than its own: where parts of a forged one overlap, they could be very many."""
        self._left -= len(encoded)
        if self._left < 0:
            raise ValueError("parts of a value overlap")
        return encoded

    def _copied(self, value: memoryview) -> bytes:
        """A value under the dictionary of the new one."""
        kind = value[0] & 3
        if kind == _OBJECT:
            return self._object(self._fields(value))
        if kind == _ARRAY:
            width, large = (value[0] >> 2 & 3) + 1, value[0] >> 4 & 1
            count = _number(value, 1, 4 if large else 1)
            at = 5 if large else 2
            starts = [_number(value, at + width * n, width) for n in range(count)]
            self._counted(bytes(count))
            return _array([self._copied(value[at + width * (count + 1) + s :]) for s in starts])
        return self._counted(bytes(value[: _length(value)]))

    def _fields(self, value: memoryview) -> list[tuple[bytes, bytes]]:
        width, of_ids, large = (value[0] >> 2 & 3) + 1, (value[0] >> 4 & 3) + 1, value[0] >> 6 & 1
        count = _number(value, 1, 4 if large else 1)
        ids_at = 5 if large else 2
        at = ids_at + of_ids * count
        self._counted(bytes(count))
        out = []
        for n in range(count):
            name = self._key(self._names[_number(value, ids_at + of_ids * n, of_ids)])
            out.append((name, self._copied(value[at + width * (count + 1) + _number(value, at + width * n, width) :])))
        return out

    def _object(self, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
        *begins, end = accumulate((len(encoded) for _, encoded in fields), initial=0)
        starts = {name: at for (name, _), at in zip(fields, begins, strict=True)}
        if len(starts) < len(fields):
            raise ValueError("a field that is there twice")
        names = sorted(starts)
        ids = [self._keys[n] for n in names]
        of_ids, width, large = _width(max(ids, default=0)), _width(end), len(names) > 255
        head = bytes([_OBJECT | (width - 1) << 2 | (of_ids - 1) << 4 | large << 6]) + len(names).to_bytes(4 if large else 1, "little")
        places = [*(starts[n] for n in names), end]
        return b"".join(
            [head, *(i.to_bytes(of_ids, "little") for i in ids), *(p.to_bytes(width, "little") for p in places), *(encoded for _, encoded in fields)]
        )


def _array(elements: Sequence[bytes]) -> bytes:
    ends = [*accumulate(map(len, elements), initial=0)]
    width, large = _width(ends[-1]), len(elements) > 255
    head = bytes([_ARRAY | (width - 1) << 2 | large << 4]) + len(elements).to_bytes(4 if large else 1, "little")
    return b"".join([head, *(e.to_bytes(width, "little") for e in ends), *elements])


def _scalar(value: Any, type_: pa.DataType) -> bytes:
    """A typed value; text is given as bytes, dates and times as numbers."""
    if pa.types.is_boolean(type_):
        return _header(_TRUE if value else _FALSE)
    if pa.types.is_integer(type_):
        kind, size = next((k, s) for k, s in ((_INT8, 1), (_INT16, 2), (_INT32, 4), (_INT64, 8)) if -(1 << 8 * s - 1) <= value < 1 << 8 * s - 1)
        return _header(kind) + int(value).to_bytes(size, "little", signed=True)
    if pa.types.is_float64(type_):
        return _header(_DOUBLE) + struct.pack("<d", value)
    if pa.types.is_float32(type_):
        return _header(_FLOAT) + struct.pack("<f", value)
    if pa.types.is_decimal(type_):
        unscaled, scale = int(value.scaleb(type_.scale, decimal.Context(prec=60))), type_.scale
        digits = max(len(str(abs(unscaled))), scale)
        kind, size = (_DECIMAL4, 4) if digits <= 9 else (_DECIMAL8, 8) if digits <= 18 else (_DECIMAL16, 16)
        return _header(kind) + bytes([scale]) + unscaled.to_bytes(size, "little", signed=True)
    if pa.types.is_string(type_):
        text = bytes(value)
        return bytes([_SHORT_STRING | len(text) << 2]) + text if len(text) < 64 else _header(_STRING) + struct.pack("<I", len(text)) + text
    if pa.types.is_binary(type_):
        return _header(_BINARY) + struct.pack("<I", len(value)) + bytes(value)
    if pa.types.is_date32(type_):
        return _header(_DATE) + struct.pack("<i", value)
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return _header(_TIMESTAMP if type_.tz else _TIMESTAMP_NTZ) + struct.pack("<q", value)
    raise Doubtful(f"a variant is shredded into {type_}", f"a variant that is shredded into {type_}")


def _header(kind: int) -> bytes:
    return bytes([kind << 2 | _PRIMITIVE])


def _length(value: memoryview) -> int:
    """The bytes of the primitive or short string that `value` begins with."""
    kind = value[0] >> 2
    if value[0] & 3 == _SHORT_STRING:
        length = 1 + kind
    elif kind in (_BINARY, _STRING):
        length = 5 + _number(value, 1, 4)
    else:
        length = 1 + _SIZES[kind]
    if length > len(value):
        raise IndexError("a value ends early")
    return length


def _number(data: bytes | memoryview, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError("a variant ends early")
    return int.from_bytes(data[at : at + size], "little")


def _width(most: int) -> int:
    return max(1, (most.bit_length() + 7) // 8)
