"""Judges a table's commits, oldest first: their engines, overwritten ones, those that added files twice or moved rows between partitions, and those that
bypassed the DynamoDB arbiter, whose entries and temporary files are compared with the log.

Certain: an entry whose bytes differ from those of the commit file (a writer put the file without the arbiter), and one
version with entries under two spellings of the table's path.  A missing entry proves nothing by itself, since entries
expire and may be deleted; it is a suspicion, and only if an older entry exists that should have expired first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.maintenance.check.finding import Finding, Level, finding, of_versions, spans
from rowlock.maintenance.check.log import Step
from rowlock.protocol import names
from rowlock.protocol.actions import AddFile, Commit, CommitInfo, FileKey, RemoveFile
from rowlock.protocol.features import store_kind
from rowlock.protocol.partition_values import parse_stored, serialize
from rowlock.protocol.paths import partition_directory
from rowlock.protocol.schema import DataType, StructType
from rowlock.storage.dynamodb import ArbitratedStore, Entry
from rowlock.storage.dynamodb.entries import spellings
from rowlock.storage.store import NotFound, ObjectStore, json_object

_MOST_PATHS = 500_000
_ENGINES = (
    ("Rowlock/", "Rowlock"),
    ("Databricks", "Databricks"),
    ("Delta-Lake/", "delta-spark"),
    ("delta-rs", "delta-rs"),
    ("Kernel", "Delta Kernel"),
    ("trino", "Trino"),
)
_MAY_OVERWRITE = {
    "local": (
        "delta-spark-on-local-disk",
        "a local disk. It is certain that delta-spark overwrites a version that appears between its check and its rename.",
        "The log does not say whether they ever wrote at the same moment",
    ),
    "s3": (
        "delta-spark-without-arbiter",
        "S3, and no arbiter is set here. delta-spark's usual LogStore keeps order only within one driver.",
        "The log does not say which LogStore wrote, nor whether they ever wrote at the same moment",
    ),
}
"""By kind of store: the code and the text of the finding that delta-spark may overwrite commits."""
_Partition = tuple[tuple[str, str | None], ...]
_Counted = tuple[_Partition | None, int | None]
"""A file's partition as the log spells it, and its number of live rows; None for what the log does not record."""


class Commits:
    """The facts of a table's commits, collected from `log.steps`."""

    def __init__(self, store: ObjectStore, checksummed: frozenset[int]) -> None:
        self._store, self._checksummed = store, checksummed
        self._broken: dict[int, CorruptLog] = {}
        self._files, self.moved = LogicalFiles(), MovedRows()
        self.seen: list[SeenCommit] = []

    def take(self, step: Step) -> None:
        """Adds the next version."""
        if step.broken is not None:
            self._broken[step.version] = step.broken
        if (commit := step.commit) is not None:
            self._files.take(commit)
            self.moved.take(commit)
            txn_id = commit.info.txn_id if commit.info else None
            other = _checksum_txn_id(self._store, step.version) if txn_id and step.version in self._checksummed else None
            self.seen.append(SeenCommit(step.version, engine_of(commit.info), txn_id, other))

    def findings(self, *, arbitrated: bool) -> list[Finding]:
        """The findings that need no snapshot."""
        broken = of_versions("commit-does-not-read", "commits cannot be read", self._broken, map(names.commit_key, self._broken))
        return [*(broken or self._files.findings()), *writer_findings(self.seen, self._store.root, arbitrated=arbitrated)]


@dataclass(frozen=True, slots=True)
class SeenCommit:
    """A commit's engine and txnId; `checksum_txn_id` is the txnId in its checksum file.

    If the two differ, two writers committed the same version and the file holds the later commit: this is proof.
    """

    version: int
    engine: str
    txn_id: str | None = None
    checksum_txn_id: str | None = None


def engine_of(info: CommitInfo | None) -> str:
    """The engine's usual name by commitInfo's engineInfo; for an unknown engine its engineInfo as it is."""
    stated = (info.raw.get("engineInfo") or info.raw.get("clientVersion")) if info else None
    if not isinstance(stated, str) or not stated.strip():
        return "an unnamed engine"
    return next((name for mark, name in _ENGINES if mark.lower() in stated.lower()), stated.strip())


def writer_findings(commits: Sequence[SeenCommit], root: str, *, arbitrated: bool) -> list[Finding]:
    """Findings about overwritten commits, and about engines that may overwrite commits on this kind of store."""
    out, kind = list[Finding](), store_kind(root)
    if twice := [c.version for c in commits if c.txn_id and c.checksum_txn_id and c.txn_id != c.checksum_txn_id]:
        how = " delta-spark does that on a local disk, where it renames onto existing files." if kind == "local" else ""
        text = f"two writers committed {spans(twice)}: the checksum is of another transaction than the commit file, so one of the two was overwritten and its changes are lost.{how}"
        out.append(finding("version-committed-twice", text, twice, map(names.checksum_key, twice)))
    others = sorted({c.engine for c in commits} - {"delta-spark"})
    spark = [c.version for c in commits if c.engine == "delta-spark"]
    if spark and others and not arbitrated and kind in _MAY_OVERWRITE:
        code, where, when = _MAY_OVERWRITE[kind]
        out.append(finding(code, f"delta-spark ({spans(spark)}) and {', '.join(others)} have written this table on {where} {when}", spark))
    return out


