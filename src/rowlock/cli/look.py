"""`rowlock history`, `rowlock show` and `rowlock vacuum`: looking at a table's folder, and tidying it up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import rowlock
from rowlock import DeltaTable
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.storage.address import SCHEMES
from rowlock.storage.open import open_store

SEEN_COLUMNS = 12


def history_of(path: str, limit: int, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    spark = _session(path)
    rows = DeltaTable.forPath(spark, path, storage_options=storage_options).history(limit).collect()
    table = Table("version", "time", "operation", "what changed", "by", box=box.SIMPLE_HEAD)
    for row in rows:
        fields = row.asDict(recursive=True)
        table.add_row(str(fields["version"]), _text(fields.get("timestamp")).split(".")[0], fields.get("operation") or "", _metrics(fields.get("operationMetrics")), fields.get("engineInfo") or "")
    console.print(table)


def show_table(path: str, limit: int, version: int | None, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    spark = _session(path)
    detail = DeltaTable.forPath(spark, path, storage_options=storage_options).detail().collect()[0].asDict(recursive=True)
    facts = Table(show_header=False, box=None)
    for name in ("location", "description", "createdAt", "lastModified", "partitionColumns", "numFiles", "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion", "tableFeatures"):
        if detail.get(name) not in (None, "", [], {}):
            facts.add_row(f"[bold]{name}", _text(detail[name]))
    console.print(facts)
    frame = rowlock.read(spark, path, version=version, storage_options=storage_options)
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


def vacuum_table(path: str, retention_hours: float | None, dry_run: bool, unsafe: bool, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Needs no Spark."""
    log = TableLog(open_store(path, storage_options))
    with Progress(TextColumn("deleting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=None)
        done = vacuum(log, retention_hours=retention_hours, check_retention=not unsafe, dry_run=dry_run, tell=lambda n, total: progress.update(bar, completed=n, total=total))
    for key in done.files if dry_run else ():
        console.print(key, highlight=False, markup=False, soft_wrap=True)
    files = "1 file" if len(done.files) == 1 else f"{len(done.files):,} files"
    console.print(f"{files} with {done.size_bytes:,} bytes {'would be' if dry_run else 'was' if len(done.files) == 1 else 'were'} deleted", highlight=False)


def _session(path: str) -> Any:
    """A session that reaches the path."""
    scheme = path.partition("://")[0].lower() if "://" in path else ""
    kind = SCHEMES.get(scheme)
    return rowlock.spark(stores=[{"s3": "s3", "gcs": "gs", "azure": "az"}[kind]]) if kind else rowlock.spark()


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
