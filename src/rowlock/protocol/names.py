"""Names of the files in `_delta_log`, parsed and built.

Names that `parse` does not recognize are not files of the log and are ignored.  Pure: lists and reads nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"
SIDECAR_DIRECTORY = f"{LOG_DIRECTORY}/_sidecars"
ROWLOCK_DIRECTORY = "_rowlock"

Kind = Literal["commit", "checkpoint", "multipart", "v2_checkpoint", "checksum", "compacted"]

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_PATTERN = re.compile(
    r"^(?P<version>\d{20})(?:"
    r"(?P<commit>\.json)|(?P<checksum>\.crc)|(?P<classic>\.checkpoint\.parquet)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    rf"|\.checkpoint\.(?P<uuid>{_UUID})\.(?P<format>json|parquet)"
    r"|\.(?P<end>\d{20})\.compacted\.json)$"
)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log. `part`/`parts` of a multi-part checkpoint count from 1."""

    key: str
    kind: Kind
    version: int
    part: int = 0
    parts: int = 0
    uuid: str | None = None
    size_bytes: int = 0
    modified_ms: int = 0

    @property
    def is_checkpoint(self) -> bool:
        """Whether the file is a checkpoint or a part of one."""
        return self.kind in ("checkpoint", "multipart", "v2_checkpoint")


def parse(key: str, *, size_bytes: int = 0, modified_ms: int = 0) -> LogFile | None:
    """The log file that a key (or bare file name) in `_delta_log` names; None if it is not a file of the log."""
    match = _PATTERN.match(key.rpartition("/")[2])
    if match is None:
        return None
    version = int(match["version"])
    file = partial(LogFile, key, size_bytes=size_bytes, modified_ms=modified_ms)
    if match["commit"]:
        return file(kind="commit", version=version)
    if match["checksum"]:
        return file(kind="checksum", version=version)
    if match["classic"]:
        return file(kind="checkpoint", version=version, part=1, parts=1)
    if match["part"]:
        return file(kind="multipart", version=version, part=int(match["part"]), parts=int(match["parts"]))
    if match["uuid"]:
        return file(kind="v2_checkpoint", version=version, part=1, parts=1, uuid=match["uuid"])
    return file(kind="compacted", version=version)


def commit_key(version: int) -> str:
    """The key of a commit: `_delta_log/00000000000000000042.json`."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def checkpoint_key(version: int) -> str:
    """The key of a classic checkpoint in one file."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def v2_checkpoint_key(version: int, uuid: str) -> str:
    """The key of a V2 checkpoint as Parquet, under a name of its own."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{uuid}.parquet"


def checksum_key(version: int) -> str:
    """The key of a version checksum."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def listing_start(version: int) -> str:
    """A key that sorts before every file of `version` and after those of the versions before it."""
    return f"{LOG_DIRECTORY}/{version:020d}"


def sidecar_key(name: str) -> str:
    """The key of a sidecar file; its action holds the bare name or, from older writers, a path."""
    return f"{SIDECAR_DIRECTORY}/{name.rpartition('/')[2]}"
