"""Tables as the peers make them: one function for each kind, `(spark, path)`.  What is special about each stands in its docstring."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

Maker = Callable[[SparkSession, str], None]

SPECIAL = ["plain", "a b", "a%20b", "100%", "x/y", "k=v", "ä ö é", "q'\"q", "a:b", "#?&", "a\\b", "[c]{d}", "a+b", "日本", "..", " lead and trail "]
"""Strings that a folder's name or a URI cannot hold as they are."""
_TYPED_PARTITIONS = """
    select id, id % 3 = 0 as p_bool, cast(id as byte) as p_byte, cast(id * 100 as short) as p_short, cast(id - 2 as int) as p_int, id * 5000000000 as p_long,
           cast(id / 4 as float) as p_float, id / 3 as p_double, cast(id * 1.25 as decimal(20, 5)) as p_decimal, date_add(date '1969-12-30', cast(id as int)) as p_date,
           timestamp '2021-10-31 01:30:00.123456+01:00' + make_interval(0, 0, 0, 0, cast(id as int)) as p_timestamp,
           timestamp_ntz '1901-02-03 04:05:06.789' as p_ntz, cast(concat('b', id) as binary) as p_binary, if(id = 1, null, concat('s ', id)) as p_string
    from range(4)
    union all select 99, null, null, null, null, null, null, null, null, null, null, null, null, null
"""
_ALL_TYPES = """
    select id, id % 2 = 0 as bool, cast(id as byte) as i8, cast(id as short) as i16, cast(id as int) as i32, cast(id / 7 as float) as f32, id / 7 as f64,
           cast(id / 7 as decimal(9, 2)) as d32, cast(id / 7 as decimal(18, 4)) as d64, cast(id as decimal(38, 10)) as d128, concat('s', id) as str, cast(id as string) || x'00ff' as raw,
           date_add(date '1960-01-01', cast(id * 1000 as int)) as day, timestamp_micros(id * 123456789012345) as moment
    from range(0, 40)
    union all select 100, null, null, null, null, float('NaN'), double('-Infinity'), null, null, null, '', x'', date '0001-01-01', timestamp '9999-12-31 23:59:59.999999'
    union all select 101, true, -128, -32768, -2147483648, float('-0.0'), double('4.9e-324'), -9999999.99, -99999999999999.9999, -1, 'é\\u2603', x'ff', date '1582-10-15', timestamp '1900-01-01'
"""


def make(spark: SparkSession, path: str, query: str, *, partition_by: str = "", cluster_by: str = "", **properties: object) -> None:
    """CREATE TABLE ... AS SELECT by delta-spark."""
    given = ", ".join(f"'delta.{k.replace('__', '.')}' = '{str(v).lower() if isinstance(v, bool) else v}'" for k, v in properties.items())
    layout = f"PARTITIONED BY ({partition_by})" if partition_by else f"CLUSTER BY ({cluster_by})" if cluster_by else ""
    spark.sql(f"CREATE TABLE delta.`{path}` USING delta {layout} {f'TBLPROPERTIES ({given})' if given else ''} AS {query}")


def sql(spark: SparkSession, path: str, *statements: str) -> None:
    """Statements of delta-spark in which T stands for the table."""
    for statement in statements:
        spark.sql(statement.replace(" T ", f" delta.`{path}` "))


def vectors(spark: SparkSession, path: str) -> None:
    """Deletion vectors in files and inline, a file that is vectored twice, one that is gone."""
    make(spark, path, "select id, id % 10 as grp, 0L as v from range(0, 2000, 1, 2)", enableDeletionVectors=True)
    sql(
        spark,
        path,
        "DELETE FROM T WHERE id % 7 = 0",
        "DELETE FROM T WHERE id = 5",
        "UPDATE T SET v = id WHERE id BETWEEN 100 AND 120",
        "DELETE FROM T WHERE id >= 1000",
    )


def typed_partitions(spark: SparkSession, path: str) -> None:
    """A partition column of every type, with nulls in all."""
    columns = "p_bool, p_byte, p_short, p_int, p_long, p_float, p_double, p_decimal, p_date, p_timestamp, p_ntz, p_binary, p_string"
    make(spark, path, _TYPED_PARTITIONS, partition_by=columns)


def special_partitions(spark: SparkSession, path: str) -> None:
    """Partition values that must be escaped, the empty string and null among them, with vectors on the files."""
    _special(spark).createOrReplaceTempView("special")
    make(spark, path, "select * from special", partition_by="p", enableDeletionVectors=True)
    sql(spark, path, "DELETE FROM T WHERE id % 3 = 1")


