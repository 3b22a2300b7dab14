"""The commit loop: moves a proposal to the head of the log, waits for the turns of others, and puts the next version if absent (I1, I2, I4).

    refresh → move to the head → [turn] → lane: move again, write, put → Committed | Lost: again | Unknown: read back

The first move of a round carries the bulk of the work (a rebase, a scan for a new constraint) and delays no other writer; only
what came in the meantime is done inside the lane.  A commit file is built anew for every put and never used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rowlock import progress
from rowlock.exceptions import CommitUnknown, RowlockError
from rowlock.locks.turns import TurnRequest
from rowlock.log import checksums
from rowlock.log.cleanup import clean_up
from rowlock.transaction.lease_line import turn_of
from rowlock.transaction.publish import manifests, outcome
from rowlock.transaction.state import phases
from rowlock.transaction.state.call import landed
from rowlock.transaction.state.proposal import Over, Proposal
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import logger

Put = Callable[[], list[Over] | None]


def commit(what: Proposal) -> Receipt:
    """Makes `what` the next version of its table, or finds that there is nothing to commit.  Runs on the driver.

    Raises what the proposal raises when it is moved to a head (conflicts by policy, and errors that serial execution has too),
    CommitUnknown where the log cannot be read back, and StorageError where the store refused the first put.
    """
    return commit_all([what], lambda: None if (over := _put(what)) is None else [over])[0]


def commit_all(parts: Sequence[Proposal], put: Put) -> list[Receipt]:
    """`commit` for proposals of one table each, which one call of `put` makes the next versions of all of their tables.

    `put` runs in the lanes of all tables; it returns None where another writer was faster in one of them, and then everything is moved again.
    Their order is the order in which lanes and turns are taken: the same in every process.
    """
    with progress.work("commit to", ", ".join(p.state.store.root for p in parts)):
        receipts = [landed(receipt) for receipt in _committed(parts, put)]
    for part, receipt in zip(parts, receipts, strict=True):
        phases.committed(part.state.store.root, receipt)
    return receipts


def _committed(parts: Sequence[Proposal], put: Put) -> list[Receipt]:
    try:
        with ExitStack() as stack:
            turns = [stack.enter_context(turn_of(part)) for part in parts]
            ended = _rounds(parts, turns, put)
    except RowlockError as error:
        for part in parts:
            part.failed(error)
        raise
    receipts = [part.receipt(over.version) for part, over in zip(parts, ended, strict=True)]
    for part, over in zip(parts, ended, strict=True):
        if over.version is not None and not over.by_another:
            _after_commit(part, over.version)
    return receipts


def _rounds(parts: Sequence[Proposal], turns: Sequence[TurnRequest | None], put: Put) -> list[Over]:
    """Tries until the proposals are committed, or nothing is left to commit."""
    while True:
        ended = _moved(parts, in_lane=False)
        if ended is None:
            waited = [part.watch.waits() for part in parts]
            for part, turn in zip(parts, turns, strict=True):
                if turn is not None:
                    turn.before_put(part.attempts)
            ended = _in_lanes(parts, parts, waited, put)
        if ended is not None:
            return ended


def _in_lanes(waiting: Sequence[Proposal], parts: Sequence[Proposal], waited: Sequence[Callable[[], None]], put: Put) -> list[Over] | None:
    """Takes the lanes of those that are waiting, one within the other, which ends the wait of each; then moves all parts once more, and puts."""
    if not waiting:
        return _moved(parts, in_lane=True) or put()
    with waiting[0].lane:  # nothing between: an interrupt there would keep the lane for good
        waited[0]()
        return _in_lanes(waiting[1:], parts, waited[1:], put)


def _moved(parts: Sequence[Proposal], *, in_lane: bool) -> list[Over] | None:
    """Moves each proposal to the head that it has to be moved to, if there is one.  Their ends, where that ended them."""
    ended = []
    for part in parts:
        head = part.look(in_lane=in_lane)
        if head is not None and (over := part.move_to(head)) is not None:
            ended.append(over)
    return ended if len(ended) == len(parts) else None


def _put(what: Proposal) -> Over | None:
    """Writes the files and tries one put; None where another writer took the version."""
    with what.watch.time("write"):
        what.write()
    what.phase("written")
    head, version = what.head, what.head.version + 1
    what.phase("before_put")
    try:
        with what.watch.time("put"):
            won = outcome.put(what.state, head, what.commit_file, what.txn_id)
    except CommitUnknown as error:
        return what.put_ended(version, error)
    what.phase("after_put")
    return what.put_ended(version, won)


def _after_commit(what: Proposal, version: int) -> None:
    """Refreshes the shared snapshot, writes what the table keeps beside its log and deletes the expired log after a checkpoint; none of them can fail the commit (I10)."""
    what.phase("committed")
    state = what.state
    if version == 0:
        asked = what.head.properties
        if state.known is None and not (asked.writes_checksums or asked.writes_manifests):
            return  # who uses the new table next reads it
        state.ask_again()  # what is known may be of a table that was here before
    with _harmless("the checkpoint after the commit failed and will be tried again"):
        newest = state.newest(settled=False)
        with _harmless("the checksum of version %d of %s could not be written", newest.version, newest.table):
            checksums.write(state.store, newest)
        with _harmless("the manifests of %s could not be written after version %d", newest.table, version):
            manifests.follow(state, newest, version)
        if state.log.maybe_checkpoint(newest):
            with _harmless("the log of %s could not be cleaned up and will be after the next checkpoint", newest.table):
                clean_up(state.store, newest)


@contextmanager
def _harmless(text: str, *named: object) -> Iterator[None]:
    """Logs what the block raises: the commit has landed, and what is not done beside it now is done after a later one, or by hand."""
    try:
        yield
    except Exception as e:  # noqa: BLE001 - none of it may hide that the commit succeeded
        logger.warning(f"{text}: %s", *named, e)
