"""Prints the demo's progress, a row for each writer, live while it runs and as a table at the end; and the result of the check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rowlock import Receipt, clock
from rowlock.cli.app import say

PLAIN_LINE_EVERY_S = 5.0


@dataclass(slots=True)
class Score:
    """The counts of one writer so far.

    `rebased`: commits that were rebased over another's.  `run_again`: statements that failed and were run again.
    `seconds`: the time of each commit, from its first try to the end.
    """

    name: str
    commits: int = 0
    rebased: int = 0
    rows_rebased: int = 0
    run_again: int = 0
    failures: int = 0
    seconds: list[float] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Counts an event of the writer."""
        if event["event"] == "conflict":
            self.failures += 1
            self.run_again += event["again"]
        elif event["event"] == "commit" and event["version"] is not None:  # a statement that changed nothing is no commit
            self.commits += 1
            self.rebased += event["rounds"] > 0
            self.rows_rebased += event["rows_rebased"]
            self.seconds.append(event["seconds"])
            self.records.append(dict(event))


def commit_event(version: int | None, receipts: Iterable[Receipt], began_s: float, **record: Any) -> dict[str, Any]:
    """The event of a statement that has ended, for `Score.take`; `record` is what the check needs to know of it."""
    held = list(receipts)
    counts = {name: sum(getattr(r, name) for r in held) for name in ("rounds", "rows_rebased")}
    return {"event": "commit", "version": version, **counts, "seconds": clock.monotonic_s() - began_s, **record}


def verdict(problems: Sequence[str], *, wrong: str, right: str, console: Console) -> bool:
    """Prints whether all is as it must be, and else the first problems; returns whether it is."""
    if not problems:
        say(Text("Exact", style="bold green").append(f": {right}", style="not bold default"), console)
        return True
    say(Text("The table is wrong", style="bold red").append(f": {wrong}", style="not bold default"), console)
    for problem in problems[:10]:
        say(f"  {problem}", console)
    return False


class Scoreboard:
    """Shows the scores of all writers and the elapsed time."""

    def __init__(self, console: Console, scores: Sequence[Score], seconds: float) -> None:
        self.console, self.scores, self.seconds = console, {score.name: score for score in scores}, seconds
        self._began: float | None = None
        self._last_line = 0.0
        self._live: Live | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context manager that shows progress until the block ends; without a terminal, as a line every few seconds."""
        self._began = self._last_line = clock.monotonic_s()
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """Updates the display."""
        now = clock.monotonic_s()
        elapsed = now - (self._began or now)
        if self._live:
            line = f"{elapsed:4.0f} of {self.seconds:g} s" if elapsed <= self.seconds else "the last statements are finishing"
            bar = ProgressBar(total=self.seconds, completed=min(elapsed, self.seconds), width=60)
            self._live.update(Group(self.table(), bar, Text(line)))
        elif now - self._last_line >= PLAIN_LINE_EVERY_S:
            self._last_line = now
            done = ", ".join(f"{s.name} {s.commits}" for s in self.scores.values())
            self.console.print(f"{elapsed:4.0f} s  commits: {done}", highlight=False)

    def table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("writer", no_wrap=True)
        for name in ("commits", "rebased", "rows rebased", "run again", "failures", "p50", "p95"):
            table.add_column(name, justify="right", no_wrap=True)
        for score in self.scores.values():
            table.add_row(score.name, *_numbers([score]))
        table.add_section()
        table.add_row("all", *_numbers(list(self.scores.values())), style="bold")
        return table


def _numbers(scores: Sequence[Score]) -> list[str]:
    counts = [sum(getattr(s, name) for s in scores) for name in ("commits", "rebased", "rows_rebased", "run_again", "failures")]
    seconds = sorted(second for s in scores for second in s.seconds)
    return [f"{n:,}" for n in counts] + [_at(seconds, 0.5), _at(seconds, 0.95)]


def _at(ordered: Sequence[float], share: float) -> str:
    """The quantile `share` of an ordered list of seconds, as text."""
    if not ordered:
        return "-"
    value = ordered[min(len(ordered) - 1, int(len(ordered) * share))]
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
