"""Group commit between processes: staged appends are handed over through the table's own store (I1, I2, I8).

A process whose puts are lost again and again posts what it has staged below `_rowlock/queue/`, as the
commit that it would have been.  The owner of the oldest post leads: it puts one version for all posts.
The others wait, and look whether they are in it; where nothing moves each leads in its turn, so a leader
that dies delays no other for long.  Who leads is a courtesy: any number of leaders at once is safe, for

- a post is valid for as long as its owner renews it: it puts the post again while it waits.  A post that
  was not renewed for `LIVE_MS` is not adopted, for its owner may be dead and its work done again by another;
- before a put at version v all versions from a member's read version to v-1 are searched for its txnId,
  and for a marker that gave it up; members that are found, and members from before a change of metadata
  or protocol, are left out;
- a process that has posted and gives up commits such a marker first, as a version without other content.  Until that is
  there the outcome is not known.

The age of a post is measured by the store's clock: the leader renews its own post, and compares the two as the store lists
them, and with the time of the newest commit.  So no post gets into a version after one that the store dates `LIVE_MS` (and the
second to which some stores cut their times) after its last renewal, whichever process was stopped, for how long and where:
a process with an older head puts at a version that is taken.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowlock import clock, threads
from rowlock.exceptions import VersionNotFound
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.actions import Commit, CommitInfo
from rowlock.protocol.commits import parse_commit, serialize_commit
from rowlock.storage.store import ObjectMeta, ObjectStore, StorageError, discard, of_each
from rowlock.transaction.commit import commit
from rowlock.transaction.group_commit import group
from rowlock.transaction.group_commit.group import Lot, Member, PostedAppends, Queue
from rowlock.transaction.publish import outcome
from rowlock.transaction.publish.outcome import AbortMarker
from rowlock.transaction.state.shared import SharedState

FOLDER = "_rowlock/queue"
WINDOW = 512
"""Versions through which a guest's transaction is searched for; one that read an older version looks after itself."""
PATIENCE = 5
"""The wait for each process that is earlier in line, in durations of a put."""
LONGEST_PUT_S = 1.0
"""The longest duration of a put for that: one that hung does not predict the next."""
RENEW_S = 2.0
"""How often a waiting process puts its post again."""
LIVE_MS = 6_000
"""A post that was not renewed for this long, by the store's clock, has no owner any more."""
PRESENT_S = 3.0
"""For this long after a renewal of its own a leader takes that for the present time.  With `LIVE_MS`, and one second for stores that cut
their times to seconds, 10 s after the last renewal of a post no process begins a put that contains it."""
_SWEEPERS = 8
_BETWEEN = b"\n\n"


class Post:
    """Appends that a process has staged and posted for others to commit; one object with constant content, put again while its owner waits."""

    def __init__(self, store: ObjectStore, members: Sequence[Member], head: Snapshot) -> None:
        self.key = f"{FOLDER}/{clock.now_ms():013d}-{clock.new_id()}.json"
        self._store, self._data = store, _BETWEEN.join(_staged(m, head) for m in members)
        self.renewed_s = -math.inf
        """When the last renewal began: the store's time of the post is no earlier."""
        for member in members:  # first: where the put fails it may have landed all the same
            member.post = self
        self._put()

    def _put(self) -> None:
        start_s = clock.monotonic_s()
        self._store.put_briefly(self.key, self._data)  # what was staged is durable, and power takes its owner, too
        self.renewed_s = start_s

    def renew(self) -> None:
        """Puts the post again where that is due.  If the store fails, the post is not adopted, and its owner commits by itself."""
        if clock.monotonic_s() - self.renewed_s >= RENEW_S:
            with suppress(StorageError, OSError):
                self._put()


def _staged(member: Member, head: Snapshot) -> bytes:
    txn = member.txn
    info = {
        "timestamp": clock.now_ms(),
        "operation": member.attempt.operation,
        "operationMetrics": {k: str(v) for k, v in member.metrics.items()},
        "readVersion": txn.base.version,  # it was followed this far
        "txnId": txn.txn_id,
        "rowlock": {"table": head.metadata.id, "read_version": txn.read_version, "writer": member.writer},
    }
    return serialize_commit(CommitInfo(info), adds=member.adds, txns=() if txn.app is None else (txn.app,))