def _special(spark: SparkSession):  # type: ignore[no-untyped-def]
    values = [*SPECIAL, "", None]
    return spark.createDataFrame(pa.table({"id": pa.array(range(3 * len(values)), pa.int64()), "p": [v for v in values for _ in range(3)]}))


def all_types(spark: SparkSession, path: str) -> None:
    """A column of every plain type at its limits; timestamps as INT96."""
    make(spark, path, _ALL_TYPES)


def legacy_calendar(spark: SparkSession, path: str) -> None:
    """Days and moments before 1582 and 1900 in the hybrid calendar of Spark 2."""
    old = {
        n: spark.conf.get(n)
        for n in ("spark.sql.parquet.datetimeRebaseModeInWrite", "spark.sql.parquet.int96RebaseModeInWrite", "spark.sql.parquet.outputTimestampType")
    }
    try:
        for n in old:
            spark.conf.set(n, "TIMESTAMP_MICROS" if n.endswith("Type") else "LEGACY")
        make(spark, path, "select id, date_add(date '1000-02-27', cast(id as int)) as day, timestamp '1500-03-01 12:00:00' as moment from range(5)")
    finally:
        for n, value in old.items():
            spark.conf.set(n, value)


def nested(spark: SparkSession, path: str) -> None:
    """Structs, lists and maps in each other, with nulls on every level."""
    query = """
        select id, named_struct('a', id, 'b', named_struct('c', concat('c', id), 'd', array(id, null))) as s, array(named_struct('x', id), null) as l,
               map('k', named_struct('y', id), 'n', null) as m, array(map(id, array(id))) as deep from range(20)
        union all select 100, null, null, null, null
        union all select 101, named_struct('a', null, 'b', null), array(), map(), array(null)
    """
    make(spark, path, query, enableDeletionVectors=True)
    sql(spark, path, "DELETE FROM T WHERE id % 4 = 1", "UPDATE T SET s.b.c = 'changed' WHERE id = 2")


def checkpoints(spark: SparkSession, path: str) -> None:
    """Classic checkpoints every 2 commits, statistics as JSON."""
    make(spark, path, "select id, 0L as v from range(10)", checkpointInterval=2, enableDeletionVectors=True)
    for n in range(1, 4):
        sql(spark, path, f"INSERT INTO T SELECT id, {n} FROM range({10 * n}, {10 * n + 10})", f"DELETE FROM T WHERE id = {10 * n + 1}")


def struct_stats(spark: SparkSession, path: str) -> None:
    """Checkpoints whose statistics and partition values are structs only."""
    make(
        spark,
        path,
        "select id, id % 2 as p, id * 1.5 as v, timestamp_micros(id) as t from range(10)",
        partition_by="p",
        checkpointInterval=1,
        checkpoint__writeStatsAsStruct=True,
        checkpoint__writeStatsAsJson=False,
    )
    sql(spark, path, "DELETE FROM T WHERE id = 3", "INSERT INTO T SELECT id, 7, 0, timestamp_micros(0) FROM range(20, 25)")


def parts_checkpoint(spark: SparkSession, path: str) -> None:
    """A checkpoint in several parts."""
    make(spark, path, "select id, 0L as v from range(0, 40, 1, 8)", checkpointInterval=3)
    spark.conf.set("spark.databricks.delta.checkpoint.partSize", "3")
    try:
        for n in range(3):
            sql(spark, path, f"INSERT INTO T SELECT id, {n} FROM range({100 * n + 100}, {100 * n + 104})")
    finally:
        spark.conf.unset("spark.databricks.delta.checkpoint.partSize")


def v2_checkpoint(form: str) -> Maker:
    """V2 checkpoints with sidecars, the top file in JSON or Parquet."""

    def maker(spark: SparkSession, path: str) -> None:
        spark.conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", form)
        spark.conf.set("spark.databricks.delta.checkpoint.partSize", "3")
        try:
            make(
                spark,
                path,
                "select id, id % 3 as p from range(0, 30, 1, 3)",
                partition_by="p",
                checkpointPolicy="v2",
                checkpointInterval=2,
                enableDeletionVectors=True,
            )
            sql(spark, path, "DELETE FROM T WHERE id = 3", "INSERT INTO T SELECT id, 9 FROM range(100, 110)", "DELETE FROM T WHERE id = 105")
        finally:
            spark.conf.unset("spark.databricks.delta.checkpointV2.topLevelFileFormat")
            spark.conf.unset("spark.databricks.delta.checkpoint.partSize")

    maker.__name__ = f"v2_checkpoint_{form}"
    return maker


