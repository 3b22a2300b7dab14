"""`rowlock conflicts` shows which operations conflicted on a table, when, over which rows, and at what cost; `rowlock advise` what to set, with the reasons.

Both read the log and the recorded failed tries, and need no Spark.  Advice is printed as a line of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rowlock import clock, display
from rowlock.advice.advice import Advice, Reason, advise, set_properties
from rowlock.advice.costs import Hotspot, Overwriting, Pair, Span, grid, hot_columns, hot_files, hot_partitions, overwritings, pairs, timeline
from rowlock.advice.history import History, Run
from rowlock.advice.keys import Keys, hot_keys
from rowlock.advice.read_history import read_history
from rowlock.cli.app import AsJson, Commits, StorageOption, TablePath, columns, command, plain, say, say_json, storage
from rowlock.exceptions import InvalidInput
from rowlock.storage.open import open_store

BAR = 40
SHOWN = 5
_LEAST = 10
_OPERATIONS = 5
_NAME = 60


@command("conflicts")
def conflicts_of(
    path: TablePath,
    limit: Commits = 1000,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML page instead: who wrote when, who met whom, and what to set.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the commits and their phases as a trace for ui.perfetto.dev.")] = None,
    storage_option: StorageOption = None,
) -> None:
    """Show which operations conflicted, when, over which files and keys, and at what cost."""
    for file in (html, trace):
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise InvalidInput(f"{file} cannot be written: {'it is a folder' if file.is_dir() else f'there is no folder {file.parent}'}.")
    history = read_history(open_store(path, storage(storage_option)), limit)
    written: list[tuple[Path, bytes]] = []
    if html is not None:
        from rowlock.cli.report import page

        written.append((html, page.html(history, clock.now_ms()).encode(errors="replace")))
    if trace is not None:
        from rowlock.cli.report import trace as traces

        written.append((trace, orjson.dumps(traces.trace(history))))
    for file, data in written:
        file.write_bytes(data)
        if not as_json:
            say(f"Written: {file} ({display.size(len(data))})")
    if as_json:
        say_json(summary(history))
    elif not written:
        picture(history, Console())


def summary(history: History) -> dict[str, Any]:
    """The conflicts of a history as plain values for JSON."""
    commits = history.commits
    return {
        "table": history.table,
        "versions": [commits[0].version, commits[-1].version] if commits else [],
        "commits": len(commits),
        "transactions": sum(r.group_size for r in commits),
        "failed": [_failure(r) for r in history.failed],
        "unrecorded": history.unrecorded,
        "timeline": [asdict(s) for s in timeline(history)],
        "pairs": [asdict(p) | {"rate": p.rate} for p in pairs(history)],
        "files": [asdict(h) for h in hot_files(history)],
        "partitions": [asdict(h) for h in hot_partitions(history)],
        "keys": [asdict(k) for k in hot_keys(history)],
        "columns": [asdict(h) for h in hot_columns(history)],
        "overwritten": [asdict(o) for o in overwritings(history)],
    }


def _failure(run: Run) -> dict[str, Any]:
    fields = ("at_ms", "txn_id", "operation", "outcome", "error", "policy", "read_version", "thrown_rows", "thrown_bytes", "thrown_seconds", "predicate")
    return {name: getattr(run, name) for name in fields} | {"met": [asdict(m) for m in run.met]}


def picture(history: History, console: Console) -> None:
    """Prints the conflicts of a history as tables; each colour has a sign or a number beside it, for readers without colour."""
    commits = history.commits

    def section(title: str, note: str, table: Table) -> None:
        console.print(Text(f"\n{title}", style="bold").append(f"  {note}", style="not bold dim"))
        console.print(table)

    console.print(_headline(history), soft_wrap=True)
    if spans := timeline(history):
        section("When", "█ commit  ▓ rebased commit  × failed try", _timeline(spans, min(BAR, max(_LEAST, console.width - 62))))
    if by_operation := pairs(history):
        section("Conflicts by operation", "of the commits that landed while the other ran, how many conflicted with it", _heat(by_operation))
    elif commits:
        console.print("\nBy their own records no two of these commits ran at the same time.")
    for title, hot, name in (
        ("Files", hot_files(history), partial(display.shortened, width=min(_NAME, max(2 * _LEAST, console.width - 37)))),
        ("Partitions", hot_partitions(history), str),
        ("Columns", hot_columns(history), str),
    ):
        if hot:
            section(title, f"{len(hot):,} in {display.count(sum(h.meetings for h in hot), 'conflict')}", _hot(hot, name))
    if keys := hot_keys(history, SHOWN):
        section("Keys", "the values that conflicting statements select by", _keys(keys))
    if failed := history.failed:
        rows, seconds = sum(r.thrown_rows for r in failed), sum(r.thrown_seconds for r in failed)
        section("Failed tries", f"the newest of {len(failed):,}; {display.count(rows, 'row')} and {seconds:.1f} s of work lost in all", _failed(failed))
    if over := overwritings(history):
        section("Lockless", f"{sum(o.rows for o in over):,} rows that two concurrent commits changed; the newest of {len(over):,} pairs", _overwritten(over))


def _headline(history: History) -> Text:
    commits, text = history.commits, Text(history.table, style="bold")
    if not commits:
        return text.append("  no commits", style="not bold")
    span = f"version {commits[0].version}" if len(commits) == 1 else f"versions {commits[0].version} to {commits[-1].version}"
    tries = display.count(len(history.failed) + history.unrecorded, "failed try", "failed tries")
    text.append(f"  {span}: {display.count(len(commits), 'commit')}, {sum(r.rounds > 0 for r in commits):,} of them rebased, {tries}", style="not bold")
    grouped = [r.group_size for r in commits if r.group_size > 1]
    return text.append(f"; {sum(grouped):,} appends share {len(grouped):,} version{'s' if len(grouped) > 1 else ''}", style="not bold") if grouped else text


def _timeline(spans: Sequence[Span], width: int) -> Table:
    table = columns("from (UTC)", "", "commits ", "rebases ", "failed ", "time lost ")
    most = max(s.commits + s.failed for s in spans)
    before: Span | None = None
    for s in spans:
        if before is not None and s.at_ms > before.at_ms + 1000 * before.seconds:
            table.add_row("[dim]…")
        table.add_row(
            _time(s.at_ms, s.seconds),
            _bar(s, most, width),
            *(f"{n:,}" if n else "" for n in (s.commits, s.rounds, s.failed)),
            f"{s.lost_s:.1f} s" if s.lost_s >= 0.05 else "",
        )
        before = s
    return table


def _bar(span: Span, most: int, width: int) -> Text:
    """A bar scaled so that a span of `most` commits and failed tries has about `width` signs; any count above 0 has at least one."""
    scale = min(1.0, width / most)
    text = Text()
    for count, sign, style in ((span.commits - span.rebased, "█", "green"), (span.rebased, "▓", "yellow"), (span.failed, "×", "red")):
        text.append(sign * (max(1, int(count * scale)) if count else 0), style=style)
    return text


def _heat(by_operation: Sequence[Pair]) -> Table:
    heat, table = grid(by_operation, _OPERATIONS), columns()
    table.add_column("ran ↓  committed meanwhile →", style="", no_wrap=True)
    for name in heat.winners:
        table.add_column(plain(name), justify="right", header_style="bold")
    for loser, cells in zip(heat.losers, heat.cells, strict=True):
        table.add_row(plain(loser), *map(_cell, cells))
    return table


def _cell(pair: Pair | None) -> Text:
    if pair is None:
        return Text("·", style="dim")
    style = "dim" if not pair.met else "red" if pair.rate >= 0.5 else "yellow" if pair.rate >= 0.1 else ""
    return Text(f"{pair.met:,}/{pair.overlaps:,} {100 * pair.rate:3.0f} %", style=style)


def _hot(hot: Sequence[Hotspot], name: Callable[[str], str]) -> Table:
    return columns("", "conflicts ", "by", rows=((plain(name(h.name)), f"{h.meetings:,}", plain(", ".join(h.operations))) for h in hot[:SHOWN]))


def _keys(keys: Sequence[Keys]) -> Table:
    def row(k: Keys) -> Sequence[RenderableType]:
        values = ", ".join(f"{value} ({n})" for value, n in k.values[:3]) or ("ranges" if k.low is not None else "MERGE key")
        return plain(k.column), f"{k.runs:,}", plain(values), *("" if bound is None else f"{bound:g}" for bound in (k.low, k.high))

    return columns("column", "statements ", "most frequent", "from ", "to ", rows=map(row, keys))


def _failed(failed: Sequence[Run]) -> Table:
    def row(run: Run) -> Sequence[RenderableType]:
        winner = f"version {run.met[-1].version}, {run.met[-1].operation}" if run.met else ""
        texts = map(plain, (run.operation, run.error.removesuffix("Exception") or run.outcome, winner))
        return _time(run.at_ms, 1), *texts, f"{display.count(run.thrown_rows, 'row')}, {run.thrown_seconds:.1f} s"

    return columns("at (UTC)", "operation", "why", "conflict with", "work lost ", rows=map(row, list(reversed(failed))[:SHOWN]))


def _overwritten(over: Sequence[Overwriting]) -> Table:
    def row(o: Overwriting) -> Sequence[RenderableType]:
        return plain(f"{o.earlier} {o.earlier_operation}"), plain(f"{o.later} {o.later_operation}"), f"{o.rows:,}", plain(_outcome(o))

    return columns("earlier", "later", "rows ", "outcome", rows=map(row, over[:SHOWN]))


def _outcome(o: Overwriting) -> str:
    columns = f" ({', '.join(o.columns)})" if o.columns else ""
    if o.outcome == "dropped":
        return f"version {o.earlier} kept, the changes of version {o.later} were dropped{columns}"
    what = "deleted" if o.outcome == "row" else "overwritten"
    return f"{what} by version {o.later}{columns}"


def _time(at_ms: int | None, seconds: int) -> str:
    at = display.utc(at_ms)
    if at is None:
        return "?" if at_ms is None else f"{at_ms} ms"
    return f"{at:%Y-%m-%d}" if seconds >= 86_400 else f"{at:%m-%d %H:%M}" if seconds >= 60 else f"{at:%m-%d %H:%M:%S}"


@command("advise")
def advise_on(path: TablePath, limit: Commits = 1000, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Recommend table properties (lock, conflict policy, ...) by the conflicts in a table's history, with reasons and figures."""
    history = read_history(open_store(path, storage(storage_option)), limit)
    advice = advise(history)
    if as_json:
        say_json({"table": history.table, "commits": len(history.commits), "failed": len(history.failed), **advice.as_json()})
    else:
        print_advice(history, advice, Console())


