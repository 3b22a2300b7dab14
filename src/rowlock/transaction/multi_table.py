"""Commits the statements of one transaction on several tables, to all of them or to none (I1, I2).

Each table's share is a proposal to the one commit loop: it is rebased over the winners in its table.  One put then decides all of
them: the tables' common arbiter claims the next version of each table that is written, on condition that each table
that was only read is still at the head to which its reads were checked.  Where one is taken, only that table has moved; all try again.

Reads of several tables at one instant: `heads_together`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowlock import clock, display, threads
from rowlock.exceptions import CorruptLog, DeltaConcurrentModificationException, InvalidInput
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import names
from rowlock.protocol.prepared import prepared_by
from rowlock.storage.dynamodb.arbiter import MOST_TABLES, Taken, Version, common_arbiter, put_all
from rowlock.storage.open import real_place
from rowlock.storage.store import Committed, Lost, PutOutcome, StorageError, Unknown
from rowlock.transaction import commit as loop
from rowlock.transaction.publish import outcome
from rowlock.transaction.rebase.onto_head import refuse_removal
from rowlock.transaction.state.proposal import Over
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState
from rowlock.transaction.two_phase import prepare as two_phase
from rowlock.transaction.two_phase.close import closing_version, is_decided
from rowlock.transaction.two_phase.prepare import Part, Wait

_ROUNDS = 20
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True, repr=False)
class MultiTableReceipt:
    """What a transaction over several tables did: a receipt for each table, and what holds for all.

    Attributes:
        tables: A `Receipt` for each table of the transaction, by the table's path.  Its `version` is None where nothing was written there.
        txn_id: The id that each of its commits carries as `txnId`.
        pending: Paths of tables whose version is decided, but whose file is not written yet: their store was down, or the transaction waited for the
            decision only.  The next reader or writer of the table writes it, if that has not been done by then.

    Examples:
        >>> print(rowlock.run([orders, stock], sell))
        2 tables: committed together
          ...
    """

    tables: Mapping[str, Receipt]
    txn_id: str
    pending: tuple[str, ...] = ()

    @property
    def versions(self) -> dict[str, int]:
        """The version that was committed in each table that was written, by the table's path."""
        return {path: receipt.version for path, receipt in self.tables.items() if receipt.version is not None}

    @property
    def already_committed(self) -> bool:
        """Whether the application's step was in the logs before; nothing is committed then."""
        return any(receipt.already_committed for receipt in self.tables.values())

    @property
    def attempts(self) -> int:
        """How often the transaction tried to put its commits."""
        return max((receipt.attempts for receipt in self.tables.values()), default=0)

    def __repr__(self) -> str:
        return display.aligned(self._title(), self._facts())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return display.html_table(self._title(), self._facts())

    def _title(self) -> str:
        count = display.count(len(self.tables), "table")
        if self.already_committed and not self.versions:
            return f"{count}: not committed again, this step of the application is in the logs already"
        return f"{count}: {'committed together' if self.versions else 'nothing was committed'}"

    def _facts(self) -> display.Facts:
        lines = [(path, [str(receipt).splitlines()[0]]) for path, receipt in self.tables.items()]
        met = [f"version {c.version} of {path}" for path, receipt in self.tables.items() for c in receipt.conflicts]
        return [
            *lines,
            ("conflicts", ["; ".join(met) or "none"]),
            *([("pending", list(self.pending))] if self.pending else []),
            ("txnId", [self.txn_id]),
        ]


def check_tables(states: Sequence[SharedState]) -> None:
    """Raises InvalidInput for fewer than two tables, one that is named twice, or too many."""
    if len(states) < 2:
        raise InvalidInput("a transaction over several tables names at least two; for one table, use table.transaction()")
    most = two_phase.MOST_TABLES if common_arbiter([s.store for s in states]) is None else MOST_TABLES
    if len(states) > most:
        raise InvalidInput(f"a transaction can be over {most} tables at most, not {len(states)}")
    roots = [real_place(s.store.root) for s in states]
    if twice := [root for n, root in enumerate(roots) if root in roots[:n]]:
        raise InvalidInput("a table is named twice in a transaction over several tables; name it once", table=twice[0])