def _checksum_txn_id(store: ObjectStore, version: int) -> str | None:
    """The txnId in a version's checksum file; None if there is none or it cannot be parsed, since checksums are optional."""
    value = (json_object(store, names.checksum_key(version)) or {}).get("txnId")
    return value if isinstance(value, str) else None


class LogicalFiles:
    """Finds files that are live twice: two adds of one path with different deletion vectors.

    Readers identify a file by (path, vector).  A remove that names a stale vector, or none, removes nothing, and the add
    in the same commit then adds the same rows once more (I4).  Only paths that were added within the given commits are found.
    """

    def __init__(self) -> None:
        self._live: dict[str, dict[FileKey, int]] = {}

    def take(self, commit: Commit) -> None:
        """Applies the next commit."""
        for remove in commit.removes:
            if (of_path := self._live.get(remove.path)) is not None:
                of_path.pop(remove.key, None)
                if not of_path:
                    del self._live[remove.path]
        for add in commit.adds:
            if add.path in self._live or len(self._live) < _MOST_PATHS:
                self._live.setdefault(add.path, {})[add.key] = commit.version

    def findings(self) -> Iterable[Finding]:
        """At most one finding, which names all paths that are live with two deletion vectors."""
        twice = {path: max(keys.values()) for path, keys in self._live.items() if len(keys) > 1}
        if twice:
            files = sorted(twice)
            text = f"files are live twice, with different deletion vectors, so that other readers return their rows twice ({spans(twice.values())} did not remove the earlier entry)"
            more = f" and {len(files) - 3:,} more" if len(files) > 3 else ""
            yield finding("file-lives-twice", f"{text}: {', '.join(files[:3])}{more}", sorted(set(twice.values())), files)


