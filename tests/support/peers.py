"""Which tests ask other engines what is in a table."""

from __future__ import annotations

import os
import zlib


def one_test_in(number: int, test: str) -> bool:
    """Whether a test, given by its node id, is the one of so many that asks another engine: always the same ones.

    ROWLOCK_PEERS=all: each; ROWLOCK_PEERS=4, as in `make test`: a quarter of them.
    delta-spark takes one or two seconds for a table where deltalake and DuckDB take a tenth of one.
    """
    asked = os.environ.get("ROWLOCK_PEERS", "1")
    return asked == "all" or is_one_in(number * int(asked), test)


def is_one_in(number: int, test: str) -> bool:
    """Whether a test is the one of so many by a checksum of its node id."""
    return zlib.crc32(test.encode()) % number == 0


def delta_spark_reads_here() -> bool:
    """Whether the test that runs asks delta-spark for the rows of its tables on the way: each in `interop/` and one in four elsewhere; beside tests, always."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return not test or "interop/" in test or one_test_in(4, test)
