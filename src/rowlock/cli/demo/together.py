"""`rowlock demo --together`: sales change two tables, orders and stock, each both or neither, while a reader adds them up and a writer is killed.

Two threads of this process sell, and a process of its own, which is killed when half of the time is over, after it has prepared a sale.
Whatever it was doing, for each product what is in stock and what is ordered must be what there was at the beginning, at every instant that the reader sees.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console

import rowlock
from rowlock import DeltaTable, clock
from rowlock.advice.history import writer_of
from rowlock.cli.demo.run import Choices, generated
from rowlock.cli.demo.scoreboard import Score, Scoreboard
from rowlock.exceptions import RowlockError
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
    with generated(choices, "--together sells generated products") as work:
        shop = Shop(choices.path or work / "shop")
        with console.status("Starting two Spark sessions ..."):
            shop.make()
            cashier = Cashier(shop.folder, work / "cashier.log")
            try:
                spark = rowlock.spark(cores=2, memory_mb=1024)
                told = [event["order"] for event in itertools.islice(shop.sales(spark, "the first"), 2)]  # the first statements of a session take seconds
                shop.wrong(spark)
                cashier.wait_until_it_sells()
            except BaseException:
                cashier.kill()
                raise
        console.print(f"Two tables, {shop.orders} and {shop.stock}: each sale changes both, or neither.", highlight=False, soft_wrap=True)
        console.print(
            f"For {choices.seconds:g} s two threads and a process sell; a reader adds both tables up; half-way the process is killed.", highlight=False
        )
        return _contest(shop, spark, cashier, told, choices.seconds, console)


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
            receipt = txn.receipt
            assert receipt is not None
            met = receipt.tables.values()
            counts = {"rounds": sum(r.rounds for r in met), "rows_rebased": sum(r.rows_rebased for r in met), "seconds": clock.monotonic_s() - began}
            yield {"event": "commit", "order": order, "version": receipt.versions[self.stock], **counts}

    def wrong(self, spark: Any) -> int:
        """For how many products stock and orders do not add up, both read at one instant."""
        orders, stock = rowlock.read_together([DeltaTable.forPath(spark, p) for p in (self.orders, self.stock)])
        both = orders.select("sku", "n").unionAll(stock.select("sku", "n")).groupBy("sku").sum("n")
        sums: list[int] = [row[1] for row in both.collect()]
        return sum(n != EACH for n in sums) + abs(len(sums) - PRODUCTS)


class Cashier:
    """The process that sells until it is killed; what it was told is committed arrives in `told`."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.score, self.told = Score("a process"), list[str]()
        self._log = log
        command = [sys.executable, "-m", "rowlock.cli.demo.together", str(folder)]
        with log.open("w") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith("\n"):
                event = json.loads(line)
                self.told.append(event["order"])
                self.score.take(event)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_until_it_sells(self) -> None:
        """Waits for its first sale.  Raises RowlockError where it ends before, or takes too long."""
        end = clock.monotonic_s() + STARTS_WITHIN_S
        while not self.told:
            if self._process.poll() is not None or clock.monotonic_s() > end:
                raise RowlockError(f"The process that sells did not begin. Its log: {self._log}")
            clock.sleep(0.1)

    def kill(self) -> None:
        """Kills it, and waits until all that it has said is taken."""
        self._process.kill()
        self._process.wait()
        self._listener.join(10)


def _contest(shop: Shop, spark: Any, cashier: Cashier, told: list[str], seconds: float, console: Console) -> bool:
    stop, wrong, errors = threading.Event(), list[int](), list[BaseException]()
    scores = [Score("thread 1"), Score("thread 2")]

    def sell(score: Score) -> None:
        for event in shop.sales(spark, score.name):
            told.append(event["order"])
            score.take(event)
            if stop.is_set():
                return

    def read() -> None:
        while not stop.is_set():
            wrong.append(shop.wrong(spark))

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def call() -> None:
            try:
                work()
            except BaseException as e:  # noqa: BLE001 - raised again by the thread that waits
                errors.append(e)
                stop.set()

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        return thread

    state, left = state_of(open_store(shop.orders)), None
    board = Scoreboard(console, [*scores, cashier.score], seconds)
    workers = [guarded(lambda score=score: sell(score)) for score in scores] + [guarded(read)]  # type: ignore[misc]
    try:
        with board.running():
            began = clock.monotonic_s()
            while clock.monotonic_s() - began < seconds and not stop.is_set():
                board.refresh()
                if left is None and clock.monotonic_s() - began > seconds / 2:
                    left = _killed(cashier, state)
                clock.sleep(0.25)
            stop.set()
            for worker in workers:
                worker.join()
    finally:
        stop.set()
        cashier.kill()
    if errors:
        raise errors[0]
    console.print(board.table())
    return _verdict(shop, spark, [*told, *cashier.told], wrong, _fate(state, left or []), console)


def _killed(cashier: Cashier, state: SharedState) -> list[Prepared]:
    """Kills the process when a sale of it is prepared in the table of orders; what of it is open there after its death."""
    end = clock.monotonic_s() + FINDS_WITHIN_S
    while clock.monotonic_s() < end and not _of(cashier, state):
        clock.sleep(0.005)
    cashier.kill()
    return _of(cashier, state)


def _of(cashier: Cashier, state: SharedState) -> list[Prepared]:
    """What the process has prepared and is open."""
    found = open_in(state, state.look())
    by = None if found is None else state.log.read_commit(found.version)
    where = "" if by is None or by.info is None else writer_of(by.info.raw).where or ""
    return [found] if found is not None and f"process {cashier.pid}" in where else []


def _fate(state: SharedState, left: list[Prepared]) -> str:
    if not left:
        return "no sale of it was open"
    state.refresh()
    closed = settled_as(state, left[0])
    fate = "decided and rolled it forward" if closed.outcome == "committed" else "undecided and gave it up"
    return f"a sale of it was prepared in version {left[0].version} of orders; the next who came found it {fate}, in version {closed.version}"


def _verdict(shop: Shop, spark: Any, told: list[str], wrong: list[int], fate: str, console: Console) -> bool:
    found = rowlock.to_arrow(shop.orders).column("order_id").to_pylist()
    lost, twice = set(told) - set(found), len(found) - len(set(found))
    problems = {"products do not add up at the end": shop.wrong(spark), "instants that the reader saw were wrong": sum(map(bool, wrong))}
    problems |= {"acknowledged sales are lost": len(lost), "orders are there twice": twice}
    if any(problems.values()):
        console.print("[bold red]The tables are wrong[/]: " + ", ".join(f"{n:,} {what}" for what, n in problems.items() if n) + ".", highlight=False)
        return False
    console.print(
        f"[bold green]Exact[/]: all {len(told):,} acknowledged sales are in both tables, once, and {len(found) - len(told):,} more that the killed process was not told of; "
        f"stock and orders added up at each of the {len(wrong):,} instants that the reader saw.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"When the process was killed, {fate}.", highlight=False, soft_wrap=True)
    return True


def main(folder: Path) -> None:
    """Sells until it is killed; prints an event for each sale."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    for event in Shop(folder).sales(rowlock.spark(cores=1, memory_mb=768), f"process {os.getpid()}"):
        out.write(json.dumps(event) + "\n")
        out.flush()


if __name__ == "__main__":
    typer.run(main)
