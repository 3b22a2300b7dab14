"""Log cleanup: deletes the part of a log that no version within the table's log retention needs (PROTOCOL.md, Metadata Cleanup).

The boundary is the newest complete checkpoint that was committed before the horizon: midnight UTC of the day that the retention leads
back to.  It remains, with its own commit file and everything after it.  The files before it are deleted in this order:

1. version checksums and compacted logs, which no reader needs
2. commits and checkpoints, version by version from the oldest on, each after the one before is gone; of one version the checkpoint first
3. sidecar files that no checkpoint names any more

So whenever a cleanup stops, the newer end of the log remains.  A commit is never missing while an older one exists, which is how
writers with an old snapshot notice that the log was cleaned up (`TableLog.latest`, `publish.outcome`), and how versions that can no
longer be built are distinguished from damage (`segment`).  A checkpoint goes after the commits that it hides, as checkpoint protection asks, and
before its own commit: no checkpoint is without one, so a late put of that commit fails.  Cleanups side by side, of Rowlock or others, delete the same files in the same order.

Ages are modification times of the store, with that of `_last_checkpoint`, which was just written, as "now"; if commits
have in-commit timestamps, both must have passed the horizon.  A run lists the oldest page of the log only, and deletes a
bounded number of commits; the rest follows after later checkpoints.  Failing to delete never fails a commit (I10).
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from rowlock import clock
from rowlock.exceptions import CorruptLog
from rowlock.limits import limits
from rowlock.log import replay
from rowlock.log.checkpoint_reader import read_checkpoint, sidecars_of
from rowlock.log.segment import complete_checkpoints, list_log
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import commits, names
from rowlock.protocol.names import LogFile
from rowlock.protocol.properties import TableProperties
from rowlock.storage.store import ObjectStore
from rowlock.threads import side_by_side

logger = logging.getLogger("rowlock")

_DAY_MS = 86_400_000
_MINUTE_MS = 60_000
_FEW, _PAGE = 16, 1000
"""Files of the log that are examined first, since mostly none is expired, and then: one page of a listing."""
_MOST_SECONDS = 5.0
_SECONDS_PER_COMMIT = 0.05
"""How long one run deletes, in all or for each commit between two checkpoints: the commit that it follows waits for it."""
_LOOK_AGAIN_S = 0.5
"""After so long a run checks that the log is still the one in which it chose files."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The part of a log that may be deleted: `files` are those before version `stop`, `boundary` is the oldest checkpoint that remains.

    `all_at_once`: the table's checkpoint protection requires that one run deletes all of it.
    """

    files: tuple[LogFile, ...]
    stop: int
    boundary: tuple[LogFile, ...]
    all_at_once: bool = False


def clean_up(store: ObjectStore, snapshot: Snapshot) -> int:
    """Deletes the expired part of a table's log; returns the number of files deleted.  To be called after a checkpoint of `snapshot` was written.

    Raises StorageError, CorruptLog if the checkpoint that would become the oldest cannot be opened, and InvalidInput if a
    retention property cannot be parsed; nothing is deleted in the last two cases.
    """
    if not snapshot.properties.cleans_log:
        return 0
    now_ms = store.modified_ms(names.LAST_CHECKPOINT)
    if now_ms is None:
        return 0
    expired = find_expired(store, snapshot.properties, horizon_ms(now_ms, snapshot.properties.log_retention_ms))
    if expired is None:
        return 0
    seconds = max(_MOST_SECONDS, snapshot.properties.checkpoint_interval * _SECONDS_PER_COMMIT)
    deleted = _delete_files(store, expired, math.inf if expired.all_at_once else seconds)
    if deleted == len(expired.files) and any(f.is_checkpoint for f in expired.files):
        deleted += _delete_sidecars(store, _midnight_ms(now_ms) - _DAY_MS)
    logger.info("log cleanup of %s deleted %d files, before version %d", store.root, deleted, expired.stop)
    return deleted


def truncate(store: ObjectStore, snapshot: Snapshot, horizon: int | None = None) -> int:
    """Deletes all of the log before the newest checkpoint older than `horizon`, also if delta.enableExpiredLogCleanup is off; returns the number of files.

    Without a horizon it is the retention of DROP FEATURE ... TRUNCATE HISTORY ago.  To be called after a checkpoint of `snapshot` was written.  Raises as `clean_up`.
    """
    now_ms = store.modified_ms(names.LAST_CHECKPOINT)
    if now_ms is None:
        return 0
    back = now_ms - snapshot.properties.truncated_retention_ms if horizon is None else min(horizon, now_ms)
    deleted = 0
    while (expired := find_expired(store, snapshot.properties, min(back - back % _MINUTE_MS, now_ms - _MINUTE_MS))) is not None:
        deleted += _delete_files(store, expired, math.inf)
    return deleted


def horizon_ms(now_ms: int, retention_ms: int) -> int:
    """The time up to which commits are expired: midnight UTC of the day that the retention leads back to, at least a minute ago."""
    return min(_midnight_ms(now_ms - retention_ms), now_ms - _MINUTE_MS)


def _midnight_ms(at_ms: int) -> int:
    return at_ms - at_ms % _DAY_MS


def find_expired(store: ObjectStore, properties: TableProperties, horizon: int) -> Expired | None:
    """The oldest part of the log that is expired, as far as one run deletes it, before a checkpoint that can be read; None if there is none.  Raises CorruptLog."""
    seen: tuple[LogFile, ...] = ()
    while (expired := _listed(store, properties, horizon)) is not None:
        try:
            _check_whole(store, expired.boundary)
        except CorruptLog:
            if expired.boundary == seen:
                raise
            seen = expired.boundary  # another cleanup may have deleted it since the log was listed
        else:
            break
    return expired


def _listed(store: ObjectStore, properties: TableProperties, horizon: int) -> Expired | None:
    count = _FEW
    while True:
        listed = list(store.list(names.LOG_DIRECTORY, limit=count))
        files = [f for m in listed if (f := names.parse(m.key, size_bytes=m.size_bytes, modified_ms=m.modified_ms)) is not None]
        past = _past(files, horizon)
        through = len(listed) < count or len(past) < sum(f.kind == "commit" for f in files)  # nothing beyond what is listed is expired
        expired = _choose(store, properties, files, past, horizon) if through or count > _FEW else None
        if through or expired is not None:
            return expired
        count = max(_PAGE, count * 8)  # all listed files are expired, too few for a run or without a checkpoint to retain: list more


def _past(files: Sequence[LogFile], horizon: int) -> list[int]:
    """The versions of the commits up to the first that is younger than the horizon, by the times of their files."""
    ordered = sorted((f for f in files if f.kind == "commit"), key=lambda f: f.version)
    return [f.version for f in takewhile(lambda f: f.modified_ms <= horizon, ordered)]


def _choose(store: ObjectStore, properties: TableProperties, files: Sequence[LogFile], past: Sequence[int], horizon: int) -> Expired | None:
    checkpoints = {c[0].version: c for c in complete_checkpoints(files)}
    expired = set(past)
    possible = sorted(v for v in checkpoints if v in expired)
    possible = possible[: _stated_before(store, properties, possible, horizon)]
    protected = properties.protected_before
    all_at_once = bool(possible) and files[0].version < protected
    if all_at_once:
        possible = [v for v in possible if v >= protected][:1]
    if not possible or files[0].version >= possible[-1]:
        return None
    possible = [v for v in possible if v > files[0].version]  # one at which the log begins has nothing before it
    stop, boundary = _bounded(past, possible, math.inf if all_at_once else max(limits().cleaned_files, 2 * properties.checkpoint_interval))
    doomed = [f for f in files if f.version < stop or (f.kind == "compacted" and f.version == stop == boundary)]
    return Expired(tuple(doomed), stop, checkpoints[boundary], all_at_once)


def _stated_before(store: ObjectStore, properties: TableProperties, versions: Sequence[int], horizon: int) -> int:
    """The length of the leading run of versions whose in-commit timestamps are expired as well."""
    first = commits.first_version(properties.configuration)
    if first is None:
        return len(versions)
    return bisect_right(versions, horizon, key=lambda v: horizon if v < first else replay.stated_ms(store, v) or horizon + 1)


def _bounded(commits: Sequence[int], possible: Sequence[int], most: float) -> tuple[int, int]:
    """(the version before which one run deletes, the version of the oldest checkpoint that remains): at most `most` commits, and if possible up to a checkpoint."""
    before = {v: sum(c < v for c in commits) for v in possible}
    fitting = [v for v in possible if before[v] <= most]
    if fitting:
        return fitting[-1], fitting[-1]
    return commits[int(most)], possible[0]


def _check_whole(store: ObjectStore, checkpoint: Sequence[LogFile]) -> None:
    """Raises CorruptLog unless the checkpoint that is to become the oldest can be read; of a large one only the footers, and the existence of its sidecars, are checked."""
    sidecars = sorted(sidecars_of(store, checkpoint))
    sizes = side_by_side(store.head, sidecars, limits().request_threads)
    missing = [key for key, size in zip(sidecars, sizes, strict=True) if size is None]
    if missing:
        raise CorruptLog("a sidecar of a checkpoint is missing from the log", table=store.root, file=missing[0])
    if sum(f.size_bytes for f in checkpoint) + sum(size or 0 for size in sizes) > limits().replay_batch_bytes:
        return
    state = read_checkpoint(store, checkpoint)
    if state.protocol is None or state.metadata is None:
        raise CorruptLog("the checkpoint has no protocol or no metaData", table=store.root, file=checkpoint[0].key)


def _delete_files(store: ObjectStore, expired: Expired, most_seconds: float) -> int:
    """Deletes the expired files in order, and returns how many; stops after `most_seconds`, or if the log has become another table's."""
    aside = [f for f in expired.files if f.kind in ("checksum", "compacted")]
    chain = sorted((f for f in expired.files if f.kind not in ("checksum", "compacted")), key=_place)
    anchor = names.commit_key(expired.boundary[0].version)
    tag, began, looked = store.tag(anchor), clock.monotonic_s(), clock.monotonic_s()
    if tag is None:  # the table was dropped since the log was listed
        return 0
    side_by_side(lambda f: store.delete(f.key), aside, limits().request_threads)
    deleted = len(aside)
    for _, same in groupby(chain, key=_place):
        now = clock.monotonic_s()
        if now - began > most_seconds:
            break
        if now - looked > _LOOK_AGAIN_S:  # while this process slept, the table may have been dropped and created again
            if store.tag(anchor) != tag:
                break
            looked = clock.monotonic_s()
        batch = list(same)
        side_by_side(lambda f: store.delete(f.key), batch, limits().request_threads)
        deleted += len(batch)
    return deleted


def _place(file: LogFile) -> tuple[int, bool]:
    return file.version, not file.is_checkpoint


def _delete_sidecars(store: ObjectStore, before_ms: int) -> int:
    """Deletes the sidecar files written before a time that no checkpoint names; younger ones may belong to a checkpoint that is being written."""
    old = [m.key for m in store.list(names.SIDECAR_DIRECTORY) if m.modified_ms < before_ms]
    if not old or any(".checkpoint." in m.key and names.parse(m.key) is None for m in store.list(names.LOG_DIRECTORY)):
        return 0  # a checkpoint of another writer, under a name that is not known here, may name any of them
    checkpoints = [f for f in list_log(store) if f.kind in ("checkpoint", "v2_checkpoint") and f.size_bytes > 0]
    named = set().union(*side_by_side(lambda f: sidecars_of(store, [f]), checkpoints, limits().request_threads))
    orphans = [key for key in old if key not in named]
    side_by_side(store.delete, orphans, limits().request_threads)
    return len(orphans)
