"""Measures the first look at a table of many files or commits: its log is read and the files counted, a point query planned, the log read again after one more commit.

Where there are commits after the checkpoint, the history is read and a checkpoint written, too.

The table is a log alone: a checkpoint that names files which are nowhere.  With a path as its second argument this program is the process that looks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from rowlock import clock
from rowlock_bench.processes import Result, main, result
from rowlock_bench.statements import Usage

_ROWS_OF_A_FILE = 100
_SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_METADATA = {"id": "load", "format": {"provider": "parquet", "options": {}}, "schemaString": _SCHEMA, "partitionColumns": [], "configuration": {}}


def _statistics(n: int) -> str:
    first = n * _ROWS_OF_A_FILE
    return f'{{"numRecords":{_ROWS_OF_A_FILE},"minValues":{{"id":{first}}},"maxValues":{{"id":{first + _ROWS_OF_A_FILE - 1}}},"nullCount":{{"id":0}}}}'


def make(path: str, files: int, commits: int = 0) -> None:
    """Writes a log whose checkpoint at version 1 has so many files, with so many commits of one file after it."""
    log = Path(path) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes(b"\n".join(orjson.dumps({key: value}) for key, value in (("protocol", _PROTOCOL), ("metaData", _METADATA))))
    _commit(log, 1, 0)
    nothing = pa.array([], pa.string())
    add = {
        "path": pa.array([f"part-{n:08d}-c000.snappy.parquet" for n in range(files)]),
        "partitionValues": pa.MapArray.from_arrays(pa.array(np.zeros(files + 1, np.int32)), nothing, nothing),
        "size": pa.array(np.full(files, 1 << 20)),
        "modificationTime": pa.array(np.full(files, 1_700_000_000_000)),
        "dataChange": pa.array(np.ones(files, np.bool_)),
        "stats": pa.array([_statistics(n) for n in range(files)]),
    }
    adds = pa.StructArray.from_arrays(list(add.values()), list(add))
    protocol = pa.array([_PROTOCOL, None], pa.struct({name: pa.int32() for name in _PROTOCOL}))
    texts = pa.map_(pa.string(), pa.string())
    metadata_type = pa.struct(
        {
            "id": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": texts}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "configuration": texts,
        }
    )
    metadata = pa.array([None, {**_METADATA, "format": {"provider": "parquet", "options": []}, "configuration": []}], metadata_type)
    head = pa.table({"protocol": protocol, "metaData": metadata, "add": pa.nulls(2, adds.type)})
    body = pa.table({"protocol": pa.nulls(files, protocol.type), "metaData": pa.nulls(files, metadata.type), "add": adds})
    pq.write_table(pa.concat_tables([head, body]), log / f"{1:020d}.checkpoint.parquet")
    (log / "_last_checkpoint").write_bytes(orjson.dumps({"version": 1, "size": files + 2}))
    for n in range(commits):
        _commit(log, n + 2, files + n)


def _commit(log: Path, version: int, n: int) -> None:
    add = {"path": f"part-{n:08d}-c000.snappy.parquet", "partitionValues": {}, "size": 1 << 20, "modificationTime": 1_700_000_000_000, "dataChange": True}
    (log / f"{version:020d}.json").write_bytes(orjson.dumps({"add": {**add, "stats": _statistics(n)}}))


def look(given: dict[str, Any], path: str) -> Result:
    """Reads the log, in a process that has only imported its engine; plans a query for one row (Rowlock alone) and reads one more commit."""
    files, commits = given["files"] + given.get("commits", 0), given.get("commits", 0)
    newest = commits + 2
    usage = Usage((os.getpid(), 0))
    figures: dict[str, float] = {}

    def timed(line: str, work: Callable[[], Any]) -> Any:
        began = clock.monotonic_s()
        found = work()
        figures[line] = (clock.monotonic_s() - began) * (1000 if line.endswith("ms") else 1)
        return found

    log = Path(path) / "_delta_log"
    if given["engine"] == "deltalake":
        from deltalake import DeltaTable

        table, count = timed("the first look, s", lambda: ((table := DeltaTable(path)), table.get_add_actions().num_rows))
        figures["peak of memory, MB"] = usage.read()[0]
        _commit(log, newest, files)
        timed("one more commit, ms", table.update_incremental)
        if commits:
            timed("the history, s", table.history)
            timed("a checkpoint, s", table.create_checkpoint)
        return result(figures, exact=(count, table.version()) == (files, newest))
    from rowlock.protocol import predicates
    from rowlock.storage.open import open_store
    from rowlock.transaction.state.shared import state_of

    state = state_of(open_store(path))
    snapshot, count = timed("the first look, s", lambda: ((snapshot := state.refresh()), len(snapshot.files)))
    figures["peak of memory, MB"] = usage.read()[0]
    wanted = predicates.compare("=", ("id",), files // 2 * _ROWS_OF_A_FILE + 7)
    chosen = partial(snapshot.files.prune, wanted, snapshot.schema, ())
    found = [list(timed(line, chosen)) for line in ("the first point query planned, ms", "a point query planned, ms")]
    _commit(log, newest, files)
    after = timed("one more commit, ms", state.refresh)
    if commits:
        timed("the history, s", state.log.history)
        timed("a checkpoint, s", lambda: state.log.write_checkpoint(after))
    return result(figures, exact=(count, len(after.files), [len(f) for f in found]) == (files, files + 1, [1, 1]))


def measure(given: dict[str, Any]) -> Result:
    """Makes the table and looks at it from a new process."""
    with tempfile.TemporaryDirectory(prefix="rowlock-load-") as folder:
        make(f"{folder}/table", given["files"], given.get("commits", 0))
        command = [sys.executable, "-m", "rowlock_bench.load", json.dumps(given), f"{folder}/table"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)  # type: ignore[no-any-return]


if __name__ == "__main__":
    if sys.argv[2:]:
        print(json.dumps(look(json.loads(sys.argv[1]), sys.argv[2])), flush=True)
    else:
        main(measure)
