"""The commit loop: moves a proposal to the head of the log, waits for the turns of others, and puts the next version if absent (I1, I2, I4).

    refresh → move to the head → [turn] → lane: move again, write, put → Committed | Lost: again | Unknown: read back

The first move of a round carries the bulk of the work (a rebase, a scan for a new constraint) and delays no other writer; only
what came in the meantime is done inside the lane.  A commit file is built anew for every put and never used again.
"""

from __future__ import annotations

from rowlock import clock, progress
from rowlock.exceptions import CommitUnknown, RowlockError, StorageError
from rowlock.locks.turns import TurnRequest
from rowlock.log import checksums
from rowlock.log.cleanup import clean_up
from rowlock.log.snapshot import Snapshot
from rowlock.transaction.publish import manifests, outcome
from rowlock.transaction.state import accounts
from rowlock.transaction.state.call import landed
from rowlock.transaction.state.proposal import Over, Proposal
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import logger
from rowlock.transaction.waiting.turns import turn_of


def commit(what: Proposal) -> Receipt:
    """Makes `what` the next version of its table, or finds that there is nothing to commit.  Runs on the driver.

    Raises what the proposal raises when it is moved to a head (conflicts by policy, and errors that serial execution has too),
    CommitUnknown where the log cannot be read back, and StorageError where the store refused the first put.
    """
    with progress.work("commit to", what.state.store.root):
        receipt = landed(_committed(what))
    accounts.committed(what.state.store.root, receipt)
    return receipt


def _committed(what: Proposal) -> Receipt:
    try:
        with turn_of(what) as turn:
            over = _rounds(what, turn)
    except RowlockError as error:
        what.failed(error)
        raise
    receipt = what.receipt(over.version)
    if over.version is not None and not over.by_another:
        _after_commit(what, over.version)
    return receipt


def _rounds(what: Proposal, turn: TurnRequest | None) -> Over:
    """Tries until the proposal is committed, or nothing is left to commit."""
    while True:
        over = _moved(what, in_lane=False)
        if over is None:
            start = clock.monotonic_s()
            if turn is not None:
                turn.before_put(what.attempts)
            with what.lane:  # nothing between: an interrupt there would keep the lane for good
                what.watch.add("wait", clock.monotonic_s() - start)
                over = _moved(what, in_lane=True) or _put(what)
        if over is not None:
            return over


def _moved(what: Proposal, *, in_lane: bool) -> Over | None:
    """Moves the proposal to the head that it has to be moved to, if there is one."""
    head = what.look(in_lane=in_lane)
    return None if head is None else what.move_to(head)


def _put(what: Proposal) -> Over | None:
    """Writes the files and tries one put; None where another writer took the version."""
    with what.watch.time("write"):
        what.write()
    what.phase("written")
    head = what.head
    version = 0 if head is None else head.version + 1
    what.phase("before_put")
    try:
        with what.watch.time("put"):
            won = outcome.put(what.state, head, what.commit_file, what.txn_id)
    except CommitUnknown as error:
        return what.put_ended(version, error)
    what.phase("after_put")
    return what.put_ended(version, won)


def _after_commit(what: Proposal, version: int) -> None:
    """Refreshes the shared snapshot, writes a checkpoint when one is due and then deletes the expired log; none of them can fail the commit (I10)."""
    what.phase("committed")
    if what.head is None:
        what.state.forget()  # what was known was of a table that was here before
        return
    try:
        newest = what.state.newest()
        _write_checksum(what, newest)
        manifests.follow_quietly(what.state, newest, version)
        has_checkpoint = what.state.log.maybe_checkpoint(newest)
    except Exception as e:  # noqa: BLE001 - the commit has landed; a checkpoint is only a convenience
        logger.warning("the checkpoint after the commit failed and will be tried again: %s", e)
        return
    if not has_checkpoint:
        return
    try:
        clean_up(what.state.store, newest)
    except Exception as e:  # noqa: BLE001 - what was not deleted now is deleted after a later checkpoint
        logger.warning("the log of %s could not be cleaned up and will be after the next checkpoint: %s", newest.table, e)


def _write_checksum(what: Proposal, newest: Snapshot) -> None:
    """Writes the checksum of the newest version, where the table asks for it; a missing one does no harm."""
    try:
        checksums.write(what.state.store, newest)
    except StorageError as e:
        logger.warning("the checksum of version %d of %s could not be written: %s", newest.version, newest.table, e)
