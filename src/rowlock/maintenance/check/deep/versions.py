"""Opens every version that can be built, one commit after the other, and compares the checkpoints and checksums on the way with the commits.

The commits are the truth: a checkpoint that says otherwise than the commits before it is damaged, and so is a checksum.  At most two versions are
held at a time, which share their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rowlock.exceptions import CorruptLog, UnsupportedFeature
from rowlock.log import checksums, replay
from rowlock.log.segment import Segment, complete_checkpoints
from rowlock.log.snapshot import Snapshot
from rowlock.maintenance.check.finding import Finding, spans
from rowlock.protocol import names
from rowlock.protocol.actions import AddFile, Commit
from rowlock.protocol.names import LogFile
from rowlock.storage.store import NotFound, ObjectStore

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One version: its commit, None where that is gone or cannot be read; the table before and after it, None where they cannot be built."""

    version: int
    before: Snapshot | None
    commit: Commit | None
    after: Snapshot | None


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
            yield Finding(
                "damage",
                "checkpoint-wrong",
                f"checkpoints cannot be read or do not say what the commits say ({spans(versions)}): {why}",
                "rowlock repair writes a checkpoint anew where the commits before it are still there",
                versions,
                tuple(self.checkpoints),
            )
        if wrong := {v: text for v, text in self.checksums.items() if v not in self.contested}:
            yield Finding(
                "damage",
                "checksum-wrong",
                f"checksums cannot be read or differ from the log ({spans(wrong)}): {next(iter(wrong.values()))}",
                "rowlock repair writes them anew: rows come from the log, which counts",
                tuple(wrong),
                tuple(names.checksum_key(v) for v in wrong),
            )
        if self.closed:
            yield Finding(
                "note",
                "versions-not-opened",
                f"versions of which the log still holds commits cannot be built: {spans(self.closed)}. The first: {next(iter(self.closed.values()))}",
                versions=tuple(self.closed),
            )


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
        commit, state = None, None
        try:
            commit = replay.read_commit(store, version) if version in commits else None
            state = _after(store, before, commit, commits.get(version))
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
        yield Step(version, before, commit, state)


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
