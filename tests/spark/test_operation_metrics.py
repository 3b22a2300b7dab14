"""operationMetrics in the history beside those that delta-spark writes for the same statements, which `operation_metrics.txt` holds: every name, and every number of rows and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.readers import commit_files

pytestmark = pytest.mark.spark
FILE = Path(__file__).parents[1] / "data" / "sql" / "operation_metrics.txt"


def scenarios() -> dict[str, list[tuple[str, list[str]]]]:
    """By name: statements, each with what delta-spark writes for it, as one text, and what Rowlock writes otherwise."""
    out: dict[str, list[tuple[str, list[str]]]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("== "):
            out[line[3:]] = here = []
        elif line.startswith(("  = ", "  ~ ")):
            here[-1][1].append(line[4:].partition(" | ")[0])
        elif line and not line.startswith("#"):
            here.append((line, []))
    return out


def metrics_in(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split(" ") if "=" in pair)


def written(path: str) -> list[dict[str, Any]]:
    """The commitInfo of every version."""
    lines = [json.loads(line) for file in commit_files(path) for line in file.read_text().splitlines()]
    return [line["commitInfo"] for line in lines if "commitInfo" in line]


@pytest.mark.parametrize("name", scenarios())
@pytest.mark.short(
    "dv",
    "part",
    ci=(
        "cow",
        "feed",
        "cowfeed",
    ),
    why="each statement by both engines once more; tables without vectors, and with a feed",
)
def test_the_history_has_delta_sparks_metrics(spark: SparkSession, table_path: str, name: str) -> None:
    (create, _), *steps = scenarios()[name]
    rowlock.sql(spark, create.replace("{t}", f"delta.`{table_path}`"))
    differing = []
    for text, [theirs, *ours] in steps:
        before = len(written(table_path))
        rowlock.sql(spark, text.replace("{t}", f"delta.`{table_path}`"))
        new = written(table_path)[before:]
        expected = metrics_in(theirs)
        for each in ours:
            expected |= metrics_in(each)
        expected = {k: v for k, v in expected.items() if v}
        found = {} if not new else {k: "-" if expected.get(k) == "-" else v for k, v in new[0]["operationMetrics"].items()}
        operation = new[0]["operation"] if new else "nothing"
        if (operation, found) != (theirs.split(" ")[0], expected):
            differing.append((text, operation, {k: (expected.get(k), found.get(k)) for k in {*expected, *found} if expected.get(k) != found.get(k)}))
    assert not differing


def test_metrics_fit_the_rows_that_are_committed(spark: SparkSession, table_path: str) -> None:
    """Sums over the clauses agree with the totals, also where a job of Spark's wrote the rows."""
    rowlock.sql(spark, f"CREATE TABLE delta.`{table_path}` (id BIGINT, v BIGINT) USING delta")
    rowlock.write(spark.range(100).selectExpr("id", "id as v"), table_path)
    table = rowlock.DeltaTable.forPath(spark, table_path)
    merge = table.alias("t").merge(spark.range(50, 120).alias("s"), "t.id = s.id").whenMatchedDelete("t.id < 60").whenMatchedUpdate(set={"v": "-1"})
    merge.whenNotMatchedInsert(values={"id": "s.id"}).whenNotMatchedBySourceDelete("t.id < 10").whenNotMatchedBySourceUpdate("t.id < 25", {"v": "-2"}).execute()
    metrics = table.lastReceipt.metrics  # type: ignore[union-attr]
    by_clause = [metrics[f"numTargetRows{clause}"] for clause in ("MatchedUpdated", "NotMatchedBySourceUpdated", "MatchedDeleted", "NotMatchedBySourceDeleted")]
    assert by_clause == [40, 15, 10, 10] and metrics["numSourceRows"] == 70
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsDeleted"], metrics["numTargetRowsInserted"]) == (55, 20, 20)
