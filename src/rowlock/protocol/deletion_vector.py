"""Deletion vectors: the deleted rows of a data file, as bytes, as text and as a set of positions.

Owns the descriptor, both Roaring formats, the layout of vector files and their checksums.  Does no I/O.
A damaged vector raises CorruptLog and is never read as an empty one (I5, I9).
"""

from __future__ import annotations

import base64
import struct
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from rowlock.exceptions import CorruptLog, UnsupportedFeature
from rowlock.protocol import paths

MAGIC_PORTABLE = 1681511377
MAGIC_NATIVE = 1681511376
FILE_FORMAT_VERSION = 1

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_BASE85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits of Z85, and those of `base64.b85encode`, which differs from it in them alone."""
_TO_Z85 = bytes.maketrans(_BASE85, _Z85)
_TO_BASE85 = bytes(_BASE85[_Z85.index(c)] if c in _Z85 else 32 for c in range(256))
_UUID_CHARACTERS = 20
_PORTION = 1 << 20
"""Positions that are added to a bitmap at a time."""


@dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor:
    """Where a deletion vector is stored: `u` a file below the table's root, `p` a file with an absolute path, `i` inline in the log."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The deletion vector id, which together with the path identifies a logical file."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at}"

    @property
    def is_inline(self) -> bool:
        """Whether the vector is stored in the log itself."""
        return self.storage_type == "i"

    @property
    def path(self) -> str | None:
        """The decoded path of the vector file, relative to the table's root for `u`; None for an inline vector."""
        if self.storage_type == "i":
            return None
        if self.storage_type == "p":
            return paths.decode(self.path_or_inline_dv)
        prefix, text = self.path_or_inline_dv[:-_UUID_CHARACTERS], self.path_or_inline_dv[-_UUID_CHARACTERS:]
        return file_path(UUID(bytes=z85_decode(text, 16)), prefix)


def checked_kind(kind: str, table: str | None) -> str:
    """The storage type of this name.  Raises UnsupportedFeature for one that this version does not know."""
    if kind not in ("u", "i", "p"):
        what = f"deletion vectors of storage type {kind!r}"
        raise UnsupportedFeature(f"this version of Rowlock cannot read tables with {what}", feature=what, access="read", table=table)
    return kind


def file_path(uuid: UUID, prefix: str = "") -> str:
    """The path of the vector file with this id, relative to the table's root."""
    return (f"{prefix}/" if prefix else "") + f"deletion_vector_{uuid}.bin"


def z85_encode(data: bytes) -> str:
    """The bytes as Z85 text, padded with zeros to a multiple of 4 bytes."""
    return base64.b85encode(data, pad=True).translate(_TO_Z85).decode()


def z85_decode(text: str, size_bytes: int) -> bytes:
    """The first `size_bytes` bytes of a decoded Z85 text; raises CorruptLog."""
    if len(text) % 5 or len(text) // 5 * 4 < size_bytes:
        raise CorruptLog(f"a Z85 text of {len(text)} characters cannot hold {size_bytes} bytes")
    try:
        return base64.b85decode(text.encode().translate(_TO_BASE85))[:size_bytes]
    except ValueError as e:
        raise CorruptLog(f"a deletion vector in the log is not valid Z85 text: {text[:40]!r}") from e


def serialize(vector: BitMap64) -> bytes:
    """The vector in the portable 64-bit Roaring format, after its magic number."""
    compact = BitMap64(vector)
    compact.run_optimize()
    return struct.pack("<i", MAGIC_PORTABLE) + compact.serialize()


def deserialize(data: bytes) -> BitMap64:
    """The vector that these bytes hold, in either Roaring format; raises CorruptLog."""
    if len(data) < 12:
        raise CorruptLog(f"a deletion vector of {len(data)} bytes is too short")
    (magic,) = struct.unpack_from("<i", data)
    try:
        if magic == MAGIC_PORTABLE:
            return BitMap64.deserialize(data[4:])
        if magic == MAGIC_NATIVE:
            return _deserialize_native(data)
    except CorruptLog:
        raise
    except Exception as e:  # pyroaring raises several kinds for damage
        raise CorruptLog("a deletion vector is damaged") from e
    raise CorruptLog(f"a deletion vector has the unknown magic number {magic}")


