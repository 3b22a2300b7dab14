"""Checks that the log still continues the snapshot that a transaction read: the same table, an unbroken chain of commits (I3, I9).

Another table at the same path is a conflict under every policy, and checked first: the staged work was not meant for it.
If only the log was rewritten (a commit overwritten by a bare rename, a restored backup), the single winners are not known.
The difference between the two snapshots then counts as one winner: under `repair` the transaction is rebased over it,
under `fail` and `rerun` it is a conflict.
"""

from __future__ import annotations

from dataclasses import replace

from rowlock.conflict.value import Conflict, conflict_with
from rowlock.exceptions import VersionNotFound
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import AddFile, Commit, CommitInfo
from rowlock.transaction.rebase import fail_policy
from rowlock.transaction.state.pending import Pending

REWRITTEN = "REWRITTEN LOG"
"""The operation name of a winner that is the difference of two snapshots."""


def check_table(txn: Pending, head: Snapshot) -> None:
    """Raises MetadataChangedException if the head has another table id than the snapshot that the transaction read."""
    if head.metadata.id != txn.read.metadata.id:
        raise fail_policy.error_of(txn, another_table(txn.read, head))


def check_same(read: Snapshot, head: Snapshot) -> None:
    """`check_table` for a commit that stages no rows: raises MetadataChangedException if `head` is another table's."""
    if head.metadata.id != read.metadata.id:
        raise another_table(read, head).exception(head.table)


def another_table(read: Snapshot, head: Snapshot) -> Conflict:
    """The conflict with a writer that dropped and created the table again, or replaced it under another id."""
    text = f"The table was created again while this transaction was staged: version {read.version}, which it has read, is of table {read.metadata.id}, and version {head.version} is of table {head.metadata.id}."
    return conflict_with(Commit(head.version), "another table", what=text)


def rewritten_log(read: Snapshot, head: Snapshot) -> Conflict:
    """The conflict for a log that was rewritten or cleaned up after a transaction read it."""
    if head.chain == read.chain:
        text = f"The commits after version {read.version}, which the transaction has read, were deleted by log cleanup before they could be read."
        return conflict_with(Commit(head.version), "rewritten log", what=text)
    if head.version < read.version:
        what = f"the transaction has read version {read.version}, and the log ends at version {head.version} now"
    else:
        what = f"version {read.version}, which the transaction has read, is not the one that is there now"
    return conflict_with(Commit(head.version), "rewritten log", what=f"The log of this table was rewritten while this transaction was staged: {what}.")


def winners_of(txn: Pending, head: Snapshot) -> list[Commit]:
    """One winner with everything that a rewritten log changed since the snapshot that the transaction read.

    Raises ConcurrentWriteException under `fail` and `rerun`, and where a data file was replaced by another of the same name.
    A blind append is never refused.
    """
    if txn.is_blind:
        return [difference(txn.read, head, {}, {})]
    before = {f.path: f for f in [*txn.base.files.adds(), *txn.staged.unseen.values()] if f is not None and txn.staged.unseen.get(f.path, f) is f}
    after = {f.path: f for f in head.files.adds()}
    if txn.options.raises or any(_is_other_file(f, after[p]) for p, f in before.items() if p in after):
        raise fail_policy.error_of(txn, rewritten_log(txn.read, head))
    return [difference(txn.read, head, before, after)]


def remaining_commits(log: TableLog, after: int, through: int) -> list[Commit]:
    """The commits after version `after` up to `through` that were not cleaned up, newest first."""
    found: list[Commit] = []
    for version in range(through, after, -1):
        try:
            found += log.commits(version - 1, version)
        except VersionNotFound:
            break
    return found


def _is_other_file(known: AddFile, now: AddFile) -> bool:
    """Whether two entries of one path are different files: data files never change, so size, time and row ids must be equal."""
    return (known.size_bytes, known.modification_time_ms, known.base_row_id) != (now.size_bytes, now.modification_time_ms, now.base_row_id)


def difference(read: Snapshot, head: Snapshot, before: dict[str, AddFile], after: dict[str, AddFile]) -> Commit:
    """One commit that changes the snapshot `read`, with the files `before`, into `head`, with the files `after`."""
    domains = [d for name, d in head.domains.items() if read.domains.get(name) != d]
    domains += [replace(d, removed=True) for name, d in read.domains.items() if name not in head.domains]
    return Commit(
        version=head.version,
        info=CommitInfo({"operation": REWRITTEN}),
        protocol=head.protocol if head.protocol != read.protocol else None,
        metadata=head.metadata if head.metadata != read.metadata else None,
        adds=tuple(f for p, f in after.items() if p not in before or before[p].key != f.key),
        removes=tuple(f.removed(deletion_timestamp_ms=0, data_change=True) for p, f in before.items() if p not in after or after[p].key != f.key),
        txns=tuple(t for app, t in head.txns.items() if read.txns.get(app) != t),
        domains=tuple(domains),
    )
