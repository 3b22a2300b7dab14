"""Runs the demo: prepares the load, starts the writer processes, waits until the time is over, and checks the table.

The input is checked before the table is created.  Each writer is a process of its own; this process creates the table,
collects the writers' events, and reads the table at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl
from rich.console import Console

import rowlock
from rowlock import DeltaTable, clock
from rowlock.advice.costs import conflicts_by_file
from rowlock.advice.history import History
from rowlock.advice.read_history import read_history
from rowlock.cli.demo import replay, source
from rowlock.cli.demo.load import INITIAL, Load, Sales, open_load
from rowlock.cli.demo.scoreboard import Score, Scoreboard
from rowlock.cli.report.page import html
from rowlock.exceptions import InvalidInput, RowlockError
from rowlock.storage.open import open_store

POLICIES: dict[str, dict[str, str]] = {"repair": {}, "fail": {"rowlock.onConflict": "fail", "rowlock.granularity": "file"}}
Events = queue.Queue[tuple[str, dict[str, Any]]]
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # five JVMs that live for a minute: compiling well would take most of it
READY_WITHIN_S = 600.0
FINISHED_WITHIN_S = 300.0  # after the time is over


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `rowlock demo`."""

    seconds: float = 30.0
    policy: str = "repair"
    path: Path | None = None
    keep: bool = False
    rows: int = 100_000
    source: Path | None = None
    key: tuple[str, ...] = ()
    split: str | None = None


