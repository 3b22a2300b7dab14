"""Transactions over several tables, and reads of several tables at one instant; `rowlock.run`: a function as a transaction, run again as a whole where a rebase cannot do."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TypedDict, Unpack, get_args, overload

from rowlock import arguments, clock, display, threads
from rowlock.api.connect import check_classic
from rowlock.api.delta_table import DeltaTable
from rowlock.api.handle import Handle, Receipts
from rowlock.api.sql.answers import run_text
from rowlock.api.sql.target import open_part
from rowlock.api.transaction import DeltaTransaction, OpenTransaction
from rowlock.engines.spark.catalyst.types import DataFrame
from rowlock.engines.spark.statements import sources
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, WrongType
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import SetTransaction
from rowlock.transaction import multi_table
from rowlock.transaction.multi_table import MultiTableReceipt
from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict, Options, asked
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.transaction import Transaction, run_again
from rowlock.transaction.two_phase.prepare import Part, Wait

Tables = Sequence[DeltaTable | str]
"""Tables by their handles, or by their paths for the session of the process."""


class MultiTableTransaction:
    """Statements on several tables that become one commit in each of them when the `with` block ends, or none in any.

    Made by `rowlock.transaction`.  `txn[table]` is the part of one table, with `update`, `delete`, `merge`, `append`, `overwrite` and `toDF`.

    Examples:
        >>> with rowlock.transaction([orders, stock]) as txn:
        ...     txn[stock].update("sku = 7", {"n": "n - 1"})
        ...     txn[orders].append(order)
        >>> txn.receipt.versions
        {'...': 1, '...': 1}
    """

    def __init__(self, handles: Sequence[Handle], options: Options, app: SetTransaction | None, user_metadata: str | None, wait: Wait = "everywhere") -> None:
        self._handles, self._options, self._app, self._user_metadata, self._until = handles, options, app, user_metadata, wait
        self._reruns = Reruns()
        """What `rowlock.run` threw away of the same work before, for the receipts."""
        self._opened: list[OpenTransaction] = []
        self._parts: list[DeltaTransaction] = []
        self._receipt: MultiTableReceipt | None = None

    def __repr__(self) -> str:
        state = "not begun" if not self._opened else "over" if self._opened[0].txn.done else "open"
        return display.call("MultiTableTransaction", repr([h.path for h in self._handles]), state)

    def __enter__(self) -> MultiTableTransaction:
        if self._opened:
            raise InvalidInput("The transaction has begun already; each block needs its own rowlock.transaction([...])", table=self._handles[0].path)
        states = [handle.state for handle in self._handles]
        multi_table.check_tables(states)
        heads = multi_table.heads_together(states)
        for handle, head in zip(self._handles, heads, strict=True):
            self._opened.append(OpenTransaction(handle, self._options, self._app, self._reruns, self._user_metadata, head))
        self._wait(heads)
        for n, (handle, opened) in enumerate(zip(self._handles, self._opened, strict=True)):
            opened.source_listener = self._listener(n)
            self._parts.append(DeltaTransaction(handle, self._options, self._app, Receipts(), None, opened))
        return self

    def _wait(self, heads: Sequence[Snapshot]) -> None:
        """Waits for the leases of all tables, in the same order everywhere; where a head moved meanwhile, all begin at their heads of now."""
        order = sorted(range(len(heads)), key=lambda n: multi_table.place_of(heads[n]))
        moved = [self._opened[n].wait() for n in order]  # all of them, also after one that moved
        if any(moved):
            for opened, head in zip(self._opened, multi_table.heads_together([handle.state for handle in self._handles]), strict=True):
                opened.begin_at(head)

    def _listener(self, of: int) -> Callable[[DataFrame], None]:
        """A function to be called with each source of the statements on one table: what it reads of the other tables is a read of these."""

        def note(frame: DataFrame) -> None:
            for n, opened in enumerate(self._opened):
                if n != of:
                    for read in sources.table_reads(opened.handle.engine.evaluator, frame, opened.txn.base):
                        opened.txn.note_read(read)

        return note

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._receipt = self._commit()
            elif error is not None:
                for opened in self._opened:
                    opened.give_up(error)
        finally:
            for opened in self._opened:
                opened.close()

    def _commit(self) -> MultiTableReceipt:
        txn_id = clock.new_id()
        with ExitStack() as blocks:
            for opened in self._opened:
                blocks.enter_context(opened.committing())
            receipt = multi_table.commit([_part(opened, txn_id) for opened in self._opened], self._until)
            for handle in self._handles:
                handle.compacted(receipt.tables[handle.path])
        return receipt

    def __getitem__(self, table: DeltaTable | str) -> DeltaTransaction:
        """The part of one of the tables, by its handle or its path.  Runs no Spark job.  Raises InvalidInput for another table, and where the block has not begun."""
        self._check_begun()
        path = _handle(table).path
        for part, handle in zip(self._parts, self._handles, strict=True):
            if handle.path == path:
                return part
        raise InvalidInput("The transaction is not over this table: name it in rowlock.transaction([...])", table=path)

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Runs one statement of SQL within the transaction: UPDATE, DELETE, MERGE and INSERT on its tables, or a query.

        Runs Spark jobs as the statement needs.  Its tables are read as the transaction sees them, and are named as everywhere, by a name of the catalog or delta.`/path`.

        Args:
            text: The statement.
            args: Values for the parameters of the text, as in `spark.sql`.

        Returns:
            The rows of a query, or what the statement answers.

        Raises:
            InvalidInput: The block has not begun or is over, or the statement is on another table, or of another kind.
            AnalysisException: Spark's: a name cannot be resolved.

        Examples:
            >>> with rowlock.transaction([orders, stock]) as txn:
            ...     txn.sql(f"UPDATE delta.`{stock_path}` SET n = n - 1 WHERE sku = 7").collect()
            [Row(num_affected_rows=1)]
        """
        statement, values = arguments.text(text, "text"), arguments.sql_values(args, "args")
        self._check_begun()
        self._opened[0].check_open()
        with threads.holding(open_part, lambda path: self[path]):
            return run_text(self._handles[0].spark, statement, values)

    def _check_begun(self) -> None:
        if not self._parts:
            raise InvalidInput("The transaction has not begun: use it in a with statement, `with rowlock.transaction([...]) as txn:`")

    @property
    def receipt(self) -> MultiTableReceipt | None:
        """What was committed; None before the block has ended, and where it failed."""
        return self._receipt


