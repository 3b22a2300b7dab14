"""`rowlock serve`: clients that have PySpark alone run Rowlock's statements, each in a session of its own; errors are Spark's to them; the server ends cleanly."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as CF
from pyspark.sql.types import DoubleType

import rowlock
from rowlock import DeltaTable
from rowlock.api.connect import INSTEAD
from rowlock.cli.serve import Choices, _address_of, serve
from rowlock.engines.spark.session.java import ensure_java
from rowlock.exceptions import ConstraintViolated, InvalidInput, MultipleMatches, SchemaMismatch, StatementRefused, TableNotFound, UnsupportedFeature
from support.connect_server import Served, serving

pytestmark = pytest.mark.spark

CLIENT = """
import json, sys
sys.modules["rowlock"] = None  # as if it were not installed
from pyspark.sql import SparkSession, functions as F

url, folder = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()

def rows(frame):
    return sorted([list(r) for r in frame.collect()], key=str)

def sql(text, args=None):
    return [list(r) for r in spark.sql(text, args=args).collect()]

def stream(reader, writer, to):
    query = writer(reader.load(f"{folder}/path").writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)).start(to)
    query.awaitTermination(120)
    return rows(spark.read.format("delta").load(to))

frame = lambda *values: spark.createDataFrame(list(values), "id bigint, region string")
out = {}
sql("CREATE TABLE t (id BIGINT, region STRING) USING delta PARTITIONED BY (region)")
sql("INSERT INTO t VALUES (1, 'eu'), (2, 'us'), (3, 'us')")
out["update"] = sql("UPDATE t SET id = id + 10 WHERE region = :r", {"r": "eu"})
out["delete"] = sql("DELETE FROM t WHERE id = 3")
out["merge"] = sql("MERGE INTO t USING (SELECT 2 AS id, 'uk' AS region UNION ALL SELECT 4, 'uk') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
sql("INSERT INTO t VALUES (9, 'uk')")
sql("ALTER TABLE t SET TBLPROPERTIES ('a.b' = 'c')")
out["optimize"] = sql("OPTIMIZE t")[0][1]["numFilesRemoved"]
out["history"] = [r[4] for r in sql("DESCRIBE HISTORY t")]
out["property"] = sql("SHOW TBLPROPERTIES t ('a.b')")
out["then"] = rows(spark.sql("SELECT * FROM t VERSION AS OF 1"))
out["now"] = rows(spark.table("t"))
frame((5, "de")).write.format("delta").mode("append").saveAsTable("t")
frame((6, "de")).write.insertInto("t")
frame((7, "de")).writeTo("t").append()
frame((7, "fr")).mergeInto("t", F.expr("t.id = 7")).whenMatched().updateAll().merge()
frame((8, "de")).write.format("delta").mode("overwrite").option("replaceWhere", "region = 'de'").saveAsTable("t")
out["frames"] = rows(spark.table("t"))
frame((1, "a"), (2, "b")).write.format("delta").partitionBy("region").save(f"{folder}/path")
frame((3, "c")).write.format("delta").mode("append").save(f"{folder}/path")
out["path"] = rows(spark.read.format("delta").option("versionAsOf", 0).load(f"{folder}/path"))
out["stream"] = stream(spark.readStream.format("delta"), lambda w: w, f"{folder}/copy")
frame((4, "d")).write.format("delta").mode("append").save(f"{folder}/path")
out["stream goes on"] = stream(spark.readStream.format("delta"), lambda w: w, f"{folder}/copy")
sql("TRUNCATE TABLE t")
sql("RESTORE TABLE t TO VERSION AS OF 1")
out["restored"] = rows(spark.table("t"))
out["vacuum"] = sql("VACUUM t DRY RUN")
out["ran nothing"] = "Rowlock DeleteFromTable" in sql("EXPLAIN DELETE FROM t")[0][0] and spark.table("t").count()
sql("DROP TABLE t")
print(json.dumps(out))
"""


MARK = "hunter2"
"""In every secret that the server of these tests is given."""
SECRETS = (
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.token.lake.dfs.core.windows.net",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.javax.jdo.option.ConnectionPassword",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    """A server with a token in its environment, settings that are secrets, and an event log."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "events").mkdir()
    settings = [f"{name}={MARK}" for name in SECRETS] + ["spark.eventLog.enabled=true", f"spark.eventLog.dir={folder / 'events'}"]
    settings += ["spark.eventLog.compress=false", f"spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:postgresql://me:{MARK}@db/names"]
    with serving(folder, [a for s in settings for a in ("--conf", s)], {"SPARK_CONNECT_AUTHENTICATE_TOKEN": MARK}) as server:
        server.url += f"/;token={MARK}"
        yield server


def _children(process: int) -> list[int]:
    """The processes that a process began, and those that these began."""
    parents: dict[int, int] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


@pytest.mark.soak("a server of its own for half a minute", ci=True)
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc")
def test_secrets_of_a_server_are_shown_nowhere(served: Served, tmp_path: Path) -> None:
    """Neither the token nor a store's key is on a command line, in the JVM's environment (but for what it is started with), the log, the event log, a plan or SET."""
    spark = served.session()
    table = f"delta.`{tmp_path}/t`"
    shown = [
        str(spark.sql(text).collect())
        for text in (f"CREATE TABLE {table} USING delta AS SELECT id FROM range(300000)", "SET", "SET -v", f"EXPLAIN EXTENDED SELECT * FROM {table}")
    ]
    shown += [str(spark.sql(f"DESCRIBE HISTORY {table}").collect()), (tmp_path / "t/_delta_log/00000000000000000000.json").read_text()]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as raised:
        spark.sql(f"SELECT sum(1 / id) FROM {table}").collect()
    jvm = _children(served.process.pid)
    assert jvm
    shown += [str(raised.value), *served.lines]
    for place in (Path(f"/proc/{p}/{what}") for p in jvm for what in ("cmdline", "environ")):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            shown.append(place.read_bytes().decode(errors="replace"))
    assert any("pyspark-shell" in text for text in shown)
    written = [f for f in (Path(served.folder) / "events").rglob("*") if f.is_file()]
    assert written and "redacted" in "".join(f.read_text(errors="replace") for f in written)
    shown += [f.read_text(errors="replace") for f in written]
    assert [text[max(0, text.find(MARK) - 200) : text.find(MARK) + 20] for text in shown if MARK in text] == []


def test_a_mistake_of_a_client_is_one_line_and_a_goodbye_none(served: Served, tmp_path: Path) -> None:
    """The client's text has no stack of Java's in it, nor has the server's log."""
    spark = served.session()
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(10)").collect()
    time.sleep(0.5)
    before = len(served.lines)
    mistakes = (f"UPDATE {table} SET w = 1", "SELECT raise_error('mine')", "SELEC 1", f"UPDATE {table} SET id = CAST('mine' AS BIGINT)")
    for text in mistakes:
        with pytest.raises(PySparkException) as raised:
            print(text, spark.sql(text).collect())
        assert "stacktrace" not in str(raised.value) and "\tat " not in str(raised.value)
    end = time.monotonic() + 20
    while len(served.lines) < before + len(mistakes) and time.monotonic() < end:
        time.sleep(0.2)
    assert [("mine" in line, "SELEC" in line, "'`w`'" in line) for line in served.lines[before:]] == [
        (False, False, True),
        (True, False, False),
        (False, True, False),
        (True, False, False),
    ]
    before = len(served.lines)
    spark.stop()
    goodbye = "from pyspark.sql import SparkSession; import sys; SparkSession.builder.remote(sys.argv[1]).getOrCreate().range(3).collect()"
    subprocess.run([sys.executable, "-c", goodbye, served.url], check=True, timeout=120)
    time.sleep(1)
    assert served.lines[before:] == []


@pytest.mark.soak("a server and a client of their own", ci=True)
def test_a_client_without_rowlock(served: Served, tmp_path: Path) -> None:
    """SQL, DataFrames, time travel and streams by names, from a process that cannot import Rowlock."""
    done = subprocess.run([sys.executable, "-c", CLIENT, served.url, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "update": [[1]],
        "delete": [[1]],
        "merge": [[2, 1, 0, 1]],
        "optimize": 2,
        "history": ["OPTIMIZE", "SET TBLPROPERTIES", "WRITE", "MERGE", "DELETE", "UPDATE", "WRITE", "CREATE TABLE"],
        "property": [["a.b", "c"]],
        "then": [[1, "eu"], [2, "us"], [3, "us"]],
        "now": [[11, "eu"], [2, "uk"], [4, "uk"], [9, "uk"]],
        "frames": [[11, "eu"], [2, "uk"], [4, "uk"], [7, "fr"], [8, "de"], [9, "uk"]],
        "path": [[1, "a"], [2, "b"]],
        "stream": [[1, "a"], [2, "b"], [3, "c"]],
        "stream goes on": [[1, "a"], [2, "b"], [3, "c"], [4, "d"]],
        "restored": [[1, "eu"], [2, "us"], [3, "us"]],
        "vacuum": [],
        "ran nothing": 3,
    }


def test_errors_are_sparks_to_a_client(served: Served, tmp_path: Path) -> None:
    """Spark's own keep their class and condition; Rowlock's are of the class that delta-spark's are of, and say what to do."""
    spark = served.session()
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, v STRING) USING delta").collect()
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')").collect()
    for text, kind, condition, says in (
        (f"UPDATE {table} SET id = 1/0", "ArithmeticException", "DIVIDE_BY_ZERO", "try_divide"),
        (f"UPDATE {table} SET id = w + 1", "AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "`w`"),
        (f"UPDATE {table} SET w = 1", "AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "There is no column '`w`'"),
        (f"SELECT * FROM {table} VERSION AS OF 7", "AnalysisException", "DELTA_VERSION_NOT_FOUND", "there is no version 7"),
        (f"ANALYZE TABLE {table} COMPUTE STATISTICS", "AnalysisException", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", "ANALYZE TABLE is refused"),
        (f"CREATE INDEX i ON {table} (id)", "UnsupportedOperationException", "ROWLOCK_UNSUPPORTED_FEATURE", "UnsupportedFeature: CREATE INDEX is refused"),
        (f"INSERT INTO {table} VALUES (NULL, 'b')", "SparkRuntimeException", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "ConstraintViolated"),
        ("DELETE FROM nowhere", "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND", "nowhere"),
    ):
        with pytest.raises(Exception) as raised:
            spark.sql(text).collect()
        assert type(raised.value).__name__ == kind and raised.value.getCondition() == condition and says in str(raised.value), text
    assert [list(r) for r in spark.sql(f"SELECT * FROM {table}").collect()] == [[1, "a"]]


def test_options_of_insert_into_count(served: Served, tmp_path: Path) -> None:
    """Else `replaceWhere` would replace all rows: a client's `insertInto` does not pass Rowlock's own wrapper of PySpark's writer."""
    spark = served.session()
    spark.sql(f"CREATE TABLE dropped (id BIGINT, v STRING) USING delta LOCATION '{tmp_path}/t'").collect()
    spark.sql("INSERT INTO dropped VALUES (1, 'a'), (2, 'b')").collect()
    rows = spark.createDataFrame([(3, "b")], "id bigint, v string")
    rows.write.option("replaceWhere", "v = 'b'").insertInto("dropped", overwrite=True)
    assert sorted(tuple(r) for r in spark.table("dropped").collect()) == [(1, "a"), (3, "b")]
    rows.write.insertInto("dropped", overwrite=True)
    assert spark.table("dropped").count() == 1


def test_each_client_has_its_own_settings(served: Served, tmp_path: Path) -> None:
    """Time zone and ANSI mode are those of the client that runs the statement, also where another's says otherwise."""
    here, there = served.session(spark__sql__session__timeZone="Australia/Lord_Howe"), served.session(spark__sql__ansi__enabled="false")
    table = f"delta.`{tmp_path}/t`"
    here.sql(f"CREATE TABLE {table} (id BIGINT, t TIMESTAMP) USING delta").collect()
    for spark in (here, there):
        spark.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP'2024-07-01 00:00:00')").collect()
    assert [r.n for r in here.sql(f"SELECT count(*) AS n FROM {table} WHERE t = TIMESTAMP'2024-07-01 00:00:00'").collect()] == [1]
    there.sql(f"UPDATE {table} SET id = 1/0 WHERE t = TIMESTAMP'2024-07-01 00:00:00'").collect()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        here.sql(f"UPDATE {table} SET id = 1/0").collect()
    written = sorted(rowlock.to_arrow(str(tmp_path / "t")).to_pylist(), key=lambda r: str(r["id"]))
    assert [r["id"] for r in written] == [1, None]
    assert written[0]["t"] == datetime.datetime(2024, 6, 30, 13, 30, tzinfo=datetime.UTC)


def test_clients_at_once_lose_no_work(served: Served, tmp_path: Path) -> None:
    """Two clients change the same table, row by row, and each change counts."""
    table, times, failed = f"delta.`{tmp_path}/t`", 4, []
    served.session().sql(f"CREATE TABLE {table} USING delta AS SELECT id, 0L AS n FROM range(2)").collect()

    def work(client: int) -> None:
        try:
            spark = served.session()
            for turn in range(times):
                spark.sql(f"UPDATE {table} SET n = n + 1 WHERE id = :i", args={"i": turn % 2}).collect()
                spark.sql(
                    f"MERGE INTO {table} t USING (SELECT {client * 100 + turn}L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)"
                ).collect()
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    rows = {r["id"]: r["n"] for r in rowlock.to_arrow(str(tmp_path / "t")).to_pylist()}
    assert rows == {0: times, 1: times} | {c * 100 + t: 0 for c in (1, 2) for t in range(times)}


def test_statements_leave_no_threads(served: Served) -> None:
    """A thread of the JVM that runs a statement, and py4j with it one of Python, is there no longer when the statement has ended."""
    spark = served.session()
    status = Path(f"/proc/{served.process.pid}/status")
    if not status.exists():
        pytest.skip("no /proc")

    def threads() -> int:
        return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("Threads:")))

    def run(times: int) -> None:
        for _ in range(times):
            spark.sql("DROP TABLE IF EXISTS nothing").collect()

    run(5)
    before = threads()
    run(15)
    end = time.monotonic() + 20
    while threads() > before + 3 and time.monotonic() < end:
        time.sleep(0.2)
    assert threads() <= before + 3


def test_what_would_let_strangers_in_is_refused(tmp_path: Path) -> None:
    """Whoever reaches a Connect server runs code as its user."""
    plain = {"port": 0, "without_token": False, "warehouse": tmp_path, "metastore": None, "conf": (), "cores": 1, "memory_mb": 512}
    with pytest.raises(InvalidInput, match="needs --token"):
        serve(Choices(host="0.0.0.0", token=None, **plain), None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="does not check tokens"):
        serve(Choices(host="0.0.0.0", token="t", thrift_port=1, **plain), None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="--conf takes KEY=VALUE; number 2 of 2") as raised:
        serve(Choices(host="::1", token=None, **plain | {"conf": ("a=b", "hunter2")}), None)  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)


