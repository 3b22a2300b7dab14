"""Names of the files in `_delta_log`, parsed and built.

Names that `parse` does not recognize are not files of the log and are ignored.  Pure: lists and reads nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"
SIDECAR_DIRECTORY = f"{LOG_DIRECTORY}/_sidecars"
ROWLOCK_DIRECTORY = "_rowlock"

Kind = Literal["commit", "checkpoint", "multipart", "v2_checkpoint", "checksum", "compacted"]

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_PATTERN = re.compile(
    r"(?P<version>\d{20})(?:"
    r"(?P<commit>\.json)|(?P<checksum>\.crc)|(?P<checkpoint>\.checkpoint\.parquet)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})(?P<multipart>\.parquet)"
    rf"|\.checkpoint\.{_UUID}(?P<v2_checkpoint>\.(?:json|parquet))"
    r"|\.\d{20}(?P<compacted>\.compacted\.json))"
)
"""The last group of a name is called after its kind."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log. `part`/`parts` of a multi-part checkpoint count from 1."""

    key: str
    kind: Kind
    version: int
    part: int = 0
    parts: int = 0
    size_bytes: int = 0
    modified_ms: int = 0

    @property
    def is_checkpoint(self) -> bool:
        """Whether the file is a checkpoint or a part of one."""
        return self.kind in ("checkpoint", "multipart", "v2_checkpoint")


def parse(key: str, *, size_bytes: int = 0, modified_ms: int = 0) -> LogFile | None:
    """The log file that a key (or bare file name) in `_delta_log` names; None if it is not a file of the log."""
    match = _PATTERN.fullmatch(key.rpartition("/")[2])
    if match is None:
        return None
    kind: Any = match.lastgroup
    whole = kind in ("checkpoint", "v2_checkpoint")
    return LogFile(key, kind, int(match["version"]), int(match["part"] or whole), int(match["parts"] or whole), size_bytes, modified_ms)


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