def _part(opened: OpenTransaction, txn_id: str) -> Part:
    """A table's share of the transaction as what is committed."""
    if not opened.steps and not opened.txn.already_committed:
        opened.txn.app = None  # nothing is written there, so the application's step leaves no mark
    operation, parameters = opened.operation() if opened.steps else ("READ", {})
    return Part(opened.txn, operation, parameters, txn_id)


def _handle(table: Any) -> Handle:
    """The handle of a table that is given as a DeltaTable or by its path.  Raises WrongType, InvalidInput where a path comes without a session."""
    if isinstance(table, DeltaTable):
        return table._handle
    if not isinstance(table, str):
        raise WrongType(f"each of tables must be a DeltaTable or a path, not {type(table).__name__}")
    session = Session.of_process()
    if session is None:
        raise InvalidInput("a table by its path needs a Spark session: make one with rowlock.spark(), or give DeltaTable.forPath(spark, path)", table=table)
    return Handle(session.spark, table)


def handles_of(tables: Any, call: str) -> list[Handle]:
    """The handles of a list of tables.  Raises WrongType, and UnsupportedFeature on a Spark Connect session."""
    if isinstance(tables, (str, DeltaTable)) or not isinstance(tables, Sequence):
        raise WrongType(f"tables must be a list of DeltaTables or paths, not {type(tables).__name__}")
    handles = [_handle(t) for t in tables]
    for handle in handles:
        check_classic(handle.spark, call)
    return handles


