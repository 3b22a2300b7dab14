"""Group commit: blind appends that wait for one table become one version (I1, I2, I6, I8).

The versions of a log are sequential, so a version for each commit has the store's round trip as its
pace.  Appends that read nothing do not care in which version they land.  In one process they wait in
the queue of the table's state; the one that gets the lane leads all that wait, itself among them: see `lead`.
Where other processes keep winning the puts, the lot is posted in the store for others to take along: see `between_processes`.

A group holds blind appends only.  An update beside appends in one version would break readers of
streams, and two transactions that read need more than one place in a version.  Each member keeps its
txnId, receipt, application transaction and row ids, which are given in the order of the members.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rowlock import clock
from rowlock.advice.writers import participant_texts
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Commit, SetTransaction
from rowlock.transaction.publish.commit_bytes import commit_of
from rowlock.transaction.publish.file_actions import FileActions, append_actions, staged_adds
from rowlock.transaction.publish.metrics import operation_metrics
from rowlock.transaction.rebase.onto_head import rebase_onto_head
from rowlock.transaction.state.call import writer
from rowlock.transaction.state.pending import AlreadyCommitted, Attempt, Pending
from rowlock.transaction.state.receipt import Receipt

if TYPE_CHECKING:
    from rowlock.transaction.state.shared import SharedState

logger = logging.getLogger("rowlock")

LOOK_S = 0.5
"""How often a process that wins its puts looks for posts of others."""
CONTENDED_S = 2.0
"""For how long after a hand-over the next lots are handed over at once."""


class PostedAppends(Protocol):
    """Staged appends that a process left in the table's folder for others to commit (see `between_processes`)."""

    key: str
    renewed_s: float

    def renew(self) -> None: ...


class Member:
    """One transaction in a group: its files, and its receipt or its error once it is over."""

    def __init__(self, txn: Pending, operation: str, parameters: Mapping[str, Any]) -> None:
        self.txn, self.attempt, self.parameters, self.writer = txn, Attempt(txn, operation), parameters, writer()
        self.adds: tuple[AddFile, ...] = ()
        self.post: PostedAppends | None = None
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.receipt is not None or self.error is not None

    def write(self) -> None:
        """Writes its data files for the schema of its base; files that are written already are used again."""
        with self.txn.watch.time("write"):
            self.adds = staged_adds(self.txn.effects, self.txn.base, engine=self.txn.table.engine, staging=self.txn.staging)
            self.txn.check_files()

    def follow(self, head: Snapshot) -> bool:
        """Moves the member to the head.  False where it is over: committed already, or failed."""
        try:
            done = rebase_onto_head(self.txn, self.attempt, head, posted=self.post is not None)
            if isinstance(done, int):
                self.landed(done, len(self.txn.table.state.log.commits(done - 1, done)[0].txn_ids))
            else:
                self.txn.rebased(done)
                self.write()
        except AlreadyCommitted:
            self.attempt.already_committed = True
            self.receipt = self.attempt.receipt(self.txn, None, {})
        except Exception as e:  # noqa: BLE001 - it is its own thread's to raise
            self.error = e
        return not self.is_over

    def landed(self, version: int, size: int) -> None:
        """Takes the receipt of a commit at `version`, which `size` transactions share."""
        self.attempt.group_size = size
        self.receipt = self.attempt.receipt(self.txn, version, self.metrics)

    @property
    def metrics(self) -> dict[str, int]:
        return operation_metrics(self.txn, FileActions(self.adds, ()))

    def record(self) -> dict[str, Any]:
        """Plain values for the commitInfo of the group's commit."""
        return {**record_of(self.txn.txn_id, self.attempt.operation, self.txn.read_version, self.metrics, self.txn.app), "writer": self.writer}


def record_of(txn_id: str | None, operation: str | None, read_version: Any, metrics: Mapping[str, Any], app: SetTransaction | None) -> dict[str, Any]:
    out = {
        "txn_id": txn_id,
        "operation": operation,
        "read_version": read_version,
        "files": int(metrics.get("numFiles", 0)),
        "rows": int(metrics.get("numOutputRows", 0)),
    }
    return out if app is None else {**out, "app_id": app.app_id, "app_version": app.version}


def guest_metrics(guest: Commit) -> dict[str, int]:
    """The operation metrics in a posted append of another process."""
    metrics = guest.info.raw.get("operationMetrics") if guest.info else None
    return {k: int(v) for k, v in metrics.items() if isinstance(v, str) and v.isdigit()} if isinstance(metrics, dict) else {}


def guest_record(guest: Commit) -> dict[str, Any]:
    raw, record = (guest.info.raw, guest.info.rowlock or {}) if guest.info else ({}, {})
    writer = {"writer": record["writer"]} if isinstance(record.get("writer"), dict) else {}
    app = guest.txns[0] if guest.txns else None
    return {**record_of(guest.txn_id, raw.get("operation"), record.get("read_version"), guest_metrics(guest), app), **writer}


