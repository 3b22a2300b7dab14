"""Names on a session that knows nothing of Delta: Spark's own catalog holds them, and Rowlock makes, finds and replaces the tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SRC = str(Path(__file__).parents[2] / "src")

SCRIPT = """
import json
import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import TableExists

spark = rowlock.spark(cores=1, memory_mb=512)
made = DeltaTable.create(spark).tableName("sales").addColumn("id", "bigint").addColumn("day", "date").partitionedBy("day").execute()
folder = made.detail().first().location.removeprefix("file:")
rowlock.write(spark.sql("select 1L as id, date'2026-01-02' as day"), folder)
try:
    DeltaTable.create(spark).tableName("default.sales").addColumn("id", "int").execute()
    raised = None
except TableExists as e:
    raised = type(e).__name__
DeltaTable.createOrReplace(spark).tableName("outside").location("outside").addColumn("n", "int").execute()
print(json.dumps({
    "folder": folder,
    "rows": DeltaTable.forName(spark, "spark_catalog.default.sales").toDF().count(),
    "raised": raised,
    "replaced": DeltaTable.replace(spark).tableName("sales").addColumn("other", "int").execute().toDF().columns,
    "outside": DeltaTable.forName(spark, "outside").toDF().columns,
    "names": sorted(t.tableName for t in spark.sql("show tables").collect()),
}))
"""


@pytest.mark.soak("a JVM of its own for a minute; names are resolved in test_catalog_names, too", ci=True)
def test_names_on_a_plain_session(tmp_path):
    environment = os.environ | {"PYTHONPATH": SRC, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert Path(said["folder"]) == tmp_path / "spark-warehouse" / "sales"
    assert {k: v for k, v in said.items() if k != "folder"} == {
        "rows": 1,
        "raised": "NameTaken",
        "replaced": ["other"],
        "outside": ["n"],
        "names": ["outside", "sales"],
    }
    assert (tmp_path / "outside" / "_delta_log").is_dir()
