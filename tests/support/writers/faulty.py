"""Writers that add one to one counter, through a proxy that breaks their puts: each increment counts once, and each writer is told the truth."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.exceptions import CommitUnknown
from rowlock.log.table_log import TableLog
from rowlock.storage import open_store
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.memory.sql.script import parse
from servers.faults import Faults
from servers.minio import Minio, options
from servers.proxy import Proxy

GIVE_UP_S = 1.0


@dataclass(frozen=True)
class Outcome:
    """`problems` is empty where all is well."""

    problems: list[str]
    commits: int
    faults: Counter[str]
    seconds: float


def contest(minio: Minio, *, writers: int, each: int, seed: int, commits: float = 0.5, others: float = 0.03, stale_s: float = 2.0) -> Outcome:
    """Every writer has its own handle, client and cache, as a process would."""
    root, began = minio.fresh_root(), time.monotonic()
    quiet = InMemory(store=open_store(root, minio.storage_options))
    quiet.create(schema_string([("k", "long", True), ("x", "long", True)]), (), {})
    quiet.run(parse("APPEND (1, 0), (2, 0)"))
    faults = Faults(seed, commits=commits, others=others, stale_s=stale_s, give_up_s=GIVE_UP_S)
    proxy = Proxy(minio.endpoint, faults)
    try:
        with ThreadPoolExecutor(writers) as pool:
            told = [r for done in pool.map(lambda _: _increments(root, proxy.endpoint, each), range(writers)) for r in done]
    finally:
        proxy.stop()
    return Outcome(_problems(quiet, told, writers * each), writers * each, faults.met, time.monotonic() - began)


def _increments(root: str, endpoint: str, each: int) -> list[Receipt | CommitUnknown]:
    world = InMemory(store=open_store(root, {**options(endpoint), "timeout": f"{GIVE_UP_S}s"}))
    told: list[Receipt | CommitUnknown] = []
    for _ in range(each):
        try:
            told.append(world.run(parse("UPDATE SET x = x + 1 WHERE k = 1")))
        except CommitUnknown as e:  # an honest answer: the log tells which it was
            told.append(e)
    return told


def _problems(quiet: InMemory, told: list[Receipt | CommitUnknown], expected: int) -> list[str]:
    log = TableLog(quiet.state.store)
    head = log.latest()
    by_version = {c.version: c.info.txn_id for c in log.commits(1, head.version) if c.info}
    found = Counter(by_version.values())
    unknown = sum(isinstance(r, CommitUnknown) and r.txn_id not in found for r in told)
    counter = next(row["x"] for row in quiet.rows() if row["k"] == 1)
    out = []
    if counter != expected - unknown:
        out.append(f"the counter is {counter} and {expected - unknown} increments were told to have landed")
    if twice := [t for t, n in found.items() if n > 1]:
        out.append(f"{len(twice)} transactions are in the log twice")
    if wrong := [r for r in told if isinstance(r, Receipt) and by_version.get(r.version or -1) != r.txn_id]:
        out.append(f"{len(wrong)} receipts name a version that is another's")
    if len(found) != expected - unknown:
        out.append(f"the log holds {len(found)} commits for {expected - unknown}")
    return out
