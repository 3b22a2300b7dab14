"""Decides whether a put has won or lost, by reading the version back if need be.  No other module decides it (I1, I2).

A store answers Committed, Lost or Unknown.  Lost is not believed without a look at the log: if an HTTP client, a proxy or
a load balancer sent a put twice, the answer to the winner is that it lost.

    Committed          won
    Lost, Unknown      read the version back: own txnId = won, another txnId = lost, absent = put the same commit again

While the version is absent, an earlier put may still be on its way.  So the transaction stays with this version until it
exists: only another's commit there makes it certain that its own cannot land any more.
The version is read by its key, never by a listing, which may be seconds old.

A version that was won must also continue the log.  If a writer slept while the log was cleaned up, the key of an old
version is free again, and no reader looks at a commit put there.  So the version before is checked; if it is gone, the log
is listed.  The same check applies to a version in which a transaction finds its txnId later: as the member of a group, or
after a put whose outcome it did not learn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rowlock import clock
from rowlock.exceptions import CommitUnknown, ConcurrentWriteException, CorruptLog, RowlockError, VersionNotFound
from rowlock.log.segment import complete_checkpoints, list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.protocol.actions import Commit
from rowlock.storage.store import Committed, PutOutcome, StorageError
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.proposal import Over, Single

if TYPE_CHECKING:
    from rowlock.transaction.state.shared import SharedState

TRIES = 10


def put(state: SharedState, head: Snapshot, make: Callable[[], bytes], txn_id: str) -> bool:
    """Puts a commit as the version after `head`; returns whether it won.

    `make` builds the commit's bytes, with the same txnId each time; it is called again while the version stays absent.
    Raises what `landed` raises, and StorageError if the store refuses the first put for good.
    """
    version = head.version + 1
    data = make()
    outcome = state.log.put(version, data)
    won = landed(state.log, version, make, txn_id, outcome, head)
    if won and isinstance(outcome, Committed):
        state.carry(version, data, outcome.tag)
    elif won:
        state.ask_again()
    return won


def landed(log: TableLog, version: int, make: Callable[[], bytes], txn_id: str, outcome: PutOutcome, head: Snapshot | None = None) -> bool:
    """Whether the commit with `txn_id` is version `version` of the log, after a put of it on top of `head` had this outcome.

    `make` builds the bytes of the commit for further puts, while the version is absent.
    Raises CommitUnknown where this cannot be found out within about 15 s, ConcurrentWriteException where the log was
    cleaned up while the writer slept, and CorruptLog where another table was created at this path meanwhile.
    """
    if not isinstance(outcome, Committed) and not _is_own_commit(log, version, make, txn_id):
        return False
    _check_chain(log, version, head, txn_id, sure=isinstance(outcome, Committed))
    return True


def found(log: TableLog, head: Snapshot, version: int, txn_id: str) -> int:
    """Returns `version`, in which a transaction's txnId was found, if readers at `head` see that version.

    Raises ConcurrentWriteException where they certainly do not, CommitUnknown where it cannot be found out.
    """
    try:
        log.make_durable(version)
        if head.version - version < head.commits_since_checkpoint:
            return version  # the head was replayed from this commit, since it comes after the head's checkpoint
        if version == 0 or log.store.head(names.commit_key(version - 1)) is not None:
            return version
        files = list_log(log.store)
    except StorageError as e:
        raise unknown(txn_id, log.table, version, e) from e
    at = {f.version: f.modified_ms for f in files if f.kind == "commit"}
    after = at.get(version + 1, min((max(f.modified_ms for f in c) for c in complete_checkpoints(files) if c[0].version >= version), default=None))
    if version not in at or after is None or at[version] == after:
        raise unknown(txn_id, log.table, version)
    if at[version] > after:  # the commit after it is older: this one was put into a log that had been cleaned up
        raise _cleaned_up(log, head.version, version)
    return version


def _is_own_commit(log: TableLog, version: int, make: Callable[[], bytes], txn_id: str) -> bool:
    """Reads the version back until it exists, and puts the commit again while it does not; whether it has our txnId."""
    last: StorageError | None = None
    for n in range(TRIES):
        try:
            if (there := log.read_commit(version)) is not None:
                if is_own := there.info is not None and there.info.txn_id == txn_id:
                    log.make_durable(version)
                return is_own
            if isinstance(log.put(version, make()), Committed):
                return True
        except StorageError as e:  # an earlier put may still land, so this is no failure yet
            last = e
        clock.back_off(n, clock.READ_BACK)
    raise unknown(txn_id, log.table, version, last)


def unknown(txn_id: str, table: str, version: int | None, cause: Exception | None = None) -> CommitUnknown:
    """The CommitUnknown error for a put whose outcome cannot be read back from the log."""
    error = CommitUnknown(
        "It could not be found out whether the commit succeeded; its data files have been kept. "
        f"Look for the txnId {txn_id} in the log (`rowlock history PATH --ids`) before running the statement again."
        + (f" The last error was: {cause}" if cause else ""),
        txn_id=txn_id,
        table=table,
        version=version,
    )
    error.__cause__ = cause
    return error


def _check_chain(log: TableLog, version: int, head: Snapshot | None, txn_id: str, *, sure: bool) -> None:
    """Raises unless the commit at `version`, which has won, continues the log that readers see.

    Without `sure` the first put of the commit may have landed before the log was cleaned up, so it cannot be ruled out.
    """
    try:
        before = log.store.tag(names.commit_key(version - 1)) if version > 0 else None
        if before is not None and (head is None or head.last_commit_tag == before or _is_in_log(log, head)):
            return
        files = list_log(log.store)
    except StorageError:
        return  # the commit exists, and it is very unlikely that the log was cleaned up meanwhile
    commits = {f.version: f for f in files if f.kind == "commit"}
    covered = max(checkpoints := {c[0].version: c[0] for c in complete_checkpoints(files)}, default=-1)
    ours, after = commits.get(version), commits.get(version + 1, checkpoints.get(version))  # others may have written a checkpoint of it at once
    if covered >= version and ours is None:  # deleted by a cleanup: before others saw it, or after
        raise unknown(txn_id, log.table, version)
    if covered >= version and ours is not None:
        follows = after is not None and after.modified_ms >= ours.modified_ms
        if not (follows or version == 0) or ((covered == version or not follows) and not _is_seen(log, version, covered, txn_id)):
            raise _cleaned_up(log, max(covered, *commits), version) if sure else unknown(txn_id, log.table, version)
    if before is None and (0 <= covered < version - 1 or covered < 0 < version):
        text = f"version {version - 1} disappeared while version {version} was put after it: the table was created again meanwhile. Delete the file, which belongs to the table that was there before"
        raise CorruptLog(text, table=log.table, version=version, file=names.commit_key(version))


def _is_seen(log: TableLog, version: int, covered: int, txn_id: str) -> bool:
    """Whether the checkpoint from which readers begin has what the commit of its own version, or of version 0, did: it may have come late, of a table that was here before.

    Times do not show that: with an arbiter, the file of version 0 may be put again after others have read it.
    """
    try:
        ours = log.read_commit(version)
        if ours is None or (version == 0 and ours.metadata is None):
            return False
        there = log.at(covered)
    except RowlockError as e:
        raise unknown(txn_id, log.table, version, e) from e
    if ours.metadata is not None and ours.metadata.id != there.metadata.id:
        return False
    live = {file.key for file in there.files.get(ours.paths).values()}
    return version < covered or (live >= {a.key for a in ours.adds} and live.isdisjoint({r.key for r in ours.removes}))


def _is_in_log(log: TableLog, head: Snapshot) -> bool:
    """Whether `head`'s version, whose commit file has another tag than it had, or one that is not known, can still be built: not where the log was cleaned up.

    Raises CorruptLog if it is now another table's, which was created between the last read of the log and the put.
    """
    try:
        there = log.read_commit(head.version)
        if there is not None and there.txn_id is not None and there.txn_id == head.txn_id:
            return True
        now = log.at(head.version)
    except VersionNotFound:
        return False
    if now.metadata.id != head.metadata.id:
        raise CorruptLog(
            f"version {head.version} was replaced by that of another table ({now.metadata.id} in place of {head.metadata.id}) while version {head.version + 1} was put after it: "
            "the table was created again meanwhile. Delete the file of the later version, which belongs to the table that was there before, unless others have committed after it; run the statement again",
            table=log.table,
            version=head.version + 1,
            file=names.commit_key(head.version + 1),
        )
    return True


def _cleaned_up(log: TableLog, newest: int, version: int) -> ConcurrentWriteException:
    return ConcurrentWriteException(
        f"The log is at version {newest} and was cleaned up while this transaction waited; version {version}, where it was put, is before what readers look at. "
        "Nothing of it can be seen.",
        table=log.table,
        remedy="Run the statement again.",
    )


ABORT = "ROWLOCK ABORT"


class AbortMarker(Single):
    """A version without file actions whose commitInfo declares that transaction `of`, staged at `since`, must not be committed.

    `found` is the commit that contains the transaction, if another process has committed it first.  The transaction has reported its phases and error itself.
    """

    operation = ABORT
    options = Options(turns=False)  # its writer has failed already and should not make others wait

    def __init__(self, state: SharedState, of: str, since: Snapshot) -> None:
        super().__init__(state, since.version)
        self._of, self._since = of, since
        self.head = self.read = since
        self.found: Commit | None = None

    def move_to(self, head: Snapshot) -> Over | None:
        """Returns the version in which another process committed the transaction; none where no process would commit it any more."""
        self.head = self.read = head
        if head.metadata.id != self._since.metadata.id:
            return Over(None)  # another table was created at this path: what was staged for the old one is not committed to it
        between = self.state.log.commits(min(self._since.version, head.version), head.version)
        self.found = next((c for c in between if self._of in c.txn_ids), None)
        if self.found is not None:
            return Over(found(self.state.log, head, self.found.version, self._of))
        return Over(None) if any(c.metadata is not None or c.protocol is not None for c in between) else None  # what was staged before is not committed

    def commit_file(self) -> bytes:
        """The bytes of the version after the head: a commitInfo that names the aborted transaction."""
        record, began_ms = {"aborted": [self._of]}, self.watch.began_ms
        info = commit_info(self.operation, {}, self.txn_id, read_version=self.head.version, blind=False, metrics={}, began_ms=began_ms, record=record)
        return bytes_on(self.head, info)
