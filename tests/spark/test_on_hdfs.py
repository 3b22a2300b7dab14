"""Tables on HDFS through the session's Hadoop client: statements, races with delta-spark, writers that are killed, file systems that cannot hold tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkDelta
from pyspark.sql import SparkSession

import rowlock
from interop.test_race_with_delta_spark import LOST
from rowlock.engines.spark.session.clouds import open_files
from rowlock.exceptions import InvalidInput
from rowlock.maintenance.check.run import check
from rowlock.storage import Committed, Lost, Unknown, open_store
from rowlock.storage.hadoop import FileInfo, HadoopFiles, HadoopStore
from servers.hdfs import Hdfs

pytestmark = pytest.mark.spark
LONG = pytest.mark.soak("a JVM with HDFS, 6 s of a processor before the first call", ci=True)
TESTS = Path(__file__).parents[1]


@LONG
def test_statements_on_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    """What Rowlock writes, delta-spark reads; a name with a space and a percent sign is one."""
    root = f"{hdfs.fresh_root()}/my table%20"
    rowlock.write(spark.range(2000).selectExpr("id", "id % 7 as k"), root, partition_by=["k"])
    rowlock.sql(spark, f"UPDATE delta.`{root}` SET id = -id WHERE id < 10")
    rowlock.sql(
        spark, f"MERGE INTO delta.`{root}` t USING (SELECT id FROM range(1995, 2005)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 9)"
    )
    rowlock.append(root, pa.table({"id": [5000], "k": [1]}))
    rowlock.sql(spark, f"OPTIMIZE delta.`{root}`")
    ours, theirs = rowlock.read(spark, root), spark.read.format("delta").load(root)
    for frame in (ours, theirs):
        assert frame.selectExpr("count(*)", "sum(id)").first()[:] == (2006, sum(range(10, 2005)) - sum(range(10)) + 5000)
    assert sorted(rowlock.to_arrow(root).column("id").to_pylist()) == sorted(r.id for r in theirs.select("id").collect())
    assert not check(open_store(root)).findings


@LONG
def test_a_name_for_a_table_on_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    """The catalog holds the place as Spark spells it: both engines find the table by its name."""
    root = f"{hdfs.fresh_root()}/a b"
    rowlock.DeltaTable.create(spark).tableName("on_hdfs").location(root).addColumn("id", "BIGINT").execute()
    try:
        rowlock.sql(spark, "INSERT INTO on_hdfs VALUES (1), (2)")
        assert rowlock.DeltaTable.forName(spark, "on_hdfs").detail().first().location == root
        assert sorted(r.id for r in spark.sql("SELECT id FROM on_hdfs").collect()) == [1, 2]
    finally:
        spark.sql("DROP TABLE on_hdfs")


@LONG
def test_a_mount_of_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    """By a mount of the client's (`viewfs:`) the same files are reached, and of two commits of a version one wins."""
    root = hdfs.fresh_root()
    rowlock.write(spark.createDataFrame([(1, 0), (2, 0)], "id long, n long"), root)
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.lake.link./tables", f"{hdfs.uri}/tables")
    there = root.replace(hdfs.uri, "viewfs://lake")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda place: [rowlock.sql(spark, f"UPDATE delta.`{place}` SET n = n + 1 WHERE id = 1") for _ in range(3)], (root, there)))
    assert sorted(map(tuple, rowlock.read(spark, there).collect())) == sorted(map(tuple, rowlock.read(spark, root).collect())) == [(1, 6), (2, 0)]
    assert open_store(there).put_if_absent("_delta_log/00000000000000000001.json", b"{}") == Lost()


@LONG
def test_a_race_with_delta_spark_on_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    """I1: HDFS lets one writer win a version, so no commit of either engine is overwritten; each increment counts once."""
    root, each = hdfs.fresh_root(), 4
    rowlock.append(root, pa.table({"id": [0, 1], "n": [0, 0]}))

    def ours(_: int) -> int:
        table = rowlock.DeltaTable.forPath(spark, root)
        for _ in range(each):
            table.update("id = 0", {"n": "n + 1"})
            rowlock.append(root, pa.table({"id": [7], "n": [1]}))
        return 2 * each

    def theirs(_: int) -> int:
        done = 0
        for _ in range(each):
            spark.range(8, 9).selectExpr("id", "1L as n").write.format("delta").mode("append").save(root)
            try:
                SparkDelta.forPath(spark, root).update("id = 1", {"n": "n + 1"})
                done += 1
            except LOST:
                continue  # as delta-spark does: it is told, and the row is as it was
        return done

    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(theirs, 0)
        commits = sum(pool.map(ours, range(2)))
        updates = running.result()
    found = {(r.id, r.n): r["count"] for r in rowlock.read(spark, root).groupBy("id", "n").count().collect()}
    assert found == {(0, 2 * each): 1, (1, updates): 1, (7, 1): 2 * each, (8, 1): each}
    versions = [m.key for m in open_store(root).list("_delta_log") if m.key.endswith(".json") and m.key.count(".") == 1]
    assert len(versions) <= 1 + commits + each + updates


