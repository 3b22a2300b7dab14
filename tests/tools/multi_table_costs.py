"""What a transaction over several tables costs on S3 that answers after 60 ms, beside the same statements as single commits: requests, time, rate, lag.

usage: multi_table_costs.py [--latency-ms 60] [--transactions 8] [--threads 4] [--seconds 10] [--only costs|beside|rates]

The server is MinIO and, for the way by an arbiter, DynamoDB Local, each behind a proxy that counts requests and keeps every answer back.
The engine is the one in memory (no Spark), so what is measured are requests.  `lag`: from the decision until the last table has its version.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "src")]

from contract.arbiter.transfers import begin, end, stage  # noqa: E402
from contract.arbiter.world import around  # noqa: E402
from model.schedules.in_memory import InMemory  # noqa: E402
from model.schedules.play import schema_string  # noqa: E402
from rowlock.exceptions import RowlockError  # noqa: E402
from rowlock.storage import open_store  # noqa: E402
from rowlock.storage.dynamodb import create_table  # noqa: E402
from rowlock.transaction.multi_table import heads_together  # noqa: E402
from rowlock.transaction.state.phases import Observer, use_observer  # noqa: E402
from rowlock.transaction.two_phase.prepare import Wait  # noqa: E402
from rowlock_simulation.memory.sql.script import parse  # noqa: E402
from servers import dynamodb, minio  # noqa: E402
from servers.proxy import Proxy, late  # noqa: E402
from servers.scripts import running  # noqa: E402

TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


@dataclass
class Times(Observer):
    """When the decision was known, and the end of each transaction."""

    decided: float = 0.0
    lags: list[float] = field(default_factory=list)

    def phase(self, name: str, txn: Any) -> None:
        if name == "after_put":
            self.decided = time.perf_counter()


class World:
    """Tables on a slow S3, with an arbiter or without."""

    def __init__(self, s3: str, arbiter: dynamodb.DynamoDb | None, latency_s: float) -> None:
        self.proxies = [Proxy(s3, late(latency_s))]
        self._direct, self._options = minio.options(s3), minio.options(self.proxies[0].endpoint)
        if arbiter is not None:
            self.proxies.append(Proxy(arbiter.endpoint, late(latency_s)))
            self._direct = around(s3, arbiter, arbiter.endpoint)
            self._options = around(self.proxies[0].endpoint, arbiter, self.proxies[1].endpoint)

    def tables(self, count: int) -> list[InMemory]:
        """Fresh tables, made past the proxy; their least by id is the first."""
        roots = [f"s3://{minio.BUCKET}/{time.time_ns()}-{n}" for n in range(count)]
        for root in roots:
            table = InMemory(store=open_store(root, self._direct))
            table.create(schema_string([("k", "long", True), ("v", "long", True)]), (), TRACKED)
            table.run(parse(f"APPEND {', '.join(f'({k}, 100)' for k in range(32))}"))
        return self.again(roots)

    def again(self, roots: list[str]) -> list[InMemory]:
        """The tables as another process opens them, through the proxy."""
        found = [InMemory(store=open_store(root, self._options)) for root in roots]
        return sorted(found, key=lambda t: t.state.refresh().metadata.id)

    def counts(self) -> Counter[str]:
        """Requests so far, by method, those to DynamoDB as `DynamoDB`."""
        more = Counter({"DynamoDB": sum(self.proxies[1].counts().values())}) if len(self.proxies) > 1 else Counter[str]()
        return self.proxies[0].counts() + more


def together(bank: list[InMemory], texts: list[str], wait: Wait = "everywhere") -> None:
    txns = begin(bank)
    for txn, text in zip(txns, texts, strict=True):
        if text:
            stage(txn, text)
        else:
            txn.note_read()
    end(txns, *texts, wait=wait)


def until_decided(bank: list[InMemory], texts: list[str]) -> None:
    together(bank, texts, "decided")


def one_by_one(bank: list[InMemory], texts: list[str]) -> None:
    for table, text in zip(bank, texts, strict=True):
        if text:
            table.run(parse(text))


def update(k: int) -> str:
    return f"UPDATE SET v = v + 1 WHERE k = {k}"


def costs(world: World, written: int, read: int, times: int) -> Iterator[tuple[str, ...]]:
    """A line for the transaction, one for an owner that waits for the decision only, and one for single commits."""
    for name, work in (("together", together), ("until decided", until_decided), ("one by one", one_by_one)):
        bank = world.tables(written + read)
        work(bank, [update(0)] * written + [""] * read)  # the first fills what is known of the tables
        before, versions = world.counts(), sum(t.state.look().version for t in bank)
        took, seen = list[float](), Times()
        with use_observer(seen):
            for n in range(times):
                begun = time.perf_counter()
                work(bank, [update(n % 32)] * written + [""] * read)
                took.append(time.perf_counter() - begun)
                seen.lags.append(time.perf_counter() - seen.decided)
                time.sleep(0.5)  # who goes on at once with the same tables waits for them to be closed
        asked = world.counts() - before
        lag = f"{statistics.median(seen.lags) * 1000:.0f} ms" if name == "together" else "-"
        of_all = ", ".join(f"{count / times:.1f} {method}" for method, count in sorted(asked.items()))
        put = (sum(t.state.look().version for t in bank) - versions) / times
        yield name, str(written), str(read), f"{put:.1f}", of_all, f"{statistics.median(took) * 1000:.0f} ms", lag


def rate(world: World, work: Callable[[list[InMemory], list[str]], None], threads: int, seconds: float, spread: int) -> float:
    """Transactions a second of threads that each change a row in two tables of `spread`."""
    roots = [t.state.store.root for t in world.tables(spread)]
    done, until = list[int](), time.perf_counter() + seconds

    def go(n: int) -> None:
        rng = random.Random(n)
        chosen = rng.sample(roots, 2) if spread > 2 else roots
        bank = world.again(chosen)
        while time.perf_counter() < until:
            try:
                work(bank, [update(rng.randrange(32)) for _ in bank])
            except RowlockError as e:
                print(type(e).__name__, str(e)[:200], file=sys.stderr)
                continue
            done.append(n)

    running_now = [threading.Thread(target=go, args=(n,)) for n in range(threads)]
    begun = time.perf_counter()
    for one in running_now:
        one.start()
    for one in running_now:
        one.join()
    return len(done) / (time.perf_counter() - begun)


def beside(world: World, seconds: float, *, owners: int, passing: bool) -> tuple[str, ...]:
    """What appends to one of two tables take beside transactions over both, how long these take, and a reader of both; `passing`: what is prepared is not waited for."""
    roots = [t.state.store.root for t in world.tables(2)]
    until, took = time.perf_counter() + seconds, {"append": list[float](), "transaction": list[float](), "read": list[float]()}

    def again_and_again(what: str, work: Callable[[], object], pause_s: float = 0.0) -> None:
        while time.perf_counter() < until:
            begun = time.perf_counter()
            try:
                work()
            except RowlockError as e:
                print(type(e).__name__, str(e)[:200], file=sys.stderr)
                continue
            took[what].append(time.perf_counter() - begun)
            time.sleep(pause_s)

    def append(n: int) -> None:
        part, keys = world.again(roots)[1], iter(range(1000 * n, 1_000_000))
        state: Any = part.state
        if passing:
            state.refresh, state.newest = state.look, lambda *, settled=True: type(state).newest(state, settled=False)
        again_and_again("append", lambda: part.run(parse(f"APPEND ({next(keys)}, 1)")), 0.2)

    def own(n: int) -> None:
        bank = world.again(roots)
        again_and_again("transaction", lambda: together(bank, [update(n), update(n)]))

    def read() -> None:
        states = [t.state for t in world.again(roots)]
        again_and_again("read", lambda: heads_together(states))

    calls = [*((append, (n,)) for n in (1, 2, 3)), *((own, (n,)) for n in range(owners)), (read, ())]
    running_now = [threading.Thread(target=call, args=arguments) for call, arguments in calls]
    for one in running_now:
        one.start()
    for one in running_now:
        one.join()
    return tuple(f"{statistics.median(t) * 1000:.0f} / {sorted(t)[int(len(t) * 0.95)] * 1000:.0f} ms ({len(t)})" if t else "-" for t in took.values())


@contextmanager
def worlds(latency_s: float) -> Iterator[dict[str, World]]:
    with running(minio.start) as s3, running(dynamodb.start) as arbiter:
        import boto3

        create_table(client=boto3.client("dynamodb", **arbiter.client_arguments), name="delta_log")
        yield {"arbiter": World(s3.endpoint, arbiter, latency_s), "no arbiter": World(s3.endpoint, None, latency_s)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=60)
    parser.add_argument("--transactions", type=int, default=8)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", choices=["costs", "beside", "rates"], help="one of the three tables")
    args = parser.parse_args()
    with worlds(args.latency_ms / 1000) as by_name:
        if args.only in (None, "costs"):
            print("| way | statements | written | read | versions | requests | time | lag |\n|---|---|---|---|---|---|---|---|")
            for name, world in by_name.items():
                for written, read in ((2, 0), (3, 0), (2, 1)):
                    for line in costs(world, written, read, args.transactions):
                        print(f"| {' | '.join((name, *line))} |", flush=True)
        if args.only in (None, "beside"):
            print("\n| beside | an append | a transaction | a reader of both |\n|---|---|---|---|")
            for owners, passing in ((0, False), (1, False), (1, True)):
                what = "no transactions" if not owners else "appends pass what is prepared" if passing else "appends settle"
                print(f"| {what} | {' | '.join(beside(by_name['no arbiter'], args.seconds, owners=owners, passing=passing))} |", flush=True)
        if args.only in (None, "rates"):
            print(f"\n| way | {args.threads} threads | together | one by one |\n|---|---|---|---|")
            for name, world in by_name.items():
                for spread, what in ((2, "on the same two tables"), (8, "on two of eight tables each")):
                    rates = [rate(world, work, args.threads, args.seconds, spread) for work in (together, one_by_one)]
                    print(f"| {name} | {what} | {rates[0]:.1f}/s | {rates[1]:.1f}/s |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
