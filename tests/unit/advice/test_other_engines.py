"""Histories that other engines wrote: what their commits tell is used, what they keep to themselves is said."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from rowlock.advice.advice import advise, lock_for
from rowlock.advice.costs import pairs
from rowlock.advice.history import History
from rowlock.advice.read_history import MAX_ACTIONS, partition_text, read_history
from rowlock.storage.local import LocalStore
from rowlock.storage.memory import MemoryStore

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture(scope="module")
def delta_spark() -> History:
    """24 commits of delta-spark 4.4.0: three threads that update a partition each, one that merges (and never gets through), one that appends."""
    store = MemoryStore("memory://delta_spark")
    for line in (RECORDED / "delta_spark.jsonl").read_bytes().splitlines():
        commit = orjson.loads(line)
        store.put(f"_delta_log/{commit['version']:020d}.json", b"\n".join(orjson.dumps(action) for action in commit["lines"]))
    return read_history(store)


def test_delta_spark_tells_who_ran_beside_whom(delta_spark: History) -> None:
    assert [r.operation for r in delta_spark.commits].count("UPDATE") == 11 and all(r.engine.startswith("Apache-Spark") for r in delta_spark.commits)
    assert [r.version for r in delta_spark.commits if delta_spark.overlapping(r)] == [12, 13, 14, 17, 18, 20, 21, 22, 23]
    overlaps = {(p.loser, p.winner): (p.overlaps, p.met) for p in pairs(delta_spark)}
    assert overlaps == {("UPDATE", "UPDATE"): (12, 0), ("WRITE", "UPDATE"): (2, 0)}
    twelve = delta_spark.by_version[12]
    assert (twelve.read_version, twelve.service_s, twelve.rows_changed, twelve.rows_copied) == (10, 4.987, 104, 904)
    assert delta_spark.partitions(twelve) == {"region=1"} and twelve.changes and not delta_spark.by_version[5].changes
    assert "region" in twelve.predicate


def test_what_delta_spark_does_not_tell_is_said(delta_spark: History) -> None:
    found = advise(delta_spark)
    assert found.lock == "none" == lock_for(delta_spark)
    assert found.thin == "11 changes: too few for advice (20 are needed)"
    assert any("Their failed tries leave no trace" in r.text for r in found.reasons)
    assert dict(found.options) == {"delta.enableDeletionVectors": "true"}, "9,971 rows were copied to change 1,141"
    assert found.costs.partition_s == 0, "writers of one partition each would never have waited for each other"


def test_delta_rs_tells_as_much(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": list(range(8)), "v": [0] * 8}))
    first, second, third = (DeltaTable(path) for _ in range(3))
    write_deltalake(first, pa.table({"k": [100], "v": [0]}), mode="append")
    second.update({"v": "v + 1"}, predicate="k = 1")
    with pytest.raises(CommitFailedError):  # which leaves no trace
        third.update({"v": "v + 1"}, predicate="k = 1")
    history = read_history(LocalStore(path))
    create, appended, changed = history.commits
    assert create.version == 0 and appended.appends and appended.read_version is None, "an append of theirs does not say what it read"
    assert (changed.operation, changed.read_version, changed.rows_changed, changed.rows_copied) == ("UPDATE", 0, 1, 7)
    assert changed.changes and changed.service_s is not None and changed.engine.startswith("delta-rs")
    assert [w.version for w in history.overlapping(changed)] == [1]
    assert advise(history).lock == "none"


def test_a_commit_of_many_files_is_counted_and_not_read_through() -> None:
    store = MemoryStore("memory://many")
    protocol = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'
    metadata = orjson.dumps(
        {
            "metaData": {
                "id": "a",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": '{"type":"struct","fields":[]}',
                "partitionColumns": [],
                "configuration": {},
            }
        }
    )
    adds = [
        orjson.dumps({"add": {"path": f"f{n}", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}) for n in range(MAX_ACTIONS + 50)
    ]
    store.put("_delta_log/00000000000000000000.json", b"\n".join([protocol, metadata]))
    store.put("_delta_log/00000000000000000001.json", b"\n".join([b'{"commitInfo":{"operation":"WRITE","isBlindAppend":true}}', *adds]))
    store.put("_delta_log/00000000000000000002.json", b"")
    run = read_history(store).by_version[1]
    assert run.touched.num_added == MAX_ACTIONS + 50 and len(run.touched.added) == MAX_ACTIONS and not run.touched.complete and run.appends
    assert read_history(store).partitions(run) == frozenset(), "which partitions it touched is not known"


def test_partitions_in_words() -> None:
    assert partition_text({"b": None, "a": "x"}) == "a=x/b=null" and partition_text({}) == partition_text(None) == ""
