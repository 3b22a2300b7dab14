"""Checks `_delta_log`: the names of its files, its checkpoints, and, version by version, what its commits make of the table.

A deep check opens every version that can be built, one commit after the other, and compares the checkpoints and checksums on the way with the
commits.  The commits are the truth: a checkpoint that says otherwise than the commits before it is damaged, and so is a checksum.  At most two
versions are held at a time, which share their files.
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
    named = side_by_side(lambda c: _sidecars(store, c), opened, limits().request_threads)
    wanted = sorted({key for sidecars in named if isinstance(sidecars, set) for key in sidecars})
    gone = {key for key, size in zip(wanted, side_by_side(store.head, wanted, limits().request_threads), strict=True) if size is None}
    findings = list[Finding]()
    if broken := [(c, said) for c, said in zip(opened, named, strict=True) if isinstance(said, CorruptLog)]:
        what, files_ = "checkpoints cannot be read, and so the versions from each to the next cannot", [said.file or c[0].key for c, said in broken]
        findings += of_versions("checkpoint-does-not-read", what, {c[0].version: said for c, said in broken}, files_)
    if lacking := [c[0].version for c, said in zip(opened, named, strict=True) if isinstance(said, set) and said & gone]:
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
    """One version: its commit, None where that is gone or cannot be read (`broken` says why); the table before and after it, None where they are not built."""

    version: int
    commit: Commit | None = None
    before: Snapshot | None = None
    after: Snapshot | None = None
    broken: CorruptLog | None = None


@dataclass(slots=True)
class Versions:
    """What was found on a walk through the log.

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
            text = f"checkpoints cannot be read or do not say what the commits say ({spans(versions)}): {why}"
            yield finding("checkpoint-wrong", text, versions, self.checkpoints)
        wrong = {v: text for v, text in self.checksums.items() if v not in self.contested}
        yield from of_versions("checksum-wrong", "checksums cannot be read or differ from the log", wrong, map(names.checksum_key, wrong))
        yield from of_versions("versions-not-opened", "versions of which the log still holds commits cannot be built", self.closed)


def steps(store: ObjectStore, listed: Sequence[LogFile], most: int, found: Versions | None) -> Iterator[Step]:
    """The newest `most` commits, oldest first; with `found`, which is filled, every version, built."""
    versions = sorted(f.version for f in listed if f.kind == "commit")[-most:]
    total = len(versions) if found is None else len({f.version for f in listed if f.kind == "commit" or f.is_checkpoint})
    for n, step in enumerate((_read(store, v) for v in versions) if found is None else walk(store, listed, found), 1):
        yield step
        progress.count(n, total, "versions")


def _read(store: ObjectStore, version: int) -> Step:
    try:
        return Step(version, replay.read_commit(store, version))
    except CorruptLog as e:
        return Step(version, broken=e)


def walk(store: ObjectStore, listed: Sequence[LogFile], found: Versions) -> Iterator[Step]:
    """Every version that the log has a commit or a checkpoint of, oldest first.  Fills `found` on the way."""
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
            found.closed[version] = str(e)
        for files in checkpoints.get(version, ()):
            state = _compared(store, files, commits.get(version), state, found)
        if state is not None:
            found.opened += 1
            found.closed.pop(version, None)
        else:
            found.closed.setdefault(version, f"neither the version before {version} nor a checkpoint of it can be built")
        if version in checksummed:
            _compare_checksum(store, version, state, found)
        yield replace(read, before=before, after=state)


def _after(store: ObjectStore, before: Snapshot | None, commit: Commit | None, file: LogFile | None) -> Snapshot | None:
    """The version that a commit makes of the one before it; None where that is not known."""
    if commit is None or file is None:
        return None
    if before is not None:
        return replay.advance(before, [commit])
    return replay.load(store, Segment(0, (), (file,), file)) if file.version == 0 else None


def _compared(store: ObjectStore, files: tuple[LogFile, ...], commit: LogFile | None, state: Snapshot | None, found: Versions) -> Snapshot | None:
    """The version by its checkpoint where the commits do not give it, else as they give it."""
    try:
        loaded = replay.load(store, Segment(files[0].version, files, (), commit))
    except CorruptLog as e:
        found.checkpoints[files[0].key] = files, str(e)
        return state
    except UnsupportedFeature:
        return state
    if state is None:
        return loaded
    if said := differences(loaded, state):
        found.checkpoints[files[0].key] = files, "; ".join(said)
    return state


def differences(checkpoint: Snapshot, log: Snapshot) -> list[str]:
    """What a checkpoint says otherwise than the commits of its version."""
    out = [f"its {name} is another" for name in ("protocol", "metadata") if getattr(checkpoint, name) != getattr(log, name)]
    if dict(checkpoint.domains) != dict(log.domains):
        out.append("its metadata domains are others")
    if any(log.txns.get(app) != txn for app, txn in checkpoint.txns.items()):
        out.append("its versions of applications are others")
    if _fingerprint(checkpoint) != _fingerprint(log):
        here, there = ({_identity(a): a.path for a in s.files.adds()} for s in (checkpoint, log))
        lacking, added = ([paths[k] for k in paths if k not in others] for paths, others in ((there, here), (here, there)))
        out += [f"{text} {', '.join(sorted(found)[:_NAMED])} ({len(found):,})" for text, found in (("it lacks", lacking), ("it holds besides", added)) if found]
    return out


def _identity(add: AddFile) -> tuple[object, ...]:
    vector = add.deletion_vector.cardinality if add.deletion_vector else 0
    return add.path, add.key[1], vector, add.size_bytes, add.base_row_id, add.default_row_commit_version, add.num_records


def _fingerprint(snapshot: Snapshot) -> tuple[int, int]:
    """The number of files, and a sum over them that differs where one does, so that no list of all is held."""
    return len(snapshot.files), sum(hash(_identity(a)) for a in snapshot.files.adds())


def _compare_checksum(store: ObjectStore, version: int, state: Snapshot | None, found: Versions) -> None:
    try:
        data = store.get(names.checksum_key(version))
    except NotFound:
        return
    if state is not None and (said := checksums.differences(data, state)):
        found.checksums[version] = "; ".join(said)
        if any(text.startswith("txnId ") for text in said):
            found.contested.add(version)
