"""Commits blind appends: they queue, and the thread that gets the lane commits all that wait as one version (see `group`).

    write → queue → [turn] → lane: move all to the head, put for all → Committed | Lost: again, or post them for others

An append that is alone in the queue commits as every other transaction does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any

from rowlock import clock
from rowlock.exceptions import CommitUnknown, RowlockError, StorageError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import names
from rowlock.transaction import failed_attempt
from rowlock.transaction.commit import commit
from rowlock.transaction.group_commit.between_processes import Exchange, give_up, has_posts
from rowlock.transaction.group_commit.group import Lot, Member, blame, queue_of
from rowlock.transaction.publish import outcome
from rowlock.transaction.state.call import may_share_version
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.proposal import Over
from rowlock.transaction.state.receipt import Receipt, Stopwatch
from rowlock.transaction.state.shared import SharedState

logger = logging.getLogger("rowlock")

HAND_OVER_AFTER = 2
SLOW_PUT_S = 0.01
"""Puts lost to other processes before a lot is posted, where a put takes longer than this: on a local disk trying again is cheaper."""


def may_join(txn: Pending) -> bool:
    """Whether the transaction may share a version with others: it only adds, has read nothing, and nothing was said of its commit alone."""
    joins = txn.options.lane and txn.options.group_commit and txn.is_blind and txn.metadata is None and txn.data_change and bool(txn.program)
    return joins and may_share_version()


def commit_append(txn: Pending, operation: str, parameters: Mapping[str, Any]) -> Receipt:
    """Commits a blind append, together with those that wait for the table in this process.  Raises as `staged_statements.commit`."""
    member = Member(txn, operation, parameters)
    queue = queue_of(txn.state)
    interrupt: BaseException | None = None
    try:
        member.write()
        txn.phase("written")
        queue.enter(member)
        return commit(LedAppends(member))
    except BaseException as error:  # noqa: BLE001 - raised below, when it is certain that no other leader commits the member
        interrupt = None if isinstance(error, Exception) else error
        # What failed inside of the lane has left the queue there.  Outside of it another thread may have the member in a lot: its put ends first.
        with txn.state.lane if queue.holds(member) and interrupt is None else nullcontext():
            queue.leave([member])
            if member.error is None or interrupt is not None:
                member.error = error
    finally:
        queue.leave([member])
    if member.post is not None:
        give_up(member)
    if member.receipt is None:
        if isinstance(member.error, RowlockError):
            failed_attempt.record(txn, member.error, operation, parameters, member.attempt)
        assert member.error is not None
        raise member.error
    if interrupt is not None:
        raise interrupt  # Ctrl-C ends the call, whatever has landed
    return member.receipt


class _QueuedLane:
    """The table's lane, for a leader.  What fails in it leaves the queue before the next leader, which would commit it, reads the queue."""

    def __init__(self, what: LedAppends) -> None:
        self._what, self._lane = what, what.state.lane

    def __enter__(self) -> None:
        self._lane.enter(self._what.post_before_wait)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if kind is not None:
                self._what.queue.leave([self._what.leader])
        finally:
            self._lane.__exit__(kind, error, traceback)


