"""Partition values are the same by whichever way rows are written, and stay what they are. I5: no value changes that nobody set; I9."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

import rowlock
from rowlock.engines.spark.write import writer
from rowlock.exceptions import ConstraintViolated, InvalidInput
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make, unchanged
from support.turning_down import turn_down

ZONES = {
    "America/New_York": (
        "2024-03-10T02:30:00",
        "2024-03-10T03:30:00",
        "2024-11-03T01:30:00",
        "2024-11-03T05:30:00",
        "2024-11-03T06:30:00",
        "1883-11-18T16:58:00.5",
        "1850-01-01T00:00:01",
    ),
    "Australia/Lord_Howe": (
        "2024-10-06T02:00:00",
        "2024-10-06T02:10:00",
        "2024-10-06T02:30:00",
        "2024-10-06T02:40:00",
        "2024-04-06T14:45:00",
        "2024-04-06T15:15:00",
    ),
    "Africa/Monrovia": ("1972-01-07T00:10:00", "1972-01-07T00:44:30", "1972-01-07T00:55:00.000001", "1880-01-01T00:00:00"),
}
"""By zone: times (UTC) whose clock, read in the zone, lies in a gap, in an overlap or in local mean time."""


@contextlib.contextmanager
def session(spark: SparkSession, **settings: str) -> Iterator[None]:
    names = {"zone": "spark.sql.session.timeZone", "ansi": "spark.sql.ansi.enabled", "calendar": "spark.sql.parquet.datetimeRebaseModeInWrite"}
    before = {names[k]: str(spark.conf.get(names[k])) for k in settings}
    try:
        for k, value in settings.items():
            spark.conf.set(names[k], value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


WAYS = {
    "driver": {},
    "large": {"driver_rows": 0, "local_rows": 0, "moved_bytes": 0, "append_driver_bytes": 0},
}
"""How rows are written: on the driver, or by Spark."""


def partitions(path: str) -> set[tuple[tuple[str, str | None], ...]]:
    """The partition values of the live files, as the log has them."""
    return {tuple(sorted(f.partition_values.items())) for f in state_of(open_store(path)).refresh().files.adds()}


def micros(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((r[0], r[1]) for r in frame.select("id", F.unix_micros("p")).collect())


def _micros(text: str) -> int:
    return (dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize("zone", sorted(ZONES))
@pytest.mark.short("Australia/Lord_Howe", ci=("America/New_York",), why="the zone of half hours; 6 s each")
def test_a_timestamp_is_the_same_partition_by_each_writer(spark: SparkSession, table_path: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: in the gaps of the session's zone too, an UPDATE of another column and OPTIMIZE by Spark's writer leave every row in its partition."""
    given = [(n, _micros(text)) for n, text in enumerate(ZONES[zone])]
    frame = spark.createDataFrame([(i, m, 0) for i, m in given], "id long, m long, v long").selectExpr("id", "timestamp_micros(m) AS p", "v")
    with session(spark, zone=zone):
        make(spark, f"{table_path}-driver", frame, partition_by=["p"])
        turn_down(monkeypatch, **WAYS["large"])
        table = make(spark, table_path, frame, partition_by=["p"])
        assert partitions(table_path) == partitions(f"{table_path}-driver") and len(partitions(table_path)) == len(given)
        assert micros(rowlock.read(spark, table_path)) == given
        table.update(set={"v": "v + 1"})
        assert micros(rowlock.read(spark, table_path)) == given
        rowlock.write(frame.selectExpr("id + 100 AS id", "p", "v").coalesce(1), table_path)
        table.optimize().executeCompaction()
        assert micros(rowlock.read(spark, table_path)) == sorted([*given, *((i + 100, m) for i, m in given)])
        assert rowlock.read(spark, table_path).where("id < 100 and v <> 1").isEmpty()
    arrow = rowlock.to_arrow(table_path)
    assert sorted(zip(arrow["id"].to_pylist(), arrow["p"].cast("int64").to_pylist(), strict=True)) == sorted([*given, *((i + 100, m) for i, m in given)])


