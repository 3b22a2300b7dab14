"""How a blind append commits: it queues, and whoever gets the lane leads all that wait (see `group`).

    write → queue → [turn] → lane → follow the head → put for all → Committed | Lost (again, or hand over)

An append alone finds nobody else in the queue, and commits as every other transaction does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock import clock
from rowlock.transaction.group_commit.between_processes import give_up, hand_over, has_posts
from rowlock.transaction.group_commit.group import Member, put, queue_of
from rowlock.transaction.state.attempt import Attempt
from rowlock.transaction.state.pending import Pending
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.waiting.turns import turn_of

HAND_OVER_AFTER = 2
SLOW_PUT_S = 0.01
"""Puts lost to other processes before a lot is handed over, where a put takes longer than this: on a local disk trying again is cheaper."""


def may_join(txn: Pending) -> bool:
    """Whether the transaction may share a version with others: it only adds, and has read nothing."""
    return txn.options.lane and txn.options.group_commit and txn.is_blind and txn.metadata is None and txn.data_change and bool(txn.program)


def commit_append(txn: Pending, attempt: Attempt, parameters: Mapping[str, Any]) -> tuple[Receipt, bool]:
    """Commits a blind append, with all others that wait for the table in this process.  Its receipt, and whether it put the version.

    Raises as `staged_statements.commit`.
    """
    state, member = txn.table.state, Member(txn, attempt, parameters)
    queue = queue_of(state)
    member.write()
    txn.phase("written")
    queue.enter(member)
    interrupt: BaseException | None = None
    try:
        with turn_of(txn) as bid:
            start = clock.monotonic_s()
            if bid is not None:
                bid.before_put(0)
            with state.lane:
                txn.watch.add("wait", clock.monotonic_s() - start)
                try:
                    if not member.is_over:
                        lead(member)
                finally:
                    queue.leave([member])  # before the next leader looks: what fails here is not for it to commit
    except BaseException as e:  # noqa: BLE001 - raised below, when it is certain that nobody else commits the member
        member.error = e
        interrupt = None if isinstance(e, Exception) else e
    finally:
        queue.leave([member])
    if member.post is not None and member.error is not None:
        give_up(member)
    if member.error is not None and member.receipt is None:
        raise member.error
    assert member.receipt is not None
    if interrupt is not None:
        raise interrupt  # whoever pressed Ctrl-C wants an end, whatever has landed
    return member.receipt, member.led


def lead(leader: Member) -> None:
    """Publishes until the leader's own transaction is over; who holds the lane does this."""
    state = leader.txn.table.state
    head, queue, lost = state.newest(), queue_of(state), 0
    while True:
        if queue.is_contended() or (lost >= HAND_OVER_AFTER and queue.seconds_a_put > SLOW_PUT_S):
            return hand_over(leader, queue)
        group = [m for m in queue.waiting() if m.follow(head)]
        if leader.is_over:
            return None
        group.sort(key=lambda m: m is not leader)  # the commit is the leader's
        if group and not put(group, head):
            lost += 1
        elif leader in group:
            if state.store.is_remote and queue.is_to_look() and has_posts(state.store):
                queue.contended()  # who wins every put would never learn that others lose them
            return None
        head = state.refresh()  # it was lost, or those that came before the leader have filled the version
