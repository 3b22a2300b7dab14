"""Checks what programs get back: errors have a reason in the plan, metrics count what was done, and snapshots are what the log holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock.exceptions import (
    CommitUnknown,
    ConstraintViolated,
    DeltaConcurrentModificationException,
    InvalidInput,
    RowlockError,
    SchemaMismatch,
    StatementRefused,
    TableExists,
    TableNotFound,
    VersionNotFound,
)
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit, FileKey, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.properties import MANIFESTS
from rowlock.storage.store import StorageError
from rowlock_simulation.memory.sql.script import Append, Delete, Merge, Optimize, Overwrite, Script, Update
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Plan
from rowlock_simulation.roles import COLUMNS, REMADE
from rowlock_simulation.serial import SerialTable


def without_reason(plan: Plan, outcome: Outcome) -> bool:
    """Whether an action failed with an error that nothing in its plan is a reason for.  Errors of stores have theirs: each plan has faults."""
    error, kind, text = outcome.error, outcome.action.kind, str(outcome.error)
    match error:
        case SchemaMismatch():
            return any(f"there is no column {c!r}" in text for c in COLUMNS) or "there is no column" not in text
        case ConstraintViolated():
            return not any(a.alter[:1] in (("add constraint",), ("set not null",)) for actor in plan.actors for a in actor.actions)
        case StatementRefused():
            refuses = any(a.properties.get("delta.appendOnly") == "true" for actor in plan.actors for a in actor.actions)
            drops = "being dropped" in text and any(a.kind == "drop feature" for actor in plan.actors for a in actor.actions)
            return not (refuses or kind in ("alter", "drop feature", "clone") or drops or (kind == "restore" and plan.night_s > 0))
        case InvalidInput():
            if MANIFESTS in plan.properties and "WITH_INCREMENTAL_MANIFEST" in text:
                return False
            return kind != "alter" and not (kind == "stream" and "which a stream of rows cannot show" in text)
        case StorageError():
            return ("status code: 403" in text or "status code: 401" in text) and "access was denied: check" not in text
        case VersionNotFound():
            return plan.night_s == 0 and not any(f.kind == "stale list" for f in plan.faults)
        case TableExists():
            return kind != "clone"
        case TableNotFound():
            young = any(f.kind == "stale list" for f in plan.faults)  # a bucket as it was before the table was made
            return outcome.action.table == outcome.action.source == 0 and plan.theme != REMADE and not young
        case CommitUnknown() | DeltaConcurrentModificationException():
            return False  # which is judged by the policy
        case _:
            return not isinstance(error, RowlockError)


def counted(serial: SerialTable, script: Script, *, copies: bool = True) -> dict[str, int]:
    """The operation metrics of a statement that is carried out on these rows; empty for those that count no rows.  Only one that `copies` may have copied some."""
    if isinstance(script, Append):
        return {"numOutputRows": len(script.rows)}
    if not isinstance(script, (Update, Delete, Merge)):
        return {}
    touched = serial.touched(script)
    inserted, deleted = sum(old is None for old, _ in touched), sum(new is None for _, new in touched)
    updated = len(touched) - inserted - deleted
    copied = {} if copies else {"numTargetRowsCopied" if isinstance(script, Merge) else "numCopiedRows": 0}
    if isinstance(script, Merge):
        return copied | {"numSourceRows": len(script.rows), "numTargetRowsInserted": inserted, "numTargetRowsUpdated": updated, "numTargetRowsDeleted": deleted}
    return copied | ({"numUpdatedRows": updated} if isinstance(script, Update) else {"numDeletedRows": deleted})


def files_counted(commit: Commit, script: Script) -> dict[str, int]:
    """The operation metrics of the files that a commit of one statement adds and removes; one that only gets another vector is neither."""
    rewritten = {add.path for add in commit.adds} & {remove.path for remove in commit.removes}
    added, removed = [a for a in commit.adds if a.path not in rewritten], [r for r in commit.removes if r.path not in rewritten]
    sizes = sum(a.size_bytes for a in added), sum(r.size_bytes or 0 for r in removed)
    match script:
        case Append():
            return {"numFiles": len(added), "numOutputBytes": sizes[0]}
        case Overwrite():
            return {}
        case Merge():
            names = "numTargetFilesAdded", "numTargetFilesRemoved", "numTargetBytesAdded", "numTargetBytesRemoved"
        case _:
            names = "numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes"
    if isinstance(script, Optimize):
        by_size = sorted(a.size_bytes for a in added)
        return dict(zip(names, (len(added), len(removed), *sizes), strict=True)) | ({"minFileSize": by_size[0], "maxFileSize": by_size[-1]} if added else {})
    changes = {"numTargetChangeFilesAdded" if isinstance(script, Merge) else "numAddedChangeFiles": len(commit.cdc)}
    return dict(zip(names, (len(added), len(removed), *sizes), strict=True)) | changes


def miscounted(commit: Commit, wanted: Mapping[str, int]) -> str:
    """The metrics of a commit that differ from those of serial execution, as text; empty where they agree."""
    recorded: Mapping[str, Any] = (commit.info.raw.get("operationMetrics") or {}) if commit.info is not None else {}
    return ", ".join(f"{name} is {recorded.get(name)}, not {n}" for name, n in wanted.items() if str(recorded.get(name)) != str(n))


def _fields_of(add: AddFile) -> tuple[int, int, int | None, int | None, int | None, dict[str, str]]:
    """The fields of a file that are the same however its snapshot was read: size, time, row ids, number of rows and tags.  Statistics may come as JSON or as a struct."""
    return add.size_bytes, add.modification_time_ms, add.base_row_id, add.default_row_commit_version, add.num_records, dict(add.tags or {})


class Folded:
    """Live files, steps of applications, definition and removed files of every version, out of the raw actions."""

    def __init__(self) -> None:
        self._versions: list[tuple[dict[tuple[str, str | None], Any], dict[str, int], Metadata | None, Protocol | None]] = []
        self._files: dict[str, tuple[FileKey, Any]] = {}
        self._steps: dict[str, SetTransaction] = {}
        self._removed: dict[tuple[str, str | None], RemoveFile] = {}
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None

    def apply(self, commit: Commit) -> None:
        """Takes a commit in."""
        self._metadata, self._protocol = commit.metadata or self._metadata, commit.protocol or self._protocol
        for remove in commit.removes:
            self._files.pop(remove.path, None)
            self._removed[remove.key] = remove
        self._files |= {add.path: (add.key, _fields_of(add)) for add in commit.adds}
        self._steps |= {step.app_id: step for step in commit.txns}
        self._versions.append((dict(self._files.values()), {app: step.version for app, step in self._steps.items()}, self._metadata, self._protocol))

    def definition(self, version: int) -> tuple[Metadata, Protocol]:
        """Metadata and protocol of a version."""
        _, _, metadata, protocol = self._versions[version]
        assert metadata is not None and protocol is not None
        return metadata, protocol

    def differences(self, snapshot: Snapshot) -> Sequence[str]:
        """Where a snapshot differs from the log, as sentences."""
        files, steps, metadata, protocol = self._versions[snapshot.version]
        pairs: dict[str, tuple[Any, Any]] = {
            "files": ({add.key: _fields_of(add) for add in snapshot.files.adds()}, files),
            "the number of files": (len(snapshot.files), len(files)),
            "the size": (snapshot.files.total_size_bytes, sum(size for size, *_ in files.values())),
            "steps of applications": ({app: step.version for app, step in snapshot.txns.items()}, steps),
            "the definition": (snapshot.metadata, metadata),
            "the protocol": (snapshot.protocol, protocol),
        }
        return [f"{what} of version {snapshot.version}: {found}, by the log {real}"[:400] for what, (found, real) in pairs.items() if found != real]

    def tombstones(self, found: Sequence[RemoveFile], *, all_of_them: bool) -> Sequence[str]:
        """What is wrong with the removed files that the next checkpoint of the newest version would hold."""
        real = self._removed.keys() - {key for key, _ in self._files.values()}
        keys = {remove.key for remove in found}
        wrong = keys - real if not all_of_them else keys ^ real
        return [f"removed files, by checkpoints or by the log alone: {sorted(wrong, key=str)}"] if wrong else []
