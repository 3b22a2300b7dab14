"""Finds which engines wrote a table's commits, and commits that were overwritten.  Pure.

A version checksum (`<version>.crc`) has the txnId of its writer's commit.  If the commit file has another txnId, two
writers committed the same version and the file holds the later commit: this is proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol import names
from rowlock.protocol.actions import CommitInfo
from rowlock.protocol.sharing import store_kind

_ENGINES = (
    ("Rowlock/", "Rowlock"),
    ("Databricks", "Databricks"),
    ("Delta-Lake/", "delta-spark"),
    ("delta-rs", "delta-rs"),
    ("Kernel", "Delta Kernel"),
    ("trino", "Trino"),
)


@dataclass(frozen=True, slots=True)
class SeenCommit:
    """A commit's engine and txnId; `checksum_txn_id` is the txnId in its checksum file."""

    version: int
    engine: str
    txn_id: str | None = None
    checksum_txn_id: str | None = None


def engine_of(info: CommitInfo | None) -> str:
    """The engine's usual name by commitInfo's engineInfo; for an unknown engine its engineInfo as it is."""
    said = (info.raw.get("engineInfo") or info.raw.get("clientVersion")) if info else None
    if not isinstance(said, str) or not said.strip():
        return "an engine that does not say its name"
    return next((name for mark, name in _ENGINES if mark.lower() in said.lower()), said.strip())


def writer_findings(commits: Sequence[SeenCommit], root: str, *, arbitrated: bool) -> list[Finding]:
    """Findings about overwritten commits, and about engines that may overwrite commits on this kind of store."""
    return [*_overwritten(commits, root), *_may_overwrite(commits, root, arbitrated)]


def _overwritten(commits: Sequence[SeenCommit], root: str) -> Iterable[Finding]:
    found = [c for c in commits if c.txn_id and c.checksum_txn_id and c.txn_id != c.checksum_txn_id]
    if found:
        how = " delta-spark does that on a local disk, where it renames over what is there." if store_kind(root) == "local" else ""
        yield Finding(
            "danger",
            "version-committed-twice",
            f"two writers committed {spans(c.version for c in found)}: the checksum is of another transaction than the commit file, so one of the two was overwritten and its changes are lost.{how}",
            "Let all writers commit through one arbiter that creates a version only once. Compare the lost writers' own logs with the table",
            tuple(c.version for c in found),
            tuple(names.checksum_key(c.version) for c in found),
        )


def _may_overwrite(commits: Sequence[SeenCommit], root: str, arbitrated: bool) -> Iterable[Finding]:
    engines = sorted({c.engine for c in commits})
    spark = [c.version for c in commits if c.engine == "delta-spark"]
    if not spark or len(engines) < 2 or arbitrated:
        return
    others = ", ".join(e for e in engines if e != "delta-spark")
    if store_kind(root) == "local":
        yield Finding(
            "suspicion",
            "delta-spark-on-local-disk",
            f"delta-spark ({spans(spark)}) and {others} have written this table on a local disk. It is certain that delta-spark overwrites a version that appears between its check and its rename. "
            "The log does not say whether they ever wrote at the same moment",
            "Write with delta-spark only while nobody else does, or keep the table on a store with an arbiter",
            tuple(spark),
        )
    elif store_kind(root) == "s3":
        yield Finding(
            "suspicion",
            "delta-spark-without-arbiter",
            f"delta-spark ({spans(spark)}) and {others} have written this table on S3, and no arbiter is set here. delta-spark's usual LogStore keeps order only within one driver. "
            "The log does not say which LogStore wrote, nor whether they ever wrote at the same moment",
            "Where Spark uses S3DynamoDBLogStore, set AWS_S3_LOCKING_PROVIDER=dynamodb here; else write with Spark only while nobody else does",
            tuple(spark),
        )