def _deserialize_native(data: bytes) -> BitMap64:
    """The older Roaring format: a count, then 32-bit bitmaps with their sizes; the n-th bitmap holds the values with high word n."""
    (count,) = struct.unpack_from("<i", data, 4)
    at, parts = 8, []
    for high in range(count):
        (size,) = struct.unpack_from("<i", data, at)
        if size < 0 or at + 4 + size > len(data):
            raise CorruptLog("a deletion vector ends early")
        if BitMap.deserialize(low := data[at + 4 : at + 4 + size]):
            parts.append(struct.pack("<I", high) + low)
        at += 4 + size
    return BitMap64.deserialize(struct.pack("<Q", len(parts)) + b"".join(parts))  # never value by value: runs of a few bytes hold billions


def inline(vector: BitMap64, *, limit_bytes: int) -> DeletionVectorDescriptor | None:
    """The descriptor of an inline vector; None if the serialized vector is larger than `limit_bytes`."""
    data = serialize(vector)
    return None if len(data) > limit_bytes else DeletionVectorDescriptor("i", z85_encode(data), None, len(data), len(vector))


def read_inline(descriptor: DeletionVectorDescriptor, *, any_cardinality: bool = False) -> BitMap64:
    """The vector that an inline descriptor holds; with `any_cardinality` also where it marks another number of rows than the descriptor has."""
    vector = deserialize(z85_decode(descriptor.path_or_inline_dv, descriptor.size_bytes))
    return vector if any_cardinality else _check_cardinality(vector, descriptor)


def read_from_file(descriptor: DeletionVectorDescriptor, body: bytes, *, any_cardinality: bool = False) -> BitMap64:
    """The vector of `descriptor`, read from the bytes of its whole file; checks size, checksum and, unless `any_cardinality`, the number of rows."""
    if not body or body[0] != FILE_FORMAT_VERSION:
        raise CorruptLog("the deletion vector file has an unknown format version")
    at, size = descriptor.offset or 0, descriptor.size_bytes
    if at < 0 or size < 0 or at + 8 + size > len(body):
        raise CorruptLog("the deletion vector file ends early")
    (stored_size,) = struct.unpack_from(">i", body, at)
    data = body[at + 4 : at + 4 + size]
    (crc,) = struct.unpack_from(">I", body, at + 4 + size)
    if stored_size != size or crc != zlib.crc32(data):
        raise CorruptLog("the deletion vector's size or checksum is wrong")
    return deserialize(data) if any_cardinality else _check_cardinality(deserialize(data), descriptor)


def _check_cardinality(vector: BitMap64, descriptor: DeletionVectorDescriptor) -> BitMap64:
    if len(vector) != descriptor.cardinality:
        raise CorruptLog(f"the deletion vector marks {len(vector)} rows, but the log says {descriptor.cardinality}")
    return vector


def pack_vectors(vectors: Sequence[BitMap64]) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of one file that holds all vectors, and the (offset, size in bytes) of each for its descriptor."""
    body, places = bytearray([FILE_FORMAT_VERSION]), []
    for vector in vectors:
        data = serialize(vector)
        places.append((len(body), len(data)))
        body += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return bytes(body), places


def on_disk(uuid: UUID, place: tuple[int, int], cardinality: int) -> DeletionVectorDescriptor:
    """The descriptor of a vector in the file with id `uuid`, at an (offset, size) that `pack_vectors` returned."""
    return DeletionVectorDescriptor("u", z85_encode(uuid.bytes), place[0], place[1], cardinality)


def living_mask(num_rows: int, dead: BitMap64, file: str, table: str) -> np.ndarray:
    """For each row of a data file whether it lives, as booleans.  Raises CorruptLog where the vector marks rows beyond the file's end."""
    if dead and dead.max() >= num_rows:
        raise CorruptLog(f"the deletion vector marks row {dead.max()} of a file of {num_rows} rows", table=table, file=file)
    mask = np.ones(num_rows, dtype=np.bool_)
    mask[bitmap_to_numpy(dead)] = False
    return mask


def positions_except(num_rows: int, excluded: BitMap64 | None = None) -> BitMap64:
    """The positions of all rows of a file of `num_rows` physical rows, except `excluded`."""
    every = BitMap64()
    every.add_range(0, num_rows)
    return every - excluded if excluded else every


def bitmap_of(positions: npt.NDArray[np.int64]) -> BitMap64:
    """The bitmap of these positions, in any order, without a Python object for each: a list of ten million takes half a gigabyte."""
    out = BitMap64()
    for start in range(0, len(positions), _PORTION):
        held = array("Q")
        held.frombytes(np.ascontiguousarray(positions[start : start + _PORTION], dtype=np.uint64).tobytes())
        out |= BitMap64(held)
    return out


def bitmap_to_numpy(bitmap: BitMap64) -> np.ndarray:
    """The positions in a bitmap as a sorted int64 array."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64) if bitmap else np.empty(0, dtype=np.int64)
