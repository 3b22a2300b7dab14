"""`rowlock demo --streams`: two streams, the sales of the US and of the UK, MERGE into one table by foreachBatch at the same time.

Orders arrive in two tables, by appends without Spark; one query per table reads it as a stream and merges each batch, once, into the common table.
Both change the same rows, the totals of the products.  A merge only adds, so the result follows from the orders alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

import rowlock
from rowlock import DeltaTable, clock
from rowlock.cli.app import say
from rowlock.cli.demo import replay
from rowlock.cli.demo.load import INITIAL, Sales
from rowlock.cli.demo.run import Choices, what_next, work_folder
from rowlock.cli.demo.scoreboard import Score, Scoreboard, commit_event, verdict

ARRIVES_EVERY_S = 0.5
_OF_AN_ORDER = ("order_id", "country", "customer_id", "product")


def run(choices: Choices, console: Console) -> bool:
    """Runs the demo; returns whether the table is right.  Raises InvalidInput, before anything is written, for options that do not go with it."""
    with work_folder(choices, "--streams merges generated sales") as work:
        table = choices.path or work / "table"
        with console.status("Starting a Spark session ..."):
            Sales.prepare(work, rows=choices.rows)
            streams = Streams(Sales(rows=choices.rows), work, table)
        say(f"One table, unpartitioned, {choices.rows:,} orders: {table}", console)
        say(f"For {choices.seconds:g} s orders arrive; the streams {' and '.join(Sales.streams)} merge them, each row once.", console)
        right = _contest(streams, choices.seconds, console)
        what_next(table, work.with_suffix(".html"), console, remains=bool(choices.path or choices.keep), by_row=True)
        return right


def _contest(streams: Streams, seconds: float, console: Console) -> bool:
    board = Scoreboard(console, list(streams.scores.values()), seconds)
    queries = [streams.start(name) for name in Sales.streams]
    try:
        with board.running():
            end = clock.monotonic_s() + seconds
            while clock.monotonic_s() < end and all(q.isActive for q in queries):
                streams.arrive()
                board.refresh()
                clock.sleep(ARRIVES_EVERY_S)
            for query in queries:
                query.processAllAvailable()  # raises what ended a query
    finally:
        for query in queries:
            query.stop()
    console.print(board.table())
    expected = streams.expected()
    problems = replay.differences(expected, pl.DataFrame(rowlock.to_arrow(streams.path)), Sales.key)
    right = f"the final table, {len(expected):,} rows, is the sum of the orders that it began with and of all {sum(streams.arrived.values()):,} batches that arrived; no stream failed."
    return verdict(problems, wrong="it differs from the sum of all orders that arrived.", right=right, console=console)


class Streams:
    """The tables of the demo on one session: one of arriving orders for each stream, and the common one."""

    def __init__(self, sales: Sales, work: Path, table: Path) -> None:
        self.sales, self.work, self.path = sales, work, str(table)
        self.spark = rowlock.spark(cores=2, memory_mb=1024)
        self.initial = pl.read_parquet(work / INITIAL)
        rowlock.append(self.path, self.initial.to_arrow())
        self.arrived = dict.fromkeys(Sales.streams, 0)
        self.scores = {name: Score(name) for name in Sales.streams}
        self.arrive()

    def source(self, name: str) -> str:
        """Where the orders of a stream arrive."""
        return str(self.work / f"arriving-{name}")

    def arrive(self) -> None:
        """Appends the next batch of each stream to its table."""
        for name, number in self.arrived.items():
            rowlock.append(self.source(name), self.sales.batch(name, number).to_arrow())
            self.arrived[name] = number + 1

    def start(self, name: str) -> Any:
        """Starts the query that merges a stream's orders."""
        orders = rowlock.streaming.read(self.spark, self.source(name), max_files_per_trigger=20)
        return orders.writeStream.foreachBatch(self._merge(name)).option("checkpointLocation", str(self.work / f"checkpoint-{name}")).start()

    def _merge(self, name: str) -> Callable[[Any, int], None]:
        table, score = DeltaTable.forPath(self.spark, self.path), self.scores[name]

        def merge(rows: Any, number: int) -> None:
            began = clock.monotonic_s()
            sums = rows.groupBy(*_OF_AN_ORDER).agg({"quantity": "sum", "amount": "sum", "updated_at": "max"})
            new = sums.withColumnsRenamed({"sum(quantity)": "quantity", "sum(amount)": "amount", "max(updated_at)": "updated_at"})
            added = {"quantity": "t.quantity + s.quantity", "amount": "t.amount + s.amount", "updated_at": "greatest(t.updated_at, s.updated_at)"}
            with table.alias("t").transaction(app_id=f"sales-{name}", app_version=number) as step:  # a batch that runs again after a crash counts once
                step.merge(new.alias("s"), "t.order_id = s.order_id").whenMatchedUpdate(set=added).whenNotMatchedInsertAll().execute()
            assert step.receipt is not None
            score.take(commit_event(step.receipt.version, [step.receipt], began))

        return merge

    def expected(self) -> pl.DataFrame:
        """The rows that the table must have."""
        batches = [self.sales.batch(name, number) for name, count in self.arrived.items() for number in range(count)]
        return pl.concat([self.initial, *batches]).group_by(_OF_AN_ORDER).agg(pl.col("quantity").sum(), pl.col("amount").sum(), pl.col("updated_at").max())
