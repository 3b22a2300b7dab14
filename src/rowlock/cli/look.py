"""`rowlock history` and `rowlock show`: looking at a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import rowlock
from rowlock import DeltaTable

SEEN_COLUMNS = 12


def history_of(path: str, limit: int, console: Console) -> None:
    spark = rowlock.spark()
    rows = DeltaTable.forPath(spark, path).history(limit).collect()
    table = Table("version", "time", "operation", "what changed", "by", box=box.SIMPLE_HEAD)
    for row in rows:
        fields = row.asDict(recursive=True)
        table.add_row(str(fields["version"]), _text(fields.get("timestamp")).split(".")[0], fields.get("operation") or "", _metrics(fields.get("operationMetrics")), fields.get("engineInfo") or "")
    console.print(table)


def show_table(path: str, limit: int, version: int | None, console: Console) -> None:
    spark = rowlock.spark()
    detail = DeltaTable.forPath(spark, path).detail().collect()[0].asDict(recursive=True)
    facts = Table(show_header=False, box=None)
    for name in ("location", "description", "createdAt", "lastModified", "partitionColumns", "numFiles", "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion", "tableFeatures"):
        if detail.get(name) not in (None, "", [], {}):
            facts.add_row(f"[bold]{name}", _text(detail[name]))
    console.print(facts)
    frame = rowlock.read(spark, path, version=version)
    console.print(f"{frame.count():,} rows" + (f" in version {version}" if version is not None else ""))
    if not limit:
        return
    names = frame.columns[:SEEN_COLUMNS]
    rows = Table(*names, box=box.SIMPLE_HEAD)
    for row in frame.limit(limit).collect():
        rows.add_row(*(_text(row[place]) for place in range(len(names))))
    console.print(rows)
    if len(frame.columns) > SEEN_COLUMNS:
        console.print(f"and {len(frame.columns) - SEEN_COLUMNS} more columns: {', '.join(frame.columns[SEEN_COLUMNS:])}")


def _metrics(metrics: Mapping[str, Any] | None) -> str:
    """The counts of rows, or else of files, in words: numUpdatedRows=2 is `2 updated rows`."""
    counts = {name.removeprefix("num"): value for name, value in (metrics or {}).items() if name.startswith("num") and str(value) != "0"}
    rows = {name: value for name, value in counts.items() if "Rows" in name and "Copied" not in name} or {name: value for name, value in counts.items() if "Files" in name}
    return ", ".join(f"{value} {re.sub('(?<!^)(?=[A-Z])', ' ', name).lower()}" for name, value in rows.items())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "null" if value is None else str(value)
