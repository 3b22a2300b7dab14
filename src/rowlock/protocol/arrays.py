"""Arrow arrays of Python's values and of numpy's, and back, by their buffers.

pyarrow itself imports pandas, where that is installed, with the first value that it converts: 0.2 s of a process that may only plan a query.  Pure.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def of_values(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Values, None for null, as booleans, int64, doubles, texts, bytes or 256-bit decimals.  Raises ArithmeticError, TypeError or ValueError for a value that the type does not hold."""
    known = [v is not None for v in values]
    buffers = [None if all(known) else _bits(known)]
    if pa.types.is_boolean(type_):
        buffers.append(_bits([bool(v) for v in values]))
    elif pa.types.is_decimal(type_):
        buffers.append(pa.py_buffer(b"".join(_unscaled(v, type_.scale) for v in values)))
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        pieces = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
        ends = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
        buffers += [pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))]
    else:
        buffers.append(pa.py_buffer(np.array([0 if v is None else v for v in values], _dtype(type_))))
    return pa.Array.from_buffers(type_, len(values), buffers)


def scalar(value: Any, type_: pa.DataType | None = None) -> pa.Scalar:
    """One such value, by default a text."""
    return of_values([value], type_ or pa.string())[0]


def of_numpy(data: npt.NDArray[Any]) -> pa.Array:
    """Booleans or 64-bit numbers of numpy's, none of them null."""
    if data.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(data), [None, _bits(data)])
    return pa.Array.from_buffers(pa.float64() if data.dtype == np.float64 else pa.int64(), len(data), [None, pa.py_buffer(np.ascontiguousarray(data))])


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Booleans or numbers as numpy's, any of them for a null."""
    if not len(array):
        return np.zeros(0, np.bool_ if pa.types.is_boolean(array.type) else _dtype(array.type))
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(np.bool_)
    return np.frombuffer(array.buffers()[1], _dtype(array.type))[array.offset :][: len(array)]


def _dtype(type_: pa.DataType) -> str:
    return f"{'f' if pa.types.is_floating(type_) else 'i'}{type_.bit_width // 8}"


def _bits(flags: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.asarray(flags, np.bool_), bitorder="little"))


def _unscaled(value: Any, scale: int) -> bytes:
    """A decimal as the whole number, in 32 bytes, that it is in units of its last digit."""
    with decimal.localcontext() as context:
        context.prec = 200
        number = decimal.Decimal(value or 0).scaleb(scale)
        if number != number.to_integral_value():
            raise ValueError(f"{value} has more than {scale} digits after the point")
        return int(number).to_bytes(32, "little", signed=True)