@dataclass(frozen=True, slots=True)
class Line:
    """The posts that are there, as one process sees them.

    `live`: its own, and those of others that were renewed of late, oldest first by the clocks of their owners: the order decides
    only which process leads.  `dead`: the keys of the rest.  `now_ms` is the store's present time and holds until `until_s` on this process's
    clock; a process that has no post there knows none, and takes no other process for live.
    """

    live: tuple[ObjectMeta, ...]
    dead: tuple[str, ...]
    now_ms: float
    until_s: float


class Board:
    """Reads the posts of all processes; each is read once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self._read = store, dict[str, list[Commit]]()

    def line(self, own: Sequence[PostedAppends]) -> Line:
        """What is posted; `own` are the caller's posts, renewed just now."""
        renewed = {p.key: p.renewed_s for p in own}
        listed = list(self._store.list(FOLDER))
        mine = [m for m in listed if m.key in renewed]
        now_ms = max((m.modified_ms for m in mine), default=math.inf)
        live = tuple(m for m in listed if m.key in renewed or now_ms - m.modified_ms <= LIVE_MS)
        dead = tuple(m.key for m in listed if m not in live) if mine else ()
        return Line(live, dead, now_ms, max((renewed[m.key] for m in mine), default=-math.inf) + PRESENT_S)

    def of_others(self, line: Line, own: Sequence[PostedAppends], head: Snapshot) -> dict[str, list[Commit]]:
        """What others have staged, by the key of the post; those that died before `head` was committed, by its time, are left out."""
        keys = {p.key for p in own}
        others = [m for m in line.live if m.key not in keys]
        if not others:
            return {}
        missing = [m.key for m in others if m.key not in self._read]
        asked: list[Callable[[], Any]] = [partial(self._store.modified_ms, names.commit_key(head.version)), *(partial(self._load, key) for key in missing)]
        committed_ms, *found = of_each(self._store, lambda ask: ask(), asked)
        self._read.update(zip(missing, found, strict=True))
        now_ms = max(line.now_ms, committed_ms or 0)
        return {m.key: self._read[m.key] for m in others if now_ms - m.modified_ms <= LIVE_MS}

    def _load(self, key: str) -> list[Commit]:
        """A post that is gone or damaged is skipped; its owner commits by itself."""
        try:
            found = [parse_commit(0, part, self._store.root) for part in self._store.get(key).split(_BETWEEN)]
            return [c for c in found if _is_whole(c)]
        except Exception:  # noqa: BLE001 - nothing of it is needed
            return []


def _is_whole(commit: Commit) -> bool:
    """Whether a post holds all that its owner staged: one that was cut between two lines reads well."""
    return group.guest_metrics(commit).get("numFiles") == len(commit.adds) and all(isinstance(t.app_id, str) for t in commit.txns)


class Exchange:
    """The posted appends of all processes, as one leader works with them until its own are committed."""

    def __init__(self, state: SharedState, queue: Queue) -> None:
        self._state, self._queue, self._board = state, queue, Board(state.store)
        self._moved_s, self._front = clock.monotonic_s(), ""
        self._spent: Sequence[str] = ()

    def post(self, members: Sequence[Member], head: Snapshot) -> None:
        """Posts the members that were not posted before."""
        if fresh := [m for m in members if m.post is None]:
            Post(self._state.store, fresh, head)

    def lot(self, members: Sequence[Member], head: Snapshot) -> Lot | None:
        """The members with what others have posted, once it is this process's turn to lead, as it is in a lane that excludes the others; None: look at the log again first.

        Members that were not posted before are posted, and the posts of the others are renewed.  They were followed to `head`
        just before: an owner that was stopped for long finds itself in the log before it renews its post.
        """
        state, queue = self._state, self._queue
        leads = state.lane.excludes_processes
        if leads and not any(m.post for m in members) and not has_posts(state.store):
            return Lot(members, head)
        self.post(members, head)
        own = list(dict.fromkeys(m.post for m in members if m.post is not None))
        of_each(state.store, lambda post: post.renew(), own)
        line = self._board.line(own)
        if line.live and line.live[0].key != self._front:  # the head moves by others' commits too, and a post that is not committed stays before mine
            self._moved_s, self._front = clock.monotonic_s(), line.live[0].key
        mine = {p.key for p in own}
        ahead = next((n for n, m in enumerate(line.live) if m.key in mine), 0)
        pace = min(max(0.005, queue.seconds_a_put), LONGEST_PUT_S)
        if ahead and not leads and clock.monotonic_s() - self._moved_s < PATIENCE * pace * ahead:
            clock.sleep(pace * 0.5 * clock.jitter())
            return None
        carried, guests = _admitted(self._board.of_others(line, own, head), members, head, state.log)
        self._spent = [*carried, *sorted(mine), *line.dead]
        return Lot(members, head, guests, line.until_s)

    def shared(self, others: int) -> None:
        """Has the next appends posted at once where a version had others in it.  In the lane of a local disk a post costs about what it saves: there it takes two."""
        if others > self._state.lane.excludes_processes:
            self._queue.contended()

    def landed(self, lot: Lot) -> None:
        """Deletes the posts that are not needed after a lot was committed."""
        self.shared(len(lot.guests))
        _sweep(self._state.store, self._spent)


