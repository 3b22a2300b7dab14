"""The commands on one table: `history`, `show`, `vacuum`, `check` (damages and risks, as text or JSON), `repair`, `optimize`; and `arbiter`, the DynamoDB table.

Only `optimize` starts a Spark session.  Times are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

import rowlock
from rowlock.advice.history import writer_of
from rowlock.api.append import opened
from rowlock.api.to_arrow import count_rows, first_rows
from rowlock.cli.conflicts import plain, print_json
from rowlock.display import count, moment
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.finding import Report
from rowlock.maintenance.check.run import check
from rowlock.maintenance.repair import repair
from rowlock.maintenance.settle import settle_all, settle_by_hand
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol.actions import Commit
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.paths import scheme_of
from rowlock.protocol.prepared import prepared_by
from rowlock.storage.dynamodb import ArbitratedStore, create_table
from rowlock.storage.open import open_store
from rowlock.storage.options import SCHEMES, Kind
from rowlock.transaction.group_commit.group import described, told
from rowlock.transaction.state.shared import snapshot_of, state_of

SHOWN_COLUMNS = 12


def history_of(path: str, limit: int, console: Console, storage_options: Mapping[str, str] | None = None, *, ids: bool = False) -> None:
    """Prints the newest `limit` commits, the newest first: what each changed (and in which other tables), which application wrote it where (of a group all), or with `ids` its txnId."""
    log = TableLog(open_store(path, storage_options))
    times = dict(log.commit_times())
    table = Table("version", "time", "operation", *([Column("txnId", min_width=36)] if ids else ["what changed", "by"]), box=box.SIMPLE_HEAD)
    for commit in log.history(limit):
        info = commit.info.raw if commit.info else {}
        metrics = info.get("operationMetrics")
        what = [_metrics(metrics if isinstance(metrics, Mapping) else None), *_together(commit, log.store.root)]
        changed = [Text("\n").join(Text(line) for line in what if line), Text("\n").join(map(plain, told(info) or [_by(info)]))]
        more = [str(info.get("txnId") or "")] if ids else changed
        table.add_row(str(commit.version), moment(times.get(commit.version)), str(info.get("operation") or ""), *more)
    console.print(table, crop=False)


def _together(commit: Commit, root: str) -> list[str]:
    """The other tables of a transaction over several tables, as far as the commit names them."""
    others = [f"version {version} of {table}" for table, version in (commit.info.together if commit.info else ()) if table != root]
    prepared = [f"what was prepared in version {version} of {table}" for table, version in prepared_by(commit)]
    return [f"with {one}" for one in (*others, *prepared)]


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
    state = opened(path, storage_options)
    state.refresh()  # files that an open transaction over several tables has staged are live then, or garbage
    result = vacuum(state.log, retention_hours=retention_hours, check_retention=not unsafe, dry_run=dry_run)
    for key in result.files if dry_run else ():
        console.print(key, highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{count(len(result.files), 'file')} ({result.size_bytes:,} bytes) {'would be' if dry_run else 'was' if len(result.files) == 1 else 'were'} deleted",
        highlight=False,
    )
    if result.unproven:
        console.print(f"{result.unproven:,} more were retained: the log no longer shows whether they were removed within the retention", highlight=False)


def _metrics(metrics: Mapping[str, Any] | None) -> str:
    """The metrics about rows, or if there are none about files, as text: numUpdatedRows=2 becomes `2 updated rows`, numTargetRowsInserted=1 `1 row inserted`."""
    counts = {name.removeprefix("num"): str(value) for name, value in (metrics or {}).items() if name.startswith("num") and str(value) != "0"}
    merged = {name: value for name, value in counts.items() if name in ("TargetRowsInserted", "TargetRowsUpdated", "TargetRowsDeleted")}
    rows = merged or {name: value for name, value in counts.items() if "Rows" in name and "Copied" not in name}
    return ", ".join(_counted(value, name) for name, value in (rows or {name: value for name, value in counts.items() if "Files" in name}).items())


def _counted(number: str, name: str) -> str:
    words = re.sub("(?<!^)(?=[A-Z])", " ", name.removeprefix("Target")).lower()
    return f"{number} {re.sub('(row|file)s', lambda found: found[1], words) if number == '1' else words}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "null" if value is None else str(value)


_COLOURS = {"damage": "bold red", "danger": "bold red", "suspicion": "yellow", "note": "cyan"}
_COUNTED = {"vector files": "deletion vector files", "vectors": "deletion vectors"}
_VERDICTS = {"yes": "[green]yes[/]", "alone": "[yellow]only while no other writer is active[/]", "no": "[red]no[/]"}


def check_table(
    path: str, console: Console, storage_options: Mapping[str, str] | None = None, *, json: bool, commits: int, files: int, footers: int, deep: bool = False
) -> bool:
    """Prints the findings; returns False if something is certainly wrong (damage or danger)."""
    report = check(open_store(path, storage_options), commits=commits, files=files, footers=footers, deep=deep)
    if json:
        print_json(report.to_json(), console)
    else:
        _print(report, console)
    return report.is_sound


def repair_table(path: str, console: Console, storage_options: Mapping[str, str] | None = None, *, json: bool, yes: bool) -> bool:
    """Prints the damages and their repairs (without `yes`: the possible repairs); returns False if a damage remains."""
    done = repair(state_of(open_store(path, storage_options)), dry_run=not yes)
    if json:
        print_json(done.to_json(), console)
        return done.is_whole
    for damage in done.damages:
        mark = "[red]not repaired[/]" if not damage.can else "[green]repaired[/]" if done.done else "[yellow]can be repaired[/]"
        console.print(f"{mark} {escape(damage.what)}", highlight=False, soft_wrap=True)
        where = f" (version {damage.version})" if damage.version is not None else ""
        console.print(f"  → {escape(damage.how)}{where}", highlight=False, soft_wrap=True)
    if not done.damages:
        console.print("[green]Nothing to repair.[/]")
    elif not done.done:
        console.print("Nothing was written: --yes does it.", highlight=False)
    return done.is_whole


def settle_table(
    path: str, console: Console, storage_options: Mapping[str, str] | None = None, *, txn_id: str | None, outcome: Literal["committed", "aborted"] | None
) -> bool:
    """Settles what is open in a table, or closes one transaction as a person decided; returns False if something is still open."""
    if (txn_id is None) != (outcome is None):
        raise InvalidInput("--txn and --as are given together: which transaction, and what became of it", table=path)
    state = opened(path, storage_options)
    done = settle_all(state) if txn_id is None or outcome is None else [settle_by_hand(state, txn_id, outcome)]
    for one in done:
        closed = f", in version {one.version}" if one.version is not None else ""
        console.print(f"{one.table}: {f'transaction {one.txn_id}: ' if one.txn_id else ''}{one.outcome}{closed}", highlight=False, markup=False, soft_wrap=True)
    if not done:
        console.print("No transaction over several tables is open here.")
    return all(one.version is not None for one in done)


def _print(report: Report, console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for finding in report.findings:
        line(f"[{_COLOURS[finding.level]}]{finding.level}[/] {escape(finding.text)}  [dim]{finding.code}[/]")
        if finding.remedy:
            line(f"  → {escape(finding.remedy)}")
    if not report.findings:
        line("[green]No problems found.[/]")
    if report.neighbours:
        line("\n[bold]Which other engines may write this table beside Rowlock[/]")
    for neighbour in report.neighbours:
        line(f"  {neighbour.engine}: {_VERDICTS[neighbour.verdict]}, {escape(neighbour.why)}")
    examined = ", ".join(_examined(report.looked_at))
    line(f"\n[dim]{escape(report.table)}" + (f", version {report.version}" if report.version is not None else "") + f"; examined: {examined}[/]")


def _examined(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields the counts as text: `commits 5`, `live files 20 of 30`."""
    for what, number in counts.items():
        if what == "files":
            yield f"live files {number:,} of {counts['live files']:,}"
        elif what != "live files":
            yield f"{_COUNTED.get(what, what)} {number:,}"


