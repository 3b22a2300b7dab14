"""`rowlock advise`: prints the table properties to set, as a line of Python, with the reasons and figures.  Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rowlock.advice.advice import Advice, Reason, advise, set_properties
from rowlock.advice.history import History
from rowlock.advice.read_history import read_history
from rowlock.cli.conflicts import plain, print_json
from rowlock.storage.open import open_store


def advise_on(path: str, limit: int, as_json: bool, console: Console, storage_options: Mapping[str, str] | None = None) -> None:
    """Prints the advice by the newest `limit` commits, as text or as one JSON object."""
    history = read_history(open_store(path, storage_options), limit)
    advice = advise(history)
    if as_json:
        print_json({"table": history.table, "commits": len(history.commits), "failed": len(history.failed), **advice.as_json()}, console)
    else:
        print_advice(history, advice, console)


def print_advice(history: History, advice: Advice, console: Console) -> None:
    """Prints the advice: first the properties to set, then the reasons."""
    what = f"advice from {len(history.commits):,} commits and {len(history.failed) + history.unrecorded:,} failed tries"
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


def _why(reasons: tuple[Reason, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for reason in reasons:
        if reason.text:
            table.add_row(f"  {reason.topic.removeprefix('rowlock.')}", plain(reason.text))
    return table


def _costs(advice: Advice) -> Table:
    """A table of the expected seconds that each changing commit loses under each lock."""
    c, expected = advice.costs, advice.costs.expected()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("  lock", "lost work", "waiting", "total"):
        table.add_column(name, justify="left" if name == "  lock" else "right")
    waiting = {"none": 0.0, "writes": c.wait_s, "partition": c.partition_s or 0.0}
    for scope in ("none", "partition", "writes"):
        if scope in expected:
            style = "bold" if scope == advice.lock else ""
            lost = (expected[scope] - waiting[scope]) / 2
            table.add_row(f"  {scope}", f"2 × {lost:.3f} s", f"{waiting[scope]:.3f} s", f"{expected[scope]:.3f} s", style=style)
    return table
