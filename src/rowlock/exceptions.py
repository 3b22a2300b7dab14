"""All errors that Rowlock raises, in one tree, divided by what the caller does next.

    RowlockError
    ├── TableNotFound              no Delta table at the path: create it, or correct the path
    ├── TableExists                there is one already: open it, or choose another mode
    ├── VersionNotFound            the version or time is not in the log: choose another
    ├── InvalidInput (ValueError)  the call cannot be carried out: correct the call
    │   ├── WrongType (TypeError)  an argument has a type that the call does not accept
    │   ├── SchemaMismatch         rows or columns do not fit the table
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

The last eight have the names of `delta.exceptions`, so that existing `except` clauses keep working when only the
import is changed.  There are two differences.  In `delta.exceptions` each of the eight derives directly from
PySparkException; here DeltaConcurrentModificationException is the base of the others, as in Delta's documentation and
Java classes, so a clause for it catches all of them and must come after the clauses for single ones.  And here they
are not PySparkExceptions, since no JVM raised them: a clause for PySparkException does not catch them.  A conflict of
metadata domains is a ConcurrentTransactionException, as in delta-spark.

Nothing was written to the table's log when one of these is raised, save for CommitUnknown, which says so.
StorageError may come of every call that reads or writes a table: a disk that is full, access that is denied, a bucket that is not there.
Messages are for people and free to change; fields are for code.

CommitOverwrittenWarning is a warning and no error: by the time that it is noticed, the commit is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal


class RowlockError(Exception):
    """Base of all errors.

    Attributes:
        table: The table's path, where one is concerned.
        version: The table's version, where one is concerned.
        file: The file, where one is concerned.

    Examples:
        >>> try:
        ...     rowlock.to_arrow(path, version=99)
        ... except rowlock.exceptions.VersionNotFound as error:
        ...     error.table == path
        True
    """

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
    """There is already a table, or something else, at the path."""


class VersionNotFound(RowlockError):
    """The version or timestamp asked for is not in the log."""


class InvalidInput(RowlockError, ValueError):
    """The call cannot be carried out as it was given.  It is a ValueError, too."""


class WrongType(InvalidInput, TypeError):
    """An argument has a type that the call does not accept.  It is a TypeError, too."""


class SchemaMismatch(InvalidInput):
    """Rows or columns do not fit the table's schema."""


class StatementRefused(InvalidInput):
    """The statement contains something that Delta does not allow in it.

    Attributes:
        what: What is not allowed.
    """

    def __init__(self, message: str, *, what: str, table: str | None = None) -> None:
        self.what = what
        super().__init__(message, table=table)


class ConstraintViolated(RowlockError):
    """A row breaks a constraint of the table: NOT NULL, a CHECK constraint or a column's invariant.

    Attributes:
        constraint: The name of the CHECK constraint or of the column with the invariant; else None.
        expression: The condition that is not true; else None.
        row: One of the rows at fault, by column; else None.
    """

    def __init__(
        self, message: str, *, table: str | None = None, constraint: str | None = None, expression: str | None = None, row: Mapping[str, Any] | None = None
    ) -> None:
        self.constraint, self.expression, self.row = constraint, expression, row
        super().__init__(message, table=table)


class MultipleMatches(ConstraintViolated):
    """Two source rows of a MERGE change one table's row."""


class UnsupportedFeature(RowlockError):
    """The table, or what is asked of it, needs a feature that this version lacks.

    Attributes:
        feature: The feature's name.
        access: `read` or `write`: what cannot be done.
    """

    def __init__(self, message: str, *, feature: str, access: Literal["read", "write"], table: str | None = None, version: int | None = None) -> None:
        self.feature, self.access = feature, access
        super().__init__(message, table=table, version=version)
        if _on_refusal is not None:
            _on_refusal(feature)


_on_refusal: Callable[[str], object] | None = None


def on_refusal(call: Callable[[str], object] | None) -> None:
    """From now on `call` is given the feature of each UnsupportedFeature of this process, also of those that a program catches; None ends it."""
    global _on_refusal
    _on_refusal = call


class CorruptLog(RowlockError):
    """The table's log is damaged; nothing is skipped or guessed."""


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
    """A setting `spark.databricks.delta.*` of the session has no effect on Rowlock, and changes no result; each is named once in a process."""


class DeltaConcurrentModificationException(RowlockError):
    """Another transaction committed a change that conflicts with this one.  Base of the conflicts below.

    Attributes:
        conflict: The `rowlock.Conflict` that says what was met, what it cost and what to do; None where none was found.
        remedy: What to do about it.
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
