"""Commits a transaction over several tables on any stores: prepared in each table but its home, decided by one put in the home's log (I1, I2).

Each P is put by its owner, after the transaction was rebased over all that is in that table's log; from then on the table waits for the
decision.  The home's version with the transaction's data there is the decision.  Then each P is closed (see `close`).  An attempt that
another process gave up by a marker, because its owner took long, ends without effect, and the owner tries again under another id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from rowlock import clock, threads
from rowlock.conflict import change_feed
from rowlock.exceptions import CommitUnknown, InvalidInput, RowlockError, StorageError, UnsupportedFeature
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import row_tracking
from rowlock.protocol.features import vectors_allowed
from rowlock.protocol.prepared import PREPARE, Home, Prepared, opens, post_key, prepared_in, relative_place
from rowlock.storage.store import discard
from rowlock.transaction.publish import outcome
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.staged_statements import StagedStatements
from rowlock.transaction.state.pending import Attempt, Pending
from rowlock.transaction.state.proposal import Over
from rowlock.transaction.state.shared import logger
from rowlock.transaction.two_phase.close import ABORTED, close

Wait = Literal["everywhere", "decided"]
"""Until when the owner of a transaction waits: for its version in all tables, or for the decision."""
MOST_TABLES = 20
INLINE_BYTES = 16_384
"""A staged commit that is longer is posted beside the table, and not in the P."""


class Part(StagedStatements):
    """What one transaction staged in one table, or only read of it: a proposal that is committed together with those of other tables.

    prepared  the P that was put for it and is still open
    since     the home: its version when the first P was put
    is_sent   the home: the decision was sent, and is not known to have failed
    """

    def __init__(self, txn: Pending, operation: str, parameters: Mapping[str, Any], txn_id: str) -> None:
        txn.txn_id = txn_id
        super().__init__(txn, Attempt(txn, operation), parameters)
        self.path = txn.table.path
        self.prepared: Prepared | None = None
        self.since: int | None = None
        self.is_pending = self.is_sent = self.is_given_up = False

    def look(self, *, in_lane: bool) -> Snapshot | None:  # type: ignore[override]
        """The newest snapshot; None where the table is prepared: what others commit there comes after this transaction."""
        return None if self.prepared is not None else super().look(in_lane=in_lane)

    def move_to(self, head: Snapshot) -> None:
        """Rebases what is staged, and checks what was read; a part that has nothing to write any more stays as one that was read."""
        if self.since is not None and self.since < head.version:
            since = self.state.log.commits(self.since, head.version)
            self.is_given_up = any(self.txn_id in c.aborted for c in since)
            if any((found := prepared_in(c)) is not None and found.txn_id == self.txn_id for c in since):
                text = "this table is another one of the transaction, too, under another path: a mount, a link, or a name in other letters. Name it once"
                raise InvalidInput(text, table=self.path)
        super().move_to(head)

    @property
    def has_nothing(self) -> bool:
        return not self.txn.program or super().has_nothing

    @property
    def is_only_read(self) -> bool:
        """Whether nothing is written, and what was read must still hold at the commit."""
        return self.has_nothing and not self.attempt.already_committed and (self.txn.reads_table or self.txn.touches) and self.options.isolation != "snapshot"

    @property
    def must_be_home(self) -> str | None:
        """Why others could not roll the part forward over any commit of another engine, so that its table must be the home; None where they can."""
        head, changes_rows = self.head, self.txn.effects.num_tombstones > 0
        if self.txn.metadata is not None:
            return "its definition changes"
        if self.cdc or (changes_rows and change_feed.is_enabled(head.protocol, head.metadata)):
            return "rows of it change, and it has a change data feed"
        if changes_rows and not vectors_allowed(head.protocol, head.metadata):
            return "rows of it change, and it has no deletion vectors (delta.enableDeletionVectors)"
        if changes_rows and not row_tracking.is_enabled(head.protocol, head.metadata):
            return f"rows of it change, and it does not track them ({row_tracking.ENABLED})"
        return None


def put(parts: Sequence[Part], wait: Wait) -> list[Over] | None:
    """Prepares the parts, in reverse order, decides in the home and closes; None where another writer was faster in one of the tables, or gave the attempt up.

    `wait`: for "decided" the parts are closed in the background, and those that are written are pending.
    """
    writing, only_read = written(parts)
    if not writing:
        return [Over(None)] * len(parts)
    home = _home_of(writing)
    if home.is_given_up or any(p.prepared is not None and p.prepared.home.table != home.path for p in parts):
        give_up(parts)
        txn_id = clock.new_id()
        for part in parts:
            part.txn.txn_id = part.txn_id = txn_id
        return None
    others = [p for p in parts if p is not home and (p in writing or p in only_read)]
    if others and home.since is None:
        home.since = home.head.version
    for part in reversed(others):  # those of all transactions wait in one direction
        if part.prepared is None and not _prepare(part, home, len(others) + 1):
            return None
    if not _decided(home, others):
        return None
    decided = home.head.version + 1
    closed = threads.side_by_side(lambda p: _closed(p, decided), others, limits().request_threads) if wait == "everywhere" else _begin_to_close(others, decided)
    versions = {home: Over(decided), **{p: Over(None if p in only_read else v, by_another=True) for p, v in zip(others, closed, strict=True)}}
    return [versions.get(part, Over(None)) for part in parts]


def written(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Writes the files of the parts that are not prepared yet, and counts the put that follows.  Returns (those that write, those that only read)."""
    writing, only_read = [p for p in parts if not p.has_nothing], [p for p in parts if p.is_only_read]
    for part in (p for p in writing if p.prepared is None):
        with part.watch.time("write"):
            part.write()
        part.phase("written")
    for part in (p for p in only_read if p.prepared is None):
        part.attempt.attempts += 1
    return writing, only_read


