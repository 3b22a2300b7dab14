"""Reads a table's `History` from its store: the newest commits and the records of failed attempts, no data files.

The number of commits, the file actions per commit and the bytes per commit file are bounded.  An earlier history can
be continued, which reads only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rowlock.advice import attempts
from rowlock.advice.history import FileChanges, History, Layout, Run, in_order, run_of_attempt, run_of_commit
from rowlock.limits import limits
from rowlock.log.segment import list_log, no_table
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import paths
from rowlock.protocol.clustering import possible_keys
from rowlock.storage.store import NotFound, ObjectStore
from rowlock.threads import side_by_side

COMMITS = 1000
MAX_ACTIONS = 200
"""The most file actions of each kind that are parsed per commit; further ones are only counted."""
MAX_BYTES = 8 << 20
"""The most bytes that are read of a commit file; commitInfo is its first line."""


def read_history(store: ObjectStore, limit: int = COMMITS, *, previous: History | None = None, snapshot: Snapshot | None = None) -> History:
    """The history of the newest `limit` commits, with the failed attempts of the same period.  Raises TableNotFound.

    With `previous`, only newer commits and records are read.  Properties and partitioning are those of `snapshot`, by
    default the newest.
    """
    files = [f for f in list_log(store) if f.kind == "commit"]
    if not files:
        raise no_table(store.root)
    wanted = files[-limit:] if limit > 0 else []
    before = previous if previous is not None and previous.table == store.root else History(store.root)
    known, partition_of = dict(before.by_version), dict(before.partition_of)
    missing = [f for f in wanted if f.version not in known]
    for run, more in side_by_side(lambda f: _commit(store, f.version, f.key, f.size_bytes, f.modified_ms), missing, limits().request_threads):
        if run is not None and run.version is not None:
            known[run.version] = run
            partition_of |= more
    commits = [known[f.version] for f in wanted if f.version in known]
    records, newest = attempts.read(store, after=before.newest_attempt)
    failed = [*before.failed, *(run for raw in records if (run := run_of_attempt(raw)) is not None)]
    if wanted and wanted[0].version > 0:
        failed = [run for run in failed if run.ended_at >= wanted[0].version]
    snapshot = snapshot or TableLog(store).latest()
    live = {path for run in (*commits, *failed) for path in (*run.touched.added, *run.touched.removed, *(f for m in run.met for f in m.files))}
    return History(
        table=store.root,
        runs=in_order([*commits, *failed]),
        properties=dict(snapshot.metadata.configuration),
        partition_columns=snapshot.partition_columns,
        partition_of={path: partition for path, partition in partition_of.items() if path in live},
        whole=bool(wanted) and wanted[0].version == 0,
        unrecorded=before.unrecorded + sum(n for raw in records if isinstance(n := raw.get("unrecorded"), int)),
        newest_attempt=newest,
        layout=Layout(
            keys=tuple(possible_keys(snapshot.schema, snapshot.properties, snapshot.partition_columns)),
            clustered_by=snapshot.clustering_columns,
            size_bytes=snapshot.files.total_size_bytes,
            target_bytes=snapshot.properties.target_file_bytes,
        ),
    )


def _commit(store: ObjectStore, version: int, key: str, size_bytes: int, modified_ms: int) -> tuple[Run | None, dict[str, str]]:
    try:
        data = store.get(key) if size_bytes <= MAX_BYTES else store.get_range(key, 0, MAX_BYTES)
    except NotFound:
        return None, {}
    info, touched, partition_of = _parsed(data, store.root, whole=len(data) >= size_bytes)
    return run_of_commit(version, info, touched, modified_ms=modified_ms), partition_of


def _parsed(data: bytes, root: str, *, whole: bool) -> tuple[Any, FileChanges, dict[str, str]]:
    """(commitInfo, file changes, partition by path) of a commit file.  Lines that cannot be parsed are skipped, which is fine for statistics only."""
    info: Any = None
    partition_of: dict[str, str] = {}
    paths_of: dict[str, list[str]] = {"add": [], "remove": []}
    counts = {"add": 0, "remove": 0}
    changes_data = changes_definition = False
    for line in data.split(b"\n"):
        kind = "add" if line.startswith(b'{"add"') else "remove" if line.startswith(b'{"remove"') else ""
        if kind:
            counts[kind] += 1
            if len(paths_of[kind]) >= MAX_ACTIONS:
                continue
        raw = _json(line)
        for name in paths_of:
            if isinstance(action := raw.get(name), Mapping) and isinstance(path := action.get("path"), str):
                counts[name] += not kind
                paths_of[name].append(paths.decode(path, root))
                changes_data = changes_data or action.get("dataChange") is not False
                partition_of[paths_of[name][-1]] = partition_text(action.get("partitionValues"))
        info = raw.get("commitInfo", info)
        changes_definition = changes_definition or "metaData" in raw or "protocol" in raw
    complete = whole and all(counts[name] <= MAX_ACTIONS for name in paths_of)
    files = not (paths_of["add"] or paths_of["remove"])
    touched = FileChanges(
        removed=tuple(paths_of["remove"]),
        added=tuple(paths_of["add"]),
        partitions=frozenset(partition_of.values()),
        num_removed=counts["remove"],
        num_added=counts["add"],
        changes_data=changes_data,
        changes_definition=changes_definition and files,
        complete=complete,
    )
    return info, touched, partition_of


def partition_text(values: Any) -> str:
    """A file's partition as `column=value/...`; empty for an unpartitioned table."""
    items = [(str(k), v) for k, v in values.items()] if isinstance(values, Mapping) else []
    return "/".join(f"{k}={'null' if v is None else v}" for k, v in sorted(items))


def _json(line: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, Mapping) else {}
