"""Which other engines may write a table at the same time, given its features, its store and its arbiter.  Pure.

The features that delta-rs refuses were found with deltalake 1.6; a test checks them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rowlock.protocol.actions import Protocol
from rowlock.protocol.features import reader_features, writer_features
from rowlock.protocol.paths import scheme_of

Verdict = Literal["yes", "alone", "no"]
_DELTA_RS_WRITES = frozenset({
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "deletionVectors",
    "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Whether another engine may write the table: `yes` (at the same time), `alone` (only while no other engine writes) or `no`, and why."""

    engine: str
    verdict: Verdict
    why: str


def store_kind(root: str) -> Literal["local", "s3", "other"]:
    """The kind of store that a table is on, as far as it matters for commits."""
    scheme = scheme_of(root)
    if scheme in (None, "file"):
        return "local"
    return "s3" if scheme in ("s3", "s3a", "s3n") else "other"


def refused_by_delta_rs(protocol: Protocol) -> tuple[str, ...]:
    """The table's features because of which delta-rs 1.6 refuses to write it."""
    return tuple(sorted((writer_features(protocol) | reader_features(protocol)) - _DELTA_RS_WRITES))


def neighbours(protocol: Protocol, root: str, *, arbitrated: bool) -> tuple[Neighbour, ...]:
    """Whether delta-spark and delta-rs may write this table beside Rowlock.  `arbitrated`: commits go through the DynamoDB arbiter."""
    return (_delta_spark(root, arbitrated), _delta_rs(protocol, arbitrated))


def _delta_spark(root: str, arbitrated: bool) -> Neighbour:
    name = "delta-spark"
    if arbitrated:
        return Neighbour(
            name, "yes", "with io.delta.storage.S3DynamoDBLogStore on the same DynamoDB table and region; without it its commits bypass the arbiter"
        )
    if store_kind(root) == "local":
        return Neighbour(name, "alone", "on a local disk it checks that a version is absent and then renames, which can overwrite another writer's commit")
    if store_kind(root) == "s3":
        return Neighbour(
            name,
            "alone",
            "its LogStore for S3 orders commits within one driver only; to share the table use the DynamoDB arbiter (AWS_S3_LOCKING_PROVIDER=dynamodb here, S3DynamoDBLogStore there)",
        )
    return Neighbour(name, "yes", "its LogStore creates a version only if it is absent")


def _delta_rs(protocol: Protocol, arbitrated: bool) -> Neighbour:
    name = "delta-rs 1.6"
    if refused := refused_by_delta_rs(protocol):
        return Neighbour(name, "no", f"it refuses tables with {', '.join(refused)}")
    if arbitrated:
        return Neighbour(name, "no", "it no longer uses DynamoDB, so its commits bypass the arbiter")
    return Neighbour(name, "yes", "it puts a version only if it is absent")
