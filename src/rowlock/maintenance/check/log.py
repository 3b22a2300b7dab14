"""Checks `_delta_log`: the names of its files, its checkpoints, and, version by version, the table that results from its commits.

A deep check opens every version that can be built, one commit after the other, and compares the checkpoints and checksums on the way with the
commits.  The commits are the truth: a checkpoint that differs from the commits before it is damaged, and so is a checksum.  At most two
versions are in memory at a time, and share their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rowlock import progress
from rowlock.exceptions import CorruptLog, UnsupportedFeature
from rowlock.limits import limits
from rowlock.log import checksums, replay
from rowlock.log.checkpoint_reader import sidecars_of
from rowlock.log.segment import Segment, complete_checkpoints
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.finding import Finding, finding, of_versions, spans
from rowlock.protocol import names
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.names import LogFile
from rowlock.storage.store import NotFound, ObjectStore
from rowlock.threads import side_by_side

_NAMED = 3


def log_file_findings(files: Sequence[LogFile], hint: int | None) -> list[Finding]:
    """Findings about the files of the whole log; `hint` is the version that `_last_checkpoint` names, None without one."""
    return [*_gaps(files), *_checkpoints(files, hint)]


def _gaps(files: Sequence[LogFile]) -> Iterable[Finding]:
    versions = sorted(f.version for f in files if f.kind == "commit")
    whole = sorted({c[0].version for c in complete_checkpoints(files)})
    if not versions:
        return
    newest = max([versions[-1], *whole])
    present = set(versions)
    base = whole[-1] if whole else -1
    if needed := [v for v in range(base + 1, newest + 1) if v not in present]:
        yield finding("gap-in-log", f"commits that the newest version needs are missing: {spans(needed)}", needed, map(names.commit_key, needed))
    oldest = versions[0]
    if older := [v for v in range(oldest, base + 1) if v not in present]:
        text = f"commits are missing from the history before checkpoint {base}: {spans(older)}. The newest version does not need them; time travel there fails"
        yield finding("gap-in-history", text, older)


def _checkpoints(files: Sequence[LogFile], hint: int | None) -> Iterable[Finding]:
    complete = complete_checkpoints(files)
    whole = {f.key for c in complete for f in c}
    if broken := [f for f in files if f.is_checkpoint and f.key not in whole]:
        versions = sorted({f.version for f in broken})
        yield finding("checkpoint-not-whole", f"a checkpoint is empty or lacks parts and is not used: {spans(versions)}", versions, (f.key for f in broken))
    if hint is not None and not any(c[0].version == hint for c in complete):
        text = f"_last_checkpoint names version {hint}, for which there is no complete checkpoint; the log is listed instead"
        yield finding("hint-leads-nowhere", text, (hint,), (names.LAST_CHECKPOINT,))


def checkpoint_findings(store: ObjectStore, files: Sequence[LogFile], most: int) -> tuple[list[Finding], int]:
    """Findings about the newest `most` complete checkpoints among the log's files, and how many were opened.  Raises StorageError."""
    opened = complete_checkpoints(files)[-most:] if most else []
    results = side_by_side(lambda c: _sidecars(store, c), opened, limits().request_threads)
    wanted = sorted({key for sidecars in results if isinstance(sidecars, set) for key in sidecars})
    gone = {key for key, size in zip(wanted, side_by_side(store.head, wanted, limits().request_threads), strict=True) if size is None}
    findings = list[Finding]()
    if broken := [(c, result) for c, result in zip(opened, results, strict=True) if isinstance(result, CorruptLog)]:
        what, files_ = "checkpoints cannot be read, and so the versions from each to the next cannot", [result.file or c[0].key for c, result in broken]
        findings += of_versions("checkpoint-does-not-read", what, {c[0].version: result for c, result in broken}, files_)
    if lacking := [c[0].version for c, result in zip(opened, results, strict=True) if isinstance(result, set) and result & gone]:
        text = f"sidecar files of checkpoints are missing, and so the versions from each checkpoint to the next cannot be read: {spans(lacking)}"
        findings.append(finding("sidecar-missing", text, lacking, sorted(gone)))
    return findings, len(opened)


def _sidecars(store: ObjectStore, checkpoint: Sequence[LogFile]) -> set[str] | CorruptLog:
    try:
        return sidecars_of(store, checkpoint)
    except CorruptLog as e:
        return e


@dataclass(frozen=True, slots=True)
class Step:
    """One version: its commit, None if that is gone or cannot be read (`broken` has the error); the table before and after it, None if they are not built."""

    version: int
    commit: Commit | None = None
    before: Snapshot | None = None
    after: Snapshot | None = None
    broken: CorruptLog | None = None


@dataclass(slots=True)
class Versions:
    """The result of a walk through all versions of the log.

    opened       how many versions could be built
    closed       why the others could not be, by version
    checkpoints  the checkpoints that cannot be read or differ from the commits, with what is wrong, by the key of their first file
    checksums    what is wrong with checksum files, by version
    contested    the versions whose checksum has another txnId than the commit: two writers committed them
    """

    opened: int = 0
    closed: dict[int, str] = field(default_factory=dict)
    checkpoints: dict[str, tuple[tuple[LogFile, ...], str]] = field(default_factory=dict)
    checksums: dict[int, str] = field(default_factory=dict)
    contested: set[int] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """At most one finding of each kind."""
        if self.checkpoints:
            versions = tuple(sorted(files[0].version for files, _ in self.checkpoints.values()))
            why = "; ".join(f"{key}: {text}" for key, (_, text) in list(self.checkpoints.items())[:_NAMED])
            text = f"checkpoints cannot be read or contradict the commits ({spans(versions)}): {why}"
            yield finding("checkpoint-wrong", text, versions, self.checkpoints)
        wrong = {v: text for v, text in self.checksums.items() if v not in self.contested}
        yield from of_versions("checksum-wrong", "checksums cannot be read or differ from the log", wrong, map(names.checksum_key, wrong))
        yield from of_versions("versions-not-opened", "versions of which the log still holds commits cannot be built", self.closed)


