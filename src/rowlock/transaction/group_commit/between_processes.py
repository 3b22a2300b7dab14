"""Group commit between processes: staged appends are handed over through the table's own store (I1, I2, I8).

A process whose puts are lost again and again posts what it has staged below `_rowlock/queue/`, as the
commit that it would have been.  Who led last leads on: it puts one version for its own appends and all posts, and reads the posts
of the next one meanwhile.  The others wait, ask for the next versions alone, and look whether they are in them; where nothing moves each
leads in its turn, oldest post first, so a leader that dies delays no other for long.  Who leads is a courtesy: any number of leaders at once is safe, for

- a post is valid for as long as its owner renews it: it puts the post again while it waits.  A post that
  was not renewed for `LIVE_MS` is not adopted, for its owner may be dead and its work done again by another;
- before a put at version v all versions from a member's read version to v-1 are searched for its txnId,
  and for a marker that gave it up; members that are found, and members from before a change of metadata
  or protocol, are left out;
- a process that has posted and gives up commits such a marker first, as a version without other content.  Until that is
  there the outcome is not known.

The age of a post is measured by the store's clock: the leader puts its own post, or has put the last commit, and compares the times
that the store gives the two, and with that of the newest commit.  So no post gets into a version after another process's that the store dates `LIVE_MS` (and the
second to which some stores cut their times) after its last renewal, whichever process was stopped, for how long and where:
a process with an older head puts at a version that is taken.
"""

from __future__ import annotations

import math
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
from rowlock.storage.store import ObjectStore, StorageError, discard, of_each
from rowlock.transaction.commit import commit
from rowlock.transaction.group_commit import group
from rowlock.transaction.group_commit.group import Lot, Member, Queue, queue_of
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
class Look:
    """The posts that are there, as one process sees them.

    `live`: the keys of its own, and of those of others that were renewed of late, oldest first by the clocks of their owners: the order decides
    only which process leads.  `posted`: what the others have staged.  `dead`: the keys of the rest.  It holds until `until_s` on this process's
    clock; a process that does not know the store's present time takes no other for live.
    """

    live: tuple[str, ...]
    posted: Mapping[str, list[Commit]]
    dead: tuple[str, ...]
    until_s: float


