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
from collections.abc import Callable, Iterator
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
from rowlock.cli.app import say
from rowlock.cli.demo import replay, source
from rowlock.cli.demo.load import INITIAL, Sales, open_load
from rowlock.cli.demo.scoreboard import Score, Scoreboard, verdict
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

    def __init__(self, name: str, log: Path, events: Events, module: str, *arguments: object) -> None:
        self.score, self.log, self.events = Score(name), log, events
        environment = {**os.environ, "ROWLOCK_APPLICATION": f"demo {name}"}
        command = [sys.executable, "-m", module, "--", *map(str, arguments)]
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        assert self.process.stdout
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            if line.endswith("\n"):  # a process that is killed may leave half of one
                event = json.loads(line)
                self.score.take(event)
                self.events.put((self.score.name, event))
        self.events.put((self.score.name, {"event": "gone"}))

    def send(self, word: str) -> None:
        """Sends OPEN or GO to the process."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # the process has ended, and its last event is in the queue
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()

    def wait(self) -> None:
        """Waits for the process to end; kills it after 20 s."""
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Crew:
    """Writer processes and their events.  `start` is given the queue of these."""

    def __init__(self, start: Callable[[Events], list[Writer]]) -> None:
        self.events: Events = queue.Queue()
        self.writers = {writer.score.name: writer for writer in start(self.events)}

    @property
    def scores(self) -> list[Score]:
        """The scores of all writers."""
        return [writer.score for writer in self.writers.values()]

    def send(self, word: str) -> None:
        """Sends OPEN or GO to all writers."""
        for writer in self.writers.values():
            writer.send(word)

    def until_all(self, event: str, *, within_s: float, board: Scoreboard | None = None) -> None:
        """Reads events until every writer has sent this one.  Raises RowlockError if a writer fails, ends, or sends nothing in time."""
        waiting, end = set(self.writers), clock.monotonic_s() + within_s
        while waiting:
            if board:
                board.refresh()
            if clock.monotonic_s() > end:
                raise RowlockError(f"{', '.join(sorted(waiting))}: no answer for {within_s:.0f} s.{self._logs(waiting)}")
            with contextlib.suppress(queue.Empty):
                name, received = self.events.get(timeout=0.25)
                if received["event"] == "error":
                    raise RowlockError(f"The writer {name} failed: {received['message']}{self._logs({name})}")
                if received["event"] == "gone" != event and name in waiting:
                    raise RowlockError(f"The writer {name} ended before its time.{self._logs({name})}")
                if received["event"] == event:
                    waiting.discard(name)

    def _logs(self, names: set[str]) -> str:
        return " Its log: " + ", ".join(str(writer.log) for name, writer in self.writers.items() if name in names)

    def dismiss(self) -> None:
        """Terminates the writers that still run, and waits for their end."""
        for writer in self.writers.values():
            writer.process.terminate()
        for writer in self.writers.values():
            writer.wait()


def run(choices: Choices, console: Console) -> bool:
    """Runs the demo; returns whether the table is right.  Raises InvalidInput, before anything is written, if the input cannot be used."""
    if choices.policy not in POLICIES:
        raise InvalidInput(f"--policy is one of {', '.join(POLICIES)}, not {choices.policy}.")
    with work_folder(choices) as work:
        _prepare(choices, work, console)
        table = choices.path or work / "table"
        right = _contest(choices, work, table, console)
        what_next(table, work.with_suffix(".html"), console, remains=choices.path is not None or choices.keep, by_row=choices.policy == "repair")
        return right


def _prepare(choices: Choices, work: Path, console: Console) -> None:
    if choices.source is None:
        if choices.key or choices.split:
            raise InvalidInput("--key and --split say how to read your own files: give --source PATH too.")
        Sales.prepare(work, rows=choices.rows)
        return
    if not choices.key:
        raise InvalidInput("--source needs --key COL[,COL]: the columns that identify a row.")
    for note in source.stage(work, source=choices.source, key=choices.key, split=choices.split):
        say(note, console)


def _contest(choices: Choices, work: Path, table: Path, console: Console) -> bool:
    load = open_load(work)
    roles = {**dict.fromkeys(load.streams, "merge"), "optimize": "optimize", "gdpr": "delete"}
    crew = Crew(lambda events: [Writer(n, work / f"{n}.log", events, "rowlock.cli.demo.worker", table, work, r, n, choices.seconds) for n, r in roles.items()])
    try:
        with console.status(f"Starting {len(crew.writers)} processes, each with a Spark session of its own ..."):
            initial, spark = _make_table(work, table, POLICIES[choices.policy])
            first_version = DeltaTable.forPath(spark, str(table)).history(1).collect()[0]["version"]
            crew.until_all("started", within_s=READY_WITHIN_S)
            crew.send("OPEN")
            crew.until_all("ready", within_s=READY_WITHIN_S)
        say(f"One table, unpartitioned, {len(initial):,} rows: {table}", console)
        what = f"{' and '.join(load.streams)} merge batches, optimize compacts files, gdpr deletes by predicate"
        say(f"For {choices.seconds:g} s {what}. On conflict: {choices.policy}.", console)
        board = Scoreboard(console, crew.scores, choices.seconds)
        with board.running():
            crew.send("GO")
            crew.until_all("done", within_s=choices.seconds + FINISHED_WITHIN_S, board=board)
    finally:
        crew.dismiss()
    console.print(board.table())
    with console.status("Checking the table against a serial replay of the log ..."):
        history = DeltaTable.forPath(spark, str(table)).history().select("version").collect()
        versions = sorted(row["version"] for row in history if row["version"] > first_version)
        final = pl.DataFrame(rowlock.read(spark, str(table)).toArrow())
        records = [record for score in crew.scores for record in score.records]
        problems = replay.check(load, initial=initial, final=final, records=records, versions=versions)
    commits = f"a serial replay of its {len(versions):,} commits in log order"
    wrong = f"{len(problems):,} differences from {commits}."
    return verdict(problems, wrong=wrong, right=f"the final table, {len(final):,} rows, equals {commits}.", console=console)


def _make_table(work: Path, table: Path, properties: dict[str, str]) -> tuple[pl.DataFrame, Any]:
    spark = rowlock.spark(cores=1, memory_mb=1024)
    rows = spark.read.parquet(str(work / INITIAL))
    builder = DeltaTable.create(spark).location(str(table)).addColumns(rows.schema)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()
    rowlock.write(rows, str(table), mode="append")
    return pl.read_parquet(work / INITIAL), spark


@contextmanager
def work_folder(choices: Choices, generates: str = "") -> Iterator[Path]:
    """A temporary folder for sources, logs and (by default) the table; it remains with --keep, and if the demo fails.  JVMs that are started within the block compile little.

    Raises InvalidInput, before anything is written, for a path that is not free, and for options that do not go with a demo that generates its rows, of which
    `generates` is the beginning of a sentence.
    """
    if generates and (choices.source or choices.key or choices.split or choices.policy != "repair"):
        raise InvalidInput(f"{generates} by the policy repair: leave out --source, --key, --split and --policy.")
    if choices.path and choices.path.exists() and (not choices.path.is_dir() or any(choices.path.iterdir())):
        raise InvalidInput(f"{choices.path} exists already and the demo creates its own table. Give a --path that does not exist, or remove it.")
    for name in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"):
        os.environ.setdefault(name, QUICK_JVM)
    work = Path(tempfile.mkdtemp(prefix="rowlock-demo-"))
    try:
        yield work
    except InvalidInput:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if not choices.keep:
        shutil.rmtree(work, ignore_errors=True)


_COMMITS = 100_000


def what_next(table: Path, page: Path, console: Console, *, remains: bool, by_row: bool) -> None:
    """Prints the cost by Delta's rules (with `by_row`: for a run that did not follow them), and writes the page of the table's conflicts, which remains."""
    history = read_history(open_store(table), _COMMITS)
    page.write_bytes(html(history, clock.now_ms()).encode(errors="replace"))
    if by_row:
        say(cost_by_file(history), console)
    say(f"The conflicts, commit by commit: {page}", console)
    named = table if remains else "PATH"
    say(
        f"`rowlock conflicts {named} --html FILE` writes such a page for any Delta table. `rowlock advise {named}` recommends its properties.",
        console,
    )
    if remains:
        say(f"The table remains: {table}", console)


def cost_by_file(history: History) -> str:
    """What the recorded commits would have cost under granularity=file, which are delta-spark's rules."""
    met = conflicts_by_file(history)
    if not met:
        return "By delta-spark's rules, which judge by file, none of these commits would have been a conflict, as far as the log names the files that they changed."
    count, seconds = len(met), sum(run.service_s or 0.0 for run in met)
    return (
        f"By delta-spark's rules, which judge by file, at least {count:,} of these commits would have failed with a conflict, and "
        f"{seconds:,.1f} s of work would have been repeated if each had succeeded at its second try. Counted from the log: the commits that changed a file which "
        "another commit had removed or written after the version that they read, and the time that each of them took without its rebases."
    )
