"""Deletion vectors as bytes and text. I5: a damaged vector is named and never taken for an empty one."""

from __future__ import annotations

import struct
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, strategies as st
from pyroaring import BitMap, BitMap64

from rowlock.exceptions import CorruptLog
from rowlock.protocol import deletion_vector as dv
from rowlock.protocol.commits import parse_commit
from support.corpus import BITMAP, VECTORS

rows = st.lists(st.one_of(st.integers(0, 100_000), st.integers(0, (1 << 40) - 1)), max_size=200).map(BitMap64)
UID = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


@given(rows)
def test_serialize_round_trip(vector: BitMap64) -> None:
    assert dv.deserialize(dv.serialize(vector)) == vector


@given(st.lists(st.integers(0, (1 << 40) - 1), max_size=50), st.integers(1, 7))
def test_the_bitmap_of_an_array(positions: list[int], portion: int) -> None:
    """In any order and with repetitions, by however many portions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dv, "_PORTION", portion)
        found = dv.bitmap_of(np.array(positions, np.int64))
    assert found == BitMap64(positions)
    assert dv.bitmap_to_numpy(found).tolist() == sorted(set(positions))


@given(st.lists(rows, max_size=5))
def test_file_round_trip(vectors: list[BitMap64]) -> None:
    body, places = dv.pack_vectors(vectors)
    for vector, place in zip(vectors, places, strict=True):
        assert dv.read_from_file(dv.on_disk(UID, place, len(vector)), body) == vector


@given(rows)
def test_inline_round_trip(vector: BitMap64) -> None:
    descriptor = dv.inline(vector, limit_bytes=1 << 20)
    assert descriptor is not None and dv.read_inline(descriptor) == vector
    assert descriptor.path is None and descriptor.unique_id == "i" + descriptor.path_or_inline_dv


@given(st.binary(max_size=64))
def test_z85_round_trip(data: bytes) -> None:
    assert dv.z85_decode(dv.z85_encode(data), len(data)) == data


def test_known_examples() -> None:
    """Path and prefix as the Delta protocol prints them; the inline text as delta-spark writes it (the one printed there is in a form that no reader takes)."""
    relative = dv.DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
    assert relative.path == f"ab/deletion_vector_{UID}.bin"
    assert relative.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert "ab" + dv.on_disk(UID, (4, 40), 6).path_or_inline_dv == relative.path_or_inline_dv
    absolute = dv.DeletionVectorDescriptor("p", "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", 4, 40, 6)
    assert absolute.path == absolute.path_or_inline_dv
    inline = dv.DeletionVectorDescriptor("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 44, 6)
    assert list(dv.read_inline(inline)) == [3, 4, 7, 11, 18, 29]


def test_large_vectors_are_not_inlined() -> None:
    assert dv.inline(BitMap64(range(0, 100_000, 7)), limit_bytes=1024) is None
    assert dv.inline(BitMap64(range(100_000)), limit_bytes=1024) is not None, "a run is small"


def test_older_form() -> None:
    parts = [BitMap([1, 70_000]), BitMap(), BitMap([5])]
    body = struct.pack("<ii", dv.MAGIC_NATIVE, len(parts)) + b"".join(struct.pack("<i", len(p.serialize())) + p.serialize() for p in parts)
    assert list(dv.deserialize(body)) == [1, 70_000, (2 << 32) + 5]
    with pytest.raises(CorruptLog):
        dv.deserialize(body[:-2])


def test_damage_is_named() -> None:
    body, [place] = dv.pack_vectors([BitMap64([1, 2, 3])])
    good = dv.on_disk(UID, place, 3)
    for at in range(len(body)):
        spoiled = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        with pytest.raises(CorruptLog):
            dv.read_from_file(good, spoiled)
    for bad_body, descriptor in ((body[:-1], good), (b"", good), (body, dv.on_disk(UID, place, 4)), (body, dv.on_disk(UID, (0, place[1]), 3))):
        with pytest.raises(CorruptLog):
            dv.read_from_file(descriptor, bad_body)
    for data in (b"", b"1234", struct.pack("<i", 7) + b"\0" * 8, struct.pack("<i", dv.MAGIC_PORTABLE) + b"\xff" * 20):
        with pytest.raises(CorruptLog):
            dv.deserialize(data)
    for text in ("~~~~~", "_0000", "é0000", "#####"):  # no digits of Z85, or more than four bytes hold
        with pytest.raises(CorruptLog):
            dv.z85_decode(text, 4)


def test_a_vector_that_spark_wrote() -> None:
    commit = parse_commit(1, (VECTORS / "_delta_log" / f"{1:020d}.json").read_bytes())
    descriptor = commit.adds[0].deletion_vector
    assert descriptor is not None and descriptor.path is not None
    assert list(dv.read_from_file(descriptor, (VECTORS / descriptor.path).read_bytes())) == [0, 9]
    assert commit.removes[0].key == (commit.adds[0].path, None)
    assert commit.adds[0].num_records == 10 and commit.adds[0].deletion_vector.cardinality == 2


def test_roarings_own_sample() -> None:
    vector = dv.deserialize(struct.pack("<i", dv.MAGIC_PORTABLE) + BITMAP.read_bytes())
    assert len(vector) > 0 and dv.deserialize(dv.serialize(vector)) == vector


def test_sizes_that_are_forged_are_damage() -> None:
    """I9: a size or place below zero in a vector's file or descriptor (found by fuzzing); and runs of a few bytes are never read value by value."""
    body = b"\x01\xbb\xbb\xbb\xbb\xbb"
    for at, size in ((1, struct.unpack_from(">i", body, 1)[0]), (-4, 2)):
        with pytest.raises(CorruptLog, match="ends early"):
            dv.read_from_file(dv.on_disk(UID, (at, size), 2), body)
    runs = BitMap()
    runs.add_range(0, 1 << 32)
    runs.run_optimize()
    part = runs.serialize()
    found = dv.deserialize(struct.pack("<iii", dv.MAGIC_NATIVE, 2, len(BitMap().serialize())) + BitMap().serialize() + struct.pack("<i", len(part)) + part)
    assert len(found) == 1 << 32 and found.min() == 1 << 32
