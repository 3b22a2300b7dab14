"""Whole transactions on S3 under the arbiter, while proxies break the puts to S3 and to DynamoDB and a Spark job commits between (I1, I2)."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import rowlock
from contract.arbiter.delta_side import Stopped
from contract.arbiter.world import World, around
from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.exceptions import CommitUnknown
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.run import check
from rowlock.protocol.names import commit_key
from rowlock.storage import Committed, open_store
from rowlock.storage.dynamodb import ArbitratedStore
from rowlock_simulation.memory.sql.script import parse
from servers.dynamodb import DynamoDb
from servers.faults import Faults
from servers.minio import Minio
from servers.proxy import Forward, Proxy, Request, Response
from support.writers.faulty import GIVE_UP_S

WRITERS, EACH = 4, 6


class LostReplies:
    """Before DynamoDB: of the puts some are dropped before they arrive, some answers are dropped or turned into a 500."""

    def __init__(self, seed: int) -> None:
        self._chance, self._faults = random.Random(seed), cycle(["dropped before", "dropped after", "500 after"])
        self.met: Counter[str] = Counter()

    async def __call__(self, request: Request, forward: Forward) -> Response | None:
        if not (request.header("x-amz-target") or "").endswith("PutItem") or self._chance.random() > 0.15:
            return await forward(request)
        fault = next(self._faults)
        self.met[fault] += 1
        if fault == "dropped before":
            return None
        await forward(request)
        return None if fault == "dropped after" else Response(500, (("content-type", "application/x-amz-json-1.0"),), b'{"__type":"InternalServerError"}')


def test_every_increment_counts_once(minio: Minio, dynamodb: DynamoDb, client: Any) -> None:
    root = minio.fresh_root()
    plain = open_store(root, around(minio.endpoint, dynamodb, dynamodb.endpoint))
    assert isinstance(plain, ArbitratedStore)
    quiet = InMemory(store=plain)
    quiet.create(schema_string([("k", "long", True), ("x", "long", True)]), (), {})
    quiet.run(parse("APPEND (1, 0), (2, 0)"))
    replies = LostReplies(7)
    to_s3, to_dynamodb = Proxy(minio.endpoint, Faults(3, commits=0.2, others=0.02, stale_s=1.0, give_up_s=GIVE_UP_S)), Proxy(dynamodb.endpoint, replies)
    spark, landed, over = World(store=plain.inner, client=client).delta(), Counter[str](), threading.Event()

    def increments(_: int) -> list[str]:
        world = InMemory(store=open_store(root, {**around(to_s3.endpoint, dynamodb, to_dynamodb.endpoint), "timeout": f"{GIVE_UP_S}s"}))
        told = []
        for _ in range(EACH):
            try:
                told.append(world.run(parse("UPDATE SET x = x + 1 WHERE k = 1")).txn_id)
            except CommitUnknown:
                told.append("unknown")
        return told

    def spark_job() -> None:
        """Commits that change nothing, each third of them killed on the way."""
        version, stops = 2, iter(range(10_000))
        while not over.wait(0.15):
            txn_id = f"spark-{uuid.uuid4()}"
            stop: Any = (None, "copy", "complete")[next(stops) % 3]
            try:
                while True:
                    try:
                        spark.write(
                            version, json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": txn_id}}).encode() + b"\n", stop_before=stop
                        )
                    except FileExistsError:
                        version += 1
                        continue
                    break
            except Stopped:
                pass
            landed[txn_id] += 1

    job = threading.Thread(target=spark_job)
    job.start()
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            told = [txn_id for of_writer in pool.map(increments, range(WRITERS)) for txn_id in of_writer]
    finally:
        over.set()
        job.join()
        to_s3.stop()
        to_dynamodb.stop()
    log = TableLog(plain)
    head = log.latest()
    found = Counter(c.info.txn_id for c in log.commits(1, head.version) if c.info)
    assert set(found.values()) == {1}, "no transaction is there twice"
    ours = {t for t in found if t and not t.startswith("spark-")}
    assert {t for t in told if t != "unknown"} <= ours and len(told) == WRITERS * EACH
    assert next(row["x"] for row in quiet.rows() if row["k"] == 1) == len(ours), "each increment that is in the log counted once"
    assert len(ours) - (len(told) - told.count("unknown")) <= told.count("unknown")
    assert set(landed) == set(found) - ours and landed, "no commit of Spark's is lost, however it ended"
    assert len(replies.met) == 3, "every kind of fault was met"
    report = check(plain, footers=0)  # the engine in memory writes no Parquet
    assert report.is_sound and {f.code for f in report.findings} <= {"commit-to-be-finished"}


def test_what_a_commit_asks(minio: Minio, dynamodb: DynamoDb) -> None:
    """S3: is it there, the one before, the temporary file, its copy, and away with it.  DynamoDB: the entry before, the claim, the completion."""
    to_s3, to_dynamodb = Proxy(minio.endpoint), Proxy(dynamodb.endpoint)
    try:
        store = open_store(minio.fresh_root(), around(to_s3.endpoint, dynamodb, to_dynamodb.endpoint))
        assert store.put_if_absent(commit_key(0), b"zero") == Committed()
        before = to_s3.counts(), to_dynamodb.counts()
        assert store.put_if_absent(commit_key(1), b"one") == Committed()
        assert to_s3.counts() - before[0] == {"HEAD": 2, "PUT": 2, "DELETE": 1}
        assert sum((to_dynamodb.counts() - before[1]).values()) == 3
    finally:
        to_s3.stop()
        to_dynamodb.stop()


def test_append_without_spark(minio: Minio, dynamodb: DynamoDb, client: Any) -> None:
    """`storage_options` alone bring the arbiter; a Spark job's half-done commit is read, and written after."""
    root, where = minio.fresh_root(), around(minio.endpoint, dynamodb, dynamodb.endpoint)
    rowlock.append(root, pa.table({"id": [1]}), storage_options=where)
    store = open_store(root, where)
    assert isinstance(store, ArbitratedStore)
    spark = World(store=store.inner, client=client).delta()
    with pytest.raises(Stopped):
        spark.write(1, b'{"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": "spark"}}\n', stop_before="copy")
    rowlock.append(root, pa.table({"id": [2]}), storage_options=where)
    assert sorted(rowlock.to_arrow(root, storage_options=where)["id"].to_pylist()) == [1, 2]
    assert [(e.file_name[-6:], e.complete) for e in store.entries.all(store.table_path)] == [("0.json", True), ("1.json", True), ("2.json", True)]
    assert deltalake.DeltaTable(root, storage_options=minio.storage_options).version() == 2, "others read it, who know of no arbiter"
    assert check(store).findings == ()
