"""Takes the leases of a transaction, waiting for other holders, before it stages anything (`rowlock.lock`; I7).

Planning finds what a statement touches, and is cheap.  So a transaction plans, takes the leases that its lock requires,
and if the head has moved while it waited, begins again from the new head.  Leases must decide nothing: they only save work.

    plan → (wait → begin and plan again, if the head has moved) → stage → commit → release

What `rowlock.lock=auto` means is advised by the table's recent history.  It is read once in each process and again after enough new commits: wrong or
outdated advice costs time and nothing else.  A turn lets a writer that keeps losing its puts go first (I8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from rowlock import clock, threads
from rowlock.boundary.engine import Statement
from rowlock.locks.lease import TABLE, Lease, Leases, Scope, logger, scopes_of
from rowlock.locks.turns import TurnRequest, Turns
from rowlock.log.snapshot import Snapshot
from rowlock.storage.registers import Registers, open_registers
from rowlock.transaction.state.proposal import Committing
from rowlock.transaction.state.shared import SharedState

if TYPE_CHECKING:
    from rowlock.advice.advice import Lock
    from rowlock.advice.history import History


COMMITS = 100
"""How many of the newest commits the history covers."""
REREAD_COMMITS = 10
REREAD_S = 5.0
"""The history is read again after at least this many new commits, and at least this many seconds after the last time."""


class AdvisedLock:
    """The advised lock of one table, shared by its handles in this process.  Thread-safe: while one thread renews it, others get the old one."""

    def __init__(self) -> None:
        self._lock = threads.lock()
        self._history: History | None = None
        self._answer: Lock | None = None
        self._version, self._at_s = -1, 0.0
        self._table: str | None = None

    def answer(self, state: SharedState) -> Lock:
        """The advised lock, renewed first if it is due; `none` where the history cannot be read.  Never raises."""
        if not self._lock.acquire(blocking=self._answer is None):
            return self._answer or "none"
        try:
            if self._answer is None or clock.monotonic_s() - self._at_s >= REREAD_S:
                self._ask(state)
        except Exception as e:  # noqa: BLE001 - a lock is a courtesy, and so is advice on it
            logger.warning("no advice on a lock, for the history of %s could not be read: %s", state.store.root, e)
            self._answer = self._answer or "none"
        finally:
            self._lock.release()
        return self._answer or "none"

    def _ask(self, state: SharedState) -> None:
        from rowlock.advice.advice import lock_for  # with a parser of SQL that other writers need not load
        from rowlock.advice.read_history import read_history

        self._at_s = clock.monotonic_s()
        head = state.refresh()
        if head.metadata.id != self._table:  # another table was created at this path: its history is a new one
            self._history, self._answer, self._table = None, None, head.metadata.id
        if self._answer is not None and head.version < self._version + REREAD_COMMITS:
            return
        self._history = read_history(state.store, COMMITS, previous=self._history, snapshot=head)
        self._answer, self._version = lock_for(self._history, current=self._answer), head.version


def advised_lock(state: SharedState) -> Lock:
    """The lock that the table's history advises: none, writes or partition.  Never raises."""
    advised: AdvisedLock = state.shared("advised lock", AdvisedLock)
    return advised.answer(state)


def registers_of(state: SharedState, snapshot: Snapshot) -> Registers:
    """The store of the table's leases and turns (rowlock.lockProvider).  Raises InvalidInput where that provider is not available here."""
    provider = snapshot.properties.lock_provider
    registers: Registers = state.shared(f"registers {provider}", lambda: open_registers(state.store, provider))
    return registers


@contextmanager
def turn_of(what: Committing) -> Iterator[TurnRequest | None]:
    """A context manager for the commit's turn request, which the commit loop asks before each put; it ends with the block.  None without turns."""
    state, snapshot = what.state, what.read
    if not what.options.takes_turns:
        yield None
        return
    turns: Turns = state.shared(f"turns {snapshot.properties.lock_provider}", lambda: Turns(lambda: registers_of(state, snapshot)))
    request = turns.request(what.txn_id)
    try:
        yield request
    finally:
        request.end()


