"""Transactions of several statements: `with table.transaction() as txn:`, and `rowlock.run` for those that may run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import orjson

from rowlock import arguments, display
from rowlock.api import expressions
from rowlock.api.changes import Changes
from rowlock.api.handle import WORKS, Handle, Plan, Receipts
from rowlock.engines.spark.catalyst.types import Column, DataFrame
from rowlock.engines.spark.plan import Overwrite
from rowlock.engines.spark.statements import sources
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import SetTransaction
from rowlock.transaction import failed_attempt
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Receipt, Reruns
from rowlock.transaction.transaction import Options, StagingTransaction, Transaction

_SEVERAL = "TRANSACTION"


class OpenTransaction:
    """An open transaction as what carries statements out (see `handle.Runner`)."""

    def __init__(
        self,
        handle: Handle,
        options: Options,
        app: SetTransaction | None,
        reruns: Reruns,
        user_metadata: str | None = None,
        head: Snapshot | None = None,
    ) -> None:
        """`head`: the snapshot that it reads, where it is one of several tables' transactions, which begin together; None: the newest."""
        self.handle, self._user_metadata = handle, user_metadata
        self._line = LeaseLine(handle.state)
        self.source_listener: Callable[[DataFrame], None] | None = None
        self._of_settings = False
        if app is None:
            with handle.commits("write"):
                app = settings().application
            self._of_settings = app is not None
        self._options, self._app = options, app
        self._staging = StagingTransaction(self._line, lambda reruns: self._begin(head, reruns), reruns, may_begin_anew=head is None)
        self.steps: list[tuple[str, dict[str, Any]]] = []
        self._sources: list[sources.Source] = []

    @property
    def txn(self) -> Transaction:
        """The transaction; another one after it had to wait and began anew from the head."""
        return self._staging.txn

    @contextmanager
    def holding(self, pinned: list[sources.Source]) -> Iterator[None]:
        """Keeps the pinned sources until the transaction is over: a rebase may ask for them until its commit."""
        try:
            yield
        finally:
            self._sources += pinned

    def check_open(self) -> None:
        """Raises InvalidInput where the block has ended."""
        if self.txn.done:
            raise InvalidInput("The transaction is over: its block has ended. Begin another with table.transaction()", table=self.handle.path)

    def _begin(self, head: Snapshot | None, reruns: Reruns) -> Transaction:
        return self.handle.table.begin(self._options, snapshot=head, app=self._app, reruns=reruns)

    def wait(self) -> bool:
        """Waits in the table's lease line, under any lock but `none`, before anything is staged; whether the head moved meanwhile."""
        return self._line.join(self.txn, (), reads_table=True)

    def begin_at(self, head: Snapshot) -> None:
        """Begins anew at another head; only before anything is staged."""
        self._staging.txn = self._begin(head, self.txn.reruns)
        self._line.account(self.txn)

    def run(self, operation: str, plan: Plan) -> Receipt:
        """Stages a statement on top of those before it.  The receipt has no version yet."""
        self.check_open()
        metrics: dict[str, int] = {}
        with self.handle.commits(WORKS[operation]), self.handle.session.fixed_variables(), sources.listening_to_sources(self.source_listener):
            parameters = self._staging.stage(lambda snapshot: self.handle.planner.planned(snapshot, plan))
        if parameters is not None:
            self.steps.append((operation, dict(parameters)))
            metrics = {f"numTargetRows{k.capitalize()}": n for k, n in self.txn.staged_rows.items()}
        txn = self.txn
        return Receipt(None, txn.read_version, txn.txn_id, operation, already_committed=txn.already_committed, metrics=metrics)

    def will_read(self) -> None:
        """Waits before the transaction reads the table as a whole."""
        self._staging.will_read()

    def commit(self) -> Receipt:
        """Commits all statements as one version."""
        with self.committing():
            return self.handle.compacted(self.txn.commit(*self.operation()))

    @contextmanager
    def committing(self) -> Iterator[None]:
        """A block in which the transaction is committed."""
        with self.handle.commits(None, self._user_metadata):
            yield
            if self._of_settings:
                self.handle.session.reset_step()

    def operation(self) -> tuple[str, dict[str, Any]]:
        """The operation of all statements together, and its parameters."""
        if len(self.steps) == 1:
            return self.steps[0]
        statements = [{"operation": operation, **parameters} for operation, parameters in self.steps]
        return _SEVERAL, {"statements": orjson.dumps(statements, default=str).decode()}

    def give_up(self, error: BaseException) -> None:
        """The block raised: what it had staged, if anything, is thrown away."""
        if self.steps:
            failed_attempt.record(self.txn, error, *self.operation())

    def close(self) -> None:
        """Nothing is carried out any more; leases are given back, and what was pinned for a rebase is deleted."""
        self.txn.close()
        self._line.leave()
        for source in self._sources:
            source.release(self.handle.engine.evaluator)
        self._sources.clear()


