"""A table as the source of a stream, beside delta-spark's: the same rows in the same order, each once, through stops and starts (I2, I5, I9).

Most tests ask the source what Spark asks it, without a query, which takes seconds; which versions end a stream is in tests/unit/api/stream_source.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api.stream_source import source
from rowlock.exceptions import InvalidInput, PathNotFound, SchemaMismatch, TableNotFound, UnsupportedFeature, VersionNotFound
from spark.support import add, make

pytestmark = pytest.mark.spark
Batches = list[list[tuple[Any, ...]]]


def run(frame: DataFrame, checkpoint: Path | str) -> Batches:
    """What a query reads until nothing is left, batch by batch; raises what ends it."""
    found: Batches = []

    def take(rows: DataFrame, number: int) -> None:
        del number
        found.append(in_order(rows))

    frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return found


class Asked:
    """A source that is asked as a query asks it.  `offsets` are what its checkpoint holds."""

    def __init__(self, spark: SparkSession, path: str, offsets: list[str] | None = None, **options: Any) -> None:
        self.spark, self.offsets = spark, [] if offsets is None else offsets
        number = source.open_stream(spark, {"path": path} | {k: str(v) for k, v in options.items()}, None)
        self.source = source.stream(number)

    def rows(self, start: str | None, end: str) -> list[tuple[Any, ...]]:
        return in_order(self.source.batch(start, end))

    def all(self, *, unlimited: bool = False) -> Batches:
        """What is read until nothing is left."""
        found: Batches = []
        while True:
            start = self.offsets[-1] if self.offsets else None
            end = self.source.latest(start, unlimited=unlimited)
            if end is None or end == start:
                return found
            self.offsets.append(end)
            found.append(self.rows(start, end))

    def again(self, number: int) -> list[tuple[Any, ...]]:
        """A batch that was read before, as after a crash."""
        return self.rows(self.offsets[number - 1] if number else None, self.offsets[number])


def in_order(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.collect()), key=repr)


def delta(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    """delta-spark's stream of a table."""
    return spark.readStream.format("delta").options(**{k: str(v) for k, v in options.items()}).load(path)


def ids(found: Batches) -> list[list[int]]:
    return [[r[0] for r in batch] for batch in found]


def flat(found: Batches) -> list[tuple[Any, ...]]:
    return list(chain.from_iterable(found))