def mapped(mode: str) -> Maker:
    """Column mapping: names that Parquet does not like, columns renamed, dropped and added, at the top and in structs, partitions too."""

    def maker(spark: SparkSession, path: str) -> None:
        query = "select id, id as `old name`, concat('x', id) as gone, named_struct('a', id, 'b c', id * 2) as s, array(named_struct('e', id)) as l, id % 2 as p from range(12)"
        make(spark, path, query, partition_by="p", columnMapping__mode=mode, enableDeletionVectors=True)
        sql(
            spark,
            path,
            "DELETE FROM T WHERE id = 4",
            "ALTER TABLE T RENAME COLUMN `old name` TO `new, name`",
            "ALTER TABLE T RENAME COLUMN s.a TO z",
            "ALTER TABLE T RENAME COLUMN p TO part",
            "ALTER TABLE T DROP COLUMN gone",
            "ALTER TABLE T ADD COLUMNS (gone int, s.n string)",
            "INSERT INTO T SELECT 50, 51, named_struct('z', 1L, 'b c', 2L, 'n', 'new'), null, 3, 7",
            "UPDATE T SET gone = 9 WHERE id = 2",
        )

    maker.__name__ = f"mapped_{mode}"
    return maker


def mapped_later(spark: SparkSession, path: str) -> None:
    """Written plainly, then switched to mapping by name, a column dropped and one of its name added again."""
    make(spark, path, "select id, id * 2 as v from range(6)")
    sql(spark, path, "ALTER TABLE T SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')")
    sql(spark, path, "ALTER TABLE T DROP COLUMN v", "ALTER TABLE T ADD COLUMNS (v string)", "INSERT INTO T VALUES (10, 'again')")


def no_zone(spark: SparkSession, path: str) -> None:
    """Timestamps without a zone, as columns and as partitions."""
    make(
        spark,
        path,
        "select id, timestamp_ntz '2024-03-31 02:30:00.000001' as t, if(id = 0, null, timestamp_ntz '1969-12-31 23:59:59') as p from range(3)",
        partition_by="p",
    )


def change_feed(spark: SparkSession, path: str) -> None:
    """A change feed: cdc files beside the data, and data files with extra columns."""
    make(spark, path, "select id, 0L as v from range(20)", enableChangeDataFeed=True)
    sql(
        spark,
        path,
        "UPDATE T SET v = 1 WHERE id < 5",
        "DELETE FROM T WHERE id > 15",
        "MERGE INTO T t USING (select 3L id union all select 40L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 9 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 8)",
    )


def added_columns(spark: SparkSession, path: str) -> None:
    """Files that lack columns of the table."""
    make(spark, path, "select id from range(5)")
    sql(
        spark,
        path,
        "ALTER TABLE T ADD COLUMNS (v bigint, s struct<a: int>)",
        "INSERT INTO T VALUES (10, 1, named_struct('a', 2))",
        "ALTER TABLE T ADD COLUMNS (s.b string)",
        "INSERT INTO T VALUES (11, 1, named_struct('a', 2, 'b', 'x'))",
    )


def restored(spark: SparkSession, path: str) -> None:
    """RESTORE: a vector that shrank, and the table purged after."""
    make(spark, path, "select id, 0L as v from range(50)", enableDeletionVectors=True)
    sql(spark, path, "DELETE FROM T WHERE id < 10", "DELETE FROM T WHERE id < 20", "RESTORE TABLE T TO VERSION AS OF 1", "DELETE FROM T WHERE id = 30")


def purged(spark: SparkSession, path: str) -> None:
    """REORG ... APPLY (PURGE), then VACUUM of everything that is not live."""
    make(spark, path, "select id, 0L as v from range(50)", enableDeletionVectors=True)
    sql(spark, path, "DELETE FROM T WHERE id < 10", "REORG TABLE T APPLY (PURGE)", "DELETE FROM T WHERE id = 30", "VACUUM T RETAIN 0 HOURS")