def create_arbiter(name: str | None, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Creates the arbiter's DynamoDB table unless it exists, with the region and credentials of the options or the environment."""
    table = create_table(storage_options, name=name)
    console.print(f"The DynamoDB table {table.name} {'was created' if table.created else 'exists already'}.", highlight=False, soft_wrap=True)
    if not table.expires:
        console.print("Its expired entries are not deleted automatically: turn on time to live for the attribute expireTime.", highlight=False, soft_wrap=True)


def forget_entries(path: str, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Deletes the arbiter's entries of a Delta table that no longer exists."""
    store = open_store(path, storage_options)
    if not isinstance(store, ArbitratedStore):
        raise InvalidInput("no arbiter is set for this path; set AWS_S3_LOCKING_PROVIDER=dynamodb", table=store.root)
    console.print(f"{store.forget():,} entries of {store.table_path} were deleted.", highlight=False, markup=False, soft_wrap=True)


_STORES: Mapping[Kind, Literal["s3", "gs", "az"]] = {"s3": "s3", "gcs": "gs", "azure": "az"}
"""The name of the connector that Spark needs."""


def optimize_table(
    path: str, where: str | None, order_by: Sequence[str], full: bool, memory_mb: int, console: Console, storage_options: Mapping[str, str] | None = None
) -> None:
    """Rewrites a table's small files, or all files in the order of `order_by`, and prints the receipt.

    Raises InvalidInput if `full` and `order_by` are both given, else what OPTIMIZE raises.
    """
    if full and order_by:
        raise InvalidInput("--full puts a table in the order of its own clustering columns, --zorder in another order: give one of them", table=path)
    opened(path, storage_options).refresh()  # reports an error of the path before Spark starts
    kind = SCHEMES.get(scheme_of(path) or "")
    spark = rowlock.spark(memory_mb=memory_mb, stores=() if kind is None else (_STORES[kind],))
    table = rowlock.DeltaTable.forPath(spark, path, storage_options=storage_options)
    builder = table.optimize() if where is None else table.optimize().where(where)
    if order_by:
        builder.executeZOrderBy(*order_by)
    else:
        builder._compact(full=full)
    console.print(repr(table.lastReceipt) if table.lastReceipt is not None else "nothing to do", highlight=False, markup=False, soft_wrap=True)