def table(spark: SparkSession, path: str, *, files: int = 3, **properties: str) -> DeltaTable:
    """Six rows (id, v, p) in files of two, in partitions."""
    return make(
        spark, path, [(n, n * 10, "ab"[n // 2 % 2]) for n in range(2 * files)], "id int, v int, p string", files=files, partition_by=["p"], **properties
    )


def append(spark: SparkSession, path: str, *numbers: int) -> None:
    add(spark, path, [(n, n * 10, "a") for n in numbers], "id int, v int, p string")


def test_the_first_rows_in_slices_then_each_version_through_stops(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path)
    t.delete("id = 0")  # the first rows have a deletion vector
    files = t.detail().collect()[0]["numFiles"]
    rows = rowlock.streaming.read(spark, table_path, max_files_per_trigger=1)
    assert rows.isStreaming and rows.columns == ["id", "v", "p"]
    mine = run(rows, tmp_path / "mine")
    assert len(mine) == files > 2 and sorted(chain.from_iterable(ids(mine))) == [1, 2, 3, 4, 5]
    append(spark, table_path, 10, 11)
    t.optimize().executeCompaction()
    append(spark, table_path, 13)
    # started again: only the rows and columns that the query asks for
    assert run(rows.where("id > 10").select("v"), tmp_path / "mine") == [[(110,)], [(130,)]]


@pytest.mark.soak("four queries; the offsets of both are in tests/unit/api/stream_source/test_offsets.py")
def test_batches_are_delta_sparks_and_so_are_checkpoints(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path, files=4)
    append(spark, table_path, 10)
    theirs = run(delta(spark, table_path, maxFilesPerTrigger=2), tmp_path / "theirs")
    rows = rowlock.streaming.read(spark, table_path, max_files_per_trigger=2)
    assert run(rows, tmp_path / "mine") == theirs
    append(spark, table_path, 11)
    t.optimize().executeCompaction()
    append(spark, table_path, 12)
    assert sorted(chain.from_iterable(ids(run(rows, tmp_path / "theirs")))) == [11, 12], "a query of delta-spark's goes on with Rowlock"
    assert sorted(chain.from_iterable(ids(run(delta(spark, table_path), tmp_path / "mine")))) == [11, 12], "and the other way round"


def test_a_batch_that_was_planned_is_the_same_after_a_crash(spark: SparkSession, table_path: str) -> None:
    t = table(spark, table_path)
    first = Asked(spark, table_path, maxFilesPerTrigger=2)
    found = first.all()
    append(spark, table_path, 10)
    t.optimize().executeCompaction()
    append(spark, table_path, 11)
    for limit in (1, 1000):
        again = Asked(spark, table_path, list(first.offsets), maxFilesPerTrigger=limit)
        assert [again.again(n) for n in range(len(found))] == found
        assert sorted(chain.from_iterable(ids(again.all()))) == [10, 11]
    assert ids(Asked(spark, table_path, maxFilesPerTrigger=1).all(unlimited=True)) == [[0, 1, 10, 11, 2, 3, 4, 5]], "Trigger.Once has no limit"


@pytest.mark.parametrize("begin", ["latest", "1", "time", None])
@pytest.mark.short(
    "latest",
    "None",
    ci=(
        "1",
        "time",
    ),
    why="the other begins, once more through a crash; where a stream begins is in tests/unit/api/stream_source",
)
def test_where_a_stream_began_is_kept(spark: SparkSession, table_path: str, begin: str | None) -> None:
    """After a crash within the first batch its rows are the same, though the table has gone on."""
    t = table(spark, table_path)
    options: dict[str, Any] = {"startingTimestamp": t.history(1).collect()[0]["timestamp"]} if begin == "time" else {"startingVersion": begin} if begin else {}
    first = Asked(spark, table_path, **options)
    if begin == "latest":
        assert first.all() == []
    append(spark, table_path, 10)
    found = first.all()
    assert 10 in ids(found)[0] and len(found) == 1
    append(spark, table_path, 11)
    again = Asked(spark, table_path, first.offsets, **options)
    assert again.again(0) == found[0] and ids(again.all()) == [[11]]


@pytest.mark.parametrize("feed", ["false", "true"])
@pytest.mark.short("true", ci=("false",), why="the same names without the feed")
def test_files_that_are_left_out(spark: SparkSession, table_path: str, feed: str) -> None:
    """They count as read; the syntax is Java's."""
    t = table(spark, table_path, **{"delta.enableChangeDataFeed": "true"})
    one = min(Path(table_path).rglob("*.parquet"))
    rows = pq.read_metadata(one).num_rows
    append(spark, table_path, 10)
    t.update("id = 10", {"v": "0"})
    options = {"excludeRegex": rf"\Q{one.name}\E|\p{{Upper}}", "readChangeFeed": feed, "ignoreChanges": "true" if feed == "false" else "false"}
    found = Asked(spark, table_path, **options)
    every = Asked(spark, table_path, **options | {"excludeRegex": "none"})
    left, whole = flat(found.all()), flat(every.all())
    assert len(left) == len(whole) - rows and found.offsets == every.offsets
    assert flat(Asked(spark, table_path, **options | {"excludeRegex": "."}).all()) == []
    with pytest.raises(InvalidInput, match="DELTA_REGEX_OPT_SYNTAX_ERROR"):
        Asked(spark, table_path, excludeRegex="(")


def test_available_now_is_what_was_there_at_its_start(spark: SparkSession, table_path: str) -> None:
    table(spark, table_path)
    asked = Asked(spark, table_path, maxBytesPerTrigger="1k", startingVersion="latest")
    asked.source.available_now()
    assert asked.all() == []
    append(spark, table_path, 10)
    assert asked.all() == []
    assert ids(Asked(spark, table_path, startingVersion=2, maxBytesPerTrigger="1b").all())[-1] == [10]


def test_where_a_stream_cannot_begin(spark: SparkSession, table_path: str) -> None:
    table(spark, table_path)
    for condition, options in (
        ("DELTA_VERSION_NOT_FOUND", {"startingVersion": "99"}),
        ("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", {"startingTimestamp": "2999-01-01"}),
    ):
        with pytest.raises(VersionNotFound) as told:
            Asked(spark, table_path, **options).all()
        assert told.value.condition is not None and told.value.condition.name == condition
    shutil.rmtree(table_path)
    with pytest.raises(PathNotFound):  # its DataFrame was made when there was a table
        Asked(spark, table_path)


@pytest.mark.soak("forty queries; the rules are in tests/unit/api/stream_source/test_walk.py, what they make of a table in the test after this one")
@pytest.mark.parametrize("options", [{}, {"ignoreDeletes": "true"}, {"ignoreChanges": "true"}, {"skipChangeCommits": "true"}], ids=str)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_versions_that_change_rows_as_delta_spark_has_it(spark: SparkSession, table_path: str, tmp_path: Path, options: dict[str, str], vectors: str) -> None:
    t = table(spark, table_path, **{"delta.enableDeletionVectors": vectors})
    rowlock.streaming.read(spark, table_path)  # loads the class of our source
    changes = (lambda: t.delete("id = 1"), lambda: t.delete("id in (2, 3)"), lambda: t.update("id = 4", {"v": "0"}))
    for n, change in enumerate(changes):
        begin = t.history(1).collect()[0]["version"] + 1
        change()
        append(spark, table_path, 20)
        told = []
        for name in ("rowlock.StreamTable", "delta"):
            try:
                rows = spark.readStream.format(name).options(**options, startingVersion=begin).load(table_path)
                told.append(str(sorted(flat(run(rows, tmp_path / f"{name} {n}")))))
            except StreamingQueryException as e:
                assert "DELTA_SOURCE_" in str(e)
                told.append("stopped")
        assert told[0] == told[1]


def test_versions_that_change_rows(spark: SparkSession, table_path: str) -> None:
    t = table(spark, table_path)
    begin = t.history(1).collect()[0]["version"] + 1
    t.delete("id = 1")
    t.update("id = 4", {"v": "0"})
    append(spark, table_path, 20)
    with pytest.raises(InvalidInput, match=r"\(DELETE\).*skipChangeCommits"):
        Asked(spark, table_path, startingVersion=begin).all()
    assert flat(Asked(spark, table_path, startingVersion=begin, skipChangeCommits="true").all()) == [(20, 200, "a")]
    again = flat(Asked(spark, table_path, startingVersion=begin, ignoreChanges="true").all())
    assert (20, 200, "a") in again and (4, 0, "a") in again and not [r for r in again if r[0] == 1], "rows of files that were rewritten come again"


def test_what_comes_before_a_version_that_ends_a_stream_is_delivered(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path)
    rows = rowlock.streaming.read(spark, table_path, starting_version=t.history(1).collect()[0]["version"] + 0)
    append(spark, table_path, 10)
    t.update("id = 1", {"v": "0"})
    found: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        del number
        found.extend(r[0] for r in batch.collect())

    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"InvalidInput: .* Version \d+ changes or deletes rows \(UPDATE\)"):
        query.awaitTermination()
    assert 10 in found


def test_other_columns_end_a_stream_and_a_new_one_reads_on(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)
    rows = rowlock.streaming.read(spark, table_path)
    asked = Asked(spark, table_path)
    asked.all()
    rowlock.write(spark.createDataFrame([(10, 100, "a", 1)], "id int, v int, p string, more int"), table_path, merge_schema=True)
    with pytest.raises(InvalidInput, match=r"DELTA_SCHEMA_CHANGED.*adds a column 'more'"):
        asked.all()
    with pytest.raises(StreamingQueryException, match="make it anew"):
        run(rows, tmp_path / "cp")
    assert Asked(spark, table_path, asked.offsets).all() == [[(10, 100, "a", 1)]]
    assert flat(Asked(spark, table_path).all())[0] == (0, 0, "a", None), "older files have null in newer columns"


@pytest.mark.soak("as the test before it, by ALTER; the rule is in tests/unit/api/stream_source/test_walk.py", ci=True)
def test_columns_that_were_renamed_end_a_stream(spark: SparkSession, table_path: str) -> None:
    table(spark, table_path, **{"delta.columnMapping.mode": "name"})
    asked = Asked(spark, table_path)
    assert sorted(chain.from_iterable(ids(asked.all()))) == [0, 1, 2, 3, 4, 5]
    append(spark, table_path, 9)
    rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` RENAME COLUMN v TO w")
    with pytest.raises(InvalidInput, match="called column 'w' 'v'"):
        Asked(spark, table_path, asked.offsets).all()
    assert len(flat(Asked(spark, table_path).all())) == 7


def test_another_table_in_its_place_ends_a_stream(spark: SparkSession, table_path: str) -> None:
    table(spark, table_path)
    asked = Asked(spark, table_path)
    asked.all()
    shutil.rmtree(table_path)
    table(spark, table_path, files=2)
    for stream in (asked, Asked(spark, table_path, asked.offsets)):
        with pytest.raises(InvalidInput, match=r"DIFFERENT_DELTA_TABLE.*dropped and made anew"):
            stream.all()


@pytest.mark.filterwarnings("ignore::rowlock.exceptions.CommitOverwrittenWarning")
@pytest.mark.soak("a folder that was put back; another table in its place stays above", ci=True)
def test_an_older_state_of_the_table_ends_a_stream(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)
    shutil.copytree(table_path, tmp_path / "backup")
    append(spark, table_path, 9)
    append(spark, table_path, 10)
    asked = Asked(spark, table_path)
    asked.all()
    shutil.rmtree(table_path)
    shutil.copytree(tmp_path / "backup", table_path)
    for stream in (asked, Asked(spark, table_path, asked.offsets)):
        with pytest.raises(InvalidInput, match="an older state of the table"):
            stream.all()
    shutil.rmtree(tmp_path / "backup")


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.short("true", ci=("false",), why="the same feed without vectors")
def test_the_change_feed_is_what_changes_says(spark: SparkSession, table_path: str, vectors: str) -> None:
    t = table(spark, table_path, **{"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": vectors})
    t.update("id = 1", {"v": "7"})
    t.delete("id in (2, 3)")
    append(spark, table_path, 9)
    asked = Asked(spark, table_path, readChangeFeed="true", startingVersion=0, maxFilesPerTrigger=1)
    found = asked.all()
    names = asked.source.columns.names
    assert names[-3:] == ["_change_type", "_commit_version", "_commit_timestamp"]
    assert sorted(flat(found), key=repr) == in_order(rowlock.changes(spark, table_path, 0).select(*names)) and len(found) > 4
    for batch in found:
        assert [r[3] for r in batch].count("update_preimage") == [r[3] for r in batch].count("update_postimage")
    t.update("id = 9", {"v": "8"})
    assert sorted(r[3] for r in flat(Asked(spark, table_path, asked.offsets, readChangeFeed="true").all())) == ["update_postimage", "update_preimage"]
    first = flat(Asked(spark, table_path, readChangeFeed="true").all())
    assert sorted(r[0] for r in first) == [0, 1, 4, 5, 9] and {r[3:5] for r in first} == {("insert", t.history(1).collect()[0]["version"])}


@pytest.mark.soak("two queries; the rows are those of rowlock.changes, which tests/spark/test_change_feed.py compares with delta-spark")
def test_the_change_feed_as_delta_spark_has_it(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path, **{"delta.enableChangeDataFeed": "true"})
    t.update("id = 1", {"v": "7"})
    t.delete("id in (2, 3)")
    rows = rowlock.streaming.read(spark, table_path, read_change_feed=True, starting_version=0)
    theirs = delta(spark, table_path, readChangeFeed="true", startingVersion=0).select(*rows.columns)
    assert sorted(flat(run(rows, tmp_path / "mine")), key=repr) == sorted(flat(run(theirs, tmp_path / "theirs")), key=repr)


def test_a_checkpoint_that_divides_the_changes_of_a_version_is_refused(spark: SparkSession, table_path: str) -> None:
    """delta-spark leaves one where a version removes whole files and a batch takes some of them."""
    table(spark, table_path, **{"delta.enableChangeDataFeed": "true"}).delete()
    asked = Asked(spark, table_path, readChangeFeed=True)
    asked.all()
    within = asked.offsets[-1].replace('"reservoirVersion":5,"index":-1', '"reservoirVersion":4,"index":0')
    for start, end in ((within, asked.offsets[-1]), (asked.offsets[-1].replace('"reservoirVersion":5', '"reservoirVersion":4'), within)):
        with pytest.raises(InvalidInput, match="within the changes of version 4"):
            asked.rows(start, end)


def test_a_sink_by_function_writes_a_batch_once(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    table(spark, table_path)
    rows, copy = rowlock.streaming.read(spark, table_path, max_files_per_trigger=1), str(tmp_path / "copy")

    def write() -> None:
        to = rowlock.streaming.sink(copy, partition_by="p", properties={"delta.appendOnly": "true"})
        rows.writeStream.foreachBatch(to).option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()

    write()
    last = max(int(f.name) for f in (tmp_path / "cp" / "commits").iterdir() if f.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):  # as where the process died after the commit of the last batch
        (tmp_path / "cp" / "commits" / name).unlink(missing_ok=True)
    append(spark, table_path, 9)
    write()
    assert sorted(r[0] for r in rowlock.read(spark, copy).collect()) == [0, 1, 2, 3, 4, 5, 9]
    assert rowlock.DeltaTable.forPath(spark, copy).detail().collect()[0]["partitionColumns"] == ["p"]


def test_a_sink_that_is_given_a_batch_twice_says_so(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    """The second rows would be left out as a batch that runs again (I2); sinks with names of their own write a part each."""
    table(spark, table_path)
    rows = rowlock.streaming.read(spark, table_path)

    def into(name: str, halves: tuple[Any, Any], call: Any = lambda write, batch, n: write(batch, n)) -> list[int]:
        def both(batch: Any, number: int) -> None:
            for write, condition in zip(halves, ("id < 3", "id >= 3"), strict=True):
                call(write, batch.where(condition), number)

        checkpoint = str(tmp_path / f"{name} checkpoint")
        rows.writeStream.foreachBatch(both).option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        return sorted(r[0] for r in rowlock.read(spark, str(tmp_path / name)).collect())

    one = rowlock.streaming.sink(str(tmp_path / "one"))
    with pytest.raises(StreamingQueryException, match="given batch 0 twice"):
        into("one", (one, one))
    two = tuple(rowlock.streaming.sink(str(tmp_path / "two"), name=name) for name in ("low", "high"))
    assert into("two", two) == [0, 1, 2, 3, 4, 5]

    def by_thread(write: Any, batch: Any, number: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(write, batch, number).result()

    with pytest.raises(StreamingQueryException, match="not in a thread that this begins"):
        into("three", (rowlock.streaming.sink(str(tmp_path / "three")), one), by_thread)


@pytest.mark.soak("Spark's own state; what the source gives is asked by the others", ci=True)
def test_a_stream_joins_and_counts(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    t = table(spark, table_path)
    t.delete("id = 5")
    rows = rowlock.streaming.read(spark, table_path, max_files_per_trigger=1)
    joined = rows.join(rowlock.read(spark, table_path).selectExpr("id", "v AS w"), "id")
    query = joined.groupBy("p").sum("w").writeStream.format("memory").queryName("sums").outputMode("complete")
    query.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(tuple, spark.table("sums").collect())) == [("a", 50), ("b", 50)]


def test_what_a_caller_gives_is_checked_at_once(spark: SparkSession, table_path: str, tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        rowlock.streaming.read(spark, str(tmp_path / "none"))
    table(spark, table_path)
    with pytest.raises(InvalidInput, match="maxFilesPerTrigger"):
        rowlock.streaming.read(spark, table_path, max_files_per_trigger=0)
    with pytest.raises(InvalidInput, match="mode"):
        rowlock.streaming.sink(table_path, mode="complete")  # type: ignore[arg-type]
    rowlock.streaming.read(spark, table_path)  # loads the class of our source
    with pytest.raises(UnsupportedFeature, match="versionAsOf"):
        spark.readStream.format("rowlock.StreamTable").option("versionAsOf", "1").load(table_path)
    with pytest.raises(SchemaMismatch, match="leave schema"):
        spark.readStream.format("rowlock.StreamTable").schema("id string").load(table_path)


def test_a_query_that_is_stopped_while_a_batch_is_planned_has_not_failed(
    spark: SparkSession, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark interrupts the query's thread, which works for Python just then: nothing is logged as an error, and `exception()` says that there was none."""
    table(spark, table_path)
    planning = threading.Event()

    def waits(self: source.TableStream, start: str | None, end: str) -> Any:
        planning.set()
        assert spark._jvm is not None
        return spark._jvm.java.lang.Thread.sleep(120_000)

    monkeypatch.setattr(source.TableStream, "batch", waits)
    rows = rowlock.streaming.read(spark, table_path)
    query = rows.writeStream.foreachBatch(lambda batch, number: None).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert planning.wait(120)
    query.stop()
    assert not query.isActive and query.exception() is None


@pytest.mark.parametrize("changes", [False, True], ids=["rows", "changes"])
@pytest.mark.short("rows", ci=("changes",), why="the same columns by the feed")
def test_a_table_that_a_stream_makes_has_the_comments_of_the_columns(spark: SparkSession, table_path: str, tmp_path: Path, changes: bool) -> None:
    columns = "id INT COMMENT 'the key', v VARCHAR(3) COMMENT 'short'"
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` ({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (1, 'a')")
    writer = rowlock.streaming.read(spark, table_path, read_change_feed=changes).writeStream.foreachBatch(rowlock.streaming.sink(str(tmp_path / "copy")))
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    schema = rowlock.read(spark, str(tmp_path / "copy")).schema
    assert [schema[n].metadata for n in ("id", "v")] == [{"comment": "the key"}, {"comment": "short", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}]
