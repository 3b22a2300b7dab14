"""Group commit: blind appends that wait for one table become one version (I1, I2, I6, I8).

The versions of a log are sequential, so a version for each commit has the store's round trip as its
pace.  Appends that read nothing do not care in which version they land.  In one process they wait in
the queue of the table's state; whoever gets the lane leads all that wait, itself among them.  Where
other processes keep winning the puts, the lot is handed over through the store: see `handover`.

A group holds blind appends only.  An update beside appends in one version would break readers of
streams, and two transactions that read need more than one place in a version.  Each member keeps its
txnId, receipt, application transaction and row ids, which are given in the order of the members.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rowlock.exceptions import CommitUnknown
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, SetTransaction
from rowlock.transaction import row_ids
from rowlock.transaction.catch_up import AlreadyCommitted, Attempt, catch_up
from rowlock.transaction.metrics import operation_metrics
from rowlock.transaction.publish import FileActions, staged_adds
from rowlock.transaction.receipt import Receipt

if TYPE_CHECKING:
    from rowlock.transaction.table_state import TableState
    from rowlock.transaction.transaction import Transaction

MAX_FILES = 2_000
"""What one version takes in; the rest waits for the next."""
HEAD_KNOWN_S = 2.0
"""How long a head counts as known: a put on top of it says itself whether it still is."""


def may_join(txn: Transaction) -> bool:
    """Whether the transaction may share a version with others: it only adds, and has read nothing."""
    return txn.options.lane and txn.options.group_commit and txn.is_blind and txn.metadata is None and txn.data_change and bool(txn.program)


class Member:
    """One transaction in a group."""

    def __init__(self, txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> None:
        self.txn, self.attempt, self.parameters = txn, attempt, parameters
        self.adds: tuple[AddFile, ...] = ()
        self.led = False
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.receipt is not None or self.error is not None

    def write(self) -> None:
        """Its data files, under the definition of its base; those that are written already serve again."""
        with self.txn.watch.time("write"):
            self.adds = staged_adds(self.txn.effects, self.txn.base, engine=self.txn.table.engine, staging=self.txn.staging)

    def follow(self, head: Snapshot) -> bool:
        """Brings the member to the head.  Whether it still is to be committed; else its receipt or its error is there."""
        try:
            version = catch_up(self.txn, self.attempt, head)
            if version is not None:
                self.landed(version, 1)
            else:
                self.write()
        except AlreadyCommitted:
            self.txn.already_committed = True
            self.receipt = self.attempt.receipt(self.txn, None, {})
        except Exception as e:  # noqa: BLE001 - it is its own thread's to raise
            self.error = e
        return not self.is_over

    def landed(self, version: int, size: int) -> None:
        self.attempt.group_size = size
        self.receipt = self.attempt.receipt(self.txn, version, self.metrics)

    @property
    def metrics(self) -> dict[str, int]:
        return operation_metrics(self.txn, FileActions(self.adds, ()))

    def record(self) -> dict[str, Any]:
        """What the group's commit says of it."""
        app = self.txn.app
        out = {"txn_id": self.txn.txn_id, "operation": self.attempt.operation, "read_version": self.txn.read_version, "files": len(self.adds), "rows": self.metrics.get("numOutputRows", 0)}
        return out if app is None else {**out, "app_id": app.app_id, "app_version": app.version}


class Queue:
    """The members that wait in this process for one table, in the order in which they came.  Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._waiting = threading.Lock(), list[Member]()

    def enter(self, member: Member) -> None:
        with self._lock:
            self._waiting.append(member)

    def leave(self, members: Sequence[Member]) -> None:
        with self._lock:
            self._waiting = [m for m in self._waiting if m not in members]

    def waiting(self) -> list[Member]:
        """Those that one version can take in; one step of an application at a time."""
        with self._lock:
            return fitting(self._waiting)


def fitting(members: Sequence[Member]) -> list[Member]:
    out: list[Member] = []
    files, apps = 0, set[str]()
    for member in members:
        app = member.txn.app
        if (out and files + len(member.adds) > MAX_FILES) or (app is not None and app.app_id in apps):
            continue
        files += len(member.adds)
        apps |= set() if app is None else {app.app_id}
        out.append(member)
    return out


def commit_in_group(txn: Transaction, attempt: Attempt, parameters: Mapping[str, Any]) -> Receipt:
    """Commits a blind append, with all others that wait for the table in this process.  Raises as `commit.commit`."""
    from rowlock.transaction.commit import after_commit

    state, member = txn.table.state, Member(txn, attempt, parameters)
    queue = queue_of(state)
    member.write()
    txn.phase("written")
    queue.enter(member)
    try:
        with txn.watch.time("wait"):
            state.lane.acquire()
        try:
            if not member.is_over:
                lead(member)
        finally:
            state.lane.release()
    finally:
        queue.leave([member])
    if member.error is not None:
        raise member.error
    assert member.receipt is not None
    if member.led:
        after_commit(txn)
    return member.receipt


def queue_of(state: TableState) -> Queue:
    queue: Queue = state.shared("appends that wait", Queue)
    return queue


def lead(leader: Member) -> None:
    """Publishes until the leader's own transaction is over; who holds the lane does this."""
    state = leader.txn.table.state
    head, queue = state.recent(HEAD_KNOWN_S), queue_of(state)
    while True:
        group = [m for m in queue.waiting() if m.follow(head)]
        if leader.is_over:
            return
        group.sort(key=lambda m: m is not leader)  # the commit is the leader's
        if _put(group, head):
            return
        head = state.refresh()


def _put(group: Sequence[Member], head: Snapshot) -> bool:
    """Tries one version for all of them."""
    from rowlock.transaction.commit import UNKNOWN, put_version

    txn = group[0].txn
    for member in group:
        member.attempt.attempts += 1
    txn.phase("before_put")
    version = head.version + 1
    data = group_bytes(group, head)
    try:
        with txn.watch.time("put"):
            won = put_version(txn, version, data)
    except CommitUnknown:
        for member in group:
            member.error = CommitUnknown(UNKNOWN, txn_id=member.txn.txn_id, table=txn.table.path, version=version)
        return True
    txn.phase("after_put")
    if won:
        group[0].led = True
        for member in group:
            member.landed(version, len(group))
        queue_of(txn.table.state).leave(group)
    return won


def group_bytes(group: Sequence[Member], head: Snapshot) -> bytes:
    """The commit of a group on top of `head`; that of a member alone where there is one."""
    from rowlock.transaction.commit import commit_of

    leader = group[0]
    adds, domains = row_ids.assigned([a for m in group for a in m.adds], head, leader.txn.table.engine.count)
    files = FileActions(adds, (), domains=domains)
    steps: list[SetTransaction] = [m.txn.app for m in group if m.txn.app is not None]
    metrics: dict[str, int] = {}
    for member in group:
        for name, value in member.metrics.items():
            metrics[name] = metrics.get(name, 0) + value
    record = {} if len(group) == 1 else {"members": [m.record() for m in group]}
    return commit_of(leader.txn, leader.attempt, files, leader.parameters, metrics, steps, record)
