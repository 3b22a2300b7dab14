"""rowlock.enable beside delta-spark's JAR: one setting says whose Delta tables are; by default they stay delta-spark's, and Rowlock's is what names Rowlock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.soak("a JVM of its own for half a minute: `enable` changes a session for good")]

TESTS = Path(__file__).parents[1]

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[2])
import rowlock
from pyspark.sql import functions as F
from support.sessions import delta_session

root, out = sys.argv[1], {}
spark = delta_session("beside")

def sql(text):
    return [list(r) for r in spark.sql(text).collect()]

def error(call):
    try:
        call()
        return None
    except Exception as e:
        return f"{type(e).__name__}: {e}"

def writer(path):
    "Who made the newest commit."
    return str(spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()["engineInfo"]).split("/")[0]

spark.conf.set("spark.rowlock.delta", "both")
out["bad setting"] = error(lambda: rowlock.enable(spark))
spark.conf.unset("spark.rowlock.delta")
rowlock.enable(spark)
rowlock.enable(spark)
p, q = f"{root}/p", f"{root}/q"

def everything(session_says):
    "What is written in each way, and by whom."
    said = {}
    def did(name, path, call):
        try:
            call()
            said[name] = writer(path)
        except Exception as e:
            said[name] = f"{type(e).__name__}: {str(e)[:160]}"
    t, u = f"{root}/t {session_says}", f"{root}/u {session_says}"
    rows = lambda: spark.range(3).selectExpr("id", "'a' AS v")
    did("save", t, lambda: rows().write.format("delta").save(t))
    did("append", t, lambda: rows().write.format("delta").mode("append").save(t))
    name = f"n_{session_says.replace('-', '_')}"
    did("create", u, lambda: sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta LOCATION '{u}'"))
    did("insert", u, lambda: sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')"))
    did("update", u, lambda: sql(f"UPDATE {name} SET v = 'z' WHERE id = 1"))
    merge = f"MERGE INTO {name} t USING (SELECT DISTINCT * FROM delta.`{t}`) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    did("merge", u, lambda: sql(merge))
    did("saveAsTable", u, lambda: rows().write.format("delta").mode("append").saveAsTable(name))
    did("insertInto", u, lambda: rows().write.insertInto(name))
    did("writeTo", u, lambda: rows().writeTo(name).append())
    did("alter", u, lambda: sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('a.b' = 'c')"))
    did("optimize", u, lambda: sql(f"OPTIMIZE {name}"))
    did("path in SQL", t, lambda: sql(f"DELETE FROM delta.`{t}` WHERE id = 0"))
    did("named", t, lambda: sql(f"UPDATE rowlock.`{t}` SET v = 'named' WHERE id = 1"))
    did("by format rowlock", t, lambda: rows().write.format("rowlock").mode("append").save(t))
    did("optimize named", t, lambda: sql(f"OPTIMIZE rowlock.`{t}`"))
    read = lambda frame: sorted([r.id, r.v] for r in frame.collect())
    said["rows"] = read(spark.table(name))
    said["same rows"] = read(spark.read.format("delta").load(t)) == read(spark.read.format("rowlock").load(t)) == read(spark.table(f"rowlock.`{t}`")) == read(spark.table(f"delta.`{t}`"))
    said["then"] = [read(spark.sql(f"SELECT * FROM {name} VERSION AS OF 1")), read(spark.sql(f"SELECT * FROM rowlock.`{u}` VERSION AS OF 1"))]
    return said

out["delta-spark"] = everything("delta-spark")
new = spark.newSession()
out["new session"] = [new.sql(f"UPDATE rowlock.`{root}/t delta-spark` SET v = 'new' WHERE id = 2").first()[0], writer(f"{root}/t delta-spark")]
spark.conf.set("spark.rowlock.delta", "rowlock")
out["rowlock"] = everything("rowlock")

from delta.tables import DeltaTable as Theirs
out["their API"] = error(lambda: Theirs.forPath(spark, f"{root}/t rowlock").delete("id = 2"))
out["analyze"] = error(lambda: sql("ANALYZE TABLE n_rowlock COMPUTE STATISTICS"))
rows = spark.readStream.format("delta").load(f"{root}/t rowlock")
start = lambda name: rows.writeStream.format(name).option("checkpointLocation", f"{root}/c {name}").trigger(availableNow=True).start(f"{root}/s {name}")
out["their sink"] = error(lambda: start("delta").awaitTermination())
start("rowlock").awaitTermination()
out["streamed"] = [writer(f"{root}/s rowlock"), spark.read.format("delta").load(f"{root}/s rowlock").count() == spark.read.format("delta").load(f"{root}/t rowlock").count()]
spark.conf.unset("spark.rowlock.delta")
sql("DELETE FROM n_rowlock WHERE id = 1")
out["and back"] = writer(f"{root}/u rowlock")
print(json.dumps(out))
"""

WAYS = ["save", "append", "create", "insert", "update", "merge", "saveAsTable", "insertInto", "writeTo", "alter", "optimize", "path in SQL"]
NAMED = ["named", "by format rowlock", "optimize named"]


def test_the_setting_says_whose_delta_tables_are(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent / "src"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), str(TESTS)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    out = json.loads(done.stdout.strip().splitlines()[-1])
    assert "InvalidInput: spark.rowlock.delta is delta-spark or rowlock, not 'both'" in out["bad setting"]
    assert {way: out["delta-spark"][way] for way in WAYS} == dict.fromkeys(WAYS, "Apache-Spark")
    assert {way: out["delta-spark"][way] for way in NAMED} == dict.fromkeys(NAMED, "Rowlock")
    assert {way: out["rowlock"][way] for way in WAYS + NAMED} == dict.fromkeys(WAYS + NAMED, "Rowlock")
    for session_says in ("delta-spark", "rowlock"):
        said = out[session_says]
        assert said["rows"] == sorted([[0, "a"]] * 4 + [[1, "a"]] * 4 + [[2, "a"]] * 4) and said["same rows"]
        assert said["then"] == [[[1, "x"], [2, "y"]]] * 2
    assert out["new session"] == [3, "Rowlock"]
    assert (
        "DELETE is refused: it is delta-spark's own" in out["their API"]
        and "ANALYZE TABLE is refused" in out["analyze"]
        and 'Use format("rowlock")' in out["their sink"]
    )
    assert out["streamed"] == ["Rowlock", True]
    assert out["and back"] == "Apache-Spark"