def waited(wait: Any) -> Wait:
    """The argument `wait`.  Raises InvalidInput for anything else."""
    return "decided" if arguments.one_of(wait, "wait", get_args(Wait)) == "decided" else "everywhere"


def transaction(
    tables: Tables,
    isolation: Isolation | None = None,
    on_conflict: OnConflict | None = None,
    granularity: Granularity | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    lock: Lock | None = None,
    lock_timeout: float | None = None,
    user_metadata: str | None = None,
    wait: Wait = "everywhere",
) -> MultiTableTransaction:
    """Statements on several tables that are committed to all of them or to none: `with rowlock.transaction([orders, stock]) as txn:`.

    Any Delta tables that can be written (docs/multi-table.md): those under one DynamoDB arbiter are committed by one request, others are prepared one by one
    and decided by one put.  The block sees all of them as they were at one instant.  Runs no Spark job itself.  Where others commit first, each part is
    rebased over what changed in its table.  Under `serializable` and `write_serializable` what the block has read in one table still holds when it writes to another.

    Args:
        tables: At least two tables: DeltaTables, or paths for the session of the process.
        isolation: As in `DeltaTable.transaction`, for each table, and so are the arguments below.
        on_conflict: What is done where others committed first; a conflict in one table ends the transaction in all.
        granularity: What counts as a conflict: a row or a file.
        app_id: The name of an application, whose step the whole transaction is.
        app_version: The step's number, 0 or more.
        lock: Who waits in line before they work; all leases are taken when the block begins.
        lock_timeout: For how many seconds to wait in line, 0 or more.
        user_metadata: A text of your own, which each commit carries as `userMetadata`.
        wait: "everywhere": until all tables have their versions.  "decided": only until that is certain; without an arbiter the other tables' versions
            follow within a moment, and `receipt.pending` names these tables.

    Returns:
        A transaction to be used in a `with` statement.

    Raises:
        InvalidInput: A value is not allowed, there is only one table, or one is named twice.
        UnsupportedFeature: When the block ends: no arbiter is common to all tables, and rows change in two tables of which neither tracks its rows.

    Examples:
        >>> with rowlock.transaction([orders, stock]) as txn:
        ...     txn[stock].update("sku = 7", {"n": "n - 1"})
        ...     txn[orders].append(order)
        >>> txn.receipt.pending
        ()
    """
    how = asked(isolation, on_conflict, granularity, app_id, app_version, lock, lock_timeout, user_metadata)
    return MultiTableTransaction(handles_of(tables, "rowlock.transaction"), *how, waited(wait))


def read_together(tables: Tables, timestamp: str | datetime.datetime | None = None) -> list[DataFrame]:
    """Several tables as they were at one instant: no transaction over several tables is seen in one of them and not in another.

    The logs are read now, on the driver; the rows are read by Spark jobs when the DataFrames are used.  Any Delta tables can be read so.

    Args:
        tables: DeltaTables, or paths for the session of the process.
        timestamp: Each table's version at a time, as in `rowlock.read`; a table is read one version later where a transaction that is
            seen in another table of the list became that version.

    Returns:
        A DataFrame for each table, in their order.  They stay at their versions.

    Raises:
        TableNotFound: There is no Delta table at a path.
        VersionNotFound: A log does not reach back to the time, or no log reaches to it.
        DeltaConcurrentModificationException: Others committed so fast that no instant could be found.

    Examples:
        >>> a, b = rowlock.read_together([orders, stock])
        >>> a.count(), b.count()
        (1, 2)
    """
    handles = handles_of(tables, "rowlock.read_together")
    states = [handle.state for handle in handles]
    heads = multi_table.heads_together(states, to_read=True) if timestamp is None else multi_table.heads_at(states, [h.time_ms(timestamp) for h in handles])
    return [handle.planner.rows(head, fixed=True) for handle, head in zip(handles, heads, strict=True)]


