"""Delta's settings of a session, by every entrance: each is read when a statement runs, works, or is named (I9); what delta-spark does is recorded in delta_statements.txt."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable, arguments
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch, SettingWarning, StatementRefused, UnsupportedFeature
from rowlock.limits import limited
from rowlock.protocol.session_settings import PREFIX
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make, read, unchanged

pytestmark = pytest.mark.spark

APP, STEP = "write.txnAppId", "write.txnVersion"


@contextmanager
def settings(spark: SparkSession, values: dict[str, Any]) -> Iterator[None]:
    names = {name if name.startswith("spark.") else PREFIX + name: str(value) for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def head(path: str) -> Any:
    return state_of(open_store(path)).refresh()


def codecs(path: str) -> set[str]:
    """How the live data files are compressed."""
    return {pq.ParquetFile(f"{path}/{f.path}").metadata.row_group(0).column(0).compression for f in head(path).files.adds()}


ENTRANCES: dict[str, Callable[[SparkSession, str, int], Any]] = {
    "rowlock.write": lambda spark, path, n: rowlock.write(spark.createDataFrame([(n, "n")], "id int, more string"), path),
    "rowlock.append": lambda spark, path, n: rowlock.append(path, pa.table({"id": pa.array([n], pa.int32()), "more": ["n"]})),
    "DeltaTable.merge": lambda spark, path, n: (
        DeltaTable.forPath(spark, path)
        .alias("t")
        .merge(spark.createDataFrame([(n, "n")], "id int, more string").alias("s"), "t.id = s.id")
        .whenNotMatchedInsertAll()
        .execute()
    ),
    "rowlock.sql": lambda spark, path, n: rowlock.sql(spark, f"INSERT INTO delta.`{path}` BY NAME SELECT {n} AS id, 'n' AS more"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_columns_are_added_and_steps_are_committed_once_by_each_entrance(spark: SparkSession, table_path: str, entrance: str) -> None:
    make(spark, table_path, [(1,)], "id int")
    run = ENTRANCES[entrance]
    with settings(spark, {"schema.autoMerge.enabled": "TRUE", APP: "a", STEP: 7, "commitInfo.userMetadata": "mine"}):
        run(spark, table_path, 2)
        with unchanged(table_path):
            run(spark, table_path, 3)
        spark.conf.set(PREFIX + STEP, "8")
        run(spark, table_path, 4)
        with settings(spark, {f"{STEP}.autoReset.enabled": "true", STEP: 9}):
            run(spark, table_path, 5)
            assert spark.conf.get(PREFIX + STEP, None) is None
    assert read(spark, table_path) == [(1, None), (2, "n"), (4, "n"), (5, "n")]
    assert head(table_path).txns["a"].version == 9
    assert DeltaTable.forPath(spark, table_path).history(1).first()["userMetadata"] == "mine"
    with settings(spark, {APP: "a"}), unchanged(table_path), pytest.raises(InvalidInput, match=r"txnAppId and .*txnVersion go together"):
        run(spark, table_path, 6)


def test_a_table_is_replaced_once_by_a_step(spark: SparkSession, table_path: str) -> None:
    """The rows of a batch that is tried again are not written again, also where the batch makes the table anew."""
    make(spark, table_path, [(1, "a")], "id int, s string")

    def replace(value: int) -> None:
        rowlock.sql(spark, f"CREATE OR REPLACE TABLE delta.`{table_path}` USING delta AS SELECT {value} AS n")

    with settings(spark, {APP: "a", STEP: 1}):
        replace(1)
        with unchanged(table_path):
            replace(2)
        spark.conf.set(PREFIX + STEP, "2")
        replace(3)
    assert read(spark, table_path) == [(3,)] and head(table_path).txns["a"].version == 2


def test_a_delete_of_no_row_takes_no_step(spark: SparkSession, table_path: str) -> None:
    """As in delta-spark: what follows under the same number is the step, and the number stays set."""
    table = make(spark, table_path, [(1, "a")], "id int, s string")
    with settings(spark, {APP: "a", STEP: 1, f"{STEP}.autoReset.enabled": "true"}):
        with unchanged(table_path):
            table.delete("id = 9")
        assert spark.conf.get(PREFIX + STEP) == "1"
        table.update("id = 9", {"s": "'no'"})
        assert spark.conf.get(PREFIX + STEP, None) is None and head(table_path).txns["a"].version == 1


def test_statements_through_a_table_are_steps_and_several_in_a_block_are_one(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1, "a"), (2, "b"), (3, "c")], "id int, s string")
    with settings(spark, {APP: "a", STEP: 1}):
        for _ in range(2):
            with table.transaction() as txn:
                txn.delete("id = 1")
                txn.update("id = 2", {"s": "concat(s, '!')"})
        with unchanged(table_path):
            table.update(set={"s": "'no'"})
            table.delete()
            assert table.merge(spark.sql("SELECT 9 AS id"), "false").whenNotMatchedInsertAll().execute().collect() == []
        spark.conf.set(PREFIX + STEP, "2")
        table.delete("id = 3")
        table.optimize().executeCompaction()
    assert read(spark, table_path) == [(2, "b!")] and head(table_path).txns["a"].version == 2


def test_a_merge_in_a_block_may_not_add_columns_but_the_setting_does_it_no_harm(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1, "a")], "id int, s string")
    with settings(spark, {"schema.autoMerge.enabled": "true"}):
        with unchanged(table_path), pytest.raises(UnsupportedFeature, match="adds columns"), table.transaction() as txn:
            txn.merge(spark.createDataFrame([(2, "x")], "id int, more string"), "false").whenNotMatchedInsertAll().execute()
        with table.transaction() as txn:
            txn.delete("id = 1")
            txn.merge(spark.createDataFrame([(2,)], "id int"), "false").whenNotMatchedInsertAll().execute()
    assert read(spark, table_path) == [(2, None)]


def test_an_argument_says_more_than_the_session(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1,)], "id int")
    more = spark.createDataFrame([(2, "x")], "id int, more string")
    with settings(spark, {"schema.autoMerge.enabled": "true", APP: "a", STEP: 1}):
        with unchanged(table_path), pytest.raises(SchemaMismatch):
            rowlock.write(more, table_path, merge_schema=False)
        rowlock.write(more, table_path, app_id="other", app_version=1)
    assert set(head(table_path).txns) == {"other"}


def test_an_insert_with_a_list_of_columns_widens_types_and_adds_no_column(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, 1)], "id int, n int")
    DeltaTable.forPath(spark, table_path).setProperties({"delta.enableTypeWidening": "true"})
    with settings(spark, {"schema.autoMerge.enabled": "true"}):
        rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` (n, id) SELECT 2, 3000000000L")
        with unchanged(table_path), pytest.raises(SchemaMismatch, match="no column 'more'"):
            rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` (n, id, more) SELECT 2, 3, 4")
    assert read(spark, table_path) == [(1, 1), (3_000_000_000, 2)] and head(table_path).schema.names == ("id", "n")


def test_new_tables_have_the_sessions_properties_by_each_entrance(spark: SparkSession, tmp_path: Path) -> None:
    row = spark.createDataFrame([(1,)], "id int")
    row.write.parquet(f"{tmp_path}/converted")
    made: dict[str, Callable[[str], Any]] = {
        "written": lambda path: rowlock.write(row, path),
        "appended": lambda path: rowlock.append(path, pa.table({"id": [1]})),
        "built": lambda path: DeltaTable.create(spark).location(path).addColumn("id", "int").execute(),
        "by a query": lambda path: rowlock.sql(spark, f"CREATE TABLE delta.`{path}` USING delta AS SELECT 1 AS id"),
        "converted": lambda path: DeltaTable.convertToDelta(spark, f"parquet.`{path}`"),
    }
    with settings(spark, {"properties.defaults.enableChangeDataFeed": "true", "properties.defaults.enableDeletionVectors": "false"}):
        for name, make_it in made.items():
            make_it(f"{tmp_path}/{name}")
            configuration = head(f"{tmp_path}/{name}").metadata.configuration
            assert (configuration["delta.enableChangeDataFeed"], configuration["delta.enableDeletionVectors"]) == ("true", "false"), name
        rowlock.write(row, f"{tmp_path}/own", properties={"delta.enableChangeDataFeed": "false"})
        assert head(f"{tmp_path}/own").metadata.configuration["delta.enableChangeDataFeed"] == "false"
    for wrong, text in (("appendonly", "is delta.appendOnly meant"), ("rowTrackingSuspended", "cannot|can only|always")):
        with settings(spark, {f"properties.defaults.{wrong}": "true"}), pytest.raises(InvalidInput, match=f"{wrong}.*(?:{text})"):
            rowlock.write(row, f"{tmp_path}/none")
    assert not Path(f"{tmp_path}/none").exists()


def test_each_session_has_settings_of_its_own_and_they_are_read_at_the_statement(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1,)], "id int")
    other = spark.newSession()
    merge = DeltaTable.forPath(other, table_path).merge(other.createDataFrame([(2, "x")], "id int, more string").alias("s"), "false").whenNotMatchedInsertAll()
    with settings(spark, {"schema.autoMerge.enabled": "true"}), unchanged(table_path), pytest.raises(SchemaMismatch):
        rowlock.write(other.createDataFrame([(2, "x")], "id int, more string"), table_path)
    other.conf.set(PREFIX + "schema.autoMerge.enabled", "true")
    merge.execute()
    assert read(spark, table_path) == [(1, None), (2, "x")]
    assert other.conf.get(PREFIX + "lastCommitVersionInSession") == str(head(table_path).version)


def test_what_cannot_be_heeded_is_refused_or_named_once(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1,)], "id int")
    row = spark.createDataFrame([(2,)], "id int")
    with settings(spark, {"dynamicPartitionOverwrite.enabled": "false"}), unchanged(table_path):
        with pytest.raises(UnsupportedFeature, match=f"{PREFIX}dynamicPartitionOverwrite.enabled = false is refused"):
            rowlock.write(row, table_path)
        with pytest.raises(UnsupportedFeature, match="dynamicPartitionOverwrite"):
            rowlock.sql(spark, f"INSERT INTO delta.`{table_path}` VALUES (2)")
        assert read(spark, table_path) == [(1,)]
    with settings(spark, {"legacy.storeOptionsAsProperties": "true"}), pytest.raises(UnsupportedFeature, match="storeOptionsAsProperties"):
        rowlock.write(row, table_path + "-new")
    with settings(spark, {"restore.protocolDowngradeAllowed": "true"}):
        rowlock.write(row, table_path)
        with pytest.raises(UnsupportedFeature, match="protocolDowngradeAllowed"):
            table.restoreToVersion(0)
    arguments._warned.clear()
    with settings(spark, {"schema.automerge.enabled": "true", "commitMetrics.enabled": "false", "stalenessLimit": "1h"}):
        with pytest.warns(SettingWarning) as told:
            rowlock.write(row, table_path)
        said = sorted(str(w.message) for w in told if issubclass(w.category, SettingWarning) and "ogCache" not in str(w.message))
        assert any("is schema.autoMerge.enabled meant?" in text for text in said) and any("stalenessLimit = 1h has no effect" in text for text in said)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SettingWarning)
            rowlock.write(row, table_path)


def test_settings_of_sparks_files_are_refused_where_they_would_change_values_and_named_else(spark: SparkSession, table_path: str) -> None:
    """`TIMESTAMP_MILLIS` cuts off microseconds in delta-spark's files."""
    row = spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00.000001' AS at")
    unit = "spark.sql.parquet.outputTimestampType"
    with settings(spark, {unit: "TIMESTAMP_MILLIS"}):
        for call in (
            lambda: rowlock.write(row, table_path),
            lambda: rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` USING delta AS SELECT now() AS at"),
        ):
            with pytest.raises(UnsupportedFeature, match=f"{unit} = TIMESTAMP_MILLIS is refused"):
                call()
    for same in ("INT96", "TIMESTAMP_MICROS"):
        with settings(spark, {unit: same}):
            rowlock.write(row, table_path)
    assert rowlock.read(spark, table_path).where("date_format(at, 'SSSSSS') = '000001'").count() == 2
    calendar = "spark.sql.parquet.datetimeRebaseModeInWrite"
    with settings(spark, {calendar: "EXCEPTION"}), pytest.raises(UnsupportedFeature, match=f"{calendar} = EXCEPTION is refused"):
        rowlock.write(row, table_path)
    before = len(head(table_path).files)
    with settings(spark, {"spark.sql.files.maxRecordsPerFile": "1"}):
        rowlock.write(row.union(row), table_path)
    assert len(head(table_path).files) == before + 2
    with settings(spark, {"spark.sql.files.maxRecordsPerFile": "-1"}):  # no limit, as Spark has it: rows were lost
        rowlock.write(row.union(row), table_path)
        rowlock.sql(spark, f"OPTIMIZE delta.`{table_path}`")
    assert (len(head(table_path).files), rowlock.read(spark, table_path).count()) == (1, before + 4)
    arguments._warned.clear()
    for name in ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"):
        with settings(spark, {name: "true"}), pytest.warns(SettingWarning, match=f"{name} = true has no effect"):
            rowlock.write(row, table_path)
    with settings(spark, {"spark.sql.parquet.writeLegacyFormat": "true"}), pytest.warns(SettingWarning, match="writeLegacyFormat = true has no effect"):
        rowlock.write(row, table_path)


def test_how_the_files_of_tasks_become_those_of_a_job_is_no_choice_of_the_session(spark: SparkSession, table_path: str) -> None:
    """I5: by Hadoop's algorithm 2 the files of a try that was lost after it had moved some would be there beside those of the next try."""
    make(spark, table_path, [(1,)], "id long")
    values = {
        "mapreduce.fileoutputcommitter.algorithm.version": 2,
        "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol",
    }
    there = set(Path(table_path).rglob("*.parquet"))
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        with limited(append_driver_bytes=0, driver_rows=0), warnings.catch_warnings():
            warnings.simplefilter("ignore", SettingWarning)
            with pytest.raises(Exception, match="no seven"):
                rowlock.write(spark.range(0, 8, 1, 8).selectExpr("if(id = 7, raise_error('no seven'), id) AS id"), table_path)
            found = [p.relative_to(table_path) for p in {*Path(table_path).rglob("*.parquet")} - there]
            assert [p for p in found if not any(part.startswith("_") for part in p.parts)] == []
            rowlock.write(spark.range(2, 4), table_path)
    finally:
        for name in values:
            spark.conf.unset(name)
    assert read(spark, table_path) == [(1,), (2,), (3,)]


def test_replace_where_goes_by_its_settings(spark: SparkSession, table_path: str) -> None:
    make(spark, table_path, [(1, 1), (2, 2)], "id int, p int", partition_by=["p"])

    def replaced(where: str, *rows: tuple[int, int]) -> list[Any]:
        rowlock.write(spark.createDataFrame(list(rows), "id int, p int"), table_path, mode="overwrite", replace_where=where)
        return read(spark, table_path)

    with settings(spark, {"replaceWhere.dataColumns.enabled": "false", "replaceWhere.constraintCheck.enabled": "false"}), unchanged(table_path):
        with pytest.raises(StatementRefused, match="non-partition column 'id'"):
            replaced("id = 1", (1, 1))
        with pytest.raises(ConstraintViolated):
            replaced("p = 1", (7, 2))
    with settings(spark, {"replaceWhere.constraintCheck.enabled": "false"}):
        assert replaced("id = 1", (9, 9)) == [(2, 2), (9, 9)]
    with unchanged(table_path), pytest.raises(ConstraintViolated):
        replaced("id = 9", (3, 3))


def test_a_feed_may_start_after_the_newest_version_where_the_session_allows(spark: SparkSession, table_path: str) -> None:
    rowlock.append(table_path, pa.table({"id": [1]}), properties={"delta.enableChangeDataFeed": "true"})
    with settings(spark, {"changeDataFeed.timestampOutOfRange.enabled": "true"}):
        for start in (5, "2099-01-01 00:00:00"):
            assert rowlock.changes(spark, table_path, start=start).collect() == []
        assert rowlock.changes(spark, table_path, start=0, end="2099-01-01 00:00:00").count() == 1
    with pytest.raises(rowlock.exceptions.VersionNotFound):
        rowlock.changes(spark, table_path, start="2099-01-01 00:00:00")


def test_files_are_compressed_as_the_write_the_table_or_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    few, many = spark.createDataFrame([(1,)], "id int"), spark.range(3).repartition(2).selectExpr("cast(id as int) as id")
    with settings(spark, {"spark.sql.parquet.compression.codec": "zstd"}):
        for name, rows in (("few", few), ("many", many)):
            with limited(append_driver_bytes=1 if name == "many" else 2**20):
                rowlock.write(rows, f"{tmp_path}/{name}")
            assert codecs(f"{tmp_path}/{name}") == {"ZSTD"} and all(".zstd." in f.path for f in head(f"{tmp_path}/{name}").files.adds())
            with limited(append_driver_bytes=1 if name == "many" else 2**20):
                rowlock.write(rows, f"{tmp_path}/{name}", mode="overwrite", compression="gzip")
            assert codecs(f"{tmp_path}/{name}") == {"GZIP"}
        rowlock.append(f"{tmp_path}/appended", pa.table({"id": [1]}), properties={"delta.parquet.compression.codec": "LZ4"})
        assert codecs(f"{tmp_path}/appended") == {"LZ4"} and rowlock.read(spark, f"{tmp_path}/appended").count() == 1
        DeltaTable.forPath(spark, f"{tmp_path}/many").update(set={"id": "id + 1"})
        assert codecs(f"{tmp_path}/many") <= {"ZSTD", "GZIP"} and "ZSTD" in codecs(f"{tmp_path}/many")
    with pytest.raises(InvalidInput, match="option compression is one of"):
        rowlock.write(few, f"{tmp_path}/few", compression="zip")
    rowlock.write(few, f"{tmp_path}/few", mode="overwrite")
    assert codecs(f"{tmp_path}/few") == {"SNAPPY"}


def test_small_files_are_compacted_after_the_commit_and_beside_others(spark: SparkSession, table_path: str) -> None:
    for n in range(3):
        rowlock.append(table_path, pa.table({"id": [n], "p": [n % 2]}), partition_by="p")
    row = spark.createDataFrame([(7, 0)], "id bigint, p bigint")
    with settings(spark, {"autoCompact.enabled": "true", "autoCompact.minNumFiles": "4"}):
        rowlock.write(row, table_path)
        assert len(head(table_path).files) == 4
    with settings(spark, {"autoCompact.enabled": "true", "autoCompact.minNumFiles": "3"}):
        receipt = rowlock.write(row, table_path)
    history = DeltaTable.forPath(spark, table_path).history(2).collect()
    assert [r["operation"] for r in history] == ["OPTIMIZE", "WRITE"] and history[0]["operationParameters"]["auto"] == "true"
    assert receipt.version == head(table_path).version - 1 and len(head(table_path).files) == 2
    assert read(spark, table_path) == [(0, 0), (1, 1), (2, 0), (7, 0), (7, 0)]
    table = DeltaTable.forPath(spark, table_path)
    table.setProperties({"delta.autoOptimize.autoCompact": "true"})
    with settings(spark, {"autoCompact.enabled": "false", "autoCompact.minNumFiles": "1"}):
        rowlock.write(row, table_path)
        assert len(head(table_path).files) == 3
    with settings(spark, {"autoCompact.minNumFiles": "2"}):
        table.update("id = 1", {"p": "0"})
    assert len([f for f in head(table_path).files.adds() if f.partition_values["p"] == "0"]) == 1


@pytest.mark.no_peers("a data file is gone")
def test_a_compaction_that_fails_does_not_fail_the_commit(spark: SparkSession, table_path: str, caplog: pytest.LogCaptureFixture) -> None:
    make(spark, table_path, [(1,)], "id int")
    (Path(table_path) / next(iter(head(table_path).files.adds())).path).unlink()
    with settings(spark, {"autoCompact.enabled": "true", "autoCompact.minNumFiles": "2"}):
        landed = rowlock.write(spark.createDataFrame([(2,)], "id int"), table_path).version
    assert head(table_path).version == landed and f"the compaction after version {landed}" in caplog.text


def test_rows_are_shuffled_before_they_are_written_where_that_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(40).repartition(4).selectExpr("id", "id % 2 as p")
    ways: list[dict[str, Any]] = [{}, {"optimize_write": True}, {"properties": {"delta.autoOptimize.optimizeWrite": "true"}}]
    for n, how in enumerate(ways):
        with limited(append_driver_bytes=1):
            rowlock.write(rows, f"{tmp_path}/{n}", partition_by="p", **how)
        assert rowlock.read(spark, f"{tmp_path}/{n}").count() == 40
    with settings(spark, {"optimizeWrite.enabled": "true", "optimizeWrite.binSize": "64MB"}), limited(append_driver_bytes=1):
        rowlock.write(rows, f"{tmp_path}/3", partition_by="p")
        rowlock.write(rows, f"{tmp_path}/4", partition_by="p", optimize_write=False)
    assert [len(head(f"{tmp_path}/{n}").files) for n in range(5)] == [8, 2, 2, 2, 8]


def test_files_lie_in_random_folders_where_the_table_says_so(spark: SparkSession, table_path: str) -> None:
    properties = {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "5"}
    rowlock.append(table_path, pa.table({"id": [1, 2], "p": [1, 2]}), partition_by="p", properties=properties)
    with limited(append_driver_bytes=1):
        rowlock.write(spark.range(4).repartition(2).selectExpr("id", "id % 2 as p"), table_path)
    paths = [f.path for f in head(table_path).files.adds()]
    assert all(re.match(r"[0-9a-f]{5}/", p) for p in paths) and len({p[:6] for p in paths}) == 3
    DeltaTable.forPath(spark, table_path).delete("id = 2")
    DeltaTable.forPath(spark, table_path).optimize().executeCompaction()
    assert read(spark, table_path) == [(0, 0), (1, 1), (1, 1), (3, 1)]


def test_other_settings_do_what_delta_says(spark: SparkSession, table_path: str) -> None:
    table = make(spark, table_path, [(1,)], "id int")
    row = spark.createDataFrame([(2,)], "id int")
    with settings(spark, {"history.metricsEnabled": "false"}):
        rowlock.write(row, table_path)
    assert not table.history(1).first()["operationMetrics"]
    with ExitStack() as stack:
        stack.enter_context(settings(spark, {"allowArbitraryProperties.enabled": "true"}))
        table.setProperties({"delta.someOther": "x"})
    assert head(table_path).metadata.configuration["delta.someOther"] == "x"
    with pytest.raises(InvalidInput, match=r"delta\.yetAnother"):
        table.setProperties({"delta.yetAnother": "x"})
    with settings(spark, {"constraints.assumesDropIfExists.enabled": "true"}):
        rowlock.sql(spark, f"ALTER TABLE delta.`{table_path}` DROP CONSTRAINT none_such")
    stray = Path(table_path) / "stray.parquet"
    stray.write_bytes(b"x")
    with settings(spark, {"retentionDurationCheck.enabled": "false", "vacuum.lite.enabled": "true"}):
        table.vacuum(0)
        assert stray.exists()
    with settings(spark, {"retentionDurationCheck.enabled": "false"}):
        table.vacuum(0)
        assert not stray.exists()
    with settings(spark, {"optimize.maxFileSize": "1"}):
        table.optimize().executeCompaction()
        assert len(head(table_path).files) == 2
    table.optimize().executeCompaction()
    assert len(head(table_path).files) == 1


def test_scans_are_the_same_where_spark_would_read_parquet_by_its_newer_sources(spark: SparkSession, table_path: str) -> None:
    """I9: without `useV1SourceList` Spark's reader gives another kind of relation, which no scan can be built upon."""
    table = make(spark, table_path, [(1, 1), (2, 2), (3, 2)], "id int, p int", partition_by=["p"])
    with settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        table.delete("id = 2")
        table.update("id = 3", {"id": "4"})
        rowlock.write(spark.createDataFrame([(5, 1)], "id int, p int"), table_path)
        assert read(spark, table_path) == [(1, 1), (4, 2), (5, 1)]
        table.optimize().executeCompaction()
        assert read(spark, table_path) == [(1, 1), (4, 2), (5, 1)]


def test_text_reaches_the_jvm_as_the_session_takes_it(spark: SparkSession, table_path: str) -> None:
    """The JVM read the offsets of text as numbers of twice the length, and ended by a signal."""
    t = make(spark, table_path, [(1,)], "id int")
    wanted = t.history().collect()
    with settings(spark, {"spark.sql.execution.arrow.useLargeVarTypes": "true"}):
        assert t.history().collect() == wanted
        assert rowlock.sql(spark, f"OPTIMIZE delta.`{table_path}`").first()["path"].endswith(Path(table_path).name)  # type: ignore[index]