def cloned(spark: SparkSession, path: str) -> None:
    """A shallow clone: absolute paths of another table's files and vectors."""
    special_partitions(spark, path + " of")
    spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{path} of`")
    sql(spark, path, "DELETE FROM T WHERE id = 0", "INSERT INTO T VALUES (1000, 'new one')")


def clustered(spark: SparkSession, path: str) -> None:
    """Clustering columns, kept in a domain."""
    make(spark, path, "select id, id % 10 as grp, 0L as v from range(200)", cluster_by="grp", enableDeletionVectors=True)


def no_vectors(spark: SparkSession, path: str) -> None:
    """Copy on write: the protocol has no vectors."""
    make(spark, path, "select id, id % 10 as grp, 0L as v from range(0, 200, 1, 3)")


def lengths(spark: SparkSession, path: str) -> None:
    """char and varchar columns."""
    sql(spark, path, "CREATE TABLE T (id bigint, c char(5), v varchar(5)) USING delta", "INSERT INTO T VALUES (1, 'ab', 'abc'), (2, null, null)")


def row_tracked(spark: SparkSession, path: str) -> None:
    """Row tracking, with rows that were updated."""
    make(spark, path, "select id, 0L as v from range(20)", enableRowTracking=True, enableDeletionVectors=True)
    sql(spark, path, "UPDATE T SET v = 1 WHERE id < 5", "OPTIMIZE T ")


def in_commit_timestamps(spark: SparkSession, path: str) -> None:
    """In-commit timestamps."""
    make(spark, path, "select id, 0L as v from range(20)", enableInCommitTimestamps=True)
    sql(spark, path, "DELETE FROM T WHERE id = 3")


DELTA_SPARK: tuple[Maker, ...] = (
    vectors, typed_partitions, special_partitions, all_types, legacy_calendar, nested, checkpoints, struct_stats, parts_checkpoint, v2_checkpoint("json"), v2_checkpoint("parquet"),
    mapped("name"), mapped("id"), mapped_later, no_zone, change_feed, added_columns, restored, purged, clustered, no_vectors, lengths, row_tracked, in_commit_timestamps,
)  # fmt: skip


def rs_plain(_: SparkSession | None, path: str) -> None:
    """deltalake: several files, one deleted from by copy on write, a checkpoint."""
    for n in range(3):
        write_deltalake(
            path,
            pa.table(
                {
                    "id": pa.array(range(n * 20, n * 20 + 20), pa.int64()),
                    "grp": pa.array([i % 10 for i in range(20)], pa.int64()),
                    "v": pa.array([0] * 20, pa.int64()),
                }
            ),
            mode="append",
        )
    table = DeltaTable(path)
    table.delete("id % 7 = 0")
    table.update(predicate="id = 11", updates={"v": "5"})
    table.create_checkpoint()


def rs_special_partitions(_: SparkSession | None, path: str) -> None:
    """deltalake: partition values with spaces, percent signs and the like, which it encodes in its own way."""
    values = [*SPECIAL, None]
    write_deltalake(
        path, pa.table({"id": pa.array(range(3 * len(values)), pa.int64()), "p": pa.array([v for v in values for _ in range(3)])}), partition_by=["p"]
    )
    DeltaTable(path).delete("id % 3 = 1")


def rs_types(_: SparkSession | None, path: str) -> None:
    """deltalake: every type, moments with and without a zone, nested ones."""
    when = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "i8": pa.array([-128, None, 127], pa.int8()),
        "i16": pa.array([1, None, 3], pa.int16()),
        "i32": pa.array([1, None, 3], pa.int32()),
        "f32": pa.array([1.5, None, float("nan")], pa.float32()),
        "f64": pa.array([float("-inf"), None, 3.25]),
        "b": pa.array([True, None, False]),
        "s": pa.array(["é", None, ""]),
        "raw": pa.array([b"\x00\xff", None, b""]),
        "dec": pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-99999999999999999.99")], pa.decimal128(19, 2)),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "zoned": pa.array([when, None, when], pa.timestamp("us", tz="UTC")),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "struct": pa.array([{"x": 1, "y": [{"z": "a"}]}, None, {"x": None, "y": None}]),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    }
    write_deltalake(path, pa.table(columns))


def rs_no_zone(_: SparkSession | None, path: str) -> None:
    """deltalake: moments without a zone, in columns and as partitions; and partitions of moments with one and of days."""
    when = dt.datetime(2024, 3, 31, 2, 30, 0, 1)
    table = pa.table({"id": [1, 2], "t": [when, None], "p": [when, None], "z": pa.array([when, None], pa.timestamp("us", tz="UTC")), "d": [when.date(), None]})
    write_deltalake(path, table, partition_by=["p", "z", "d"])


DELTALAKE: tuple[Maker, ...] = (rs_plain, rs_special_partitions, rs_types, rs_no_zone)
