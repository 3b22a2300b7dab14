"""Checks one table: reads the facts, which the other modules of this folder judge.  Writes nothing and completes no other writer's commit."""

from __future__ import annotations

from rowlock import clock, progress
from rowlock.exceptions import CorruptLog, RowlockError, UnsupportedFeature
from rowlock.log.segment import list_table, read_hint
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.commits import Commits, arbiter_findings, read_arbitration
from rowlock.maintenance.check.contents import Feeds, content_findings, read_contents, row_ids
from rowlock.maintenance.check.files import NamedFiles, data_file_findings
from rowlock.maintenance.check.finding import Finding, Report, by_weight, finding
from rowlock.maintenance.check.log import Versions, checkpoint_findings, log_file_findings, steps
from rowlock.protocol.features import check_writable, neighbours
from rowlock.protocol.prepared import open_version
from rowlock.storage.dynamodb import ArbitratedStore
from rowlock.storage.store import ObjectStore

_ALL = 1 << 62


def check(store: ObjectStore, *, commits: int = 100, files: int = 1_000, footers: int = 20, deep: bool = False) -> Report:
    """Checks the log's file names, the newest `commits` commits and as many checkpoints, at most `files` live files and the footers of at most `footers`.

    With `deep` every version is built and every live file is read whole.  Raises TableNotFound if there is no table,
    StorageError if the store or the arbiter does not answer.
    """
    with progress.work("check of", store.root):
        return _checked(store, *((_ALL,) * 3 if deep else (commits, files, footers)), deep)


def _checked(store: ObjectStore, commits: int, files: int, footers: int, deep: bool) -> Report:
    arbiter = store if isinstance(store, ArbitratedStore) else None
    inner = arbiter.inner if arbiter else store
    listed = list_table(inner)
    findings = log_file_findings(listed, read_hint(inner))
    judged, versions = Commits(inner, frozenset(f.version for f in listed if f.kind == "checksum")), Versions()
    feeds, named = Feeds(), NamedFiles()
    for step in steps(inner, listed, commits, versions if deep else None):
        judged.take(step)
        if deep:
            feeds.take(inner, step)
            named.take(step)
    findings += judged.findings(arbitrated=arbiter is not None)
    findings += arbiter_findings(judged.seen, read_arbitration(inner, arbiter, commits), clock.now_ms() // 1000)
    of_checkpoints, opened = checkpoint_findings(inner, listed, commits)
    findings += [*of_checkpoints, *versions.findings(), *feeds.findings()]
    looked_at = {"commits": len(judged.seen), "checkpoints": opened}
    deeper = {"versions": versions.opened, "change feeds": feeds.compared} if deep else {}
    try:
        head = TableLog(inner).latest()
    except CorruptLog as e:
        if not any(f.level == "damage" for f in findings):
            findings.append(finding("log-does-not-read", str(e), () if e.version is None else (e.version,), (e.file,) if e.file else ()))
        return Report(store.root, None, by_weight(findings), looked_at=looked_at | deeper)
    except UnsupportedFeature as e:
        return Report(store.root, None, by_weight([*findings, finding("cannot-be-read-here", str(e))]), looked_at=looked_at)
    try:
        check_writable(head.protocol, head.metadata, store.root)
    except RowlockError as e:
        findings.append(finding("cannot-be-written-here", str(e)))
    if (prepared := open_version(head.txns, head.metadata.id)) is not None:
        text = f"a transaction over several tables was prepared in version {prepared} and is open since then"
        findings.append(finding("transaction-open", text, (prepared,)))
    broken, counts = data_file_findings(inner, head, files=files, footers=footers)
    findings += [*judged.moved.findings(head.schema), *broken]
    if deep:
        of_files, whole = _whole_files(inner, head)
        findings += [*of_files, *named.findings(inner, head)]
        deeper |= {"files read whole": whole}
    beside = neighbours(head.protocol, store.root, arbitrated=arbiter is not None)
    return Report(store.root, head.version, by_weight(findings), beside, looked_at | counts | deeper)


def _whole_files(store: ObjectStore, head: Snapshot) -> tuple[list[Finding], int]:
    """(the findings in the live files, the number of files read)."""
    read = list(read_contents(store, head))
    return [*content_findings(read), *row_ids(head, read).findings()], sum(not c.unreadable for c in read)
