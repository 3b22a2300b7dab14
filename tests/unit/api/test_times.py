"""One rule for a time without a zone: text is the session's (without a session, the process's), a datetime is the process's, as in PySpark."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import InvalidInput, VersionNotFound, WrongType
from rowlock.log.table_log import TableLog
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import local_milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROCESS, SESSION = "Asia/Kathmandu", "America/St_Johns"


@pytest.fixture
def kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process's local time is five and three quarter hours ahead of UTC."""
    monkeypatch.setenv("TZ", PROCESS)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def made(path: str) -> dict[int, dt.datetime]:
    """A table of three versions with a row more in each, and when they were committed (UTC)."""
    for n in range(3):
        rowlock.append(path, pa.table({"id": [n]}), properties={"delta.enableInCommitTimestamps": "true"})
    return {v: dt.datetime.fromtimestamp(ms // 1000, dt.UTC) + dt.timedelta(milliseconds=ms % 1000) for v, ms in TableLog(open_store(path)).commit_times()}


def naive(at: dt.datetime, zone: str) -> dt.datetime:
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def test_without_a_session_local_time_is_the_processs(tmp_path: Any, kathmandu: None) -> None:
    path = str(tmp_path / "table")
    for version, at in made(path).items():
        asked: list[Any] = [at, at.isoformat(), at.astimezone(ZoneInfo(SESSION)).isoformat(), naive(at, PROCESS), naive(at, PROCESS).isoformat(" ")]
        for timestamp in asked:
            assert rowlock.to_arrow(path, timestamp=timestamp).num_rows == version + 1, timestamp
        with pytest.raises(VersionNotFound):
            rowlock.to_arrow(path, timestamp=naive(at, "UTC"))


@pytest.mark.spark
def test_with_a_session(spark: SparkSession, table_path: str, kathmandu: None) -> None:
    times = made(table_path)
    table = DeltaTable.forPath(spark, table_path)
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", SESSION)
    try:
        for version, at in times.items():
            asked: list[Any] = [at, at.isoformat(), naive(at, SESSION).isoformat(" "), naive(at, PROCESS)]
            for timestamp in asked:
                assert rowlock.read(spark, table_path, timestamp=timestamp).count() == version + 1, timestamp
            text = naive(at, SESSION).isoformat(" ")
            assert spark.read.format("delta").option("timestampAsOf", text).load(table_path).count() == version + 1
            handed_out = table.history().where(f"version = {version}").collect()[0]["timestamp"]
            assert handed_out.tzinfo is None and rowlock.read(spark, table_path, timestamp=handed_out).count() == version + 1
        for version, timestamp in ((0, naive(times[0], PROCESS)), (1, naive(times[1], SESSION).isoformat(" ")), (0, times[0])):
            table.restoreToTimestamp(timestamp)
            assert table.toDF().count() == version + 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_no_millisecond_is_lost() -> None:
    """Seconds as a float, times 1000, lose one now and then, and with it the version that was asked for."""
    start = 1_785_548_024_000
    for ms in range(start, start + 2000):
        at = dt.datetime.fromtimestamp(ms // 1000, dt.UTC) + dt.timedelta(milliseconds=ms % 1000)
        assert local_milliseconds(at, "t") == local_milliseconds(at.isoformat(), "t") == ms
    assert local_milliseconds("1969-12-31T23:59:59.9995+00:00", "t") == -1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("noon", InvalidInput),
        ("", InvalidInput),
        (dt.datetime.min, InvalidInput),
        (dt.datetime.max, InvalidInput),
        (5, WrongType),
        (dt.date(2026, 1, 1), WrongType),
    ],
)
def test_what_is_no_time(wrong: Any, error: type[Exception], kathmandu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong == dt.datetime.max:  # out of range only where UTC is ahead
        monkeypatch.setenv("TZ", SESSION)
        time.tzset()
    with pytest.raises(error, match=r"timestamp needs|is not a time"):
        local_milliseconds(wrong, "t")
