"""Operation metrics and parameters under Delta's names.

Metrics are computed from the effects that are committed, not counted while staging, so they are right after any rebase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.transaction.publish.file_actions import FileActions
from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.receipt import Rewritten


def row_counts(txn: Pending) -> dict[str, int]:
    """Numbers of rows updated, deleted, inserted and appended, without rows that rebases dropped."""
    by_kind = {"derived": 0, "inserted": 0, "appended": 0, "matched": 0}
    for block in txn.effects.blocks:
        by_kind[block.kind] += block.num_rows
    return {
        "updated": by_kind["derived"],
        "deleted": txn.effects.num_tombstones - by_kind["derived"],
        "inserted": by_kind["inserted"],
        "appended": by_kind["appended"],
    }


def operation_metrics(txn: Pending, files: FileActions) -> dict[str, int]:
    """The operationMetrics of a commit, chosen by the kinds of its statements; sizes in bytes."""
    if (rewritten := rewritten_by(txn, files)) is not None:
        return _rewriting_metrics(rewritten)
    rows, kinds = row_counts(txn), {s.kind for s in txn.program}
    removed_files = len(files.removes) - files.vectors_added
    added = _new_files(files)
    common = {
        "numAddedFiles": len(added),
        "numRemovedFiles": removed_files,
        "numAddedBytes": sum(a.size_bytes for a in added),
        "numRemovedBytes": _removed_bytes(files),
        "numDeletionVectorsAdded": files.vectors_added,
    }
    if "merge" in kinds:
        written = {"numFiles": len(added)} if "append" in kinds else {}
        return {
            "numTargetRowsInserted": rows["inserted"],
            "numTargetRowsUpdated": rows["updated"],
            "numTargetRowsDeleted": rows["deleted"],
            "numTargetRowsCopied": files.rows_copied,
            "numOutputRows": rows["inserted"] + rows["updated"] + rows["appended"] + files.rows_copied,
            **written,
            "numTargetFilesAdded": len(added),
            "numTargetFilesRemoved": removed_files,
            "numTargetBytesAdded": common["numAddedBytes"],
            "numTargetBytesRemoved": common["numRemovedBytes"],
            "numTargetDeletionVectorsAdded": files.vectors_added,
        }
    if "append" in kinds:
        return {"numFiles": len(added), "numOutputRows": rows["appended"], "numOutputBytes": common["numAddedBytes"], "numRemovedFiles": removed_files}
    if "update" in kinds:
        return {"numUpdatedRows": rows["updated"], "numCopiedRows": files.rows_copied, **common}
    if "delete" in kinds:
        return {"numDeletedRows": rows["deleted"], "numCopiedRows": files.rows_copied, **common}
    return common


def rewritten_by(txn: Pending, files: FileActions) -> Rewritten | None:
    """The files and bins that a compaction rewrote; None for a transaction with other statements."""
    if not txn.program or any(s.kind != "move" for s in txn.program):
        return None
    gone = _removed_files(files)
    vectors = [r.deletion_vector for r in gone if r.deletion_vector is not None]
    return Rewritten(
        added=tuple(a.size_bytes for a in _new_files(files)),
        removed=tuple(r.size_bytes or 0 for r in gone),
        partitions=len({tuple(sorted((r.partition_values or {}).items())) for r in gone}),
        bins=len({(b.statement, b.group) for b in txn.effects.blocks}) if gone else 0,
        vectors=len(vectors),
        vector_rows=sum(v.cardinality for v in vectors),
    )


def _rewriting_metrics(rewritten: Rewritten) -> dict[str, int]:
    """The metrics of OPTIMIZE.  As in delta-spark each quartile is the size of one of the files; there are none if no file was added."""
    sizes, number = sorted(rewritten.added), len(rewritten.added)
    at = {"minFileSize": 0, "p25FileSize": number // 4, "p50FileSize": number // 2, "p75FileSize": number * 3 // 4, "maxFileSize": number - 1}
    return {
        "numAddedFiles": number,
        "numRemovedFiles": len(rewritten.removed),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(rewritten.removed),
        "numDeletionVectorsRemoved": rewritten.vectors,
        **({name: sizes[n] for name, n in at.items()} if sizes else {}),
    }


def _new_files(files: FileActions) -> list[AddFile]:
    """The added files without those that only get a new deletion vector, which are removed and added under the same path."""
    stay = {r.path for r in files.removes}
    return [a for a in files.adds if a.path not in stay]


def _removed_files(files: FileActions) -> list[RemoveFile]:
    """The removed files without those that only get a new deletion vector."""
    stay = {a.path for a in files.adds}
    return [r for r in files.removes if r.path not in stay]


def _removed_bytes(files: FileActions) -> int:
    return sum(r.size_bytes or 0 for r in _removed_files(files))


def operation_parameters(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The operationParameters of a commit, every value as a string: nested JSON makes other engines' readers fail."""
    return {k: v if isinstance(v, str) else orjson.dumps(v).decode() for k, v in parameters.items()}
