"""`rowlock check` prints a table's damages and risks, as text or JSON; `rowlock repair` the repairs; `rowlock arbiter` creates and cleans the DynamoDB table.  Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.markup import escape

from rowlock.cli.conflicts import print_json
from rowlock.exceptions import InvalidInput
from rowlock.maintenance.check.finding import Report
from rowlock.maintenance.check.run import check
from rowlock.maintenance.repair import repair
from rowlock.storage.dynamodb import ArbitratedStore, create_table
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of

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
    for what, count in counts.items():
        if what == "files":
            yield f"live files {count:,} of {counts['live files']:,}"
        elif what != "live files":
            yield f"{_COUNTED.get(what, what)} {count:,}"


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
