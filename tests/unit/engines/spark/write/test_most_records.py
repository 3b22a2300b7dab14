"""How many rows a data file may have by the session's setting, without Spark."""

from __future__ import annotations

import pytest

from rowlock.protocol.session_settings import Settings
from rowlock.transaction.state.call import calling, most_records


@pytest.mark.parametrize(("text", "most"), [("7", 7), ("0", None), ("-1", None)])
def test_a_limit_below_one_is_none(text: str, most: int | None) -> None:
    """I5: with spark.sql.files.maxRecordsPerFile = -1, which is no limit for Spark, an append of few rows and a compaction wrote no file, and the rows were gone."""
    with calling(None, lambda: Settings({"spark.sql.files.maxRecordsPerFile": text})):
        assert most_records() == most
        assert (most_records(0), most_records(3)) == (None, 3)  # a write says more than the session
