"""Builds the bytes of a commit file (commitInfo and actions), anew for every put; bytes of a lost put must never be used again (I2, I4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.boundary import row_identity
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import CommitInfo, Metadata, SetTransaction
from rowlock.protocol.column_values import with_marks_of
from rowlock.protocol.commits import serialize_commit, with_commit_timestamp, with_enablement
from rowlock.transaction.publish.file_actions import FileActions
from rowlock.transaction.publish.metrics import operation_parameters
from rowlock.transaction.state.call import in_history, settings, user_metadata, writer
from rowlock.transaction.state.pending import Attempt, Pending
from rowlock.version import ENGINE_INFO


def commit_of(
    txn: Pending,
    attempt: Attempt,
    files: FileActions,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    steps: Sequence[SetTransaction],
    record: Mapping[str, Any],
) -> bytes:
    """The commit file of `txn`, alone or as the leader of a group, on top of its base.

    `steps` are the `txn` actions of applications; `record` is added to the `rowlock` object of commitInfo.
    """
    info = commit_info(
        attempt.operation,
        parameters,
        txn.txn_id,
        read_version=txn.base.version,
        isolation="SnapshotIsolation" if not txn.data_change else txn.options.delta_level,
        blind=txn.is_blind and not files.removes,
        metrics=metrics,
        began_ms=txn.watch.began_ms,
        record={**attempt.receipt(txn, None, {}).record(), "read_version": txn.read_version, **txn.reruns.record(), **record},
    )
    info = with_commit_timestamp(info, txn.base.metadata.configuration, txn.base.timestamp_ms)
    rewrites_rows = bool(files.rows_copied) or any(b.kind == "derived" for b in txn.effects.blocks)
    if tags := row_identity.tags(txn.base, rewrites_rows):
        info["tags"] = tags
    stamped_steps = [replace(s, last_updated_ms=info["timestamp"]) for s in steps]
    return serialize_commit(
        CommitInfo(info),
        protocol=txn.base.protocol if txn.base.protocol != txn.read.protocol else None,
        metadata=None if txn.metadata is None else with_marks_of(txn.metadata, txn.read.metadata, txn.read.table),
        removes=files.removes,
        adds=files.adds,
        txns=stamped_steps,
        domains=files.domains,
        cdc=files.cdc,
    )


def bytes_on(head: Snapshot, info: Mapping[str, Any], *, metadata: Metadata | None = None, **actions: Any) -> bytes:
    """The commit file of a commit on top of `head` that rewrites no rows, with an in-commit timestamp where the table has them."""
    tags = {**info.get("tags", {}), **row_identity.tags(head, rewrites_rows=False)}
    info = {k: v for k, v in info.items() if k != "tags"}
    info = with_commit_timestamp({**info, **({"tags": tags} if tags else {})}, (metadata or head.metadata).configuration, head.timestamp_ms)
    if metadata is not None:
        metadata = with_enablement(head.metadata, metadata, head.version + 1, info["timestamp"])
    return serialize_commit(CommitInfo(info), metadata=metadata, **actions)


def commit_info(
    operation: str,
    parameters: Mapping[str, Any],
    txn_id: str,
    *,
    read_version: int | None,
    blind: bool,
    metrics: Mapping[str, int],
    began_ms: int | None = None,
    isolation: str = "Serializable",
    record: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The commitInfo of any commit, before tags and in-commit timestamps are added.

    `record` is its `rowlock` object, to which the writer is added, and when it began (`began_ms`, milliseconds since the epoch; None: now).
    """
    at_ms = clock.now_ms()
    operation, parameters, metrics = in_history(operation, parameters, metrics)
    return {
        "timestamp": at_ms,
        "operation": operation,
        "operationParameters": operation_parameters(parameters),
        **({} if read_version is None else {"readVersion": read_version}),
        "isolationLevel": isolation,
        "isBlindAppend": blind,
        **({"operationMetrics": {k: str(v) for k, v in metrics.items()}} if settings().flag("history.metricsEnabled") else {}),
        **({} if (text := user_metadata()) is None else {"userMetadata": text}),
        "engineInfo": ENGINE_INFO,
        "txnId": txn_id,
        "rowlock": {"writer": writer(), **({"attempts": 1} if record is None else record), "began_ms": at_ms if began_ms is None else began_ms},
    }
