"""Which tests ask delta-spark, the slowest of the peers, what is in a table."""

from __future__ import annotations

import os
import zlib


def delta_spark_reads(test: str, one_in: int) -> bool:
    """Whether delta-spark reads the tables of a test, by its node id: one in so many of them, always the same ones; with ROWLOCK_PEERS=all each.

    It takes one or two seconds for a table where deltalake and DuckDB take a tenth of one.
    """
    return os.environ.get("ROWLOCK_PEERS") == "all" or zlib.crc32(test.encode()) % one_in == 0


def delta_spark_reads_here() -> bool:
    """Whether the test that runs asks delta-spark for the rows of its tables on the way: each in `interop/` and one in four elsewhere; beside tests, always."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return not test or "interop/" in test or delta_spark_reads(test, 4)
