"""A commit whose actions follow from the head alone, such as RESTORE: where another commits first they are made anew (I1, I2, I3).

Nothing is staged row by row, so nothing is rebased: to run again against the head is all that a lost
put asks for, and it reads no rows.  Under `fail` the winners are judged by Delta's rules first.

    refresh → make → (winners: judge, make)* → put → Committed | Lost (again)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

from rowlock import clock
from rowlock.conflict import rules
from rowlock.locks.turns import Bid
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit, DomainMetadata, Metadata, Protocol, RemoveFile
from rowlock.protocol.features import check_writable
from rowlock.protocol.properties import Isolation
from rowlock.transaction import chain, creation, fail_policy, given_up, outcome
from rowlock.transaction.commit import after_commit
from rowlock.transaction.line import Line
from rowlock.transaction.options import Options
from rowlock.transaction.receipt import Receipt
from rowlock.transaction.transaction import Table
from rowlock.transaction.turn import turn_of

_BY_ROW = tuple(r for r in rules.RULES if r is not rules.removed_by_both)
"""Rules under which a commit that only moves rows is no conflict."""


@dataclass(frozen=True, slots=True)
class HeadActions:
    """What a commit on top of a head does.  `protocol` and `metadata` are None where the head's stay; `metrics` by Delta's names."""

    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    cdc: tuple[AddCdcFile, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)


Make = Callable[[Snapshot], HeadActions]


class HeadCommit:
    """One such commit on its way; what an observer of its phases is shown."""

    def __init__(self, table: Table, operation: str, parameters: Mapping[str, Any], make: Make, options: Options | None = None) -> None:
        self.table, self.operation, self.parameters, self._make = table, operation, parameters, make
        self.txn_id = clock.new_id()
        self._set(table.refresh())
        self.read_version = self.read.version
        self.options = (options or Options()).resolved(self.read.metadata.configuration)
        self.rounds = self.attempts = 0

    def _set(self, head: Snapshot) -> None:
        check_writable(head.protocol, head.metadata, self.table.path)
        self.actions = self._make(head)
        after = self.actions.metadata or head.metadata, self.actions.protocol or head.protocol
        check_writable(after[1], after[0], self.table.path)
        self.read = head

    def phase(self, name: str) -> None:
        self.table.observer.phase(name, self)

    def run(self) -> Receipt:
        """Commits.  Raises what `make` raises, UnsupportedFeature, CommitUnknown, and under `fail` DeltaConcurrentModificationException."""
        self.phase("staged")
        with given_up.head_kept(self), Line(self.table.state) as line, turn_of(self) as bid:
            line.join(self, (), reads_table=True)
            return self._rounds(bid)

    def _rounds(self, bid: Bid | None) -> Receipt:
        state = self.table.state
        while True:
            self._catch_up()
            if bid is not None:
                bid.before_put(self.attempts)
            with state.lane if self.options.lane else nullcontext():
                self._catch_up()
                self.phase("before_put")
                self.attempts += 1
                if outcome.put(state, self.read, self._bytes(), self.txn_id):
                    break
        receipt = self.receipt(self.read.version + 1)
        after_commit(self)
        return receipt

    def _catch_up(self) -> None:
        """Makes the actions anew where others have committed."""
        state = self.table.state
        head = state.refresh()
        rewritten = head.chain != self.read.chain
        if head.version == self.read.version and not rewritten:
            return
        chain.check_same(self.read, head)
        self.phase("before_rebase")
        if self.options.on_conflict == "fail":
            if rewritten:
                raise chain.rewritten_log(self.read, head).exception(self.table.path)
            self._judge(state.log.commits(self.read.version, head.version))
        self._set(head)
        self.rounds += 1
        self.phase("rebased")

    def _judge(self, winners: list[Commit]) -> None:
        """Raises the conflict that the winners are to a commit that has read, and may replace, the whole table."""
        actions = self.actions
        reads = rules.Reads(
            predicates=(None,),
            removes=frozenset(r.path for r in actions.removes),
            isolation=cast(Isolation, self.options.isolation or "serializable"),
            domains=rules.domains_of(actions.domains),
            changes_protocol=actions.protocol is not None,
            changes_metadata=actions.metadata is not None or any(w.metadata is not None for w in winners),  # made anew, it would undo theirs
        )
        asked = _BY_ROW if self.options.granularity == "row" else rules.RULES
        if found := rules.first_conflict(asked, reads, winners, fail_policy.table_state(self.read)):
            raise found.exception(self.table.path)

    def _bytes(self) -> bytes:
        head, actions = self.read, self.actions
        info = creation.commit_info(self.operation, self.parameters, self.txn_id, read_version=head.version, blind=False, metrics=actions.metrics)
        info["rowlock"] = {**self.receipt(None).record(), "read_version": self.read_version}
        return creation.bytes_on(
            head, info, protocol=actions.protocol, metadata=actions.metadata, domains=actions.domains, removes=actions.removes, adds=actions.adds, cdc=actions.cdc
        )

    def receipt(self, version: int | None) -> Receipt:
        """What it did so far; `version` where it has committed."""
        return Receipt(
            version=version, read_version=self.read_version, txn_id=self.txn_id, operation=self.operation, attempts=self.attempts, rounds=self.rounds, metrics=dict(self.actions.metrics)
        )