@pytest.mark.no_peers("other readers take such values in zones of their own")
@pytest.mark.parametrize("way", ["driver", "large"])
@pytest.mark.short("driver", ci=("large",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_times_without_a_zone_are_in_that_of_the_session_now(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """I5: also where the zone changes while a handle of the table is held; conditions and new values see what a read sees."""
    turn_down(monkeypatch, **WAYS[way])
    with session(spark, zone="UTC"):
        spark.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", "false")
        try:
            spark.sql("SELECT 1L AS id, timestamp'2024-01-01 10:00:00' AS p, 0 AS v").write.format("delta").partitionBy("p").save(table_path)
        finally:
            spark.conf.unset("spark.databricks.delta.write.utcTimestampPartitionValues")
    table, ten = rowlock.DeltaTable.forPath(spark, table_path), _micros("2024-01-01T10:00:00")
    for n, (zone, hours) in enumerate([("UTC", 0), ("America/New_York", 5), ("UTC", 0), ("Asia/Tokyo", -9)]):
        with session(spark, zone=zone):
            there = [(1, ten + hours * 3_600_000_000)]
            assert micros(table.toDF()) == micros(rowlock.read(spark, table_path)) == there
            assert rowlock.read(spark, table_path).where("p = timestamp'2024-01-01 10:00:00'").count() == 1
            if n < 2:
                table.update("p = timestamp'2024-01-01 10:00:00'", {"v": f"v + {10**n}"})
                assert [r.v for r in table.toDF().collect()] == [10**n]
                assert micros(table.toDF()) == there
                table.restoreToVersion(0)


@pytest.mark.no_peers("other readers have no such years")
def test_years_that_python_has_not(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5, I9: times and dates before year 1 and after 9999, as partition values and as values with bounds, by both writers and all readers."""
    rows = [(0, 253_402_300_800_000_000, 2_932_897), (1, -62_198_755_200_000_000, -800_000), (2, 0, 0)]
    frame = spark.createDataFrame(rows, "id long, m long, n int").selectExpr(
        "id", "timestamp_micros(m) AS p", "date_from_unix_date(n) AS q", "p AS t", "q AS d"
    )
    with session(spark, zone="America/New_York"):
        for way, path in (("driver", f"{table_path}-driver"), ("large", table_path)):
            turn_down(monkeypatch, **WAYS[way])
            table = make(spark, path, frame, partition_by=["p", "q"])
            table.update("id >= 0", {"id": "id + 10"})
            table.delete("t = timestamp_micros(0)")
            got = rowlock.read(spark, path).select("id", F.unix_micros("p"), F.unix_date("q"), F.unix_micros("t"), F.unix_date("d")).collect()
            assert sorted(map(tuple, got)) == [(i + 10, m, n, m, n) for i, m, n in rows[:2]]
            arrow = rowlock.to_arrow(path)
            assert sorted(zip(arrow["p"].cast("int64").to_pylist(), arrow["q"].cast("int32").to_pylist(), strict=True)) == sorted(r[1:] for r in rows[:2])
        assert partitions(table_path) == partitions(f"{table_path}-driver")


OTHERS: list[tuple[Any, ...]] = [
    (1e-5, "1.1", "0.0000000001", "2024-02-29", b"a", "__HIVE_DEFAULT_PARTITION__"),
    (1e7, "1e-5", "0", "0001-01-01", b"\x01 b%/", "__HIVE_DEFAULT_PARTITION__" * 2),
    (-0.0, "3.4e38", "-12345678901234567890.0123456789", "9999-12-31", "é".encode(), "é/=%41"),
    (123456.789, "-1234567.5", "1.5", "1582-10-10", None, None),
]


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.short("true", ci=("false",), why="the same values without vectors")
def test_other_types_have_one_spelling(spark: SparkSession, table_path: str, ansi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5: doubles, decimals, dates and binaries are one partition by whichever writer, also where the session's ANSI mode casts them to other text."""
    text = "id long, d double, f string, n string, y string, b binary, s string"
    frame = spark.createDataFrame([(i, *row) for i, row in enumerate(OTHERS)], text).selectExpr(
        "id", "d", "cast(f as float) f", "cast(n as decimal(38,10)) n", "cast(y as date) y", "b", "s"
    )
    by = ["d", "f", "n", "y", "b", "s"]
    with session(spark, ansi=ansi, zone="America/New_York"):
        make(spark, f"{table_path}-driver", frame, partition_by=by)
        turn_down(monkeypatch, **WAYS["large"])
        make(spark, table_path, frame, partition_by=by)
        assert partitions(table_path) == partitions(f"{table_path}-driver") and len(partitions(table_path)) == len(OTHERS)
        assert sorted(map(repr, rowlock.read(spark, table_path).collect())) == sorted(map(repr, frame.collect()))
    assert rowlock.to_arrow(table_path).sort_by("id").equals(rowlock.to_arrow(f"{table_path}-driver").sort_by("id"))


@pytest.mark.parametrize("kind", ["binary", "string"])
@pytest.mark.parametrize("way", ["driver", "large"])
@pytest.mark.short(
    "driver-binary",
    "large-string",
    ci=(
        "driver-string",
        "large-binary",
    ),
    why="the product; each way and each type stays",
)
def test_binary_that_is_no_text_is_refused(spark: SparkSession, table_path: str, way: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the log holds partition values as text; two binaries that are no UTF-8 became one value by Spark's writer, also where they were cast to strings."""
    frame = spark.createDataFrame([(n, bytes([255 - n])) for n in range(8)], "id long, b binary").selectExpr("id", f"cast(b as {kind}) b")
    make(spark, table_path, frame.where("false"), partition_by=["b"])
    turn_down(monkeypatch, **WAYS[way])
    before = partitions(table_path)
    with pytest.raises(InvalidInput, match="UTF-8"):
        rowlock.write(frame, table_path)
    assert partitions(table_path) == before


@pytest.mark.parametrize("way", ["driver", "large"])
@pytest.mark.short("large", ci=("driver",), why="the same statements the other way; the ways themselves are compared in test_routes")
def test_text_that_begins_as_our_marks_do(spark: SparkSession, table_path: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: whatever a string holds is kept, or refused for what it is."""
    texts = [f"{mark}{more}" for mark in ("\x01 no UTF-8: ", "__HIVE_DEFAULT_PARTITION__") for more in ("", "hello", "FF", "!FF", "__HIVE_DEFAULT_PARTITION__")]
    frame = spark.createDataFrame(list(enumerate(texts)), "id long, p string")
    make(spark, table_path, frame.where("false"), partition_by=["p"])
    turn_down(monkeypatch, **WAYS[way])
    rowlock.write(frame, table_path)
    assert [r.p for r in rowlock.read(spark, table_path).orderBy("id").collect()] == texts


@pytest.mark.parametrize("way", ["driver", "large"])
def test_values_longer_than_the_name_of_a_folder(spark: SparkSession, table_path: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As delta-spark has them in tables that map columns, whose folders do not say them."""
    texts = ["\u00e9" * 128, "%" * 84, "b" * 260, "\x01 long: " + "c" * 250, "__HIVE_DEFAULT_PARTITION__" * 10, "a"]
    rows = [(n, text, text.encode() if n % 2 else b"x" * 140) for n, text in enumerate(texts)]
    named = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false"}
    table = make(spark, table_path, rows, "id long, p string, b binary", partition_by=["p", "b"], **named)
    turn_down(monkeypatch, **WAYS[way])
    table.update("id < 6", {"id": "id + 10"})
    table.update("id = 15", {"p": f"'{texts[0]}'"})
    rows += [(9, "n" * 260, b"new" * 100)]
    rowlock.write(spark.createDataFrame(rows, "id long, p string, b binary"), table_path)
    table.optimize().executeCompaction()
    wanted = sorted([*((n + 10, texts[0] if n == 5 else p, b) for n, p, b in rows[:6]), *rows])
    theirs = spark.read.format("delta").load(table_path)
    assert sorted((r.id, r.p, bytes(r.b)) for r in theirs.collect()) == sorted((r.id, r.p, bytes(r.b)) for r in table.toDF().collect()) == wanted
    assert rowlock.changes(spark, table_path, 2).count() == 2 * 6 + 2 + 7
    if way == "large":
        with pytest.raises(InvalidInput, match="each time they are read"):
            other = F.udf(lambda _: "x" * 250 + str(time.time_ns())).asNondeterministic()
            rowlock.write(spark.range(3).select("id", other("id").alias("p"), F.lit(b"y").alias("b")), table_path)


def test_a_disk_that_takes_two_names_for_one_folder(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: on macOS the files of two partitions lay in one folder, by whose name all of their rows were given one value."""
    texts = ["A", "a", "\u00e9", "e\u0301", "__hive_default_partition__", "x.y", "\x01 no UTF-8: X", "", None]
    frame = spark.createDataFrame(list(enumerate(texts)), "id long, p string")
    make(spark, table_path, frame.where("false"), partition_by=["p"])
    turn_down(monkeypatch, **WAYS["large"])
    monkeypatch.setattr(writer, "folds_names", lambda store: True)
    rowlock.write(frame, table_path)
    assert [r.p for r in rowlock.read(spark, table_path).orderBy("id").collect()] == [t or None for t in texts]
    folders = {f.path.split("/")[1] for f in state_of(open_store(table_path)).refresh().files.adds()}
    assert len({unicodedata.normalize("NFD", folder).casefold() for folder in folders}) == len(folders) == len(texts)


def test_partitions_without_a_zone_are_chosen_in_the_sessions(spark: SparkSession, table_path: str) -> None:
    """I3: OPTIMIZE's condition reads partition values of older writers, which have no zone, as a scan does."""
    with session(spark, zone="America/New_York"):
        table = make(spark, table_path, spark.sql("select 1L id, timestamp'2024-01-01 00:00:00' p"), partition_by=["p"])
        with unchanged(table_path):
            table.optimize().where("p < timestamp'2024-01-01 00:00:00'").executeCompaction()


@pytest.mark.soak("a calendar of Spark 2; days of it are read in test_peers_tables (legacy_calendar)", ci=True)
def test_a_session_that_writes_the_old_calendar(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: footers in the calendar of Spark 2 would be false bounds: Rowlock's files count in the new one, whatever the session says."""
    turn_down(monkeypatch, **WAYS["large"])
    with session(spark, calendar="LEGACY"):
        table = make(spark, table_path, spark.sql("select id, date'1500-01-01' d, timestamp'1500-01-01 00:00:00' t from range(4)"))
        (file,) = state_of(open_store(table_path)).refresh().files.adds()
        assert file.parsed_stats()["minValues"]["d"] == "1500-01-01"
        table.delete("d = date'1500-01-01' and t = timestamp'1500-01-01 00:00:00'")
        assert rowlock.read(spark, table_path).isEmpty()


def test_what_is_recorded_of_texts_as_times_is_what_spark_says(spark: SparkSession) -> None:
    """tests/unit/protocol/test_partition_values.py compares Rowlock's reader of partition values with this record."""
    said = json.loads((Path(__file__).parents[1] / "data" / "texts_as_times.json").read_text())
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        asked = spark.createDataFrame([(t,) for t in said["texts"]], "t string").coalesce(1)
        for zone in ("UTC", "Europe/Vienna", "-03:30"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            found = {r[0]: r[1] for r in asked.selectExpr("t", "unix_micros(try_cast(t as timestamp))").collect()}
            assert found == {t: micros[zone] for t, micros in said["texts"].items()}
        for zone, times in said["zones"].items():
            if times is None:
                with pytest.raises(Exception, match="INVALID_CONF_VALUE"):
                    spark.conf.set("spark.sql.session.timeZone", zone)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


STATIC = {"i": "int", "t": "tinyint", "d": "date", "ts": "timestamp", "n": "timestamp_ntz", "b": "boolean", "c": "decimal(5,2)", "f": "double"}


@pytest.mark.parametrize("ansi", ["false", "true"])
@pytest.mark.short("false", ci=("true",), why="the setting under which it was once stored as null stays")
def test_a_static_value_that_is_none_of_its_type_raises_under_every_setting(spark: SparkSession, table_path: str, ansi: str) -> None:
    """And the null partition, into which a cast that gives null would write, stays as it is."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in STATIC.items())
    make(spark, table_path, spark.createDataFrame([(1, *[None] * len(STATIC))], f"id int, {columns}"), partition_by=list(STATIC))
    with unchanged(table_path), session(spark, ansi=ansi):
        for n, wrong in enumerate(STATIC):
            static = ", ".join(f"{name} = 'abc'" if name == wrong else f"{name} = NULL" for name in STATIC)
            into = "INTO" if n % 2 else "OVERWRITE"
            with pytest.raises(Exception, match=r"\[CAST_INVALID_INPUT\]"):
                rowlock.sql(spark, f"INSERT {into} delta.`{table_path}` PARTITION ({static}) SELECT 99")
    with session(spark, ansi=ansi):
        nulls = ", ".join(f"{name} = NULL" for name in STATIC)
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` PARTITION ({nulls.replace('i = NULL', 'i = 7', 1)}) (id) SELECT 2")
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` PARTITION ({nulls}) (id) SELECT 3")
    assert sorted(tuple(r)[:2] for r in rowlock.read(spark, table_path).collect()) == [(2, 7), (3, None)]


def test_static_partitions_of_texts_like_null(spark: SparkSession, table_path: str) -> None:
    """The name of the null partition's folder is a text like any other; rows of the empty text would lie beside those of null, so it replaces nothing."""
    make(spark, table_path, [(1, "a"), (2, None)], "id int, p string", partition_by=["p"])
    with unchanged(table_path), pytest.raises(ConstraintViolated, match="DELTA_REPLACE_WHERE_MISMATCH"):
        rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` PARTITION (p = '') SELECT 3")
    rowlock.sql(spark, f"INSERT OVERWRITE delta.`{table_path}` PARTITION (p = '__HIVE_DEFAULT_PARTITION__') SELECT 4")
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` PARTITION (p = '') SELECT 5")
    found = sorted(tuple(r) for r in rowlock.read(spark, table_path).select("id", "p").collect())
    assert found == [(1, "a"), (2, None), (4, "__HIVE_DEFAULT_PARTITION__"), (5, None)]


def test_the_change_feed_has_texts_like_null_as_they_are(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the change files are written: on the driver, or by Spark."""
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (1, '__HIVE_DEFAULT_PARTITION__'), (2, '__HIVE_DEFAULT_PARTITION__'), (3, NULL), (4, NULL)")
    rowlock.sql(spark, f"MERGE INTO delta.`{table_path}` t USING (SELECT explode(array(1, 4)) AS k) ON id = k WHEN MATCHED THEN DELETE")
    turn_down(monkeypatch, driver_rows=0)
    rowlock.sql(spark, f"UPDATE delta.`{table_path}` SET id = 9 WHERE id >= 2")
    wanted = [(id_, "__HIVE_DEFAULT_PARTITION__", kind) for id_, kind in ((1, "delete"), (2, "update_preimage"), (9, "update_postimage"))]
    wanted += [(4, None, "delete"), (3, None, "update_preimage"), (9, None, "update_postimage")]
    theirs = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(table_path)
    for feed in (rowlock.changes(spark, table_path, 2), theirs):
        assert {tuple(r) for r in feed.select("id", "p", "_change_type").collect()} == set(wanted)
