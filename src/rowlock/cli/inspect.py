"""`rowlock history`, `rowlock show` and `rowlock vacuum`: print a table's commits or rows, and delete files that it no longer needs.  No Spark; times in UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rowlock.advice.history import writer_of
from rowlock.advice.participants import described, told
from rowlock.api.append import opened
from rowlock.api.to_arrow import count_rows, first_rows
from rowlock.cli.conflicts import plain
from rowlock.display import count, moment
from rowlock.exceptions import UnsupportedFeature
from rowlock.log.table_log import TableLog
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol.features import reader_features, writer_features
from rowlock.storage.open import open_store
from rowlock.transaction.state.versions import snapshot_of

SHOWN_COLUMNS = 12


def history_of(path: str, limit: int, console: Console, storage_options: Mapping[str, str] | None = None, *, ids: bool = False) -> None:
    """Prints the newest `limit` commits, the newest first: what each changed, which application wrote it where (of a group all), or with `ids` its txnId."""
    log = TableLog(open_store(path, storage_options))
    times = dict(log.commit_times())
    table = Table("version", "time", "operation", *([Column("txnId", min_width=36)] if ids else ["what changed", "by"]), box=box.SIMPLE_HEAD)
    for commit in log.history(limit):
        info = commit.info.raw if commit.info else {}
        metrics = info.get("operationMetrics")
        changed = [_metrics(metrics if isinstance(metrics, Mapping) else None), Text("\n").join(map(plain, told(info) or [_by(info)]))]
        more = [str(info.get("txnId") or "")] if ids else changed
        table.add_row(str(commit.version), moment(times.get(commit.version)), str(info.get("operation") or ""), *more)
    console.print(table, crop=False)


def _by(info: Mapping[str, Any]) -> str:
    """Who wrote a commit: the application and where it ran, and the engine where that is another than Rowlock."""
    writer, engine = writer_of(info), str(info.get("engineInfo") or "")
    who = described(writer)
    return who if (engine.startswith("Rowlock/") and writer.where) or not engine or engine in who else f"{who}, {engine}"


def show_table(path: str, limit: int, version: int | None, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Prints a table's properties, its number of rows, and its first `limit` rows, at the newest or an older version."""
    state = opened(path, storage_options)
    snapshot = snapshot_of(state, version)
    metadata, protocol = snapshot.metadata, snapshot.protocol
    facts = Table(show_header=False, box=None)
    for name, value in {
        "location": snapshot.table,
        "description": metadata.description,
        "createdAt": metadata.created_time_ms and moment(metadata.created_time_ms),
        "lastModified": moment(snapshot.timestamp_ms),
        "partitionColumns": metadata.partition_columns,
        "numFiles": len(snapshot.files),
        "sizeInBytes": snapshot.files.total_size_bytes,
        "properties": metadata.configuration,
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(reader_features(protocol) | writer_features(protocol)),
    }.items():
        if value not in (None, "", (), [], {}):
            facts.add_row(f"[bold]{name}", _text(value))
    console.print(facts)
    console.print(f"{count_rows(state, snapshot):,} rows" + (f" in version {version}" if version is not None else ""))
    if not limit:
        return
    names = list(snapshot.schema.names)
    try:
        first = first_rows(state, snapshot, names[:SHOWN_COLUMNS], limit)
    except UnsupportedFeature as error:
        console.print(f"The rows cannot be shown without Spark: {error}", highlight=False, markup=False, soft_wrap=True)
        return
    rows = Table(*first.column_names, box=box.SIMPLE_HEAD)
    for row in zip(*(c.to_pylist() for c in first.columns), strict=True):
        rows.add_row(*map(_text, row))
    console.print(rows)
    if len(names) > SHOWN_COLUMNS:
        console.print(f"and {len(names) - SHOWN_COLUMNS} more columns: {', '.join(names[SHOWN_COLUMNS:])}")


def vacuum_table(
    path: str, retention_hours: float | None, dry_run: bool, unsafe: bool, console: Console, storage_options: Mapping[str, str] | None = None
) -> None:
    """Deletes the files that no version within the retention needs; prints how many."""
    log = TableLog(open_store(path, storage_options))
    result = vacuum(log, retention_hours=retention_hours, check_retention=not unsafe, dry_run=dry_run)
    for key in result.files if dry_run else ():
        console.print(key, highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{count(len(result.files), 'file')} ({result.size_bytes:,} bytes) {'would be' if dry_run else 'was' if len(result.files) == 1 else 'were'} deleted",
        highlight=False,
    )
    if result.unproven:
        console.print(f"{result.unproven:,} more were retained: the log no longer shows whether they were removed within the retention", highlight=False)


def _metrics(metrics: Mapping[str, Any] | None) -> str:
    """The metrics about rows, or if there are none about files, as text: numUpdatedRows=2 becomes `2 updated rows`."""
    counts = {name.removeprefix("num"): value for name, value in (metrics or {}).items() if name.startswith("num") and str(value) != "0"}
    rows = {name: value for name, value in counts.items() if "Rows" in name and "Copied" not in name} or {
        name: value for name, value in counts.items() if "Files" in name
    }
    return ", ".join(f"{value} {re.sub('(?<!^)(?=[A-Z])', ' ', name).lower()}" for name, value in rows.items())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "null" if value is None else str(value)
