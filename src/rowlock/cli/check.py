"""`rowlock check` and `rowlock arbiter`: what is wrong with a table, for people or as JSON; the arbiter's table.  Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from rich.console import Console
from rich.markup import escape

from rowlock.exceptions import InvalidInput
from rowlock.maintenance.check.finding import Report
from rowlock.maintenance.check.run import check
from rowlock.storage.dynamodb import ArbitratedStore, create_table
from rowlock.storage.open import open_store

_COLOURS = {"damage": "bold red", "danger": "bold red", "suspicion": "yellow", "note": "cyan"}
_VERDICTS = {"yes": "[green]yes[/]", "alone": "[yellow]only while nobody else does[/]", "no": "[red]no[/]"}


def check_table(path: str, console: Console, storage_options: Mapping[str, str] | None = None, *, json: bool, commits: int, files: int, footers: int) -> bool:
    """Whether nothing certain is wrong."""
    report = check(open_store(path, storage_options), commits=commits, files=files, footers=footers)
    if json:
        console.file.write(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        _print(report, console)
    return report.is_sound


def _print(report: Report, console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for finding in report.findings:
        line(f"[{_COLOURS[finding.level]}]{finding.level}[/] {escape(finding.text)}  [dim]{finding.code}[/]")
        if finding.remedy:
            line(f"  → {escape(finding.remedy)}")
    if not report.findings:
        line("[green]Nothing wrong was found.[/]")
    if report.neighbours:
        line("\n[bold]Who may write beside Rowlock[/]")
    for neighbour in report.neighbours:
        line(f"  {neighbour.engine}: {_VERDICTS[neighbour.verdict]}, {escape(neighbour.why)}")
    looked = ", ".join(f"{what} {count:,}" for what, count in report.looked_at.items())
    line(f"\n[dim]{escape(report.table)}" + (f", version {report.version}" if report.version is not None else "") + f"; looked at: {looked}[/]")


def create_arbiter(name: str | None, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Makes the arbiter's table; where and as whom the options or the environment say."""
    made = create_table(storage_options, name=name)
    console.print(f"The DynamoDB table {made.name} {'was made' if made.created else 'was there already'}.", highlight=False, soft_wrap=True)
    if not made.expires:
        console.print("DynamoDB does not delete its expired entries by itself: turn on its time to live, on expireTime.", highlight=False, soft_wrap=True)


def forget_entries(path: str, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Deletes the arbiter's entries of a table that is gone."""
    store = open_store(path, storage_options)
    if not isinstance(store, ArbitratedStore):
        raise InvalidInput("no arbiter is set for this path: AWS_S3_LOCKING_PROVIDER=dynamodb", table=store.root)
    console.print(f"{store.forget():,} entries of {store.table_path} were deleted.", highlight=False, markup=False, soft_wrap=True)
