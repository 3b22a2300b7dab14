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
    ├── CommitOverwritten          a commit of ours that landed was replaced by another engine
    └── DeltaConcurrentModificationException      (names and tree of delta.exceptions)
        ├── ConcurrentWriteException
        ├── ConcurrentAppendException
        ├── ConcurrentDeleteReadException
        ├── ConcurrentDeleteDeleteException
        ├── ConcurrentTransactionException
        ├── MetadataChangedException
        └── ProtocolChangedException

Nothing was written to the table's log when one of these is raised, save for CommitUnknown and
CommitOverwritten, which say so.  Messages are for people and free to change; fields are for code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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
    """A row breaks a constraint of the table."""


class MultipleMatches(ConstraintViolated):
    """Two source rows of a MERGE match one target row."""


class UnsupportedFeature(RowlockError):
    """The table uses a feature that is not supported for what was asked; `feature` and `access` ('read' or 'write') name it."""

    def __init__(self, message: str, *, feature: str, access: str, table: str | None = None, version: int | None = None) -> None:
        self.feature, self.access = feature, access
        super().__init__(message, table=table, version=version)


class CorruptLog(RowlockError):
    """The table's log is damaged."""


class CommitUnknown(RowlockError):
    """Whether the commit landed could not be found out; nothing that was staged has been deleted."""

    def __init__(self, message: str, *, txn_id: str, table: str | None = None, version: int | None = None) -> None:
        self.txn_id = txn_id
        super().__init__(message, table=table, version=version)


class CommitOverwritten(RowlockError):
    """A commit that had landed was overwritten by a writer that does not put-if-absent."""


class DeltaConcurrentModificationException(RowlockError):
    """Another transaction committed something that this one cannot live with.

    Fields: `winner_version`, `winner_operation`, `winner_timestamp_ms`, `files` (paths that both
    touched), `rows` (up to 5 samples, as dicts), `rule`, `remedy`.
    """

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        winner_version: int | None = None,
        winner_operation: str | None = None,
        winner_timestamp_ms: int | None = None,
        files: Sequence[str] = (),
        rows: Sequence[Mapping[str, Any]] = (),
        rule: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.winner_version, self.winner_operation, self.winner_timestamp_ms = winner_version, winner_operation, winner_timestamp_ms
        self.files, self.rows, self.rule, self.remedy = tuple(files), tuple(rows), rule, remedy
        text = message
        if winner_version is not None:
            text += f" The winner is version {winner_version}" + (f" ({winner_operation})." if winner_operation else ".")
        if self.files:
            text += f" Files: {', '.join(self.files[:5])}" + (f" and {len(self.files) - 5} more." if len(self.files) > 5 else ".")
        if remedy:
            text += f" {remedy}"
        super().__init__(text, table=table)


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