class TransactionOptions(TypedDict, total=False):
    """The arguments of `DeltaTable.transaction` and of `rowlock.transaction`."""

    isolation: Isolation | None
    on_conflict: OnConflict | None
    granularity: Granularity | None
    app_id: str | None
    app_version: int | None
    lock: Lock | None
    lock_timeout: float | None
    user_metadata: str | None


@overload
def run(table: DeltaTable, fn: Callable[[DeltaTransaction], Any], retries: int = 10, **options: Unpack[TransactionOptions]) -> Receipt: ...
@overload
def run(
    table: Tables, fn: Callable[[MultiTableTransaction], Any], retries: int = 10, *, wait: Wait = "everywhere", **options: Unpack[TransactionOptions]
) -> MultiTableReceipt: ...
def run(
    table: DeltaTable | Tables,
    fn: Callable[[Any], Any],
    retries: int = 10,
    *,
    wait: Wait = "everywhere",
    **options: Unpack[TransactionOptions],
) -> Receipt | MultiTableReceipt:
    """Runs a function in a transaction and commits; where a rebase cannot keep its work, runs it again as a whole.

    The function runs on the driver and may start Spark jobs.  It must have no effect elsewhere, for it may run several times; under `on_conflict='fail'`
    it runs once.

    Args:
        table: The table, or a list of several: then the function gets a transaction over all of them (see `rowlock.transaction`).
        fn: Called with the transaction.
        retries: How many more times it may run, 0 or more.
        wait: Of several tables, as in `rowlock.transaction`: "everywhere" or "decided".
        **options: The arguments of `DeltaTable.transaction`: `isolation`, `on_conflict`, `granularity`, `app_id`, `app_version`, `lock`, `lock_timeout` and
            `user_metadata`.

    Returns:
        The receipt of the commit; of several tables a `MultiTableReceipt`.

    Raises:
        InvalidInput: A value is not allowed, or two do not go together.
        DeltaConcurrentModificationException: The conflict of the last run, where none landed.
        Exception: What `fn` raises; nothing is committed then.

    Examples:
        >>> def double(txn):
        ...     total = txn.toDF().agg({"amount": "sum"}).first()[0]
        ...     txn.update("region = 'us'", {"amount": f"{total}"})
        >>> rowlock.run(t, double).version
        1
    """

    arguments.function(fn, "fn")
    most = max(0, arguments.number(retries, "retries"))
    until = waited(wait)
    if isinstance(table, (list, tuple)):
        handles = handles_of(table, "rowlock.run")
        together: MultiTableReceipt = _run(lambda: MultiTableTransaction(handles, *asked(**options), until), fn, most)
        return together
    if not isinstance(table, DeltaTable):
        raise WrongType(f"table must be a DeltaTable, not {type(table).__name__}")
    if until != "everywhere":
        raise InvalidInput("wait is for a transaction over several tables: a commit to one table is there when it is decided", table=table._handle.path)
    check_classic(table._handle.spark, "rowlock.run")
    receipt: Receipt = _run(lambda: table.transaction(**options), fn, most)
    return receipt


def _run(made: Callable[[], DeltaTransaction | MultiTableTransaction], fn: Callable[[Any], Any], most: int) -> Any:
    """Runs `fn` in the transaction that `made` makes, at most `most` times more; the receipt."""

    def begin(reruns: Reruns) -> DeltaTransaction | MultiTableTransaction:
        txn = made()
        txn._reruns = reruns
        return txn

    def carry_out(txn: DeltaTransaction | MultiTableTransaction) -> Any:
        with txn:
            fn(txn)
        assert txn.receipt is not None
        return txn.receipt

    def recorded(txn: DeltaTransaction | MultiTableTransaction) -> Transaction:  # where the try failed: of several tables the first one's
        return txn._opened[0].txn if isinstance(txn, MultiTableTransaction) else txn._runner.txn

    return run_again(begin, carry_out, recorded, most=most, again=lambda txn, _: txn.options.on_conflict != "fail")
