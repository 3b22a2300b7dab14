"""The log of one table: snapshots out of it, commits into it.

Owns the way from a store to snapshots, kept up to date without listing.  Never overwrites a commit
(I1) and never guesses what a put did (I2): outcomes go to the caller as values.

Refresh: what `latest(previous)` does
  A  no previous                                  list, newest complete checkpoint, replay the commits after it; then as B, for a
                                                  listing may be seconds old
  B  next commit is there                         read it, and on until one is missing; then D
  C  next commit is missing                       D, with nothing to apply
  D  previous' own commit is there, and the same  the commits read (if any) continue previous: apply them
  E  previous' own commit is gone or another      the log was cleaned up behind us, was rewritten, or the table was made anew: as A
  F  previous never knew its own commit           as A, if its commit is missing; else as D
A commit cannot be missing (C) though a later one is there unless the log was cleaned up, which takes
previous' own commit away as well (E).

A commit is known by the store's tag of its file, never by its size: two of one size are common.  Where the tag
is another (or was not told), the file is read, and its txnId decides.  What E finds is of the same chain only
after a clean-up: the same table, at a checkpoint that is not older than previous.
"""

from __future__ import annotations

from dataclasses import replace

from rowlock import clock
from rowlock.caches import COMMITS, Cache
from rowlock.exceptions import CorruptLog, InvalidInput, TableNotFound, VersionNotFound
from rowlock.log import replay
from rowlock.log.checkpoint_reader import read_checkpoint
from rowlock.log.checkpoint_writer import write_checkpoint
from rowlock.log.segment import find_segment, list_log, newest_checkpoint
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import names
from rowlock.protocol.actions import Commit, FileKey, RemoveFile
from rowlock.protocol.commits import parse_commit
from rowlock.storage.store import NotFound, ObjectStore, PutOutcome


