"""Every error that Rowlock raises, in one tree, sorted by what the caller does next.

    RowlockError
    ├── TableNotFound              no Delta table at the path: create it, or mend the path
    ├── TableExists                there is one already: open it, or choose another mode
    ├── VersionNotFound            the version or time is not in the log: choose another
    ├── InvalidInput (ValueError)  the call cannot mean anything: mend the call
    │   ├── WrongType (TypeError)  an argument is of another type than is taken
    │   ├── SchemaMismatch         rows or columns do not fit the table
    │   └── StatementRefused       Delta does not allow this in this statement
    ├── ConstraintViolated         a row breaks NOT NULL, or a MERGE matches a row twice
    │   └── MultipleMatches
    ├── UnsupportedFeature         the table needs something this version lacks; named
    ├── CorruptLog                 the log is damaged; the file is named, nothing is skipped
    ├── CommitUnknown              the put may or may not have landed and the log cannot be read
    └── DeltaConcurrentModificationException      (names of delta.exceptions)
        ├── ConcurrentWriteException
        ├── ConcurrentAppendException
        ├── ConcurrentDeleteReadException
        ├── ConcurrentDeleteDeleteException
        ├── ConcurrentTransactionException
        ├── MetadataChangedException
        └── ProtocolChangedException

The last eight have the names of `delta.exceptions`, so that `except` clauses go on catching what they
caught when only the import is changed.  Two things differ.  There each of the eight stands alone under
PySparkException, though Delta's documentation and its Java classes have DeltaConcurrentModificationException
as the base of the others: here it is, so a clause for it catches all of them and belongs after the clauses
for single ones.  And here they are no PySparkExceptions, for no JVM raised them: a clause for
PySparkException does not catch them.  A conflict of metadata domains is a ConcurrentTransactionException,
as in delta-spark.

Nothing was written to the table's log when one of these is raised, save for CommitUnknown, which says so.
Messages are for people and free to change; fields are for code.

CommitOverwrittenWarning is a warning and no error: by the time that it is noticed, the commit is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


class RowlockError(Exception):
    """Base of all errors; `table` is the table's path where one is concerned."""

    def __init__(self, message: str, *, table: str | None = None, version: int | None = None, file: str | None = None) -> None:
        self.table, self.version, self.file = table, version, file
        where = [f"table {table}"] if table else []
        if version is not None:
            where.append(f"version {version}")
        if file:
            where.append(f"file {file}")
        super().__init__(f"{message} [{', '.join(where)}]" if where else message)


class TableNotFound(RowlockError):
    """There is no Delta table at the path."""


class TableExists(RowlockError):
    """There is a table, or something else, at the path already."""


class VersionNotFound(RowlockError):
    """The version or timestamp asked for is not in the log."""


class InvalidInput(RowlockError, ValueError):
    """The call cannot be carried out as it was given."""


class WrongType(InvalidInput, TypeError):
    """An argument is of a type that the call does not take."""


class SchemaMismatch(InvalidInput):
    """Rows or columns do not fit the table's schema."""


class StatementRefused(InvalidInput):
    """The statement holds something that Delta does not allow in it; `what` names it."""

    def __init__(self, message: str, *, what: str, table: str | None = None) -> None:
        self.what = what
        super().__init__(message, table=table)


class ConstraintViolated(RowlockError):
    """A row breaks a constraint of the table.

    Of a CHECK constraint or a column's invariant `constraint` is the name, `expression` the condition that
    is not true, and `row` one of the rows at fault; else they are None.
    """

    def __init__(
        self, message: str, *, table: str | None = None, constraint: str | None = None, expression: str | None = None, row: Mapping[str, Any] | None = None
    ) -> None:
        self.constraint, self.expression, self.row = constraint, expression, row
        super().__init__(message, table=table)


class MultipleMatches(ConstraintViolated):
    """Two source rows of a MERGE match one target row."""


class UnsupportedFeature(RowlockError):
    """The table uses a feature that is not supported for what was asked; `feature` and `access` ('read' or 'write') name it."""

    def __init__(self, message: str, *, feature: str, access: Literal["read", "write"], table: str | None = None, version: int | None = None) -> None:
        self.feature, self.access = feature, access
        super().__init__(message, table=table, version=version)


class CorruptLog(RowlockError):
    """The table's log is damaged."""


class CommitUnknown(RowlockError):
    """Whether the commit landed could not be found out; nothing that was staged has been deleted."""

    def __init__(self, message: str, *, txn_id: str, table: str | None = None, version: int | None = None) -> None:
        self.txn_id = txn_id
        super().__init__(message, table=table, version=version)


class CommitOverwrittenWarning(UserWarning):
    """A commit that had landed was replaced, or is gone from the log: its changes are lost.

    Writers that rename a commit file into place, instead of putting it if it is absent, do this (delta-spark on a
    local disk), and so does a backup that is put back.  Noticed when the table is next looked at; turn it into an
    error with `warnings.simplefilter("error", CommitOverwrittenWarning)`.
    """


class DeltaConcurrentModificationException(RowlockError):
    """Another transaction committed something that this one cannot live with.

    `conflict` is the `rowlock.Conflict` that says what was met, what it cost and what to do, where one
    was found; its main facts are fields of the error as well.  `remedy` says what to do about it.
    """

    def __init__(self, message: str, *, table: str | None = None, conflict: Any = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.table, self.conflict = table, conflict
        self.remedy: str | None = remedy if conflict is None else conflict.remedy
        if conflict is None:
            where = [f" [table {table}]"] if table else []
            self.args = ("".join([message, *where, *([f" {remedy}"] if remedy else [])]),)

    @property
    def desc(self) -> str:
        """The message, under the name that PySpark's captured exceptions have for it."""
        return str(self)

    @property
    def winner_version(self) -> int | None:
        return None if self.conflict is None else int(self.conflict.version)

    @property
    def winner_operation(self) -> str | None:
        return getattr(self.conflict, "operation", None)

    @property
    def winner_timestamp_ms(self) -> int | None:
        return getattr(self.conflict, "timestamp_ms", None)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths that both touched."""
        return getattr(self.conflict, "files", ())

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Up to 5 of the rows concerned."""
        return getattr(self.conflict, "rows", ())

    @property
    def rule(self) -> str | None:
        return getattr(self.conflict, "rule", None)


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """A concurrent transaction has written new data since this one read the table."""


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Rows were added to what this transaction read."""


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Rows or files that this transaction read were deleted."""


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Rows or files that this transaction deletes were deleted by another."""


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """The same application transaction (appId) was committed by another writer."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """The table's schema, partitioning or properties changed."""


class ProtocolChangedException(DeltaConcurrentModificationException):
    """The table's protocol changed."""
