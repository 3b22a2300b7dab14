"""All errors that Rowlock raises, in one tree, divided by what the caller does next.

    RowlockError
    ├── TableNotFound              no Delta table at the path: create it, or correct the path
    │   ├── PathNotFound           no Delta table at the path that a read by format name gives
    │   └── NameNotFound           no Delta table has this name in the session's catalog
    ├── TableExists                there is one already: open it, or choose another mode
    │   └── NameTaken              the catalog has a table or a view of this name
    ├── VersionNotFound            the version or time is not in the log: choose another
    ├── InvalidInput (ValueError)  the call cannot be carried out: correct the call
    │   ├── WrongType (TypeError)  an argument has a type that the call does not accept
    │   ├── SchemaMismatch         rows or columns do not fit the table
    │   ├── PublicAnalysisException  Spark cannot resolve an expression of the statement
    │   └── StatementRefused       Delta does not allow this in this statement
    ├── ConstraintViolated         a row breaks NOT NULL, or a MERGE matches a row twice
    │   └── MultipleMatches
    ├── UnsupportedFeature         the table needs a feature that this version lacks: `feature` names it
    ├── CorruptLog                 the log is damaged: `file` names the file; nothing is skipped
    ├── StorageError               the store did not answer or refused: the text names the file and what to do; `file` has its key
    ├── CommitUnknown              the commit may or may not have landed, and the log cannot be read
    └── DeltaConcurrentModificationException      (names of delta.exceptions)
        ├── ConcurrentWriteException
        ├── ConcurrentAppendException
        ├── ConcurrentDeleteReadException
        ├── ConcurrentDeleteDeleteException
        ├── ConcurrentTransactionException
        ├── MetadataChangedException
        └── ProtocolChangedException

Where Spark is used, each error is also the exception of PySpark that delta-spark raises in the same case (`except AnalysisException`
catches a TableNotFound), and answers `getCondition()`, `getSqlState()` and `getMessageParameters()` as that one does.

The last eight have the names of `delta.exceptions`, so that existing `except` clauses keep working when only the
import is changed; where delta-spark's package is imported they are its classes, too.  In `delta.exceptions` each of the
eight derives directly from PySparkException; here DeltaConcurrentModificationException is the base of the others, as in
Delta's documentation and Java classes, so a clause for it catches all of them and must come after the clauses for
single ones.  A conflict of metadata domains is a ConcurrentTransactionException, as in delta-spark.

Nothing was written to the table's log when one of these is raised, save for CommitUnknown, which says so.
StorageError may come of every call that reads or writes a table: a disk that is full, access that is denied, a bucket that is not there.
Messages are for people and free to change; fields are for code.

CommitOverwrittenWarning is a warning and no error: by the time that it is noticed, the commit is gone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NoReturn

from rowlock.conditions import ANALYSIS, ANY, NO_STATE, RUNTIME, UNSUPPORTED, Condition, named


class RowlockError(Exception):
    """Base of all errors.

    Attributes:
        table: The table's path, where one is concerned.
        version: The table's version, where one is concerned.
        file: The file, where one is concerned.
        condition: What happened, under Spark's or Delta's name for it; None where they have none.

    Examples:
        >>> try:
        ...     rowlock.to_arrow(path, version=99)
        ... except rowlock.exceptions.VersionNotFound as error:
        ...     error.table == path
        True
    """

    raised: ClassVar[str] = ANY
    """The name of PySpark's exception where the condition names none."""
    _join: ClassVar[Callable[[type[Any], str], type[Any]]] = staticmethod(lambda kind, _: kind)
    """Makes a class that is one of PySpark's, too; the Spark engine sets it, since only that imports pyspark."""

    def __new__(cls, *_: Any, condition: Condition | None = None, **__: Any) -> Any:
        """An error of a class that is PySpark's exception, too, where the Spark engine is loaded."""
        return super().__new__(RowlockError._join(cls, (condition and condition.raised) or cls.raised))

    def __init__(
        self, message: str, *, table: str | None = None, version: int | None = None, file: str | None = None, condition: Condition | None = None
    ) -> None:
        self.table, self.version, self.file, self.condition = table, version, file, condition
        where = [f"{what} {value}" for what, value in (("table", table), ("version", version), ("file", file)) if value not in (None, "")]
        text = message if condition is None else f"[{condition.name}] {message}"
        Exception.__init__(self, f"{text} [{', '.join(where)}]" if where else text)  # not PySpark's, which keeps no args

    def __str__(self) -> str:
        return Exception.__str__(self)

    def __reduce__(self) -> Any:
        """For pickle: the joined class is made anew where the error is unpickled."""
        return _restored, (next(c for c in type(self).__mro__ if "_joined" not in vars(c)), self.args, vars(self))

    def getCondition(self) -> str:
        """The error condition that Spark or Delta has for this; where they have none, ROWLOCK_ and the name of the class."""
        return self.condition.name if self.condition else "ROWLOCK_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).upper()

    def getErrorClass(self) -> str:
        """The condition, under the name that PySpark has deprecated."""
        warnings.warn("Deprecated in PySpark 4.0.0, use getCondition instead.", FutureWarning, stacklevel=2)
        return self.getCondition()

    def getSqlState(self) -> str | None:
        """The SQL state of the condition."""
        return self.condition.state if self.condition else NO_STATE

    def getMessageParameters(self) -> dict[str, str]:
        """The parameters of the condition's message, under Spark's names for them."""
        return dict(self.condition.parameters) if self.condition else {}

    def getMessage(self) -> str:
        """The whole message."""
        return str(self)

    def getQueryContext(self) -> list[Any]:
        """Where in the text of the statement the error is: not known."""
        return []


