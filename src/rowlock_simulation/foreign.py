"""Commits as other Delta engines do: copy on write of whole files, no provenance, no turns; a writer that loses a put begins anew from the newest version.

It shares with the code under test the store, the parsers of the formats and the data files of the engine in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from rowlock import clock
from rowlock.conflict.delta import live_slice
from rowlock.exceptions import CommitUnknown, DeltaConcurrentModificationException
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import AddFile, CommitInfo, Protocol, RemoveFile
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.names import commit_key
from rowlock.storage.store import Committed, Lost, Unknown
from rowlock.transaction.transaction import Table
from rowlock_simulation.memory.data_files import DataFiles
from rowlock_simulation.memory.sql.script import Append, Literals, Optimize, Script
from rowlock_simulation.memory.statements import operation, parameters
from rowlock_simulation.serial import SerialTable

TRIES = 10
FUTURE = "aFeatureOfTheFuture"
NAME = "ofActor"
"""The parameter of an operation by which the judge knows a commit that has no txnId."""
UNKNOWN = ("delta.enableRowTracking", "delta.enableChangeDataFeed", "delta.enableInCommitTimestamps")
"""Properties of tables that this engine does not write to."""


def commit(table: Table, script: Script, txn_id: str, *, claims_blind: bool = False, nameless: bool = False) -> int | None:
    """Runs a script as another engine would; the version that it became, None where it changed nothing.

    `claims_blind`: its commitInfo calls it a blind append, whatever it is; `nameless`: it has no txnId.

    Raises DeltaConcurrentModificationException after TRIES lost puts, and CommitUnknown where the answer to a put did not arrive.
    """
    log = TableLog(table.state.log.store)
    for _ in range(TRIES):
        base = log.latest()
        tracks = "rowTracking" in (base.protocol.writer_features or ())  # also before the property is on, when files are to get row ids
        if tracks or any(base.metadata.configuration.get(p) == "true" for p in UNKNOWN):
            return None
        actions = [*_changes(table, base, script)]
        if not actions:
            return None
        if int(txn_id[0], 16) % 2:  # some engines give files no time
            actions = [replace(a, modification_time_ms=0) if isinstance(a, AddFile) else a for a in actions]
        info: Mapping[str, Any] = {
            "timestamp": clock.now_ms(), "operation": operation(script), "readVersion": base.version, "operationParameters": {**parameters(script), **({NAME: txn_id} if nameless else {})},
            "isolationLevel": "Serializable", "isBlindAppend": claims_blind or isinstance(script, Append), "engineInfo": "Another-Engine/1.0", **({} if nameless else {"txnId": txn_id}),
        }  # fmt: skip
        key, data = commit_key(base.version + 1), serialize_commit(CommitInfo(info), *actions)
        outcome = log.store.put_if_absent(key, data)
        if isinstance(outcome, Committed) or (isinstance(outcome, Lost) and log.store.get(key) == data):  # a proxy may have sent it twice
            return base.version + 1
        if isinstance(outcome, Unknown):
            raise CommitUnknown(outcome.reason, txn_id=txn_id)
    raise DeltaConcurrentModificationException(f"the other engine lost {TRIES} puts")


def upgrade(table: Table, txn_id: str) -> int | None:
    """Gives the table a feature that Rowlock cannot read, as a later engine would; the version that it became, None where another was faster.  Raises CommitUnknown."""
    log = TableLog(table.state.log.store)
    base = log.latest()
    if base.metadata.configuration.get("delta.enableInCommitTimestamps") == "true":
        return None
    protocol = Protocol(3, 7, reader_features(base.protocol) | {FUTURE}, writer_features(base.protocol) | {FUTURE})
    info: Mapping[str, Any] = {
        "timestamp": clock.now_ms(),
        "operation": "UPGRADE PROTOCOL",
        "operationParameters": {},
        "engineInfo": "Later-Engine/9.0",
        "txnId": txn_id,
    }
    data = serialize_commit(CommitInfo(info), protocol)
    outcome = log.store.put_if_absent(commit_key(base.version + 1), data)
    if isinstance(outcome, Unknown):
        raise CommitUnknown(outcome.reason, txn_id=txn_id)
    return base.version + 1 if isinstance(outcome, Committed) or log.store.get(commit_key(base.version + 1)) == data else None


def _changes(table: Table, base: Snapshot, script: Script) -> Iterator[AddFile | RemoveFile]:
    """The file actions of a script: each file with a row that changes is replaced as a whole."""
    files = DataFiles(table.state.log.store)
    if isinstance(script, Append):
        yield from (
            add for add, _ in files.write([dict(zip(base.schema.names, row, strict=True)) for row in padded(script.rows, len(base.schema.names))], base)
        )
        return
    live = list(base.files.adds())
    if isinstance(script, Optimize):
        if len(live) > 1:
            yield from (file.removed(clock.now_ms(), False) for file in live)
            rows = [row for file in live for row in _rows(table, base, file)]
            yield from (replace(add, data_change=False) for add, _ in files.write(rows, base))
        return
    for file in live:
        before = _rows(table, base, file)
        serial = SerialTable(base.schema.names, rows=list(before))
        serial.run(script)
        if serial.rows != before:
            yield file.removed(clock.now_ms(), True)
            yield from (add for add, _ in files.write(serial.rows, base))


def write_checkpoint(table: Table) -> None:
    """Writes a V2 checkpoint of the newest version as JSON, without sidecars, where the table allows that."""
    log = TableLog(table.state.log.store)
    head = log.latest()
    if "v2Checkpoint" not in (head.protocol.writer_features or ()):
        return
    files: list[Any] = [*(replace(f, data_change=False) for f in head.files.adds()), *log.tombstones(head)]
    lines = [orjson.dumps({"checkpointMetadata": {"version": head.version}}) + b"\n"]
    for action in (head.protocol, head.metadata, *head.txns.values(), *head.domains.values(), *files):
        lines.append(serialize_commit(CommitInfo({}), action).partition(b"\n")[2])
    log.store.put(f"{commit_key(head.version)[:-5]}.checkpoint.{clock.new_id()}.json", b"".join(lines))


def padded(rows: Sequence[Literals], width: int) -> tuple[Literals, ...]:
    """The rows, null in columns that the table has beside theirs."""
    return tuple((*row, *(None,) * (width - len(row))) for row in rows)


def _rows(table: Table, base: Snapshot, file: AddFile) -> list[dict[str, Any]]:
    return list(table.statement_engine.sample([live_slice(file, table.state.vectors.of)], None, snapshot=base))
