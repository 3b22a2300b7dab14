"""Log replay: builds a snapshot from a segment of the log, and the next snapshot from further commits.

The newest action wins: per path for files, per kind for protocol and metadata, per id for applications and
metadata domains.  Every snapshot returned has passed the check that this version can read it (I9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rowlock import clock
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log.checkpoint_reader import CheckpointState, read_checkpoint
from rowlock.log.live_files import LiveFiles, fold
from rowlock.log.segment import Segment
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import names
from rowlock.protocol.actions import Commit
from rowlock.protocol.commits import parse_commit
from rowlock.protocol.features import check_readable, in_force
from rowlock.protocol.names import LogFile
from rowlock.protocol.schema import parse_schema
from rowlock.storage.store import NotFound, ObjectStore, of_each


def read_commit(store: ObjectStore, version: int, wanted: Callable[[bytes], bool] | None = None) -> Commit | None:
    """The commit of a version, read from the store, with `wanted` only the actions on lines that satisfy it; None if there is no such file.  Raises CorruptLog."""
    try:
        data, tag = store.get_tagged(names.commit_key(version))
    except NotFound:
        return None
    if wanted is not None:
        data = b"\n".join(line for line in data.split(b"\n") if wanted(line))
    return parse_commit(version, data, store.root, tag)


def stated_ms(store: ObjectStore, version: int) -> int | None:
    """The time that the commit of a version says itself; None where it says none, or is gone.  Raises CorruptLog."""
    commit = read_commit(store, version, lambda line: b'"commitInfo"' in line)
    return None if commit is None or commit.info is None else commit.info.timestamp_ms


def load(store: ObjectStore, segment: Segment) -> Snapshot:
    """The snapshot of a segment.  Commits are read in batches, to hold few in memory.  Raises CorruptLog, UnsupportedFeature.

    Their first is read before the checkpoint and looked at again after all else: where it is still there, what was read is of one log.
    """
    commits = segment.commits or ((segment.last_commit,) if segment.last_commit else ())
    first = last = read_commit(store, commits[0].version) if commits else None
    state = read_checkpoint(store, segment.checkpoint) if segment.checkpoint else CheckpointState()
    files = LiveFiles.of_frames(state.frames)
    state.frames.clear()
    for batch in _batches(store, segment, first):
        files = fold(((_keys(c), c.adds) for c in batch), files)
        for commit in batch:
            _apply(state, commit)
        last = batch[-1]
    if first is not None and (segment.checkpoint or first is not last):
        _check_unchanged(store, first)
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metaData"
        raise CorruptLog(f"the log up to this version contains no {missing} action", table=store.root, version=segment.version)
    listed = segment.last_commit or (segment.checkpoint[-1] if segment.checkpoint else None)
    return Snapshot(
        table=store.root,
        version=segment.version,
        **_definition(state, store.root),
        files=files,
        txns=state.txns,
        domains=state.domains,
        timestamp_ms=_timestamp_ms(last, listed.modified_ms if listed else 0),
        txn_id=last.txn_id if last else None,
        commits_since_checkpoint=len(segment.commits),
        last_commit_tag=last.tag if last else None,
        chain=clock.new_id(),
    )


def _check_unchanged(store: ObjectStore, first: Commit) -> None:
    """Raises CorruptLog where the commit is another one by now, or gone: then what was read after it may be of another log."""
    if first.tag is not None and store.tag(names.commit_key(first.version)) == first.tag:
        return
    there = read_commit(store, first.version)  # some stores return another tag with the object
    if there is None or replace(there, tag=first.tag) != first:
        raise CorruptLog("the file was replaced while the log was read", table=store.root, version=first.version, file=names.commit_key(first.version))


def advance(before: Snapshot, commits: Sequence[Commit]) -> Snapshot:
    """The snapshot after further commits, which must follow `before` without a gap."""
    if not commits:
        return before
    assert [c.version for c in commits] == list(range(before.version + 1, before.version + 1 + len(commits)))
    state = CheckpointState(before.protocol, before.logged, dict(before.txns), dict(before.domains))
    for commit in commits:
        _apply(state, commit)
    same_table = state.protocol is before.protocol and state.metadata is before.logged
    last = commits[-1]
    return replace(
        before,
        version=last.version,
        **({} if same_table else _definition(state, before.table)),
        files=fold(((_keys(c), c.adds) for c in commits), before.files),
        txns=state.txns,
        domains=state.domains,
        timestamp_ms=_timestamp_ms(last, before.timestamp_ms),
        txn_id=last.txn_id,
        commits_since_checkpoint=before.commits_since_checkpoint + len(commits),
        last_commit_tag=last.tag,
    )


def _definition(state: CheckpointState, table: str) -> dict[str, Any]:
    """The protocol, the metadata and the columns that it describes.  Raises CorruptLog, and UnsupportedFeature where this version cannot read such a table."""
    assert state.protocol is not None and state.metadata is not None
    check_readable(state.protocol, state.metadata, table)
    metadata = in_force(state.protocol, state.metadata)
    schema = parse_schema(metadata.schema_string, table)
    if unknown := [name for name in metadata.partition_columns if name not in schema.names]:
        raise CorruptLog(f"the table is partitioned by {unknown[0]!r}, and its columns are {', '.join(schema.names)}", table=table)
    stored = None if metadata is state.metadata else state.metadata
    return {"protocol": state.protocol, "metadata": metadata, "schema": schema, "stored": stored}


def _keys(commit: Commit) -> list[tuple[str, str | None]]:
    return [remove.key for remove in commit.removes]


def _batches(store: ObjectStore, segment: Segment, first: Commit | None) -> Iterator[list[Commit]]:
    """The commits of the segment, of which the first has been read."""

    def read(file: LogFile) -> Commit:
        commit = first if file is segment.commits[0] else read_commit(store, file.version)
        if commit is None:
            raise CorruptLog("a commit file that the log listed no longer exists", table=store.root, version=file.version, file=file.key)
        return commit

    batch, size = list[LogFile](), 0
    for file in segment.commits:
        batch.append(file)
        size += file.size_bytes
        if size > limits().replay_batch_bytes or file is segment.commits[-1]:
            yield of_each(store, read, batch)
            batch, size = [], 0


def _apply(state: CheckpointState, commit: Commit) -> None:
    state.protocol = commit.protocol or state.protocol
    state.metadata = commit.metadata or state.metadata
    state.txns.update((t.app_id, t) for t in commit.txns)
    for domain in commit.domains:
        if domain.removed:
            state.domains.pop(domain.domain, None)
        else:
            state.domains[domain.domain] = domain


def _timestamp_ms(commit: Commit | None, otherwise: int) -> int:
    stated = commit.info.timestamp_ms if commit and commit.info else None
    return otherwise if stated is None else stated