class MovedRows:
    """Finds commits with dataChange=false that moved rows into another partition.

    A compaction leaves every row in its partition.  So a commit is wrong if its new files have a partition value that its
    removed files did not have, or if a partition has fewer or more rows than before.  Only the given commits are examined;
    a partition value that was wrong when its row was written leaves no such trace.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[list[_Counted], list[_Counted]]] = {}
        self._rows: dict[str, int] = {}

    def take(self, commit: Commit) -> None:
        """Adds the next commit."""
        changes = [a.data_change for a in commit.adds] + [r.data_change for r in commit.removes]
        if commit.adds and commit.removes and not any(changes) and any(a.partition_values for a in commit.adds):
            self._seen[commit.version] = [self._counted(r) for r in commit.removes], [self._counted(a) for a in commit.adds]
        for add in commit.adds:
            if add.num_records is not None:
                self._rows[add.path] = add.num_records

    def _counted(self, file: AddFile | RemoveFile) -> _Counted:
        rows = file.num_records if isinstance(file, AddFile) else self._rows.get(file.path)
        dead = file.deletion_vector.cardinality if file.deletion_vector else 0
        return None if file.partition_values is None else tuple(sorted(file.partition_values.items())), None if rows is None else rows - dead

    def findings(self, schema: StructType) -> Iterable[Finding]:
        """At most one finding, which names all such commits; `schema` gives the types of the partition columns."""
        types = {f.physical_name: f.type for f in schema.fields}
        moved = {
            v: wrong for v, (before, after) in self._seen.items() if (wrong := _changed_partitions(_by_partition(before, types), _by_partition(after, types)))
        }
        if moved:
            named = f"a partition has other rows than before: {min(next(iter(moved.values()))) or 'that of null'}"
            yield finding("rows-in-another-partition", f"{spans(moved)} says that no data changed (dataChange=false), yet {named}", moved)


def _by_partition(files: Iterable[_Counted], types: Mapping[str, DataType]) -> dict[str, int | None] | None:
    """Live rows by partition, with normalized partition values; a number is None if not known, the result if a value cannot be parsed."""
    out: dict[str, int | None] = {}
    for partition, rows in files:
        name = None if partition is None else _normalized(partition, types)
        if name is None:
            return None
        so_far = out.get(name, 0)
        out[name] = None if rows is None or so_far is None else so_far + rows
    return out


def _normalized(partition: _Partition, types: Mapping[str, DataType]) -> str | None:
    """A partition's folder without its nulls, which delta-spark leaves out of a removed file's values."""
    try:
        return partition_directory({name: value for name, text in partition if (value := serialize(parse_stored(text, types[name]), types[name]))})
    except (CorruptLog, InvalidInput, KeyError):
        return None  # a time without a zone, or a column of an older schema


def _changed_partitions(before: Mapping[str, int | None] | None, after: Mapping[str, int | None] | None) -> list[str]:
    """Partitions whose number of rows certainly changed, and new ones."""
    if before is None or after is None:
        return []
    known = (name for name in {*before, *after} if (a := before.get(name, 0)) is not None and (b := after.get(name, 0)) is not None and a != b)
    return sorted({*known, *(name for name in after if name not in before)})


_TEMPORARY = re.compile(r"/\.tmp/(\d{20})\.json\.[^/]+$")


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """One version's entry in DynamoDB, compared with the files that it names.

    complete       the entry says that the commit file was written
    expire_time_s  when DynamoDB may delete the entry, in seconds since 1970; None: never
    file           None: there is no commit file; True: it holds the entry's bytes; False: it holds other bytes
    bytes_there    whether the temporary file still exists; without it nothing can be compared, and `file` is True if there is a file
    """

    complete: bool
    expire_time_s: int | None
    file: bool | None
    bytes_there: bool


@dataclass(frozen=True, slots=True)
class Arbitration:
    """The state of a DynamoDB arbiter.

    is_set       whether this process is set up to use one
    entries      by the spelling of the table's path (tablePath), and by version
    temporaries  the versions that have temporary files in `_delta_log/.tmp`
    """

    is_set: bool
    entries: Mapping[str, Mapping[int, SeenEntry]] = field(default_factory=dict)
    temporaries: frozenset[int] = frozenset()


def arbiter_findings(commits: Sequence[SeenCommit], seen: Arbitration, now_s: int) -> list[Finding]:
    """Findings about versions that were committed without the arbiter, under two names, or not completely."""
    if not seen.is_set:
        text = f"_delta_log/.tmp holds files of a DynamoDB arbiter ({spans(seen.temporaries)}), but none is set here: commits from here bypass it. It is certain that writers used one, not that they still do"
        return [finding("arbiter-not-set", text, sorted(seen.temporaries))] if seen.temporaries else []
    entries = {v: e for of_name in seen.entries.values() for v, e in of_name.items()}
    return [*_replaced_commits(entries), *_two_names(seen, now_s), *_unfinished(entries), *_without_entry(commits, entries, now_s)]


def _replaced_commits(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if replaced := [v for v, e in sorted(entries.items()) if e.file is False]:
        text = f"the entry in DynamoDB and the commit file belong to different commits ({spans(replaced)}): a writer put the file without asking DynamoDB. A Spark job whose commit was replaced got a success"
        yield finding("claimed-version-holds-another-commit", text, replaced)


def _two_names(seen: Arbitration, now_s: int) -> Iterable[Finding]:
    used = {name: of_name for name, of_name in seen.entries.items() if of_name}
    if len(used) < 2:
        return
    twice = sorted(set.intersection(*(set(of_name) for of_name in used.values())))
    live = [name for name, of_name in used.items() if any(not _expired(e, now_s) for e in of_name.values())]
    if twice:
        what = f", and {spans(twice)} was committed under each of them"
    elif len(live) > 1:
        what = ", and nothing arbitrates between the writers of one name and those of the other"
    else:
        what = "; those of one have expired, so its writers may have been moved to the other"
    listed = " and ".join(f"{name} ({spans(of_name)})" for name, of_name in sorted(used.items()))
    level: Level | None = None if twice or len(live) > 1 else "suspicion"
    yield finding("two-names-in-arbiter", f"the table has entries under two names, {listed}{what}", twice, level=level)


def _unfinished(entries: Mapping[int, SeenEntry]) -> Iterable[Finding]:
    if lost := [v for v, e in sorted(entries.items()) if not e.complete and e.file is None and not e.bytes_there]:
        text = f"{spans(lost)} has an entry in DynamoDB, but neither its commit file nor its temporary file exists: no writer can commit after it"
        yield finding("claimed-bytes-gone", text, lost)
    if open_ := [v for v, e in sorted(entries.items()) if not e.complete and (e.file is not None or e.bytes_there)]:
        text = f"{spans(open_)} has an entry in DynamoDB and is not complete: its writer is at work or has stopped; the next writer or reader completes it"
        yield finding("commit-to-be-finished", text, open_)


def _without_entry(commits: Sequence[SeenCommit], entries: Mapping[int, SeenEntry], now_s: int) -> Iterable[Finding]:
    older = [v for v, e in entries.items() if e.complete and not _expired(e, now_s)]
    if not older:
        return
    first = min(older)
    if missing := {c.version: c.engine for c in commits if c.version > first and c.version not in entries}:
        text = (
            f"{spans(missing)} (by {', '.join(sorted(set(missing.values())))}) has no entry in DynamoDB, though the older version {first} has one that has not expired. "
            "It is only certain that the entry is missing: its writer did not ask the arbiter, or its entries expire sooner (ddb.ttl), or it was deleted"
        )
        yield finding("committed-past-arbiter", text, missing)


def _expired(entry: SeenEntry, now_s: int) -> bool:
    return entry.complete and entry.expire_time_s is not None and entry.expire_time_s <= now_s


def read_arbitration(store: ObjectStore, arbiter: ArbitratedStore | None, most: int) -> Arbitration:
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
        same_bytes: bool | None = store.get(entry.key) == store.get(entry.temp_key) if bytes_there else store.head(entry.key) is not None or None
    except NotFound:
        same_bytes = None
    return SeenEntry(entry.complete, entry.expire_time_s, same_bytes, bytes_there)