class _Held(list[tuple[SharedState, Lease]]):
    """The leases that transactions of one thread hold, on any table."""


def _forget(held: _Held, lease: Lease) -> None:
    for known in [k for k in held if k[1] is lease]:
        with suppress(ValueError):
            held.remove(known)


class LeaseLine:
    """The leases of one transaction.  A context manager, which releases them when the transaction ends, however it ends."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._held: list[Lease] = []
        self._of_thread = threads.of_thread(_Held)
        self._waited_s = 0.0
        self._waited = False

    def __enter__(self) -> LeaseLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        """Releases all leases of this transaction."""
        while self._held:
            lease = self._held.pop()
            _forget(self._of_thread, lease)
            lease.release()

    @property
    def scopes(self) -> frozenset[Scope]:
        """The scopes that this transaction and others of its thread hold: a statement in a `with` block must not wait for the block's own lease."""
        return frozenset(s for lease in [*self._held, *self._beside()] for s in lease.scopes)

    def _beside(self) -> list[Lease]:
        """The leases on this table that other transactions of this thread hold, as far as is known."""
        return [held for state, held in self._of_thread if state is self._state and not held.lost]

    def join(self, txn: Committing, statements: Sequence[Statement], *, reads_table: bool = False) -> bool:
        """Takes the leases that `statements` (or reading the table as a whole) need under the transaction's lock, waiting for them.

        Returns True if it waited or holds them, and the head has moved: a transaction that has staged nothing yet should then begin again.
        A transaction waits only once; leases that a later statement needs in addition are taken only if they are free, so
        that no two transactions wait for each other.
        """
        options, read = txn.options, txn.read
        if options.lock == "none":
            return False
        wanted = scopes_under(str(options.lock), statements, read, reads_table, lambda: advised_lock(self._state))
        wanted = frozenset(w for w in wanted if not any(held <= w for held in self.scopes))
        if not wanted:
            return False
        start = clock.monotonic_s()
        patience_s = 0.0 if self._waited or self._beside() else options.lock_timeout or 0.0
        lease = _acquire(self._state, read, wanted, patience_s)
        self._waited = True
        if lease is not None:
            self._held.append(lease)
            self._of_thread.append((self._state, lease))
        self._waited_s += clock.monotonic_s() - start
        return (lease is not None or patience_s > 0) and self._state.refresh().version != txn.read_version

    def account(self, txn: Committing) -> None:
        """Adds the seconds waited to the transaction's stopwatch, for the receipt."""
        if self._waited:
            txn.watch.add("lock", self._waited_s)
            self._waited_s = 0.0


def scopes_under(lock: str, statements: Sequence[Statement], snapshot: Snapshot, reads_table: bool, ask: Callable[[], str]) -> frozenset[Scope]:
    """The scopes that `statements` must lease under a lock; empty where they need not wait.  `ask` returns the lock for `auto`.

    writes     the table, for statements that change or read existing rows; nothing for appends and compactions, which make no other writer fail
    table      the table, for every transaction
    partition  the values to which the statements' conditions restrict the partition columns and `rowlock.lockKey`; the table where they restrict none
    auto       as the table's history advises
    """
    working = [s for s in statements if s.kind not in ("append", "move")]
    if lock != "table" and not working and not reads_table:
        return frozenset()
    lock = ask() if lock == "auto" else lock
    if lock == "none":
        return frozenset()
    if lock != "partition" or reads_table:
        return frozenset({TABLE})
    return scopes_of([s.reads for s in working], snapshot.partition_columns, snapshot.properties.lock_key)


def _acquire(state: SharedState, snapshot: Snapshot, scopes: frozenset[Scope], timeout_s: float) -> Lease | None:
    properties = snapshot.properties
    try:
        registers = registers_of(state, snapshot)
    except Exception as e:  # noqa: BLE001 - a lock is a courtesy: a writer without its provider goes on
        logger.warning("no lease: its provider cannot be had (%s); the writer goes on without one", e)
        return None
    name = f"leases {properties.lock_provider} {properties.lock_term_s}"
    leases: Leases = state.shared(name, lambda: Leases(registers, term_s=properties.lock_term_s))
    return leases.acquire(scopes, timeout_s)
