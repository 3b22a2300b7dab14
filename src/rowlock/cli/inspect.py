"""The commands on one table: `history`, `show`, `vacuum`, `check` (damages and risks), `repair`, `settle`, `optimize`; and `arbiter`, the DynamoDB table.

Only `optimize` starts a Spark session.  Times are in UTC.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

import rowlock
from rowlock.advice.writers import described, participant_texts, writer_of
from rowlock.api.append import opened
from rowlock.api.to_arrow import count_rows, first_rows
from rowlock.cli.app import AsJson, Commits, StorageOption, TablePath, app, command, names, plain, say, say_json, storage
from rowlock.display import count, moment
from rowlock.exceptions import InvalidInput, UnsupportedFeature
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.finding import Report
from rowlock.maintenance.check.run import check
from rowlock.maintenance.repair import repair
from rowlock.maintenance.settle import settle_all, settle_by_hand
from rowlock.maintenance.vacuum import vacuum
from rowlock.protocol.actions import Commit
from rowlock.protocol.features import all_features
from rowlock.protocol.paths import scheme_of
from rowlock.protocol.prepared import prepared_by
from rowlock.storage.dynamodb import ArbitratedStore, create_table
from rowlock.storage.open import open_store
from rowlock.storage.options import SCHEMES, Kind
from rowlock.transaction.state.shared import snapshot_of, state_of

SHOWN_COLUMNS = 12


@command("history")
def history_of(
    path: TablePath,
    limit: Commits = 20,
    ids: Annotated[bool, typer.Option("--ids", help="Print the txnId of each commit, which receipts and errors name.")] = False,
    storage_option: StorageOption = None,
) -> None:
    """List the commits of a table, newest first."""
    log = TableLog(open_store(path, storage(storage_option)))
    times = dict(log.commit_times())
    table = Table("version", "time", "operation", *([Column("txnId", min_width=36)] if ids else ["what changed", "by"]), box=box.SIMPLE_HEAD)
    for commit in log.history(limit):
        info = commit.info.raw if commit.info else {}
        metrics = info.get("operationMetrics")
        what = [_metrics(metrics if isinstance(metrics, Mapping) else {}), *_together(commit, log.store.root)]
        changed = [Text("\n").join(Text(line) for line in what if line), Text("\n").join(map(plain, participant_texts(info) or [_by(info)]))]
        more = [plain(str(info.get("txnId") or ""))] if ids else changed
        table.add_row(str(commit.version), moment(times.get(commit.version)), plain(str(info.get("operation") or "")), *more)
    Console().print(table, crop=False)


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


def _metrics(metrics: Mapping[str, Any]) -> str:
    """The metrics about rows, or if there are none about files, as text: numUpdatedRows=2 becomes `2 updated rows`, numTargetRowsInserted=1 `1 row inserted`."""
    counts = {name.removeprefix("num"): str(value) for name, value in metrics.items() if name.startswith("num") and str(value) != "0"}
    merged = [name for name in counts if name in ("TargetRowsInserted", "TargetRowsUpdated", "TargetRowsDeleted")]
    rows = merged or [name for name in counts if "Rows" in name and "Copied" not in name]
    return ", ".join(_counted(counts[name], name) for name in rows or [name for name in counts if "Files" in name])


def _counted(number: str, name: str) -> str:
    words = re.sub("(?<!^)(?=[A-Z])", " ", name.removeprefix("Target")).lower()
    return f"{number} {re.sub('(row|file)s', lambda found: found[1], words) if number == '1' else words}"


@command("show")
def show_table(
    path: TablePath,
    limit: Annotated[int, typer.Option(help="How many rows to show.", min=0)] = 10,
    version: Annotated[int | None, typer.Option(help="Show the table as of this version.", min=0)] = None,
    storage_option: StorageOption = None,
) -> None:
    """Show a table's properties, size and first rows."""
    state, console = opened(path, storage(storage_option)), Console()
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
        "tableFeatures": sorted(all_features(protocol)),
    }.items():
        if value not in (None, "", (), [], {}):
            facts.add_row(f"[bold]{name}", _cell(value))
    console.print(facts)
    console.print(f"{count_rows(state, snapshot):,} rows" + (f" in version {version}" if version is not None else ""))
    if not limit or not snapshot.schema.fields:
        return
    shown, hidden = snapshot.schema.names[:SHOWN_COLUMNS], snapshot.schema.names[SHOWN_COLUMNS:]
    try:
        first = first_rows(state, snapshot, list(shown), limit)
    except UnsupportedFeature as error:
        say(f"The rows cannot be shown without Spark: {error}", console)
        return
    rows = Table(*(Column(plain(name)) for name in first.column_names), box=box.SIMPLE_HEAD)
    for row in zip(*(c.to_pylist() for c in first.columns), strict=True):
        rows.add_row(*map(_cell, row))
    console.print(rows)
    if hidden:
        console.print(plain(f"and {len(hidden)} more columns: {', '.join(hidden)}"))