class Board:
    """The posts of all processes, as this process reads and deletes them; each is read once."""

    def __init__(self, state: SharedState) -> None:
        self._store, self._queue, self._read = state.store, queue_of(state), dict[str, list[Commit]]()
        self._looking, self._deleting, self._ahead = threads.lock(), threads.lock(), dict[str | None, Look]()
        self._swept: Sequence[str] = ()

    def leads(self) -> bool:
        """Whether this process led last, and just now, so that it knows the store's time without a post."""
        return self._queue.led is not None and clock.monotonic_s() - self._queue.last_put[0] < RENEW_S

    def look_ahead(self, head: Snapshot, txn_id: str) -> None:
        """Looks for who leads after the version of `txn_id`, while that is put on top of `head`."""

        def look() -> None:
            with suppress(StorageError, OSError):  # who leads looks itself
                self._ahead = {txn_id: self._look({}, head)}

        if self._store.is_remote and self.leads():
            _in_background(look, self._looking)

    def look(self, own: Mapping[str, float], head: Snapshot) -> Look:
        """What is posted: what was looked up ahead, once, where that version is the head; else what is there now.  `own`: the caller's posts, and when they were renewed."""
        with self._looking:
            found, self._ahead = self._ahead.get(head.txn_id), {}
            return found or self._look(own, head)

    def sweep(self, keys: Sequence[str]) -> None:
        """Deletes posts that are not needed, in the background on a remote store.  What is left is deleted after a later version."""
        left = [[key] for key in keys if key not in self._swept]  # what was looked up ahead may have been deleted since

        def delete() -> None:
            self._swept = keys
            of_each(self._store, partial(discard, self._store), left)

        if not self._store.is_remote:
            delete()
        elif left:
            _in_background(delete, self._deleting)

    def _look(self, own: Mapping[str, float], head: Snapshot) -> Look:
        """What is posted now.  The store's present time is no earlier than that of what this process put last; and what died before `head` was committed, by its time, is left out."""
        store = self._store
        began_s, last = max([self._queue.last_put, *((renewed_s, key) for key, renewed_s in own.items())])
        asked: list[Callable[[], Any]] = [lambda: list(store.list(FOLDER)), lambda: store.modified_ms(last) if last else None]
        listed, now_ms = of_each(store, lambda ask: ask(), asked)
        others = [m for m in listed if m.key not in own and now_ms is not None and now_ms - m.modified_ms <= LIVE_MS]
        missing = [m.key for m in others if m.key not in self._read]
        newest = names.commit_key(head.version)
        asked = [lambda: now_ms if newest == last else store.modified_ms(newest), *(partial(self._load, key) for key in missing)]
        committed_ms, *found = of_each(store, lambda ask: ask(), asked) if others else [None]
        read = {**self._read, **dict(zip(missing, found, strict=True))}
        self._read = {m.key: read[m.key] for m in others}
        posted = {m.key: read[m.key] for m in others if (committed_ms or 0) - m.modified_ms <= LIVE_MS}
        live = tuple(m.key for m in listed if m.key in own or m.key in self._read)
        dead = tuple(m.key for m in listed if m.key not in live) if now_ms is not None else ()
        return Look(live, posted, dead, began_s + PRESENT_S)

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
        self._state, self._queue = state, queue
        self._board: Board = state.shared("posts of all processes", partial(Board, state))
        self.look_ahead = self._board.look_ahead
        self._began_s = self._moved_s = clock.monotonic_s()
        self._front: tuple[str, ...] = ()
        self._spent: Sequence[str] = ()

    def post(self, members: Sequence[Member], head: Snapshot, *also: Callable[[], None]) -> None:
        """Posts the members that were not posted before, and renews the posts of the others; at the same time as `also`.

        They were followed to `head` just before: an owner that was stopped for long finds itself in the log before it renews its post.
        """
        fresh = [m for m in members if m.post is None]
        asked: list[Callable[[], object]] = [p.renew for p in dict.fromkeys(m.post for m in members) if p is not None]
        if fresh:
            asked.append(partial(Post, self._state.store, fresh, head))
        of_each(self._state.store, lambda ask: ask(), [*asked, *also])

    def lot(self, members: Sequence[Member], head: Snapshot) -> Lot | None:
        """The members with what others have posted, once it is this process's turn to lead, as it is in a lane that excludes the others; None: look at the log again first.

        Who led last leads on, and need not post its members; the others wait for it.
        """
        state, queue, now_s = self._state, self._queue, clock.monotonic_s()
        alone, pace_s = state.lane.excludes_processes, min(max(0.005, queue.seconds_a_put), LONGEST_PUT_S)
        leads, knows = alone or queue.led is not None, self._board.leads()
        waits = not leads and now_s - self._began_s < min(PATIENCE * pace_s, LONGEST_PUT_S)
        if not knows:
            if alone and not any(m.post for m in members) and not has_posts(state.store):
                return Lot(members, head)
            self.post(members, head, *([state.advance] if waits else []))
        if not waits:
            own = {m.post.key: m.post.renewed_s for m in members if m.post is not None}
            look = self._board.look(own, head)
            if look.live[:1] != self._front:  # the head moves by others' commits too, and a post that is not committed stays before mine
                self._moved_s, self._front = now_s, look.live[:1]
            ahead = next((n for n, key in enumerate(look.live) if key in own), 0)
            if leads or now_s - self._moved_s >= PATIENCE * pace_s * ahead:
                carried, guests = _admitted(look.posted, members, head, state.log)
                self._spent = [*carried, *sorted(own), *look.dead]
                return Lot(members, head, guests, look.until_s)
            state.advance()
        if state.known is head:
            clock.sleep(pace_s * 0.25 * clock.jitter())
        return None

    def shared(self, others: int) -> None:
        """Has the next appends posted at once where a version had others in it.  In the lane of a local disk a post costs about what it saves: there it takes two."""
        if others > self._state.lane.excludes_processes:
            self._queue.contended()

    def landed(self, lot: Lot) -> None:
        """Deletes the posts that are not needed after a lot was committed."""
        self.shared(len(lot.guests))
        if not lot.shrank:
            self._board.sweep(self._spent)


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


def _in_background(call: Callable[[], None], lock: threads.Lock) -> None:
    """Runs `call` with the lock in a thread of its own; not at all where another thread has the lock."""

    def alone() -> None:
        if lock.acquire(blocking=False):
            try:
                call()
            finally:
                lock.release()

    try:
        threads.start(alone, "rowlock queue")  # a daemon: a program ends when it ends, whatever the store does
    except RuntimeError:  # the interpreter is about to end
        alone()