class TableLog:
    """The log below one store. Safe to share between threads; every call reads what is there now."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._commits: Cache[Commit] = Cache(COMMITS, _size_in_memory)

    @property
    def table(self) -> str:
        return self.store.root

    def exists(self) -> bool:
        """Whether there is a log with at least one commit or checkpoint."""
        return any(f.kind == "commit" or f.is_checkpoint for f in list_log(self.store)) or self.store.head(names.commit_key(0)) is not None

    def latest(self, previous: Snapshot | None = None) -> Snapshot:
        """The newest snapshot; see Refresh above. Raises TableNotFound, CorruptLog, UnsupportedFeature."""
        if previous is None:
            return self._onward(self._load())
        commits = self._next_commits(previous.version)
        known, gone = self._known(previous)
        if known is None:
            self._forget()
            found = self._onward(self._load())
            return replace(found, chain=previous.chain) if gone and _cleaned_up(previous, found) else found
        for commit in commits:
            self._remember(commit)
        return replay.advance(known, commits)

    def _known(self, previous: Snapshot) -> tuple[Snapshot | None, bool]:
        """`previous`, with the tag that its commit has now, or None where the commit is not the one that it knew; and whether it is gone."""
        tag = self.store.tag(names.commit_key(previous.version))
        if tag is None or tag == previous.last_commit_tag or (previous.last_commit_tag is None and previous.txn_id is None):
            return (None if tag is None else previous), tag is None
        there = replay.read_commit(self.store, previous.version)
        if there is None or there.txn_id is None or there.txn_id != previous.txn_id:
            return None, there is None
        return replace(previous, last_commit_tag=tag), False  # as it is told when it is asked for: some stores tell another with the object

    def _next_commits(self, after: int, through: int | None = None) -> list[Commit]:
        """The commits after a version, each by its own key, until one is missing."""
        commits: list[Commit] = []
        version = after + 1
        while (through is None or version <= through) and (commit := replay.read_commit(self.store, version)) is not None:
            commits.append(commit)
            version += 1
        return commits

    def _onward(self, listed: Snapshot, through: int | None = None) -> Snapshot:
        """What a listing gave, and the commits after it that it did not show."""
        commits = self._next_commits(listed.version, through)
        for commit in commits:
            self._remember(commit)
        return replay.advance(listed, commits) if commits else listed

    def at(self, version: int) -> Snapshot:
        """The snapshot of a version; raises VersionNotFound where there is none or it can no longer be built."""
        if version < 0:
            raise VersionNotFound(f"there is no version {version}", table=self.table, version=version)
        try:
            return self._load(version)
        except VersionNotFound:
            if self.store.head(names.commit_key(version)) is None:
                raise
            listed = self._load()
            if listed.version >= version or (found := self._onward(listed, version)).version < version:
                raise
            return found

    def _load(self, version: int | None = None) -> Snapshot:
        """Lists and replays; once more where the log has changed under our hands, since a clean-up looks like damage for a moment."""
        seen: list[str] | None = None
        while True:
            try:
                return replay.load(self.store, find_segment(self.store, version))
            except CorruptLog:
                now = [file.key for file in list_log(self.store)]
                if now == seen:
                    raise
                seen = now

    def at_timestamp(self, timestamp_ms: int) -> Snapshot:
        """The newest version that was committed at `timestamp_ms` or before.

        Raises VersionNotFound where the time is before the oldest commit or after the newest one.
        """
        times = self.commit_times()
        if not times:
            raise TableNotFound("there is no Delta table here", table=self.table)
        if timestamp_ms < times[0][1] or timestamp_ms > times[-1][1]:
            span = f"{times[0][1]} (version {times[0][0]}) to {times[-1][1]} (version {times[-1][0]})"
            raise VersionNotFound(f"time {timestamp_ms} ms is outside of the log, which goes from {span}", table=self.table)
        return self.at(next(version for version, at in reversed(times) if at <= timestamp_ms))

    def commit_times(self) -> list[tuple[int, int]]:
        """(version, milliseconds) of every commit in the log, oldest first, never falling.

        The in-commit timestamp where the table has them, else the commit file's time of change, as Delta has it.
        """
        out: list[tuple[int, int]] = []
        stated = self._in_commit_times_from()
        for file in list_log(self.store):
            if file.kind != "commit":
                continue
            at = file.modified_ms
            if stated is not None and file.version >= stated and (commit := self.read_commit(file.version)) and commit.info:
                at = commit.info.timestamp_ms or at
            out.append((file.version, max(at, out[-1][1] + 1) if out else at))
        return out

    def _in_commit_times_from(self) -> int | None:
        snapshot = self.latest()
        if not snapshot.properties.in_commit_timestamps:
            return None
        since = snapshot.metadata.configuration.get("delta.inCommitTimestampEnablementVersion", "0")
        return int(since) if since.isdigit() else 0

    def read_commit(self, version: int) -> Commit | None:
        """The commit of a version as it is in the store now; None where its file is not there."""
        commit = replay.read_commit(self.store, version)
        if commit is not None:
            self._remember(commit)
        return commit

    def commits(self, after: int, through: int) -> list[Commit]:
        """The commits of versions after < v <= through; raises VersionNotFound where one is not there."""
        out = []
        for version in range(after + 1, through + 1):
            commit = self._commits.get(version)
            if commit is None and (commit := self.read_commit(version)) is None:
                raise VersionNotFound(f"the log no longer holds version {version}", table=self.table, version=version)
            out.append(commit)
        return out

    def _remember(self, commit: Commit) -> None:
        self._commits.put(commit.version, commit)

    def _forget(self) -> None:
        self._commits.clear()

    def advance(self, snapshot: Snapshot, version: int, data: bytes, tag: str | None) -> Snapshot:
        """The snapshot after one commit more, whose bytes are known, and its tag if the store told it."""
        commit = replace(parse_commit(version, data, self.table), tag=tag)
        self._remember(commit)
        return replay.advance(snapshot, [commit])

    def put(self, version: int, data: bytes) -> PutOutcome:
        """Tries to be the one that commits `version`: Committed, Lost, or Unknown (then read the log back)."""
        return self.store.put_if_absent(names.commit_key(version), data)

    def history(self, limit: int | None = None) -> list[Commit]:
        """The commits that the log still holds, newest first, without their file actions."""
        versions = [f.version for f in list_log(self.store) if f.kind == "commit"]
        if not versions:
            raise TableNotFound("there is no Delta table here", table=self.table)
        out: list[Commit] = []
        for version in reversed(versions):
            if limit is not None and len(out) >= limit:
                break
            if (commit := self._head_of_commit(version)) is not None:
                out.append(commit)
        return out

    def _head_of_commit(self, version: int) -> Commit | None:
        try:
            data = self.store.get(names.commit_key(version))
        except NotFound:
            return None
        lines = [line for line in data.split(b"\n") if not line.lstrip().startswith((b'{"add"', b'{"remove"', b'{"cdc"'))]
        return parse_commit(version, b"\n".join(lines), self.table)

    def write_checkpoint(self, snapshot: Snapshot) -> None:
        """Writes a classic checkpoint of the snapshot and points `_last_checkpoint` to it. May raise: no commit depends on it."""
        write_checkpoint(self.store, snapshot, self.tombstones(snapshot))

    def tombstones(self, snapshot: Snapshot) -> list[RemoveFile]:
        """The removes up to the snapshot's version that vacuum must still know of: within retention, and not live again."""
        try:
            horizon = clock.now_ms() - snapshot.properties.deleted_file_retention_ms
        except InvalidInput:  # nobody knows how long they are needed
            horizon = -1
        _, kept, later = self.removes(snapshot)
        found: dict[FileKey, RemoveFile] = {r.key: r for r in (*kept, *(r for _, r in later))}
        live = snapshot.files.get({path for path, _ in found})
        alive = {add.key for add in live.values()}
        return [r for key, r in found.items() if key not in alive and (r.deletion_timestamp_ms or 0) > horizon]

    def removes(self, snapshot: Snapshot) -> tuple[int, list[RemoveFile], list[tuple[int, RemoveFile]]]:
        """(version of the newest checkpoint or -1, the removes that it kept, those of the commits after it with their versions), also of files that live again."""
        checkpoint = newest_checkpoint(self.store, snapshot.version)
        base = checkpoint[0].version if checkpoint else -1
        kept = read_checkpoint(self.store, checkpoint, removes_only=True).removes if checkpoint else []
        return base, kept, [(c.version, r) for c in self.commits(base, snapshot.version) for r in c.removes]

    def maybe_checkpoint(self, snapshot: Snapshot) -> bool:
        """Writes a checkpoint where the table's interval asks for one at this version; says whether it did."""
        if snapshot.version <= 0 or snapshot.version % snapshot.properties.checkpoint_interval:
            return False
        if self.store.head(names.checkpoint_key(snapshot.version)) is not None:
            return False
        self.write_checkpoint(snapshot)
        return True


def _cleaned_up(previous: Snapshot, found: Snapshot) -> bool:
    """Whether a log that no longer holds the commit of `previous` is the one that `previous` was read from."""
    return found.metadata.id == previous.metadata.id and found.version - found.commits_since_checkpoint >= previous.version


def _size_in_memory(commit: Commit) -> int:
    """About what a parsed commit takes, in bytes."""
    return 2_048 + 4 * commit.size_bytes