def _cell(value: Any) -> Text:
    return Text("\n").join(map(plain, _text(value).split("\n")))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "null" if value is None else str(value)


@command("vacuum")
def vacuum_table(
    path: TablePath,
    retention_hours: Annotated[
        float | None, typer.Option(help="Keep files that were removed within this many hours. Default: the table's retention.", min=0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow a retention shorter than the table's; may delete files that a reader or writer still needs.")
    ] = False,
    storage_option: StorageOption = None,
) -> None:
    """Delete the files in a table's folder that no version within the retention needs."""
    state = opened(path, storage(storage_option))
    state.refresh()  # files that an open transaction over several tables has staged are live then, or garbage
    result = vacuum(state.log, retention_hours=retention_hours, check_retention=not unsafe, dry_run=dry_run)
    for key in result.files if dry_run else ():
        say(key)
    done = "would be" if dry_run else "was" if len(result.files) == 1 else "were"
    say(f"{count(len(result.files), 'file')} ({result.size_bytes:,} bytes) {done} deleted")
    if result.unproven:
        say(f"{result.unproven:,} more were retained: the log no longer shows whether they were removed within the retention")


_STORES: Mapping[Kind, Literal["s3", "gs", "az"]] = {"s3": "s3", "gcs": "gs", "azure": "az"}
"""The name of the connector that Spark needs."""


@command("optimize")
def optimize_table(
    path: TablePath,
    where: Annotated[str | None, typer.Option(metavar="CONDITION", help="Rewrite only partitions for which this is true, such as \"region = 'eu'\".")] = None,
    zorder: Annotated[str, typer.Option(metavar="COL[,COL]", help="Rewrite all files, in the Z-order of these columns.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Rewrite all files of a table with clustering columns in their order.")] = False,
    memory: Annotated[int, typer.Option(help="The JVM's heap in MB.", min=512)] = 2048,
    storage_option: StorageOption = None,
) -> None:
    """Rewrite the small files of a table, and files with many deleted rows, into fewer. No other writer fails because of it."""
    order_by, options = names(zorder), storage(storage_option)
    if full and order_by:
        raise InvalidInput("--full puts a table in the order of its own clustering columns, --zorder in another order: give one of them", table=path)
    opened(path, options).refresh()  # reports an error of the path before Spark starts
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # PySpark's: what is wrong with a condition is told once, by us
    spark = rowlock.spark(memory_mb=memory, stores=() if (kind := SCHEMES.get(scheme_of(path) or "")) is None else (_STORES[kind],))
    table = rowlock.DeltaTable.forPath(spark, path, storage_options=options)
    builder = table.optimize() if where is None else table.optimize().where(where)
    if order_by:
        builder.executeZOrderBy(*order_by)
    else:
        builder._compact(full=full)
    say(repr(table.lastReceipt) if table.lastReceipt is not None else "nothing to do")


_COLOURS = {"damage": "bold red", "danger": "bold red", "suspicion": "yellow", "note": "cyan"}
_COUNTED = {"vector files": "deletion vector files", "vectors": "deletion vectors"}
_VERDICTS = {"yes": "[green]yes[/]", "alone": "[yellow]only while no other writer is active[/]", "no": "[red]no[/]"}


@command("check")
def check_table(
    path: TablePath,
    json: AsJson = False,
    commits: Annotated[int, typer.Option(help="How many of the newest commits to read.", min=1)] = 100,
    files: Annotated[int, typer.Option(help="How many live files to look for, evenly spaced over all.", min=0)] = 1_000,
    footers: Annotated[int, typer.Option(help="For how many files to compare the footer with the statistics.", min=0)] = 20,
    deep: Annotated[
        bool, typer.Option("--deep", help="Open every version and read every live file, to compare the log with the files and their contents.")
    ] = False,
    storage_option: StorageOption = None,
) -> bool:
    """Find damage in a table and risky writers, and list which engines may write it. Exit code 1 if something is certainly wrong."""
    report = check(open_store(path, storage(storage_option)), commits=commits, files=files, footers=footers, deep=deep)
    if json:
        say_json(report.to_json())
    else:
        _print(report)
    return report.is_sound


def _print(report: Report) -> None:
    for finding in report.findings:
        say(f"[{_COLOURS[finding.level]}]{finding.level}[/] {escape(finding.text)}  [dim]{finding.code}[/]", markup=True)
        if finding.remedy:
            say(f"  → {finding.remedy}")
    if not report.findings:
        say("[green]No problems found.[/]", markup=True)
    if report.neighbours:
        say("\n[bold]Which other engines may write this table beside Rowlock[/]", markup=True)
    for neighbour in report.neighbours:
        say(f"  {neighbour.engine}: {_VERDICTS[neighbour.verdict]}, {escape(neighbour.why)}", markup=True)
    version = f", version {report.version}" if report.version is not None else ""
    say(f"\n[dim]{escape(report.table)}{version}; examined: {', '.join(_examined(report.looked_at))}[/]", markup=True)


def _examined(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields the counts as text: `commits 5`, `live files 20 of 30`."""
    for what, number in counts.items():
        if what == "files":
            yield f"live files {number:,} of {counts['live files']:,}"
        elif what != "live files":
            yield f"{_COUNTED.get(what, what)} {number:,}"


@command("repair")
def repair_table(
    path: TablePath,
    yes: Annotated[bool, typer.Option("--yes", help="Write the repairs; without, they are only printed.")] = False,
    json: AsJson = False,
    storage_option: StorageOption = None,
) -> bool:
    """Repair a damaged table as far as possible without losing a row. Exit code 1 if a damage remains."""
    done = repair(state_of(open_store(path, storage(storage_option))), dry_run=not yes)
    if json:
        say_json(done.to_json())
        return done.is_whole
    for damage in done.damages:
        mark = "[red]not repaired[/]" if not damage.can else "[green]repaired[/]" if done.done else "[yellow]can be repaired[/]"
        say(f"{mark} {escape(damage.what)}", markup=True)
        say(f"  → {damage.how}" + (f" (version {damage.version})" if damage.version is not None else ""))
    if not done.damages:
        say("[green]Nothing to repair.[/]", markup=True)
    elif not done.done:
        say("Nothing was written: --yes does it.")
    return done.is_whole


@command("settle")
def settle_table(
    path: TablePath,
    txn: Annotated[str | None, typer.Option(metavar="ID", help="With --as: the transaction that a person has decided.")] = None,
    outcome: Annotated[
        Literal["committed", "aborted"] | None,
        typer.Option("--as", help="With --txn: what became of it, where the table whose log decides it is gone for good."),
    ] = None,
    storage_option: StorageOption = None,
) -> bool:
    """Roll forward, or give up, what transactions over several tables have left open in a table. Exit code 1 if something is still open."""
    if (txn is None) != (outcome is None):
        raise InvalidInput("--txn and --as are given together: which transaction, and what became of it", table=path)
    state = opened(path, storage(storage_option))
    done = settle_all(state) if txn is None or outcome is None else [settle_by_hand(state, txn, outcome)]
    for one in done:
        closed = f", in version {one.version}" if one.version is not None else ""
        say(f"{one.table}: {f'transaction {one.txn_id}: ' if one.txn_id else ''}{one.outcome}{closed}")
    if not done:
        say("No transaction over several tables is open here.")
    return all(one.version is not None for one in done)


arbiter = typer.Typer(help="The DynamoDB arbiter, for tables that are shared with Spark jobs through S3DynamoDBLogStore.", no_args_is_help=True)
app.add_typer(arbiter, name="arbiter")


@command("create", of=arbiter)
def create_arbiter(
    name: Annotated[str | None, typer.Option(help="The DynamoDB table's name. Default: DELTA_DYNAMO_TABLE_NAME, else delta_log.")] = None,
    storage_option: StorageOption = None,
) -> None:
    """Create the arbiter's DynamoDB table if it does not exist. AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, ... in the options or environment say where."""
    table = create_table(storage(storage_option), name=name)
    say(f"The DynamoDB table {table.name} {'was created' if table.created else 'exists already'}.")
    if not table.expires:
        say("Its expired entries are not deleted automatically: turn on time to live for the attribute expireTime.")


@command("forget", of=arbiter)
def forget_entries(path: Annotated[str, typer.Argument(help="The path of a Delta table that was deleted.")], storage_option: StorageOption = None) -> None:
    """Delete the entries of a Delta table that was deleted, so that another can be created there; refused while its log exists."""
    store = open_store(path, storage(storage_option))
    if not isinstance(store, ArbitratedStore):
        raise InvalidInput("no arbiter is set for this path; set AWS_S3_LOCKING_PROVIDER=dynamodb", table=store.root)
    say(f"{store.forget():,} entries of {store.table_path} were deleted.")