class Writer:
    """A writer process of the demo; its events arrive in the queue `events` as (name, event)."""

    def __init__(self, score: Score, role: str, table: Path, work: Path, seconds: float, events: Events) -> None:
        self.score, self.log, self.events = score, work / f"{score.name}.log", events
        command = [sys.executable, "-m", "rowlock.cli.demo.worker", "--", str(table), str(work), role, score.name, str(seconds)]
        environment = {**os.environ, "ROWLOCK_APPLICATION": f"demo {score.name}"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self.process.stdout
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            self.events.put((self.score.name, json.loads(line)))
        self.events.put((self.score.name, {"event": "gone"}))

    def send(self, word: str) -> None:
        """Sends OPEN or GO to the process."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # the process has ended, and its last event is in the queue
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """Terminates the process if it still runs."""
        if self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> None:
        """Waits for the process to end; kills it after 20 s."""
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Crew:
    """All writer processes, with a barrier: none starts to write before all are ready."""

    def __init__(self, load: Load, table: Path, work: Path, seconds: float) -> None:
        self.events: Events = queue.Queue()
        roles = [(name, "merge") for name in load.streams] + [("optimize", "optimize"), ("gdpr", "delete")]
        self.writers = [Writer(Score(name), role, table, work, seconds, self.events) for name, role in roles]
        self.scores = {writer.score.name: writer.score for writer in self.writers}

    def send(self, word: str) -> None:
        """Sends OPEN or GO to all writers."""
        for writer in self.writers:
            writer.send(word)

    def until_all(self, event: str, *, within_s: float, board: Scoreboard | None = None) -> None:
        """Reads events until every writer has sent this one.  Raises RowlockError if a writer fails, ends, or sends nothing in time."""
        waiting, end = set(self.scores), clock.monotonic_s() + within_s
        while waiting:
            if board:
                board.refresh()
            if clock.monotonic_s() > end:
                raise RowlockError(f"{', '.join(sorted(waiting))}: no answer for {within_s:.0f} s.{self._logs(waiting)}")
            with contextlib.suppress(queue.Empty):
                name, received = self.events.get(timeout=0.25)
                if received["event"] == "error":
                    raise RowlockError(f"The writer {name} failed: {received['message']}{self._logs({name})}")
                if received["event"] == "gone" and name in waiting:
                    raise RowlockError(f"The writer {name} ended before its time.{self._logs({name})}")
                self.scores[name].take(received)
                if received["event"] == event:
                    waiting.discard(name)

    def _logs(self, names: set[str]) -> str:
        return " Its log: " + ", ".join(str(writer.log) for writer in self.writers if writer.score.name in names)

    def dismiss(self) -> None:
        """Terminates all writers and waits for their end."""
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.wait()


def run(choices: Choices, console: Console) -> bool:
    """Runs the demo; returns whether the table is right.  Raises InvalidInput, before anything is written, if the input cannot be used."""
    if choices.policy not in POLICIES:
        raise InvalidInput(f"--policy is one of {', '.join(POLICIES)}, not {choices.policy}.")
    check_place(choices.path)
    with work_folder(keep=choices.keep) as work:
        _prepare(choices, work, console)
        table = choices.path or work / "table"
        right = _contest(choices, work, table, console)
        remains = choices.path is not None or choices.keep
        what_next(table, work.with_suffix(".html"), console, remains=remains, by_row=choices.policy == "repair")
        return right


def check_place(path: Path | None) -> None:
    """Raises InvalidInput if the table's path is not free."""
    if path and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(f"{path} exists already and the demo creates its own table. Give a --path that does not exist, or remove it.")


def quick_jvms() -> None:
    """Sets the environment so that the JVMs of this process and its children compile little."""
    for name in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"):
        os.environ.setdefault(name, QUICK_JVM)


def _prepare(choices: Choices, work: Path, console: Console) -> None:
    if choices.source is None:
        if choices.key or choices.split:
            raise InvalidInput("--key and --split say how to read your own files: give --source PATH too.")
        Sales.prepare(work, rows=choices.rows)
        return
    if not choices.key:
        raise InvalidInput("--source needs --key COL[,COL]: the columns that identify a row.")
    for note in source.stage(work, source=choices.source, key=choices.key, split=choices.split):
        console.print(note, highlight=False, soft_wrap=True)


def _contest(choices: Choices, work: Path, table: Path, console: Console) -> bool:
    load = open_load(work)
    quick_jvms()
    crew = Crew(load, table, work, choices.seconds)
    try:
        with console.status(f"Starting {len(crew.writers)} processes, each with a Spark session of its own ..."):
            initial, spark = _make_table(work, table, POLICIES[choices.policy])
            first_version = DeltaTable.forPath(spark, str(table)).history(1).collect()[0]["version"]
            crew.until_all("started", within_s=READY_WITHIN_S)
            crew.send("OPEN")
            crew.until_all("ready", within_s=READY_WITHIN_S)
        console.print(f"One table, unpartitioned, {len(initial):,} rows: {table}", highlight=False, soft_wrap=True)
        console.print(
            f"For {choices.seconds:g} s {' and '.join(load.streams)} merge batches, optimize compacts files, gdpr deletes by predicate. On conflict: {choices.policy}.",
            highlight=False,
            soft_wrap=True,
        )
        board = Scoreboard(console, list(crew.scores.values()), choices.seconds)
        with board.running():
            crew.send("GO")
            crew.until_all("done", within_s=choices.seconds + FINISHED_WITHIN_S, board=board)
    finally:
        crew.dismiss()
    console.print(board.table())
    with console.status("Checking the table against a serial replay of the log ..."):
        verdict = _check(load, crew, spark, table, initial, first_version)
    return _print_verdict(verdict, console)


def _make_table(work: Path, table: Path, properties: dict[str, str]) -> tuple[pl.DataFrame, Any]:
    spark = rowlock.spark(cores=1, memory_mb=1024)
    rows = spark.read.parquet(str(work / INITIAL))
    builder = DeltaTable.create(spark).location(str(table)).addColumns(rows.schema)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()
    rowlock.write(rows, str(table), mode="append")
    return pl.read_parquet(work / INITIAL), spark


def _check(load: Load, crew: Crew, spark: Any, table: Path, initial: pl.DataFrame, first_version: int) -> replay.Verdict:
    history = DeltaTable.forPath(spark, str(table)).history().select("version").collect()
    final = pl.from_arrow(rowlock.read(spark, str(table)).toArrow())
    assert isinstance(final, pl.DataFrame)
    records = [record for score in crew.scores.values() for record in score.records]
    return replay.check(
        load, initial=initial, final=final, records=records, versions=sorted(row["version"] for row in history if row["version"] > first_version)
    )


def _print_verdict(verdict: replay.Verdict, console: Console) -> bool:
    if verdict.problems:
        console.print(
            f"[bold red]The table is wrong[/]: {len(verdict.problems)} differences from a serial replay of the {verdict.commits:,} commits in log order."
        )
        for problem in verdict.problems[:10]:
            console.print(f"  {problem}", highlight=False, markup=False, soft_wrap=True)
        return False
    console.print(
        f"[bold green]Exact[/]: the final table, {verdict.rows:,} rows, equals a serial replay of its {verdict.commits:,} commits in log order.",
        highlight=False,
        soft_wrap=True,
    )
    return True


@contextmanager
def work_folder(*, keep: bool) -> Iterator[Path]:
    """A temporary folder for sources, logs and (by default) the table; it remains with --keep, and if the demo fails."""
    work = Path(tempfile.mkdtemp(prefix="rowlock-demo-"))
    try:
        yield work
    except InvalidInput:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if not keep:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def generated(choices: Choices, what: str) -> Iterator[Path]:
    """The work folder of a demo that generates its rows; JVMs that are started within it compile little.

    Raises InvalidInput, before anything is written, for options that do not go with it; `what` is the beginning of the sentence.
    """
    if choices.source or choices.key or choices.split or choices.policy != "repair":
        raise InvalidInput(f"{what} by the policy repair: leave out --source, --key, --split and --policy.")
    check_place(choices.path)
    with work_folder(keep=choices.keep) as work:
        quick_jvms()
        yield work


_COMMITS = 100_000


def what_next(table: Path, page: Path, console: Console, *, remains: bool, by_row: bool) -> None:
    """Prints the cost by Delta's rules (with `by_row`: for a run that did not follow them), and writes the page of the table's conflicts, which remains."""
    history = read_history(open_store(table), _COMMITS)
    page.write_bytes(html(history, clock.now_ms()).encode(errors="replace"))
    lines = [
        *([cost_by_file(history)] if by_row else []),
        f"The conflicts, commit by commit: {page}",
        f"`rowlock conflicts {table if remains else 'PATH'} --html FILE` writes such a page for any Delta table. `rowlock advise {table if remains else 'PATH'}` recommends its properties.",
        *([f"The table remains: {table}"] if remains else []),
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def cost_by_file(history: History) -> str:
    """What the recorded commits would have cost under granularity=file, which are delta-spark's rules."""
    met = conflicts_by_file(history)
    if not met:
        return "By delta-spark's rules, which judge by file, none of these commits would have been a conflict, as far as the log names the files that they changed."
    count, seconds = len(met), sum(run.service_s or 0.0 for run in met)
    return (
        f"By delta-spark's rules, which judge by file, at least {count:,} of the {len(history.commits):,} commits would have failed with a conflict, and "
        f"{seconds:,.1f} s of work would have been repeated if each had succeeded at its second try. Counted from the log: the commits that changed a file which "
        "another commit had removed or written after the version that they read, and the time that each of them took without its rebases."
    )