def test_the_address_that_is_printed_is_one_for_clients() -> None:
    everywhere = {_address_of(host) for host in ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")}
    assert len(everywhere) == 1 and not everywhere & {"0.0.0.0", "::", "[::]", ""}
    with socket.socket() as listens, socket.socket() as client:
        listens.bind(("0.0.0.0", 0))
        listens.listen()
        client.connect((everywhere.pop(), listens.getsockname()[1]))
    assert [_address_of(host) for host in ("127.0.0.1", "::1", "localhost", "lake.example", "10.1.2.3", "2001:db8::1")] == [
        *["localhost"] * 3,
        "lake.example",
        "10.1.2.3",
        "[2001:db8::1]",
    ]


MERGES = """
import sys
sys.modules["rowlock"] = None
from pyspark.sql import SparkSession

url, folder = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
spark.range(5).selectExpr("id", "'new' AS v").write.format("delta").save(f"{folder}/from")
spark.range(2).selectExpr("id", "'old' AS v").write.format("delta").save(f"{folder}/into")

def merge(rows, number):
    rows.createOrReplaceTempView("batch")
    rows.sparkSession.sql(f"MERGE INTO delta.`{folder}/into` t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *").collect()

begun = spark.readStream.format("delta").load(f"{folder}/from").writeStream.foreachBatch(merge).option("checkpointLocation", f"{folder}/c")
begun.trigger(availableNow=True).start().awaitTermination(300)
"""


@pytest.mark.soak("the server starts a process of Python for the client's function")
def test_a_client_merges_each_batch_of_a_stream(served: Served, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MERGES, served.url, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(rowlock.to_arrow(str(tmp_path / "into")).to_pylist(), key=str) == [{"id": n, "v": "new"} for n in range(5)]


@pytest.mark.soak("a server of its own for half a minute")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_and_knows_its_tables_again(tmp_path: Path, number: int) -> None:
    """With --metastore the names are there again; with --token nobody comes in without; a statement that runs when the signal comes is whole or was never there."""
    arguments = ["--metastore", "names", "--token", "sesame"]
    with serving(tmp_path, arguments) as server:
        with pytest.raises(Exception, match=r"[Tt]oken"):
            server.session().sql("SELECT 1").collect()
        server.url += "/;token=sesame"
        spark = server.session()
        spark.sql("CREATE TABLE kept (id BIGINT) USING delta").collect()
        spark.sql("INSERT INTO kept VALUES (1)").collect()
        spark._client.set_retry_policies([])  # else it waits some minutes for the server to come back
        thread = threading.Thread(target=lambda: _try(lambda: spark.sql("INSERT INTO kept SELECT id FROM range(0, 300000, 1, 8)").collect()))
        thread.start()
        time.sleep(0.3)
        assert server.end(number) == 0
        thread.join()
        assert "Stopping." in "".join(server.lines) and "Traceback" not in "".join(server.lines)
    with serving(tmp_path, arguments) as server:
        server.url += "/;token=sesame"
        assert server.session().table("kept").count() in (1, 300_001)
    assert sorted(p.name for p in tmp_path.iterdir()) in (["names", "spark-warehouse"], ["names", "names.log", "spark-warehouse"])


@pytest.mark.soak("a server of its own, and a JVM for its client")
def test_a_client_of_jdbc(tmp_path: Path) -> None:
    """Hive's own client, beeline, which Spark brings along."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "statements.sql").write_text(
        "CREATE TABLE t (id BIGINT, v STRING) USING delta;\nINSERT INTO t VALUES (1, 'a'), (2, 'b');\nUPDATE t SET v = 'z' WHERE id = 1;\n"
        "MERGE INTO t USING (SELECT 3 AS id, 'c' AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *;\nOPTIMIZE t;\n"
        "SELECT * FROM t ORDER BY id;\nANALYZE TABLE t COMPUTE STATISTICS;\n"
    )
    ensure_java()
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    beeline = [f"{os.environ['JAVA_HOME']}/bin/java", "-cp", str(jars), "org.apache.hive.beeline.BeeLine", "--silent=true", "--outputformat=csv2"]
    with serving(tmp_path, ["--thrift-port", str(port)]) as server:
        done = subprocess.run(
            [*beeline, "-u", f"jdbc:hive2://127.0.0.1:{port}", "-f", str(tmp_path / "statements.sql")], capture_output=True, text=True, timeout=600
        )
        assert "id,v\n1,z\n2,b\n3,c" in done.stdout, done.stdout + done.stderr[-2000:]
        assert "ANALYZE TABLE is refused" in done.stderr
        assert server.end() == 0


def _try(call) -> None:
    with contextlib.suppress(Exception):
        call()


# ---- Rowlock on the client --------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "connect.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `((?:DeltaTable|rowlock)\.[\w.]+)` \| (works|refused) \|", PAGE, re.MULTILINE))


class Client:
    """A Connect session with a table of its own: two rows, then one, and what each call of the page is asked with."""

    def __init__(self, served: Served, folder: Path, *, maps_columns: bool = False) -> None:
        self.spark, self.path = served.session(), str(folder / "t")
        rowlock.append(
            self.path, pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]}), properties={"delta.columnMapping.mode": "name"} if maps_columns else {}
        )
        self.t = DeltaTable.forPath(self.spark, self.path)

    def rows(self) -> list[int]:
        return sorted(rowlock.to_arrow(self.path)["id"].to_pylist())

    def name(self) -> str:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS of_client USING delta LOCATION '{self.path}'").collect()
        return "default.of_client"

    def first_time(self) -> str:
        return str(self.t.history().selectExpr("string(min(timestamp))").first()[0])

    def constrained(self) -> bool:
        self.spark.sql(f"ALTER TABLE delta.`{self.path}` ADD CONSTRAINT p CHECK (id > 0)").collect()
        return "delta.constraints.p" in self.properties()

    def defaults(self, *, set_it: bool = True) -> bool:
        if set_it:
            self.t.addFeatureSupport("allowColumnDefaults")
            self.spark.sql(f"ALTER TABLE delta.`{self.path}` ALTER COLUMN v SET DEFAULT 'x'").collect()
        return "DEFAULT 'x'" in self.spark.sql(f"SHOW CREATE TABLE delta.`{self.path}`").first()[0]

    def properties(self) -> dict[str, str]:
        return dict(self.t.detail().first()["properties"])

    def columns(self) -> list[str]:
        return list(rowlock.to_arrow(self.path).column_names)


def _answer(client: Client, call: str) -> bool:
    """Whether a call that works did what it says."""
    t, spark, path = client.t, client.spark, client.path
    before = t.history(1).first()["version"]
    asked = {
        "DeltaTable.forPath": lambda: repr(t) == f"DeltaTable({path!r}, version=0, columns=[id, v])",
        "DeltaTable.forName": lambda: DeltaTable.forName(spark, client.name()).detail().first()["id"] == t.detail().first()["id"],
        "DeltaTable.isDeltaTable": lambda: DeltaTable.isDeltaTable(spark, path),
        "DeltaTable.alias": lambda: "alias" in repr(t.alias("x")),
        "DeltaTable.history": lambda: [r.operation for r in t.history().collect()] == ["WRITE"],
        "DeltaTable.detail": lambda: t.detail().first()["numFiles"] == 1,
        "DeltaTable.lastReceipt": lambda: t.setProperties({"a.b": "c"}) or t.lastReceipt.version == 1,
        "DeltaTable.setProperties": lambda: t.setProperties({"delta.enableRowTracking": "true"}) or client.properties()["delta.enableRowTracking"] == "true",
        "DeltaTable.unsetProperties": lambda: t.setProperties({"a.b": "c"}) or t.unsetProperties(["a.b"]) or "a.b" not in client.properties(),
        "DeltaTable.dropConstraint": lambda: client.constrained() and t.dropConstraint("p") is None and "delta.constraints.p" not in client.properties(),
        "DeltaTable.addColumn": lambda: t.addColumn("w", DoubleType()) or client.columns() == ["id", "v", "w"],
        "DeltaTable.renameColumn": lambda: t.renameColumn("v", "w") or client.columns() == ["id", "w"],
        "DeltaTable.dropColumns": lambda: t.dropColumns("v") or client.columns() == ["id"],
        "DeltaTable.alterColumn": lambda: (
            t.alterColumn("v", comment="c") or [r.comment for r in spark.sql(f"DESCRIBE TABLE delta.`{path}`").collect()] == [None, "c"]
        ),
        "DeltaTable.dropDefault": lambda: client.defaults() and t.dropDefault("v") is None and not client.defaults(set_it=False),
        "DeltaTable.upgradeTableProtocol": lambda: t.upgradeTableProtocol(3, 7) or t.detail().first()["minWriterVersion"] == 7,
        "DeltaTable.addFeatureSupport": lambda: t.addFeatureSupport("domainMetadata") or "domainMetadata" in t.detail().first()["tableFeatures"],
        "DeltaTable.dropFeatureSupport": lambda: (
            client.constrained()
            and (t.dropConstraint("p"), t.dropFeatureSupport("checkConstraints")) == (None, None)
            and "checkConstraints" not in t.detail().first()["tableFeatures"]
        ),
        "DeltaTable.generate": lambda: t.generate("symlink_format_manifest") or (Path(path) / "_symlink_format_manifest").is_dir(),
        "DeltaTable.vacuum": lambda: t.vacuum().collect() == [],
        "DeltaTable.restoreToVersion": lambda: _two_more(client) and t.restoreToVersion(0).first()["num_removed_files"] == 1 and client.rows() == [1, 2],
        "DeltaTable.restoreToTimestamp": lambda: _two_more(client) and t.restoreToTimestamp(client.first_time()).count() == 1 and client.rows() == [1, 2],
        "DeltaTable.delete": lambda: t.delete("id = 1") is None and client.rows() == [2],
        "DeltaTable.update": lambda: t.update("id = 1", {"id": "id + 6"}) is None and client.rows() == [2, 7],
        "DeltaTable.merge": lambda: t.merge(spark.range(2, 4).alias("s"), "s.id = -1").whenNotMatchedInsert(values={"id": "s.id"}).execute().first()[3] == 2,
        "DeltaTable.clone": lambda: _cloned(client, lambda to: t.clone(to, isShallow=True)),
        "DeltaTable.cloneAtVersion": lambda: _two_more(client) and _cloned(client, lambda to: t.cloneAtVersion(0, to, isShallow=True)),
        "DeltaTable.cloneAtTimestamp": lambda: _cloned(client, lambda to: t.cloneAtTimestamp(client.first_time(), to, isShallow=True)),
        "rowlock.append": lambda: _two_more(client) and client.rows() == [1, 2, 3, 4],
        "rowlock.to_arrow": lambda: client.rows() == [1, 2],
    }
    return bool(asked[call]()) and t.history(1).first()["version"] >= before


def _two_more(client: Client) -> bool:
    return rowlock.append(client.path, pa.table({"id": pa.array([3, 4], pa.int64()), "v": ["c", "d"]})).version == 1


def _cloned(client: Client, clone) -> bool:
    to = f"{client.path} cloned"
    clone(to)
    return sorted(rowlock.to_arrow(to)["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("call", sorted(name for name, said in ROWS.items() if said == "works"))
def test_what_needs_no_engine_works_on_a_client(served: Served, tmp_path: Path, call: str) -> None:
    assert _answer(Client(served, tmp_path, maps_columns=call in ("DeltaTable.renameColumn", "DeltaTable.dropColumns")), call)


def test_what_needs_an_engine_is_refused_by_name(served: Served, tmp_path: Path) -> None:
    """The page and the code name the same calls; each says what to use instead, and changes nothing."""
    client = Client(served, tmp_path)
    t, spark, path, rows = client.t, client.spark, client.path, client.spark.range(1)
    asked = {
        "DeltaTable.toDF": t.toDF,
        "DeltaTable.optimize": t.optimize,
        "DeltaTable.transaction": t.transaction,
        "DeltaTable.addConstraint": lambda: t.addConstraint("p", "id > 0"),
        "DeltaTable.setDefault": lambda: t.setDefault("v", "'x'"),
        "DeltaTable.syncIdentity": lambda: t.syncIdentity("id"),
        "DeltaTable.convertToDelta": lambda: DeltaTable.convertToDelta(spark, f"parquet.`{path}`"),
        "DeltaTable.create": lambda: DeltaTable.create(spark),
        "DeltaTable.createIfNotExists": lambda: DeltaTable.createIfNotExists(spark),
        "DeltaTable.replace": lambda: DeltaTable.replace(spark),
        "DeltaTable.createOrReplace": lambda: DeltaTable.createOrReplace(spark),
        "rowlock.read": lambda: rowlock.read(spark, path),
        "rowlock.write": lambda: rowlock.write(rows, path),
        "rowlock.changes": lambda: rowlock.changes(spark, path, 0),
        "rowlock.run": lambda: rowlock.run(t, lambda txn: None),
        "rowlock.transaction": lambda: rowlock.transaction([t, t]),
        "rowlock.read_together": lambda: rowlock.read_together([t, t]),
        "rowlock.sql": lambda: rowlock.sql(spark, "SELECT 1"),
        "rowlock.enable": lambda: rowlock.enable(spark),
        "rowlock.streaming.read": lambda: rowlock.streaming.read(spark, path),
        "rowlock.streaming.sink": lambda: rowlock.streaming.sink(path)(rows, 0),
    }
    assert set(asked) == set(INSTEAD) == {name for name, said in ROWS.items() if said == "refused"}
    for call, does in asked.items():
        with pytest.raises(UnsupportedFeature) as raised:
            does()
        assert raised.value.feature == call and INSTEAD[call] in str(raised.value)
    assert [r.version for r in t.history().collect()] == [0]


def test_statements_of_a_client_are_the_servers(served: Served, tmp_path: Path) -> None:
    """Conditions and values as texts and as Columns, sources that only the client has, names that need quotes; what is no SQL is refused before it is sent."""
    client = Client(served, tmp_path, maps_columns=True)
    t, spark = client.t.alias("t"), client.spark
    spark.sql(f"ALTER TABLE delta.`{client.path}` ADD COLUMNS (`odd ``{{name}}` STRING, st STRUCT<a: INT, `b.c`: STRING>)").collect()
    source = spark.createDataFrame([(1, "it's {x}", 5), (9, "new", None)], "id bigint, v string, n int").alias("s")
    done = (
        t.merge(source, CF.col("t.id") == source.id)
        .whenMatchedUpdate(
            CF.col("s.n").isin(5, 6) & ~CF.col("t.v").startswith("z"), {"v": CF.concat(CF.col("s.v"), CF.lit("!{}")), "`odd ``{name}`": "s.v /* {} */ -- c"}
        )
        .whenNotMatchedInsert("s.id > 1", {"id": source["id"], "v": CF.when(CF.col("s.n").isNull(), "none").otherwise("some")})
        .whenNotMatchedBySourceUpdate(CF.col("t.id").cast("string") == "2", {"st": CF.struct(CF.lit(3).alias("a"), CF.lit("x").alias("b.c"))})
    )
    assert [tuple(r) for r in done.execute().collect()] == [(3, 2, 0, 1)] and t.lastReceipt is None
    rows = sorted(rowlock.to_arrow(client.path).to_pylist(), key=lambda r: r["id"])
    assert [(r["id"], r["v"], r["odd `{name}"], r["st"]) for r in rows] == [
        (1, "it's {x}!{}", "it's {x}", None),
        (2, "b", None, {"a": 3, "b.c": "x"}),
        (9, "none", None, None),
    ]
    with pytest.raises(InvalidInput):
        t.delete(spark.range(3).id == 1)
    with pytest.raises(InvalidInput, match="at least one WHEN"):
        t.merge(source, "true").execute()


def test_errors_of_a_clients_statements_keep_their_class(served: Served, tmp_path: Path) -> None:
    """An error of the server's is Rowlock's class and PySpark's."""
    client = Client(served, tmp_path)
    client.constrained()
    twice = client.spark.range(1, 2).union(client.spark.range(1, 2)).alias("s")
    merge = client.t.alias("t").merge(twice, "t.id = s.id").whenMatchedUpdate(set={"v": "'x'"})
    for does, kind in (
        (merge.execute, MultipleMatches),
        (lambda: client.t.update(set={"id": "-1"}), ConstraintViolated),
        (lambda: client.t.update(set={"w": "1"}), SchemaMismatch),
        (lambda: client.t.delete("id IN (SELECT 1)"), StatementRefused),
    ):
        with pytest.raises(kind) as raised:
            does()
        assert isinstance(raised.value, PySparkException) and raised.value.table == client.path and raised.value.getCondition()
    assert client.rows() == [1, 2]


def test_the_page_names_every_public_call() -> None:
    public = {f"DeltaTable.{name}" for name in dir(DeltaTable) if not name.startswith("_")}
    without_a_session = {"set_limits", "create_lock_table", "spark"}
    functions = {f"rowlock.{name}" for name in rowlock.__all__ if name.islower() and not name.startswith("_")} - {f"rowlock.{n}" for n in without_a_session}
    assert public | functions <= set(ROWS)


def test_a_name_that_the_server_does_not_know(served: Served) -> None:
    spark = served.session()
    for name, kind in (("nowhere.at_all", TableNotFound), ("x; DROP TABLE y", InvalidInput)):
        with pytest.raises(kind):
            DeltaTable.forName(spark, name)
