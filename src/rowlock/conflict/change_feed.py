"""The change data feed: which tables have one, the `cdc` action of a change data file, and the rows that a version changed.

All changes of a version come from its `cdc` files or, if it has none, from its add and remove actions.
Clause "Add CDC File" of the protocol.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rowlock.conflict.delta import Slice, VectorOf, delta_of, live_slice
from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit, CommitInfo, Metadata, Protocol, RemoveFile
from rowlock.protocol.features import writer_features
from rowlock.protocol.properties import is_true

FEATURE = "changeDataFeed"
ENABLED = "delta.enableChangeDataFeed"
FORMER_NAME = "delta.enableChangeDataCapture"
FOLDER = "_change_data"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""What the feed adds to the columns of the table."""
ChangeType = Literal["insert", "update_preimage", "update_postimage", "delete"]


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the change data feed is on: the feature is listed and the property is set."""
    name = ENABLED if ENABLED in metadata.configuration else FORMER_NAME
    return FEATURE in writer_features(protocol) and is_true(metadata.configuration, name)


def refuse_its_columns(snapshot: Snapshot) -> None:
    """Raises InvalidInput where the table has a column that the feed adds."""
    if taken := [n for n in snapshot.schema.names if n.lower() in (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)]:
        raise InvalidInput(f"The table has a column {taken[0]!r} itself, which the change data feed adds: rename it first", table=snapshot.table)


def cdc_action(file: AddFile) -> AddCdcFile:
    """The `cdc` action of a change data file, which was written like a data file."""
    return AddCdcFile({"path": paths.encode(file.path), "partitionValues": dict(file.partition_values), "size": file.size_bytes, "dataChange": False})


@dataclass(frozen=True, slots=True)
class Changed:
    """Some rows of one file that a version changed.  `type` is None where the file itself says it of each row."""

    version: int
    type: str | None
    rows: Slice


def changed_rows(commit: Commit, vector_of: VectorOf, table: str, takes: Callable[[AddFile], bool] = lambda file: True) -> list[Changed]:
    """The rows that a version changed, of the files that are to be read.  Raises CorruptLog where its actions do not say which they are."""
    if commit.cdc:
        return [Changed(commit.version, None, Slice(f)) for c in commit.cdc if takes(f := cdc_file(c, table))]
    if commit.info is not None and _copies_alone(commit.info):
        return []
    removed = [_removed_file(r, commit.version, table) for r in commit.removes if r.data_change]
    before = {f.path: live_slice(f, vector_of) for f in removed if takes(f)}
    after = {f.path: live_slice(f, vector_of) for f in commit.adds if f.data_change and takes(f)}
    delta = delta_of(after, before, after)
    return [*(Changed(commit.version, "delete", s) for s in delta.gone), *(Changed(commit.version, "insert", s) for s in delta.born)]


def _copies_alone(info: CommitInfo) -> bool:
    """Whether a MERGE of delta-spark only copied rows, which its feed leaves out, too: some matched, and no clause wanted them."""
    metrics = info.raw.get("operationMetrics")
    return (
        info.operation == "MERGE" and isinstance(metrics, Mapping) and all(metrics.get(f"numTargetRows{n}") == "0" for n in ("Inserted", "Updated", "Deleted"))
    )


def cdc_file(action: AddCdcFile, table: str) -> AddFile:
    """A change data file as a data file."""
    raw = action.raw
    try:
        return AddFile(paths.decode(str(raw["path"])), dict(raw.get("partitionValues") or {}), int(raw["size"]), 0, data_change=False, stats=None)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptLog(f"A cdc action cannot be read: {e}", table=table) from e


def _removed_file(action: RemoveFile, version: int, table: str) -> AddFile:
    """The file that a remove names, as it was."""
    if action.partition_values is None:
        raise CorruptLog(f"Version {version} removes {action.path} without its partition values, so its rows cannot be shown", table=table, version=version)
    size_bytes, vector = action.size_bytes or 0, action.deletion_vector
    return AddFile(action.path, action.partition_values, size_bytes, 0, True, action.stats, vector, log_path=action.log_path)