class _BrokenRenames:
    """The files of a folder; the next rename is done and its reply lost, or not done at all."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files, self.root, self.next = files, files.root, ""

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        kind, self.next = self.next, ""
        if kind != "not done":
            self._files.rename(source, target, replace=replace)
        if kind:
            raise OSError("the connection broke")

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._files.read(path, start, length)

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        self._files.write(path, parts)

    def info(self, path: str) -> FileInfo | None:
        return self._files.info(path)

    def entries(self, folder: str) -> list[FileInfo]:
        return self._files.entries(folder)

    def delete(self, path: str) -> None:
        self._files.delete(path)


@LONG
def test_a_rename_without_a_reply_is_unknown(spark: SparkSession, hdfs: Hdfs) -> None:
    """I2: neither outcome is claimed, and a put after it finds out."""
    files = _BrokenRenames(open_files(hdfs.fresh_root()))
    store = HadoopStore(files)
    files.next = "done"
    assert isinstance(store.put_if_absent("log/0", b"1"), Unknown) and store.put_if_absent("log/0", b"2") == Lost() and store.get("log/0") == b"1"
    files.next = "not done"
    assert isinstance(store.put_if_absent("log/1", b"1"), Unknown) and store.put_if_absent("log/1", b"2") == Committed()
    assert [m.key for m in store.list("log")] == ["log/0", "log/1"]


@LONG
def test_a_writer_that_ended_with_a_claim_stops_nobody_for_ever(spark: SparkSession, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: a lease that its writer was about to change can be changed after a while, and the one who had claimed it has lost."""
    files = open_files(hdfs.fresh_root())
    store = HadoopStore(files)
    store.put("locks/a", b"0")
    tag = store.tag("locks/a")
    assert tag is not None
    files.write(f"{store.root}/locks/.a.{tag[:32]}.claim", (b"1",))
    assert store.replace_if("locks/a", b"2", tag) == Lost()
    monkeypatch.setattr("rowlock.storage.hadoop._CLAIM_MS", -1)
    assert store.replace_if("locks/a", b"2", tag) == Lost(), "the claim is given up"
    assert store.replace_if("locks/a", b"2", tag) == Committed() and store.get("locks/a") == b"2"
    assert [m.key for m in store.list("locks")] == ["locks/a"]


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("ftp://127.0.0.1:1/table", r"the scheme ftp: is not supported: its file system, \S+Ftp\S+, is not known for an atomic rename"),
        ("webhdfs://127.0.0.1:1/table", r"the scheme webhdfs: is not supported: its file system, \S+WebHdfs, is not known for an atomic rename"),
        ("xyz://host/table", r"Hadoop's client cannot open xyz: .*No AbstractFileSystem configured for scheme: xyz"),
    ],
)
def test_a_scheme_without_such_a_rename_is_refused_by_name(spark: SparkSession, uri: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        rowlock.DeltaTable.forPath(spark, uri)


_WRITER = """
import sys
import pyarrow as pa
import rowlock
from rowlock import DeltaTable
spark = rowlock.spark(cores=1, memory_mb=512)
DeltaTable.isDeltaTable(spark, sys.argv[1])
for n in range(10_000):
    rowlock.append(sys.argv[1], pa.table({"id": [n]}))
    print(n, flush=True)
"""


@pytest.mark.soak("a JVM for each writer that is killed, 15 s each", ci=True)
def test_killed_writers_on_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    """I2, I10: what a killed writer was told is there, each row once, and what it left no reader sees; the next writer goes on."""
    root = hdfs.fresh_root()
    rowlock.append(root, pa.table({"id": pa.array([], pa.int64())}))
    told: list[int] = []
    for kills in range(2):
        with _writer(root) as writer:
            for line in writer.stdout:  # type: ignore[union-attr]
                told.append(int(line))
                if int(line) == 5 + 3 * kills:
                    break
            os.kill(writer.pid, signal.SIGKILL)
    found = rowlock.to_arrow(root).column("id").to_pylist()
    unclear = len(found) - len(told)
    assert 0 <= unclear <= 2 * 3, "only what was under way when a writer was killed may be there without its being told"
    assert all(found.count(n) >= told.count(n) for n in set(told)) and all(found.count(n) <= 2 for n in set(found))
    rowlock.append(root, pa.table({"id": [-1]}))
    assert not [f for f in check(open_store(root)).findings if f.kind != "orphan"]


def _writer(root: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    return subprocess.Popen([sys.executable, "-c", _WRITER, root], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