def steps(store: ObjectStore, listed: Sequence[LogFile], most: int, walked: Versions | None) -> Iterator[Step]:
    """The newest `most` commits, oldest first; with `walked`, which is filled, every version, built."""
    versions = sorted(f.version for f in listed if f.kind == "commit")[-most:]
    total = len(versions) if walked is None else len({f.version for f in listed if f.kind == "commit" or f.is_checkpoint})
    for n, step in enumerate((_read(store, v) for v in versions) if walked is None else walk(store, listed, walked), 1):
        yield step
        progress.count(n, total, "versions")


def _read(store: ObjectStore, version: int) -> Step:
    try:
        return Step(version, replay.read_commit(store, version))
    except CorruptLog as e:
        return Step(version, broken=e)


def walk(store: ObjectStore, listed: Sequence[LogFile], walked: Versions) -> Iterator[Step]:
    """Every version that has a commit or a checkpoint in the log, oldest first.  Fills `walked` on the way."""
    commits = {f.version: f for f in listed if f.kind == "commit"}
    checksummed = {f.version for f in listed if f.kind == "checksum"}
    checkpoints: dict[int, list[tuple[LogFile, ...]]] = {}
    for files in complete_checkpoints(listed):
        checkpoints.setdefault(files[0].version, []).append(files)
    state: Snapshot | None = None
    for version in sorted({*commits, *checkpoints}):
        before = state if state is not None and state.version == version - 1 else None
        read, state = _read(store, version) if version in commits else Step(version), None
        try:
            if read.broken is not None:
                raise read.broken
            state = _after(store, before, read.commit, commits.get(version))
        except (CorruptLog, UnsupportedFeature) as e:
            walked.closed[version] = str(e)
        for files in checkpoints.get(version, ()):
            state = _compared(store, files, commits.get(version), state, walked)
        if state is not None:
            walked.opened += 1
            walked.closed.pop(version, None)
        else:
            walked.closed.setdefault(version, f"neither the version before {version} nor a checkpoint of it can be built")
        if version in checksummed:
            _compare_checksum(store, version, state, walked)
        yield replace(read, before=before, after=state)


def _after(store: ObjectStore, before: Snapshot | None, commit: Commit | None, file: LogFile | None) -> Snapshot | None:
    """The version after a commit on the one before it; None if that is not known."""
    if commit is None or file is None:
        return None
    if before is not None:
        return replay.advance(before, [commit])
    return replay.load(store, Segment(0, (), (file,), file)) if file.version == 0 else None


def _compared(store: ObjectStore, files: tuple[LogFile, ...], commit: LogFile | None, state: Snapshot | None, walked: Versions) -> Snapshot | None:
    """The version from its checkpoint if the commits do not yield it, else the one from the commits."""
    try:
        loaded = replay.load(store, Segment(files[0].version, files, (), commit))
    except CorruptLog as e:
        walked.checkpoints[files[0].key] = files, str(e)
        return state
    except UnsupportedFeature:
        return state
    if state is None:
        return loaded
    if differing := differences(loaded, state):
        walked.checkpoints[files[0].key] = files, "; ".join(differing)
    return state


def differences(checkpoint: Snapshot, log: Snapshot) -> list[str]:
    """The differences of a checkpoint from the commits of its version, as phrases."""
    out = [f"its {name} is another" for name in ("protocol", "metadata") if getattr(checkpoint, name) != getattr(log, name)]
    if dict(checkpoint.domains) != dict(log.domains):
        out.append("its metadata domains are others")
    if any(log.txns.get(app) != txn for app, txn in checkpoint.txns.items()):
        out.append("its versions of applications are others")
    if _fingerprint(checkpoint) != _fingerprint(log):
        here, there = ({_identity(a): a.path for a in s.files.adds()} for s in (checkpoint, log))
        lacking, added = ([paths[k] for k in paths if k not in others] for paths, others in ((there, here), (here, there)))
        out += [f"{text} {', '.join(sorted(files)[:_NAMED])} ({len(files):,})" for text, files in (("it lacks", lacking), ("it holds besides", added)) if files]
    return out


def _identity(add: AddFile) -> tuple[object, ...]:
    return add.path, add.key[1], add.dead_rows, add.size_bytes, add.base_row_id, add.default_row_commit_version, add.num_records


def _fingerprint(snapshot: Snapshot) -> tuple[int, int]:
    """The number of files, and a sum over them that differs if one does, so that no list of all is needed."""
    return len(snapshot.files), sum(hash(_identity(a)) for a in snapshot.files.adds())


def _compare_checksum(store: ObjectStore, version: int, state: Snapshot | None, walked: Versions) -> None:
    try:
        data = store.get(names.checksum_key(version))
    except NotFound:
        return
    if state is not None and (differing := checksums.differences(data, state)):
        walked.checksums[version] = "; ".join(differing)
        if any(text.startswith("txnId ") for text in differing):
            walked.contested.add(version)
