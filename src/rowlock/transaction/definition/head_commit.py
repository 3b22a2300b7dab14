"""Commits that stage no rows and are computed anew from the newest snapshot before every put: RESTORE, ALTER, properties, features, replacement, row ids for old rows (I1, I2, I3).

Nothing is staged row by row, so nothing is rebased: where others committed first the actions are computed again from the new head.
What takes long, such as asking every row for a new constraint, is done before the commit lane is entered; inside it only what came
in the meantime is looked at.  RESTORE and replacement judge the winners by Delta's rules first where the policy is `fail`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from rowlock import progress
from rowlock.conflict import rules
from rowlock.exceptions import CommitUnknown, CorruptLog, DeltaConcurrentModificationException, InvalidInput, RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddCdcFile, AddFile, Commit, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from rowlock.protocol.features import check_writable, supporting
from rowlock.protocol.names import commit_key
from rowlock.protocol.properties import TableProperties
from rowlock.storage.store import ObjectStore, discard
from rowlock.transaction import commit as loop, failed_attempt
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.publish.commit_bytes import bytes_on, commit_info
from rowlock.transaction.rebase import fail_policy, log_chain
from rowlock.transaction.state import phases
from rowlock.transaction.state.options import Options
from rowlock.transaction.state.phases import Observer, current_observer, reached
from rowlock.transaction.state.proposal import Over, Single
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import SharedState

_BY_ROW = tuple(r for r in rules.RULES if r is not rules.removed_by_both)
"""The rules without that for files which both removed, so that a compaction is no conflict; asked under `granularity=row`."""


@dataclass(frozen=True, slots=True)
class HeadActions:
    """The actions of a commit on top of a head.  A `protocol` and `metadata` that are None or the head's stay; `metrics` and `tags` by Delta's names."""

    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    cdc: tuple[AddCdcFile, ...] = ()
    txns: tuple[SetTransaction, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


Make = Callable[[Snapshot], HeadActions | None]
"""The actions of a commit on top of a head; None where there is nothing to do."""


class StagedFiles:
    """The data files that a commit brings, written while its actions are computed.  A context manager: those of a commit that certainly failed are deleted."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.adds: Sequence[AddFile] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # An interrupt may come after the put, and so may the look that finds the log to be another table's.
        if isinstance(error, Exception) and not isinstance(error, CommitUnknown | CorruptLog):
            self.discard()

    def discard(self) -> None:
        """Deletes the files; others may be written in their place."""
        discard(self._store, (a.path for a in self.adds))
        self.adds = ()


def commit_from_head(
    state: SharedState,
    operation: str,
    parameters: Mapping[str, Any],
    make: Make,
    *,
    options: Options | None = None,
    reads_rows: bool = False,
    removes_rows: bool = False,
    replaces: bool = False,
    observer: Observer | None = None,
) -> Receipt:
    """Commits the actions `make(head)`, computed again from each new head.  The receipt has no version where they are None.

    reads_rows    whether it asks or takes away the rows that are there: then it waits for a lease as a statement that changes rows does
    removes_rows  whether it takes them away: then the policy `fail` judges the winners
    replaces      whether nothing of the table's definition is left: then it may be one that this version could not write

    Raises what `make` raises, UnsupportedFeature, CommitUnknown, MetadataChangedException where the table was created again
    meanwhile, and under `fail` DeltaConcurrentModificationException.
    """
    with progress.work(operation, state.store.root), LeaseLine(state) as line:
        reads = reads_rows or removes_rows or replaces
        commit = HeadCommit(state, operation, parameters, make, options, reads=reads, judged=removes_rows, replaces=replaces, observer=observer)
        moved = line.join(commit, (), reads_table=reads_rows or removes_rows)
        line.account(commit)
        try:
            commit.begin(state.refresh() if moved else commit.head)
        except RowlockError as error:
            commit.failed(error)
            raise
        return loop.commit(commit)


