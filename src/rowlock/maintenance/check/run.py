"""Checks one table: reads the facts, which the other modules of this folder judge.  Writes nothing and completes no other writer's commit."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import orjson

from rowlock import clock
from rowlock.exceptions import CorruptLog, RowlockError, TableNotFound, UnsupportedFeature
from rowlock.log import replay
from rowlock.log.segment import list_log, read_hint
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.arbiters import Arbitration, SeenEntry, arbiter_findings
from rowlock.maintenance.check.checkpoints import checkpoint_findings
from rowlock.maintenance.check.data_files import data_file_findings
from rowlock.maintenance.check.deep.all import Tell, deep_findings, silent
from rowlock.maintenance.check.finding import Finding, Report, by_weight, spans
from rowlock.maintenance.check.log_files import log_file_findings
from rowlock.maintenance.check.logical_files import LogicalFiles
from rowlock.maintenance.check.moved_rows import MovedRows
from rowlock.maintenance.check.writers import SeenCommit, engine_of, writer_findings
from rowlock.protocol import names
from rowlock.protocol.features import check_writable
from rowlock.protocol.names import LogFile
from rowlock.protocol.sharing import neighbours
from rowlock.storage.dynamodb import ArbitratedStore, Entry
from rowlock.storage.dynamodb.spelling import spellings
from rowlock.storage.store import NotFound, ObjectStore

_ALL = 1 << 62
_TEMPORARY = re.compile(r"/\.tmp/(\d{20})\.json\.[^/]+$")


def check(store: ObjectStore, *, commits: int = 100, files: int = 1_000, footers: int = 20, deep: bool = False, tell: Tell = silent) -> Report:
    """Checks the log's file names, the newest `commits` commits and as many checkpoints, at most `files` live files and the footers of at most `footers`.

    With `deep` everything is looked at (see `deep`), and `tell` hears of the progress.  Raises TableNotFound where there is no table, StorageError where the store or the arbiter does not answer.
    """
    if deep:
        commits = files = footers = _ALL
    arbiter = store if isinstance(store, ArbitratedStore) else None
    inner = arbiter.inner if arbiter else store
    listed = list_log(inner)
    if not any(f.kind == "commit" or f.is_checkpoint for f in listed):
        raise TableNotFound("there is no Delta table here", table=store.root)
    findings = log_file_findings(listed, read_hint(inner))
    moved = MovedRows()
    seen, said = _commits(inner, listed, commits, moved)
    findings += said
    findings += writer_findings(seen, store.root, arbitrated=arbiter is not None)
    findings += arbiter_findings(seen, _arbitration(inner, arbiter, commits), clock.now_ms() // 1000)
    found, opened = checkpoint_findings(inner, listed, commits)
    findings += found
    looked_at = {"commits": len(seen), "checkpoints": opened}
    try:
        head = TableLog(inner).latest()
    except CorruptLog as e:
        if deep:
            said, more = deep_findings(inner, listed, None, tell)
            findings, looked_at = [*findings, *said], looked_at | more
        if not any(f.level == "damage" for f in findings):
            findings.append(
                Finding("damage", "log-does-not-read", str(e), versions=() if e.version is None else (e.version,), files=(e.file,) if e.file else ())
            )
        return Report(store.root, None, by_weight(findings), looked_at=looked_at)
    except UnsupportedFeature as e:
        return Report(store.root, None, by_weight([*findings, Finding("note", "cannot-be-read-here", str(e))]), looked_at=looked_at)
    try:
        check_writable(head.protocol, head.metadata, store.root)
    except RowlockError as e:
        findings.append(Finding("note", "cannot-be-written-here", str(e)))
    findings += moved.findings(head.schema)
    broken, counts = data_file_findings(inner, head, files=files, footers=footers)
    if deep:
        said, more = deep_findings(inner, listed, head, tell)
        broken, counts = [*broken, *said], counts | more
    beside = neighbours(head.protocol, store.root, arbitrated=arbiter is not None)
    return Report(store.root, head.version, by_weight([*findings, *broken]), beside, looked_at | counts)


def _commits(store: ObjectStore, listed: Sequence[LogFile], most: int, moved: MovedRows) -> tuple[list[SeenCommit], list[Finding]]:
    """Reads the newest commits and their checksums, oldest first; returns them with the findings about them.  Fills `moved`."""
    checksums = {f.version for f in listed if f.kind == "checksum"}
    seen: list[SeenCommit] = []
    broken: dict[int, CorruptLog] = {}
    files = LogicalFiles()
    for version in sorted(f.version for f in listed if f.kind == "commit")[-most:]:
        try:
            commit = replay.read_commit(store, version)
        except CorruptLog as e:
            broken[version] = e
            continue
        if commit is not None:
            files.take(commit)
            moved.take(commit)
            txn_id = commit.info.txn_id if commit.info else None
            seen.append(SeenCommit(version, engine_of(commit.info), txn_id, _checksum_txn_id(store, version) if txn_id and version in checksums else None))
    if not broken:
        return seen, list(files.findings())
    text = f"commits cannot be read: {spans(broken)}. The first: {next(iter(broken.values()))}"
    remedy = "Look for the files in a backup or in older object versions of the store"
    return seen, [Finding("damage", "commit-does-not-read", text, remedy, tuple(broken), tuple(names.commit_key(v) for v in broken))]


def _checksum_txn_id(store: ObjectStore, version: int) -> str | None:
    """The txnId in a version's checksum file; None where there is none or it cannot be read, since checksums are optional."""
    try:
        said = orjson.loads(store.get(names.checksum_key(version)))
    except (NotFound, orjson.JSONDecodeError):
        return None
    value = said.get("txnId") if isinstance(said, dict) else None
    return value if isinstance(value, str) else None


def _arbitration(store: ObjectStore, arbiter: ArbitratedStore | None, most: int) -> Arbitration:
    """Reads the arbiter's entries for the newest `most` versions and the names of its temporary files."""
    temporary = {meta.key: int(match[1]) for meta in store.list(f"{names.LOG_DIRECTORY}/.tmp") if (match := _TEMPORARY.search(meta.key))}
    versions = frozenset(temporary.values())
    if arbiter is None:
        return Arbitration(False, temporaries=versions)
    entries: dict[str, dict[int, SeenEntry]] = {}
    for name in spellings(store.root):
        of_name = {file.version: entry for entry in arbiter.entries.all(name) if (file := names.parse(entry.file_name)) is not None}
        entries[name] = {v: _seen(store, of_name[v], temporary.keys()) for v in sorted(of_name)[-most:]}
    return Arbitration(True, entries, versions)


def _seen(store: ObjectStore, entry: Entry, temporary: Collection[str]) -> SeenEntry:
    """Compares an entry of the DynamoDB arbiter with its commit file, and with the temporary file that it names."""
    bytes_there = entry.temp_key in temporary
    try:
        there: bool | None = store.get(entry.key) == store.get(entry.temp_key) if bytes_there else store.head(entry.key) is not None or None
    except NotFound:
        there = None
    return SeenEntry(entry.complete, entry.expire_time_s, there, bytes_there)
