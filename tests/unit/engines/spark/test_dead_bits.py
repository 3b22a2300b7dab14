"""Dead rows of files as one array of numbers: a row's bit is found as a scan looks it up (I1)."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap64

from rowlock.engines.spark.read.scan import dead_bits

VECTORS = {
    "none": [BitMap64()],
    "the first row": [BitMap64([0])],
    "both sides of a bucket": [BitMap64([2_047]), BitMap64([2_048])],
    "a bucket between without dead rows": [BitMap64([5, 70_000]), BitMap64(), BitMap64(range(1000, 140_000, 63))],
    "all rows": [BitMap64(range(100_000))],
}


@pytest.mark.parametrize("vectors", VECTORS.values(), ids=VECTORS)
def test_the_bit_of_each_row_says_whether_it_is_dead(vectors: list[BitMap64]) -> None:
    bits, places = dead_bits(vectors)
    numbers = np.frombuffer(bits, "<i8")
    positions = np.arange(200_000)
    for vector, (start, buckets) in zip(vectors, places, strict=True):
        block = numbers[start + np.minimum(positions >> 11, buckets)]
        found = (numbers[block + ((positions >> 6) & 31)] >> (positions & 63)) & 1
        assert BitMap64(positions[found == 1]) == vector


def test_scattered_rows_take_little() -> None:
    """A query of a table of a billion rows, of which one in 32,768 is dead, broadcasts 13 MB."""
    bits, _ = dead_bits([BitMap64(range(n, 1_000_000, 32_768)) for n in range(10)])
    assert len(bits) < 130_000