class HeadCommit(Single):
    """A commit whose actions follow from the head, as a proposal to the commit loop and as observers of its phases see it."""

    def __init__(
        self,
        state: SharedState,
        operation: str,
        parameters: Mapping[str, Any],
        make: Make,
        options: Options | None,
        *,
        reads: bool,
        judged: bool,
        replaces: bool,
        observer: Observer | None,
    ) -> None:
        super().__init__(state, -1)
        self.operation, self.parameters, self._make = operation, parameters, make
        self._reads, self._judged, self._replaces, self._observer = reads, judged, replaces, observer or current_observer()
        self.head = state.refresh()
        self._check_writable(self.head)
        self.options = self._resolved(options or Options())
        self.actions: HeadActions | None = None
        self.rounds = 0
        self.read_version = self.head.version

    def _resolved(self, options: Options) -> Options:
        """The options under the table's properties.  An unknown value of a property does not stop a change of the definition, which may be what mends it."""
        try:
            return options.resolved(self.head.metadata.configuration)
        except InvalidInput as e:
            if self._judged:
                raise InvalidInput(str(e), table=self.state.store.root) from e
            return options.resolved({})

    @property
    def read(self) -> Snapshot:
        """The head that the actions were computed from."""
        return self.head

    def begin(self, head: Snapshot) -> None:
        """Computes the actions from a head, the one that was read or a newer one."""
        log_chain.check_same(self.head, head)
        with self.watch.time("stage"):
            self._set(head)
        self.read_version = head.version
        self.phase("staged")

    def _set(self, head: Snapshot) -> None:
        self._check_writable(head)
        actions = self._make(head)
        if actions is not None:
            protocol, metadata = actions.protocol or head.protocol, actions.metadata or head.metadata
            if actions.metadata is not None:
                protocol = supporting(protocol, metadata)
            check_writable(protocol, metadata, self.state.store.root)
            changed = None if actions.metadata == head.logged else actions.metadata
            actions = replace(actions, protocol=protocol if protocol != head.protocol else None, metadata=changed)
        self.actions, self.head = actions, head

    def _check_writable(self, head: Snapshot) -> None:
        if not self._replaces:
            check_writable(head.protocol, head.metadata, self.state.store.root)

    def move_to(self, head: Snapshot) -> Over | None:
        """Computes the actions again where others have committed."""
        rewritten = head.chain != self.head.chain
        if head.version != self.head.version or rewritten:
            self._recompute(head, rewritten)
        return Over(None) if self.actions is None else None

    def _recompute(self, head: Snapshot, rewritten: bool) -> None:
        log_chain.check_same(self.head, head)
        self.phase("before_rebase")
        with self.watch.time("rebase"):
            if self._judged and self.options.on_conflict == "fail":
                if rewritten:
                    raise log_chain.rewritten_log(self.head, head).exception(self.state.store.root)
                self._judge(self.state.log.commits(self.head.version, head.version))
            self._set(head)
        self.rounds += 1
        self.phase("rebased")

    def _judge(self, winners: list[Commit]) -> None:
        """Raises under `fail` where winners conflict with a commit that has read, and may replace, the whole table."""
        actions = self.actions or HeadActions()
        reads = rules.Reads(
            predicates=(None,),
            removes=frozenset(r.path for r in actions.removes),
            isolation=self.options.isolation or "serializable",
            domains=rules.domains_of(actions.domains),
            app_ids=frozenset(t.app_id for t in actions.txns),
            changes_protocol=actions.protocol is not None,
            changes_metadata=actions.metadata is not None or any(w.metadata is not None for w in winners),  # computed again, it would undo theirs
        )
        asked = _BY_ROW if self.options.granularity == "row" else rules.RULES
        if found := rules.first_conflict(asked, reads, winners, fail_policy.table_state(self.head)):
            raise found.exception(self.state.store.root)

    def commit_file(self) -> bytes:
        head, actions = self.head, self.actions
        assert actions is not None
        info = commit_info(
            self.operation,
            self.parameters,
            self.txn_id,
            read_version=head.version,
            blind=not (self._reads or actions.adds or actions.removes),  # an ALTER is one, as delta-spark counts
            metrics=actions.metrics,
            began_ms=self.watch.began_ms,
            record={**self.receipt(None).record(), "read_version": self.read_version},
        )
        info["tags"] = dict(actions.tags)
        if actions.metadata is not None and not head.properties.in_commit_timestamps and TableProperties(actions.metadata.configuration).in_commit_timestamps:
            # The first of them is later than the file before it, by the clock of the store (PROTOCOL.md, In-Commit Timestamps).
            at = self.state.store.modified_ms(commit_key(head.version))
            head = replace(head, timestamp_ms=max(head.timestamp_ms, at or 0))
        written = {name: getattr(actions, name) for name in ("protocol", "metadata", "domains", "removes", "adds", "cdc", "txns")}
        return bytes_on(head, info, **written)

    def receipt(self, version: int | None) -> Receipt:
        metrics = {} if self.actions is None else dict(self.actions.metrics)
        return replace(super().receipt(version), rounds=self.rounds, metrics=metrics, seconds=dict(self.watch.seconds))

    def phase(self, name: str) -> None:
        reached(name, self, self._observer)

    def failed(self, error: RowlockError) -> None:
        """Records a failure that other writers had a part in; a change that cannot be carried out at all is not recorded beside the table."""
        phases.failed(self.state.store.root, self.operation, error)
        if isinstance(error, (CommitUnknown, DeltaConcurrentModificationException)):
            with failed_attempt.never_in_the_way(self.state.store.root):
                account, does = self.receipt(None).record(), {"definition": not self._judged}
                failed_attempt.hand_over(self, self.head.version, error, self.operation, self.parameters, account, does)