class Queue:
    """The members that wait in this process for one table, in the order in which they came.  Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._waiting = threading.Lock(), list[Member]()
        self._contended_until_s = self._looked_s = 0.0
        self.seconds_a_put, self.lost_in_a_row = 0.0, 0
        self.led: str | None = None
        """The transaction that this process's last version is named after, until it loses puts to others again."""
        self.last_put = (-math.inf, "")
        """When the put of that version began, and its key."""

    def is_contended(self) -> bool:
        """Whether other processes were in each other's way just now."""
        return clock.monotonic_s() < self._contended_until_s

    def contended(self) -> None:
        self._contended_until_s = clock.monotonic_s() + CONTENDED_S

    def is_to_look(self) -> bool:
        """Whether to look for posts of others: a process that wins every put would never notice them."""
        now = clock.monotonic_s()
        if now - self._looked_s < LOOK_S:
            return False
        self._looked_s = now
        return True

    def enter(self, member: Member) -> None:
        with self._lock:
            self._waiting.append(member)

    def leave(self, members: Sequence[Member]) -> None:
        with self._lock:
            self._waiting = [m for m in self._waiting if m not in members]
            if not self._waiting:
                self.lost_in_a_row = 0  # the next leader begins anew

    def holds(self, member: Member) -> bool:
        """Whether a member waits, so that the holder of the lane may commit it."""
        with self._lock:
            return member in self._waiting

    def waiting(self) -> list[Member]:
        """The members that fit into one version, in order; one step of an application at a time."""
        with self._lock:
            return fitting([m for m in self._waiting if not m.is_over])


def fitting(members: Sequence[Member]) -> list[Member]:
    out: list[Member] = []
    files, apps = 0, set[str]()
    for member in members:
        app = member.txn.app
        if (out and files + len(member.adds) > limits().group_files) or (app is not None and app.app_id in apps):
            continue
        files += len(member.adds)
        apps |= set() if app is None else {app.app_id}
        out.append(member)
    return out


def queue_of(state: SharedState) -> Queue:
    queue: Queue = state.shared("appends that wait", Queue)
    return queue


class Lot:
    """What is to become one version: members of this process, and posted appends of others while their owners are known to live.

    Raises what makes one of the members impossible to commit.
    """

    def __init__(self, group: Sequence[Member], head: Snapshot, guests: Sequence[Commit] = (), until_s: float = math.inf) -> None:
        self.members, self.head, self._until_s = tuple(group), head, until_s
        self.guests, self.shrank = tuple(guests), False
        for member in group:
            member.attempt.attempts += 1  # before the bytes, which contain it
        try:
            self._data = group_bytes(group, head, self.guests)
        except Exception:
            if not guests:
                raise
            self.guests = ()  # a post may be damaged in any way, which must not harm the leader
            self._data = group_bytes(group, head)

    def bytes(self) -> bytes:
        """What is to be put now; an earlier put of the same version may have had the guests in it."""
        if self.guests and not self.shrank and clock.monotonic_s() > self._until_s:
            self._data, self.shrank = group_bytes(self.members, self.head), True
        return self._data


def blame(group: Sequence[Member], head: Snapshot, leader: Member) -> bool:
    """Tries each member alone: one that fails, such as one whose rows cannot be counted, gets its error.  Returns whether any did.

    A leader that is alone raises its error itself.
    """
    for member in group if list(group) != [leader] else ():
        try:
            group_bytes([member], head)
        except Exception as e:  # noqa: BLE001 - it is its own thread's to raise
            member.error = e
    return any(m.is_over for m in group)


def group_bytes(group: Sequence[Member], head: Snapshot, guests: Sequence[Commit] = ()) -> bytes:
    """The bytes of the version after `head` that commits a group; for a group of one they are those of its ordinary commit."""
    leader = group[0]
    files = append_actions([*(a for m in group for a in m.adds), *(a for g in guests for a in g.adds)], head, leader.txn.table.engine)
    steps: list[SetTransaction] = [*(m.txn.app for m in group if m.txn.app is not None), *(t for g in guests for t in g.txns)]
    metrics = Counter[str]()
    for one in [*(m.metrics for m in group), *map(guest_metrics, guests)]:
        metrics.update(one)
    members = [{k: v for k, v in one.items() if (k, v) != ("writer", leader.writer)} for one in [*(m.record() for m in group), *map(guest_record, guests)]]
    record: dict[str, Any] = {"writer": leader.writer, **({} if len(members) == 1 else {"members": members})}
    many, *writers = participant_texts({"rowlock": record}) or [""]
    shown = {"participants": f"{many} {', '.join(writers)}"} if writers else {}  # what DESCRIBE HISTORY of any engine shows
    return commit_of(leader.txn, leader.attempt, files, {**leader.parameters, **shown}, metrics, steps, record)
