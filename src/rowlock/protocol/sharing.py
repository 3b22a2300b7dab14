"""Who else may write a table: what its features, its place and its arbiter allow.  Pure.

What delta-rs refuses was tried with deltalake 1.6, and a test tries it again.
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
    """Whether an engine may write beside us: `yes` at the same time, `alone` only while nobody else does, or `no`."""

    engine: str
    verdict: Verdict
    why: str


def place_of(root: str) -> Literal["local", "s3", "other"]:
    """Where a table lies, as far as commits go."""
    scheme = scheme_of(root)
    if scheme in (None, "file"):
        return "local"
    return "s3" if scheme in ("s3", "s3a", "s3n") else "other"


def refused_by_delta_rs(protocol: Protocol) -> tuple[str, ...]:
    """The features for which delta-rs 1.6 refuses to write the table."""
    return tuple(sorted((writer_features(protocol) | reader_features(protocol)) - _DELTA_RS_WRITES))


def neighbours(protocol: Protocol, root: str, *, arbitrated: bool) -> tuple[Neighbour, ...]:
    """The engines that a fleet usually has, each with what it may do beside Rowlock on this table."""
    return (_delta_spark(root, arbitrated), _delta_rs(protocol, arbitrated))


def _delta_spark(root: str, arbitrated: bool) -> Neighbour:
    name = "delta-spark"
    if arbitrated:
        return Neighbour(
            name, "yes", "with io.delta.storage.S3DynamoDBLogStore on the same DynamoDB table and region; without it its commits go past the arbiter"
        )
    if place_of(root) == "local":
        return Neighbour(name, "alone", "on a local disk it looks whether a version is absent and then renames, which can overwrite another's commit")
    if place_of(root) == "s3":
        return Neighbour(
            name,
            "alone",
            "its LogStore for S3 keeps order within one driver only; the DynamoDB arbiter is for sharing (AWS_S3_LOCKING_PROVIDER=dynamodb here, S3DynamoDBLogStore there)",
        )
    return Neighbour(name, "yes", "its LogStore creates a version only where there is none")


def _delta_rs(protocol: Protocol, arbitrated: bool) -> Neighbour:
    name = "delta-rs 1.6"
    if refused := refused_by_delta_rs(protocol):
        return Neighbour(name, "no", f"it refuses tables with {', '.join(refused)}")
    if arbitrated:
        return Neighbour(name, "no", "it no longer asks DynamoDB, so its commits go past the arbiter")
    return Neighbour(name, "yes", "it puts a version only where there is none")
