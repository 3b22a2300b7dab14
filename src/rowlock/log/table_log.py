"""The log of one table: reads snapshots from it and puts commits into it.

Owns the path from a store to snapshots, which are refreshed without listing.  Never overwrites a commit (I1) and
never guesses the outcome of a put (I2): outcomes are returned to the caller as values.

Refresh: the cases of `latest(previous)`
  A  no previous snapshot                          list the log, replay from the newest complete checkpoint; then as B, since
                                                   a listing may be seconds old
  B  the next commit exists                        read it and those after it until one is missing; then D
  C  the next commit is missing                    D, with nothing to apply
  D  previous' own commit exists and is the same   the commits that were read (if any) continue previous: apply them
  E  previous' own commit is gone or different     the log was cleaned up or rewritten, or the table was recreated: as A
  F  previous never knew the tag of its commit     as A if its commit is missing; else as D
A commit can be missing (C) while a later one exists only if the log was cleaned up, which deletes previous' own
commit as well (E).

A commit is identified by the store's tag of its file, never by its size: commits of equal size are common.  If the
tag differs (or is unknown), the file is read and its txnId decides.  After E the chain continues only if the log was
merely cleaned up: the table is the same, and the checkpoint that was read is not older than previous.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from rowlock import clock, display
from rowlock.caches import COMMITS, Cache
from rowlock.conditions import named
from rowlock.exceptions import CorruptLog, InvalidInput, VersionNotFound
from rowlock.log import checksums, replay
from rowlock.log.checkpoint_reader import read_checkpoint
from rowlock.log.checkpoint_writer import write_checkpoint, writes_v2
from rowlock.log.segment import Segment, find_segment, list_log, newest_checkpoint, no_table, segment_of
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import commits, names
from rowlock.protocol.actions import Commit, FileKey, RemoveFile
from rowlock.protocol.commits import parse_commit
from rowlock.protocol.names import LogFile
from rowlock.storage.store import ObjectStore, PutOutcome, of_each

logger = logging.getLogger("rowlock")


class TableLog:
    """The log of the table at a store's root.  Safe to share between threads; every call reads the current state of the store."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.table = store, store.root
        self._commits: Cache[Commit] = Cache(COMMITS, lambda commit: 2_048 + 4 * commit.size_bytes)  # about what it takes in memory

    def exists(self) -> bool:
        """Whether the log has at least one commit or checkpoint."""
        return any(f.kind == "commit" or f.is_checkpoint for f in list_log(self.store)) or self.store.head(names.commit_key(0)) is not None

    def latest(self, previous: Snapshot | None = None, through: int | None = None) -> Snapshot:
        """The newest snapshot (see Refresh above), of versions up to `through`, asked for at once; `previous` as it is where none of these has come.  Raises TableNotFound, CorruptLog, UnsupportedFeature."""
        if previous is None:
            return self._with_unlisted_commits(self._load())
        read = [] if through is None else of_each(self.store, partial(replay.read_commit, self.store), range(previous.version + 1, through + 1))
        commits = self._next_commits(previous.version) if through is None else [c for n, c in enumerate(read) if c is not None and None not in read[:n]]
        verified, gone = self._verified(previous) if commits or through is None else (previous, False)
        if verified is None:
            self._commits.clear()
            loaded = self._with_unlisted_commits(self._load())
            return replace(loaded, chain=previous.chain) if gone and _cleaned_up(previous, loaded) else loaded
        for commit in commits:
            self._commits.put(commit.version, commit)
        return replay.advance(verified, commits)

    def _verified(self, previous: Snapshot) -> tuple[Snapshot | None, bool]:
        """(`previous` with the current tag of its commit, or None if that commit is gone or a different one; whether it is gone)."""
        tag = self.store.tag(names.commit_key(previous.version))
        if tag is None or tag == previous.last_commit_tag or (previous.last_commit_tag is None and previous.txn_id is None):
            return (None if tag is None else previous), tag is None
        current = replay.read_commit(self.store, previous.version)
        if current is None or current.txn_id is None or current.txn_id != previous.txn_id:
            return None, current is None
        return replace(previous, last_commit_tag=tag), False  # the tag from `tag`: some stores return another one with the object

    def _next_commits(self, after: int, through: int | None = None) -> list[Commit]:
        """The commits after a version, each read by its key, until one is missing."""
        commits: list[Commit] = []
        version = after + 1
        while (through is None or version <= through) and (commit := replay.read_commit(self.store, version)) is not None:
            commits.append(commit)
            version += 1
        return commits

    def _with_unlisted_commits(self, listed: Snapshot, through: int | None = None) -> Snapshot:
        """The snapshot of a listing, advanced by the commits that the listing did not show; of a new listing where the table was made again meanwhile."""
        while commits := self._next_commits(listed.version, through):
            if (verified := self._verified(listed)[0]) is not None:
                for commit in commits:
                    self._commits.put(commit.version, commit)
                return replay.advance(verified, commits)
            self._commits.clear()
            listed = self._load()
        return listed

    def at(self, version: int) -> Snapshot:
        """The snapshot of a version; raises VersionNotFound if it does not exist or can no longer be built."""
        if version < 0:
            condition = named("DELTA_VERSION_NOT_FOUND", userVersion=version, earliest=0, latest=max((f.version for f in list_log(self.store)), default=0))
            raise VersionNotFound(f"there is no version {version}: versions begin at 0", table=self.table, version=version, condition=condition)
        try:
            return self._load(version)
        except VersionNotFound:
            if self.store.head(names.commit_key(version)) is None:
                raise
            listed = self._load()
            if listed.version >= version or (advanced := self._with_unlisted_commits(listed, version)).version != version:
                raise
            return advanced

    def _load(self, version: int | None = None) -> Snapshot:
        """Lists and replays the log; tries again if the log changed meanwhile: a clean-up can look like damage, and a table that is made again mixes two logs."""
        seen: list[tuple[str, int]] | None = None
        segment: Segment | None = None
        while True:
            try:
                segment = find_segment(self.store, version)
                snapshot = replay.load(self.store, segment)
                if segment.has_checksum:
                    checksums.verify(self.store, snapshot)
                return snapshot
            except CorruptLog as damage:
                files = list_log(self.store)
                now = [(file.key, file.modified_ms) for file in files]
                if now == seen:
                    return self._without_checkpoint(segment, files, damage)
                seen = now

    def _without_checkpoint(self, segment: Segment | None, files: Sequence[LogFile], damage: CorruptLog) -> Snapshot:
        """The snapshot of a version whose checkpoint is damaged, from an older one or the first commit on.  Raises `damage` where the log does not reach back so far."""
        left = list(files)
        while segment is not None and segment.checkpoint:
            left = [file for file in left if file not in segment.checkpoint]
            try:
                segment = segment_of(left, self.table, segment.version)
            except (CorruptLog, VersionNotFound):
                break
            with suppress(CorruptLog):
                snapshot = replay.load(self.store, segment)
                text = "The table %s was read past a damaged checkpoint, from the commits before it; `rowlock repair` writes it anew: %s"
                logger.warning(text, self.table, damage)
                return snapshot
        raise damage

    def at_timestamp(self, timestamp_ms: int, zone: datetime.tzinfo | None = None) -> Snapshot:
        """The snapshot of the newest version that was committed at or before `timestamp_ms`.  Errors name times in `zone`, by default that of this process.

        Raises VersionNotFound for a time before the oldest commit or after the newest one, TableNotFound if there are no commits.
        """
        times = self.commit_times()
        if not times:
            raise no_table(self.table)
        if timestamp_ms < times[0][1] or timestamp_ms > times[-1][1]:
            raise outside_the_log(timestamp_ms, times, zone, self.table)
        return self.at(next(version for version, at in reversed(times) if at <= timestamp_ms))

    def commit_times(self, head: Snapshot | None = None) -> list[tuple[int, int]]:
        """(version, milliseconds since the epoch) of every commit in the log, oldest first, strictly increasing.

        The time is the in-commit timestamp if the table has them, else the commit file's modification time, as in Delta.  Times of files give way to
        those in commits: a copy of the table changes them.  `head`: the newest snapshot, if it is known.
        """
        out: list[tuple[int, int]] = []
        since = commits.first_version((head or self.latest()).metadata.configuration)
        stated, files = math.inf if since is None else since, [f for f in list_log(self.store) if f.kind == "commit"]
        stating = [f.version for f in files if f.version >= stated]
        said = dict(zip(stating, of_each(self.store, lambda version: replay.stated_ms(self.store, version), stating), strict=True))
        for file in files:
            at = said.get(file.version) or file.modified_ms
            out.append((file.version, at if not out or out[-1][0] < stated <= file.version else max(at, out[-1][1] + 1)))
        for n in reversed(range(len(out) - 1)):
            out[n] = out[n][0], min(out[n][1], out[n + 1][1] - 1)
        return out

    def read_commit(self, version: int) -> Commit | None:
        """The commit of a version as it is in the store now; None if there is no such file."""
        commit = replay.read_commit(self.store, version)
        if commit is not None:
            self._commits.put(commit.version, commit)
        return commit

    def commits(self, after: int, through: int) -> list[Commit]:
        """The commits of versions after < v <= through, cached ones included; raises VersionNotFound if one no longer exists."""
        out = []
        for version in range(after + 1, through + 1):
            commit = self._commits.get(version)
            if commit is None and (commit := self.read_commit(version)) is None:
                raise VersionNotFound(f"the log no longer contains version {version}", table=self.table, version=version)
            out.append(commit)
        return out

    def advance(self, snapshot: Snapshot, version: int, data: bytes, tag: str | None) -> Snapshot:
        """The snapshot after one more commit, given as bytes; `tag` is that of its file, if the store returned one."""
        commit = parse_commit(version, data, self.table, tag)
        self._commits.put(commit.version, commit)
        return replay.advance(snapshot, [commit])

    def put(self, version: int, data: bytes) -> PutOutcome:
        """Puts the commit file of `version` if absent: Committed, Lost, or Unknown (then read the log back)."""
        return self.store.put_if_absent(names.commit_key(version), data)

    def make_durable(self, version: int) -> None:
        """Makes a commit that was found in the log durable, before it is acted upon: its writer may have died before its name was durable.  Raises StorageError."""
        self.store.sync(names.commit_key(version))

    def history(self, limit: int | None = None) -> list[Commit]:
        """The commits that the log still contains, newest first, without their file actions; raises TableNotFound."""
        versions = [f.version for f in list_log(self.store) if f.kind == "commit"]
        if not versions:
            raise no_table(self.table, named("DELTA_TABLE_ONLY_OPERATION", tableName=f"`{self.table}`", operation="DESCRIBE HISTORY"))
        plain = lambda line: not line.lstrip().startswith((b'{"add"', b'{"remove"', b'{"cdc"'))  # noqa: E731
        read = of_each(self.store, lambda version: replay.read_commit(self.store, version, plain), versions[::-1][:limit])
        return [commit for commit in read if commit is not None]

    def write_checkpoint(self, snapshot: Snapshot) -> None:
        """Writes a checkpoint of the snapshot, by its policy, and points `_last_checkpoint` to it.  May raise, but no commit depends on it.

        Writes none if a cleanup after a newer checkpoint has deleted the log up to the snapshot's version, or if the table was made again meanwhile.
        """
        if self._verified(snapshot)[0] is None and self.latest().metadata.id != snapshot.metadata.id:
            return  # the other table's readers would take the checkpoint for theirs
        try:
            tombstones = self.tombstones(snapshot)
        except VersionNotFound:
            if self.latest().version == snapshot.version:
                raise
            return
        write_checkpoint(self.store, snapshot, tombstones)

    def tombstones(self, snapshot: Snapshot, checkpoint: Sequence[LogFile] | None = None) -> list[RemoveFile]:
        """The removes up to the snapshot's version that a checkpoint must keep for vacuum: within retention and not live again.

        They are read from `checkpoint` and the commits after it; by default from the newest.
        """
        try:
            horizon = clock.now_ms() - snapshot.properties.deleted_file_retention_ms
        except InvalidInput:  # the retention cannot be parsed: retain them all
            horizon = -1
        _, retained, later = self.removes(snapshot, checkpoint)
        removes: dict[FileKey, RemoveFile] = {r.key: r for r in (*retained, *(r for _, r in later))}
        live = snapshot.files.get({path for path, _ in removes})
        alive = {add.key for add in live.values()}
        return [r for key, r in removes.items() if key not in alive and (r.deletion_timestamp_ms or 0) > horizon]

    def removes(self, snapshot: Snapshot, checkpoint: Sequence[LogFile] | None = None) -> tuple[int, list[RemoveFile], list[tuple[int, RemoveFile]]]:
        """(version of the checkpoint, by default the newest, or -1; its removes; the removes of later commits with their versions).

        Includes removes of files that are live again.  Raises VersionNotFound if a cleanup has deleted the log up to the snapshot's version.
        """
        if checkpoint is not None:
            return self._removes_from(checkpoint, snapshot)
        while True:
            newest = newest_checkpoint(self.store, snapshot.version)
            try:
                return self._removes_from(newest, snapshot)
            except (CorruptLog, VersionNotFound):  # a cleanup may have deleted it beneath this reader, after a newer one was written
                if [f.key for f in newest_checkpoint(self.store, snapshot.version)] == [f.key for f in newest]:
                    raise

    def _removes_from(self, checkpoint: Sequence[LogFile], snapshot: Snapshot) -> tuple[int, list[RemoveFile], list[tuple[int, RemoveFile]]]:
        base = checkpoint[0].version if checkpoint else -1
        retained = read_checkpoint(self.store, checkpoint, removes_only=True).removes if checkpoint else []
        return base, retained, [(c.version, r) for c in self.commits(base, snapshot.version) for r in c.removes]

    def maybe_checkpoint(self, snapshot: Snapshot) -> bool:
        """Writes a checkpoint if the table's checkpoint interval is due at this version; returns whether it did."""
        if snapshot.version <= 0 or snapshot.version % snapshot.properties.checkpoint_interval:
            return False
        if self._has_checkpoint(snapshot):
            return False
        self.write_checkpoint(snapshot)
        return True

    def _has_checkpoint(self, snapshot: Snapshot) -> bool:
        if not writes_v2(snapshot):
            return self.store.head(names.checkpoint_key(snapshot.version)) is not None
        return any(f.version == snapshot.version and f.is_checkpoint for f in list_log(self.store, snapshot.version))


def _cleaned_up(previous: Snapshot, newest: Snapshot) -> bool:
    """Whether a log that lost the commit of `previous` was merely cleaned up, rather than replaced by another log."""
    return newest.metadata.id == previous.metadata.id and newest.version - newest.commits_since_checkpoint >= previous.version


def outside_the_log(timestamp_ms: int, times: Sequence[tuple[int, int]], zone: datetime.tzinfo | None, table: str) -> VersionNotFound:
    """The error for a time before the oldest commit or after the newest one of `times`; times are shown in `zone`, by default that of this process."""
    asked, oldest, newest = (display.time_in(ms, zone) for ms in (timestamp_ms, times[0][1], times[-1][1]))
    condition = (
        named("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", userTimestamp=asked, commitTs=oldest, timestampString=oldest)
        if timestamp_ms < times[0][1]
        else named("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", providedTimestamp=asked, lastCommitTimestamp=newest, maximumTimestamp=newest)
    )
    span = f"{oldest} (version {times[0][0]}) to {newest} (version {times[-1][0]})"
    return VersionNotFound(f"The time {asked} is outside the log, whose commits range from {span}", table=table, condition=condition)
