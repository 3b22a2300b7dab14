"""What the demo prints last: what the same load would have cost by Delta's rules, and where to look at it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rowlock import clock
from rowlock.advice.costs import conflicts_by_file
from rowlock.advice.history import History
from rowlock.advice.read_history import read_history
from rowlock.cli.report.page import html
from rowlock.storage.open import open_store

_COMMITS = 100_000


def what_next(table: Path, page: Path, console: Console, *, kept: bool, by_row: bool) -> None:
    """Prints the cost by Delta's rules (with `by_row`: where conflicts were not judged by these), and writes the page of the table's conflicts, which stays."""
    history = read_history(open_store(table), _COMMITS)
    page.write_bytes(html(history, clock.now_ms()).encode(errors="replace"))
    lines = [
        *([cost_by_file(history)] if by_row else []),
        f"What met what, commit by commit: {page}",
        f"It is what `rowlock conflicts {table if kept else 'PATH'} --html FILE` writes of any Delta table. `rowlock advise {table if kept else 'PATH'}` says what to set.",
        *([f"The table is kept: {table}"] if kept else []),
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def cost_by_file(history: History) -> str:
    """What the recorded commits would have cost under granularity=file, which are delta-spark's rules."""
    met = conflicts_by_file(history)
    if not met:
        return "By delta-spark's rules, which judge by file, none of these commits would have been a conflict, as far as the log says which files they changed."
    count, seconds = len(met), sum(run.service_s or 0.0 for run in met)
    return (
        f"By delta-spark's rules, which judge by file, at least {count:,} of the {len(history.commits):,} commits would have failed with a conflict, and "
        f"{seconds:,.1f} s of work would have been done again if each had got through at its second try. Counted from the log: the commits that changed a file which "
        "another commit had removed or written after the version that they read, and the time that each of them took without its rebases."
    )