def print_advice(history: History, advice: Advice, console: Console) -> None:
    """Prints the advice: first the properties to set, then the reasons."""
    tries = display.count(len(history.failed) + history.unrecorded, "failed try", "failed tries")
    what = f"advice from {display.count(len(history.commits), 'commit')} and {tries}"
    console.print(Text(history.table, style="bold").append(f"  {what}", style="not bold"), soft_wrap=True)
    console.print()
    if advice.settings:
        console.print(Text(f"  {set_properties(advice.settings, history.table)}".replace("\n", "\n  "), style="green"), soft_wrap=True)
    elif advice.thin:
        console.print("  Nothing to set yet.")
    else:
        auto = " (which auto follows)" if history.properties.get("rowlock.lock") == "auto" else ""
        console.print(f"  Nothing to set: lock = {advice.lock}{auto} and the rest as it is.", highlight=False)
    if advice.thin:
        console.print(Padding(Text(f"{advice.thin[0].upper()}{advice.thin[1:]}.", style="yellow"), (0, 2)))
    console.print()
    console.print(_why(advice.reasons))
    if advice.options:
        console.print("\nAlso possible, but decide yourself: these change which features readers and writers must support:")
        console.print(Text(f"  {set_properties(advice.options, history.table)}".replace("\n", "\n  ")), soft_wrap=True)
    if advice.statements:
        console.print("\nAlso possible: these rewrite files, and conflict with no other writer (rowlock.sql runs them):")
        console.print(Text("\n".join(f"  {text}" for text in advice.statements)), soft_wrap=True)
    if any(scope != "none" for scope in advice.costs.expected()) and advice.costs.changes:
        console.print()
        console.print(_costs(advice))


def _why(reasons: Sequence[Reason]) -> Table:
    table = columns("", "", rows=((f"  {r.topic.removeprefix('rowlock.')}", plain(r.text)) for r in reasons if r.text), show_header=False)
    table.columns[0].style, table.columns[1].no_wrap = "bold", False
    return table


def _costs(advice: Advice) -> Table:
    """A table of the expected seconds that each changing commit loses under each lock."""
    expected, waiting = advice.costs.expected(), {"none": 0.0, "partition": advice.costs.partition_s or 0.0, "writes": advice.costs.wait_s}
    table = columns("  lock", "lost work ", "waiting ", "total ")
    for scope, waited in waiting.items():
        if scope in expected:
            lost = (expected[scope] - waited) / 2
            table.add_row(f"  {scope}", f"2 × {lost:.3f} s", f"{waited:.3f} s", f"{expected[scope]:.3f} s", style="bold" if scope == advice.lock else "")
    return table