def has_posts(store: ObjectStore) -> bool:
    try:
        return next(iter(store.list(FOLDER)), None) is not None
    except StorageError:
        return False


def _admitted(posted: Mapping[str, Sequence[Commit]], lot: Sequence[Member], head: Snapshot, log: TableLog) -> tuple[list[str], list[Commit]]:
    """(posts that are not needed any more after this version, transactions of other processes that may be in the version after `head`)."""
    taken = {m.txn.txn_id for m in lot}
    apps = {m.txn.app.app_id for m in lot if m.txn.app is not None}
    files = sum(len(m.adds) for m in lot)
    guests: list[Commit] = []
    done = dict.fromkeys(posted)
    for key, commits in posted.items():
        for one in commits:
            if one.txn_id in taken or not _may_come(one, head, log):
                continue
            names = {t.app_id for t in one.txns}
            if names & apps or files + len(one.adds) > limits().group_files:
                if len(one.adds) <= limits().group_files:  # else its owner alone can commit it
                    done.pop(key, None)  # the next version is theirs
                continue
            taken.add(str(one.txn_id))
            apps |= names
            files += len(one.adds)
            guests.append(one)
    return list(done), guests


def _may_come(commit: Commit, head: Snapshot, log: TableLog) -> bool:
    info = commit.info.raw if commit.info else {}
    since, record = info.get("readVersion"), info.get("rowlock")
    if commit.txn_id is None or not isinstance(since, int) or not isinstance(record, dict) or record.get("table") != head.metadata.id:
        return False
    if not 0 <= head.version - since <= WINDOW or commit.removes or commit.metadata or commit.protocol or commit.domains:
        return False
    try:
        winners = log.commits(since, head.version)
    except VersionNotFound:  # cleaned up: it is unknown whether it was there
        return False
    for between in winners:
        if commit.txn_id in between.txn_ids or commit.txn_id in between.aborted or between.metadata is not None or between.protocol is not None:
            return False
    return not any(map(head.has_step, commit.txns))


def give_up(member: Member) -> None:
    """Makes sure that a posted transaction which failed is never committed by another; where it has been, it has not failed.

    Leaves a receipt where it landed after all, else `group.error`, which becomes CommitUnknown where nothing could be found out.
    """
    state, txn = member.txn.table.state, member.txn
    assert member.post is not None
    try:
        marker = AbortMarker(state, txn.txn_id, txn.base)
        receipt = commit(marker)
        if marker.found is not None and receipt.version is not None:
            member.error = None
            member.landed(receipt.version, len(marker.found.txn_ids))
    except Exception as e:  # noqa: BLE001 - a log that was cleaned up or is damaged answers as little as a store that is down
        member.error = outcome.unknown(txn.txn_id, state.store.root, None, e)


class _Sweepers(threading.Semaphore):
    """The threads of this process that may delete posts, all tables together: where a store takes long to delete, each version would begin more."""

    def __init__(self) -> None:
        super().__init__(_SWEEPERS)

    def delete(self, store: ObjectStore, keys: Sequence[str]) -> None:
        """Deletes in a thread, whose turn was taken."""
        try:
            discard(store, keys)
        finally:
            self.release()


def _sweep(store: ObjectStore, keys: Sequence[str]) -> None:
    """Deletes posts that are not needed, in the background on a remote store.  What is left is deleted by the next leader."""
    shares = [keys[n::_SWEEPERS] for n in range(min(_SWEEPERS, len(keys)))] if store.is_remote else []
    sweepers = threads.of_process(_Sweepers)
    try:
        for share in shares:  # daemons: a program ends when it ends, whatever the store does
            if sweepers.acquire(blocking=False):
                threads.start(partial(sweepers.delete, store, share), "rowlock queue")
    except RuntimeError:  # the interpreter is about to end
        sweepers.release()
        shares = []
    if not shares:
        discard(store, keys)
