"""What became of a put: won or lost, found out by reading the version back.  The one place that decides it (I1, I2).

A store says Committed, Lost or Unknown, and only the log is believed: an HTTP client, a proxy or a load
balancer that sent a put twice tells the winner that it lost.

    Committed          won
    Lost, Unknown      read the version back: our txnId = won, another's = lost, absent = the same commit again

While the version is absent a put of ours may still be on its way, so the transaction stays with this version
until somebody has it: another's commit there is what makes it certain that ours cannot land any more.
Reading goes by the version's own key, never by a listing, which may be seconds old.

A version that was won must be part of the log's chain: where a writer slept and the log was cleaned up
meanwhile, an old version is free again, and what is put there nobody reads.  So the version before is
looked at; where it is gone, the listing tells.  The same goes for a version in which a transaction finds
itself later: a member of a group, and who did not learn what became of its put.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rowlock import clock
from rowlock.exceptions import CommitUnknown, ConcurrentWriteException, CorruptLog, VersionNotFound
from rowlock.log.segment import complete_checkpoints, list_log
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol import names
from rowlock.storage.store import Committed, PutOutcome, StorageError

if TYPE_CHECKING:
    from rowlock.transaction.state.shared import SharedState

TRIES = 10


def put(state: SharedState, head: Snapshot | None, make: Callable[[], bytes], txn_id: str) -> bool:
    """Puts a commit on top of `head` (None: as the first of a table); whether it is ours that is there.

    `make` gives the bytes of the commit, with the same txnId each time: it is called again where the version stays absent.
    Raises as `landed` does, and StorageError where the store refused the first put as such.
    """
    version = 0 if head is None else head.version + 1
    data = make()
    outcome = state.log.put(version, data)
    won = landed(state.log, version, make, txn_id, outcome, head)
    if won and isinstance(outcome, Committed):
        state.carry(version, data, outcome.tag)
    return won


def landed(log: TableLog, version: int, data: bytes | Callable[[], bytes], txn_id: str, outcome: PutOutcome, head: Snapshot | None = None) -> bool:
    """Whether the commit `data`, or what it makes each time it is put again, is version `version`, after one put of it on top of `head` had this outcome.

    Raises CommitUnknown where that could not be found out in a quarter of a minute or so, ConcurrentWriteException
    where the log was cleaned up behind a writer that slept, and CorruptLog where another table has its place now.
    """
    if not isinstance(outcome, Committed) and not _settled(log, version, data, txn_id):
        return False
    _check_chain(log, version, head)
    return True


def found(log: TableLog, head: Snapshot, version: int, txn_id: str) -> int:
    """The version up to `head` in which a transaction was found, if that is one that readers look at.

    Raises ConcurrentWriteException where it certainly is not, CommitUnknown where that could not be found out.
    """
    if head.version - version < head.commits_since_checkpoint:
        return version  # the head was made from it
    try:
        if version == 0 or log.store.head(names.commit_key(version - 1)) is not None:
            return version
        files = list_log(log.store)
    except StorageError as e:
        raise unknown(txn_id, log.table, version, e) from e
    at = {f.version: f.modified_ms for f in files if f.kind == "commit"}
    after = at.get(version + 1, min((max(f.modified_ms for f in c) for c in complete_checkpoints(files) if c[0].version >= version), default=None))
    if version not in at or after is None or at[version] == after:
        raise unknown(txn_id, log.table, version)
    if at[version] > after:  # what follows it was there before
        raise _cleaned_up(log, head.version, version)
    return version


def _settled(log: TableLog, version: int, data: bytes | Callable[[], bytes], txn_id: str) -> bool:
    last: StorageError | None = None
    for n in range(TRIES):
        try:
            if (there := log.read_commit(version)) is not None:
                return there.info is not None and there.info.txn_id == txn_id
            if isinstance(log.put(version, data() if callable(data) else data), Committed):
                return True
        except StorageError as e:  # an earlier put may still land, so this is no failure yet
            last = e
        clock.back_off(n, 0.02, most_s=4.0)
    raise unknown(txn_id, log.table, version, last)


def unknown(txn_id: str, table: str, version: int | None, cause: Exception | None = None) -> CommitUnknown:
    """What the writer of a transaction is told when the log cannot be read back."""
    error = CommitUnknown(
        "Whether the commit landed could not be found out; what was staged has been kept. "
        f"Look for the transaction id {txn_id} in the log before running the statement again." + (f" The last error was: {cause}" if cause else ""),
        txn_id=txn_id,
        table=table,
        version=version,
    )
    error.__cause__ = cause
    return error


def _check_chain(log: TableLog, version: int, head: Snapshot | None) -> None:
    """Raises unless what is at `version` continues the log."""
    try:
        before = log.store.tag(names.commit_key(version - 1)) if version > 0 else None
        if before is not None:
            if head is not None and head.last_commit_tag not in (before, None):
                _check_table(log, head)
            return
        files = list_log(log.store)
    except StorageError:
        return  # the commit is there; that the log was cleaned up under it is far from likely
    commits = {f.version: f for f in files if f.kind == "commit"}
    covered = max((c[0].version for c in complete_checkpoints(files)), default=-1)
    ours, after = commits.get(version), commits.get(version + 1)
    if covered >= version and (after is None or (ours is not None and after.modified_ms < ours.modified_ms)):
        raise _cleaned_up(log, max(covered, *commits), version)
    if 0 <= covered < version - 1 or (covered < 0 < version):
        raise CorruptLog(
            f"version {version - 1} went away while version {version} was put after it: the table was made anew meanwhile. Delete the file, which belongs to the table that was there before",
            table=log.table,
            version=version,
            file=names.commit_key(version),
        )


def _check_table(log: TableLog, head: Snapshot) -> None:
    """Raises where the version that a commit follows is another table's: it was made anew between the last look at the log and the put."""
    try:
        there = log.read_commit(head.version)
        if there is not None and there.txn_id is not None and there.txn_id == head.txn_id:
            return
        now = log.at(head.version)
    except VersionNotFound:
        return
    if now.metadata.id != head.metadata.id:
        raise CorruptLog(
            f"version {head.version} was replaced by that of another table ({now.metadata.id} in place of {head.metadata.id}) while version {head.version + 1} was put after it: "
            "the table was made anew meanwhile. Delete the file of the later version, which belongs to the table that was there before, unless others have committed after it; run the statement again",
            table=log.table,
            version=head.version + 1,
            file=names.commit_key(head.version + 1),
        )


def _cleaned_up(log: TableLog, newest: int, version: int) -> ConcurrentWriteException:
    return ConcurrentWriteException(
        f"The log is at version {newest} and was cleaned up while this transaction waited; version {version}, where it was put, is before what readers look at. "
        "Nothing of it can be seen.",
        table=log.table,
        remedy="Run the statement again.",
    )
