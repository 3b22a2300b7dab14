"""How many rows a data file may have by the session's setting, without Spark."""

from __future__ import annotations

import pytest

from rowlock.engines.spark.write.writer import most_records
from rowlock.protocol.session_settings import Settings
from rowlock.transaction.state.call import calling


@pytest.mark.parametrize(("text", "most"), [("7", 7), ("0", None), ("-1", None)])
def test_a_limit_below_one_is_none(text: str, most: int | None) -> None:
    """I5: with spark.sql.files.maxRecordsPerFile = -1, which is no limit for Spark, an append of few rows and a compaction wrote no file, and the rows were gone."""
    with calling(None, lambda: Settings({"spark.sql.files.maxRecordsPerFile": text})):
        assert most_records() == most
