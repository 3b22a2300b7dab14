"""`rowlock demo --together`: sales change two tables, orders and stock, each both or neither, while a reader adds them up and a writer is killed.

Two threads of this process sell, and a process of its own, which is killed when half of the time is over, after it has prepared a sale.
Whatever it was doing, for each product what is in stock and what is ordered must be what there was at the beginning, at every instant that the reader sees.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console

import rowlock
from rowlock import DeltaTable, clock
from rowlock.advice.writers import writer_of
from rowlock.cli.app import say
from rowlock.cli.demo.run import Choices, Crew, Writer, work_folder
from rowlock.cli.demo.scoreboard import Score, Scoreboard, commit_event, verdict
from rowlock.cli.demo.worker import channel
from rowlock.maintenance.settle import settled_as
from rowlock.protocol.prepared import Prepared
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import SharedState, state_of
from rowlock.transaction.two_phase.close import open_in

PRODUCTS, EACH = 10, 1_000_000
STARTS_WITHIN_S, FINDS_WITHIN_S = 300.0, 5.0
_TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def run(choices: Choices, console: Console) -> bool:
    """Runs the demo; returns whether the tables are right.  Raises InvalidInput, before anything is written, for options that do not go with it."""
    with work_folder(choices, "--together sells generated products") as work:
        shop = Shop(choices.path or work / "shop")
        with console.status("Starting two Spark sessions ..."):
            shop.make()
            crew = Crew(lambda events: [Writer("a process", work / "cashier.log", events, "rowlock.cli.demo.together", shop.folder)])
            try:
                spark, first = rowlock.spark(cores=2, memory_mb=1024), Score("the first")
                for event in itertools.islice(shop.sales(spark, first.name), 2):  # the first statements of a session take seconds
                    first.take(event)
                shop.wrong(spark)
                crew.until_all("commit", within_s=STARTS_WITHIN_S)
            except BaseException:
                crew.dismiss()
                raise
        say(f"Two tables, {shop.orders} and {shop.stock}: each sale changes both, or neither.", console)
        say(f"For {choices.seconds:g} s two threads and a process sell; a reader adds both tables up; half-way the process is killed.", console)
        return _contest(shop, spark, crew, first, choices.seconds, console)


@dataclass(frozen=True, slots=True)
class Shop:
    """The two tables of the demo."""

    folder: Path

    @property
    def orders(self) -> str:
        """The path of the table of orders."""
        return str(self.folder / "orders")

    @property
    def stock(self) -> str:
        """The path of the table of products in stock."""
        return str(self.folder / "stock")

    def make(self) -> None:
        """Creates both tables, with all products in stock and no order."""
        products = pa.table({"sku": pa.array(range(PRODUCTS), pa.int32()), "n": pa.array([EACH] * PRODUCTS, pa.int64())})
        nothing = pa.table({"order_id": pa.array([], pa.string()), "sku": pa.array([], pa.int32()), "n": pa.array([], pa.int64())})
        rowlock.append(self.stock, products, properties={**_TRACKED, "rowlock.order": "-1"})
        rowlock.append(self.orders, nothing, properties=_TRACKED)

    def sales(self, spark: Any, seller: str) -> Iterator[dict[str, Any]]:
        """Yields an event for each sale after it is committed, without end."""
        orders, stock = DeltaTable.forPath(spark, self.orders), DeltaTable.forPath(spark, self.stock)
        for number in itertools.count():
            order, began = f"{seller} {number}", clock.monotonic_s()
            sku, n = zlib.crc32(order.encode()) % PRODUCTS, number % 3 + 1
            with rowlock.transaction([orders, stock]) as txn:
                txn[stock].update(f"sku = {sku}", {"n": f"n - {n}"})
                txn[orders].append(spark.createDataFrame([(order, sku, n)], "order_id string, sku int, n long"))
            assert txn.receipt is not None
            yield commit_event(txn.receipt.versions[self.stock], txn.receipt.tables.values(), began, order=order)

    def wrong(self, spark: Any) -> int:
        """For how many products stock and orders do not add up, both read at one instant."""
        orders, stock = rowlock.read_together([DeltaTable.forPath(spark, p) for p in (self.orders, self.stock)])
        both = orders.select("sku", "n").unionAll(stock.select("sku", "n")).groupBy("sku").sum("n")
        sums: list[int] = [row[1] for row in both.collect()]
        return sum(n != EACH for n in sums) + abs(len(sums) - PRODUCTS)


def _contest(shop: Shop, spark: Any, crew: Crew, first: Score, seconds: float, console: Console) -> bool:
    stop, wrong, left, errors = threading.Event(), list[int](), list[Prepared](), list[BaseException]()
    scores, state, cashier = [Score("thread 1"), Score("thread 2")], state_of(open_store(shop.orders)), crew.writers["a process"]
    board = Scoreboard(console, [*scores, *crew.scores], seconds)

    def sell(score: Score) -> None:
        for event in shop.sales(spark, score.name):
            score.take(event)
            if stop.is_set():
                return

    def read() -> None:
        while not stop.is_set():
            wrong.append(shop.wrong(spark))

    def kill() -> None:
        stop.wait(seconds / 2)
        left.extend(_killed(cashier.process, state))
        crew.until_all("gone", within_s=FINDS_WITHIN_S)
        stop.wait(seconds / 2)

    def until_one_ends(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as e:  # noqa: BLE001 - raised again by the thread that waits
            errors.append(e)
        finally:
            stop.set()

    calls = [kill, read, *(partial(sell, score) for score in scores)]
    workers = [threading.Thread(target=until_one_ends, args=(call,), daemon=True) for call in calls]
    try:
        with board.running():
            for worker in workers:
                worker.start()
            while not stop.wait(0.25):
                board.refresh()
            for worker in workers:
                worker.join()
    finally:
        stop.set()
        crew.dismiss()
    if errors:
        raise errors[0]
    console.print(board.table())
    acknowledged = [record["order"] for score in (first, *scores, *crew.scores) for record in score.records]
    return _verdict(shop, spark, acknowledged, wrong, _fate(state, left), console)


def _killed(process: subprocess.Popen[str], state: SharedState) -> list[Prepared]:
    """Kills the process when a sale of it is prepared in the table of orders; what of it is open there after its death."""
    end = clock.monotonic_s() + FINDS_WITHIN_S
    while clock.monotonic_s() < end and not _of(process, state):
        clock.sleep(0.005)
    process.kill()
    process.wait()
    return _of(process, state)


def _of(process: subprocess.Popen[str], state: SharedState) -> list[Prepared]:
    """What the process has prepared and is open."""
    found = open_in(state, state.look())
    by = None if found is None else state.log.read_commit(found.version)
    where = "" if by is None or by.info is None else writer_of(by.info.raw).where or ""
    return [found] if found is not None and f"process {process.pid}" in where else []


def _fate(state: SharedState, left: list[Prepared]) -> str:
    if not left:
        return "no sale of it was open"
    state.refresh()
    closed = settled_as(state, left[0])
    fate = "decided and rolled it forward" if closed.outcome == "committed" else "undecided and gave it up"
    return f"a sale of it was prepared in version {left[0].version} of orders; the next who came found it {fate}, in version {closed.version}"


def _verdict(shop: Shop, spark: Any, acknowledged: list[str], wrong: list[int], fate: str, console: Console) -> bool:
    found = rowlock.to_arrow(shop.orders).column("order_id").to_pylist()
    lost, twice = set(acknowledged) - set(found), len(found) - len(set(found))
    counts = {"products do not add up at the end": shop.wrong(spark), "instants that the reader saw were wrong": sum(map(bool, wrong))}
    counts |= {"acknowledged sales are lost": len(lost), "orders are there twice": twice}
    right = (
        f"all {len(acknowledged):,} acknowledged sales are in both tables, once, and {len(found) - len(acknowledged):,} more whose acknowledgement the killed process did not get; "
        f"stock and orders added up at each of the {len(wrong):,} instants that the reader saw.\nWhen the process was killed, {fate}."
    )
    problems = [f"{n:,} {what}" for what, n in counts.items() if n]
    return verdict(problems, wrong="orders and stock do not fit together.", right=right, console=console)


def main(folder: Path) -> None:
    """Sells until it is killed; prints an event for each sale."""
    send = channel()
    for event in Shop(folder).sales(rowlock.spark(cores=1, memory_mb=768), f"process {os.getpid()}"):
        send(event)


if __name__ == "__main__":
    typer.run(main)