def place_of(head: Snapshot) -> tuple[int, str]:
    """The sort key of tables in a transaction, the same in every process: leases are taken in this order, and the first table that is written is the home."""
    return head.properties.order, head.metadata.id


def heads_together(states: Sequence[SharedState], *, to_read: bool = False) -> list[Snapshot]:
    """The newest snapshots of several tables, as they all were at one instant.  Runs on the driver; two requests for each table, side by side.

    Every head is read before it is asked whether one has a successor: where none has, all were the newest at the moment between.
    `to_read`: no commit follows them, and tables that cannot be written to are settled in memory.
    Raises DeltaConcurrentModificationException where commits came faster than they could be read.
    """
    for n in range(_ROUNDS):
        # all, each time: a table may have moved during the pause
        heads = threads.side_by_side(lambda state: state.refresh_to_read() if to_read else (state.refresh(),) * 2, states, limits().request_threads)
        if not any(threads.side_by_side(lambda pair: _has_moved(*pair), list(zip(states, heads, strict=True)), limits().request_threads)):
            return [shown for _, shown in heads]
        clock.back_off(n, clock.CONFLICT)
    text = f"{len(states)} tables could not be read as of one instant: in each of {_ROUNDS} rounds one of them was committed to meanwhile."
    remedy = "Try again when fewer writers are at work, or read fewer tables at once."
    raise DeltaConcurrentModificationException(text, table=states[0].store.root, remedy=remedy)


def heads_at(states: Sequence[SharedState], timestamps_ms: Sequence[int]) -> list[Snapshot]:
    """The snapshots of several tables at a time (milliseconds since the epoch, for each), with no transaction over several of them torn.

    A table is taken one or more versions further where another shows a transaction that became this version: clocks and times of files
    differ by a little between tables.  The last 100 versions of each table before the time are asked for such transactions.
    Raises VersionNotFound where a log does not reach back to the time, or none of them reaches to it.
    """
    newest = [max((ms for _, ms in state.log.commit_times()), default=0) for state in states]
    is_within = any(ms <= last for ms, last in zip(timestamps_ms, newest, strict=True))  # a table that was last committed to before then is as it was
    asked = [min(ms, last) if is_within else ms for ms, last in zip(timestamps_ms, newest, strict=True)]
    found = [state.log.at_timestamp(ms) for state, ms in zip(states, asked, strict=True)]
    at = {state.store.root: n for n, state in enumerate(states)}
    looked = [max(0, head.version - _LOOKED_AT) for head in found]
    while any(start < head.version for start, head in zip(looked, found, strict=True)):
        wanted = [head.version for head in found]
        for n, state in enumerate(states):
            for commit in state.log.commits(looked[n], found[n].version):
                for table, version in commit.info.together if commit.info is not None else ():
                    if (m := at.get(table)) is not None:
                        wanted[m] = max(wanted[m], version)
                for table, version in prepared_by(commit):
                    if (m := at.get(table)) is not None:
                        wanted[m] = max(wanted[m], closing_version(states[m], version, commit.txn_id, states[m].refresh()) or version)
            looked[n] = found[n].version
        found = [head if head.version == v else state.log.at(v) for state, head, v in zip(states, found, wanted, strict=True)]
    return found


def _has_moved(state: SharedState, heads: tuple[Snapshot, Snapshot]) -> bool:
    """Whether a table has a version after its head, or an open transaction in it was decided meanwhile."""
    head, shown = heads
    return _has_successor(state, head) or is_decided(state, shown)


def _has_successor(state: SharedState, head: Snapshot) -> bool:
    return state.store.head(names.commit_key(head.version + 1)) is not None


