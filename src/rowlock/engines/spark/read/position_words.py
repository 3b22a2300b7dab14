"""Positions of many rows as bitmaps: Spark sends one word of 64 positions instead of up to 64 addresses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.engines.spark.read.scan import PATH, POSITION
from rowlock.protocol.deletion_vector import bitmap_of

_BITS = 64
_UNPACKED_WORDS = 1 << 16
"""Words that are taken apart at a time: 4 million positions, 32 MB."""


def positions_by_path(addresses: DataFrame, names: Mapping[int, str]) -> dict[str, BitMap64]:
    """The positions of a DataFrame with PATH and POSITION, by path, in one Spark job; `names` are the paths by their hash (see `paths_by_hash`).

    The driver gets 24 bytes for each 64 neighbouring positions of which one occurs.
    """
    bit = F.expr(f"shiftleft(1L, cast({POSITION} & {_BITS - 1} as int))")
    grouped = addresses.groupBy(F.xxhash64(PATH).alias("file"), F.shiftright(POSITION, 6).alias("word")).agg(F.bit_or(bit).alias("bits"))
    table = to_arrow(grouped)
    files, words, bits = (table.column(n).to_numpy() for n in range(3))
    found: dict[str, BitMap64] = {}
    order = np.lexsort((words, files))
    for start in range(0, len(order), _UNPACKED_WORDS):
        rows = order[start : start + _UNPACKED_WORDS]
        for file in np.unique(files[rows]):
            chosen = rows[files[rows] == file]
            set_bits = np.unpackbits(bits[chosen].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
            at, offset = np.nonzero(set_bits)
            positions = bitmap_of(words[chosen][at] * _BITS + offset)
            path = names[int(file)]
            found[path] = found[path] | positions if path in found else positions
    return found