class LedAppends:
    """All appends that wait for a table, as the proposal of the member whose thread commits them.

    Members are touched inside of the lane only: outside of it another thread may be committing the very same ones.
    """

    def __init__(self, leader: Member) -> None:
        self.leader, self.queue = leader, queue_of(leader.txn.state)
        self.state: SharedState = leader.txn.state
        self.options: Options = leader.txn.options
        self.watch: Stopwatch = leader.txn.watch
        self.read_version, self.attempts = leader.txn.read_version, 0  # it honours the turns of others and takes none
        self._lot: Lot | None = None
        self._exchange: Exchange | None = None
        self._put_began_s = 0.0

    @property
    def txn_id(self) -> str:
        """The transaction that the next version is named after."""
        return (self._lot.members[0] if self._lot is not None else self.leader).txn.txn_id

    @property
    def read(self) -> Snapshot:
        return self.leader.txn.read

    @property
    def head(self) -> Snapshot:
        return self._lot.head if self._lot is not None else self.leader.txn.base

    @property
    def lane(self) -> _QueuedLane:
        return _QueuedLane(self)

    def look(self, *, in_lane: bool) -> Snapshot | None:
        """The newest snapshot, inside of the lane; outside of it nothing is moved, and after a lost put the log is read again.

        A finished leader needs no snapshot, and an error of reading it would not be the member's.
        """
        if in_lane:
            return self.head if self.leader.is_over else self.state.newest()
        if self.queue.lost_in_a_row and not self.leader.is_over and (self._lot is not None or not self.queue.is_contended()):
            self.state.refresh()
        return None

    def move_to(self, head: Snapshot) -> Over | None:
        """Moves all that wait to `head` and gathers those that one version takes in; waits for the posts of others where it has to.

        The end of the leader where another thread or process has committed it.  Raises the leader's error.
        """
        self._lot = None
        while not self.leader.is_over:
            self._lot = self._gathered(head)
            if self._lot is not None:
                return None
            if not self.leader.is_over:
                head = self.state.newest()
        if self.leader.error is not None:
            raise self.leader.error
        assert self.leader.receipt is not None
        if self._exchange is not None:
            self._exchange.shared(self.leader.receipt.group_size - 1)
        return Over(self.leader.receipt.version, by_another=True)

    def _gathered(self, head: Snapshot) -> Lot | None:
        """What is to be put on top of `head`; None where that is not known yet."""
        lost, slow = self.queue.lost_in_a_row >= HAND_OVER_AFTER, self.queue.seconds_a_put > SLOW_PUT_S
        if self._exchange is None and (self.queue.is_contended() or (lost and slow)):
            self.post()
        group = [m for m in self.queue.waiting() if m.follow(head)]
        if self.leader.is_over or not group:
            return None
        group.sort(key=lambda m: m is not self.leader)  # the commit is the leader's
        try:
            return Lot(group, head) if self._exchange is None else self._exchange.lot(group, head)
        except Exception as e:
            if not blame(group, head, self.leader):
                raise
            logger.debug("a group was built again without %s: %s", [m.txn.txn_id for m in group if m.is_over], e)
            return None

    def post(self) -> None:
        """From now on what waits is posted in the table's folder, and committed together with what other processes have posted there."""
        self.queue.contended()
        self._exchange = Exchange(self.state, self.queue)

    def post_before_wait(self) -> None:
        """Posts what waits, for the process that holds the lane's lock or the next one, where posts were taken along of late.

        Of two processes each would commit its own post all the same, so one that is not taken along is tried again after a while only (`Exchange.shared`).
        """
        if not self.leader.is_over and (self.queue.is_contended() or self.queue.is_to_look()):
            self._exchange = self._exchange or Exchange(self.state, self.queue)
            with suppress(StorageError):  # then this process commits for itself
                self._exchange.post(self.queue.waiting(), self.leader.txn.base)

    def write(self) -> None:
        """Notes when the put begins: each member has written its files before it queued, and counts its puts when a lot is formed."""
        self._put_began_s = clock.monotonic_s()
        if self._exchange is not None:
            self._exchange.look_ahead(self.head, self.txn_id)

    def commit_file(self) -> bytes:
        assert self._lot is not None
        return self._lot.bytes()

    def put_ended(self, version: int, won: bool | CommitUnknown) -> Over | None:
        """Gives every member its receipt, or its error.  The version, where the leader is in it: those that came before may have filled it."""
        lot = self._lot
        assert lot is not None
        if isinstance(won, CommitUnknown):
            for member in lot.members:
                member.error = outcome.unknown(member.txn.txn_id, self.state.store.root, version, won)
            if self.leader in lot.members:
                raise won
            return None
        self.queue.seconds_a_put = clock.monotonic_s() - self._put_began_s
        self.queue.lost_in_a_row = 0 if won else self.queue.lost_in_a_row + 1
        if not won:
            self.queue.led = self.queue.led if self.queue.lost_in_a_row < HAND_OVER_AFTER else None
            return None
        self.queue.led, self.queue.last_put = self.txn_id, (self._put_began_s, names.commit_key(version))
        size = len(lot.members) + len(lot.guests) if not lot.shrank else len(self.state.log.commits(version - 1, version)[0].txn_ids)
        for member in lot.members:
            member.landed(version, size)
        self.queue.leave(lot.members)
        if self._exchange is not None:
            self._exchange.landed(lot)
        elif self.state.store.is_remote and self.queue.is_to_look() and has_posts(self.state.store):
            self.queue.contended()  # a process that wins every put would never notice that others lose them
        return Over(version) if self.leader in lot.members else None

    def receipt(self, version: int | None) -> Receipt:
        assert self.leader.receipt is not None
        return self.leader.receipt

    def phase(self, name: str) -> None:
        """Reports the leader's phases to the observer.  That its files are written was reported before it queued."""
        if name != "written":
            self.leader.txn.phase(name)

    def failed(self, error: RowlockError) -> None:
        """Nothing yet: a posted append may have been committed by another process."""