def commit(parts: Sequence[Part], wait: Wait = "everywhere") -> MultiTableReceipt:
    """Commits all parts as the next versions of their tables, or none of them.  Runs on the driver.

    With "decided" it returns when that is certain; the versions of some tables follow.
    Raises as the commit of one table does, for each of them; InvalidInput where the application's step is in some of the logs only.
    """
    ordered = sorted(parts, key=lambda part: (*place_of(part.txn.base), part.path))
    for part in ordered:
        refuse_removal(part.txn, part.txn.base)
    _check_step(ordered)
    try:
        nothing = all(part.has_nothing for part in ordered)
        receipts = [part.receipt(None) for part in ordered] if nothing else loop.commit_all(ordered, lambda: _put(ordered, wait))
    except BaseException:
        two_phase.give_up(ordered)
        raise
    receipt_of = dict(zip(ordered, receipts, strict=True))
    return MultiTableReceipt({part.path: receipt_of[part] for part in parts}, parts[0].txn_id, tuple(part.path for part in ordered if part.is_pending))


def _check_step(parts: Sequence[Part]) -> bool:
    """Whether the application's step is in the logs of all tables that are written.  Raises InvalidInput where it is in some."""
    done = [part for part in parts if part.attempt.already_committed]
    if done and (rest := [part for part in parts if part not in done and not part.has_nothing]):
        raise InvalidInput(
            f"step {done[0].txn.app} of the application is in the log of {done[0].path} already, but not in that of {rest[0].path}: "
            "one of them got it outside of this transaction. Commit the rest of the step in a transaction of its own, under another app_id",
            table=rest[0].path,
        )
    return bool(done)


def _put(parts: Sequence[Part], wait: Wait) -> list[Over] | None:
    """Writes the files of all parts and tries one put for them; None where another writer was faster in one of the tables."""
    if _check_step(parts):
        return [Over(None)] * len(parts)
    if common_arbiter([part.state.store for part in parts]) is None:
        return two_phase.put(parts, wait)
    writing, only_read = two_phase.written(parts)
    if not writing:
        return [Over(None)] * len(parts)
    versions = {part: part.head.version + 1 for part in writing}
    if len(writing) + len(only_read) > 1:
        record = [{"table": p.path, "id": p.head.metadata.id, "version": v} for p, v in versions.items()]
        for part in writing:
            part.record = {"tables": record}
    asked = _asked(writing, only_read)
    for part in writing:
        part.phase("before_put")
    start = clock.monotonic_s()
    done = put_all(asked)
    for part in writing:
        part.watch.add("put", clock.monotonic_s() - start)
        part.phase("after_put")
    if isinstance(done, Taken):
        return None
    if isinstance(done, Unknown):
        raise outcome.unknown(writing[0].txn_id, writing[0].path, versions[writing[0]], StorageError(done.reason))
    for part, version, answer in zip(writing, asked, done, strict=False):
        _take(part, version, answer)
    return [Over(versions.get(part)) for part in parts]


def _asked(writing: Sequence[Part], only_read: Sequence[Part]) -> list[Version]:
    """The versions to create, and those that must not exist."""
    arbitrated = common_arbiter([part.state.store for part in (*writing, *only_read)])
    assert arbitrated is not None, "checked when the transaction began"
    bytes_of: list[bytes | None] = [part.commit_file() for part in writing]
    data = [*bytes_of, *[None] * len(only_read)]
    return [Version(s, p.head.version + 1, d) for s, p, d in zip(arbitrated, (*writing, *only_read), data, strict=True)]


def _take(part: Part, version: Version, answer: PutOutcome | None) -> None:
    """Takes what became of one version after all of them were decided.  Raises CorruptLog where another writer's file is in its place."""
    if isinstance(answer, Lost):
        raise CorruptLog(
            f"version {version.number} was claimed for transaction {part.txn_id}, but a writer that does not use the arbiter had put its own file there: "
            f"the transaction's changes are in its other tables and not in this one. All writers of a table must use one arbiter; `rowlock history PATH --ids` shows its commits",
            table=part.path,
            version=version.number,
            file=names.commit_key(version.number),
        )
    if isinstance(answer, Committed) and version.data is not None:
        outcome.landed(part.state.log, version.number, part.commit_file, part.txn_id, answer, part.head)
        part.state.carry(version.number, version.data, answer.tag)
    else:
        part.is_pending = True
        part.state.ask_again()
