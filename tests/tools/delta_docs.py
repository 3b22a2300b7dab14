"""Runs the SQL and Python snippets of Delta's documentation, from a checkout of delta-io/delta, by delta-spark and by Rowlock, and compares.

Nothing of the checkout is kept.  Each snippet runs in a schema of its own, beside the tables and paths that it names (WORLD); what it says in place
of a value (`<table_name>`, `...`) is filled in.  Prints each snippet that differs or that neither engine runs, then the counts.
Exits with 1 where a difference is not in tests/model/differential/meant.toml.

usage: delta_docs.py PATH OF A CHECKOUT [PAGE.mdx[:LINE] ...] [--verbose]
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model.differential.case import Case, Step
from model.differential.compare import Meant
from model.differential.record import first_difference, outcomes
from model.differential.runner import Process

PAGES = Path("docs/src/content/docs")
NOT_OURS = re.compile(r"uniform|kernel|sharing|athena|presto|trino|snowflake|redshift|bigquery|starburst|standalone|storage|hive|flink")
"""Pages that are about other programs, or about UniForm."""

_PEOPLE = "SELECT {0} AS id, 'a' AS firstName, 'b' AS middleName, 'c' AS lastName, {1} AS gender, TIMESTAMP'{2}-05-05 00:00:00' AS birthDate, '1' AS ssn, 100 AS salary"
_BOTH = " UNION ALL ".join((_PEOPLE.format(1, "'F'", 1950), _PEOPLE.format(2, "'M'", 1990)))
_LATER = " UNION ALL ".join((_PEOPLE.format(2, "'M'", 1991), _PEOPLE.format(3, "'F'", 1999)))
_EVENTS = (
    "SELECT 1L AS eventId, 'x' AS data, 'click' AS eventType, DATE'2021-11-18' AS date, 111 AS userId, 'c1' AS customerId, TIMESTAMP'2020-10-01 01:00:00' AS eventTime, "
    "DATE'2017-01-05' AS start_date, DATE'2017-01-06' AS end_date, 1 AS event_id, 'k' AS key, 1 AS value, 2019 AS year, current_date() AS today"
)
_KEYED = "SELECT 'k' AS key, 1 AS value, TIMESTAMP'2020-01-01 00:00:00' AS lastSeen, 'active' AS status, TIMESTAMP'2024-01-01 00:00:00' AS timestamp"
WORLD: dict[str, str] = {
    "people10m": _BOTH, "people10mupdates": _LATER, "morePeople": _LATER, "people-10m": _BOTH, "people-10m-updates": _LATER,
    "target": _KEYED, "source": _KEYED, "target_table": "SELECT 1 AS id, 'a' AS name", "source_table": "SELECT 2 AS id, 'b' AS name, 3 AS age", "events": _EVENTS, "delta_source_table": _EVENTS,
    "logs": "SELECT 1 AS uniqueId, current_date() AS date", "newDedupedLogs": "SELECT 2 AS uniqueId, current_date() AS date", "replace_data": _EVENTS, "source_data": _EVENTS,
    "students": "SELECT 'n' AS name, 'DE' AS country", "new_students": "SELECT 'm' AS name, 'DE' AS country", "people": "SELECT 'n' AS name, 'FR' AS country",
    "boxes": "SELECT 'a' AS colA, named_struct('field1', 'x', 'field2', 'y') AS colB", "old_table": "SELECT 7L AS id, DATE'2024-01-01' AS event_date, 5L AS some_value",
    "new_records": "SELECT DATE'2024-01-02' AS event_date, 6L AS some_value", "myDeltaTable": "SELECT 1 AS id", "tableName": "SELECT 1 AS id", "table_name": "SELECT 1 AS id, 'a' AS col_name, 2 AS col_name_1, 3 AS col_name_2, 'o' AS old_col_name",
    "course_old": "SELECT 1 AS id", "grade": "SELECT 1 AS id", "changes": "SELECT 'k' AS key, 1 AS time, 9 AS newValue, false AS deleted", "eventsTable": _EVENTS,
    "my_prod_table": "SELECT 1 AS user_id, false AS invalid", "entire_dataset": "SELECT 1 AS id", "delta_table_name": _EVENTS, "my_table": "SELECT 1L AS id", "table1": "SELECT 1 AS col0, 'a' AS col1",
    "customers": "SELECT 1 AS customerId, 'old' AS address, true AS current, DATE'2020-01-01' AS effectiveDate, CAST(NULL AS DATE) AS endDate",
    "updates": "SELECT 1 AS customerId, 'new' AS address, DATE'2024-01-01' AS effectiveDate UNION ALL SELECT 2, 'first', DATE'2024-01-01'",
}  # fmt: skip
"""Tables by the names (or the last parts of paths) that snippets use; a `SELECT` makes each."""

_PLAIN = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
"""Properties of the tables that are there: the same with both engines."""
_NEEDED = (
    ("row_id", "delta.enableRowTracking"),
    ("readChangeFeed|table_changes", "delta.enableChangeDataFeed"),
    ("COLUMN id TYPE|typeWidening", "delta.enableTypeWidening"),
)
"""What a table must have for what a snippet does, and says nothing of."""

_PATHS = {
    "delta-table": "SELECT 1L AS id",
    "table": _EVENTS,
    "aggregates": "SELECT 'k' AS key, 1 AS value",
    "data": _EVENTS,
    "path": "SELECT 1 AS `column name`",
}
_FRAMES = {
    "df": 'spark.table("people10m")', "dataframe": 'spark.table("people10m")', "dataFrame": 'spark.table("people10m")', "deltaTable": 'DeltaTable.forName(spark, "people10m")',
    "targetDF": 'DeltaTable.forName(spark, "target").alias("target")', "sourceDF": 'spark.table("source").alias("source")', "customersTable": 'DeltaTable.forName(spark, "customers")',
    "updatesDF": 'spark.table("updates").alias("updates")', "replace_data": 'spark.table("replace_data")', "source_data": 'spark.table("source_data")', "new_students": 'spark.table("new_students")',
    "people": 'spark.table("people")', "newDedupedLogs": 'spark.table("newDedupedLogs")', "pathToTable": '"{root}/delta/table"', "tableName": '"tableName"', "timestamp_string": '"2000-01-01"', "version": "0",
    "eventType": '"eventType"', "streamingAggregatesDF": 'spark.readStream.format("delta").table("source").groupBy("key").count()',
}  # fmt: skip
"""What names of Python are where a snippet does not say it."""

_IMPORTS = "from pyspark.sql.functions import col, expr, lit, max\nfrom pyspark.sql.types import *\ndisplay = lambda frame: frame"
_FILLED = (
    (r"<(?:your-table|table[_-]name|table_identifier|target_table_name)>", "table_name"), (r"<path-to-(?:delta-)?table>", "{root}/parquet"), (r"<your-table-path>", "{root}/elsewhere"),
    (r"<(?:clustering_columns|your-partition-columns|col_name)>", "id"), (r"<new_type>", "BIGINT"), (r"<version>", "0"), (r"<timestamp>", "current_timestamp()"),
    (r"(?<=[`'\"])/(?=[a-zA-Z])", "{root}/"), (r"AS SELECT \.\.\.", "AS SELECT * FROM people10m"), (r"default\.", ""), (r" \[TRUNCATE HISTORY\]", ""), (r"from delta import \*", ""),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of code of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """The page and the line, as they are asked for."""
        return f"{self.page}:{self.line}"


def snippets(checkout: Path) -> Iterator[Snippet]:
    """The SQL and Python blocks of the documentation."""
    for file in sorted((checkout / PAGES).rglob("*.md*")):
        page = file.relative_to(checkout / PAGES).as_posix()
        if NOT_OURS.search(page):
            continue
        text = file.read_text()
        for found in re.finditer(r"```(sql|python)[ ]*(.*?)```", text, re.DOTALL):
            indent = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            body = textwrap.dedent((indent if not indent.strip() else "") + found[2].strip("\n ")) if "\n" in found[2].strip() else found[2].strip()
            yield Snippet(page, text.count("\n", 0, found.start()) + 1, found[1], textwrap.dedent("\n".join(body.splitlines())))


def statements(snippet: Snippet) -> list[str]:
    """What is run of a snippet: each statement of SQL, or all of the Python; nothing where it only shows a grammar."""
    text = snippet.text
    if snippet.language == "python":
        text = re.sub(r"\s*\\?\n\s*\.(?=\w)", ".", text)  # some snippets forget the backslash of a line that goes on
        text = text.replace("<your-partition-columns>", '"id"').replace(".create()", ".create(spark)")
    for old, new in _FILLED:
        text = re.sub(old, str(new), text)
    if snippet.language == "python":
        text = re.sub(r"^(\w+) = \.\.\..*$", lambda m: f"{m[1]} = {_FRAMES.get(m[1], '1')}", text, flags=re.MULTILINE).replace('"..."', '"{root}/delta/table"')
        if re.search(r"SparkSession|configure_spark|\.\.\.|storage-account|\"rate\"|\"console\"", text):
            return []
        told = next((name for part, name in (("newDedupedLogs", "logs"), ("newValue", "target")) if part in text), "people10m")
        given = [
            f"{name} = {to.replace('people10m', told) if name == 'deltaTable' else to}"
            for name, to in _FRAMES.items()
            if re.search(rf"(?<![\w.\"'/]){name}(?![\w\"'/=-])", text) and not re.search(rf"(?<!\w){name} *=(?!=)", text)
        ]
        return ["py:" + "\n".join([_IMPORTS, *given, text])]
    text = re.sub(r"(--|—-)[^\n]*", "", text)
    if re.search(r"\[|\.\.\.|data_type|\w+_expression|<\w", text) or not re.match(r"\s*[A-Za-z]", text):
        return []
    if re.match(r"\s*SELECT", text):
        text = re.sub(r"\n(?=SELECT)", ";", text)
    parts = re.split(
        r";|\n\s*\n(?=\s*(?:CREATE|SELECT|DELETE|UPDATE|MERGE|VACUUM|DESCRIBE|OPTIMIZE|REORG|CONVERT|RESTORE|INSERT|SHOW|ALTER)\b)|\n(?=(?:INSERT|REPLACE TABLE|RESTORE|CREATE TABLE|CONVERT|VACUUM)\b)",
        text,
    )
    return [p.strip() for p in parts if p.strip()]


def world(snippet: Snippet, texts: list[str]) -> tuple[str, ...]:
    """The statements that make what a snippet names."""
    whole = "\n".join(texts)
    plain = next((f"TBLPROPERTIES ('{name}' = 'true')" for part, name in _NEEDED if re.search(part, whole)), _PLAIN)
    by = next((f"PARTITIONED BY ({column}) " for part, column in (("(?i)optimize", "date"), ("dataChange", "year")) if re.search(part, whole)), "")
    before = []
    for name, query in WORLD.items():
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", whole) or (
            snippet.language == "sql" and re.search(rf"CREATE TABLE (IF NOT EXISTS )?{name}\b", whole)
        ):
            continue
        if "-" not in name and not re.search(rf"create\(.*tableName\(\"{name}\"", whole, re.DOTALL):
            before.append(f"CREATE TABLE {name} USING delta {by if query == _EVENTS else ''}{plain} AS {query}")
    for place in dict.fromkeys(re.findall(r"[`'\"](\{root\}/[\w/-]+)", whole)):
        last = place.rstrip("/").rsplit("/", 1)[-1]
        made = WORLD.get(last) or _PATHS.get(last)
        if "parquet`" in whole or "parquet" in place or "data-pipeline" in place:
            before.append(f"py:spark.sql(\"SELECT 1 AS id, 'a' AS name, 1 AS part, 2 AS part2\").write.mode('overwrite').parquet('{place}')")
        elif made and not re.search(rf"CREATE TABLE (IF NOT EXISTS )?delta\.`{place}", whole) and f'.write.format("delta").save("{place}")' not in whole:
            before.append(f"CREATE TABLE delta.`{place}` USING delta {by if made == _EVENTS else ''}{plain} AS {made}")
    return tuple(before)


def case(number: int, snippet: Snippet) -> Case | None:
    """A snippet with its tables; None where there is nothing to run."""
    texts = statements(snippet)
    return Case(number, {}, "", (), world(snippet, texts), tuple(Step(t, "docs") for t in texts)) if texts else None


def main() -> int:
    """Runs the snippets that were asked for."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("checkout", type=Path)
    given.add_argument("pages", nargs="*", metavar="PAGE.mdx[:LINE]")
    given.add_argument("--verbose", action="store_true", help="print what runs alike, too")
    asked = given.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="delta-docs-"))
    engines = {name: Process(name, folder) for name in ("delta-spark", "rowlock")}
    for engine in engines.values():
        engine.answer()
    counted: Counter[str] = Counter()
    for number, snippet in enumerate(snippets(asked.checkout)):
        if asked.pages and not any(snippet.name == p or snippet.page == p for p in asked.pages):
            continue
        counted[what := _run(number, snippet, engines, folder)] += 1
        if what != "alike" or asked.verbose:
            print(f"{what}: {snippet.name}", flush=True)
    for engine in engines.values():
        engine.end()
    print(", ".join(f"{count} {what}" for what, count in sorted(counted.items())))
    return 1 if counted["differs"] else 0


def _run(number: int, snippet: Snippet, engines: dict[str, Process], folder: Path) -> str:
    """What came of a snippet: alike, differs, differs as meant, fails in both, not runnable."""
    one = case(number, snippet)
    if one is None:
        return "not runnable"
    kept, theirs, found = first_difference(one, ((o["delta-spark"], o["rowlock"]) for o in outcomes(engines, one, folder / "tables")), Meant())
    for difference, reason in found:
        if reason is None:
            print(f"---- {snippet.name}: {one.steps[kept].text[:400]}\n{difference.text()}", flush=True)
    if any(reason is None for *_, reason in found):
        return "differs"
    if found:
        return "differs as meant"
    failed = next((outcome for outcome in theirs if "error" in outcome), None)
    if failed is not None:
        print(f"---- {snippet.name}: {failed['error'][0]} {' '.join(failed['text'].split())[:200]}", flush=True)
    return "fails in both" if failed is not None or not theirs else "alike"


if __name__ == "__main__":
    sys.exit(main())