def _restored(kind: type[RowlockError], args: tuple[Any, ...], state: dict[str, Any]) -> RowlockError:
    error: RowlockError = kind.__new__(kind, condition=state.get("condition"))
    error.args = args
    vars(error).update(state)
    return error


class TableNotFound(RowlockError):
    """There is no Delta table at the path."""

    raised = ANALYSIS


class PathNotFound(TableNotFound):
    """There is no Delta table at the path that a read by format name gives."""


class NameNotFound(TableNotFound):
    """The catalog has no Delta table of this name."""


class TableExists(RowlockError):
    """There is already a table, or something else, at the path."""

    raised = ANALYSIS


class NameTaken(TableExists):
    """The catalog has a table or a view of this name, or there is a table in the folder that a new one would get."""


class VersionNotFound(RowlockError):
    """The version or timestamp asked for is not in the log."""

    raised = ANALYSIS


class InvalidInput(RowlockError, ValueError):
    """The call cannot be carried out as it was given.  It is a ValueError, too."""

    raised = ANALYSIS


class WrongType(InvalidInput, TypeError):
    """An argument has a type that the call does not accept, which any call may raise.  It is a TypeError, too."""

    raised = ANY


class PublicAnalysisException(InvalidInput):
    """Spark cannot resolve an expression of the statement: its own error, without the names of Rowlock's internal columns."""


class SchemaMismatch(InvalidInput):
    """Rows or columns do not fit the table's schema."""


class StatementRefused(InvalidInput):
    """The statement contains something that Delta does not allow in it.

    Attributes:
        what: What is not allowed.
    """

    def __init__(self, message: str, *, what: str, table: str | None = None, condition: Condition | None = None) -> None:
        self.what = what
        super().__init__(message, table=table, condition=condition)


class ConstraintViolated(RowlockError):
    """A row breaks a constraint of the table: NOT NULL, a CHECK constraint or a column's invariant.

    Attributes:
        constraint: The name of the CHECK constraint or of the column with the invariant; else None.
        expression: The condition that is not true; else None.
        row: One of the rows at fault, by column; else None.
    """

    raised = RUNTIME

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        constraint: str | None = None,
        expression: str | None = None,
        row: Mapping[str, Any] | None = None,
        condition: Condition | None = None,
    ) -> None:
        self.constraint, self.expression, self.row = constraint, expression, row
        super().__init__(message, table=table, condition=condition)


class MultipleMatches(ConstraintViolated):
    """Two source rows of a MERGE change one table's row."""


class UnsupportedFeature(RowlockError):
    """The table, or what is asked of it, needs a feature that this version lacks.

    Attributes:
        feature: The feature's name.
        access: `read` or `write`: what cannot be done.
    """

    raised = UNSUPPORTED

    def __init__(
        self,
        message: str,
        *,
        feature: str,
        access: Literal["read", "write"],
        table: str | None = None,
        version: int | None = None,
        condition: Condition | None = None,
    ) -> None:
        self.feature, self.access = feature, access
        super().__init__(message, table=table, version=version, condition=condition)
        if _on_refusal is not None:
            _on_refusal(feature)


_on_refusal: Callable[[str], object] | None = None


def on_refusal(call: Callable[[str], object] | None) -> None:
    """From now on `call` is given the feature of each UnsupportedFeature of this process, also of those that a program catches; None ends it."""
    global _on_refusal
    _on_refusal = call


class CorruptLog(RowlockError):
    """The table's log is damaged; nothing is skipped or guessed."""

    def __init__(self, message: str, *, table: str | None = None, version: int | None = None, file: str | None = None) -> None:
        if table is not None and "rowlock check" not in message:
            message = f"{message}; `rowlock check` says what is damaged, and what can be done"
        super().__init__(message, table=table, version=version, file=file)


