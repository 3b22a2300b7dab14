"""Operation metrics and parameters under Delta's names.

Metrics are computed from the effects that are committed, not counted while staging, so they are right after any rebase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pyroaring import BitMap64

from rowlock.boundary.provenance import union_by_path
from rowlock.protocol.actions import AddFile, RemoveFile
from rowlock.transaction.publish.file_actions import FileActions
from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.receipt import Rewritten


def row_counts(txn: Pending) -> dict[str, int]:
    """Numbers of rows updated, deleted, inserted and appended, without rows that rebases dropped."""
    by_kind = Counter[str]()
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
    added, removed = _whole_files(files)
    sizes = {"numAddedBytes": sum(a.size_bytes for a in added), "numRemovedBytes": sum(r.size_bytes or 0 for r in removed)}
    if "merge" in kinds:
        written = {"numFiles": len(added)} if "append" in kinds else {}
        read = [s.source_rows for s in txn.program if s.source_rows is not None]
        return {
            **({"numSourceRows": sum(read)} if read else {}),
            "numTargetRowsInserted": rows["inserted"],
            "numTargetRowsUpdated": rows["updated"],
            "numTargetRowsDeleted": rows["deleted"],
            **_rows_by_clause(txn, rows),
            "numTargetRowsCopied": files.rows_copied,
            "numOutputRows": rows["inserted"] + rows["updated"] + rows["appended"] + files.rows_copied,
            **written,
            "numTargetFilesAdded": len(added),
            "numTargetFilesRemoved": len(removed),
            "numTargetBytesAdded": sizes["numAddedBytes"],
            "numTargetBytesRemoved": sizes["numRemovedBytes"],
            "numTargetChangeFilesAdded": len(files.cdc),
            **{name.replace("num", "numTarget"): number for name, number in _vectors(files, removed).items()},
        }
    if "append" in kinds:
        return _write_metrics(txn, files, rows)
    changed = {"numUpdatedRows": rows["updated"]} if "update" in kinds else {"numDeletedRows": rows["deleted"]} if "delete" in kinds else {}
    counts = {"numAddedFiles": len(added), "numRemovedFiles": len(removed), "numAddedChangeFiles": len(files.cdc)}
    return {**changed, "numCopiedRows": files.rows_copied, **counts, **sizes, **_vectors(files, removed)}


def _write_metrics(txn: Pending, files: FileActions, rows: Mapping[str, int]) -> dict[str, int]:
    """The metrics of WRITE.  Only an overwrite removes files, and only one with a condition counts the rows that went."""
    added, removed = _whole_files(files)
    out = {
        "numFiles": len(added),
        "numOutputRows": rows["appended"] + files.rows_copied,
        "numOutputBytes": sum(a.size_bytes for a in added),
    }
    deletes = [s for s in txn.program if s.kind == "delete"]
    if deletes:
        out |= {"numRemovedFiles": len(removed), "numRemovedBytes": sum(r.size_bytes or 0 for r in removed)}
    if any(s.parameters.get("predicate") not in (None, [], ["true"]) for s in deletes):
        out |= {"numDeletedRows": rows["deleted"], "numCopiedRows": files.rows_copied, "numAddedChangeFiles": len(files.cdc)}
    return out


def _vectors(files: FileActions, removed: Sequence[RemoveFile]) -> dict[str, int]:
    """What became of deletion vectors.  As in delta-spark one that replaces another counts as added, removed and updated."""
    gone = sum(r.deletion_vector is not None for r in removed)
    return {
        "numDeletionVectorsAdded": files.vectors_added,
        "numDeletionVectorsRemoved": gone + files.vectors_updated,
        "numDeletionVectorsUpdated": files.vectors_updated,
    }


def _rows_by_clause(txn: Pending, rows: Mapping[str, int]) -> dict[str, int]:
    """How many rows the clauses for matched rows and those for rows without a match changed; empty where other statements changed rows, too."""
    if len(txn.program) > 1:
        return {}
    updated, deleted = rows["updated"], rows["deleted"]
    parameters = txn.program[0].parameters
    if parameters.get("notMatchedBySourcePredicates", "[]") == "[]":
        matched_updated, matched_deleted = updated, deleted
    elif parameters["matchedPredicates"] == "[]":
        matched_updated = matched_deleted = 0
    else:
        matched = _positions(txn, "matched")
        matched_updated = sum(len(at & matched[path]) for path, at in _positions(txn, "derived").items() if path in matched)
        touched = sum(len(at & matched[path]) for path, at in txn.effects.tombstones.items() if path in matched)
        matched_deleted = touched - matched_updated
    return {
        "numTargetRowsMatchedUpdated": matched_updated,
        "numTargetRowsMatchedDeleted": matched_deleted,
        "numTargetRowsNotMatchedBySourceUpdated": updated - matched_updated,
        "numTargetRowsNotMatchedBySourceDeleted": deleted - matched_deleted,
    }


def _positions(txn: Pending, kind: str) -> Mapping[str, BitMap64]:
    """The rows of the table that blocks of a kind stand for."""
    out: dict[str, BitMap64] = {}
    for block in txn.effects.blocks:
        if block.kind == kind and block.provenance is not None:
            out = union_by_path(out, block.provenance.bitmaps())
    return out


def times(txn: Pending) -> dict[str, int]:
    """delta-spark's times of UPDATE, DELETE and MERGE in milliseconds, until the put of the commit that holds them: the work before it by phase."""
    kinds = {s.kind for s in txn.program}
    if not kinds & {"update", "delete", "merge"} or "append" in kinds:
        return {}
    seconds = txn.watch.seconds
    planned = {"materializeSourceTimeMs": seconds.get("plan", 0.0)} if "merge" in kinds else {}
    spent = {"executionTimeMs": sum(seconds.values()), **planned, "scanTimeMs": seconds.get("stage", 0.0), "rewriteTimeMs": seconds.get("write", 0.0)}
    return {name: round(value * 1000) for name, value in spent.items()}


def rewritten_by(txn: Pending, files: FileActions) -> Rewritten | None:
    """The files and bins that a compaction rewrote; None for a transaction with other statements."""
    if not txn.program or any(s.kind != "move" for s in txn.program):
        return None
    new, gone = _whole_files(files)
    vectors = [r.deletion_vector for r in gone if r.deletion_vector is not None]
    return Rewritten(
        added=tuple(a.size_bytes for a in new),
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


def _whole_files(files: FileActions) -> tuple[list[AddFile], list[RemoveFile]]:
    """The files that are added and removed, without those that only get a new deletion vector: these are removed and added under the same path."""
    stay = {r.path for r in files.removes} & {a.path for a in files.adds}
    return [a for a in files.adds if a.path not in stay], [r for r in files.removes if r.path not in stay]


def operation_parameters(parameters: Mapping[str, Any]) -> dict[str, str | None]:
    """The operationParameters of a commit, every value as a string, or null as it is: nested JSON makes other engines' readers fail."""
    return {k: v if v is None or isinstance(v, str) else orjson.dumps(v).decode() for k, v in parameters.items()}