def give_up(parts: Sequence[Part]) -> None:
    """Closes what is prepared without data, if the decision was not sent.  What cannot be closed now is closed by the next process that meets it."""
    if any(p.is_sent for p in parts):
        return
    for part in parts:
        part.since, part.is_given_up = None, False
        if (prepared := part.prepared) is not None:
            part.prepared = None
            try:
                close(part.state, prepared, ABORTED)
            except RowlockError as e:
                logger.warning("what was prepared in version %d of %s will be closed by the next writer: %s", prepared.version, part.path, e)


def _home_of(writing: Sequence[Part]) -> Part:
    """The part whose table decides.  Raises UnsupportedFeature where more than one would have to."""
    bound = [p for p in writing if p.prepared is None and p.must_be_home is not None]
    if len(bound) > 1:
        raise UnsupportedFeature(
            f"without a common DynamoDB arbiter a transaction can do this in one of its tables only; here it is so in {bound[0].path} ({bound[0].must_be_home}) "
            f"and in {bound[1].path} ({bound[1].must_be_home}). In the other one enable deletion vectors and row tracking, and disable the change data feed",
            feature="transactions over several tables without a common arbiter",
            access="write",
            table=bound[1].path,
        )
    return bound[0] if bound else next((p for p in writing if p.since is not None), writing[0])


def _prepare(part: Part, home: Part, tables: int) -> bool:
    """Puts the P of a part; whether it won."""
    head, store, part.record = part.head, part.state.store, {}  # of an attempt before, whose home it was
    assert home.since is not None
    place = Home(home.path, relative_place(part.path, home.path), home.head.metadata.id, home.since)
    prepared = Prepared(head.version + 1, part.txn_id, place, tables, None if part.has_nothing else part.commit_file().decode())
    if prepared.staged is not None and len(prepared.staged) > INLINE_BYTES:
        key = post_key(prepared)
        store.put(key, prepared.staged.encode())
        prepared = replace(prepared, staged=None, post=key)
    info = commit_info(PREPARE, {}, clock.new_id(), read_version=head.version, blind=False, metrics={}, record=prepared.record)
    part.phase("before_put")
    try:
        won = outcome.put(part.state, head, lambda: bytes_on(head, info, txns=[opens(head.metadata.id, prepared.version)]), info["txnId"])
    except CommitUnknown as e:  # the next process that finds it gives it up, for this transaction is never decided
        text = f"the store did not say whether the transaction was prepared in this table, so nothing of it is committed: {e}"
        raise StorageError(text, table=part.path) from e
    if won:
        part.prepared = prepared
        part.phase("prepared")
    elif prepared.post is not None:
        discard(store, (prepared.post,))
    return won


def _decided(home: Part, others: Sequence[Part]) -> bool:
    """Puts the home's version; whether it won.  Raises CommitUnknown: then the log of the home has the decision."""
    home.record = {"decided": [{"table": p.path, "prepared": p.prepared.version} for p in others if p.prepared is not None]} if others else {}
    home.phase("before_put")
    with home.watch.time("put"):
        home.is_sent = True
        won = outcome.put(home.state, home.head, home.commit_file, home.txn_id)
        home.is_sent = won
    home.phase("after_put")
    return won


def _begin_to_close(others: Sequence[Part], decided: int) -> list[int | None]:
    """Lets each part be closed by a thread; no version is known yet."""
    for part in others:
        part.is_pending = not part.has_nothing
        try:
            threads.start(partial(_closed, part, decided), "rowlock close")
        except RuntimeError as e:  # the interpreter is about to end
            logger.warning("version %d of %s is decided and will be rolled forward by its next reader or writer: %s", decided, part.path, e)
    return [None] * len(others)


def _closed(part: Part, decided: int) -> int | None:
    """Closes a part's P after the decision; its version, None where that must wait for others."""
    assert part.prepared is not None
    part.phase("decided")
    try:
        return close(part.state, part.prepared, decided)
    except RowlockError as e:
        logger.warning("version %d of %s is decided and will be rolled forward by its next reader or writer: %s", part.prepared.version, part.path, e)
        part.is_pending = True
        return None