class StorageError(RowlockError):
    """A store, or what keeps leases and arbitrates commits, failed or refused a request.  What only reads may be tried again."""


class CommitUnknown(RowlockError):
    """It could not be determined whether the commit landed: the store did not say, and the log cannot be read.  No staged file has been deleted.

    Attributes:
        txn_id: The `txnId` that the commit carries where it landed: look for it in the table's history before trying again.
    """

    def __init__(self, message: str, *, txn_id: str, table: str | None = None, version: int | None = None) -> None:
        self.txn_id = txn_id
        super().__init__(message, table=table, version=version)


class CommitOverwrittenWarning(UserWarning):
    """A commit that had landed was replaced, or is gone from the log: its changes are lost.

    Writers that rename a commit file into place, instead of putting it if it is absent, do this (delta-spark on a
    local disk), and so does a backup that is put back.  Noticed when the table is next looked at; turn it into an
    error with `warnings.simplefilter("error", CommitOverwrittenWarning)`.
    """


class ChecksumWarning(UserWarning):
    """A version checksum (`.crc`) differs from what the log of its version gives, or cannot be read: one of the two was damaged.

    The log counts.  Turn it into an error with `warnings.simplefilter("error", ChecksumWarning)`.
    """


class SettingWarning(UserWarning):
    """A setting `spark.databricks.delta.*` of the session, or an option of a read or a write, has no effect on Rowlock, and changes no result.

    Each is named once in a process.
    """


class DeltaConcurrentModificationException(RowlockError):
    """Another transaction committed a change that conflicts with this one.  Base of the conflicts below.

    Attributes:
        conflict: The `rowlock.Conflict` that says what was met, what it cost and what to do; None where none was found.
        remedy: What to do about it.
    """

    happened: ClassVar[str] = "DELTA_CONCURRENT_WRITE"
    """The condition."""

    def __init__(self, message: str, *, table: str | None = None, conflict: Any = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.table, self.conflict = table, conflict
        self.condition = named(self.happened, **_met(conflict, table))
        self.remedy: str | None = remedy if conflict is None else conflict.remedy
        if conflict is None:
            where = [f" [table {table}]"] if table else []
            self.args = ("".join([message, *where, *([f" {remedy}"] if remedy else [])]),)

    @property
    def desc(self) -> str:
        """The message, under the attribute name of PySpark's captured exceptions."""
        return str(self)

    @property
    def winner_version(self) -> int | None:
        """The version of the other commit; None without a `conflict`."""
        return None if self.conflict is None else int(self.conflict.version)

    @property
    def winner_operation(self) -> str | None:
        """The operation of the other commit, as its writer recorded it; None where it recorded none."""
        return getattr(self.conflict, "operation", None)

    @property
    def winner_timestamp_ms(self) -> int | None:
        """When the other commit was made, in milliseconds since the epoch, by its own clock; None where it is not known."""
        return getattr(self.conflict, "timestamp_ms", None)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of data files that both changed, at most 20."""
        return getattr(self.conflict, "files", ())

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Up to 5 of the rows concerned, as the other commit found them."""
        return getattr(self.conflict, "rows", ())

    @property
    def rule(self) -> str | None:
        """The violated conflict rule, such as `rows changed by both`; None without a `conflict`."""
        return getattr(self.conflict, "rule", None)


def _met(conflict: Any, table: str | None) -> dict[str, object]:
    """The parameters of a conflict's condition, as far as the winner is known."""
    return {"tableName": table or ""} | ({} if conflict is None else {"operation": conflict.operation or "transaction", "version": conflict.version})


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """A concurrent transaction has written new data since this one read the table."""


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Rows were added to what this transaction read."""

    happened = "DELTA_CONCURRENT_APPEND.WITHOUT_HINT"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Rows or files that this transaction read were deleted."""

    happened = "DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Rows or files that this transaction deletes were deleted by another."""

    happened = "DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """The same application transaction (appId) was committed by another writer."""

    happened = "DELTA_CONCURRENT_TRANSACTION"


class MetadataChangedException(DeltaConcurrentModificationException):
    """The table's schema, partitioning or properties changed."""

    happened = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """The table's protocol changed."""

    happened = "DELTA_PROTOCOL_CHANGED"


def refuse(statement: str, table: str | None, why: str, instead: str, condition: Condition | None = None) -> NoReturn:
    """Raises UnsupportedFeature for a statement that Rowlock does not let pass."""
    raise UnsupportedFeature(f"{statement} is refused: {why}. {instead}", feature=statement, access="write", table=table, condition=condition)
