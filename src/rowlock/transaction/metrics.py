"""Operation metrics and parameters, by Delta's names, derived from the effects that were committed.

They are counted from what is published and not while staging, so they stay right through rebases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from rowlock.transaction.publish import FileActions

if TYPE_CHECKING:
    from rowlock.transaction.transaction import Transaction


def row_counts(txn: Transaction) -> dict[str, int]:
    """updated, deleted, inserted, appended: rows, net of what rebases took away."""
    by_kind = {"derived": 0, "inserted": 0, "appended": 0, "matched": 0}
    for block in txn.effects.blocks:
        by_kind[block.kind] += block.num_rows
    return {
        "updated": by_kind["derived"],
        "deleted": txn.effects.num_tombstones - by_kind["derived"],
        "inserted": by_kind["inserted"],
        "appended": by_kind["appended"],
    }


def operation_metrics(txn: Transaction, files: FileActions) -> dict[str, int]:
    """By the kinds of the program's statements; sizes in bytes."""
    rows, kinds = row_counts(txn), {s.kind for s in txn.program}
    removed_files = len(files.removes) - files.vectors_added
    added = [a for a in files.adds if a.deletion_vector is None]
    common = {
        "numAddedFiles": len(added),
        "numRemovedFiles": removed_files,
        "numAddedBytes": sum(a.size_bytes for a in added),
        "numRemovedBytes": _removed_bytes(files),
        "numDeletionVectorsAdded": files.vectors_added,
    }
    if "merge" in kinds:
        return {
            "numTargetRowsInserted": rows["inserted"],
            "numTargetRowsUpdated": rows["updated"],
            "numTargetRowsDeleted": rows["deleted"],
            "numTargetRowsCopied": files.rows_copied,
            "numOutputRows": rows["inserted"] + rows["updated"] + files.rows_copied,
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


def _removed_bytes(files: FileActions) -> int:
    """Of files that are gone; one that only got a new vector is removed and added under the same path."""
    stay = {a.path for a in files.adds}
    return sum(r.size_bytes or 0 for r in files.removes if r.path not in stay)


def operation_parameters(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Every value a string: nested JSON in it makes other engines' readers fail."""
    return {k: v if isinstance(v, str) else orjson.dumps(v).decode() for k, v in parameters.items()}