class DeltaTransaction(Changes):
    """Statements that become one commit when the `with` block ends; an exception inside leaves the table as it was.

    Made by `DeltaTable.transaction()`.  `update`, `delete` and `merge` are those of `DeltaTable`; each statement sees what those before it did.

    Examples:
        >>> with t.transaction() as txn:
        ...     txn.delete("id = 1")
        ...     txn.append(updates)
        ...     txn.toDF().count()
        4
        >>> txn
        DeltaTransaction('...', statements=[DELETE, WRITE], committed as version 1)
    """

    def __init__(
        self,
        handle: Handle,
        options: Options,
        app: SetTransaction | None,
        receipts: Receipts,
        alias: str | None,
        runner: OpenTransaction | None = None,
        user_metadata: str | None = None,
    ) -> None:
        self._handle, self._options, self._app, self._alias, self._user_metadata = handle, options, app, alias, user_metadata
        self._table_receipts, self._receipts = receipts, Receipts()
        self._opened = runner
        self._reruns = Reruns()
        """What `rowlock.run` threw away of the same work before, for the receipt."""

    def __repr__(self) -> str:
        return display.call("DeltaTransaction", repr(self._handle.path), *self._progress(), alias=self._alias)

    def _progress(self) -> list[str]:
        """What has become of the transaction so far."""
        if self._opened is None:
            return ["not begun"]
        txn, receipt = self._opened.txn, self._receipts.last
        staged = [f"statements=[{', '.join(name for name, _ in self._opened.steps)}]"]
        if not txn.done:
            return ["open", f"read_version={txn.read_version}", *staged]
        return [*staged, f"committed as version {receipt.version}" if receipt is not None and receipt.version is not None else "over, nothing committed"]

    @property
    def _runner(self) -> OpenTransaction:  # type: ignore[override]
        """The open transaction.  Raises InvalidInput before the block begins."""
        if self._opened is None:
            raise InvalidInput("The transaction has not begun: use it in a with statement, `with table.transaction() as txn:`", table=self._handle.path)
        return self._opened

    def __enter__(self) -> DeltaTransaction:
        if self._opened is not None:
            raise InvalidInput("The transaction has begun already; each block needs its own table.transaction()", table=self._handle.path)
        self._table_receipts.last = None
        self._opened = OpenTransaction(self._handle, self._options, self._app, self._reruns, self._user_metadata)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._table_receipts.last = self._receipts.last = self._runner.commit()
            elif error is not None:
                self._runner.give_up(error)
        finally:
            self._runner.close()

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the last statement while the block runs, and of the commit afterwards; None before the first.

        Examples:
            >>> with t.transaction() as txn:
            ...     txn.delete("id = 1")
            >>> txn.receipt.version
            1
        """
        return self._receipts.last

    def alias(self, aliasName: str) -> DeltaTransaction:
        """The same transaction under a name that expressions can use.  Runs no Spark job.

        Args:
            aliasName: The name, such as `t` for `t.id`.

        Returns:
            A transaction that shares everything with this one.

        Raises:
            InvalidInput: The block has not begun.

        Examples:
            >>> with t.transaction() as txn:
            ...     txn.alias("t").delete("t.id = 1")
        """
        out = DeltaTransaction(self._handle, self._options, self._app, self._table_receipts, arguments.text(aliasName, "aliasName"), self._runner)
        out._receipts = self._receipts
        return out

    def toDF(self) -> DataFrame:
        """The table as this transaction sees it, its own changes in it, under the handle's alias or its name in the catalog.

        What others change of the table from then on is a conflict, unless the isolation is `snapshot`: what was read may have decided what is written.
        The rows are read by Spark jobs when the DataFrame is used.

        Returns:
            A DataFrame with the table's columns.

        Raises:
            InvalidInput: The block has not begun, or is over.

        Examples:
            >>> with t.transaction() as txn:
            ...     txn.delete("id = 1")
            ...     txn.toDF().count()
            2
        """
        self._runner.check_open()
        self._runner.will_read()
        txn = self._runner.txn
        txn.note_read()
        frame = self._handle.planner.rows(txn.base, txn.effects)
        return self._handle.planner.evaluator.shown(frame.alias(self._called) if self._called else frame)

    def append(self, df: DataFrame) -> None:
        """Adds the rows of a DataFrame.  They are computed now: on the driver where they are few, else by a Spark job that writes them to files.

        Args:
            df: The rows; columns are matched by name without regard to case, absent ones are null.

        Raises:
            InvalidInput: The block has not begun, or is over.
            SchemaMismatch: The rows do not fit the table.
            ConstraintViolated: A row breaks NOT NULL or a CHECK constraint.

        Examples:
            >>> with t.transaction() as txn:
            ...     txn.append(updates)
            >>> t.toDF().count()
            5
        """
        frame = expressions.frame(df, "df")

        self._run("WRITE", lambda planner, snapshot: planner.append(snapshot, frame))

    def overwrite(self, df: DataFrame, replace_where: str | Column | None = None) -> None:
        """Replaces all rows, or those for which a condition is true, by the rows of a DataFrame.  Runs Spark jobs as a delete and an append do.

        Args:
            df: The new rows.
            replace_where: Which rows are replaced, a string or Column; every row of `df` must meet it.  None replaces all.

        Raises:
            InvalidInput: The block has not begun, or is over.
            SchemaMismatch: The rows do not fit the table.
            ConstraintViolated: A row breaks NOT NULL or a CHECK constraint, or does not meet `replace_where`.

        Examples:
            >>> with t.transaction() as txn:
            ...     txn.overwrite(updates, "region = 'us'")
            >>> t.toDF().count()
            4
        """
        frame, where = expressions.frame(df, "df"), expressions.expression(replace_where, "replace_where")
        self._run("WRITE", lambda planner, snapshot: planner.overwrite(snapshot, frame, Overwrite(where), self._called))
